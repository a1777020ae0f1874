"""One request: its tokens, how far they are computed, where its keys and values are. Holds state, decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kvxray_engine.hashing import BlockHash
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.schema import Name, RequestStatus


class FinishReason(Enum):
    """Why a request ended."""

    stop = "stop"  # an end-of-text or stop token
    length = "length"  # max_tokens or the model's longest sequence
    abort = "abort"
    error = "error"


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request as its client states it."""

    request_id: str
    prompt_token_ids: list[int]
    sampling: SamplingParams = SamplingParams()
    priority: int = 0
    lora_name: str = ""
    lora_path: str = ""
    lora_id: int = 0  # the adapter's number where its server gave it one; 0 = none
    cache_salt: str = ""
    session: str = ""


@dataclass(slots=True, eq=False)
class Request:
    """Tokens are prompt then output. `num_computed_tokens` of them have keys and values in the cache.

    Invariants: block_table holds ceil(num_computed_tokens / block_size) blocks or more; the first `num_cached_blocks`
    of them carry the hashes of block_hashes; a request that is not running has neither.
    """

    request_id: str
    ordinal: int  # its number in the event stream
    name: Name  # what the stream calls it
    token_ids: list[int]
    num_prompt_tokens: int
    sampling: SamplingParams
    priority: int = 0  # lower is more urgent; what the priority policy goes by
    lora_name: str = ""
    lora_path: str = ""
    lora_id: int = 0
    cache_salt: str = ""
    status: RequestStatus = RequestStatus.waiting
    finish_reason: FinishReason | None = None
    num_computed_tokens: int = 0
    block_table: list[int] = field(default_factory=list)
    block_hashes: list[BlockHash] = field(default_factory=list)  # of full blocks, hashed so far; tokens only ever grow
    num_cached_blocks: int = 0
    num_preemptions: int = 0
    queried_tokens: int = 0  # prefix tokens looked up at admissions so far
    hit_tokens: int = 0  # of those, found in the cache
    arrived_ns: int = 0  # wall clock, as are the other times; 0 = not yet
    scheduled_ns: int = 0  # of the last admission
    first_token_ns: int = 0
    ended_ns: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]
