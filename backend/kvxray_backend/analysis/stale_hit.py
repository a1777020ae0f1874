"""A request that hit a block by a hash that is gone, and so reads what somebody else has written there. Pure."""

from __future__ import annotations

from kvxray_engine.stream.block_map import Fault
from kvxray_engine.stream.stale_blocks import GivenOut

from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.stream_health import Place


def stale_hit_finding(place: Place, fault: Fault, given: GivenOut, reader: str, owner: str) -> Finding:
    """reader: who hit the block; owner: to whom it was given before; empty: not known."""
    digits = fault.block_hash.hex() if fault.block_hash else ""
    since_s = max(fault.t_ns - given.t_ns, 0) / 1e9
    under = f"under hash {digits[:16]}" if digits else "under a hash that was never told"
    to = f"given to {owner}" if owner else "given out anew"
    return place.finding(
        "stale_hit",
        "critical",
        f"{f'Request {reader}' if reader else 'A request'} hit block {fault.block} {under}, though the block was {to} "
        f"{since_s:.1f} s before: it reads keys and values that are not its own.",
        fault.seq,
        fault.block,
        seq0=given.seq,
        seq1=fault.seq,
        time_ns=fault.t_ns,
        subjects=Subjects(
            blocks=(fault.block,),
            requests=tuple(who for who in (reader, owner) if who),
            hashes=(digits,) if digits else (),
        ),
        numbers={"since_s": round(since_s, 3), "given_seq": given.seq, "hit_seq": fault.seq},
        certainty="exact" if fault.is_certain else "derived",
    ).ended(fault.t_ns)
