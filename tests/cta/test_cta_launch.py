"""Thread-block kernels through the verbs: launches, what the card refuses, and who sees what they write."""

import numpy as np
import pytest
from blocks import TILE, on_device, pipelined, read, tiles

import acl_py as acl
from acl_py import asc, cta


@cta.kernel(threads=TILE, shared=8 * TILE, registers=64)
def scale(x: cta.In, y: cta.Out, count):
    pipelined(x, y, count)


async def test_a_kernel_is_launched_like_every_other_and_its_time_follows_from_its_instructions():
    async with acl.simulate(device="h200") as sim:
        values = tiles(4)
        x, y = await on_device(values), await on_device(np.zeros_like(values))
        stream = await acl.CreateStream()
        launches = [await scale[1, stream](x, y, count) for count in (4, 4, 2)]
        await acl.SynchronizeStream(stream)
        assert (await read(y))[:2].tolist() == (2 * values[:2]).tolist()
        four, again, two = (op.end_ns - op.start_ns for op in launches)
        assert four == again
        assert 1000 < two < four < 3000  # nanoseconds: two or four trips to the memory, and what a launch takes
        assert launches[0].work.result.timeline.busy_us["lsu"] > 0
        assert [(finding.rule.name, finding.missing) for finding in sim.findings] == [("UNWRITTEN_OUT", "a write to y")]


async def test_blocks_of_a_grid_know_their_place_and_come_in_waves():
    @cta.kernel(threads=32)
    def fill(y: cta.InOut):
        i, j, k = cta.block
        y[k, j, i, cta.tid] = i + 10 * j + 100 * k

    async with acl.simulate(device="h200") as sim:
        y = await on_device(np.zeros((4, 3, 2, 32), np.int32))
        op = await fill[(2, 3, 4), None](y)
        await acl.SynchronizeDevice()
        expected = np.add.outer(np.add.outer(100 * np.arange(4), 10 * np.arange(3)), np.arange(2))
        assert ((await read(y)) == expected[..., None]).all()
        assert (op.work.grid, op.work.cores) == ((2, 3, 4), 24)
        many = await fill[(2, 3)](await on_device(np.zeros((1, 3, 2, 32), np.int32)))
        await acl.LaunchKernel(fill, 2, (y,), None)
        await acl.SynchronizeDevice()
        assert many.work.cores == 6
        assert sim.findings == []


async def test_a_missing_wait_is_a_finding_of_the_simulation_with_its_lines(capsys):
    @cta.kernel(threads=64)
    def hasty(x: cta.In, y: cta.Out):
        s, t = cta.shared(np.float32, 64), cta.tid
        cta.cp_async(s.at[t], x.at[t], 4)
        cta.commit_group()
        y[t] = s[t]
        cta.wait_group(0)

    async with acl.simulate(device="h200") as sim:
        x = await on_device(np.arange(64, dtype=np.float32))
        await hasty[1](x, await on_device(np.zeros(64, np.float32)))
        await acl.SynchronizeDevice()
        [finding] = sim.findings
        assert (finding.rule, finding.missing, finding.kernel) == (cta.Rule.RAW, "wait_group()", "hasty")
        assert [access.site.split(":")[0] for access in finding.accesses] == ["test_cta_launch.py"] * 2
    assert "kernel hasty: RAW in block 0: thread 0 reads" in capsys.readouterr().err


async def test_a_kernel_that_raises_in_one_thread_fails_its_launch_and_publishes_nothing():
    @cta.kernel(threads=64)
    def beyond(y: cta.InOut):
        y[cta.tid] = 1
        y[cta.tid + 1] = 2

    async with acl.simulate(device="h200"):
        y = await on_device(np.zeros(64, np.float32))
        await beyond[1](y)
        with pytest.raises(
            acl.AclError,
            match=r"kernel beyond raised KernelError: thread 63 of block 0 at \S+: index 64 is outside",
        ):
            await acl.SynchronizeDevice()


@pytest.mark.parametrize(
    ("grid", "options", "kind", "message"),
    [
        (1, {"threads": 1025}, acl.Kind.INVALID_LAUNCH, "at most 1024 threads"),
        (1, {"registers": 256}, acl.Kind.INVALID_LAUNCH, "a thread 255 registers"),
        (1, {"threads": 1024, "registers": 128}, acl.Kind.INVALID_LAUNCH, "131072 in all; an SM has 65536 registers"),
        (1, {"shared": 49153}, acl.Kind.INVALID_VALUE, r"49152 are allowed; call empty.allow_shared\(49153\)"),
        (1, {"shared": 232449}, acl.Kind.INVALID_VALUE, "a block has at most 232448 bytes"),
        (0, {}, acl.Kind.INVALID_LAUNCH, "with 0 blocks"),
        ((1, 65536), {}, acl.Kind.INVALID_LAUNCH, r"a grid of \(1, 65536, 1\)"),
        ((-1, -1), {}, acl.Kind.INVALID_LAUNCH, r"a grid of \(-1, -1, 1\)"),
    ],
)
async def test_a_launch_that_the_card_cannot_hold_is_refused_at_the_call(grid, options, kind, message):
    @cta.kernel(**options)
    def empty():
        pass

    async with acl.simulate(device="h200"):
        with pytest.raises(acl.AclError, match=message) as raised:
            await empty[grid, None]()
        assert raised.value.kind is kind


async def test_more_than_48_kb_need_the_attribute():
    @cta.kernel(threads=32, shared=100_000)
    def large(y: cta.Out):
        s, t = cta.shared(np.float32, 25_000), cta.tid
        s[t + 24_968] = t
        y[t] = s[t + 24_968]

    async with acl.simulate(device="h200") as sim:
        y = await on_device(np.zeros(32, np.float32))
        with pytest.raises(acl.AclError, match="100000 bytes of dynamic shared memory, and 49152 are allowed"):
            await large[1](y)
        large.allow_shared(100_000)
        await large[1](y)
        await acl.SynchronizeDevice()
        assert (await read(y)).tolist() == list(range(32))
        assert sim.findings == []


async def test_each_kind_of_kernel_needs_its_kind_of_cores():
    @cta.kernel
    def threads():
        pass

    @asc.kernel
    def cores():
        pass

    async with acl.simulate(device="ascend910b1"):
        with pytest.raises(acl.AclError, match=r"needs SMs, and profile ascend910b1 does not describe any; .* h200"):
            await threads[1]()
    async with acl.simulate(device="h200"):
        with pytest.raises(acl.AclError, match="needs AI cores, and profile h200 does not describe any"):
            await cores[1]()


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
async def test_elements_that_no_register_holds_are_refused_at_the_call(dtype):
    async with acl.simulate(device="h200"):
        y = acl.Array(await acl.Malloc(1024), dtype)
        with pytest.raises(TypeError, match=rf"argument x of <thread-block kernel scale>: .* not with {dtype}"):
            await scale[1](y, y, 1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cta.kernel(threads=0), ValueError, r"@cta.kernel\(threads=0\): give 1 or more"),
        (lambda: cta.kernel(threads=(32, 8)), TypeError, r"their number, 256; .* `y, x = divmod\(cta.tid, 32\)`"),
        (lambda: cta.kernel(shared=-1), ValueError, r"@cta.kernel\(shared=-1\)"),
        (lambda: cta.kernel(threads="many"), TypeError, "threads"),
        (lambda: scale[(1, 1, 1, 1)](None, None, 1), TypeError, "one to three numbers of blocks, not 4"),
        (lambda: scale["all"](None, None, 1), TypeError, "the grid"),
        (lambda: scale[1](None), TypeError, "takes 3 arguments, not 1"),
        (lambda: scale.allow_shared(-1), ValueError, "0 or more"),
        (lambda: scale(1, 2, 3), TypeError, "is launched, not called"),
    ],
)
def test_mistakes_around_a_kernel_are_refused_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


async def test_barriers_of_every_kind_are_timed():
    @cta.kernel(threads=64)
    def kernel(y: cta.Out):
        t = cta.tid
        low = t < 16
        for mask in (low, ~low):  # warp 0 arrives in two parts
            with cta.where(mask):
                cta.syncthreads()
        cta.syncwarp()
        with cta.where(t < 32):
            cta.bar_arrive(1, 64)
        with cta.where(t >= 32):
            cta.bar_sync(1, 64)
        bar = cta.mbarrier(64)
        cta.syncthreads()
        bar.wait(1)  # the phase before the first
        bar.arrive()
        bar.wait(0)
        y[t] = 1

    async with acl.simulate(device="h200") as sim:
        y = await on_device(np.zeros(64, np.float32))
        op = await kernel[1](y)
        await acl.SynchronizeDevice()
        assert sim.findings == []
        assert (await read(y)).tolist() == [1] * 64
        assert 750 < op.end_ns - op.start_ns < 2000
