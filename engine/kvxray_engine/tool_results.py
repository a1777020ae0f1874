"""What the tools of the demo's agents answer: log lines, sales, trips, metrics, code and reviews, drawn at random.

A seed gives the same lines each time.
"""

from __future__ import annotations

from random import Random


def log_lines(rng: Random, lines: int) -> str:
    messages = (
        "GET /cart/{} 200 in {} ms",
        "order {} accepted after {} ms",
        "retry {} of 5: upstream closed the connection after {} ms",
        "slow query {}: {} ms",
        "connection pool exhausted: {} waiting for {} ms",
        "cache miss for /article/{}, rendered in {} ms",
    )
    second = rng.randrange(36_000, 72_000)
    written = []
    for _ in range(lines):
        second += rng.randrange(1, 40)
        level = rng.choice(("INFO", "INFO", "INFO", "WARN", "ERROR"))
        message = rng.choice(messages).format(rng.randrange(100, 9999), rng.randrange(3, 4000))
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        written.append(f"{clock} {level} {rng.choice(('web', 'orders', 'mail'))}-{rng.randrange(1, 3)} {message}")
    return "\n".join(written)


def sales_rows(rng: Random, lines: int) -> str:
    articles = (
        "green tea 250 g",
        "oolong 100 g",
        "espresso beans 1 kg",
        "filter coffee 500 g",
        "blue cup",
        "hand mill",
    )
    rows = [
        f"{rng.choice(articles)},week {rng.randrange(1, 53)},"
        f"{rng.randrange(3, 900)} sold,{rng.randrange(200, 9000) / 100} EUR"
        for _ in range(lines)
    ]
    return "article,week,sold,price\n" + "\n".join(rows)


def trips(rng: Random, lines: int) -> str:
    places = ("Hamburg", "Copenhagen", "Malmo", "Gothenburg", "Oslo", "Lubeck", "Rostock", "Stockholm")
    rows = []
    for _ in range(lines):
        start, end = rng.sample(places, 2)
        leaves, takes = rng.randrange(5 * 60, 22 * 60), rng.randrange(50, 500)
        by = rng.choice(("train", "train", "ferry", "flight"))
        arrives = f"{(leaves + takes) // 60 % 24:02d}:{(leaves + takes) % 60:02d}"
        rows.append(
            f"{by} {start} {leaves // 60:02d}:{leaves % 60:02d} - {end} {arrives}, {rng.randrange(19, 240)} EUR"
        )
    return "\n".join(rows)


def metric_rows(rng: Random, lines: int) -> str:
    level = rng.uniform(20, 60)
    rows = []
    for minute in range(lines):
        level = min(99.0, max(1.0, level + rng.uniform(-6, 9)))
        rows.append(f"12:{minute % 60:02d} cpu {level:.0f}% memory {rng.uniform(40, 95):.0f}% p99 {level * 7:.0f} ms")
    return f"host web-{rng.randrange(1, 7)}\n" + "\n".join(rows)


def code_lines(rng: Random, lines: int) -> str:
    names = ("total", "stock", "basket", "price", "discount", "rows", "limit", "page")
    rows = []
    for number in range(1, lines + 1):
        left, right = rng.sample(names, 2)
        shapes = (
            f"{left} = {right} * {rng.randrange(2, 100)}",
            f"if {left} > {right}: return {right}",
            f"for one in {left}: {right} += one.{rng.choice(names)}",
            f"assert {left} >= 0, '{left} below zero'",
            f"{left} = max({right}, {rng.randrange(10)})",
        )
        rows.append(f"{number:3d}  {rng.choice(shapes)}")
    return "\n".join(rows)


def reviews(rng: Random, lines: int) -> str:
    parts = (
        "The oolong came late but it is wonderful.",
        "The handle of the blue cup broke after two weeks.",
        "The hand mill is louder than my old electric one.",
        "Second order this month, always carefully packed.",
        "I was charged twice, and nobody answers the phone.",
        "Nice tea, but the bag does not close any more.",
        "The espresso is too dark for me; I gave it to a friend who loves it.",
        "Could you please sell the filter paper in packs of a thousand?",
    )
    return "\n".join(f"- ({rng.randrange(1, 6)} of 5) {rng.choice(parts)}" for _ in range(lines))
