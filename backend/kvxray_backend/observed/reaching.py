"""Why an address is not reached, in one sentence: the name, the way there, or what answers."""

from __future__ import annotations

import re
import socket
from typing import Final

TIMEOUT_S: Final = 1.5
_TCP: Final = re.compile(r"tcp://(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):(?P<port>\d+)")


def why_not_reached(address: str, *, is_any_server: bool = False) -> str:
    """Of a ZeroMQ address that gave no connection. is_any_server: whoever accepts a connection will do, and the answer
    is then empty.
    """
    told = _TCP.fullmatch(address)
    if told is None:
        return f"Nothing answers at {address}."
    host, port = told["v6"] or told["host"], int(told["port"])
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except socket.gaierror:
        return f"The name {host} cannot be looked up from here."
    except TimeoutError:
        return f"Nothing answers at {address} within {TIMEOUT_S:g} s: is the way there open from this machine?"
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"Nothing answers at {address}: {reason[:1].lower()}{reason[1:]}."
    if is_any_server:
        return ""
    return f"Something answers at {address}, and it publishes nothing over ZeroMQ; is this the port of the events?"
