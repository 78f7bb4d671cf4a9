"""TopK and CumSum: functions of the rows of a matrix, their values, their pieces, and what they refuse."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.cumsum import CumSum, CumSumInfo
from device_model.aicore.functions.rows import Arange
from device_model.aicore.functions.topk import TopK, TopKInfo, TopKMode
from device_model.kernel.findings import KernelError

SMALL = TopKMode.TOPK_NSMALL


def temporary(nbytes=60_000):
    return LocalTensor(uint8, TPosition.VECCALC, 131_072, nbytes)


def largest(x, k, *, n=None, is_largest=True, index=None, finish=None, nbytes=60_000, **options):
    """What TopK writes to values and places, a row for each of x, and the launch."""
    rows, inner = x.shape
    small = options.get("topk_mode") is SMALL
    lengths = [k if small else -(-k * size // 32) * 32 // size for size in (x.dtype.itemsize, 4)]
    seen = []

    def kernel():
        values = in_ub(np.full(rows * lengths[0], 7, x.dtype), 0)
        places = in_ub(np.full(rows * lengths[1], 7, np.int32), 20_480)
        src = in_ub(x, 40_960)
        others = [None if each is None else in_ub(each, 81_920 + 8_192 * at) for at, each in enumerate((index, finish))]
        info = TopKInfo(rows, inner, n or inner)
        TopK(values, places, src, *others, temporary(nbytes), k, info, is_largest, **options)
        seen.extend(tensor.view.copy().reshape(rows, -1)[:, :k] for tensor in (values, places))

    launched = on_core(kernel)
    return *seen, launched


@pytest.mark.parametrize("is_largest", [True, False])
@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize(("inner", "k"), [(32, 5), (64, 64), (96, 1), (512, 33), (1_056, 100)])
def test_topk_gives_the_first_elements_and_their_places(inner, k, dtype, is_largest):
    x = np.stack([np.random.default_rng(seed).permutation(inner) - inner // 3 for seed in range(3)]).astype(dtype)
    order = np.argsort(-x if is_largest else x, axis=1)[:, :k]
    values, places, launched = largest(x, k, is_largest=is_largest)
    assert places.tolist() == order.tolist()
    assert values.tolist() == np.take_along_axis(x, order, 1).tolist()
    assert found(launched) == []
    assert ("MrgSort" in names(launched)) == (inner > 32)


def test_of_equal_elements_the_first_one_comes_first():
    x = np.repeat(np.arange(8, dtype=single), 8)[None]
    _, places, _ = largest(x, 20)
    assert places.tolist() == [[*range(56, 64), *range(48, 56), *range(40, 44)]]


@pytest.mark.parametrize("dtype", [half, single], ids=str)
def test_rows_of_32_are_sorted_by_one_instruction(dtype):
    x = np.stack([np.random.default_rng(seed).permutation(32) for seed in range(6)]).astype(dtype)
    values, places, launched = largest(x, 3, topk_mode=SMALL)
    assert values.tolist() == [[31, 30, 29]] * 6
    assert places.tolist() == np.argsort(-x, axis=1)[:, :3].tolist()
    assert names(launched).count("Sort32") == 1
    assert found(launched) == []


def test_places_may_be_given_and_rows_may_be_finished():
    x = np.stack([np.random.default_rng(seed).permutation(64) for seed in range(4)]).astype(single)
    index = np.arange(1_000, 1_064, dtype=np.int32)
    finish = np.array([0, 1, 0, 1] + [0] * 28, np.uint8)
    _, places, launched = largest(x, 2, n=60, index=index, finish=finish, is_init_index=True, is_has_finish=True)
    order = np.argsort(-x, axis=1)[:, :2]
    assert places.tolist() == [(1_000 + order[0]).tolist(), [60, 60], (1_000 + order[2]).tolist(), [60, 60]]
    assert found(launched) == []


def test_impossible_calls_of_topk_are_refused():
    x = np.zeros((2, 64), single)
    with pytest.raises(KernelError, match=r"k of 65; k is 1 to n, which is 64"):
        largest(x, 65)
    with pytest.raises(KernelError, match=r"inner=48, n=48\); n is 1 to inner, and inner a multiple of 32 up to 4096"):
        largest(np.zeros((2, 48), single), 2)
    with pytest.raises(KernelError, match=r"in TOPK_NSMALL; rows have 32 elements"):
        largest(x, 2, topk_mode=SMALL)
    with pytest.raises(KernelError, match=r"TopK: a temporary buffer of 256 bytes; it needs \d+ more"):
        largest(x, 2, nbytes=256)
    with pytest.raises(TypeError, match=r"TopK: finish must be a tensor, not None"):
        largest(x, 2, is_has_finish=True)
    with pytest.raises(KernelError, match=r"only TOPK_NORMAL has it"):
        largest(np.zeros((2, 32), single), 2, topk_mode=SMALL, finish=np.zeros(32, np.uint8), is_has_finish=True)
    with pytest.raises(KernelError, match=r"dst_value is int32; it takes float16, float32"):
        largest(np.zeros((2, 64), np.int32), 2)


def summed(x, *, is_last_axis, nbytes=60_000, info=None):
    seen = []

    def kernel():
        dst, last = in_ub(np.full(x.size, 7, x.dtype), 0), in_ub(np.full(max(x.shape), 7, x.dtype), 40_960)
        src = in_ub(x, 49_152)
        CumSum(
            dst, last, src, temporary(nbytes), info or CumSumInfo(*x.shape), is_last_axis=is_last_axis,
            output_last_row=True,
        )  # fmt: skip
        seen.extend((dst.view.copy().reshape(x.shape), last.view.copy()))

    launched = on_core(kernel)
    return *seen, launched


@pytest.mark.parametrize("is_last_axis", [True, False], ids=["along rows", "down columns"])
@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("shape", [(1, 16), (3, 32), (16, 64), (21, 48), (40, 16), (5, 24)], ids=str)
def test_cumsum_gives_what_numpy_gives(shape, dtype, is_last_axis):
    if shape[1] * dtype.itemsize % 32:
        pytest.skip("rows of halves are multiples of 16")
    x = np.random.default_rng(4).integers(-3, 4, shape).astype(dtype)
    axis = 1 if is_last_axis else 0
    wanted = np.cumsum(x.astype(np.float64), axis=axis)
    sums, last, launched = summed(x, is_last_axis=is_last_axis)
    assert sums.tolist() == wanted.tolist()
    line = wanted[:, -1] if is_last_axis else wanted[-1]
    assert last[: line.size].tolist() == line.tolist()
    assert last[line.size :].tolist() == [7] * (last.size - line.size)
    assert found(launched) == []


def test_sums_of_halves_are_rounded_once():
    x = np.full((1, 4_096), 0.1, half)
    sums, _, _ = summed(x, is_last_axis=False, info=CumSumInfo(256, 16))
    exact = np.cumsum(x.reshape(256, 16).astype(np.float32), axis=0).astype(half)
    assert sums.reshape(256, 16).tolist() == exact.tolist()


def test_impossible_calls_of_cumsum_are_refused():
    x = np.zeros((4, 16), single)
    with pytest.raises(
        KernelError, match=r"outter=4, inner=15\); outter is 1 or more, and a row whole blocks of 32 bytes"
    ):
        summed(x, is_last_axis=True, info=CumSumInfo(4, 15))
    with pytest.raises(KernelError, match=r"dst has 64 elements, and needs 80"):
        summed(x, is_last_axis=True, info=CumSumInfo(5, 16))
    with pytest.raises(KernelError, match=r"CumSum: a temporary buffer of 512 bytes; it needs \d+ more"):
        summed(x, is_last_axis=True, nbytes=512)
    with pytest.raises(KernelError, match=r"dst is int32; it takes float16, float32"):
        summed(x.astype(np.int32), is_last_axis=True)
    with pytest.raises(TypeError, match=r"info must be CumSumInfo\(outter, inner\), not None"):
        on_core(lambda: CumSum(None, None, None, None))
    with pytest.raises(TypeError, match=r"last_row must be a tensor, not None"):
        on_core(lambda: CumSum(None, None, None, CumSumInfo(1, 8), output_last_row=True))


@pytest.mark.parametrize("dtype", [half, single, np.dtype(np.int16), np.dtype(np.int32)], ids=str)
@pytest.mark.parametrize("count", [1, 7, 16, 37, 300])
def test_arange_counts_in_steps(count, dtype):
    seen = []

    def kernel():
        dst = in_ub(np.full(304, 7, dtype), 0)
        Arange(dst, -5, 3, count)
        seen.append(dst.view.copy())

    launched = on_core(kernel)
    assert seen[0][:count].tolist() == (np.arange(count) * 3 - 5).tolist()
    assert seen[0][count:].tolist() == [7] * (304 - count)
    assert found(launched) == []


def test_impossible_calls_of_arange_are_refused():
    dst = np.zeros(16, single)
    with pytest.raises(KernelError, match=r"Arange with a diff_value of -1; it is 0 or more"):
        on_core(lambda: Arange(in_ub(dst, 0), 0, -1, 8))
    with pytest.raises(KernelError, match=r"Arange: a count of 17; dst has 16 elements"):
        on_core(lambda: Arange(in_ub(dst, 0), 0, 1, 17))
    with pytest.raises(KernelError, match=r"Arange: dst is uint8; it takes float16, float32, int16, int32"):
        on_core(lambda: Arange(in_ub(dst.astype(np.uint8), 0), 0, 1, 8))
