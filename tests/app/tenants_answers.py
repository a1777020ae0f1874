"""What `/api/tenants` says, as far as tests of the panel of tenants need it."""

from __future__ import annotations

from typing import Any

RED, BLUE, GREEN = "ed" * 16, "b1" * 16, "9e" * 16
ADAPTERS = ("sql-adapter", "chat-adapter", "code-adapter")


def party(tenant: str, told_by: str = "salt") -> dict[str, Any]:
    return {"tenant": tenant, "told_by": told_by}


def shares(
    *tenants: tuple[str, str, int], several: int = 0, not_told: int = 0, unknown: int = 0, certainty: str = "exact"
) -> dict[str, Any]:
    """Tenants as (told_by, tenant, amount), the largest first; of more than 64 the rest are others."""
    total = sum(amount for *_, amount in tenants) + several + not_told + unknown
    told, rest = tenants[:64], tenants[64:]
    return {
        "certainty": certainty, "total": total, "several": several, "not_told": not_told, "unknown": unknown,
        "tenants": [
            {**party(tenant, told_by), "amount": amount, "share": amount / total} for told_by, tenant, amount in told
        ],
        "others": sum(amount for *_, amount in rest), "num_others": len(rest),
    }  # fmt: skip


def evictions(*pairs: tuple[str, str, int], num: int = 0, lost_unknown: int = 0, **changed: Any) -> dict[str, Any]:
    """Pairs as (who lost, who took, blocks), by salt."""
    names = list(dict.fromkeys(name for lost, took, _ in pairs for name in (lost, took)))
    turnover = [
        {**party(name), "lost": (gone := sum(blocks for lost, _, blocks in pairs if lost == name)),
         "lost_to_others": gone, "took": sum(blocks for _, took, blocks in pairs if took == name)}
        for name in names
    ]  # fmt: skip
    return {
        "certainty": "derived", "since": "2026-01-01T00:01:00.000Z", "until": "1.100",
        "until_time": "2026-01-01T00:02:00.000Z", "seconds": 60.0,
        "num": num or sum(blocks for *_, blocks in pairs) + lost_unknown, "tenants": turnover, "num_others": 0,
        "pairs": [{"lost": party(lost), "took": party(took), "blocks": blocks} for lost, took, blocks in pairs],
        "lost_not_told": 0, "lost_unknown": lost_unknown, "took_not_told": 0, "took_unknown": 0, **changed,
    }  # fmt: skip


def tenants_view(**changed: Any) -> dict[str, Any]:
    """Of an engine of blocks: two salts and an adapter, one block that several hold, one of nobody that is told."""
    return {
        "source": "demo", "seq": "1.100", "time": "2026-01-01T00:02:00.000Z", "unit": "blocks", "by": None,
        "told": ["salt", "lora"],
        "held": shares(("salt", RED, 40), ("salt", BLUE, 25), ("lora", ADAPTERS[0], 10), several=15, not_told=10),
        "cached": shares(
            ("salt", BLUE, 120), ("salt", RED, 60), several=15, not_told=5, unknown=40, certainty="derived"
        ),
        "unknown_blocks": 0, "evictions": evictions((RED, BLUE, 18), (BLUE, RED, 4), lost_unknown=3),
        "no_evictions": "", **changed,
    }  # fmt: skip


def nobody_told() -> dict[str, Any]:
    """Requests tell nothing of whom they are."""
    return tenants_view(
        told=[], held=shares(not_told=30), cached=shares(not_told=50, unknown=20, certainty="derived"),
        evictions=evictions(num=7, lost_not_told=7, took_not_told=7),
    )  # fmt: skip


def of_hashes() -> dict[str, Any]:
    """Of an engine that tells of hashes: what is cached, and no evictions."""
    return tenants_view(
        unit="hashes", held=None, evictions=None,
        cached=shares(("salt", RED, 3), ("lora", ADAPTERS[1], 2), not_told=1, certainty="derived"),
        no_evictions="An engine that tells of hashes does not tell for whom one was evicted.",
    )  # fmt: skip
