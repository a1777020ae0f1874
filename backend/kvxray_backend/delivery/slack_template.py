"""Alerts as Slack takes them, and whoever takes what Slack takes: the text whole, and blocks that show it well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kvxray_backend.delivery.message import Message
from kvxray_backend.delivery.wording import capped

MAX_BLOCKS: Final = 50
MAX_BLOCK_CHARS: Final = 2_900
MAX_TEXT_CHARS: Final = 12_000
_SIGNS: Final = {"critical": "🔴", "warning": "🟠", "info": "🔵"}


def slack_body(messages: Sequence[Message]) -> dict[str, Any]:
    """Of many, each has its line in the text; blocks are as many as Slack allows."""
    heads = [_head(message) for message in messages]
    details = [_details(message) for message in messages]
    whole = zip(heads, details, strict=True)
    text = "\n\n".join("\n".join(part for part in parts if part) for parts in whole)
    if len(text) > MAX_TEXT_CHARS:
        text = "\n".join(heads)
    return {"text": capped(text, MAX_TEXT_CHARS), "blocks": _blocks(heads, details)}


def escaped(text: str) -> str:
    """What comes from engines is text and nothing else: no link, no call of everybody."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("@", "@\u200b")


def _blocks(heads: Sequence[str], details: Sequence[str]) -> list[dict[str, Any]]:
    room = MAX_BLOCKS if len(heads) <= MAX_BLOCKS else MAX_BLOCKS - 1
    texts = [
        capped(f"{head}\n{detail}" if detail else head, MAX_BLOCK_CHARS)
        for head, detail in zip(heads[:room], details, strict=False)
    ]
    if len(heads) > room:
        texts.append(f"And {len(heads) - room} more.")
    return [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in texts]


def _head(message: Message) -> str:
    alert = message.alert
    sign = "🟢" if message.kind == "over" else _SIGNS[alert.severity]
    what = "is over" if message.kind == "over" else "fires"
    return f"{sign} *{escaped(alert.rule)}* {what} ({alert.severity}): {escaped(message.summary)}"


def _details(message: Message) -> str:
    links = f"<{_url(message.link)}|The moment> · <{_url(message.runbook)}|What to do>"
    text = escaped(message.description) if message.kind == "fired" else escaped(message.alert.culprit)
    # The links stand last and must stay whole.
    return "\n".join(part for part in (capped(text, MAX_BLOCK_CHARS - 2_000), links) if part)


def _url(url: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in "<>|" else char for char in url)[:800]
