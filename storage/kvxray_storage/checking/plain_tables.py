"""Rows of a table one by one, each by its sum and for sense: what they say follows from nothing else that is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.checking.fault import Fault, Verdict
from kvxray_storage.checking.stored_rows import Values, place_of, rows_of, sum_fault
from kvxray_storage.rollup_columns import COUNTERS, GAUGES, MAXIMA
from kvxray_storage.state_kinds import read_descriptor

_PROGRESS_ROWS: Final = 50_000
_DETAIL: Final = msgspec.json.Decoder(dict[str, str | int] | tuple[str, int, int, str, str, str, str])
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_LABELS: Final = msgspec.json.Decoder(dict[str, str])


def check_table(
    connection: sa.Connection, verdict: Verdict, table: sa.Table, source: str, *conditions: sa.ColumnElement[bool]
) -> None:
    """source: whose rows these are; "" where each row says so itself, or is of no source."""
    for values in rows_of(connection, table, *conditions):
        verdict.checked[table.name] += 1
        if verdict.checked[table.name] % _PROGRESS_ROWS == 0:
            verdict.on_progress(f"{verdict.checked[table.name]:,} rows of {table.name}")
        check_row(verdict, table, source, values)


def check_row(verdict: Verdict, table: sa.Table, source: str, values: Values) -> None:
    wrong = sum_fault(table, values)
    if wrong is None:
        verdict.not_checked[f"rows of {table.name} that an older kvxray stored without a sum"] += 1
    what = wrong or senseless(table, values)
    if what:
        told = values.get("source")
        verdict.tell(
            Fault(table.name, source or (str(told) if told is not None else ""), values.get("epoch"),
                  place_of(table, values), what)
        )  # fmt: skip


def senseless(table: sa.Table, values: Values) -> str:
    """What cannot be in a row, whoever wrote it; "" where all may be."""
    for name, value in values.items():
        if isinstance(value, bytes) and isinstance(table.c[name].type, sa.Text):
            return f"{name} is no text"
    try:
        return _SENSE.get(table.name, _nothing)(values)
    except (msgspec.MsgspecError, BadMessage, TypeError, ValueError) as error:
        return f"it cannot be read ({str(error).rstrip('.')})"


def _nothing(_: Values) -> str:
    return ""


def _source(values: Values) -> str:
    _LABELS.decode(values["labels"])
    return "" if values["created_ns"] >= 0 else "it was made before time began"


def _epoch(values: Values) -> str:
    for name in ("descriptor", "first_descriptor"):
        if values[name] is not None:
            read_descriptor(values[name].encode())
    times = [values[name] for name in ("started_ns", "ended_ns", "last_ns", "pruned_ns") if values[name] is not None]
    return "a time of it is negative" if min(times) < 0 else ""


def _name(values: Values) -> str:
    _DETAIL.decode(values["detail"])
    return ""


def _gap(values: Values) -> str:
    if values["wire_seq1"] < values["wire_seq0"]:
        return "it ends before it begins"
    if values["seq1"] is not None and values["seq1"] < values["seq0"] - 1:
        return "its events end before they begin"
    return "it was repaired before time began" if (values["repaired_ns"] or 0) < 0 else ""


def _finding(values: Values) -> str:
    subjects = _OBJECT.decode(values["subjects"])
    _OBJECT.decode(values["numbers"])
    if not all(isinstance(one, str) for one in subjects.get("requests", [])):
        return "it names requests that are no text"
    if values["state"] not in ("open", "ended"):
        return f"its state is {values['state']!r}, neither open nor ended"
    if (values["state"] == "open") != (values["ended_ns"] is None):
        return "it is open and has an end, or has neither"
    return ""


def _bookmark(values: Values) -> str:
    return "" if values["epoch"] >= 1 and values["seq"] >= -1 else "it marks no moment that there can be"


def _attached_engine(values: Values) -> str:
    _OBJECT.decode(values["spec"])
    return "it was attached before time began" if values["created_ns"] < 0 else ""


def _signal_minute(values: Values) -> str:
    return "it does not begin with a minute" if values["t_s"] % 60 or values["t_s"] < 0 else ""


def _alert(values: Values) -> str:
    _OBJECT.decode(values["evidence"])
    if values["state"] not in ("firing", "over"):
        return f"its state is {values['state']!r}, neither firing nor over"
    if (values["state"] == "firing") != (values["ended_ns"] is None):
        return "it fires and has an end, or has neither"
    return "it fired before it began" if values["fired_ns"] < values["began_ns"] else ""


def _notification(values: Values) -> str:
    if values["kind"] not in ("fired", "over"):
        return f"it is of a kind {values['kind']!r}, neither fired nor over"
    return "it was tried less than never" if values["attempts"] < 0 else ""


def _mute(values: Values) -> str:
    return "it ends before it began" if values["until_ns"] < values["created_ns"] else ""


def _alert_rule(values: Values) -> str:
    return "a rule without a name" if not values["name"] else ""


def _rollup(span: int) -> Callable[[Values], str]:
    def check(values: Values) -> str:
        if values["t_s"] % span:
            return f"it does not begin with a span of {span} s"
        if min(values[name] for name in (*COUNTERS, *MAXIMA)) < 0:
            return "a count is negative"
        for name in GAUGES:
            last, lowest, highest = (values[f"{name}_{reading}"] for reading in ("last", "min", "max"))
            if last is not None and not (lowest <= last <= highest):
                return f"the last reading of {name} lies outside its range"
        return ""

    return check


def _retention(values: Values) -> str:
    limits = (values[name] for name in ("max_age_s", "max_bytes") if values[name] is not None)
    return "a limit is negative" if min(limits, default=0) < 0 else ""


_SENSE: Final[dict[str, Callable[[Values], str]]] = {
    "source": _source, "epoch": _epoch, "name": _name, "gap": _gap, "finding": _finding, "bookmark": _bookmark,
    "rollup_1s": _rollup(1), "rollup_1m": _rollup(60), "retention": _retention,
    "attached_engine": _attached_engine, "signal_minute": _signal_minute, "alert": _alert,
    "notification": _notification, "mute": _mute, "alert_rule": _alert_rule,
}  # fmt: skip

OF_SOURCE: Final = (models.rollup_1s, models.rollup_1m, models.retention)
"""Tables that are read source by source; names and gaps go with their epochs."""
OF_NOBODY: Final = (
    models.setting, models.attached_engine, models.alert, models.notification, models.mute, models.alert_rule,
)  # fmt: skip
"""Tables whose rows are of no source."""
OF_NAMED: Final = (models.finding, models.bookmark, models.signal_minute)
"""Tables whose rows name their source, which need not have a row of its own."""
