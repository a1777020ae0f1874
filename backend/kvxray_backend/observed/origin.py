"""Who asked for an engine to be watched, and what only whoever runs the server may ask for."""

from __future__ import annotations

from typing import Final, Literal

from kvxray_backend.observed.spec import BadSpec, ObserveSpec

Origin = Literal["settings", "file", "page"]

_OF_THE_SERVER: Final = ("token_file", "token_env", "ca_file")


def check_origin(spec: ObserveSpec, origin: Origin) -> None:
    """What comes over HTTP must not open files of the server, send its secrets elsewhere, or take a socket file away
    (ZeroMQ deletes what lies where it listens). Raises `BadSpec`.
    """
    if origin != "page":
        return
    events = spec.events or ""
    if events.startswith("file:"):
        raise BadSpec("A file of events is named where the server is started: by its options or its file.", "events")
    if spec.bind and events.startswith("ipc:"):
        raise BadSpec("Listening at ipc:// is asked for where the server is started: by its options or file.", "bind")
    for field in _OF_THE_SERVER:
        if getattr(spec, field) is not None:
            raise BadSpec(f"{field} is named where the server is started: by its options or its file.", field)
    if spec.expand != "none":
        raise BadSpec("expand is for engines that are named where the server is started.", "expand")
