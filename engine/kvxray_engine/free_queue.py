"""The queue of free blocks, in the order in which they are given out: an intrusive doubly linked list over block ids.

Plain Python lists instead of an object a block: measured 5 times faster. Whoever takes blocks one by one on the hot
path follows the links itself.
"""

from __future__ import annotations


class FreeQueue:
    """`following[b]`, `previous[b]`: the links of block b; entry `num_blocks` is the sentinel, its following the head,
    its previous the tail. Links of blocks outside the queue are stale. Begins with every block but the null block.
    """

    def __init__(self, num_blocks: int) -> None:
        self.end = num_blocks
        self.following = [*range(1, num_blocks + 1), 1]
        self.previous = [0, num_blocks, *range(1, num_blocks)]

    def blocks(self) -> list[int]:
        """Free block ids, head (the next to be allocated) first."""
        found: list[int] = []
        block = self.following[self.end]
        while block != self.end:
            found.append(block)
            assert len(found) < self.end, "the free queue runs in a circle"
            block = self.following[block]
        return found

    def unlink(self, block: int) -> None:
        before, after = self.previous[block], self.following[block]
        self.following[before] = after
        self.previous[after] = before

    def append(self, blocks: list[int]) -> None:
        following, previous, end = self.following, self.previous, self.end
        last = previous[end]
        for block in blocks:
            following[last] = block
            previous[block] = last
            last = block
        following[last] = end
        previous[end] = last

    def prepend(self, blocks: list[int]) -> None:
        """The first of `blocks` becomes the head."""
        following, previous = self.following, self.previous
        head = following[self.end]
        last = self.end
        for block in blocks:
            following[last] = block
            previous[block] = last
            last = block
        following[last] = head
        previous[head] = last

    def check_integrity(self) -> None:
        """Asserts that the links back are those there."""
        queue = self.blocks()
        for before, block in zip([self.end, *queue], [*queue, self.end], strict=True):
            assert self.previous[block] == before, f"the queue's link back from {block} is wrong"
