"""Who is let in: hosts, origins, the token; over HTTP and WebSocket, API, assets and page alike."""

from __future__ import annotations

import pytest
from kvxray_backend.security import SECURITY_HEADERS, Gate
from kvxray_backend.settings import load_settings
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

TOKEN = "open; sesame & co"
PATHS = ("/", "/api/state", "/assets/kvxray/feed.js", "/_stcore/health", "/any/page")


def client(base_url: str = "http://127.0.0.1:8501", **settings: object) -> TestClient:
    async def echo(websocket) -> None:
        await websocket.accept()
        await websocket.send_text("in")
        await websocket.close()

    routes = [
        WebSocketRoute("/api/live", echo),
        WebSocketRoute("/_stcore/stream", echo),
        Route("/{path:path}", lambda request: PlainTextResponse("in"), methods=["GET", "POST"]),
    ]
    app = Gate(Starlette(routes=routes), load_settings(**settings))
    return TestClient(app, base_url=base_url, follow_redirects=False)


def socket_says(http: TestClient, path: str, headers: dict[str, str]) -> str | int:
    """What the socket says first, or the status with which it was denied."""
    try:
        with http.websocket_connect(path, headers=headers) as socket:
            return socket.receive_text()
    except WebSocketDenialResponse as denied:
        return denied.status_code


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["127.0.0.1:8501", "127.0.0.1", "localhost:8501", "LocalHost.", "[::1]:8501", "127.3.2.1"]
)
def test_names_of_this_machine_are_served(path: str, host: str) -> None:
    assert client().get(path, headers={"host": host}).text == "in"


FOREIGN_HOSTS = [
    "evil.example", "evil.example:8501", "192.168.0.7:8501", "8.8.8.8", "localhost.evil.example",
    "127.0.0.1.evil.example", "", "127.0.0.1:99999", "user@127.0.0.1", "127.0.0.1/x", "0.0.0.0", "[::2]",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_refused(path: str, host: str) -> None:
    answer = client().get(path, headers={"host": host})
    assert answer.status_code == 403
    assert "KVXRAY_ALLOWED_HOSTS" in answer.text
    if path.startswith("/api/"):
        assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("path", ["/api/live", "/_stcore/stream"])
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_socket_with_a_foreign_host_is_denied(path: str, host: str) -> None:
    assert socket_says(client(), path, {"host": host}) == 403


def test_named_hosts_are_served() -> None:
    http = client(allowed_hosts="box.example")
    assert http.get("/", headers={"host": "Box.Example:443"}).text == "in"
    assert http.get("/", headers={"host": "other.example"}).status_code == 403


@pytest.mark.parametrize("path", ["/api/live", "/_stcore/stream"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "http://127.0.0.1:9999", "http://127.0.0.1", "http://localhost:8501", "null", "",
        "file://", "http://evil.example:8501", "http://127.0.0.1:8501.evil.example", "chrome-extension://abc",
    ],
)  # fmt: skip
def test_a_socket_of_a_foreign_page_is_denied(path: str, origin: str) -> None:
    assert socket_says(client(), path, {"host": "127.0.0.1:8501", "origin": origin}) == 403


@pytest.mark.parametrize("path", ["/api/live", "/_stcore/stream"])
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8501", "http://127.0.0.1:8501"),
        ("localhost", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:443", "https://localhost"),
        ("[::1]:8501", "http://[::1]:8501"),
    ],
)
def test_a_socket_of_our_own_page_is_served(path: str, host: str, origin: str) -> None:
    assert socket_says(client(), path, {"host": host, "origin": origin}) == "in"


def test_a_program_without_an_origin_is_served() -> None:
    assert socket_says(client(), "/api/live", {"host": "127.0.0.1:8501"}) == "in"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_of_a_foreign_page_is_refused(method: str) -> None:
    answer = client().request(method, "/api/state", headers={"host": "127.0.0.1:8501", "origin": "http://evil.example"})
    assert answer.status_code == 403


def test_two_hosts_or_origins_are_refused() -> None:
    headers = [("host", "127.0.0.1:8501"), ("origin", "http://127.0.0.1:8501"), ("origin", "http://evil.example")]
    assert client().get("/", headers=headers).status_code == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_where_a_token_is_set_nothing_is_served_without_it(path: str, host: str) -> None:
    http = client(host=host, token=TOKEN)
    assert http.get(path).status_code == 401
    assert http.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert http.get(path, headers={"authorization": f"Basic {TOKEN}".encode()}).status_code == 401
    assert http.get(path, headers={"cookie": "kvxray_token=wrong"}).status_code == 401
    assert http.get("/api/state", params={"token": TOKEN}).status_code == 401
    assert http.get(path, headers={"authorization": "Bearer ascii"}).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/api/live", "/_stcore/stream"])
def test_where_a_token_is_set_no_socket_opens_without_it(path: str) -> None:
    http = client(token="secret")
    own = {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}
    assert socket_says(http, path, own) == 401
    assert socket_says(http, path, {**own, "authorization": "Bearer secret"}) == "in"
    assert socket_says(http, path, {**own, "cookie": "a=b; kvxray_token=secret; c=d"}) == "in"
    assert socket_says(http, f"{path}?token=secret", own) == 401


def test_the_token_in_a_pages_address_becomes_a_cookie_and_leaves_the_address() -> None:
    http = client(token=TOKEN)
    answer = http.get("/page", params={"block": "7", "token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/page?block=7"
    assert TOKEN not in answer.headers["location"]
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=Lax", "Path=/"):
        assert part in cookie
    assert "Secure" not in cookie
    assert http.get("/page").text == "in"
    assert http.get("/api/state").text == "in"


def test_over_tls_the_cookie_stays_on_tls() -> None:
    http = client("https://127.0.0.1:8501", token="secret")
    assert "; Secure" in http.get("/?token=secret").headers["set-cookie"]


def test_a_wrong_token_in_the_address_is_refused() -> None:
    answer = client(token="secret").get("/?token=wrong")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_leading_slashes_cannot_lead_to_another_server() -> None:
    answer = client(token="secret").get("http://127.0.0.1:8501//evil.example/?token=secret")
    assert answer.headers["location"] == "/evil.example/"


def test_beyond_loopback_addresses_are_hosts_and_foreign_names_are_not() -> None:
    http = client(host="0.0.0.0", token="secret")
    shown = {"authorization": "Bearer secret"}
    assert http.get("/", headers={**shown, "host": "192.168.0.7:8501"}).text == "in"
    assert http.get("/", headers={**shown, "host": "[fe80::1]:8501"}).text == "in"
    assert http.get("/", headers={**shown, "host": "evil.example"}).status_code == 403


def test_under_a_base_path_refusals_of_the_api_are_json_and_the_cookie_stays_there() -> None:
    http = client(token="secret", base_path="/kv")
    assert http.get("/kv/api/state").json()["error"].startswith("Show the token")
    assert "Path=/kv;" in http.get("/kv/?token=secret").headers["set-cookie"]


@pytest.mark.parametrize("headers", [{}, {"host": "evil.example"}])
def test_every_answer_carries_the_security_headers(headers: dict[str, str]) -> None:
    answer = client().get("/", headers=headers)
    for name, value in SECURITY_HEADERS:
        assert answer.headers[name.decode()] == value.decode()
