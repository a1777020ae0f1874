"""Look after the event log: what it holds, what may go, whether it is whole; take parts of it along and bring them
back. What only reads works beside a running kvxray; what writes waits until that is stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvxray_engine.errors import UserError

if TYPE_CHECKING:
    from kvxray_storage.retention import Limits

SUMMARY: Final = "look after the event log: sizes, pruning, checking, export and import"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True, parser_class=type(parser))
    _part(parts, "stats", "what is stored, by source and epoch")
    prune = _part(parts, "prune", "take the oldest history away, by age and size")
    prune.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    prune.add_argument("--age", metavar="AGE", help="how long events are kept, such as 7d (else KVXRAY_RETENTION_AGE)")
    prune.add_argument("--size", metavar="SIZE", help="how much is kept, such as 10GB (else KVXRAY_RETENTION_SIZE)")
    prune.add_argument("--compact", action="store_true", help="and give the free room back to the disk")
    export = _part(parts, "export", "write a stretch of history to a file")
    export.add_argument("file", metavar="FILE", type=Path, help="the file to write")
    export.add_argument("--from", dest="begin", metavar="MOMENT", help="EPOCH.SEQ or an ISO-8601 time; else the first")
    export.add_argument("--to", dest="end", metavar="MOMENT", help="EPOCH.SEQ or an ISO-8601 time; else the last")
    export.add_argument("--format", choices=("kvx", "parquet"), help="for kvxray, or for analysts; else as FILE ends")
    importing = _part(parts, "import", "store what a .kvx file holds", of_source=False)
    importing.add_argument("file", metavar="FILE", type=Path, help="the file to read")
    importing.add_argument("--as", dest="name", metavar="NAME", help="what its source is called here")
    _part(parts, "verify", "read everything and say what is damaged")
    _part(parts, "rebuild", "make periodic keyframes and rollups anew from the events")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.told_to_end import ending_cleanly

    with ending_cleanly() as told:
        code = _RUN[options.part](options)
    return code if told.exit_code is None else told.exit_code


def _part(
    parts: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, *, of_source: bool = True
) -> argparse.ArgumentParser:
    part = parts.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.", allow_abbrev=False)
    part.add_argument("--database", metavar="URL", help="the event log, as a SQLAlchemy URL (else KVXRAY_DATABASE_URL)")
    part.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")
    if of_source:
        part.add_argument("--source", metavar="NAME", help="of one source; else of all")
    return part


def _stats(options: argparse.Namespace) -> int:
    from kvxray_storage.storage_stats import stats

    from kvxray_backend.storage_work.opening import check_source, reading, settings_of
    from kvxray_backend.storage_work.tell_stats import stats_as_json, stats_as_text

    with reading(settings_of(options)) as database:
        check_source(database, options.source)
        found = stats(database, options.source)
    if options.json:
        return _print_json(stats_as_json(found))
    sys.stdout.write(stats_as_text(found))
    return 0


def _prune(options: argparse.Namespace) -> int:
    from kvxray_storage.retention import Limits
    from kvxray_storage.storage_size import measure

    from kvxray_backend.quantities import size_text
    from kvxray_backend.storage_work.opening import check_source, claimed, reading, settings_of
    from kvxray_backend.storage_work.prune import compact, own_limits, plan_as_json, plan_lines, plan_of, prune

    settings, source = settings_of(options), options.source
    with reading(settings) as database:
        check_source(database, source)
        kept = Limits(settings.retention_age, settings.retention_size)
        limits = _limits(options, kept if source is None else own_limits(database, source, kept))
        plan = plan_of(database, limits, source)
        told = plan_as_json(database, plan) if options.json else plan_lines(database, plan, limits, source)
        if not options.dry_run:
            with claimed(database) as claim:
                prune(claim, limits, source)
                if options.compact:
                    compact(database)
        size_now = measure(database)
    if isinstance(told, dict):
        return _print_json({**told, "dry_run": options.dry_run, "used_bytes": size_now.used})
    told.append(f"in use now: {size_text(size_now.used)}, on disk: {size_text(size_now.on_disk)}")
    sys.stdout.write("\n".join([*(["this would go:"] if options.dry_run else ["gone:"]), *told]) + "\n")
    return 0


def _limits(options: argparse.Namespace, kept: Limits) -> Limits:
    """What the options say instead of what is kept without them. Raises UserError."""
    from kvxray_backend.quantities import parse_age, parse_size

    try:
        return replace(
            kept,
            **({} if options.age is None else {"max_age_s": parse_age(options.age)}),
            **({} if options.size is None else {"max_bytes": parse_size(options.size)}),
        )
    except ValueError as error:
        raise UserError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error


def _export(options: argparse.Namespace) -> int:
    from kvxray_backend.moments import LIVE, Moment
    from kvxray_backend.quantities import counted
    from kvxray_backend.storage_work.exchange import export
    from kvxray_backend.storage_work.opening import check_source, reading, settings_of

    begin, end = (Moment.parse(text or LIVE) for text in (options.begin, options.end))
    with reading(settings_of(options)) as database:
        check_source(database, options.source)
        there = export(database, options.file, options.format, options.source, begin, end)
    size = options.file.stat().st_size
    if options.json:
        return _print_json({"file": str(options.file), "events": there.events, "epochs": there.epochs, "bytes": size})
    told = f"{counted(there.events, 'event')} of {counted(there.epochs, 'epoch')}"
    sys.stdout.write(f"{options.file}: {told}, {size:,} bytes\n")
    return 0


def _import(options: argparse.Namespace) -> int:
    from kvxray_storage.event_log import EventLog

    from kvxray_backend.quantities import counted
    from kvxray_backend.storage_work.exchange import check_name, import_file
    from kvxray_backend.storage_work.opening import reading, settings_of

    check_name(options.name)
    with reading(settings_of(options), create=True) as database, EventLog(database) as log:
        summary = import_file(database, log, options.file, options.name)
    epochs = [{"source": options.name or head.source, "epoch": head.epoch} for head in summary.epochs]
    if options.json:
        return _print_json({"events": summary.num_events, "epochs": epochs})
    told = ", ".join(f"{one['source']} epoch {one['epoch']}" for one in epochs)
    sys.stdout.write(f"{counted(summary.num_events, 'event')} imported: {told or 'no epoch'}\n")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from kvxray_storage.verify import verify

    from kvxray_backend.storage_work.opening import check_source, reading, settings_of
    from kvxray_backend.storage_work.tell_verdict import telling, verdict_as_json, verdict_as_text

    with reading(settings_of(options)) as database:
        if options.source is not None:
            check_source(database, options.source)
        verdict = verify(database, options.source, telling(as_text=not options.json))
    if options.json:
        _print_json(verdict_as_json(verdict))
    else:
        sys.stdout.write(verdict_as_text(verdict))
    return 1 if verdict.num_faults else 0


def _rebuild(options: argparse.Namespace) -> int:
    from kvxray_storage import history
    from kvxray_storage.rebuild import rebuild

    from kvxray_backend.storage_work.opening import check_source, claimed, reading, settings_of

    rebuilt = []
    with reading(settings_of(options)) as database, claimed(database) as claim:
        check_source(database, options.source)
        for source in history.sources(database):
            for row in history.epochs(database, source.name) if options.source in (None, source.name) else ():
                rebuild(database, row.key, writing=claim.writing)
                rebuilt.append({"source": source.name, "epoch": row.epoch})
                if not options.json:
                    sys.stdout.write(f"{source.name}, epoch {row.epoch}: keyframes and rollups made anew\n")
    return _print_json({"epochs": rebuilt}) if options.json else 0


def _print_json(value: object) -> int:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0


_RUN: Final = {
    "stats": _stats, "prune": _prune, "export": _export, "import": _import, "verify": _verify, "rebuild": _rebuild,
}  # fmt: skip
