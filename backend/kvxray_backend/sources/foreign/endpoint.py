"""Where a foreign engine's sockets are: an address as people write it, for each data-parallel rank, checked.

Engines number their ranks by port (base + rank) or, within a process, by the ending `_dpRANK`. An engine whose endpoint
names a concrete host dials out; whoever listens to it then writes a wildcard, `tcp://*:5557`, and binds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kvxray_engine.errors import UserError

MAX_RANKS: Final = 1024
_TCP: Final = re.compile(r"tcp://(?P<host>\[[0-9A-Fa-f:.%\w]*\]|[^\s:/\[\]]+):(?P<port>\d{1,5})", re.ASCII)
_PATH: Final = re.compile(r"(?P<scheme>ipc|inproc)://(?P<path>\S+)")
WILDCARDS: Final = ("*", "0.0.0.0", "[::]")
_LIKE: Final = "Write it like tcp://host:5557, tcp://*:5557 (where the engine dials out), ipc:///path or inproc://name."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`address`: as ZeroMQ takes it. `is_bound`: we listen there and publishers dial in; else we connect."""

    address: str
    is_bound: bool = False

    @property
    def is_ipv6(self) -> bool:
        return self.address.startswith("tcp://[")

    @property
    def is_in_process(self) -> bool:
        return self.address.startswith("inproc://")


def parse_endpoint(text: str, *, bind: bool = False) -> Endpoint:
    """bind: also where the address is no wildcard. Raises `UserError`."""
    if (tcp := _TCP.fullmatch(text)) is not None:
        is_bound = bind or tcp["host"] in WILDCARDS
        # Only whoever binds can have a port picked.
        if not (0 if is_bound else 1) <= int(tcp["port"]) <= 65_535:
            raise UserError(f"The port of {text!r} is not one from 1 to 65535.")
        return Endpoint(text, is_bound)
    if _PATH.fullmatch(text) is not None:
        return Endpoint(text, bind)
    raise UserError(f"{text[:200]!r} is no endpoint of a socket. {_LIKE}")


def of_ranks(base: Endpoint, num_ranks: int) -> list[Endpoint]:
    """The endpoint of each data-parallel rank, derived as engines do. Raises `UserError`."""
    if not 1 <= num_ranks <= MAX_RANKS:
        raise UserError(f"The number of data-parallel ranks is one from 1 to {MAX_RANKS}, not {num_ranks}.")
    return [_of_rank(base, rank) for rank in range(num_ranks)]


def _of_rank(base: Endpoint, rank: int) -> Endpoint:
    if rank == 0:
        return base
    if base.is_in_process:
        return Endpoint(f"{base.address}_dp{rank}", base.is_bound)
    host, _, port = base.address.rpartition(":")
    if not base.address.startswith("tcp://"):
        raise UserError(f"Ranks have ports of their own, and {base.address!r} has no port; name each rank's socket.")
    if port == "0" or int(port) + rank > 65_535:
        raise UserError(f"Rank {rank} of {base.address!r} would have no port from 1 to 65535.")
    return Endpoint(f"{host}:{int(port) + rank}", base.is_bound)
