"""Whether what came out is what a case expects: hashes in one spelling, findings in any order, figures as figures."""

from __future__ import annotations

import math
from typing import Any

from tests.conformance.hashes import spelled

_HASH_LISTS = {"resident", "resident_certain", "resident_maybe", "reachable"}
_HASH_ARGUMENTS = {
    "orphan_parent", "store_on_missing_parent", "duplicate_store", "remove_unknown", "unreachable_resident",
    "hash_namespace_collision", "thrash",
}  # fmt: skip


def expected(key: str, told: Any) -> Any:
    """What a case expects, spelled as answers are."""
    if key in _HASH_LISTS:
        return sorted(map(spelled, told))
    if key == "findings":
        return sorted(map(_code, told))
    if key == "reuses":
        return {spelled(one): count for one, count in told.items()}
    if key == "resident_by_medium":
        return {medium.upper(): sorted(map(spelled, hashes)) for medium, hashes in told.items() if hashes}
    if key == "resident_by_group":
        return {str(group): sorted(map(spelled, hashes)) for group, hashes in told.items() if hashes}
    return told


def agrees(key: str, wanted: Any, got: Any) -> bool:
    """`wanted` as `expected` spells it."""
    if key == "findings":
        return _findings_agree(wanted, got)
    if isinstance(wanted, float) or isinstance(got, float):
        return _is_number(wanted) and _is_number(got) and math.isclose(wanted, got, rel_tol=1e-9, abs_tol=1e-12)
    return bool(type(wanted) is type(got) and wanted == got)


def _findings_agree(wanted: list[str], got: list[str]) -> bool:
    """A bare kind stands for every finding of its kind; what is expected with an argument must be that very one."""
    bare = {one for one in wanted if ":" not in one}
    is_all_found = all(one in got or (one in bare and any(_kind(other) == one for other in got)) for one in wanted)
    return is_all_found and all(one in wanted or _kind(one) in bare for one in got)


def _kind(code: str) -> str:
    return code.partition(":")[0]


def _code(told: str) -> str:
    kind, colon, argument = told.partition(":")
    return f"{kind}:{spelled(argument)}" if colon and kind in _HASH_ARGUMENTS else told


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
