"""Fixpipe that scales: one number for all, or words in FB, one for each column."""

import struct

import numpy as np
import pytest
from cores import found, prewritten
from hypothesis import given
from hypothesis import strategies as st
from instructions import after, bfloat16, half, on_core, single

from device_model.aicore.core.names import CacheMode, HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import (
    CO2Layout,
    Fixpipe,
    FixpipeParams,
    QuantMode,
    SetFixPipeConfig,
    trans_quant_param,
)
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.kernel.findings import KernelError

WORD = np.dtype(np.uint64)
VECTOR_MODES = [
    (QuantMode.VDEQF16, np.int32, half),
    (QuantMode.VREQ8, np.int32, np.dtype(np.int8)),
    (QuantMode.VREQ8, np.int32, np.dtype(np.uint8)),
    (QuantMode.VQF322B8_PRE, np.float32, np.dtype(np.int8)),
    (QuantMode.VQF322B8_PRE, np.float32, np.dtype(np.uint8)),
]


def in_l0c(values):
    m, n = values.shape
    down, across = -(-m // 16) * 16, -(-n // 16)
    c1 = prewritten(LocalTensor(values.dtype, TPosition.CO1, 0, down * across * 16))
    whole = np.zeros((down, across * 16), values.dtype)
    whole[:m, :n] = values
    c1.view[:] = whole.reshape(down, across, 16).transpose(1, 0, 2).ravel()
    return c1


def words_in_fb(words, event=HardEvent.MTE1_FIX):
    """*words* (a buffer in GM) in FB, by way of L1."""
    count = words.nbytes // 8
    staged = LocalTensor(WORD, TPosition.C1, 0, count)
    table = LocalTensor(WORD, TPosition.C2PIPE2GM, 0, count)
    DataCopy(staged, GlobalTensor(WORD).SetGlobalBuffer(words), count)
    after(HardEvent.MTE2_MTE1)
    DataCopy(table, staged, count)
    if event is not None:
        after(event)
    return table


def padded(words):
    """To whole blocks of 128 bytes."""
    return np.concatenate([words, np.zeros(-len(words) % 16, WORD)])


def scaled(values, words, mode, to, *, relu=False, layout=CO2Layout.ROW_MAJOR, **options):
    m, n = values.shape
    out = np.zeros((m, n), to)

    def kernel(gm, words):
        c1 = in_l0c(values)
        SetFixPipeConfig(words_in_fb(words, **options))
        Fixpipe(GlobalTensor(to).SetGlobalBuffer(gm), c1, FixpipeParams(n, m, quant_pre=mode, relu_en=relu), layout)

    return out, on_core(kernel, out, padded(words), kind=KernelType.AIC_ONLY)


def reference(value, word, to, *, relu):
    """One element, with Python's numbers."""
    (scale,) = struct.unpack("f", struct.pack("I", word & 0xFFFFE000))
    is_float = isinstance(value, np.floating)
    if not is_float and word >> 36 & 1:
        value = np.int32(min(max(int(value) >> (word >> 32 & 15) + 1, -32768), 32767))
    number = np.float32(value)
    number = np.float32(0) if relu and number < 0 else number * np.float32(scale)
    if to == half:
        return half.type(min(max(number, np.float32(-65504)), np.float32(65504)))
    offset = word >> 37 & 0x1FF
    whole = round(float(min(max(number, -256), 255))) + (offset - 512 if offset > 255 else offset)
    low, high = (-128, 127) if word >> 46 & 1 else (0, 255)
    return min(max(whole, low), high)


@given(
    mode=st.sampled_from(VECTOR_MODES),
    m=st.integers(1, 40),
    n=st.integers(1, 50),
    seed=st.integers(0, 2**32 - 1),
    relu=st.booleans(),
    is_shifted=st.booleans(),
)
def test_columns_are_multiplied_each_with_its_own_number(mode, m, n, seed, relu, is_shifted):
    mode, source, to = mode
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(m, n)) * 10.0 ** rng.integers(0, 6)).astype(source)
    scales = rng.normal(size=n) * 10.0 ** rng.integers(-4, 2, n)
    words = trans_quant_param(scales, rng.integers(-256, 256, n), is_signed=to != np.uint8)
    if is_shifted:
        words |= (rng.integers(16, 32, n).astype(WORD)) << np.uint64(32)
    out, result = scaled(values, words, mode, to, relu=relu)
    expected = [[reference(x, int(word), to, relu=relu) for x, word in zip(row, words, strict=True)] for row in values]
    assert np.array_equal(out, np.array(expected, to))
    assert found(result) == []


def test_a_number_has_ten_bits_of_mantissa():
    fine = 1 + 2**-10 + 2**-12
    assert trans_quant_param(fine) == trans_quant_param(1 + 2**-10)
    out, _ = scaled(np.full((1, 16), 4096, np.int32), trans_quant_param([fine] * 16), QuantMode.VDEQF16, half)
    assert (out == 4100).all()
    by_hand = trans_quant_param([1.0] * 16) | WORD.type(0x1FFF)  # what is in the last bits is not looked at
    out, _ = scaled(np.full((1, 16), 4096, np.int32), by_hand, QuantMode.VDEQF16, half)
    assert (out == 4096).all()
    out = np.zeros((1, 16), half)

    def kernel(gm):
        params = FixpipeParams(16, 1, quant_pre=QuantMode.DEQF16, deq_scalar=fine)
        Fixpipe(GlobalTensor(half).SetGlobalBuffer(gm), in_l0c(np.full((1, 16), 4096, np.int32)), params)

    on_core(kernel, out, kind=KernelType.AIC_ONLY)
    assert (out == 4100).all()


def test_halves_are_rounded_to_even_and_bytes_kept_in_their_range():
    values = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 300, -128.5, -300, np.nan, np.inf]], np.float32)
    out, _ = scaled(values, trans_quant_param([1.0] * 12), QuantMode.VQF322B8_PRE, np.int8)
    assert out.tolist() == [[0, 2, 2, 0, -2, 126, 127, 127, -128, -128, 0, 127]]
    # What is added comes behind the cut to 9 bits.
    out, _ = scaled(values, trans_quant_param([1.0] * 12, -200), QuantMode.VQF322B8_PRE, np.int8)
    assert out.tolist() == [[-128, -128, -128, -128, -128, -74, -72, 55, -128, -128, -128, 55]]


@pytest.mark.parametrize(
    ("mode", "to", "most"), [(QuantMode.F322F16, half, 65504), (QuantMode.F322BF16, bfloat16, (2 - 2**-7) * 2.0**127)]
)
def test_nothing_becomes_infinite(mode, to, most):
    values = np.array([[1e38, -1e38, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 2]], np.float32)
    out = np.zeros((1, 8), to)

    def kernel(gm):
        Fixpipe(GlobalTensor(to).SetGlobalBuffer(gm), in_l0c(values), FixpipeParams(8, 1, quant_pre=mode))

    on_core(kernel, out, kind=KernelType.AIC_ONLY)
    assert np.isfinite(out.astype(np.float32)).all()
    assert out[0, 4] == 0
    assert out[0, 7] == 2
    assert out[0, [2, 3, 5, 6]].tolist() == [most, -most, most, -most]


def test_columns_of_16_go_to_l1_and_need_no_words_beyond():
    values = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    seen = []

    def kernel(words):
        c1 = in_l0c(values)
        SetFixPipeConfig(words_in_fb(words))
        a1 = LocalTensor(half, TPosition.A1, 0x10000, 1024)
        Fixpipe(a1, c1, FixpipeParams(32, 32, quant_pre=QuantMode.VDEQF16), CO2Layout.NZ)
        seen.append(a1.view.reshape(2, 32, 16).transpose(1, 0, 2).reshape(32, 32).copy())

    result = on_core(kernel, trans_quant_param(2.0 ** np.arange(-16, 16)), kind=KernelType.AIC_ONLY)
    assert np.array_equal(seen[0], np.clip(values * 2.0 ** np.arange(-16, 16), 0, 65504).astype(half))
    assert found(result) == []


def test_new_words_count_from_the_next_fixpipe_on():
    ones = np.ones((1, 16), np.int32)
    out, seen = np.zeros(16, half), []

    def kernel(gm, words):
        c1 = in_l0c(ones)
        table = words_in_fb(words)
        params = FixpipeParams(16, 1, quant_pre=QuantMode.VDEQF16)
        for first in (0, 16):  # to one place, and the same in all else
            SetFixPipeConfig(table[first:])
            Fixpipe(GlobalTensor(half).SetGlobalBuffer(gm), c1, params)
            PipeBarrier(Pipe.FIX)
            seen.append(out.tolist())

    result = on_core(kernel, out, trans_quant_param([2.0] * 16 + [3.0] * 16), kind=KernelType.AIC_ONLY)
    assert seen == [[2] * 16, [3] * 16]
    assert found(result) == []


def test_words_must_be_there_before_fixpipe_reads_them():
    values, words = np.ones((1, 16), np.int32), trans_quant_param([1.0] * 16)
    _, result = scaled(values, words, QuantMode.VDEQF16, half, event=None)
    assert found(result) == [("RAW", "MTE1_FIX")]
    (finding,) = result.findings
    assert "FB[0:128]" in finding.text


def test_words_must_stay_until_fixpipe_has_read_them():
    def kernel(gm, words):
        c1 = in_l0c(np.ones((1, 16), np.int32))
        table = words_in_fb(words)
        SetFixPipeConfig(table)
        params = FixpipeParams(16, 1, quant_pre=QuantMode.VDEQF16)
        Fixpipe(GlobalTensor(half).SetGlobalBuffer(gm), c1, params)
        DataCopy(table, LocalTensor(WORD, TPosition.C1, 0, 16), 16)

    result = on_core(kernel, np.zeros(16, half), trans_quant_param([1.0] * 16), kind=KernelType.AIC_ONLY)
    assert ("WAR", "FIX_MTE1") in found(result)


def wrong(use):
    def kernel(gm, words):
        c1 = in_l0c(np.ones((16, 32), np.int32))
        use(GlobalTensor(half).SetGlobalBuffer(gm), c1, words_in_fb(words))

    with pytest.raises(KernelError) as refused:
        on_core(kernel, np.zeros(512, half), trans_quant_param([1.0] * 16), kind=KernelType.AIC_ONLY)
    return str(refused.value)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda out, c, fb: Fixpipe(out, c, vdeqf16(16)), "without factors of columns; bring uint64 words to FB"),
        (lambda out, c, fb: (SetFixPipeConfig(fb), Fixpipe(out, c, vdeqf16(32))), "it takes a word per column"),
        (lambda out, c, fb: (SetFixPipeConfig(fb), Fixpipe(out, c, FixpipeParams(16, 16))), "take quant_pre=DEQF16 or"),
        (lambda out, c, fb: SetFixPipeConfig(c), "give it a tensor of uint64 in FB"),
        (lambda out, c, fb: SetFixPipeConfig(fb.ReinterpretCast(np.int32)), "give it a tensor of uint64 in FB"),
        (
            lambda out, c, fb: SetFixPipeConfig(LocalTensor(WORD, TPosition.C2PIPE2GM, 1024, 256)),
            "the first 2048 bytes of FB: 256 columns at a time",
        ),
        (lambda out, c, fb: (SetFixPipeConfig(nobody_wrote()), Fixpipe(out, c, vdeqf16(16))), "column 0 with nan"),
    ],
)
def test_a_missing_or_wrong_tensor_is_refused(use, message):
    assert message in wrong(use)


def vdeqf16(n):
    return FixpipeParams(n, 16, quant_pre=QuantMode.VDEQF16)


def nobody_wrote():
    return LocalTensor(WORD, TPosition.C2PIPE2GM, 1024, 16)


def test_words_say_whether_bytes_are_signed():
    with pytest.raises(KernelError, match="to uint8: words say int8"):
        scaled(np.ones((1, 16), np.int32), trans_quant_param([1.0] * 16), QuantMode.VREQ8, np.dtype(np.uint8))


@pytest.mark.parametrize(("scale", "offset"), [(np.inf, 0), (1.0, 256), (1.0, -257)])
def test_words_that_cannot_be_are_refused(scale, offset):
    with pytest.raises(ValueError, match="scales must be finite, and offsets -256 to 255"):
        trans_quant_param(scale, offset)


def test_blocks_to_fb_are_of_128_bytes():
    seen = []

    def kernel(words):
        staged = LocalTensor(WORD, TPosition.C1, 0, 64)
        table = LocalTensor(WORD, TPosition.C2PIPE2GM, 0, 64)
        table.view[:] = 0
        DataCopy(staged, GlobalTensor(WORD).SetGlobalBuffer(words), 64)
        after(HardEvent.MTE2_MTE1)
        DataCopy(table, staged, DataCopyParams(1, 2))
        seen.append(table.view.copy())
        DataCopy(table, staged, DataCopyParams(2, 1, 8, 2))  # from byte 256 on, to byte 256
        seen.append(table.view.copy())
        with pytest.raises(KernelError, match="so that blocks do not overlap"):
            DataCopy(table, staged, DataCopyParams(2, 1, 8, 0))

    numbers = np.arange(64, dtype=WORD)
    result = on_core(kernel, numbers, kind=KernelType.AIC_ONLY)
    assert seen[0].tolist() == [*range(32), *[0] * 32]
    assert seen[1].tolist() == [*range(32), *range(32, 48), *[0] * 16]
    copies = [each for each in result.programs[0].instructions if each.pipe is Pipe.MTE1 and each.name == "DataCopy"]
    assert [each.cycles for each in copies] == [8, 8]  # 32 bytes a cycle


def test_queues_bring_the_words_too():
    """From GM to C1, and from there to C2PIPE2GM, each with the events of its queue."""

    def kernel(gm, words):
        pipe, staged, tables = TPipe(), TQue(TPosition.C1, 1), TQue(TPosition.C2PIPE2GM, 1)
        pipe.InitBuffer(staged, 1, 128)
        pipe.InitBuffer(tables, 1, 128)
        c1 = in_l0c(np.full((2, 16), 3, np.int32))
        out, source = GlobalTensor(half).SetGlobalBuffer(gm), GlobalTensor(WORD).SetGlobalBuffer(words)
        for row in range(2):
            word = staged.AllocTensor(WORD)
            DataCopy(word, source[row * 16 :], 16)
            staged.EnQue(word)
            word, table = staged.DeQue(WORD), tables.AllocTensor(WORD)
            DataCopy(table, word, 16)
            staged.FreeTensor(word)
            tables.EnQue(table)
            table = tables.DeQue(WORD)
            SetFixPipeConfig(table)
            Fixpipe(out[row * 16 :], c1, FixpipeParams(16, 1, quant_pre=QuantMode.VDEQF16))
            tables.FreeTensor(table)

    out = np.zeros((2, 16), half)
    result = on_core(kernel, out, trans_quant_param([2.0] * 16 + [3.0] * 16), kind=KernelType.AIC_ONLY)
    assert out.tolist() == [[6] * 16, [9] * 16]
    assert found(result) == []


@pytest.mark.parametrize("to", [np.dtype(np.int8), np.dtype(np.uint8)], ids=str)
@pytest.mark.parametrize(("mode", "source"), [(QuantMode.REQ8, np.int32), (QuantMode.QF322B8_PRE, np.float32)])
def test_bytes_scaled_by_one_number_are_signed_as_their_type(mode, source, to):
    values = np.array([[-300, -3, 3, 300, 700, 0, 0, 0]], source)
    out = np.zeros((1, 8), to)

    def kernel(gm):
        params = FixpipeParams(8, 1, quant_pre=mode, deq_scalar=0.5)
        Fixpipe(GlobalTensor(to).SetGlobalBuffer(gm), in_l0c(values), params)

    on_core(kernel, out, kind=KernelType.AIC_ONLY)
    limits = np.iinfo(to)
    expected = np.clip([-150, -2, 2, 150, 255, 0, 0, 0], limits.min, limits.max)  # 9 bits first
    assert out[0].tolist() == expected.tolist()


def test_columns_side_by_side_in_l1_are_filled_with_zeros_and_share_no_bytes():
    """Two results of 16 rows, the columns of each 32 rows long: they lie in each other's gaps."""
    values = np.arange(1, 16 * 20 + 1, dtype=np.float32).reshape(16, 20)
    seen = []

    def kernel():
        c1, a1 = in_l0c(values), LocalTensor(half, TPosition.A1, 0, 32 * 32)
        a1.view[:] = 7
        params = FixpipeParams(20, 16, dst_stride=32, quant_pre=QuantMode.F322F16)
        Fixpipe(a1, c1, params, CO2Layout.NZ)
        Fixpipe(a1[16 * 16 :], c1, params, CO2Layout.NZ)
        seen.append(a1.view.reshape(2, 2, 16, 16).transpose(1, 2, 0, 3).reshape(2, 16, 32).copy())

    assert found(on_core(kernel, kind=KernelType.AIC_ONLY)) == []
    whole = np.pad(values, ((0, 0), (0, 12))).astype(half)
    assert np.array_equal(seen[0], np.stack([whole, whole]))


def test_fixpipe_says_whether_the_l2_keeps_it():
    def kernel(gm):
        c1, out = in_l0c(np.ones((1, 16), np.float32)), GlobalTensor(np.float32).SetGlobalBuffer(gm)
        for mode in (CacheMode.CACHE_MODE_NORMAL, CacheMode.CACHE_MODE_DISABLE):
            out.SetL2CacheHint(mode)
            Fixpipe(out, c1, FixpipeParams(16, 1))

    (program,) = on_core(kernel, np.zeros(16, np.float32), kind=KernelType.AIC_ONLY).programs
    assert [each.flow.bypass for each in program.instructions] == [False, True]


def test_part_of_a_result_in_l0c_may_begin_in_any_row():
    """A convolution stores row by row of its image: the last columns of fractals end where the rows do."""
    values = np.arange(48 * 32, dtype=single)
    out = np.zeros((8, 32), single)

    def kernel(gm):
        total = prewritten(LocalTensor(single, TPosition.CO1, 0, 48 * 32))
        total.view[:] = values
        Fixpipe(GlobalTensor(single).SetGlobalBuffer(gm), total[40 * 16 :], FixpipeParams(32, 8, 48, 32))

    assert found(on_core(kernel, out, kind=KernelType.AIC_ONLY)) == []
    assert out.tolist() == values.reshape(2, 48, 16)[:, 40:].transpose(1, 0, 2).reshape(8, 32).tolist()
