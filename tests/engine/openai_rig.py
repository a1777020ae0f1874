"""A real server on a free port with the tiny model, for the official OpenAI client; its loop or the test steps it."""

import time
from collections.abc import Callable

import openai
import torch
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.model_loading import load_model
from kvxray_engine.server.access import AccessRules
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.server.engine_server import EngineServer, ServerOptions

MODEL = "tiny"


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for something another thread does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


class Rig:
    """Engine, server and loop. `stepped`: the test makes every step itself, so that it knows what happens when."""

    def __init__(
        self,
        num_blocks: int = 257,
        block_size: int = 16,
        stepped: bool = False,
        rules: AccessRules | None = None,
        names: tuple[str, ...] = (MODEL,),
        **config,
    ) -> None:
        torch.set_num_threads(1)
        model, self.tokenizer = load_model("tiny", num_blocks, block_size)
        self.engine = LLMEngine(model, EngineConfig(**config))
        self.server = EngineServer(
            self.engine, self.tokenizer, ServerOptions(names, rules or AccessRules(), port=0), lambda: self.loop.alive
        )
        self.loop = EngineLoop(self.engine, [self.server], self.server.fail)
        self.stepped = stepped

    def __enter__(self) -> "Rig":
        self.server.start()
        if not self.stepped:
            self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
        self.loop.close()
        self.server.check_integrity()

    @property
    def url(self) -> str:
        return f"{self.server.address}/v1"

    def client(self, api_key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key=api_key, max_retries=0, timeout=60)

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=60)

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.loop.step()
            self.engine.check_integrity()
            self.server.check_integrity()

    @property
    def held_blocks(self) -> int:
        return sum(1 for ref in self.engine.pool.ref_cnt if ref)

    def is_idle(self) -> bool:
        return not self.engine.has_work and self.held_blocks == 0
