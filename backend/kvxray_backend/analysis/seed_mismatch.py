"""Engines that hash the same tokens differently: neither finds the other's blocks, nor a shared store theirs. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from typing import Final

from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted

MAX_DIGESTS: Final = 65_536


class HashesByTokens:
    """Of one engine in one epoch: the hash of each token digest, the last 65,536 told. A digest that has two hashes
    (the engine does not tell its salts, or its ranks have seeds of their own) proves nothing and has none.
    """

    def __init__(self) -> None:
        # Finding the first key of a plain dict takes a look at each that was removed before it, for every block.
        self._hashes: OrderedDict[bytes, bytes | None] = OrderedDict()

    def note(self, digests: Sequence[bytes], hashes: Sequence[bytes]) -> None:
        """One digest for each hash, or none at all."""
        for digest, block_hash in zip(digests, hashes, strict=False):
            known = self._hashes.pop(digest, block_hash)
            self._hashes[digest] = block_hash if known == block_hash else None
        while len(self._hashes) > MAX_DIGESTS:
            self._hashes.popitem(last=False)

    def clear(self) -> None:
        self._hashes.clear()

    def shared_with(self, other: HashesByTokens, at_most: int = MAX_DIGESTS) -> tuple[int, int]:
        """Of the digests that both know: how many have the same hash, how many another. at_most: so many of mine, the
        last told, are looked for.
        """
        same = different = 0
        for digest in islice(reversed(self._hashes), at_most):
            mine, theirs = self._hashes[digest], other._hashes.get(digest)
            if mine is not None and theirs is not None:
                is_same = _are_one(mine, theirs)
                same, different = same + is_same, different + (not is_same)
        return same, different


def seed_mismatch_findings(
    engines: Mapping[str, HashesByTokens], t_ns: int, at_most: int = MAX_DIGESTS
) -> list[Finding]:
    """One for each two engines that share tokens and no hash; under the name of the first, of no epoch of its. at_most:
    so many blocks of an engine, those told last, are looked for in the others.
    """
    found = []
    for one, other in combinations(sorted(engines), 2):
        same, different = engines[one].shared_with(engines[other], at_most)
        if not different or same:
            continue
        blocks = counted(different, "block")
        finding = Place(one, 0, 0, t_ns).finding(
            "hash_seed_mismatch",
            "warning",
            f"{one} and {other} hold {blocks} of the same tokens under other hashes: their seeds or hash algorithms "
            f"differ, so neither can use what the other or a shared store has.",
            subjects=Subjects(sources=(one, other)),
            numbers={"blocks": different},
        )
        found.append(finding.model_copy(update={"id": f"hash_seed_mismatch:{one},{other}"}))
    return found


def _are_one(mine: bytes, theirs: bytes) -> bool:
    """Engines shorten a hash to its first or its last 8 bytes."""
    short, long = sorted((mine, theirs), key=len)
    return long.startswith(short) or long.endswith(short)
