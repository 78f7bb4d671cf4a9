"""The pool never hands out early; and with its gap one flag per turn orders a kernel."""

import numpy as np
import pytest
from cores import found, launch
from hypothesis import given
from hypothesis import strategies as st

from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.pool import ResourcePool
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Adds
from device_model.kernel.findings import KernelError


@given(st.integers(0, 4), st.integers(0, 5), st.lists(st.integers(0, 9), max_size=60))
def test_an_item_rests_for_as_many_hand_outs_as_the_gap_says(gap, more, steps):
    """Even steps acquire, odd ones release one of what is out."""
    pool = ResourcePool([object() for _ in range(gap + 1 + more)], gap)
    out, released, hand_outs = [], {}, 0
    for step in steps:
        if step % 2:
            if out:
                item = out.pop(step % len(out))
                released[item] = hand_outs
                pool.Release(item)
            continue
        ready = pool.ready
        try:
            item = pool.Acquire()
        except KernelError:
            assert ready == 0
            continue
        assert ready > 0
        assert item not in out
        assert hand_outs - released.get(item, -gap) >= gap
        hand_outs += 1
        out.append(item)


def test_the_one_that_rested_longest_comes_first():
    pool = ResourcePool("abcd", gap=1)
    assert [pool.Acquire() for _ in range(3)] == ["a", "b", "c"]
    for item in "bac":
        pool.Release(item)
    assert [pool.Acquire() for _ in range(4)] == ["d", "b", "a", "c"]


def test_a_pool_that_is_too_small_says_how_large_it_must_be():
    pool = ResourcePool("abc", gap=2)
    first = pool.Acquire()
    pool.Acquire()
    pool.Release(first)
    pool.Acquire()
    with pytest.raises(KernelError) as raised:
        pool.Acquire()
    assert str(raised.value) == (
        "<ResourcePool 2 out, 1 resting, 0 ready> has nothing to hand out: 2 items are out, 1 rest for 1 more; "
        "Release() one earlier, or give the pool more items: as many as are out at a time, and 2"
    )
    with pytest.raises(ValueError, match="2 items with a gap of 2: at least 3 are needed"):
        ResourcePool("ab", gap=2)
    with pytest.raises(ValueError, match="a gap of -1"):
        ResourcePool("ab", gap=-1)


def test_what_is_released_must_be_out():
    pool = ResourcePool("ab")
    item = pool.Acquire()
    pool.Release(item)
    with pytest.raises(KernelError, match="'a' is not out"):
        pool.Release(item)


TILE, TILES = 256, 12
LAG = 3  # turns


def lagging(x, y, gap):
    """Each turn waits for the store of LAG turns before, and for no other; there are no more buffers than needed."""
    x_gm, y_gm = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y))
    buffers = [LocalTensor(float32, TPosition.VECCALC, TILE * 4 * place, TILE) for place in range(gap + 1)]
    pool, stored = ResourcePool(buffers, gap), HardEvent.MTE3_MTE2
    for tile in range(TILES):
        if tile >= LAG:
            WaitFlag(stored, tile % LAG)
        buffer = pool.Acquire()
        DataCopy(buffer, x_gm[tile * TILE :], TILE)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        Adds(buffer, buffer, 1, TILE)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(y_gm[tile * TILE :], buffer, TILE)
        SetFlag(stored, tile % LAG)
        pool.Release(buffer)
    for event_id in range(LAG):
        WaitFlag(stored, event_id)


@pytest.mark.parametrize("gap", range(LAG + 3))
def test_one_flag_per_turn_is_enough_with_the_gap_that_it_covers(gap):
    x, y = np.arange(TILES * TILE, dtype=np.float32), np.zeros(TILES * TILE, np.float32)
    result = launch(lagging, x, y, gap)
    if gap >= LAG - 1:
        assert found(result) == []
        np.testing.assert_array_equal(y, x + 1)
    else:
        assert ("WAR", "MTE3_MTE2") in found(result)
