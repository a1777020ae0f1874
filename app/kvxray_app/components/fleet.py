"""The fleet: every engine of every make in one line, how it is and how much of it can be known. Drawn by `fleet.js`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvxray_app.components.live_component import Shown, mount_live
from kvxray_app.components.overview_panels import STATUSES

MAKES = {
    "kvxray": "kvxray",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "dynamo": "Dynamo",
    "router": "Router",
    "other": "Other",
}
STATES = {
    "waiting": "waiting for its first event",
    "joining": "joining",
    "connected": "connected",
    "stale": "not heard any more",
    "no_stream": "no event stream",
    "past": "only its past",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table. figure: name of its figure in `/api/engines`, empty where it is none."""

    key: str
    label: str
    meaning: str
    figure: str = ""


COLUMNS: tuple[Column, ...] = (
    Column("status", "Status", "Whether its cache is healthy, and whether the engine is heard."),
    Column("name", "Engine", "Its name, what it is, its model and its role."),
    Column("sentence", "What is the matter", "The verdict in one sentence."),
    Column(
        "usage", "In use", "Blocks that requests hold, of all that can hold tokens, as the engine tells it.", "usage"
    ),
    Column("hit_rate", "Hit rate", "Prompt tokens found in the prefix cache, of those looked up.", "hit_rate"),
    Column("evictions_per_s", "Evictions", "Cached blocks given up, each second.", "evictions_per_s"),
    Column("cached", "Cached", "Blocks that a later prompt can hit, of how many there are.", "cached_blocks"),
    Column("running", "Running", "Requests being computed.", "running"),
    Column("waiting", "Waiting", "Requests that wait to be computed.", "waiting"),
    Column("coverage", "Known", "How many panels are exact, how many derived, how many this engine does not tell."),
    Column("findings", "Findings", "What is found to be wrong and still is."),
)


def fleet_screen() -> None:
    """Mount it here."""
    mount_live("fleet", Shown(None), key="fleet", fleet=fleet_words())


def fleet_words() -> dict[str, Any]:
    """All of its words as the component takes them."""
    columns = [asdict(column) for column in COLUMNS]
    return {"columns": columns, "statuses": STATUSES, "makes": MAKES, "states": STATES}
