"""Functions of rows: Broadcast, Sum, Fill, Sort, Extract."""

import numpy as np
import pytest
from cores import found, launch, names
from instructions import after, half, in_ub, on_core, same, single

from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, uint8
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.functions.rows import Broadcast, Fill, Sum, SumParams
from device_model.aicore.functions.sorting import Concat, Extract, GetSortLen, GetSortOffset, Sort
from device_model.aicore.moving.constants import InitConstValueParams
from device_model.aicore.vector.fill import Duplicate
from device_model.kernel.findings import KernelError


def made(function, size, src, nbytes=60_000):
    """What `function(dst, src, tmp)` writes to *size* elements, and the launch."""
    seen = []

    def kernel():
        dst = in_ub(np.full(size, 99, src.dtype), 0)
        function(dst, in_ub(src, 45_056), LocalTensor(uint8, TPosition.VECCALC, 131_072, nbytes))
        seen.append(dst.view.copy())

    result = on_core(kernel)
    return seen[0], result


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8"])
@pytest.mark.parametrize(
    ("to", "at"),
    [
        ((5, 64), (5, 1)),
        ((9, 37), (9, 1)),
        ((300, 8), (300, 1)),
        ((7, 96), (1, 96)),
        ((100,), (1,)),
        ((2, 4_224), (2, 1)),
    ],
)
def test_broadcast_gives_what_numpy_gives(to, at, dtype):
    src = np.arange(1, np.prod(at) + 1).astype(dtype)
    result, launched = made(lambda d, s, tmp: Broadcast(d, s, to, at, tmp), np.prod(to), src)
    assert same(result, np.broadcast_to(src.reshape(at), to).ravel().copy())
    assert found(launched) == []


def test_broadcast_takes_rows_in_turn_if_its_temporary_buffer_is_small():
    src = np.arange(64, dtype=np.float16)
    few, one = (
        made(lambda d, s, tmp: Broadcast(d, s, (64, 16), (64, 1), tmp), 1_024, src, nbytes) for nbytes in (512, 2_048)
    )
    assert same(few[0], one[0])
    assert [names(each[1]).count("Brcb") for each in (few, one)] == [4, 1]


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize(
    ("rows", "inner", "n"), [(3, 64, 64), (300, 16, 9), (4, 1_024, 1_000), (2, 8_192, 8_181), (1, 128, 65)]
)
def test_sum_adds_up_rows(rows, inner, n, dtype):
    x = (np.arange(rows * inner) % 3 - 1).astype(dtype).reshape(rows, inner)
    result, launched = made(lambda d, s, tmp: Sum(d, s, tmp, SumParams(rows, inner, n)), rows, x)
    assert result.tolist() == x[:, :n].astype(np.float64).sum(1).tolist()
    assert found(launched) == []


def test_fill_writes_gm_in_parts_and_its_ub_is_to_be_waited_for():
    x = np.zeros(100_003, np.float32)

    def kernel(gm, waits):
        TPipe()
        Fill(GlobalTensor(single).SetGlobalBuffer(gm), 100_001, 7)
        if waits:
            after(HardEvent.MTE3_V)
        Duplicate(LocalTensor(single, TPosition.VECCALC, 0, 64), 1, 64)

    result = launch(kernel, x, True)
    assert x[:100_001].tolist() == [7] * 100_001
    assert x[100_001:].tolist() == [0, 0]
    assert names(result).count("DataCopyPad") == 7  # 16,320 floats each
    assert found(result) == []
    assert found(launch(kernel, x, False)) == [("WAR", "MTE3_V")]


def test_fill_does_nothing_on_a_cube_core():
    x = np.ones(8, np.float32)
    result = launch(lambda gm: Fill(GlobalTensor(single).SetGlobalBuffer(gm), 8, 7), x, kind=KernelType.AIC_ONLY)
    assert (x.tolist(), names(result)) == ([1] * 8, [])


@pytest.mark.parametrize(
    ("position", "pipe", "cycles"),
    [(TPosition.A1, Pipe.MTE2, 2), (TPosition.A2, Pipe.MTE1, 8), (TPosition.B2, Pipe.MTE1, 16)],
    ids=str,
)
def test_fill_writes_blocks_of_l1_and_l0_with_gaps(position, pipe, cycles):
    """Twice two blocks, three blocks apart: of 32 bytes in L1, of 512 in L0A and L0B."""
    seen = []
    size = 7 * (32 if pipe is Pipe.MTE2 else 512) // 2

    def kernel():
        tensor = LocalTensor(half, position, 1_024, size)
        tensor.view[:] = 7
        Fill(tensor, InitConstValueParams(2, 2, 3, 1.5))
        Fill(tensor, InitConstValueParams(0, 2))
        seen.append(tensor.view.reshape(7, -1).copy())

    result = launch(kernel, kind=KernelType.AIC_ONLY)
    assert seen[0][:, 0].tolist() == [1.5, 1.5, 7, 7, 7, 1.5, 1.5]
    assert (seen[0] == seen[0][:, :1]).all()
    (filled,) = result.programs[0].instructions
    assert (filled.pipe, filled.startup, filled.cycles) == (pipe, 20, cycles)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_load_waits_for_what_is_filled(is_ordered):
    def kernel():
        a1, a2 = LocalTensor(half, TPosition.A1, 0, 256), LocalTensor(half, TPosition.A2, 0, 256)
        Fill(a1, InitConstValueParams(1, 16))
        if is_ordered:
            after(HardEvent.MTE2_MTE1)
        LoadData(a2, a1, LoadData2DParams())

    assert found(launch(kernel, kind=KernelType.AIC_ONLY)) == ([] if is_ordered else [("RAW", "MTE2_MTE1")])


@pytest.mark.parametrize(
    ("tensor", "params", "message"),
    [
        (lambda: LocalTensor(half, TPosition.CO1, 0, 64), (1, 1), "it takes .* in L1, L0A or L0B"),
        (lambda: LocalTensor(np.int8, TPosition.A1, 0, 64), (1, 1), "it takes int16, .* in L1, L0A or L0B"),
        (lambda: LocalTensor(half, TPosition.A1, 0, 64), (32_768, 1), "repeat_times 32768; it is 0 to 32767"),
        (lambda: LocalTensor(half, TPosition.A1, 0, 64), (1, 1, -1), "dst_gap -1; it is 0 to 32767"),
        (lambda: LocalTensor(half, TPosition.A1, 0, 64), (1, 5), "it has 128 bytes, and these reach further"),
        (lambda: LocalTensor(half, TPosition.A2, 32, 64), (1, 1), "it begins at a multiple of 512 bytes in L0A"),
        (lambda: GlobalTensor(half), (1, 1), "these are for L1, L0A and L0B: give a size and a value"),
    ],
)
def test_what_fill_refuses_on_a_cube_core(tensor, params, message):
    with pytest.raises(KernelError, match=f"(?s){message}"):
        launch(lambda: Fill(tensor(), InitConstValueParams(*params)), kind=KernelType.AIC_ONLY)


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 4, 5, 13, 16, 17, 40])
def test_sort_and_extract_give_scores_in_descending_order_with_their_indices(groups, dtype):
    count = 32 * groups
    scores = np.random.default_rng(groups).permutation(count).astype(dtype)
    seen = []

    def kernel():
        src, index = in_ub(scores, 0), in_ub(np.arange(count, dtype=np.uint32), 8_192)
        dst, tmp = (LocalTensor(dtype, TPosition.VECCALC, at, GetSortLen(count, dtype)) for at in (16_384, 49_152))
        Sort(dst, Concat(None, src, None, min(2 * groups, 255)), index, tmp, groups, is_full_sort=True)
        values = LocalTensor(dtype, TPosition.VECCALC, 98_304, count)
        indices = LocalTensor(np.uint32, TPosition.VECCALC, 131_072, count)
        Extract(values, indices, dst, groups)
        seen.extend((values.view.copy(), indices.view.copy()))

    assert found(on_core(kernel)) == []
    assert seen[0].tolist() == sorted(scores.tolist(), reverse=True)
    assert same(scores[seen[1]], seen[0])
    assert (GetSortLen(32, half), GetSortOffset(3, single)) == (128, 6)


def test_without_a_full_sort_each_group_of_32_is_sorted():
    def kernel():
        src, index = in_ub(np.arange(96, dtype=np.float32), 0), in_ub(np.arange(96, dtype=np.uint32), 8_192)
        dst = LocalTensor(single, TPosition.VECCALC, 16_384, 192)
        Sort(dst, src, index, dst, 3, is_full_sort=False)
        assert dst.view[::2].tolist() == [*range(31, -1, -1), *range(63, 31, -1), *range(95, 63, -1)]

    on_core(kernel)


ONES = np.ones(64, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, s, tmp: Broadcast(d, s, (4, 4), (2, 1), tmp), r"Broadcast of \(2, 1\) to \(4, 4\)"),
        (lambda d, s, tmp: Broadcast(d, s, (2, 2, 2), (2, 2, 1), tmp), "1 or 2 dimensions"),
        (lambda d, s, tmp: Broadcast(d, s, (4, 12), (1, 12), tmp), "rows of float32 are whole blocks of 32 bytes"),
        (lambda d, s, tmp: Broadcast(d, s, (9, 8), (9, 1), tmp), "dst has 64 elements"),
        (lambda d, s, tmp: Broadcast(d, s, (8, 7), (8, 1), tmp[:64]), "a temporary buffer of 64 bytes.*more"),
        (lambda d, s, tmp: Sum(d, s, tmp, SumParams(2, 12, 12)), "inner is at least n, in whole blocks"),
        (lambda d, s, tmp: Sum(d, s, tmp, SumParams(2, 8, 9)), "inner is at least n"),
        (lambda d, s, tmp: Sum(d, s, tmp, SumParams(9, 8, 8)), "dst has 64 elements, and src 64"),
        (lambda d, s, tmp: Fill(d, 64, 0), "it takes a GlobalTensor"),
        (lambda d, s, tmp: Sort(d, s, s, tmp, 1, is_full_sort=False), "src1 is float32"),
        (lambda d, s, tmp: Concat(None, s, None, 5), "Concat of 5 groups of 16.*src has 64 scores"),
        (lambda d, s, tmp: Extract(d, d.ReinterpretCast(np.int32), s, 1), "dstIndex is int32"),
        (lambda d, s, tmp: GetSortLen(4, np.int32), "scores of int32"),
    ],
)
def test_what_they_refuse(call, message):
    with pytest.raises(KernelError, match=f"(?s){message}"):
        made(call, 64, ONES)


def test_a_full_sort_needs_a_temporary_buffer_as_large_as_its_records():
    def kernel():
        src, index = in_ub(np.arange(64, dtype=np.float32), 0), in_ub(np.arange(64, dtype=np.uint32), 8_192)
        dst = LocalTensor(single, TPosition.VECCALC, 16_384, 128)
        Sort(dst, src, index, LocalTensor(single, TPosition.VECCALC, 32_768, 127), 2, is_full_sort=True)

    with pytest.raises(KernelError, match=r"(?s)buffer of 127 elements.*it needs 128: GetSortLen\(64, float32\)"):
        on_core(kernel)
