"""One fault in one run: what it did by its own account, what was found, and what fired."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.analysis.finding import Finding
from kvxray_engine.faults.dice import Deed
from kvxray_engine.faults.fault import Fault

from tests.faults.matrix import MATRIX, Expected, Owner
from tests.faults.watched_engine import WatchedEngine

Account = Counter[Hashable]
"""Who or what, and how often: holders with their blocks, blocks with who let go of or got them, messages by number."""


@dataclass(frozen=True, slots=True)
class FaultRun:
    """`did`: by the fault's own account. `told`: by findings of the expected kind, all of the run. `detected_s`: from
    the first time that it happened to the first alert of the expected rule, in the engine's time; None: it did not
    fire.
    """

    expected: Expected
    happened: int
    did: Account
    told: Account
    findings: list[Finding]
    fired: list[Alert]
    detected_s: float | None

    def told_by(self, alert: Alert) -> Account:
        return told(self.expected.owner, self.expected.finding, alert.findings)


def run(name: str, seed: int) -> FaultRun:
    """At the fault's usual rate."""
    expected, times_ns = MATRIX[name], list[int]()
    with tempfile.TemporaryDirectory() as folder, WatchedEngine(Path(folder), (Fault(name, seed=seed),), seed) as world:
        dice = world.dice_of(name)

        def note_first() -> None:
            if dice.happened and not times_ns:
                times_ns.append(world.now_ns)

        world.on_tick = note_first
        world.work(expected.load_s)
        world.finish()
        world.idle(expected.rest_s)
        if not expected.rule:
            world.assert_nothing_is_lost()
        findings, fired = [*world.desk.findings.values()], world.desk.fired
        caught = [alert.fired_ns for alert in fired if alert.rule == expected.rule]
        return FaultRun(
            expected,
            dice.happened,
            done(expected.owner, dice.deeds, world.recorder.name_of),
            told(expected.owner, expected.finding, findings),
            findings,
            fired,
            (caught[0] - times_ns[0]) / 1e9 if caught and times_ns else None,
        )


def done(owner: Owner, deeds: Iterable[Deed], name_of: dict[int, str]) -> Account:
    """What a fault says that it did."""
    if owner == "pin":
        return Counter(name_of[deed.holder] for deed in deeds)
    if owner in ("request", "lease"):
        return Counter((name_of[deed.holder], frozenset(deed.blocks)) for deed in deeds)
    if owner == "block":
        return Counter({(name_of[deed.holder], block) for deed in deeds for block in deed.blocks})
    return Counter(deed.message if owner == "message" else "" for deed in deeds)


def told(owner: Owner, kind: str, findings: Iterable[Finding]) -> Account:
    """What findings say of it, in the same terms."""
    theirs = [one for one in findings if one.kind == kind]
    if owner == "pin":  # those of its blocks that others use too are not to blame
        return Counter(one.subjects.requests[0] for one in theirs)
    if owner in ("request", "lease"):
        return Counter((one.subjects.requests[0], frozenset(one.subjects.blocks)) for one in theirs)
    if owner == "block":  # who was robbed is no culprit, and is not named
        return Counter(
            {(who, block) for one in theirs for who in one.subjects.requests for block in one.subjects.blocks}
        )
    if owner == "message":
        return Counter(number for one in theirs for number in messages_of(one))
    return Counter("" for _ in theirs)


def messages_of(gap: Finding) -> range:
    """Numbers of the messages that are missing."""
    first = int(gap.id.rpartition(":")[2])
    return range(first, first + int(gap.numbers["messages"]))
