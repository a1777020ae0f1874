"""The labels of a source, as far as its metrics tell them: pod, model, rank and so on, under the names kvxray uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.names import canonical

# What scrape configurations and engines call them, the plainest first.
_CALLED: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("cluster", "k8s_cluster_name"),
    "namespace": ("namespace", "kubernetes_namespace", "k8s_namespace_name"),
    "pod": ("pod", "pod_name", "kubernetes_pod_name", "k8s_pod_name"),
    "node": ("node", "node_name", "k8s_node_name"),
    "model": ("model_name", "model"),
    "role": ("role", "engine_type"),
    "engine": ("engine", "engine_id"),
    "dp_rank": ("dp_rank",),
    "tp_rank": ("tp_rank",),
    "version": ("version",),
}
_ROLES: Final = frozenset({"prefill", "decode", "both"})


def source_labels(page: Page) -> dict[str, str]:
    """Those that every engine's metric on the page agrees on: of several pods none is told, of two ranks no rank."""
    values: dict[str, set[str]] = {}
    for sample in page.samples:
        if canonical(sample.name) is None:
            continue
        for label, names in _CALLED.items():
            value = next((sample.labels[name] for name in names if sample.labels.get(name)), None)
            if value is not None:
                values.setdefault(label, set()).add(value)
    told = {label: next(iter(found)) for label, found in values.items() if len(found) == 1}
    if told.get("role") not in _ROLES:
        # SGLang's engine_type is "unified" where prefill and decode are not apart.
        told.pop("role", None)
    return told
