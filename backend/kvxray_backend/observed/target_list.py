"""Engines out of a list of targets as Prometheus reads one (`file_sd`): groups of addresses with their labels.

A target is where metrics are read; where events are follows from its host and a port. Labels that begin with `__meta_`
are of whoever made the list and are left out; `__scheme__` and `__metrics_path__` mean what they mean to Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.observed.spec import BadSpec, Labels, Make, ObserveSpec, Role, read_spec
from kvxray_backend.source_name import MAX_NAME, as_source_name

MAX_TARGETS: Final = 1024
OURS: Final = "kvxray_"
"""Labels that begin so are for us, and are not kept: name, make, role, events_port, replay_port, ranks."""
_OURS: Final = ("name", "make", "role", "events_port", "replay_port", "ranks")


class TargetList(BaseModel):
    """A file of targets, and what the engines in it have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file_sd: str = Field(min_length=1, max_length=1024, description="The file, JSON or YAML.")
    make: Make = Field(default="vllm", description="What they are.")
    events_port: int | None = Field(default=None, ge=1, le=65_535, description="Port of their events.")
    replay_port: int | None = Field(default=None, ge=1, le=65_535, description="Port that answers replay.")
    topic: str = Field(default="", max_length=512, description="Only topics that begin so.")
    ranks: int = Field(default=1, ge=1, le=1024, description="Data-parallel ranks of each.")
    role: Role = Field(default="both", description="both, prefill or decode.")
    labels: Labels = Field(default_factory=dict, description="Labels of all of them.")
    every_s: float = Field(default=5.0, ge=1.0, le=300.0, description="Seconds between two readings of metrics.")
    store_semantics: str = Field(default="unknown", description="As for one engine.")
    token_file: str | None = Field(default=None, description="As for one engine.")
    token_env: str | None = Field(default=None, description="As for one engine.")
    ca_file: str | None = Field(default=None, description="As for one engine.")


def targets_of(common: TargetList, groups: Any) -> list[ObserveSpec]:
    """groups: the file's plain data. Raises `BadSpec`, one sentence, for the first that is wrong."""
    if not isinstance(groups, list):
        raise BadSpec("A list of targets is a list of groups, each with targets and labels.")
    specs: list[ObserveSpec] = []
    for group in groups:
        targets, labels = _read_group(group)
        if len(specs) + len(targets) > MAX_TARGETS:
            raise BadSpec(f"There are more than {MAX_TARGETS:,} targets.")
        specs += [_engine(common, target, labels) for target in targets]
    return specs


def _read_group(group: Any) -> tuple[list[str], dict[str, str]]:
    if not isinstance(group, Mapping) or not isinstance(group.get("targets"), list):
        raise BadSpec("Each group has targets, a list of host:port, and may have labels.", "targets")
    labels = group.get("labels") or {}
    targets = group["targets"]
    if not isinstance(labels, Mapping) or not all(isinstance(one, str) for one in (*targets, *labels)):
        raise BadSpec("Targets are texts such as host:port, labels are names with values.", "labels")
    return targets, {name: str(value) for name, value in labels.items() if not name.startswith("__meta_")}


def _engine(common: TargetList, target: str, labels: Mapping[str, str]) -> ObserveSpec:
    address = labels.get("__address__", target)
    host = _host(address)
    told = {name: labels[OURS + name] for name in _OURS if OURS + name in labels}
    kept = {name: value for name, value in labels.items() if not name.startswith(("__", OURS))}
    raw: dict[str, Any] = {
        "name": told.get("name") or _name(kept.get("pod", ""), target),
        "labels": {**common.labels, **kept},
        "metrics": f"{labels.get('__scheme__', 'http')}://{address}{labels.get('__metrics_path__', '/metrics')}",
        "role": told.get("role", common.role),
        "make": told.get("make", common.make),
        **{
            name: getattr(common, name) for name in ("every_s", "store_semantics", "token_file", "token_env", "ca_file")
        },
    }
    events_port = told.get("events_port", common.events_port)
    replay_port = told.get("replay_port", common.replay_port)
    # An engine that only decodes tells no events, and dialling it for hours fills its log.
    if events_port is not None and raw["role"] != "decode":
        raw |= {"events": f"tcp://{host}:{events_port}", "topic": common.topic}
        raw |= {"ranks": told.get("ranks", common.ranks)}
        raw |= {"replay": f"tcp://{host}:{replay_port}"} if replay_port is not None else {}
    return read_spec(raw)


def _host(address: str) -> str:
    """Of host:port, [v6]:port or a host alone."""
    if address.startswith("["):
        return address.partition("]")[0] + "]"
    return address.rpartition(":")[0] or address


def _name(pod: str, target: str) -> str:
    """The same for the same target; one that is too long ends in a digest of itself."""
    text = pod or target
    name = as_source_name(text)
    if name and len(text) <= MAX_NAME:
        return name
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{name[: MAX_NAME - 9].rstrip('._-') or 'engine'}-{digest}"
