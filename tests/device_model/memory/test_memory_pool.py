"""The stream-ordered pool: which freed block is used again, and which bytes go back to the device."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from device_model.errors import DeviceError, Kind
from device_model.memory import POISON, Memory, array, fill

TOTAL = 200 << 30


def same_stream(stream):
    return lambda block: 0 if block.stream == stream else None


def test_free_then_malloc_in_one_stream_gives_the_same_address_and_a_new_life(memory):
    pool = memory.pool(0)
    old, waits_for = pool.take(4096, same_stream("A"), "a.py:1")
    fill(old.allocation, 0, 1, 4096)
    assert waits_for is None
    pool.give(old, "A", "free 1", "a.py:2")
    other, _ = pool.take(4096, same_stream("B"), "a.py:3")
    assert int(other) != int(old)
    new, waits_for = pool.take(4000, same_stream("A"), "a.py:4")
    assert (int(new), waits_for) == (int(old), "free 1")
    assert new.allocation is not old.allocation
    assert memory.locate(int(old), 8, "src") == (new.allocation, 0)
    assert bytes(array(new.allocation, 0, np.uint8, 4)) == POISON * 2
    with pytest.raises(DeviceError) as caught:
        memory.locate(old, 8, "src")
    assert str(caught.value) == (
        "src is <Buffer device 4.0 KiB allocation 1 made at a.py:1, freed at a.py:2>, which is no longer alive "
        "(its address belongs to <Buffer device 3.9 KiB allocation 3 made at a.py:4> now); free it after its last use"
    )


def test_work_queued_before_the_free_keeps_its_bytes_until_they_are_dropped(memory):
    pool = memory.pool(0)
    old, _ = pool.take(512, same_stream("A"))
    fill(old.allocation, 0, 7, 512)
    pool.give(old, "A", "free 1", None)
    new, _ = pool.take(512, same_stream("A"))
    fill(new.allocation, 0, 8, 512)
    assert not old.allocation.is_dropped
    assert bytes(array(old.allocation, 0, np.uint8, 2)) == b"\x07\x07"
    old.allocation.drop()
    assert bytes(array(old.allocation, 0, np.uint8, 2)) == POISON
    assert bytes(array(new.allocation, 0, np.uint8, 2)) == b"\x08\x08"


def test_the_smallest_rank_wins_then_the_best_fit_then_the_longest_unused(memory):
    pool = memory.pool(0)
    sizes = {"big": 4096, "fit": 1024, "later": 1024, "low": 8192, "never": 1024}
    taken = {name: pool.take(size, same_stream(None))[0] for name, size in sizes.items()}
    for name, buffer in taken.items():
        pool.give(buffer, name, f"free {name}", None)
    ranks = {"big": 1, "fit": 1, "later": 1, "low": 0, "never": None}
    won = []
    for _ in range(4):
        won.append(pool.take(1024, lambda block: ranks[block.stream])[1])
        ranks["low"] = 2  # when its first block is taken, the rest of it is the last choice
    assert won == ["free low", "free fit", "free later", "free big"]
    assert [block.stream for block in pool.unused] == ["big", "low", "never"]


def test_a_larger_block_is_split(memory):
    pool = memory.pool(0)
    old, _ = pool.take(4096, same_stream("A"))
    pool.give(old, "A", "free 1", None)
    parts = [pool.take(1000, same_stream("A")) for _ in range(4)]
    assert [int(part) - int(old) for part, _ in parts] == [0, 1024, 2048, 3072]
    assert {free_op for _, free_op in parts} == {"free 1"}
    assert (pool.reserved_current, pool.used_current, pool.unused) == (4096, 4096, ())


def test_counters_and_high_water_marks(memory):
    pool = memory.pool(0)
    first, _ = pool.take(1000, same_stream("A"))
    second, _ = pool.take(512, same_stream("A"))
    assert (pool.used_current, pool.reserved_current) == (1536, 1536)
    pool.give(first, "A", "op", None)
    assert (pool.used_current, pool.used_high, pool.reserved_current, pool.reserved_high) == (512, 1536, 1536, 1536)
    assert memory.free_bytes(0) == TOTAL - 1536
    assert pool.trim(0) == 1024
    assert (pool.reserved_current, pool.reserved_high) == (512, 1536)
    pool.reset_high()
    assert (pool.used_high, pool.reserved_high) == (512, 512)
    pool.give(second, "A", "op", None)
    pool.trim(pool.release_threshold)
    assert memory.free_bytes(0) == TOTAL


def test_trim_returns_completed_blocks_only_and_keeps_the_bytes_asked_for(memory):
    pool = memory.pool(0)
    for index, buffer in enumerate([pool.take(1024, same_stream(None))[0] for _ in range(5)]):
        pool.give(buffer, "A", index, None)
    assert pool.trim(0, lambda block: block.free_op in (1, 3)) == 2048
    assert [block.free_op for block in pool.unused] == [0, 2, 4]
    assert pool.trim(1536) == 1024  # a second block would leave less than 1,536
    assert [block.free_op for block in pool.unused] == [2, 4]
    pool.release_threshold = 2048
    assert pool.trim(pool.release_threshold) == 0
    assert pool.trim(0) == 2048
    assert pool.take(1024, lambda block: 0)[1] is None


def test_free_async_of_a_malloc_pointer_leaves_at_the_next_sync_and_is_not_reused(memory):
    pool = memory.pool(1)
    buffer = memory.malloc(1, 4096, "a.py:1")
    pool.give(buffer, "A", "op", "a.py:2")
    with pytest.raises(DeviceError, match=r"freed at a\.py:2>, which is no longer alive"):
        memory.locate(buffer, 8, "src")
    other, _ = pool.take(4096, lambda block: 0)
    assert int(other) != int(buffer)
    assert memory.free_bytes(1) == (1 << 20) - 8192
    assert pool.trim(0, lambda block: False) == 0
    assert pool.trim(1 << 30) == 4096
    assert (pool.reserved_current, pool.used_current) == (4096, 4096)


def test_free_of_a_pool_pointer_goes_back_to_the_pool_at_once(memory):
    pool = memory.pool(0)
    buffer, _ = pool.take(4096, same_stream("A"), "a.py:1")
    memory.free(int(buffer), "a.py:2")
    assert buffer.allocation.is_dropped
    (block,) = pool.unused
    assert (block.address, block.stream, block.free_op) == (int(buffer), None, None)
    assert pool.used_current == 0
    with pytest.raises(
        DeviceError, match=r"^FreeAsync of <Buffer device 4.0 KiB allocation 1 made at a.py:1, freed at a.py:2>"
    ):
        pool.give(buffer, "A", "op", "a.py:3")


def test_any_pool_sends_memory_home(memory):
    buffer, _ = memory.pool(1).take(512, same_stream("A"))
    memory.pool(0).give(buffer, "A", "op", None)
    assert memory.pool(0).unused == ()
    assert len(memory.pool(1).unused) == 1


def test_a_pool_that_does_not_fit_changes_nothing(memory):
    pool = memory.pool(1)
    with pytest.raises(
        DeviceError, match=r"^MallocAsync of 2\.0 MiB on device 1 does not fit: 1\.0 MiB of 1\.0 MiB"
    ) as caught:
        pool.take(2 << 20, lambda block: 0)
    assert caught.value.kind is Kind.OUT_OF_MEMORY
    with pytest.raises(DeviceError, match=r"^MallocAsync of 0 bytes; ask for 1 byte or more"):
        pool.take(0, lambda block: 0)
    pinned = memory.malloc_host(8, None)
    with pytest.raises(
        DeviceError, match=r"^FreeAsync\(\) does not release <Buffer pinned 8 B allocation 1>; release it with FreeHost"
    ):
        pool.give(pinned, "A", "op", None)
    assert (pool.reserved_current, pool.used_current, memory.free_bytes(1)) == (0, 0, 1 << 20)


class PoolMachine(RuleBasedStateMachine):
    """Takes, gives, frees and trims in any order: no two allocations share a byte, and the counters add up."""

    def __init__(self):
        super().__init__()
        self.memory = Memory([64 << 10], 512, DeviceError)
        self.pool = self.memory.pool(0)
        self.live = []
        self.tick = 0

    @rule(nbytes=st.integers(1, 5000), streams=st.integers(0, 3))
    def take(self, nbytes, streams):
        def order(block):
            return block.free_op if block.stream < streams else None

        if self.memory.free_bytes(0) >= nbytes + 512:
            self.live.append(self.pool.take(nbytes, order)[0])

    @rule(nbytes=st.integers(1, 5000))
    def malloc(self, nbytes):
        if self.memory.free_bytes(0) >= nbytes + 512:
            self.live.append(self.memory.malloc(0, nbytes, None))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), stream=st.integers(0, 2))
    def give(self, data, stream):
        self.tick += 1
        buffer = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.pool.give(buffer, stream, self.tick, None)

    @rule(keep=st.integers(0, 20_000), done=st.integers(0, 50))
    def trim(self, keep, done):
        before = self.pool.reserved_current
        self.pool.trim(keep, lambda block: block.free_op <= done)
        assert self.pool.reserved_current >= min(before, keep)

    @invariant()
    def lives_are_apart_and_counted(self):
        spans = [(int(buffer), int(buffer) + buffer.nbytes) for buffer in self.live]
        spans += [(block.address, block.address + block.nbytes) for block in self.pool.unused]
        assert all(one[1] <= two[0] for one, two in pairwise(sorted(spans)))
        unused = sum(block.nbytes for block in self.pool.unused)
        assert self.pool.reserved_current - self.pool.used_current == unused
        assert 0 <= self.memory.free_bytes(0) <= (64 << 10) - self.pool.reserved_current
        assert {buffer.allocation for buffer in self.live} == set(self.memory.leaks())

    def teardown(self):
        for buffer in self.live:
            self.memory.free(buffer, None)
        self.pool.trim(0)
        assert self.memory.free_bytes(0) == 64 << 10


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestPool = PoolMachine.TestCase
