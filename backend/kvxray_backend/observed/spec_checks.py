"""What the fields of an engine's description may be, and what of it only whoever runs the server may say.

Each check gives the value back, or raises ValueError with the reason, as pydantic takes it.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from kvxray_engine.errors import UserError

from kvxray_backend.metrics.metrics_http import MAX_URL_CHARS, checked_url
from kvxray_backend.source_name import NAME_RULE, is_source_name
from kvxray_backend.sources.foreign.endpoint import parse_endpoint

MAX_TEXT: Final = 512
MAX_HOST_CHARS: Final = 253
MAX_PATH_BYTES: Final = 107
"""Of a socket in the file system, as Linux takes it."""
MAX_LABELS: Final = 64
MAX_LABEL_NAME: Final = 128
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_http(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def is_socket(address: str) -> bool:
    """Whether ZeroMQ is spoken there."""
    return not is_http(address) and not address.startswith("file:")


def check_name(name: str) -> str:
    if not is_source_name(name):
        raise ValueError(f"an engine's name is {NAME_RULE}")
    return name


def check_events(address: str) -> str:
    if is_http(address):
        return check_address(address)
    if address.startswith("file:"):
        return _check_file(address)
    return _check_socket(address)


def check_replay(address: str) -> str:
    _check_socket(address)
    if parse_endpoint(address).is_bound:
        raise ValueError("replay is dialled: name the host of the engine, such as tcp://host:5558")
    return address


def check_address(url: str) -> str:
    """Of a web server."""
    checked_url(url)
    _check_host(urlsplit(url).hostname or "")
    try:
        port = urlsplit(url).port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"the port of {url[:80]!r} is not one from 1 to 65535")
    return url


def check_label_names(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"there are {len(labels)} labels, and {MAX_LABELS} are kept at most")
    for name, value in labels.items():
        if len(name) > MAX_LABEL_NAME or _LABEL.fullmatch(name) is None:
            raise ValueError(f"{name[:80]!r} is no name of a label: letters, digits and underscores")
        if len(value) > MAX_TEXT or not value.isprintable():
            raise ValueError(f"the value of {name} is not up to {MAX_TEXT} plain characters")
    return labels


def _check_socket(address: str) -> str:
    if len(address) > MAX_URL_CHARS:
        raise ValueError(f"an address has at most {MAX_URL_CHARS:,} characters")
    try:
        endpoint = parse_endpoint(address)
    except UserError as error:
        raise ValueError(str(error)) from error
    if endpoint.is_in_process:
        raise ValueError("an inproc:// endpoint is heard within its own process only; kvxray needs tcp:// or ipc://")
    if address.startswith("tcp://"):
        _check_host(address.removeprefix("tcp://").rpartition(":")[0])
    elif not address.isprintable() or len(address.removeprefix("ipc://").encode()) > MAX_PATH_BYTES:
        raise ValueError(f"the path of a socket is up to {MAX_PATH_BYTES} bytes of plain characters")
    return address


def _check_host(host: str) -> None:
    """What no resolver would be asked for is said at once, and in words."""
    try:
        is_name = host.isprintable() and len(host) <= MAX_HOST_CHARS and bool(host.encode("idna"))
    except UnicodeError:
        is_name = False
    if not is_name:
        raise ValueError(f"{host[:80]!r} is no name of a host")


def _check_file(address: str) -> str:
    path = address.removeprefix("file://")
    if len(address) > MAX_URL_CHARS or not path.isprintable() or not PurePosixPath(path).is_absolute():
        raise ValueError("a file is written with its whole path, such as file:///var/log/dynamo/events.jsonl")
    return address
