"""What a core kernel finds in the L2 of its device: what launches, copies, fills and other kernels have left there."""

from dataclasses import replace

import numpy as np
import pytest
from core_kernels import TILE, add_number, halves, increment, simulation
from histories import D2H, H2D

import acl_py as acl
from acl_py import asc, faults
from device_model.profile import load

MANY = 64 * TILE  # halves of one core: 128 KB


@asc.kernel
def read_all(x: asc.In, y: asc.Out):
    """Read 128 KB, 8 KB at a time, each behind the one before, and write 32 bytes."""
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 4096)
    for first in range(0, MANY, 4096):
        asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(x)[first:], 4096)
        asc.PipeBarrier(asc.Pipe.MTE2)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(y), tile, 16)


@acl.kernel(cost=acl.Cost(us=5))
def count(x: acl.Out):
    x[:] = 1


async def inputs(blocks=64):
    return await halves(blocks, 1.0), acl.Array(await acl.Malloc(32), np.float16)


async def took(kernel, *args, blocks=1):
    """Run *kernel* alone; return its time on the device in ns."""
    launch = await kernel[blocks](*args)
    await acl.SynchronizeDevice()
    return launch.end_ns - launch.start_ns


async def begun():
    """Run a small core kernel: with the first one of a device its L2 begins."""
    await took(increment, await halves(1))


COLD, HALF, WARM = 6_653, 5_566, 4_485  # of read_all, in ns


async def test_what_a_launch_reads_is_there_for_the_next_until_the_l2_is_emptied():
    async with simulation():
        x, y = await inputs()
        assert [await took(read_all, x, y), await took(read_all, x, y)] == [COLD, WARM]
        asc.reset_l2()
        assert [await took(read_all, x, y), await took(read_all, x, y)] == [COLD, WARM]


async def test_the_first_core_kernel_of_a_device_finds_an_empty_l2_and_so_does_that_of_a_reset_one():
    async with simulation():
        for _ in range(2):
            x, y = await inputs()
            assert await took(read_all, x, y) == COLD
            await acl.ResetDevice(0)


async def copy_from_host(x):
    values = np.ones(MANY, np.float16)
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, H2D)


async def copy_to_host(x):
    values = np.ones(MANY, np.float16)
    await acl.Memcpy(values, values.nbytes, x, x.nbytes, D2H)


async def copy_on_device(x):
    await acl.Memcpy(x, x.nbytes, await halves(64), x.nbytes, acl.MemcpyKind.DEVICE_TO_DEVICE)


async def copy_rows(x):
    source = await halves(64)
    await acl.Memcpy2d(x, 2048, source, 2048, 2048, 64, acl.MemcpyKind.DEVICE_TO_DEVICE)


async def fill(x):
    await acl.Memset(x, x.nbytes, 0, x.nbytes)


async def launch_array_kernel(x):
    await count[1](x)


async def launch_core_kernel(x):
    await add_number[64](await halves(64), x, 1.0)


async def launch_graph(x):
    """Four array kernels in a row: the device takes them at once, without an operation for each."""
    stream = await acl.CreateStream()
    await acl.BeginCapture(stream)
    for _ in range(4):
        await count[1, stream](x)
    executable = await acl.GraphInstantiate(await acl.EndCapture(stream))
    await acl.GraphLaunch(executable, stream)


@pytest.mark.parametrize(
    "work",
    [
        copy_from_host, copy_to_host, copy_on_device, copy_rows, fill, launch_array_kernel, launch_core_kernel,
        launch_graph,
    ],
    ids=lambda work: work.__name__,
)  # fmt: skip
async def test_what_other_work_touches_is_there_for_a_launch(work):
    async with simulation():
        x, y = await inputs()
        await begun()
        asc.reset_l2()
        await begun()
        await work(x)
        await acl.SynchronizeDevice()
        assert await took(read_all, x, y) == WARM


async def test_half_of_the_input_is_there_after_a_copy_of_half():
    async with simulation():
        x, y = await inputs()
        await begun()
        asc.reset_l2()
        await begun()
        await acl.Memset(x, x.nbytes, 0, x.nbytes // 2)
        assert await took(read_all, x, y) == HALF


async def test_each_device_has_an_l2_of_its_own():
    async with simulation():
        x, y = await inputs()
        assert await took(read_all, x, y) == COLD
        await acl.SetDevice(1)
        await begun()
        x, y = await inputs()
        assert await took(read_all, x, y) == WARM  # after its copy from the host
        await acl.SetDevice(0)
        asc.reset_l2()
        await acl.SetDevice(1)
        assert await took(read_all, x, y) == WARM


def small(l2_bytes, **numbers):
    profile = load("ascend910b1")
    return replace(profile, aicore=replace(profile.aicore, l2_bytes=l2_bytes, **numbers))


async def test_an_l2_that_is_too_small_keeps_what_was_touched_last():
    async with simulation(device=small(128 << 10)):
        x, y = await inputs()
        other = await halves(64)
        await begun()
        asc.reset_l2()
        # The bytes that were written push out the first 2 KB. The next launch reads these first, for which it pushes
        # out the next ones: each of its bytes is pushed out before it is read again. At its end it gains 17 ns: only
        # 128 bytes were written, so the rest of the 2 KB was free.
        assert [await took(read_all, x, y) for _ in range(2)] == [COLD, COLD - 17]
        assert await took(read_all, other, y) == COLD
        await acl.Memset(other, other.nbytes, 0, 64 << 10)
        assert await took(read_all, x, y) == COLD


async def test_what_a_launch_wrote_costs_the_next_one_time_that_pushes_it_out():
    async with simulation(device=small(128 << 10, hbm_gbps=10, write_back_bytes=0)):
        x, y = await inputs()
        times = []
        for written in (False, True):
            await took(add_number, await halves(64), await halves(64), 1.0, blocks=64)
            if not written:
                asc.reset_l2()
            times.append(await took(read_all, x, y))
        assert times == [19_981, 30_141]  # HBM gives 10 GB/s here


async def test_work_that_failed_leaves_nothing():
    async with simulation(rules="acl") as sim:
        x, y = await inputs()
        await begun()
        asc.reset_l2()
        await begun()
        with sim.fault(faults.fail(op="fill")):
            await acl.MemsetAsync(x, x.nbytes, 0, x.nbytes)
        with pytest.raises(acl.AclError, match="injected"):
            await acl.SynchronizeDevice()
        assert await took(read_all, x, y) == COLD


async def test_advice_is_about_an_empty_l2():
    async with simulation():
        x, y = await inputs()
        advices = []
        for _ in range(2):
            launch = await read_all[1](x, y)
            await acl.SynchronizeDevice()
            advices.append([(each.guideline, each.saved_us) for each in asc.advise(launch.work.result)])
        assert advices[0] == advices[1] != []
