"""Whether all analyses keep up with an engine that tells half a million events a second.

A made-up engine tells rows of every kind, healthy and with thousands of leaks, in pools of two sizes; its messages are
made beforehand. They are decoded, put in order, joined and folded as in a backend's thread that follows an engine,
once with all analyses at their own pace and once with none, in turns. Then every rule is looked at over many engines
with a day of metrics each.

Time is processor time of the thread: what else runs on the machine takes no part in it. All of it is one process with
one interpreter lock, so shares of the time add up. Analyses are paced, not sampled: at most twice a second, for at most
a twentieth of the time. `verdict_age_s_max` says how old a verdict was at most, `lag_s_max` how late any event was
folded.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from kvxray_backend.alerts.alert_book import AlertBook, Now
from kvxray_backend.alerts.alert_watch import LOOK_EVERY_S, ONE_PART_OF
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.analysis.finding import Finding
from kvxray_engine.stream.codec import encode

from benchmarks.measuring.followed_pool import AT_ONCE, Followed, FollowedPool
from benchmarks.measuring.generated_log import messages
from benchmarks.measuring.leaky_engine import LeakyEngine
from benchmarks.measuring.watched_fleet import SCRAPE_S, WatchedFleet

ROWS_OF_A_MESSAGE = 800  # what the model engine is told: of about 512 rows each
WARM_SHARE = 0.5
"""Of the rows: the pool fills and leaks collect before anything is measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pool and whether it leaks."""

    name: str
    blocks: int
    leaks: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench analysis", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--rows", type=int, default=4_000_000, help="events of each pool")
    parser.add_argument("--rate", type=int, default=500_000, help="events a second that the engine tells")
    parser.add_argument("--blocks", type=int, nargs="+", default=[32_768, 1_048_576], help="blocks of the pools")
    parser.add_argument("--leaks", type=int, default=4_000, help="holders that leak, where any do")
    parser.add_argument("--rounds", type=int, default=8, help="turns in which both ways are measured")
    parser.add_argument("--engines", type=int, default=20, help="engines that the rules are looked at over")
    parser.add_argument("--looks", type=int, default=30, help="how often they are looked at")
    options = parser.parse_args()
    result = measure(options)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    pools, findings = dict[str, Any](), list[Finding]()
    for case in cases(options):
        print(f"{case.name}: making {options.rows:,} rows", file=sys.stderr)
        pools[case.name], found = Pools(case, options).measured()
        findings = max(findings, found, key=len)
    print("looking at the rules", file=sys.stderr)
    rules = looked_at_rules(options.engines, options.looks, findings)
    slowest = min(pool["rows_per_s"] for pool in pools.values())
    return {
        "offered_rows_per_s": options.rate,
        "pools": pools,
        "rules": rules,
        "rows_per_s_slowest_pool_with_rules": round(slowest * (1 - rules["share_of_time"])),
        "keeps_up": all(pool["keeps_up"] for pool in pools.values()),
    }


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for blocks in options.blocks:
        yield Case(f"healthy, {blocks:,} blocks", blocks, 0)
        yield Case(f"leaking, {blocks:,} blocks", blocks, options.leaks)


class Pools:
    """One engine, followed with all analyses and with none."""

    def __init__(self, case: Case, options: argparse.Namespace) -> None:
        self._rate = options.rate
        self._rounds = options.rounds
        engine = LeakyEngine(case.blocks, ROWS_OF_A_MESSAGE, case.leaks)
        self._payloads = [encode(one.header, one.columns) for one in messages(engine, options.rows)]
        self._with = FollowedPool(engine.descriptor(), engine.incarnation, with_analyses=True)
        self._without = FollowedPool(engine.descriptor(), engine.incarnation, with_analyses=False)

    def measured(self) -> tuple[dict[str, Any], list[Finding]]:
        """Its figures, and what is found in it at the end."""
        begin = int(len(self._payloads) * WARM_SHARE)
        for one in (self._with, self._without):
            one.follow(self._payloads[:begin])
        gc.collect()
        gc.freeze()  # as `kvxray serve` does when it begins
        size = max(AT_ONCE, -(-(len(self._payloads) - begin) // self._rounds))
        ours, bare = list[Followed](), list[Followed]()
        for number, at in enumerate(range(begin, len(self._payloads), size)):
            some = self._payloads[at : at + size]
            if number % 2:
                bare.append(self._without.follow(some))
            ours.append(self._with.follow(some, self._rate))
            if not number % 2:
                bare.append(self._without.follow(some))
        gc.unfreeze()
        return figures(ours, bare, self._rate) | self._found(), [*self._with.live.findings]

    def _found(self) -> dict[str, Any]:
        return {
            "leaking_holders": len(self._with.live.leaks),
            "open_findings": len(self._with.live.findings),
        }


def figures(ours: list[Followed], bare: list[Followed], rate: int) -> dict[str, Any]:
    """ours, bare: of the same rows, with all analyses and with none."""
    looking = [seconds for one in ours for seconds in one.looking_s]
    lags = [lag for one in ours for lag in one.lag_s]
    rates, bare_rates = [one.rows / one.busy_s for one in ours], [one.rows / one.busy_s for one in bare]
    rows, busy_s = sum(one.rows for one in ours), sum(one.busy_s for one in ours)
    return {
        "rows": rows,
        "rows_per_s": round(rows / busy_s),
        "rows_per_s_without": round(median(bare_rates)),
        "ratio_with_without": round(median(a / b for a, b in zip(rates, bare_rates, strict=True)), 3),
        "share_looking": round(sum(looking) / max(rows / rate, busy_s), 4),
        "inspections": len(looking),
        "inspection_ms_p50": round(1000 * median(looking), 2) if looking else None,
        "inspection_ms_max": round(1000 * max(looking), 2) if looking else None,
        "verdict_age_s_max": verdict_age_s(ours),
        "lag_s_max": round(max(lags), 3),
        "lag_s_end": round(lags[-1], 3),
        # What was late because of an inspection is caught up with before the next.
        "keeps_up": lags[-1] < max(looking, default=0.0) + 0.05 and rows / busy_s >= rate,
    }


def verdict_age_s(ours: list[Followed]) -> float | None:
    """The longest time between the ends of two inspections: so old is a verdict just before the next."""
    ends = [at_s for one in ours for at_s in one.looked_at_s]
    ages = [later - earlier for earlier, later in zip(ends, ends[1:], strict=False)]
    return round(max(ages), 3) if ages else None


def looked_at_rules(engines: int, looks: int, findings: list[Finding]) -> dict[str, Any]:
    """Every rule over so many engines; one of them has findings."""
    now_s = 1_800_000_000.0
    fleet, ids = WatchedFleet(engines, now_s), iter(range(1_000_000))
    book = AlertBook(lambda: str(next(ids)), lambda rule, engine, error: sys.exit(f"{rule}: {error!r}"))
    seconds = []
    for _ in range(looks):
        now_s += SCRAPE_S
        fleet.read(now_s)
        fleet.found(findings)
        began_s = time.thread_time()
        book.look(RULES, fleet.engines, Now(now_s, now_s, int(now_s * 1e9)))
        seconds.append(time.thread_time() - began_s)
    every_s = [max(LOOK_EVERY_S, ONE_PART_OF * one) for one in seconds]
    return {
        "rules": len(RULES),
        "engines": engines,
        "findings": len(findings),
        "firing": len(book.firing),
        "look_ms_p50": round(1000 * median(seconds), 2),
        "look_ms_max": round(1000 * max(seconds), 2),
        "share_of_time": round(sum(seconds) / sum(every_s), 4),
        "look_every_s_max": round(max(every_s), 2),
    }


if __name__ == "__main__":
    sys.exit(main())
