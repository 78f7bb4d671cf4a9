"""The native API on a board without a host: NumPy sees device memory, and pinned memory is device memory."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from histories import D2D, D2H, H2D, busy, history, tiny

import acl_py as acl
from device_model.profile import ProfileError, load

BOARD = replace(load("tiny"), run_mode=0, devices=1)
board = partial(tiny, device=BOARD, rules="acl")
A = busy("A", 50)


@board
async def test_numpy_sees_device_memory_without_a_copy():
    buffer, other = await acl.Malloc(400), await acl.Malloc(400)
    buffer.numpy(np.int32)[:] = range(100)
    await acl.Memcpy(other, 400, buffer, 400, D2D)
    assert other.numpy(np.int32).tolist() == list(range(100))


@board
async def test_what_a_kernel_writes_is_seen_when_it_ends():
    @acl.kernel(cost=acl.Cost(us=10))
    def double(x: acl.InOut):
        x *= 2

    buffer = await acl.Malloc(4)
    view = buffer.numpy()
    view[:] = 3
    await double[1, None](acl.Array(buffer, np.uint8))
    assert view.tolist() == [3] * 4
    await acl.SynchronizeStream(None)
    assert view.tolist() == [6] * 4


@board
async def test_copies_between_pinned_and_device_memory_run_inside_the_device():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    host, device = await acl.MallocHost(200), await acl.Malloc(200)
    begin = sim.now_ns
    await acl.MemcpyAsync(device, 200, host, 200, H2D, stream)
    await acl.MemcpyAsync(host, 200, device, 200, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("d2d", 1_000, 1_200), ("d2d", 2_000, 2_200)]


@board
async def test_memory_of_the_pool_is_seen_too():
    stream = await acl.CreateStream()
    buffer = await acl.MallocAsync(64, stream)
    buffer.numpy()[:] = 9
    assert buffer.numpy().sum() == 64 * 9
    await acl.FreeAsync(buffer, stream)
    await acl.SynchronizeStream(stream)
    with pytest.raises(acl.AclError, match="is no longer alive"):
        buffer.numpy()


@board
async def test_a_program_on_a_board_runs_on_the_device():
    assert await acl.GetRunMode() is acl.RunMode.DEVICE


@tiny
async def test_other_programs_run_on_a_host():
    assert await acl.GetRunMode() is acl.RunMode.HOST


def test_a_board_is_one_device():
    with pytest.raises(
        ProfileError, match=r"^profile tiny has run_mode 0, a board without a host, and 2 devices; such a"
    ):
        replace(load("tiny"), run_mode=0)
