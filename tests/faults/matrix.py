"""What is to become of each fault: the rule that catches it, whom it names, and within what time.

Nothing else may fire but what is argued for here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from kvxray_backend.alerts.alert_watch import LOOK_EVERY_S
from kvxray_backend.analysis.inspector import INSPECT_EVERY_NS
from kvxray_backend.analysis.pins import IDLE_NS
from kvxray_backend.analysis.stream_health import STALE_AFTER_S
from kvxray_engine.faults.endings import LEASE_NS
from kvxray_engine.stream.holder_ends import GRACE_NS

SEEDS: Final = (1, 2, 3)

Owner = Literal["request", "lease", "pin", "block", "message", "engine"]


@dataclass(frozen=True, slots=True)
class Expected:
    """rule: empty where the fault is healed. finding: the kind that names the owner. within_s: from the first time
    that the fault happens to the first alert, in the engine's time. load_s, rest_s: of the run, with requests and
    then without, until all is told. also: other rules that rightly fire, and why.
    """

    rule: str
    finding: str = ""
    owner: Owner = "engine"
    within_s: float = 0.0
    load_s: float = 40.0
    rest_s: float = 20.0
    also: Mapping[str, str] = field(default_factory=dict)


HEALED: Final = Expected("")
_SEEN_S: Final = INSPECT_EVERY_NS / 1e9 + LOOK_EVERY_S
_LEAK_S: Final = GRACE_NS / 1e9 + _SEEN_S
# Who reads the same prompt as it is pinned still uses it for a few seconds.
_PIN_S: Final = IDLE_NS / 1e9 + 10 + _SEEN_S

MATRIX: Final[Mapping[str, Expected]] = MappingProxyType(
    {
        "leak-on-abort": Expected("LeakNamed", "leak", "request", _LEAK_S),
        "leak-on-error": Expected("LeakNamed", "leak", "request", _LEAK_S),
        "forgotten-dereference": Expected("LeakNamed", "leak", "request", _LEAK_S),
        "double-free": Expected("AuditResidual", "double_free", "block", _SEEN_S),
        "ref-underflow": Expected("AuditResidual", "ref_underflow", "block", _SEEN_S),
        "stale-hash": Expected(
            "StaleHash",
            "stale_hash",
            "block",
            _SEEN_S,
            also={"AuditResidual": "the engine counts a hash that by its events is gone: its own totals differ"},
        ),
        "stuck-pin": Expected("PinNeverReleased", "stuck_pin", "pin", _PIN_S, load_s=_PIN_S + 40),
        "expired-lease": Expected("LeakNamed", "leak", "lease", LEASE_NS / 1e9 + _LEAK_S),
        "lost-messages": Expected("ReplayGap", "gap", "message", 60 + LOOK_EVERY_S + _SEEN_S, rest_s=80.0),
        "reordered-messages": HEALED,
        "duplicated-messages": HEALED,
        "frozen-publisher": Expected("StreamStale", "stale", "engine", STALE_AFTER_S + _SEEN_S, load_s=60.0),
    }
)
