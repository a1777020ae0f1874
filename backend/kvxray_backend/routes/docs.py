"""`/api/docs`: the API for people, written from the OpenAPI description; one page that loads nothing, from anywhere."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

router = APIRouter()

_STYLE = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:56rem;margin:2rem auto;padding:0 1rem}
h2{font:600 1rem ui-monospace,monospace;margin:2rem 0 .25rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{text-align:left;vertical-align:top;padding:.15rem 1rem .15rem 0}
code,td:first-child{font-family:ui-monospace,monospace}
.quiet{opacity:.7}
"""


@router.get("/docs", response_class=HTMLResponse, include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """The routes with their parameters and the fields of their answers."""
    description: dict[str, Any] = request.app.openapi()
    schemas = description.get("components", {}).get("schemas", {})
    parts = [
        _operation(path, method, operation, schemas)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{description['info']['title']} {description['info']['version']}")
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(description['info'].get('description', ''))}</p>"
        f'<p>For programs: <a href="openapi.json">openapi.json</a>.</p>{"".join(parts)}</html>'
    )


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parameters = [
        (f"{item['name']} ({item['in']})", item.get("description", "")) for item in operation.get("parameters", ())
    ]
    content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    name = content.get("$ref", "").rsplit("/", 1)[-1]
    fields = [
        (field, schema.get("description", "")) for field, schema in schemas.get(name, {}).get("properties", {}).items()
    ]
    summary = operation.get("description") or operation.get("summary", "")
    return (
        f"<h2>{escape(method.upper())} {escape(path)}</h2><p>{escape(summary)}</p>"
        f"{_table('Parameters', parameters)}{_table(f'Answers {name}', fields)}"
    )


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'<div class="quiet">{escape(title)}</div><table>{body}</table>'
