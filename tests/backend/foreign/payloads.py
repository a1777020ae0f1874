"""Payloads as real engines send them: builders, the golden dialects and the recordings."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import msgspec

DATA = Path(__file__).parents[2] / "data"
GOLDEN = {name: bytes.fromhex(text) for name, text in json.loads((DATA / "wire_payloads.json").read_text()).items()}
RECORDINGS = sorted((DATA / "captures").glob("*.frames.jsonl.gz"))


def frames(path):
    """The payloads of one recording, in order."""
    with gzip.open(path) as lines:
        return [base64.b64decode(json.loads(line)["payload_b64"]) for line in lines]


def packed(*events, ts=1.5, rank=0):
    return msgspec.msgpack.encode([ts, list(events), rank])


def stored(hashes=(1, 2), parent=None, tokens=None, block_size=4, **more):
    tokens = list(range(len(hashes) * block_size)) if tokens is None else tokens
    return {
        "type": "BlockStored",
        "block_hashes": list(hashes),
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": block_size,
        "medium": "GPU",
        **more,
    }


def removed(*hashes, **more):
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU", **more}


CLEARED = {"type": "AllBlocksCleared"}


def eight(number):
    return (number & (2**64 - 1)).to_bytes(8, "big")
