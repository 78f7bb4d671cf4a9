"""Core kernels through the verbs: when they run, what they see, who sees what they write, and what they say."""

import asyncio
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from core_kernels import (
    DEVICE,
    POISON,
    TILE,
    add_number,
    copy_through,
    halves,
    increment,
    increment_slowly,
    on_device,
    read,
    simulation,
)
from histories import D2H

import acl_py as acl
from acl_py import asc
from device_model.aicore.launch import cores_of
from device_model.profile import load

# --- launching


async def test_a_core_kernel_is_launched_like_every_other():
    async with simulation():
        x = await on_device(np.arange(8 * TILE).astype(np.float16))
        y, z = await halves(8), await halves(8)
        stream = await acl.CreateStream()
        await acl.LaunchKernel(add_number, 8, (x, y, 2), stream)
        await add_number[8, stream](y, z, -1.0)
        await acl.SynchronizeStream(stream)
        assert (await read(z) == await read(x) + np.float16(2) - np.float16(1)).all()


@pytest.mark.parametrize("form", ["array", "buffer", "address", "part"])
async def test_arguments_may_be_arrays_buffers_and_addresses(form):
    @asc.kernel
    def fill(x):
        tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE)
        asc.Duplicate(tile, 3.0, TILE)
        asc.SetFlag(asc.HardEvent.V_MTE3, 0)
        asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
        asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(x), tile, TILE)

    async with simulation() as sim:
        x = await halves(2, 1.0)
        arguments = {
            "array": x, "buffer": x.buffer, "address": x.buffer.address + 2 * TILE, "part": x.buffer[TILE:],
        }  # fmt: skip
        await fill[1](arguments[form])
        await acl.SynchronizeDevice()
        first = {"array": 0, "buffer": 0, "address": TILE, "part": TILE // 2}[form]
        expected = np.ones(2 * TILE, np.float16)
        expected[first : first + TILE] = 3
        assert (await read(x) == expected).all()
        assert sim.findings == []


async def test_what_is_only_written_holds_poison_where_the_kernel_left_it_out():
    async with simulation():
        x, y = await halves(4, 5.0), await halves(4, 1.0)
        await add_number[2](x, y, 1)
        await acl.SynchronizeDevice()
        result = await read(y)
        assert (result[: 2 * TILE] == 6).all()
        assert (result[2 * TILE :].view(np.uint16) == POISON).all()


async def test_writing_to_what_is_only_read_fails_the_kernel():
    @asc.kernel
    def bad(x: asc.In):
        copy_through(x, x, lambda result, tile: asc.Adds(result, tile, 1, TILE))

    async with simulation():
        await bad[1](await halves(1))
        with pytest.raises(
            acl.AclError,
            match=r"kernel bad raised KernelError: DataCopy \(MTE3\) at core_kernels.py:\d+ writes to GM x, "
            "which the kernel declares as In; declare it as Out or InOut",
        ):
            await acl.SynchronizeDevice()


@pytest.mark.parametrize("hazards", [True, False])
async def test_an_argument_beside_one_that_is_written_is_still_only_read(hazards):
    """Two parts of one allocation: what was written to the first would be lost."""

    def both(x: asc.In, y: asc.Out, wrong: bool):
        copy_through(x, x if wrong else y, lambda result, tile: asc.Adds(result, tile, 1, TILE))

    kernel = asc.kernel(hazards=hazards)(both)
    async with simulation():
        x = await halves(2, 1.0)
        first, second = x.buffer[: 2 * TILE], x.buffer[2 * TILE :]
        await kernel[1](first, second, False)
        await kernel[1](first, first, True)  # which may be written by its other name
        await acl.SynchronizeDevice()
        assert (await read(x) == 2).all()
        await kernel[1](first, second, True)
        with pytest.raises(
            acl.AclError, match=r"writes to GM x, which the kernel declares as In; declare it as Out or InOut"
        ) as e:
            await acl.SynchronizeDevice()
        assert ("DataCopy (MTE3) at core_kernels.py" in str(e.value)) == hazards


async def test_a_profile_without_ai_cores_refuses_it_at_once():
    async with acl.simulate(device="h200") as sim:
        x = acl.Array(await acl.Malloc(2 * TILE), np.float16)
        before = sim.now_ns, len(sim.runtime.unfinished())
        with pytest.raises(
            acl.AclError, match=r"profile h200 does not describe any.*run it on one that does: .*ascend910b1"
        ) as caught:
            await increment[1](x)
        assert caught.value.kind is acl.Kind.NOT_SUPPORTED
        assert (sim.now_ns, len(sim.runtime.unfinished())) == before


def test_a_core_kernel_is_launched_not_called():
    with pytest.raises(TypeError, match=r"<core kernel increment> is launched, not called: await increment\[blocks"):
        increment(1)


def test_weak_mode_needs_hazards():
    with pytest.raises(ValueError, match="weak=True needs hazards=True"):
        asc.kernel(hazards=False, weak=True)


async def test_the_wrong_number_of_arguments_is_refused():
    async with simulation():
        with pytest.raises(TypeError, match="<core kernel add_number> takes 3 arguments, not 1"):
            await add_number[1](await halves(1))


# --- when it reads and when it writes


async def test_it_sees_what_the_work_before_it_wrote():
    @acl.kernel(cost=acl.Cost(us=3))
    def fives(x: acl.Out):
        x[:] = 5

    async with simulation():
        x, y = await halves(1), await halves(1)
        await acl.MemsetAsync(y.buffer, y.nbytes, 0, y.nbytes)
        await fives[1](x)
        await add_number[1](x, y, 1)
        await increment[1](y)
        await acl.SynchronizeDevice()
        assert (await read(y) == 7).all()


async def test_what_it_writes_is_there_at_its_end_and_not_before():
    async with simulation() as sim:
        x = await halves(8, 1.0)
        streams = [await acl.CreateStream() for _ in range(2)]
        host = await acl.MallocHost(16)
        op = await increment_slowly[8, streams[0]](x, 0)
        seen = []
        while not op.done:
            await acl.MemcpyAsync(host, 16, x.buffer, 16, D2H, streams[1])
            await acl.SynchronizeStream(streams[1])
            seen.append((float(host.numpy(np.float16)[0]), sim.trace.ops[-1].end_ns))
        early = [value for value, copied in seen if copied < op.end_ns]
        assert early == [1.0] * len(early)
        assert len(early) > 0
        assert (await read(x) == 2).all()


async def test_what_others_write_while_it_runs_is_too_late_for_it():
    async with simulation() as sim:
        x, y = await halves(8, 1.0), await halves(8)
        beside = await acl.CreateStream()
        op = await add_number[8, await acl.CreateStream()](x, y, 1)
        while not sim.runtime.device(0).cores.resident:
            await acl.HostWork(0.1)
        assert not op.done
        await acl.MemsetAsync(x.buffer, x.nbytes, 0, x.nbytes, beside)
        await acl.SynchronizeDevice()
        assert (await read(x) == 0).all()
        assert (await read(y) == 2).all()


async def test_launches_side_by_side_may_have_parts_of_one_buffer():
    async with simulation() as sim:
        x = await on_device(np.arange(4 * TILE).astype(np.float16))
        before = await read(x)
        streams = [await acl.CreateStream() for _ in range(4)]
        for part, stream in enumerate(streams):
            await increment_slowly[1, stream](x, part * TILE)
        await acl.SynchronizeDevice()
        starts, ends = zip(*((op.start_ns, op.end_ns) for op in sim.trace.ops[-4:]), strict=True)
        assert (await read(x) == before + np.float16(1)).all()
    assert max(starts) < min(ends)  # they were side by side


async def test_parts_of_one_allocation_are_one_memory_to_the_kernel():
    """x is read and written in place through two arguments."""
    async with simulation() as sim:
        both = await on_device(np.full(2 * TILE, 4, np.float16))
        await add_number[1](both[:TILE], both[TILE:], 2)
        await acl.SynchronizeDevice()
        assert (await read(both) == np.repeat(np.float16([4, 6]), TILE)).all()
        assert sim.findings == []


LENGTH = 48 * 65536  # halves, 6 MiB: what touches so many is handed to a worker, if there is one


@acl.kernel(cost=acl.Cost(us=20))
def scale(x: acl.InOut):
    for part in np.array_split(x, 64):
        part *= 2


@asc.kernel(hazards=False)
def mingle(x: asc.In, y: asc.InOut):
    """y = x + y in even tiles, left alone in odd ones."""
    pipe, size = asc.TPipe(), 16384
    x_queue, y_queue = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (x_queue, y_queue, z_queue):
        pipe.InitBuffer(queue, 1, size * 2)
    share = LENGTH // asc.GetBlockNum()
    x_gm, y_gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x), asc.GlobalTensor(asc.half).SetGlobalBuffer(y)
    for at in range(share * asc.GetBlockIdx(), share * (asc.GetBlockIdx() + 1), 2 * size):
        for queue, source in ((x_queue, x_gm), (y_queue, y_gm)):
            tile = queue.AllocTensor(asc.half)
            asc.DataCopy(tile, source[at:], size)
            queue.EnQue(tile)
        x_tile, y_tile, z_tile = x_queue.DeQue(asc.half), y_queue.DeQue(asc.half), z_queue.AllocTensor(asc.half)
        asc.Add(z_tile, x_tile, y_tile, size)
        x_queue.FreeTensor(x_tile)
        y_queue.FreeTensor(y_tile)
        z_queue.EnQue(z_tile)
        z_tile = z_queue.DeQue(asc.half)
        asc.DataCopy(y_gm[at:], z_tile, size)
        z_queue.FreeTensor(z_tile)


async def racy(workers, seed):
    """Launches and copies over three streams that share three buffers: the results, and the history."""
    rng = np.random.default_rng(seed)
    async with simulation(workers=workers) as sim:
        buffers = [await on_device(np.full(LENGTH, n, np.float16)) for n in (1, 2, 3)]
        streams = [await acl.CreateStream() for _ in range(3)]
        for _ in range(12):
            stream, (x, y) = streams[rng.integers(3)], rng.choice(3, 2, replace=False)
            x, y = buffers[x], buffers[y]
            match rng.integers(4):
                case 0:
                    await scale[4, stream](x)
                case 1:
                    await acl.MemcpyAsync(y, LENGTH, x, LENGTH, acl.MemcpyKind.DEVICE_TO_DEVICE, stream)
                case _:
                    await mingle[int(rng.choice([4, 24, 48])), stream](x, y)
        await acl.SynchronizeDevice()
        return [sha256((await read(each)).tobytes()).hexdigest() for each in buffers], sim.trace.ops


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
def test_the_result_is_the_same_for_every_number_of_workers(seed):
    assert asyncio.run(racy(1, seed)) == asyncio.run(racy(4, seed))


# --- cores


@pytest.mark.parametrize(
    ("kind", "blocks", "cores"),
    [
        (asc.KernelType.AIV_ONLY, 1, 1),
        (asc.KernelType.AIV_ONLY, 2, 1),
        (asc.KernelType.AIV_ONLY, 3, 2),
        (asc.KernelType.AIV_ONLY, 1000, 24),
        (asc.KernelType.AIC_ONLY, 5, 5),
        (asc.KernelType.AIC_ONLY, 25, 24),
        (asc.KernelType.MIX_AIC_1_1, 3, 3),
        (asc.KernelType.MIX_AIC_1_2, 30, 24),
    ],
)
def test_a_launch_takes_whole_ai_cores(kind, blocks, cores):
    """Of 24, each a cube core and two vector cores."""
    assert cores_of(kind, blocks, load(DEVICE).aicore) == cores


@pytest.mark.slow
async def test_launches_share_the_device_while_there_are_cores():
    async with simulation() as sim:
        parts = [await halves(32, 1.0) for _ in range(3)]
        streams = [await acl.CreateStream() for _ in parts]
        for part, stream in zip(parts, streams, strict=True):
            await increment_slowly[32, stream](part, 0, 300)  # 16 AI cores of 24 each
        await acl.SynchronizeDevice()
        for part in parts:
            assert (await read(part) == 2).all()
    first, second, third = [(op.start_ns, op.end_ns) for op in sim.trace.ops if op.kind == "kernel"]
    assert first[0] < second[0] < third[0]
    assert second[0] <= first[1]  # as soon as enough cores are done
    assert third[0] <= second[1]


async def test_blocks_beyond_the_cores_come_in_waves():
    async with simulation() as sim:
        x = await halves(480)
        op = await increment[480](x)
        await acl.SynchronizeDevice()
        assert (await read(x) == 1).all()
        timeline = op.work.result.timeline
        assert len(timeline.free_cycles) == 48
        of_core = [program for program in op.work.result.programs if timeline.core_of(program) == "AIV 7"]
        assert len(of_core) == 10
        for one, other in pairwise(of_core):
            assert one.instructions[-1].end <= other.instructions[0].start
    assert [op.cores.blocks for op in sim.trace.ops if op.cores is not None] == [480]
