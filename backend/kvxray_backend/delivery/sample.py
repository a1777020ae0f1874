"""An alert that nobody had, to try a template on before the first real one depends on it."""

from __future__ import annotations

from typing import Final

from kvxray_backend.alerts.alert import Alert, AlertMoment, AlertNumber
from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.delivery.message import Message

_TIME_NS: Final = 1_767_225_600_000_000_000
_SENTENCE: Final = 'Request "r-17" holds 12 blocks,\nthough it is over.'
_FINDING: Final = Finding(
    id="leak-1",
    kind="leak",
    severity="critical",
    source="engine",
    epoch=1,
    seq0=10,
    seq1=20,
    time_ns=_TIME_NS,
    subjects=Subjects(blocks=(3,), requests=("r-17",)),
    numbers={"blocks": 12},
    sentence=_SENTENCE,
)
_FIRED: Final = Alert(
    id="sample",
    rule="LeakNamed",
    severity="critical",
    engine="engine",
    labels={"cluster": "east", "pod": "vllm-0"},
    state="firing",
    began_ns=_TIME_NS,
    fired_ns=_TIME_NS,
    moment=AlertMoment(source="engine", epoch=1, seq=20, time_ns=_TIME_NS),
    sentence="Blocks are held by requests that are over.",
    culprit=_SENTENCE,
    findings=(_FINDING,),
    num_findings=1,
    numbers=(AlertNumber(words="blocks held", value=12.0, limit=0.0),),
)
# What need not be known is not, so that a template that relies on it is found out.
_OVER: Final = _FIRED.model_copy(
    update={
        "state": "over", "ended_ns": _TIME_NS, "labels": {}, "culprit": "", "findings": (), "num_findings": 0,
        "numbers": (AlertNumber(words="blocks held", value=None, limit=None),),
        "moment": AlertMoment(source="", epoch=None, seq=None, time_ns=_TIME_NS),
    }
)  # fmt: skip
SAMPLES: Final = (
    Message("sample:fired:hook", "fired", _FIRED, "engine: a sample.", "A sample.", "http://page/1", "http://page/2"),
    Message("sample:over:hook", "over", _OVER, "engine: a sample.", "", "http://page/1", "http://page/2"),
)
