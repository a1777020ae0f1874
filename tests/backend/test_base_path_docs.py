"""The examples of docs/proxies.md say one thing: the same path, host and port, and what sockets need."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from kvxray_backend.cli import build_parser
from kvxray_backend.settings import Settings, load_settings

DOC = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text()


def example(language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", DOC, re.S)
    return str(block)


def served() -> Settings:
    """What the command of the docs sets."""
    words = shlex.split(example("sh"))
    given = dict(word.split("=", 1) for word in words if word.startswith("KVXRAY_"))
    options = build_parser().parse_args(words[words.index("kvxray") + 1 :])
    names = {name.removeprefix("KVXRAY_").lower(): value for name, value in given.items()}
    return load_settings(**names, sources=options.source)


def blocks(lines: list[str], end: str) -> dict[str, Any]:
    """Directives in braces as a tree: what opens a block leads to its directives, each by its first word or words."""
    found: dict[str, Any] = {}
    while lines:
        line = lines.pop(0).strip()
        if line == "}":
            return found
        if line.endswith("{"):
            found[line.removesuffix("{").strip()] = blocks(lines, end)
        elif line:
            assert line.endswith(end), line
            name, _, value = line.removesuffix(end).rpartition(" ")
            found[name] = value
    return found


def test_nginx_hands_on_the_path_the_host_and_sockets() -> None:
    settings = served()
    assert blocks(example("nginx").splitlines(), ";") == {
        f"location {settings.base_path}/": {
            "proxy_pass": f"http://{settings.host}:{settings.port}",
            "proxy_http_version": "1.1",
            "proxy_set_header Host": "$http_host",
            "proxy_set_header X-Forwarded-Proto": "$scheme",
            "proxy_set_header Upgrade": "$http_upgrade",
            "proxy_set_header Connection": '"upgrade"',
            "proxy_buffering": "off",
            "proxy_read_timeout": "1d",
        }
    }


def test_caddy_hands_on_the_path_at_a_host_that_is_allowed() -> None:
    settings = served()
    (name,) = settings.allowed_hosts
    assert blocks(example("caddy").splitlines(), "") == {
        name: {
            f"redir {settings.base_path}": f"{settings.base_path}/",
            f"handle {settings.base_path}/*": {"reverse_proxy": f"{settings.host}:{settings.port}"},
        }
    }


def test_addresses_named_in_the_text_are_those_that_are_served() -> None:
    settings = served()
    assert f"`https://{settings.allowed_hosts[0]}{settings.base_path}/`" in DOC
    assert f"`{settings.url}/`" in DOC
