"""docs/engine-api.md names every route, field and metric of the engine's API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kvxray_engine.engine import LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.server.engine_server import EngineServer, ServerOptions
from kvxray_engine.server.openai_requests import ChatBody, CompletionBody
from kvxray_engine.tokenizer import ByteTokenizer

DOC = (Path(__file__).parents[2] / "docs" / "engine-api.md").read_text()


@pytest.fixture(scope="module")
def server():
    server = EngineServer(LLMEngine(NullModel(num_blocks=9)), ByteTokenizer(), ServerOptions(("null",), port=0))
    yield server
    server.close()


@pytest.mark.parametrize("field", sorted({*CompletionBody.model_fields, *ChatBody.model_fields}))
def test_every_field_of_a_request_is_documented(field: str) -> None:
    assert re.search(rf"`{field}[`.]", DOC)


def test_every_metric_is_documented_and_no_other(server) -> None:
    kept = set(re.findall(r"^# TYPE (\S+) ", server.metrics.text(), re.M))
    assert kept == set(re.findall(r"`(vllm:\w+)`", DOC))


def test_every_route_is_documented(server) -> None:
    for path, methods in server.api.openapi()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path.replace('{request_id}', '{id}')}`" in DOC
