"""Puts the HTTP side of one engine together: the OpenAI API, metrics, health and texts, on one port.

Whoever steps the engine passes what each step brought to `take`: the loop of `kvxray engine`, or the demo's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Response

from kvxray_engine.api_server import ApiServer, create_api
from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.request_texts import RequestTexts
from kvxray_engine.server.access import AccessRules
from kvxray_engine.server.async_engine import AsyncEngine
from kvxray_engine.server.engine_metrics import EngineMetrics
from kvxray_engine.server.openai_api import OpenAIServer, openai_router
from kvxray_engine.server.prometheus_text import CONTENT_TYPE
from kvxray_engine.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`model_names`: what clients may call the model, the first in answers and metrics. `port` 0 = any free one.
    `config`: what `vllm:cache_config_info` tells besides the pool's shape."""

    model_names: tuple[str, ...]
    rules: AccessRules = AccessRules()
    port: int = 8000
    seed: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


class EngineServer:
    """A listener of the engine's steps and a server for its clients. Raises UserError when the port cannot be had."""

    def __init__(
        self,
        engine: LLMEngine,
        tokenizer: Tokenizer,
        options: ServerOptions,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self.texts = RequestTexts(tokenizer)
        self.front = AsyncEngine(engine)
        self.metrics = EngineMetrics(engine, options.model_names[0], options.config)
        openai = OpenAIServer(self.front, tokenizer, options.model_names, options.seed)
        routers = [openai_router(openai, options.rules.max_body_bytes), metrics_router(self.metrics)]
        self.api = create_api(engine, self.texts, options.rules, routers, is_alive)
        self._server = ApiServer(self.api, options.port, options.rules.host)
        self.address = self._server.address

    def start(self) -> None:
        self._server.start()

    def take(self, outputs: Sequence[RequestOutput]) -> None:
        """What a step brought; the thread that steps."""
        self.texts.take(outputs)
        self.metrics.take(outputs)
        self.front.take(outputs)

    def fail(self) -> None:
        """The engine stands still for good: whoever waits is told so, and whoever comes."""
        self.front.close("The engine has failed: its log says why; start it again.")

    def close(self) -> None:
        """Ends open answers and stops listening."""
        self.front.close()
        self._server.close()

    def check_integrity(self) -> None:
        self.texts.check_integrity()
        self.metrics.check_integrity()
        self.front.check_integrity()


def metrics_router(metrics: EngineMetrics) -> APIRouter:
    """GET /metrics, for Prometheus."""
    router = APIRouter()

    @router.head("/metrics", response_model=None, include_in_schema=False)
    @router.get("/metrics", response_model=None)
    async def prometheus() -> Response:
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    return router
