"""Who may talk to this server: one ASGI layer before everything, HTTP and WebSocket, API, assets and page alike.

Three rules. The Host must be one of ours, so that no foreign name can be rebound to this address. An Origin, where a
browser sends one, must be the Host itself, so that no foreign page reaches the API or opens a socket; Streamlit's own
sockets included. Where a token is set, every request shows it. Knows nothing of routes but the prefix under which
refusals are JSON.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import anyio
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvxray_backend.loopback import is_loopback
from kvxray_backend.settings import Settings

TOKEN_COOKIE: Final = "kvxray_token"
CLOSE_BAD_TOKEN: Final = 4401
CLOSE_FOREIGN: Final = 4403
DENIAL_WAIT_S: Final = 0.2

_DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}

# Nothing may be loaded from, or sent to, another origin. Streamlit needs inline styles, blob workers and eval (its
# charts).
_CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "media-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _CONTENT_POLICY.encode()),
)


class Refusal(Exception):
    """A request that is turned away: an HTTP status, a close code for sockets, and one sentence."""

    def __init__(self, status: int, close_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.close_code = close_code


class Gate:
    """The ASGI layer. A refused socket is denied before it is accepted."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._token = settings.token.get_secret_value()
        self._allowed_hosts = frozenset((*settings.allowed_hosts, settings.host.lower()))
        self._serves_addresses = bool(self._token) and not is_loopback(settings.host)
        self._base_path = settings.base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            headers = _single_headers(scope["headers"])
            self._check_host(headers)
            _check_origin(headers, scope["scheme"])
            handed_token = self._handed_token(scope)
            if handed_token is not None:
                await self._keep_token(scope, handed_token, send)
                return
            self._check_token(headers)
        except Refusal as refusal:
            await self._refuse(scope, receive, send, refusal)
            return
        await self._app(scope, receive, _with_security_headers(send))

    def _check_host(self, headers: dict[str, str]) -> None:
        host = _split_host(headers.get("host", ""))
        name = host[0] if host else ""
        if name in self._allowed_hosts or (name and is_loopback(name)):
            return
        if self._serves_addresses and _is_address(name):
            return
        raise Refusal(403, CLOSE_FOREIGN, "Open kvxray as localhost, or add this host's name to KVXRAY_ALLOWED_HOSTS.")

    def _check_token(self, headers: dict[str, str]) -> None:
        if not self._token:
            return
        shown = _bearer(headers.get("authorization", "")) or _token_cookie(headers.get("cookie", ""))
        if not self._is_token(shown):
            raise Refusal(
                401,
                CLOSE_BAD_TOKEN,
                "Show the token: send Authorization: Bearer, or open the page once with /?token=….",
            )

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def _handed_token(self, scope: Scope) -> str | None:
        """The token in the address of a page that is being opened; None where there is none to look for."""
        if not self._token or scope["type"] != "http" or scope["method"] != "GET" or self._is_api(scope["path"]):
            return None
        return dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")

    async def _keep_token(self, scope: Scope, token: str, send: Send) -> None:
        if not self._is_token(token):
            raise Refusal(401, CLOSE_BAD_TOKEN, "This token is not the one in KVXRAY_TOKEN.")
        rest = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != "token"]
        # A path that begins with two slashes would name another server.
        target = "/" + quote(scope["path"].lstrip("/")) + (f"?{urlencode(rest)}" if rest else "")
        secure = "; Secure" if scope["scheme"] == "https" else ""
        # Lax: an alert's link that is followed from a chat or a dashboard shows it; what changes anything is no GET.
        cookie = (
            f"{TOKEN_COOKIE}={quote(token, safe='')}; Path={self._base_path or '/'}; HttpOnly; SameSite=Lax{secure}"
        )
        reply_headers = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        await _reply(send, 303, [*reply_headers, (b"location", target.encode())], b"")

    def _is_api(self, path: str) -> bool:
        return (path.removeprefix(self._base_path) + "/").startswith("/api/")

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
        headers = [(b"cache-control", b"no-store")]
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if scope["type"] == "http" and not self._is_api(scope["path"]):
            headers.append((b"content-type", b"text/plain; charset=utf-8"))
            body = str(refusal).encode()
        else:
            headers.append((b"content-type", b"application/json"))
            body = json.dumps({"error": str(refusal)}).encode()
        if scope["type"] == "http":
            await _reply(send, refusal.status, headers, body)
        elif "websocket.http.response" in scope.get("extensions", {}):
            await _reply(send, refusal.status, headers, body, prefix="websocket.http.response")
            await _until_closed(receive)
        else:
            await send({"type": "websocket.close", "code": refusal.close_code, "reason": str(refusal)})


def _single_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers as text. A Host or Origin that comes twice is refused: whoever sends two wants one of them
    overlooked.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers and name in ("host", "origin", "authorization"):
            raise Refusal(403, CLOSE_FOREIGN, f"Send one {name.title()} header, not several.")
        headers[name] = f"{headers[name]}; {value}" if name == "cookie" and name in headers else value
    return headers


def _split_host(host: str) -> tuple[str, int | None] | None:
    """Name (lower case, no brackets, no final dot) and port of a Host header; None where it is not one."""
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname.lower().rstrip("."), port


def _check_origin(headers: dict[str, str], scheme: str) -> None:
    """Browsers send Origin with every socket and every request across origins; other clients may send none."""
    origin = headers.get("origin")
    if origin is None:
        return
    # The scheme may differ: a proxy in front may speak TLS.
    origin_scheme, _, origin_host = origin.partition("://")
    ours, theirs = _split_host(headers.get("host", "")), _split_host(origin_host)
    if ours is None or theirs is None or origin_scheme not in ("http", "https"):
        raise Refusal(403, CLOSE_FOREIGN, "Only kvxray's own page may do this from a browser.")
    # A missing port is that of the scheme as the browser sees it, on both sides.
    default = _DEFAULT_PORTS[origin_scheme]
    if (ours[0], ours[1] or default) != (theirs[0], theirs[1] or default):
        raise Refusal(403, CLOSE_FOREIGN, "Only kvxray's own page may do this from a browser.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _token_cookie(header: str) -> str:
    return unquote(cookie_parser(header).get(TOKEN_COOKIE, ""))


async def _reply(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes, prefix: str = "http.response"
) -> None:
    headers = [*headers, *SECURITY_HEADERS, (b"content-length", str(len(body)).encode())]
    await send({"type": f"{prefix}.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})


async def _until_closed(receive: Receive) -> None:
    """A denied socket ends with the server's word that it is closed, after that it is closing; whoever returns before
    is told to have left the handshake open. Not every server says both, so that the wait is short.
    """
    goodbyes = 0
    with anyio.move_on_after(DENIAL_WAIT_S):
        while goodbyes < 2:
            goodbyes += (await receive())["type"] == "websocket.disconnect"


def _with_security_headers(send: Send) -> Send:
    async def send_guarded(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [pair for pair in SECURITY_HEADERS if pair[0] not in present]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_guarded
