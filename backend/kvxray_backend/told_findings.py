"""Which open findings are told where there may be thousands, such as a leak for each of so many requests: in what goes
to every page twice a second, and beside one block or request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from itertools import chain, zip_longest
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.leaks import holder_of

MOST_TOLD: Final = 100


def the_most_telling(findings: Sequence[Finding], limit: int = MOST_TOLD) -> list[Finding]:
    """At most `limit` of them, in the order given: of each kind in turn the newest, so that many of one kind leave
    room for every other.
    """
    if len(findings) <= limit:
        return list(findings)
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(findings, key=lambda finding: (finding.time_ns, finding.id), reverse=True):
        by_kind[finding.kind].append(finding)
    in_turn = (finding for finding in chain.from_iterable(zip_longest(*by_kind.values())) if finding is not None)
    chosen = {finding.id for finding, _ in zip(in_turn, range(limit), strict=False)}
    return [finding for finding in findings if finding.id in chosen]


def about_block(findings: Iterable[Finding], block_id: int, leaking: Set[int]) -> list[Finding]:
    """Those that speak of a block. leaking: the holders it leaks with; a leak lists the first thousand blocks only."""
    return the_most_telling(
        [
            finding
            for finding in findings
            if block_id in finding.subjects.blocks or (finding.kind == "leak" and holder_of(finding) in leaking)
        ]
    )


def about_request(findings: Iterable[Finding], request_id: str) -> list[Finding]:
    """Those that speak of a request."""
    return the_most_telling([finding for finding in findings if request_id in finding.subjects.requests])
