"""The demo's clients: agents that share a system prompt, talk in turns, think in between, and are sometimes cancelled.

Every decision comes from the seed and is counted in ticks (one for each turn of the engine's loop) and tokens, never in
seconds: the same seed gives the same conversations on any machine. Agents never stop; one that is through with a task
begins another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from kvxray_engine.agent_texts import SHORT_SYSTEM_PROMPT, SYSTEM_PROMPT, TASKS, Task
from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.request import FinishReason, NewRequest
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.tokenizer import Tokenizer

LONGEST_SYSTEM_PROMPT = 1200
"""Tokens: a tokenizer that needs more (a token a byte) gets the short one."""

OPENINGS_SAMPLED = 8
"""Of each task, to know how long one can be."""


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """Sizes and shares; ranges are inclusive."""

    agents: int = 20
    seed: int = 0
    turns: tuple[int, int] = (2, 6)  # messages an agent sends in one task
    answer_tokens: tuple[int, int] = (40, 180)  # max_tokens of an answer
    data_lines: tuple[int, int] = (3, 16)  # of the tool results in a message
    think_ticks: tuple[int, int] = (5, 90)  # from an answer to the next message
    first_ticks: int = 30  # agents begin within so many ticks
    cancelled_share: float = 0.15  # of answers, somewhere in the middle
    max_context_tokens: int = 2400  # a longer conversation ends
    temperature: float = 0.7
    top_p: float = 0.95


def system_prompt_for(tokenizer: Tokenizer) -> str:
    """The prompt all agents share, in the length that suits the tokenizer."""
    long = len(tokenizer.encode(SYSTEM_PROMPT)) > LONGEST_SYSTEM_PROMPT
    return SHORT_SYSTEM_PROMPT if long else SYSTEM_PROMPT


def lines_of_data(config: WorkloadConfig, system_prompt: str) -> tuple[int, int]:
    """Fewest and most lines of a tool result: with a token a byte a text costs four times the tokens."""
    scale = 4 if system_prompt is SHORT_SYSTEM_PROMPT else 1
    low, high = config.data_lines
    return max(1, low // scale), max(1, high // scale)


def least_context(tokenizer: Tokenizer, config: WorkloadConfig | None = None) -> int:
    """Tokens that the pool must hold so that any task can begin: its first message and the longest answer to it.

    The longest of several openings of each task, since how long their data are is chance.
    """
    config = config or WorkloadConfig()
    system_prompt = system_prompt_for(tokenizer)
    _, lines = lines_of_data(config, system_prompt)
    longest = 0
    for task in TASKS:
        for seed in range(OPENINGS_SAMPLED):
            opening = {"role": "user", "content": task.turn(0, Random(seed), lines)}
            messages = [{"role": "system", "content": system_prompt}, opening]
            longest = max(longest, len(tokenizer.apply_chat_template(messages)))
    return longest + config.answer_tokens[1]


@dataclass(slots=True)
class Agent:
    """One client: a conversation at a time, one request at a time.

    `request_id` "" while it thinks, until tick `wakes_at`. `cancel_after`: tokens after which the answer under way is
    cancelled, 0 = not.
    """

    number: int
    wakes_at: int
    task_number: int = -1
    task: Task = TASKS[0]
    rng: Random = field(default_factory=Random)
    messages: list[dict[str, str]] = field(default_factory=list)
    turn: int = 0
    turns: int = 0
    request_id: str = ""
    answer: list[int] = field(default_factory=list)
    cancel_after: int = 0


class Workload:
    """Drives one engine from its own thread: `tick` before a step, `take` with what the step brought."""

    def __init__(self, engine: LLMEngine, tokenizer: Tokenizer, config: WorkloadConfig | None = None) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.config = config or WorkloadConfig()
        self.ticks = 0
        self.cancelled = 0
        self.system_prompt = system_prompt_for(tokenizer)
        start = Random(f"{self.config.seed}")
        self.agents = [Agent(number, start.randint(0, self.config.first_ticks)) for number in range(self.config.agents)]
        self._answering: dict[str, Agent] = {}

    def tick(self) -> None:
        """Agents whose thinking is over send their message."""
        self.ticks += 1
        for agent in self.agents:
            if not agent.request_id and agent.wakes_at <= self.ticks:
                self._speak(agent)

    def take(self, outputs: list[RequestOutput]) -> None:
        """Reads answers as they grow; cancels those whose time has come."""
        for output in outputs:
            agent = self._answering.get(output.request_id)
            if agent is None:
                continue
            agent.answer.extend(output.new_token_ids)
            if output.finish_reason is not None:
                self._hear_end(agent, output.finish_reason)
            elif agent.cancel_after and len(agent.answer) >= agent.cancel_after:
                agent.cancel_after = 0
                self.cancelled += 1
                self.engine.abort_request(agent.request_id)

    def _speak(self, agent: Agent) -> None:
        if agent.turn >= agent.turns:
            self._begin_task(agent)
        config, rng = self.config, agent.rng
        lines = rng.randint(*lines_of_data(config, self.system_prompt))
        agent.messages.append({"role": "user", "content": agent.task.turn(agent.turn, rng, lines)})
        max_tokens = rng.randint(*config.answer_tokens)
        prompt = self.tokenizer.apply_chat_template(agent.messages)
        limit = min(config.max_context_tokens, self.engine.max_model_len)
        if len(prompt) + max_tokens > limit:
            if agent.turn:
                agent.turn = agent.turns
                self._speak(agent)
                return
            # Rare in a pool that passed `least_context`, which only samples. What is shared stands in front, and stays.
            max_tokens = max(1, min(max_tokens, limit - len(prompt)))
            prompt = prompt[: limit - max_tokens]
        agent.cancel_after = rng.randint(2, max(2, max_tokens // 2)) if rng.random() < config.cancelled_share else 0
        agent.request_id = f"agent-{agent.number:02d}.task-{agent.task_number}.turn-{agent.turn + 1}"
        agent.answer = []
        agent.turn += 1
        self._answering[agent.request_id] = agent
        sampling = SamplingParams(config.temperature, config.top_p, rng.randrange(1 << 31), max_tokens)
        session = f"agent-{agent.number:02d}"
        self.engine.add_request(NewRequest(agent.request_id, prompt, sampling, session=session))

    def _begin_task(self, agent: Agent) -> None:
        """A new conversation; its own random numbers make it independent of how others fared."""
        agent.task_number += 1
        agent.rng = Random(f"{self.config.seed}.{agent.number}.{agent.task_number}")
        agent.task = agent.rng.choice(TASKS)
        agent.messages = [{"role": "system", "content": self.system_prompt}]
        agent.turn = 0
        agent.turns = agent.rng.randint(*self.config.turns)

    def _hear_end(self, agent: Agent, reason: FinishReason) -> None:
        del self._answering[agent.request_id]
        agent.request_id = ""
        agent.messages.append({"role": "assistant", "content": self.tokenizer.decode(agent.answer)})
        if reason in (FinishReason.abort, FinishReason.error):
            agent.turn = agent.turns  # it gives up and turns to something else
        agent.wakes_at = self.ticks + agent.rng.randint(*self.config.think_ticks)

    def check_integrity(self) -> None:
        """Asserts that each agent awaits at most one answer and that answers find their agents."""
        waiting = {agent.request_id: agent for agent in self.agents if agent.request_id}
        assert waiting == self._answering, "an agent waits for an answer that nobody will bring, or the reverse"
