"""Blocks that do the same are run once for all, and nobody can tell: bytes, times and findings are those of blocks that
run one by one.

A kernel that counts its calls changes what lies outside of it, so it is called for each block. All comparisons here are
with such a kernel, which does the same otherwise.
"""

import operator
import sys
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from alike import TILE, check_same, numbers, ub
from cores import launch, work
from hypothesis import example, given, settings
from hypothesis import strategies as st

from device_model.aicore.alike.plain import Judge
from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.each import Blocks, Differ, Each, range_of_blocks
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.registers import GetSystemCycle
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32, half
from device_model.aicore.cube.fixpipe import Fixpipe, FixpipeParams
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.cube.mmad import Mmad, MmadParams
from device_model.aicore.flags.crossing import SyncAll
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad, DataCopyParams, Nd2NzParams
from device_model.aicore.vector.elementwise import Add, Adds, Muls
from device_model.aicore.vector.reduce import ReduceSum
from device_model.kernel.findings import KernelError
from tests.campaigns import many

PLACES = 4  # tensors in UB


# Random kernels: a tuple of steps, each a name and numbers.


class Step(NamedTuple):
    """One step of a random kernel: where in GM it goes is *first* + *apart* * block, in tiles."""

    name: str
    place: int  # in UB
    other: int
    first: int
    apart: int
    array: int


def perform(steps, x, y, z):
    arrays = [GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y, z)]
    block = GetBlockIdx()
    for name, place, other, first, apart, array in steps:
        at = (first + apart * block) * TILE
        one, two = ub(place), ub(other)
        if name == "in":
            DataCopy(one, arrays[array][at:], TILE)
        elif name == "out":
            DataCopy(arrays[array][at], one, TILE)
        elif name == "tail":
            count = min(TILE, max(8, 20 * TILE - at))
            DataCopyPad(one, arrays[array][at:], DataCopyExtParams(1, count * 4, 0, 0))
        elif name == "rows":
            DataCopy(one, arrays[array][at:], DataCopyParams(4, 2, 2, 0))
        elif name == "add":
            Add(one, one, two, TILE)
        elif name == "scale" and block % 3 != other:
            Muls(one, two, 0.5, TILE)
        elif name == "few" and block < first:
            Adds(one, two, 1.0, TILE)
        elif name == "number":
            Adds(one, two, float(first), TILE)
        elif name == "atomic":
            SetAtomicAdd(float32)
            DataCopy(arrays[array][at], one, TILE)
            SetAtomicNone()
        elif name == "look":
            if one.GetValue(0) > 4:
                Adds(one, one, 1.0, TILE)
        elif name == "sum":
            ReduceSum(one, one, two, TILE)
        elif name == "all":
            SyncAll()
        elif name == "barrier":
            PipeBarrier(Pipe.ALL)
        elif name == "flag":
            SetFlag(HardEvent.MTE2_V, place)
            WaitFlag(HardEvent.MTE2_V, place)
        elif name == "store":
            SetFlag(HardEvent.V_MTE3, place)
            WaitFlag(HardEvent.V_MTE3, place)
        elif name == "late":
            one.SetValue(other, 3.0)
        elif name == "clock":
            GetSystemCycle()
        elif name == "moved":  # a tensor that names other bytes afterwards
            arrays[array].SetGlobalBuffer((x, y, z)[array])
            DataCopy(one, arrays[array], DataCopyParams(2, 2, 2, 0))
            arrays[array].SetGlobalBuffer((x, y, z)[other % 3][at:])
        elif name == "hint":
            DataCopy(one, arrays[array][(block // 2 + first) * TILE :], TILE)


COMMON = [
    "in",
    "in",
    "out",
    "add",
    "number",
    "barrier",
    "flag",
    "store",
    "tail",
    "rows",
    "late",
    "hint",
    "moved",
    "clock",
]
STEPS = st.builds(
    Step,
    st.one_of(st.sampled_from(COMMON), st.sampled_from(["scale", "few", "atomic", "look", "sum", "all"])),
    st.integers(0, PLACES - 1),
    st.integers(0, PLACES - 1),
    st.integers(0, 20),
    st.integers(0, 3),
    st.integers(0, 2),
)
KERNELS = st.lists(STEPS, min_size=1, max_size=14).map(tuple)
IN_AND_OUT = (
    Step("in", 0, 0, 0, 2, 0), Step("flag", 0, 0, 0, 0, 0), Step("number", 1, 0, 3, 0, 0),
    Step("store", 0, 0, 0, 0, 0), Step("out", 1, 0, 1, 2, 1),
)  # fmt: skip


@given(KERNELS, st.sampled_from([{}, {"auto_sync": True}, {"hazards": False}, {"values": False}]))
@settings(max_examples=many(15))
@example(IN_AND_OUT, {})
@example(
    (Step("number", 1, 3, 3, 0, 0), Step("in", 3, 0, 0, 1, 0), Step("out", 1, 0, 0, 1, 2)), {}
)  # reads no old bytes
@example((*IN_AND_OUT, Step("atomic", 1, 0, 5, 0, 2), Step("clock", 0, 0, 0, 0, 0)), {})  # all blocks add to one place
@example((Step("moved", 0, 1, 3, 1, 0), Step("flag", 0, 0, 0, 0, 0), *IN_AND_OUT[2:]), {})
def test_any_kernel_has_the_history_of_its_blocks(steps, options):
    check_same(partial(perform, steps), numbers(), **options)


# Kernels as people write them.


class AddCustom:
    """As the samples of Ascend C are written, with a last tile that is shorter."""

    def __init__(self, x, y, z, length):
        self.length = length // GetBlockNum()
        first = self.length * GetBlockIdx()
        self.x, self.y, self.z = (GlobalTensor(half).SetGlobalBuffer(part[first:], self.length) for part in (x, y, z))
        pipe = TPipe()
        self.inputs, self.output = [TQue(TPosition.VECIN, 1) for _ in range(2)], TQue(TPosition.VECOUT, 1)
        for queue in (*self.inputs, self.output):
            pipe.InitBuffer(queue, 2, 2 * TILE)

    def process(self):
        for at in range(0, self.length, TILE):
            self.add(at, min(TILE, self.length - at))

    def add(self, at, count):
        for queue, source in zip(self.inputs, (self.x, self.y), strict=True):
            local = queue.AllocTensor(half)
            DataCopy(local, source[at:], count)
            queue.EnQue(local)
        x, y, z = self.inputs[0].DeQue(half), self.inputs[1].DeQue(half), self.output.AllocTensor(half)
        Add(z, x, y, count)
        self.output.EnQue(z)
        for queue, local in zip(self.inputs, (x, y), strict=True):
            queue.FreeTensor(local)
        z = self.output.DeQue(half)
        DataCopy(self.z[at], z, count)
        self.output.FreeTensor(z)


def add_custom(x, y, z, length):
    AddCustom(x, y, z, length).process()


def test_a_kernel_with_queues_is_called_once_for_all_blocks():
    length = 16 * 200
    assert check_same(add_custom, numbers(3, length, np.float16), length, blocks=16, l2=None) == 1


PLACED = (TPosition.A1, 0), (TPosition.B1, 8192)


def multiply(a, b, c, size):
    """A block multiplies its rows of A by all of B, of *size* x *size*."""
    first = GetBlockIdx() * size * size
    a1, b1 = (
        LocalTensor(half, position, at, size * size) for position, at in ((TPosition.A1, 0), (TPosition.B1, 8192))
    )
    a2, b2 = (LocalTensor(half, position, 0, size * size) for position in (TPosition.A2, TPosition.B2))
    total = LocalTensor(float32, TPosition.CO1, 0, size * size)
    params = Nd2NzParams(1, size, size, 0, size, size, 1, 0)
    DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(a)[first:], params)
    DataCopy(b1, GlobalTensor(half).SetGlobalBuffer(b), params)
    SetFlag(HardEvent.MTE2_MTE1, 0)
    WaitFlag(HardEvent.MTE2_MTE1, 0)
    fractals = size // 16
    for row in range(fractals):
        LoadData(a2[row * fractals * 256 :], a1[row * 256 :], LoadData2DParams(0, fractals, fractals))
        LoadData(
            b2[row * fractals * 256 :], b1[row * 256 :], LoadData2DParams(0, fractals, fractals, if_transpose=True)
        )
    SetFlag(HardEvent.MTE1_M, 0)
    WaitFlag(HardEvent.MTE1_M, 0)
    Mmad(total, a2, b2, MmadParams(size, size, size, True))
    SetFlag(HardEvent.M_FIX, 0)
    WaitFlag(HardEvent.M_FIX, 0)
    Fixpipe(GlobalTensor(float32).SetGlobalBuffer(c)[first], total, FixpipeParams(size, size))


def test_products_of_cube_cores_are_computed_once_for_all_blocks():
    size, blocks = 32, 8
    a, b, c = (
        *numbers(1, blocks * size * size, np.float16),
        *numbers(1, size * size, np.float16),
        np.zeros(8192, np.float32),
    )
    assert check_same(multiply, (a, b, c), size, blocks=blocks, kind=KernelType.AIC_ONLY) == 1
    launch(multiply, a, b, c, size, blocks=blocks, kind=KernelType.AIC_ONLY)
    assert np.array_equal(c, (a.reshape(-1, size).astype(np.float32) @ b.reshape(size, size)).ravel())


def test_blocks_are_divided_by_their_branches():
    """Of 16 blocks, 10 add and 6 do not: two runs of the kernel, and one more that found that they differ."""
    steps = (*IN_AND_OUT, Step("few", 2, 0, 10, 0, 0))
    assert check_same(partial(perform, steps), numbers(), blocks=16) == 3


def test_a_block_without_its_like_runs_by_itself():
    assert check_same(partial(perform, (*IN_AND_OUT, Step("few", 2, 0, 1, 0, 0))), numbers(), blocks=12) == 3


def test_blocks_whose_values_decide_run_one_by_one():
    assert check_same(partial(perform, (*IN_AND_OUT, Step("look", 2, 0, 0, 0, 0))), numbers(), blocks=8) == 9


def take_turns(x, y, tiles):
    """Blocks take tiles in turn, as kernels with more tiles than cores do; the first ones have one more."""
    x, y = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y))
    for number, tile in enumerate(range(GetBlockIdx(), tiles, GetBlockNum())):
        place = number % PLACES
        if number >= PLACES:
            WaitFlag(HardEvent.MTE3_MTE2, place)
        DataCopy(ub(place), x[tile * TILE :], TILE)
        SetFlag(HardEvent.MTE2_MTE3, place)
        WaitFlag(HardEvent.MTE2_MTE3, place)
        DataCopy(y[tile * TILE], ub(place), TILE)
        if tile + PLACES * GetBlockNum() < tiles:
            SetFlag(HardEvent.MTE3_MTE2, place)


def test_blocks_that_take_turns_are_alike_as_long_as_they_have_as_many():
    """Of 12 blocks, 5 have six tiles and 7 have five; `range` is what it was before."""
    x, y = numbers(2, 65 * TILE)
    assert check_same(take_turns, [x, y], 65, blocks=12) == 3
    launch(take_turns, x, y, 65, blocks=12)
    assert np.array_equal(x, y)
    assert "range" not in globals()


def test_few_blocks_run_one_by_one():
    assert check_same(partial(perform, IN_AND_OUT), numbers(), blocks=7) == 7


def test_blocks_run_one_by_one_where_a_debugger_watches():
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert check_same(partial(perform, IN_AND_OUT), numbers(), blocks=8) == 8
    finally:
        sys.settrace(before)


def refuse_large(numbers):
    if numbers.max() > 90:
        raise KernelError(f"{numbers.max():g} is too large", "take smaller ones")
    return numbers


def add_in_place(x):
    """Adds 1 to the block's part of x, stores it, and refuses numbers above 90 afterwards."""
    own = GlobalTensor(float32).SetGlobalBuffer(x)[GetBlockIdx() * TILE :]
    DataCopy(ub(0), own, TILE)
    SetFlag(HardEvent.MTE2_V, 0)
    WaitFlag(HardEvent.MTE2_V, 0)
    Adds(ub(0), ub(0), 1.0, TILE)
    SetFlag(HardEvent.V_MTE3, 0)
    WaitFlag(HardEvent.V_MTE3, 0)
    DataCopy(own, ub(0), TILE)
    work(Pipe.V, "Check", ub(1), ub(0), how=refuse_large)


def test_an_error_of_one_block_is_raised_in_its_lines_and_finds_memory_as_it_was():
    """Block 3 has added 1 to its part when a number is too large: its part is added to once, not twice."""
    x = np.zeros(8 * TILE, np.float32)
    assert check_same(add_in_place, [x]) == 1
    x[3 * TILE + 5] = 90
    assert check_same(add_in_place, [x]) == 2
    with pytest.raises(KernelError, match="91 is too large") as raised:
        launch(add_in_place, x, blocks=8)
    assert "add_in_place" in {each.name for each in raised.traceback}
    assert raised.value.__notes__ == ["in block 3 (AIV) of the kernel"]
    x[3 * TILE + 5] -= 90
    assert np.array_equal(x, np.repeat(np.arange(8) <= 3, TILE))


# What a kernel may not do, or it is called for each block.

_SEEN = []
_SIZES = (1, 2)


class Counting:
    all = []  # noqa: RUF012 - shared, as it is meant

    def __init__(self):
        self.all.append(self)


def uses_constants(x):
    return [size * GetBlockIdx() for size in _SIZES if np.float16 is not None]


def changes_a_list(x):
    _SEEN.append(x)


def draws_a_number(x):
    return np.random.default_rng().integers(0, 2)


def prints(x):
    print(x)


def sets_a_global(x):
    global _SIZES
    _SIZES = x


def makes_what_counts(x):
    Counting()


def calls_what_prints(x):
    prints(x)


def remembers(x, seen=[]):  # noqa: B006 - that is what it is for
    seen.append(x)


def counter():
    count = 0

    def counts(x):
        nonlocal count
        count += 1

    return counts


def test_kernels_that_change_or_read_what_may_change_are_not_plain():
    assert Judge().is_plain(uses_constants)
    assert Judge().is_plain(add_custom)
    assert Judge().is_plain(multiply)
    for kernel in (
        changes_a_list, draws_a_number, prints, sets_a_global, makes_what_counts, calls_what_prints,
        remembers, counter(), partial(uses_constants, np.zeros(3)), _SEEN.append, Counting().__init__,
    ):  # fmt: skip
        assert not Judge().is_plain(kernel), kernel


class Tally:
    calls = 0


def counts_in_a_class(tally, x):
    tally.calls += 1
    Adds(ub(1), ub(0), float(Tally.calls), TILE)
    DataCopy(GlobalTensor(float32).SetGlobalBuffer(x)[GetBlockIdx() * TILE], ub(1), TILE)


def test_attributes_that_a_kernel_sets_are_seen_and_it_runs_block_by_block():
    """The code does not show that the class is changed, so the kernel runs nine times; the first one is undone."""
    Tally.calls = 0
    x = np.zeros(8 * TILE, np.float32)
    launch(partial(counts_in_a_class, Tally), x, blocks=8, hazards=False, fill=bytes(2))
    assert (Tally.calls, x[::TILE].tolist()) == (8, [1, 2, 3, 4, 5, 6, 7, 8])


# Numbers that differ from block to block.

VALUES = st.lists(st.integers(-50, 50), min_size=2, max_size=5)
COMPUTE = (
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, divmod, operator.lt, operator.le,
    operator.gt, operator.ge, operator.eq, operator.ne, min, max,
)  # fmt: skip


def each_of(values):
    blocks = Blocks(len(values))
    return blocks, Each.of(blocks, values)


def values_of(answer, count):
    """What *answer* is in each block."""
    if isinstance(answer, tuple):
        return list(zip(*(values_of(part, count) for part in answer), strict=True))
    return list(answer.values) if type(answer) is Each else [answer] * count


@given(VALUES, st.integers(-9, 9), st.sampled_from(COMPUTE), st.booleans())
@settings(max_examples=many(60))
def test_numbers_of_blocks_are_computed_with_as_integers_are(values, other, compute, swapped):
    """Where the blocks' answers differ, the run ends, and they are noted."""
    blocks, each = each_of(values)
    sides = [((other, value) if swapped else (value, other)) for value in values]
    try:
        theirs = [compute(*pair) for pair in sides]
    except ZeroDivisionError:
        theirs = None
    try:
        ours = values_of(compute(other, each) if swapped else compute(each, other), len(values))
    except Differ:
        assert len(set(blocks.answers)) > 1
        return
    except ZeroDivisionError:
        ours = None
    assert ours == theirs


@given(st.tuples(VALUES, VALUES, VALUES).filter(lambda each: len({*map(len, each)}) == 1), st.integers(1, 3))
@settings(max_examples=many(60))
def test_ranges_of_blocks_have_the_numbers_of_each(ends, arguments):
    blocks = Blocks(len(ends[0]))
    theirs = [
        (*each[: min(arguments, 2)], *[step or 1 for step in each[2:arguments]]) for each in zip(*ends, strict=True)
    ]
    try:
        ours = range_of_blocks(*[Each.of(blocks, values) for values in zip(*theirs, strict=True)])
    except Differ:
        assert len(set(blocks.answers)) > 1
        return
    columns = [values_of(each, blocks.count) for each in ours]
    assert [list(each) for each in zip(*columns, strict=True)] == [
        list(range(*each)) for each in theirs if range(*each)
    ]


def test_what_needs_one_number_divides_the_blocks():
    for ask in (str, hash, float, [1, 2, 3].__getitem__, np.zeros, "{:d}".format, lambda each: each / 2, bool):
        blocks, each = each_of([0, 1, 2])
        with pytest.raises(Differ):
            ask(each)
        assert len(set(blocks.answers)) > 1
