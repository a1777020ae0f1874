"""Metrics that no table of signals or figures has: of sources and what they tell, of findings and alerts, of kvxray."""

from __future__ import annotations

from typing import Final

from kvxray_backend.exporter.metric import Metric

HEALTH: Final = "Health"
EVENTS: Final = "Events of engines"
ALERTS: Final = "Findings and alerts"
OWN: Final = "kvxray itself"


def _gauge(name: str, unit: str, topic: str, meaning: str, parts: str = "") -> Metric:
    return Metric(name, "gauge", unit, topic, meaning, parts=parts)  # type: ignore[arg-type]


def _counter(name: str, unit: str, topic: str, meaning: str, parts: str = "") -> Metric:
    return Metric(name, "counter", unit, topic, meaning, parts=parts)  # type: ignore[arg-type]


OF_HEALTH: Final = (
    _gauge("kvxray_source_up", "info", HEALTH, "1: the source is heard; 0: it is not, and has no figures of events."),
    _gauge("kvxray_source_state", "info", HEALTH, "1 for how the source is followed.", "state"),
    _gauge("kvxray_engine_metrics_up", "info", HEALTH, "1: the metrics of the engine are read; 0: they cannot be."),
    _gauge("kvxray_verdict", "info", HEALTH, "1 for how the cache is, and what it is that is wrong.", "status, cause"),
    _gauge("kvxray_figure_info", "info", HEALTH, "1 for how sure a figure of an engine is.", "metric, certainty"),
    _gauge("kvxray_engines_left_out", "count", HEALTH, "Engines beyond those that this page has room for."),
)
OF_EVENTS: Final = (
    _gauge("kvxray_blocks", "blocks", EVENTS, "Usable blocks by state, of engines that tell of blocks.", "state"),
    _gauge("kvxray_usable_blocks", "blocks", EVENTS, "Blocks that can hold tokens."),
    _gauge("kvxray_block_size_tokens", "tokens", EVENTS, "Tokens a block."),
    _gauge("kvxray_block_size_bytes", "bytes", EVENTS, "Bytes a block."),
    _counter("kvxray_events_total", "count", EVENTS, "Events by what happened, since the engine began.", "kind"),
    _counter(
        "kvxray_evictions_total",
        "blocks",
        EVENTS,
        "Cached blocks given up, since the engine began, by why. unknown: as many as an engine that is older than this "
        "label told before it was joined. None where an engine tells of hashes only, which does not say why.",
        "cause",
    ),
    _counter("kvxray_preemptions_total", "requests", EVENTS, "Times that a request had to give up its blocks."),
    _counter("kvxray_generated_tokens_total", "tokens", EVENTS, "Tokens generated."),
    _counter("kvxray_prefix_queried_tokens_total", "tokens", EVENTS, "Prompt tokens looked up in the prefix cache."),
    _counter("kvxray_prefix_hit_tokens_total", "tokens", EVENTS, "Prompt tokens found in the prefix cache."),
    _counter("kvxray_stream_gaps_total", "count", EVENTS, "Gaps in the stream of events."),
    _counter("kvxray_stream_dropped_total", "count", EVENTS, "Messages that the engine's recorder had to drop."),
    _counter("kvxray_stream_malformed_total", "count", EVENTS, "Messages that could not be read."),
    _gauge("kvxray_stream_lag_seconds", "seconds", EVENTS, "From what the last message tells to when it was heard."),
)
OF_ALERTS: Final = (
    _gauge("kvxray_findings", "count", ALERTS, "Open findings.", "kind, severity"),
    _gauge("kvxray_alerts", "info", ALERTS, "1 for each alert that fires or is about to.", "rule, severity, state"),
    _gauge("kvxray_notifications_waiting", "count", ALERTS, "Notifications that are still to be delivered.", "target"),
    _gauge("kvxray_notification_target_up", "info", ALERTS, "0: the last try to notify it failed.", "target"),
    _counter("kvxray_notifications_total", "count", ALERTS, "Tries to notify a target.", "target, result"),
    _counter("kvxray_rule_looks_total", "count", ALERTS, "How often the rules were looked at."),
    _counter("kvxray_rule_look_seconds_total", "seconds", ALERTS, "Time that looks at the rules took."),
)
OF_KVXRAY: Final = (
    _gauge("kvxray_build_info", "info", OWN, "1, with the version of kvxray and of Python.", "version, python"),
    _gauge("kvxray_uptime_seconds", "seconds", OWN, "Since the server began."),
    _gauge("kvxray_viewers", "count", OWN, "Pages that follow a source."),
    _gauge("kvxray_storage_up", "info", OWN, "1: the event log takes writes; 0: it refuses them."),
    _gauge("kvxray_storage_queue_bytes", "bytes", OWN, "What waits to be committed."),
    _gauge("kvxray_storage_events", "count", OWN, "Events in the event log."),
    _gauge("kvxray_storage_chunks", "count", OWN, "Chunks in the event log."),
    _counter("kvxray_storage_dropped_total", "count", OWN, "Messages refused because the queue was full."),
    _gauge("kvxray_storage_used_bytes", "bytes", OWN, "What the event log holds, as its limit counts it."),
    _gauge("kvxray_storage_limit_bytes", "bytes", OWN, "How much it may hold; none: there is no limit."),
    _gauge("kvxray_exporter_seconds", "seconds", OWN, "What the last page like this one took to make."),
    _gauge("kvxray_exporter_left_out", "count", OWN, "Samples that this page has no room for."),
    _counter("process_cpu_seconds_total", "seconds", OWN, "Time of the CPUs that the process took."),
    _gauge("process_resident_memory_bytes", "bytes", OWN, "Memory of the process."),
    _gauge("process_virtual_memory_bytes", "bytes", OWN, "Addresses of the process."),
    _gauge("process_start_time_seconds", "seconds", OWN, "When the process began, Unix time."),
    _gauge("process_open_fds", "count", OWN, "Files and sockets that the process has open."),
    _gauge("process_max_fds", "count", OWN, "How many it may have open."),
)
FIXED: Final = (*OF_HEALTH, *OF_EVENTS, *OF_ALERTS, *OF_KVXRAY)
