"""Who may talk to the engine's API: one ASGI layer before everything.

The Host must name this machine, so that no foreign name can be rebound to it; an Origin, where a browser sends one,
must be the Host itself, so that no web page can spend the engine's time; where a token is set, every request shows it.
A body that says it is larger than the limit is not read.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from kvxray_engine.errors import UserError

MAX_BODY_BYTES: Final = 4 << 20
MAX_LENGTH_DIGITS: Final = 15
CLOSE_FORBIDDEN: Final = 4403
LOOPBACK_NAMES: Final = frozenset({"localhost"})
TYPES: Final = {401: "authentication_error", 403: "permission_error", 413: "invalid_request_error"}


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`host`: the address listened on. `token` "" = none is asked for. `allowed_hosts`: further names of this machine.

    Raises UserError for an address beyond loopback without a token.
    """

    host: str = "127.0.0.1"
    token: str = ""
    allowed_hosts: frozenset[str] = frozenset()
    max_body_bytes: int = MAX_BODY_BYTES

    def __post_init__(self) -> None:
        if not self.token and not is_loopback_name(self.host):
            raise UserError(
                f"To listen on {self.host}, beyond this machine, set a token: give --api-key or set KVXRAY_TOKEN."
            )
        if not self.token.isascii() or self.token != self.token.strip():
            raise UserError("A token has ASCII characters only and no blanks around it: choose another.")

    def allows_host(self, header: str) -> bool:
        """Whether a Host header, with or without a port, is one of ours."""
        name = host_name(header)
        if name is None:
            return False
        if is_loopback_name(name) or name == self.host.lower() or name in self.allowed_hosts:
            return True
        # Listening beyond loopback, where the token guards: addresses cannot be rebound as names can.
        return not is_loopback_name(self.host) and _is_address(name)


class Refusal(Exception):
    """A request that is turned away: an HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class AccessGate:
    """The layer itself."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": CLOSE_FORBIDDEN})  # there are no sockets here
            return
        try:
            self._check(_headers(scope))
        except Refusal as refusal:
            await _refuse(refusal, send)
            return
        await self._app(scope, receive, send)

    def _check(self, headers: dict[str, list[str]]) -> None:
        rules = self._rules
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or not rules.allows_host(hosts[0]):
            raise Refusal(403, "This API answers only to names of this machine.")
        if origins and (len(origins) > 1 or origins[0].partition("://")[2].lower() != hosts[0].lower()):
            raise Refusal(403, "This API answers no pages of other origins.")
        if rules.token and not _shows(headers.get("authorization", []), rules.token):
            raise Refusal(401, "Show the token: send Authorization: Bearer with the engine's API key.")
        length = headers.get("content-length", ["0"])[0]
        # Compared by digits first: a number too long for a computer is too large a body all the same.
        if len(length) > MAX_LENGTH_DIGITS or (length.isdecimal() and int(length) > rules.max_body_bytes):
            raise Refusal(413, f"The body is larger than {rules.max_body_bytes} bytes: send less.")


def host_name(header: str) -> str | None:
    """The name in a Host header: lower case, no port, no brackets; None where it is no such thing."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port  # raises where it is no port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None
    return parts.hostname.lower()


def is_loopback_name(name: str) -> bool:
    """Whether a name or address always means this machine."""
    if name.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def error_body(status: int, sentence: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error as OpenAI's API writes it."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": sentence, "type": kind, "param": param, "code": code}}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shows(authorization: list[str], token: str) -> bool:
    if len(authorization) != 1:
        return False
    scheme, _, shown = authorization[0].partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def _headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = json.dumps(error_body(refusal.status, str(refusal))).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
