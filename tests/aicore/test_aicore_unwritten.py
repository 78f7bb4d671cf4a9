"""Memory that nothing was written to: kernels that are right are not accused, others with their line and the bytes."""

import numpy as np
import pytest
from core_kernels import TILE, halves, on_device, read, simulation

import acl_py as acl
from acl_py import asc

COUNT = 200  # elements of float32: not whole repeats of 256 bytes
WHOLE = 256
E = asc.HardEvent


def sync(*events):
    for event in events:
        asc.SetFlag(event, 0)
        asc.WaitFlag(event, 0)


def gm(*buffers):
    return [asc.GlobalTensor(asc.float32).SetGlobalBuffer(buffer) for buffer in buffers]


def ub(*tiles, dtype=asc.float32):
    return [
        asc.LocalTensor(dtype, asc.TPosition.VECCALC, tile * 4 * WHOLE, 4 * WHOLE // dtype.itemsize) for tile in tiles
    ]


def bring(tensor, source, count=COUNT):
    asc.DataCopyPad(tensor, source, asc.DataCopyExtParams(1, count * 4))
    sync(E.MTE2_V)


def send(target, tensor, count=COUNT):
    sync(E.V_MTE3)
    asc.DataCopyPad(target, tensor, asc.DataCopyExtParams(1, count * 4))


# Right kernels: each gets COUNT numbers from 1 on and must give what stands beside it.

RIGHT = []


def gives(expected, *, blocks=1, kind=asc.KernelType.AIV_ONLY, start=None):
    def note(function):
        RIGHT.append(pytest.param(function, expected, blocks, kind, start, id=function.__name__))
        return function

    return note


@gives(lambda x: x + 1)
def works_on_whole_blocks_of_a_padded_tail(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    asc.DataCopyPad(tile, source, asc.DataCopyExtParams(1, 4 * (COUNT - 5)))
    asc.PipeBarrier(asc.Pipe.MTE2)
    asc.DataCopyPad(tile[COUNT - 8 :], source[COUNT - 8 :], asc.DataCopyExtParams(1, 32))
    sync(E.MTE2_V)
    asc.Adds(tile, tile, 1.0, COUNT)
    send(target, tile)


@gives(lambda x: 3 * x)
def adds_up_in_a_tile_that_it_has_cleared(x: asc.In, y: asc.Out):
    (tile, total), (source, target) = ub(0, 1), gm(x, y)
    bring(tile, source)
    asc.Duplicate(total, 0.0, COUNT)
    for _ in range(3):
        asc.Add(total, total, tile, COUNT)
    send(target, total)


@gives(lambda x: np.where(x < 100, x, 0))
def compares_whole_repeats_and_selects_fewer(x: asc.In, y: asc.Out):
    (tile, result), (bits,), (source, target) = ub(0, 1), ub(2, dtype=asc.uint8), gm(x, y)
    bring(tile, source)
    asc.Compares(bits, tile, 100.0, asc.CMPMODE.LT, WHOLE)
    asc.Select(result, bits, tile, 0.0, asc.SELMODE.VSEL_TENSOR_SCALAR_MODE, COUNT)
    send(target, result)


@gives(lambda x: x[::-1])
def gathers_from_a_table_that_is_larger_than_its_contents(x: asc.In, y: asc.Out):
    (table, result), (at,), (source, target) = ub(0, 1), ub(2, dtype=asc.int32), gm(x, y)
    bring(table, source)
    asc.CreateVecIndex(at, 0, COUNT)
    asc.Muls(at, at, -4, COUNT)
    asc.Adds(at, at, 4 * (COUNT - 1), COUNT)
    asc.Gather(result, table, at.ReinterpretCast(asc.uint32), 0, COUNT)
    send(target, result)


@gives(lambda x: x * 2, blocks=5)
def takes_turns_with_two_buffers(x: asc.In, y: asc.Out):
    pipe, arriving, leaving = asc.TPipe(), asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (arriving, leaving):
        pipe.InitBuffer(queue, 2, 32)
    source, target = gm(x, y)
    for tile in range(5):
        at = (5 * asc.GetBlockIdx() + tile) * 8
        local = arriving.AllocTensor(asc.float32)
        asc.DataCopy(local, source[at:], 8)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.float32)
        asc.Add(result, local, local, 8)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.float32)
        asc.DataCopy(target[at:], result, 8)
        leaving.FreeTensor(result)


@gives(lambda x: 1 + 2 * x, blocks=2, start=1.0)
def adds_to_what_the_host_has_written(x: asc.In, y: asc.InOut):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source)
    sync(E.MTE2_MTE3)
    asc.SetAtomicAdd(asc.float32)
    send(target, tile)
    asc.SetAtomicNone()


@gives(lambda x: x * 2, blocks=2)
def hands_a_tile_to_another_block_in_a_workspace(x: asc.In, y: asc.Out, workspace: asc.InOut):
    (tile,), (source, target, between) = ub(0), gm(x, y, workspace)
    half, first = COUNT // 2, asc.GetBlockIdx() * (COUNT // 2)
    bring(tile, source[first:], half)
    asc.Add(tile, tile, tile, half)
    send(between[first:], tile, half)
    asc.SyncAll()
    other = half - first
    asc.DataCopyPad(tile, between[other:], asc.DataCopyExtParams(1, 4 * half))
    sync(E.MTE2_MTE3)
    send(target[other:], tile, half)


@gives(lambda x: np.full(COUNT, x[1:7].sum()))
def stores_element_by_element_and_reads_the_rest_of_the_block(x: asc.In, y: asc.Out):
    (few, sums, result), (source, target) = ub(0, 1, 2), gm(x, y)
    for index in range(1, 7):
        few.SetValue(index, source.GetValue(index))
    sync(E.S_V)
    asc.Adds(sums, few, 0.0, 8)  # a block, of which two elements are of no use
    asc.WholeReduceSum(sums, few, [0b1111110, 0], 1, 1, 1, 8)
    sync(E.V_S)
    asc.Duplicate(result, float(sums.GetValue(0)), COUNT)
    send(target, result)


@gives(lambda x: np.where(np.arange(COUNT) % 64 < 8, x, 0))
def uses_some_lanes_of_each_repeat(x: asc.In, y: asc.Out):
    (tile, result), (source, target) = ub(0, 1), gm(x, y)
    asc.DataCopy(tile, source, asc.DataCopyParams(4, 1, 7, 7))  # 8 of 64 elements
    sync(E.MTE2_V)
    asc.Duplicate(result, 0.0, COUNT)
    asc.Adds(result, tile, 0.0, 8, 4, asc.UnaryRepeatParams())
    send(target, result)


@gives(lambda x: 8 * x[:160].reshape(10, 16), kind=asc.KernelType.AIC_ONLY)
def multiplies_ten_rows_in_fractals_of_sixteen(x: asc.In, y: asc.Out):
    a1, b1 = [asc.LocalTensor(asc.half, asc.TPosition.A1, 1024 * at, 256) for at in range(2)]
    a2, b2 = (asc.LocalTensor(asc.half, position, 0, 256) for position in (asc.TPosition.A2, asc.TPosition.B2))
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 256)
    source = asc.GlobalTensor(asc.half).SetGlobalBuffer(x)
    asc.DataCopy(a1, source, asc.Nd2NzParams(1, 10, 16, 0, 16, 16, 1, 0))
    asc.DataCopy(b1, source[160:], asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
    sync(E.MTE2_MTE1)
    asc.LoadData(a2, a1, asc.LoadData2DParams())
    asc.LoadData(b2, b1, asc.LoadData2DParams(if_transpose=True))
    sync(E.MTE1_M)
    asc.Mmad(c, a2, b2, asc.MmadParams(10, 16, 16))
    sync(E.M_FIX)
    asc.Fixpipe(gm(y)[0], c, asc.FixpipeParams(16, 10))


@gives(lambda x: x + 1)
def works_in_place_on_what_is_in_and_out(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source)
    asc.Adds(tile, tile, 1.0, COUNT)
    send(target, tile)


@gives(lambda x: x + 1, blocks=3)
def has_a_short_last_block(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    first = asc.GetBlockIdx() * 72
    count = min(72, COUNT - first)
    bring(tile, source[first:], count)
    asc.Adds(tile, tile, 1.0, count)
    send(target[first:], tile, count)


@gives(lambda x: x / np.sqrt((x * x).mean() + 1e-6))
def rms_norm_as_the_vendor_writes_it(x: asc.In, y: asc.Out):
    """Ids are fetched at the start. The function that adds up fetches and uses the same ones before they are used."""
    (tile, squares, work), (source, target) = ub(0, 1, 2), gm(x, y)
    pipe = asc.TPipe()
    v_s, s_v = pipe.FetchEventID(E.V_S), pipe.FetchEventID(E.S_V)

    def total(values):
        asc.ReduceSum(work, values, work[WHOLE // 2 :], COUNT)
        event_id = pipe.FetchEventID(E.V_S)
        asc.SetFlag(E.V_S, event_id)
        asc.WaitFlag(E.V_S, event_id)
        return work.GetValue(0)

    bring(tile, source)
    asc.Mul(squares, tile, tile, COUNT)
    mean = total(squares) / COUNT
    asc.SetFlag(E.V_S, v_s)
    asc.WaitFlag(E.V_S, v_s)
    squares.SetValue(0, 1 / np.sqrt(mean + 1e-6))
    factor = squares.GetValue(0)
    asc.SetFlag(E.S_V, s_v)
    asc.WaitFlag(E.S_V, s_v)
    asc.Muls(squares, tile, float(factor), COUNT)
    send(target, squares)


@pytest.mark.parametrize(("function", "expected", "blocks", "kind", "start"), RIGHT)
async def test_a_right_kernel_is_not_accused(function, expected, blocks, kind, start):
    x = np.arange(1, COUNT + 1, dtype=np.float32)
    if kind is asc.KernelType.AIC_ONLY:  # the rows of a matrix, and 8 times the identity
        x = np.concatenate([np.arange(160) % 50, 8 * np.eye(16).ravel()]).astype(np.float16)
    expected = expected(x.astype(np.float32)).astype(np.float32).ravel()
    async with simulation() as sim:
        source = await on_device(x)
        target = acl.Array(await acl.Malloc(expected.nbytes), np.float32)
        if function is works_in_place_on_what_is_in_and_out:
            target = source
        if start is not None:
            target = await on_device(np.full(COUNT, start, np.float32))
        workspace = [acl.Array(await acl.Malloc(4096), np.float32)] * ("workspace" in function.__annotations__)
        await asc.kernel(kind=kind)(function)[blocks](source, target, *workspace)
        await acl.SynchronizeDevice()
        assert list(map(str, sim.findings)) == []
        np.testing.assert_allclose(await read(target), expected, rtol=1e-6)


# Kernels that read, or leave, what nothing was written to.


def beyond_its_input(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source, COUNT - 8)
    asc.Adds(tile, tile, 1.0, COUNT)
    send(target, tile)


def into_l0c_that_holds_nothing(x: asc.In, y: asc.Out):
    a2, b2 = (asc.LocalTensor(asc.half, position, 0, 256) for position in (asc.TPosition.A2, asc.TPosition.B2))
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 1024, 256)
    asc.Mmad(c, a2, b2, asc.MmadParams(16, 16, 16, cmatrix_init_val=False))
    sync(E.M_FIX)
    asc.Fixpipe(gm(y)[0], c, asc.FixpipeParams(COUNT // 16, 16))
    asc.Fixpipe(gm(y)[0][192:], c, asc.FixpipeParams(8, 1))


def from_a_fresh_workspace(x: asc.In, y: asc.Out, workspace: asc.InOut):
    (tile,), (source, target, between) = ub(0), gm(x, y, workspace)
    bring(tile, source)
    send(between, tile, COUNT - 40)
    sync(E.MTE3_MTE2)
    asc.DataCopy(tile, between, COUNT)
    sync(E.MTE2_V)
    asc.Adds(tile, tile, 1.0, COUNT)
    send(target, tile)


def rows_from_a_fresh_workspace(x: asc.In, y: asc.Out, workspace: asc.InOut):
    (tile, rows), (source, target, between) = ub(0, 1), gm(x, y, workspace)
    asc.DataCopy(rows, between[8:], asc.DataCopyParams(3, 1, 4, 0))
    bring(tile, source)
    send(target, tile)


def without_its_head(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source)
    send(target[8:], tile, COUNT - 8)


def without_its_tail(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source)
    send(target, tile, COUNT - 6)


def nothing_at_all(x: asc.In, y: asc.Out):
    (tile,), (source,) = ub(0), gm(x)
    bring(tile, source)


def as_atomic_sums(x: asc.In, y: asc.Out):
    (tile,), (source, target) = ub(0), gm(x, y)
    bring(tile, source)
    sync(E.MTE2_MTE3)
    asc.SetAtomicAdd(asc.float32)
    send(target, tile)


def line_of(function, text):
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    return 1 + next(number for number in range(code.co_firstlineno, len(lines)) if text in lines[number])


ADDS, MMAD, COPY, SEND = "Adds(", "Mmad(", "DataCopy(", "DataCopyPad("


@pytest.mark.parametrize(
    ("function", "rule", "where", "words"),
    [
        (beyond_its_input, "UNWRITTEN_READ", ADDS, "Adds (V) at {} reads UB[768:800], where nothing was written"),
        (into_l0c_that_holds_nothing, "UNWRITTEN_READ", MMAD, "Mmad (M) at {} reads L0C[1024:2048]"),
        (from_a_fresh_workspace, "UNWRITTEN_READ", COPY, "DataCopy (MTE2) at {} reads GM workspace[640:800]"),
        (rows_from_a_fresh_workspace, "UNWRITTEN_READ", COPY, "DataCopy (MTE2) at {} reads GM workspace[32:64]"),
        (without_its_head, "UNWRITTEN_OUT", SEND, "DataCopyPad (MTE3) at {} writes beside it, and 32 of 800 bytes"),
        (without_its_tail, "UNWRITTEN_OUT", SEND, "GM y[776:800] is never written, and the argument y is Out"),
        (without_its_tail, "UNWRITTEN_OUT", SEND, "DataCopyPad (MTE3) at {} writes beside it, and 24 of 800 bytes"),
        (nothing_at_all, "UNWRITTEN_OUT", SEND, "GM y[0:800] is never written, and the argument y is Out"),
        (as_atomic_sums, "UNWRITTEN_READ", SEND, "DataCopyPad (MTE3) at {} reads GM y[0:800]"),
    ],
)
async def test_what_is_read_or_left_unwritten_is_named_with_line_and_bytes(function, rule, where, words):
    kind = asc.KernelType.AIC_ONLY if function is into_l0c_that_holds_nothing else asc.KernelType.AIV_ONLY
    async with simulation() as sim:
        source = await on_device(np.ones(COUNT, np.float32))
        target = acl.Array(await acl.Malloc(4 * COUNT), np.float32)
        workspace = [acl.Array(await acl.Malloc(4096), np.float32)] * ("workspace" in function.__annotations__)
        await asc.kernel(kind=kind)(function)[1](source, target, *workspace)
        await acl.SynchronizeDevice()
        (mistake,) = sim.findings
    number = line_of(send if where is SEND else function, where)
    assert mistake.rule.name == rule
    assert words.format(f"test_aicore_unwritten.py:{number}") in mistake.text


async def test_fresh_memory_that_is_given_twice_is_one_finding():
    @asc.kernel
    def reads(x: asc.InOut, y: asc.InOut):
        asc.DataCopy(ub(0)[0], gm(y)[0], COUNT)

    async with simulation() as sim:
        fresh = acl.Array(await acl.Malloc(4 * COUNT), np.float32)
        await reads[1](fresh, fresh)
        await acl.SynchronizeDevice()
        (mistake,) = sim.findings
        assert (mistake.rule.name, mistake.count) == ("UNWRITTEN_READ", 1)


async def test_with_hazards_off_nothing_is_looked_for():
    async with simulation() as sim:
        source, target = [await on_device(np.ones(COUNT, np.float32)) for _ in range(2)]
        for function in (beyond_its_input, without_its_tail):
            await asc.kernel(hazards=False)(function)[1](source, target)
        await acl.SynchronizeDevice()
        assert sim.findings == []


@asc.kernel
def adds_a_tile_of_which_half_is_written(x: asc.In, y: asc.Out, used: int):
    """y = x + 1: the kernel computes 1024 elements, of which 512 were read from GM, and stores the first *used*."""
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE)
    asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(x), TILE // 2)
    asc.SetFlag(asc.HardEvent.MTE2_V, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_V, 0)
    asc.Adds(tile, tile, 1, TILE)
    asc.SetFlag(asc.HardEvent.V_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
    asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(y), tile, used)


@pytest.mark.parametrize(("used", "is_harmless"), [(TILE // 2, True), (TILE // 2 + 16, False)])
async def test_a_read_of_unwritten_bytes_that_reach_no_result_is_marked(used, is_harmless):
    async with simulation():
        x, y = await halves(1, 2), await halves(1)
        op = await adds_a_tile_of_which_half_is_written[1](x, acl.Array(y.buffer, np.float16, (used,)), used)
        await acl.SynchronizeDevice()
        (finding,) = op.work.result.findings
        assert finding.rule is asc.Rule.UNWRITTEN_READ
        assert finding.is_harmless is is_harmless
        assert str(finding).endswith("harmless here: with other bytes there the results are the same") is is_harmless
        assert (await read(y))[: TILE // 2].tolist() == [3] * (TILE // 2)


@asc.kernel
def branches_on_what_nobody_wrote(y: asc.Out):
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 16)
    asc.Duplicate(tile, 1, 8)
    asc.SetFlag(asc.HardEvent.V_S, 0)
    asc.WaitFlag(asc.HardEvent.V_S, 0)
    asc.assert_(np.isnan(tile.GetValue(12)))  # noqa: PT009
    asc.SetFlag(asc.HardEvent.V_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
    asc.DataCopy(
        asc.GlobalTensor(asc.half).SetGlobalBuffer(y), asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 16), 16
    )


async def test_a_kernel_whose_way_depends_on_unwritten_bytes_is_not_harmless():
    async with simulation():
        y = await halves(1)
        op = await branches_on_what_nobody_wrote[1](acl.Array(y.buffer, np.float16, (16,)))
        await acl.SynchronizeDevice()
        assert [finding.is_harmless for finding in op.work.result.findings] == [False]
