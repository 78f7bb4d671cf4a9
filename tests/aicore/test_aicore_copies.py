"""Copies move what NumPy would, in blocks, with padding, to fractals; and say what they moved."""

import numpy as np
import pytest
from cores import found, launch, prewritten
from hypothesis import given
from hypothesis import strategies as st

from device_model.aicore.core.names import CacheMode, KernelType, Pipe, TPosition
from device_model.aicore.core.program import Direction
from device_model.aicore.core.tensors import DTYPES, GlobalTensor, LocalTensor, bfloat16, float32, half
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.moving.copies import (
    DataCacheCleanAndInvalid,
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyPadExtParams,
    DataCopyPadParams,
    DataCopyParams,
    Nd2NzParams,
)
from device_model.kernel.findings import KernelError

POISONED = np.frombuffer(b"\xfb\x7f" * 16, np.uint8)


def ub(dtype, size, address=0):
    return LocalTensor(dtype, TPosition.VECIN, address, size)


def flows(result):
    return [
        (each.pipe.name, flow.direction, flow.path, flow.start, flow.length, flow.rows, flow.stride)
        for each in result.programs[0].instructions
        if (flow := each.flow) is not None
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number_of_elements_goes_in_and_out(dtype):
    count = 64 // dtype.itemsize

    def kernel(x, z):
        a, b = ub(dtype, count), ub(dtype, count, 512)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), count)
        PipeBarrier(Pipe.ALL)
        DataCopy(b, a, count)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor(dtype).SetGlobalBuffer(z[count:]), b, count)

    x = np.arange(count).astype(dtype)
    z = np.zeros(2 * count, dtype)
    result = launch(kernel, x, z)
    assert z.tolist() == [0] * count + x.tolist()
    assert found(result) == []
    assert flows(result) == [
        ("MTE2", Direction.READ, "ub", 0, 64, 1, 0),
        ("MTE3", Direction.WRITE, "ub", 64, 64, 1, 0),
    ]
    assert [each.name for each in result.programs[0].instructions if each.pipe is Pipe.V] == ["DataCopy"]


def test_the_tail_of_a_count_is_dropped_and_nothing_is_no_copy():
    def kernel(x, z):
        a = prewritten(ub(half, 64))
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), 0)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), 15)
        DataCopy(GlobalTensor().SetGlobalBuffer(z), a, 17)

    z = np.zeros(17, np.float16)
    result = launch(kernel, np.ones(17, np.float16), z)
    assert [(finding.rule.name, finding.count) for finding in result.findings] == [("TAIL_DROPPED", 1)] * 2
    assert z[-1] == 0
    assert [each.name for each in result.programs[0].instructions] == ["DataCopy"]


blocks = st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))


def gather(data, start, count, length, stride):
    return [data[start + at * stride : start + at * stride + length] for at in range(count)]


@given(blocks, blocks)
def test_blocks_with_gaps_are_what_slices_are(inward, outward):
    def kernel(x, z):
        a = prewritten(ub(np.int8, 4096))
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), DataCopyParams(*inward))
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor().SetGlobalBuffer(z), a, DataCopyParams(*outward))

    x = np.random.default_rng(1).integers(-100, 100, 4096).astype(np.int8)
    z = np.zeros(4096, np.int8)
    assert found(launch(kernel, x, z)) == []
    local = np.tile(POISONED, 128).view(np.int8)
    expected = np.zeros(4096, np.int8)
    for source, target, (count, length, gap, to_gap) in ((x, local, inward), (local, expected, outward)):
        for at in range(count):
            begin, end = at * (length + to_gap) * 32, at * (length + gap) * 32
            target[begin : begin + length * 32] = source[end : end + length * 32]
    assert z.tolist() == expected.tolist()


@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(0, 2),
    st.integers(0, 8),
    st.integers(0, 8),
    st.booleans(),
)
def test_padded_blocks_are_filled_up_to_32_bytes(count, length, stride, gap, left, right, is_pad):
    """Into UB with padding around, and out of it again without."""
    pad = DataCopyPadExtParams(is_pad, left, right, 7.0)

    def kernel(x, z, whole):
        a = prewritten(ub(float32, 2048))
        DataCopyPad(a, GlobalTensor().SetGlobalBuffer(x), DataCopyExtParams(count, length * 4, stride * 4, gap), pad)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor().SetGlobalBuffer(whole), a, 2048)
        DataCopyPad(GlobalTensor().SetGlobalBuffer(z), a, DataCopyExtParams(count, length * 4, gap, stride * 4))

    x = np.arange(1, 1025, dtype=np.float32)
    z, whole = np.zeros(1024, np.float32), np.zeros(2048, np.float32)
    result = launch(kernel, x, z, whole)
    assert found(result) == []
    before, after = (left, right) if is_pad else (0, 0)
    block = -(-(before + length + after) // 8) * 8
    for row in range(count):
        begin = row * (block + gap * 8)
        data = x[row * (length + stride) :][:length]
        assert whole[begin : begin + before].tolist() == [7] * before
        assert whole[begin + before : begin + before + length].tolist() == data.tolist()
        assert whole[begin + before + length :][:after].tolist() == [7] * after
        assert np.isnan(whole[begin + before + length + after : begin + block]).all()
        if not before and -(-length // 8) * 8 == block:
            assert z[row * (length + stride) :][:length].tolist() == data.tolist()


@given(
    st.sampled_from([half, float32, bfloat16, np.dtype(np.int8)]),
    st.integers(1, 3), st.integers(1, 20), st.integers(1, 70), st.integers(0, 5), st.integers(0, 3),
)  # fmt: skip
def test_rows_become_fractals(dtype, matrices, rows, width, gap, more):
    c0 = 32 // dtype.itemsize
    columns = -(-width // c0)
    height = rows + more  # of a column of blocks in NZ
    across = width + gap
    size = matrices * columns * height * c0

    def kernel(x, z):
        a = LocalTensor(dtype, TPosition.A1, 0, size)
        params = Nd2NzParams(matrices, rows, width, rows * across, across, height, 1, columns * height * c0)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), params)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor().SetGlobalBuffer(z), a, size)

    x = np.random.default_rng(0).integers(1, 100, (matrices, rows, across)).astype(dtype)
    z = np.zeros(size, dtype)
    result = launch(kernel, x.reshape(-1), z, kind=KernelType.AIC_ONLY)
    assert found(result) == []
    fractal = z.reshape(matrices, columns, height, c0)[:, :, :rows]
    plain = fractal.transpose(0, 2, 1, 3).reshape(matrices, rows, columns * c0).astype(np.float32)
    np.testing.assert_array_equal(plain[:, :, :width], x[:, :, :width].astype(np.float32))
    assert (plain[:, :, width:] == 0).all()
    flow = result.programs[0].instructions[0].flow
    assert (flow.nd2nz, flow.nbytes, flow.path) == (True, rows * width * dtype.itemsize, "l1")


def test_interleaved_rows_of_a_fractal_leave_what_is_between():
    def kernel(x, z):
        a = LocalTensor(half, TPosition.A1, 0, 128)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(z), 128)
        PipeBarrier(Pipe.ALL)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), Nd2NzParams(1, 4, 16, 0, 16, 8, 2, 0))
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor().SetGlobalBuffer(z), a, 128)

    z = np.zeros(128, np.float16)
    launch(kernel, np.ones(64, np.float16), z, kind=KernelType.AIC_ONLY)
    assert z.reshape(8, 16).sum(axis=1).tolist() == [16, 0] * 4


def test_a_copy_says_whether_the_l2_keeps_it():
    def kernel(x):
        g = GlobalTensor().SetGlobalBuffer(x)
        DataCopy(ub(float32, 8), g, 8)
        g.SetL2CacheHint(CacheMode.CACHE_MODE_DISABLE)
        DataCopy(ub(float32, 8, 64), g[8:], DataCopyParams(1, 1))

    instructions = launch(kernel, np.ones(64, np.float32)).programs[0].instructions
    assert [each.flow.bypass for each in instructions] == [False, True]


def test_rows_in_gm_are_a_flow_of_rows():
    def kernel(x):
        g = GlobalTensor().SetGlobalBuffer(x)
        DataCopy(ub(float32, 64), g[8:], DataCopyParams(4, 2, 1, 0))
        DataCopy(ub(float32, 64, 1024), g[8:], DataCopyParams(4, 2, 0, 0))

    assert flows(launch(kernel, np.ones(256, np.float32))) == [
        ("MTE2", Direction.READ, "ub", 32, 64, 4, 96),
        ("MTE2", Direction.READ, "ub", 32, 256, 1, 0),
    ]


def test_what_the_scalar_stores_to_gm_is_flushed_by_its_line():
    def kernel(z):
        g = GlobalTensor().SetGlobalBuffer(z)
        for at in (0, 3, 20):
            g.SetValue(at, at + 1)
        DataCacheCleanAndInvalid(g[3:])
        g.SetValue(40, 1)
        DataCacheCleanAndInvalid(g, whole=True)
        assert g.GetValue(3) == 4

    z = np.zeros(64, np.float32)
    assert found(launch(kernel, z)) == []
    assert np.flatnonzero(z).tolist() == [0, 3, 20, 40]


def test_copies_refuse_what_no_pipe_does():
    def kernel(x):
        g = GlobalTensor().SetGlobalBuffer(x)
        with pytest.raises(KernelError, match=r"no pipe of .* copies from"):
            DataCopy(g, g, 8)
        with pytest.raises(KernelError, match="two types"):
            DataCopy(ub(half, 8), g, 8)
        with pytest.raises(KernelError, match="SetGlobalBuffer"):
            DataCopy(ub(float32, 8), GlobalTensor(float32), 8)
        with pytest.raises(KernelError, match="; block_count must be 0 to 4095, not 4096"):
            DataCopy(ub(float32, 8), g, DataCopyParams(4096, 1))
        with pytest.raises(TypeError, match="src_gap must be an int"):
            DataCopy(ub(float32, 8), g, DataCopyParams(1, 1, 1.5))
        with pytest.raises(KernelError, match="between GM and local memory"):
            DataCopyPad(g, g, DataCopyExtParams(1, 32))
        with pytest.raises(KernelError, match="at most 32 bytes"):
            DataCopyPad(ub(float32, 64), g, DataCopyExtParams(1, 32), DataCopyPadExtParams(True, 9))
        with pytest.raises(KernelError, match="ND to NZ goes from GM to L1"):
            DataCopy(ub(float32, 64), g, Nd2NzParams(1, 1, 1, 0, 1, 1, 1, 0))

    assert found(launch(kernel, np.ones(64, np.float32))) == []


def test_padding_takes_the_records_of_older_kernels_in_bytes():
    def kernel(x, older, newer):
        source = GlobalTensor().SetGlobalBuffer(x)
        for z, params in (
            (older, (DataCopyParams(3, 10, 6, 1), DataCopyParams(3, 10, 1, 2))),
            (newer, (DataCopyExtParams(3, 10, 6, 1, 0), DataCopyExtParams(3, 10, 1, 2, 0))),
        ):
            a = ub(half, 6 * 16)
            DataCopyPad(a, source, params[0], DataCopyPadParams(True, 0, 3, 7))
            PipeBarrier(Pipe.ALL)
            DataCopyPad(GlobalTensor().SetGlobalBuffer(z), a, params[1])
            PipeBarrier(Pipe.ALL)

    x = np.arange(24, dtype=np.float16)
    older, newer = np.zeros(17, np.float16), np.zeros(17, np.float16)
    result = launch(kernel, x, older, newer)
    assert older.tolist() == newer.tolist() == [0, 1, 2, 3, 4, 0, 8, 9, 10, 11, 12, 0, 16, 17, 18, 19, 20]
    assert found(result) == []
    with pytest.raises(KernelError, match="; block_len must be 0 to 65535, not 70000"):
        launch(lambda x: DataCopyPad(ub(half, 64), GlobalTensor().SetGlobalBuffer(x), DataCopyParams(1, 70_000)), x)
