"""The fold once more, one event at a time, in dictionaries: slow and obviously right, to judge time travel by.

A source that contradicts itself is not judged here: streams must be legal.
"""

from __future__ import annotations

from copy import deepcopy

from kvxray_engine.stream.codec import decode_descriptor
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Kind, RequestStatus

RESULTS = (Kind.TokensGenerated, Kind.BlockFilled, Kind.StepCompleted)
ENDINGS = {
    Kind.RequestFinished: RequestStatus.finished,
    Kind.RequestAborted: RequestStatus.aborted,
    Kind.RequestFailed: RequestStatus.failed,
}


class SlowFold:
    """`blocks`: of each id its columns by name. `holds`: (block, holder), one a hold. `requests`: by ordinal."""

    def __init__(self, descriptor):
        self.numbers = dict.fromkeys(
            ("step", "t_ns", "next_seq", "next_wire_seq", "queried_tokens", "hit_tokens", "generated_tokens",
             "computed_tokens"), 0,
        )  # fmt: skip
        self.holders_known = True
        self.requests = {}
        self.names = {}
        self.hashes = {}
        self.kinds = dict.fromkeys(Kind, 0)
        self.describe(descriptor)

    def copy(self):
        return deepcopy(self)

    def describe(self, descriptor):
        self.descriptor = descriptor
        self.holds = []
        self.blocks = [
            {"ref": 0, "hash_ordinal": NO_ORDINAL, "parent_ordinal": NO_ORDINAL, "slots": 0, "group": 0, "t_alloc": 0,
             "t_last": 0, "written": 0}
            for _ in range(descriptor.num_blocks)
        ]  # fmt: skip

    def forget(self):
        for block in self.blocks:
            block.update(ref=UNKNOWN_U4, hash_ordinal=UNKNOWN_U4, parent_ordinal=NO_ORDINAL)
        self.holds = []
        self.holders_known = False

    def tell(self, message):
        """Goes through a message and yields the number of each event after it was folded."""
        header, columns = message.header, message.columns
        if header.type == "descriptor":
            self.describe(decode_descriptor(header.descriptor))
            self.numbers.update(next_seq=header.seq0, next_wire_seq=header.wire_seq + 1, step=header.step)
            return
        width = header.hash_width
        for at in range(len(columns.hashes) // width):
            self.hashes[header.hash0 + at] = bytes(columns.hashes[at * width : (at + 1) * width])
        for at, name in enumerate(header.names):
            self.names[header.req0 + at] = name
            self.request(header.req0 + at)
        self.numbers.update(step=header.step, next_wire_seq=header.wire_seq)
        seq = header.seq0
        values = iter(columns.val.tolist())
        rows = iter(columns.blk.tolist())
        for kind, req, n, a0, a1, t_ns in operations(message):
            for at in range(max(n, 1)):
                self.numbers.update(t_ns=t_ns, next_seq=seq + 1)
                self.kinds[kind] += 1
                if n:
                    value = next(values) if has_value(kind) else 0
                    self.row(kind, req, next(rows), value, a0 + at, a1 & 0xFF, t_ns)
                else:
                    self.operation(kind, req, a0, a1, t_ns, header.step)
                if seq + 1 == header.seq0 + header.n:
                    self.numbers["next_wire_seq"] = header.wire_seq + 1
                yield seq
                seq += 1

    def row(self, kind, req, block_id, value, hash_ordinal, group, t_ns):
        block = self.blocks[block_id]
        block.update(t_last=t_ns, written=1)
        if kind == Kind.BlockAllocated:
            block.update(ref=1, hash_ordinal=NO_ORDINAL, slots=0, group=group, t_alloc=t_ns)
            self.holds.append((block_id, req))
        elif kind == Kind.BlockReferenced:
            block["ref"] = value
            self.holds.append((block_id, req))
        elif kind in (Kind.BlockDereferenced, Kind.BlockFreed):
            block["ref"] = value if kind == Kind.BlockDereferenced else 0
            if self.holders_known:
                self.holds.remove((block_id, req))
        elif kind == Kind.BlockCached:
            size = self.descriptor.block_size
            block.update(hash_ordinal=hash_ordinal, parent_ordinal=value % 2**32, slots=size, group=group)
        elif kind == Kind.BlockEvicted:
            block["hash_ordinal"] = NO_ORDINAL
        elif kind == Kind.BlockFilled:
            block.update(slots=value, group=group)
        elif kind == Kind.BlockCopied:
            block["slots"] = self.blocks[value]["slots"]
        else:
            assert kind == Kind.BlockMoved
            for name in ("slots", "hash_ordinal", "parent_ordinal"):
                block[name] = self.blocks[value][name]

    def operation(self, kind, req, a0, a1, t_ns, step):
        numbers = self.numbers
        if kind == Kind.CacheCleared:
            pool = self.descriptor.pools[a0]
            for block in self.blocks[pool.first_block_id : pool.first_block_id + pool.num_blocks]:
                block["hash_ordinal"] = NO_ORDINAL
        elif kind == Kind.RequestArrived:
            self.request(req).update(status=RequestStatus.waiting, arrived_ns=t_ns + a0 * 1000, prompt=a1)
        elif kind == Kind.RequestScheduled:
            request = self.request(req)
            request.update(status=RequestStatus.running, scheduled_ns=t_ns)
            request["queried"] += a0
            request["hit"] += a1
            numbers["queried_tokens"] += a0
            numbers["hit_tokens"] += a1
        elif kind == Kind.TokensGenerated:
            request = self.request(req)
            request.update(output=a1, last_token_ns=t_ns, first_token_ns=request["first_token_ns"] or t_ns)
            numbers["generated_tokens"] += a0
        elif kind == Kind.RequestPreempted:
            self.request(req)["status"] = RequestStatus.preempted
            self.request(req)["preemptions"] += 1
        elif kind == Kind.RequestResumed:
            self.request(req)["status"] = RequestStatus.running
        elif kind in ENDINGS:
            self.request(req).update(status=ENDINGS[kind], prompt=a0, output=a1, ended_ns=t_ns, ended_step=step)
        elif kind == Kind.StepCompleted:
            numbers["computed_tokens"] += a1

    def request(self, ordinal):
        names = ("status", "preemptions", "prompt", "output", "queried", "hit", "ended_step", "arrived_ns",
                 "scheduled_ns", "first_token_ns", "last_token_ns", "ended_ns")  # fmt: skip
        return self.requests.setdefault(ordinal, dict.fromkeys(names, 0))

    def assert_equals(self, state):
        """Everything that a BlockMap tells. After a gap its holders are nobody's to know."""
        state.check_integrity(with_hashes=False)
        for ordinal in state.ordinals_carried().tolist():
            assert state.hash_bytes(ordinal) in (None, self.hashes[ordinal])
        assert state.descriptor == self.descriptor
        for name in self.blocks[0]:
            assert getattr(state, name).tolist() == [block[name] for block in self.blocks], f"{name} differs"
        assert state.holders_known == self.holders_known
        if self.holders_known:
            blocks, holders = state.holds()
            assert sorted(zip(blocks.tolist(), holders.tolist(), strict=True)) == sorted(self.holds)
        assert {name: getattr(state, name) for name in self.numbers} == self.numbers
        assert {kind: int(state.kind_totals[kind]) for kind in Kind} == self.kinds
        rows = state.requests.rows
        assert rows["ordinal"].tolist() == sorted(self.requests)
        for name in ("status", "output", "hit", "arrived_ns", "first_token_ns", "last_token_ns", "ended_ns",
                     "ended_step", "preemptions", "queried", "prompt", "scheduled_ns"):  # fmt: skip
            assert rows[name].tolist() == [self.requests[at][name] for at in sorted(self.requests)], f"{name} differs"
        assert state.requests.names == self.names


def operations(message):
    """kind, req, n, a0, a1 and time of each operation: what a step brings about is timed by its end."""
    header, columns = message.header, message.columns
    told = [getattr(columns, name).tolist() for name in ("kind", "req", "n", "a0", "a1")]
    started_ns, has_results = header.t0_wall_ns, False
    for at, (kind, req, n, a0, a1) in enumerate(zip(*told, strict=True)):
        if kind == Kind.StepStarted:
            started_ns, has_results = header.t0_wall_ns + a0 * 1000, False
        has_results = has_results or kind in RESULTS
        yield Kind(kind), req, n, a0, a1, started_ns + (duration_ns(told, at) if has_results else 0)


def duration_ns(told, at):
    for kind, a0 in zip(told[0][at:], told[3][at:], strict=True):
        if kind == Kind.StepCompleted:
            return a0 * 1000
        if kind == Kind.StepStarted:
            return 0
    return 0


def has_value(kind):
    return kind in (
        Kind.BlockReferenced, Kind.BlockDereferenced, Kind.BlockCached, Kind.BlockFilled, Kind.BlockCopied,
        Kind.BlockMoved,
    )  # fmt: skip
