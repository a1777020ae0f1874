"""Events as TensorRT-LLM's pull API and Dynamo's recorder write them, after their sources."""

from __future__ import annotations

import json


def trtllm(event_id, data, window_size=8192, **more):
    return {"event_id": event_id, "data": data, "window_size": window_size, **more}


def trtllm_block(block_hash, tokens, cache_level=0, **more):
    return {
        "type": "stored_block",
        "block_hash": block_hash,
        "tokens": [{"type": "unique_token", "token_id": token, "token_extra_id": 0} for token in tokens],
        "cache_level": cache_level,
        "priority": 35,
        **more,
    }


def trtllm_stored(*blocks, parent=None):
    return {"type": "stored", "parent_hash": parent, "blocks": list(blocks)}


def trtllm_updated(block_hash, new=None, old=0):
    level = None if new is None else {"type": "event_diff", "new_value": new, "old_value": old}
    priority = {"type": "event_diff", "new_value": 40, "old_value": 35}
    return {"type": "updated", "block_hash": block_hash, "cache_level": level, "priority": priority}


def dynamo(data, event_id=0, timestamp=12, **more):
    event = {"event_id": event_id, "dp_rank": 0, "data": data}
    return {"timestamp": timestamp, "event": {"worker_id": 7, "storage_tier": "device", "event": event, **more}}


def dynamo_block(block_hash, tokens_hash):
    return {"block_hash": block_hash, "tokens_hash": tokens_hash, "mm_extra_info": None}


def written(*values):
    """Each as JSON text of its own."""
    return [json.dumps(value).encode() for value in values]


TRTLLM_EVENTS = written(
    trtllm(0, {"type": "created", "num_blocks_per_cache_level": [101, 50]}),
    trtllm(
        1, trtllm_stored(trtllm_block(2**64 - 1, range(32)), trtllm_block(5, range(32, 64)), trtllm_block(6, [1, 2]))
    ),
    trtllm(2, trtllm_stored(trtllm_block("ab" * 32, range(4), cache_level=1), parent="cd" * 32), hash_algo="v2_sha256"),
    trtllm(3, {"type": "removed", "block_hashes": [5, 6]}, attention_dp_rank=1),
    trtllm(4, trtllm_updated(2**64 - 1, new=1)),
    trtllm(5, trtllm_updated(2**64 - 1)),
)
DYNAMO_LINES = written(
    dynamo(
        {"stored": {"parent_hash": None, "start_position": 0, "blocks": [dynamo_block(1, 11), dynamo_block(2, 12)]}}
    ),
    dynamo({"stored": {"parent_hash": 2, "start_position": None, "blocks": [dynamo_block(-3, 13)]}}, 1, 40),
    dynamo({"removed": {"block_hashes": [2**64 - 3, 2]}}, 2, 55, storage_tier="host_pinned"),
    dynamo("cleared", 3, 60),
)
