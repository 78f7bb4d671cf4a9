"""The cube: fractals in, products, and out again."""

import ml_dtypes
import numpy as np
import pytest
from cores import SPEC, found
from instructions import after, bfloat16, half, on_core, single

from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.loads import (
    LoadData,
    LoadData2DParams,
    LoadData2dTransposeParams,
    LoadDataWithTranspose,
)
from device_model.aicore.cube.mmad import (
    PRODUCTS,
    HF32Mode,
    HF32TransMode,
    Mmad,
    MmadParams,
    SetHF32Mode,
    SetHF32TransMode,
    fractals,
    k0,
)
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad, DataCopyParams, Nd2NzParams
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY
TYPES = [half, bfloat16, single, np.dtype(np.int8)]


def product(a, b, c, bias, m, n, k, is_transposed, dtype):
    """One Mmad with everything before and behind it, in raw instructions."""
    width, total = k0(dtype), np.dtype(PRODUCTS[dtype.name])
    rows, depth, columns = fractals(m), fractals(k, width), fractals(n)
    size = 512 // dtype.itemsize
    a1 = LocalTensor(dtype, TPosition.A1, 0, rows * depth * size)
    b1 = LocalTensor(dtype, TPosition.B1, 0x40000, 65536 // dtype.itemsize)
    a2 = LocalTensor(dtype, TPosition.A2, 0, rows * depth * size)
    b2 = LocalTensor(dtype, TPosition.B2, 0, 65536 // dtype.itemsize)
    c1 = LocalTensor(total, TPosition.CO1, 0, rows * columns * 256)
    gb = GlobalTensor(dtype).SetGlobalBuffer(b)
    DataCopy(a1, GlobalTensor(dtype).SetGlobalBuffer(a), Nd2NzParams(1, m, k, 0, k, rows * 16, 1, 0))
    if is_transposed:
        DataCopy(b1, gb, Nd2NzParams(1, n, k, 0, k, columns * 16, 1, 0))
    elif width == 8:
        DataCopy(b1, gb, Nd2NzParams(k // 16, 16, n, 16 * n, n, 16, 1, 256 * columns))
    else:
        DataCopy(b1, gb, Nd2NzParams(1, k, n, 0, n, depth * width, 1, 0))
    after(HardEvent.MTE2_MTE1)
    for row in range(rows):
        LoadData(a2[row * depth * size :], a1, LoadData2DParams(row, depth, rows))
    if is_transposed:
        LoadData(b2, b1, LoadData2DParams(0, depth * columns))
    for row in range(0 if is_transposed else k // 16 if width == 8 else depth):
        if width == 16:
            LoadData(b2[row * columns * size :], b1, LoadData2DParams(row, columns, depth, 0, True))
        elif width == 8:
            params = LoadData2dTransposeParams(row * columns, columns, 1, 0, columns - 1)
            LoadDataWithTranspose(b2[row * 2 * columns * size :], b1, params)
        else:
            LoadDataWithTranspose(b2[row * columns * size :], b1, LoadData2dTransposeParams(row, n // 32, depth, 1, 0))
    after(HardEvent.MTE1_M)
    table = []
    if bias is not None:
        staged = LocalTensor(total, TPosition.C1, 0x70000, columns * 16)
        table = [LocalTensor(total, TPosition.C2, 0, columns * 16)]
        DataCopyPad(staged, GlobalTensor(total).SetGlobalBuffer(bias), DataCopyExtParams(1, n * 4))
        after(HardEvent.MTE2_MTE1)
        DataCopy(table[0], staged, columns * 16)
        after(HardEvent.MTE1_M)
    Mmad(c1, a2, b2, *table, MmadParams(m, n, k))
    after(HardEvent.M_FIX)
    Fixpipe(GlobalTensor(total).SetGlobalBuffer(c), c1, FixpipeParams(n, m))


def factors(seed, m, n, k, dtype):
    rng = np.random.default_rng(seed)
    if dtype == np.int8:
        return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_product_in_raw_instructions_equals_numpy(dtype, is_transposed):
    for seed, (m, n, k) in enumerate([(16, 32, 32), (48, 64, 96), (33, 96, 64)]):
        a, b = factors(seed, m, n, k, dtype)
        total = PRODUCTS[dtype.name]
        bias = np.arange(n).astype(total) if seed else None
        c = np.zeros((m, n), total)
        gm = np.ascontiguousarray(b.T) if is_transposed else b
        result = on_core(product, a, gm, c, bias, m, n, k, is_transposed, dtype, kind=KernelType.AIC_ONLY)
        expected = a.astype(np.float64) @ b.astype(np.float64) + (0 if bias is None else bias)
        if dtype == np.int8:
            assert np.array_equal(c, expected)
        else:
            assert np.allclose(c, expected, rtol=1e-5, atol=1e-4)
        assert found(result) == []


@pytest.mark.parametrize("dtype", [half, single], ids=str)
def test_blocks_to_bt_are_of_64_bytes_and_half_becomes_float(dtype):
    seen = []
    each = 64 // dtype.itemsize  # elements of a block

    def kernel(bias):
        staged = LocalTensor(dtype, TPosition.C1, 0, 128)
        table = LocalTensor(single, TPosition.C2, 0, 128)
        table.view[:] = 0
        DataCopy(staged, GlobalTensor(dtype).SetGlobalBuffer(bias), 128)
        after(HardEvent.MTE2_MTE1)
        DataCopy(table, staged, DataCopyParams(1, 2))
        seen.append(table.view.tolist())
        PipeBarrier(Pipe.MTE1)
        DataCopy(table, staged, DataCopyParams(2, 1, 4, each // 16))  # the third block behind the first one
        seen.append(table.view.tolist())
        with pytest.raises(KernelError, match="so that blocks do not overlap"):
            DataCopy(table, staged, DataCopyParams(2, 1, 4, 0))
        with pytest.raises(KernelError, match="two types"):
            DataCopy(table, staged.ReinterpretCast(np.int16), DataCopyParams(1, 1))

    numbers = np.arange(128, dtype=dtype)
    result = on_core(kernel, numbers, kind=AIC)
    assert seen[0] == [*range(2 * each), *[0] * (128 - 2 * each)]
    assert seen[1] == [*range(each), *range(2 * each, 3 * each), *[0] * (128 - 2 * each)]
    assert found(result) == []
    copies = [each for each in result.programs[0].instructions if each.pipe is Pipe.MTE1 and each.name == "DataCopy"]
    assert [each.cycles for each in copies] == [4, 4]  # 32 bytes a cycle


def test_mmad_adds_to_l0c_and_costs_its_fractals():
    ones = np.ones((32, 64), half)
    c = np.zeros((32, 32), np.float32)
    result = on_core(accumulate, ones, c, kind=KernelType.AIC_ONLY)
    assert (c == 64 * 3).all()
    mmads = [each for each in result.programs[0].instructions if each.pipe is Pipe.M and each.name == "Mmad"]
    assert [(each.startup, each.cycles) for each in mmads] == [(SPEC.mmad_startup, 2 * 2 * 4)] * 3
    loads = [each for each in result.programs[0].instructions if each.name == "LoadData"]
    assert [(each.startup, each.cycles) for each in loads] == [(20, 16), (20, 32)]


def accumulate(x, c):
    a1 = LocalTensor(half, TPosition.A1, 0, 2048)
    a2, b2 = LocalTensor(half, TPosition.A2, 0, 2048), LocalTensor(half, TPosition.B2, 0, 2048)
    c1 = LocalTensor(single, TPosition.CO1, 0, 1024)
    DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(x), 2048)
    after(HardEvent.MTE2_MTE1)
    LoadData(a2, a1, LoadData2DParams(0, 8))
    LoadData(b2, a1, LoadData2DParams(0, 8))
    after(HardEvent.MTE1_M)
    for turn in range(3):
        Mmad(c1, a2, b2, MmadParams(32, 32, 64, cmatrix_init_val=turn == 0))
    after(HardEvent.M_FIX)
    Fixpipe(GlobalTensor(single).SetGlobalBuffer(c), c1, FixpipeParams(32, 32))


@pytest.mark.parametrize(
    ("source", "target", "mode", "scale"),
    [
        ("float32", np.float32, QuantMode.NoQuant, 1.0),
        ("float32", np.float16, QuantMode.F322F16, 1.0),
        ("float32", ml_dtypes.bfloat16, QuantMode.F322BF16, 1.0),
        ("float32", np.int8, QuantMode.QF322B8_PRE, 20.0),
        ("int32", np.float16, QuantMode.DEQF16, 0.5),
        ("int32", np.int8, QuantMode.REQ8, 0.25),
    ],
)
@pytest.mark.parametrize("has_relu", [False, True])
def test_fixpipe_converts_cuts_and_places(source, target, mode, scale, has_relu):
    m, n, stride = 20, 24, 40
    values = (np.random.default_rng(5).normal(size=(m, n)) * 30).astype(source)
    out = np.full((m, stride), 7, target)

    def kernel(gm):
        c1 = LocalTensor(source, TPosition.CO1, 0, 32 * 32)
        c1.view.reshape(2, 32, 16)[:, :m] = np.pad(values, ((0, 0), (0, 8))).reshape(m, 2, 16).transpose(1, 0, 2)
        params = FixpipeParams(n, m, 0, stride, mode, scale, has_relu)
        Fixpipe(GlobalTensor(target).SetGlobalBuffer(gm), c1, params)

    on_core(kernel, out, kind=KernelType.AIC_ONLY)
    expected = values * np.float32(scale) if scale != 1 else values
    if has_relu:
        expected = np.maximum(expected, 0)
    if target is np.int8:
        expected = np.clip(np.rint(expected), -128, 127)
    assert np.array_equal(out[:, :n].astype(float), expected.astype(target).astype(float))
    assert (out[:, n:].astype(float) == 7).all()


def test_a_result_goes_back_to_l1_in_fractals():
    values = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    seen = []

    def kernel():
        c1 = LocalTensor(single, TPosition.CO1, 0, 1024)
        c1.view.reshape(2, 32, 16)[:] = values.reshape(32, 2, 16).transpose(1, 0, 2)
        a1 = LocalTensor(half, TPosition.A1, 0, 1024)
        Fixpipe(a1, c1, FixpipeParams(32, 32, quant_pre=QuantMode.F322F16), CO2Layout.NZ)
        seen.append(a1.view.reshape(2, 32, 16).transpose(1, 0, 2).reshape(32, 32).copy())

    on_core(kernel, kind=KernelType.AIC_ONLY)
    assert np.array_equal(seen[0], values.astype(half))


def tensors():
    return (
        LocalTensor(half, TPosition.A1, 0, 1024),
        LocalTensor(half, TPosition.A2, 0, 1024),
        LocalTensor(half, TPosition.B2, 0, 1024),
        LocalTensor(single, TPosition.CO1, 0, 1024),
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda a1, a2, b2, c: LoadData(a1, a2, LoadData2DParams()),
            "it goes from L1 (A1, B1) to L0A (A2) or L0B (B2)",
        ),
        (
            lambda a1, a2, b2, c: LoadData(a2, a1, LoadData2DParams(0, 5)),
            "dst has 4 fractals and the instruction reaches",
        ),
        (
            lambda a1, a2, b2, c: LoadData(a2, a1, LoadData2DParams(0, 256)),
            "256 repeats; an instruction takes 1 to 255",
        ),
        (lambda a1, a2, b2, c: LoadData(a2[16:], a1, LoadData2DParams()), "to byte 32 of L0A"),
        (lambda a1, a2, b2, c: Mmad(c, b2, a2, MmadParams(16, 16, 16)), "it goes from L0A and L0B to L0C"),
        (lambda a1, a2, b2, c: Mmad(c, a2, b2, MmadParams(16, 16, 80)), "fm has 2048 bytes; it needs 2560"),
        (lambda a1, a2, b2, c: Mmad(c, a2, b2, MmadParams(16, 16, 4096)), "m, n and k are 1 to 4095"),
        (lambda a1, a2, b2, c: Fixpipe(a1, c, FixpipeParams(16, 16), CO2Layout.NZ), "take quant_pre=F322F16"),
        (lambda a1, a2, b2, c: Fixpipe(a1, c, FixpipeParams(16, 16)), "Fixpipe from float32 to float16"),
    ],
)
def test_what_the_cube_does_not_take_is_refused(wrong, message):
    with pytest.raises(KernelError) as refused:
        on_core(lambda: wrong(*tensors()), kind=KernelType.AIC_ONLY)
    assert message in str(refused.value)


def test_the_cube_is_on_cube_cores():
    with pytest.raises(KernelError, match="only cube cores have it"):
        on_core(lambda: Mmad(None, None, None, MmadParams(16, 16, 16)))


def test_fractals_side_by_side_share_no_bytes():
    """Two loads in turn, each in the gaps of the other; a third one in their place."""

    def kernel(again):
        a1, a2 = LocalTensor(half, TPosition.A1, 0, 2048), LocalTensor(half, TPosition.A2, 0, 2048)
        a1.view[:] = 0
        LoadData(a2, a1, LoadData2DParams(0, 4, 2, 1))
        LoadData(a2[256:], a1, LoadData2DParams(1, 4, 2, 1))
        if again:
            LoadData(a2[1536:], a1, LoadData2DParams())

    for again, expected in ((False, []), (True, [("WAW", "PipeBarrier<MTE1>")])):
        assert found(on_core(kernel, again, kind=KernelType.AIC_ONLY)) == expected


def test_one_row_is_read_as_a_vector():
    """With m of 1 Mmad takes k elements in a row from L0A, where a fractal of 16 x 16 would end each of its rows."""
    k, n = 200, 32
    a, b = factors(11, 1, n, 256, half)[0], factors(12, 1, n, k, half)[1]
    c = np.zeros((1, n), single)

    def kernel(a, b, c):
        a1, b1 = LocalTensor(half, TPosition.A1, 0, 256), LocalTensor(half, TPosition.B1, 0x40000, 208 * n)
        a2, b2 = LocalTensor(half, TPosition.A2, 0, 256), LocalTensor(half, TPosition.B2, 0, 208 * n)
        c1 = LocalTensor(single, TPosition.CO1, 0, 16 * n)
        DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(a), 256)
        DataCopy(b1, GlobalTensor(half).SetGlobalBuffer(b), Nd2NzParams(1, k, n, 0, n, 208, 1, 0))
        after(HardEvent.MTE2_MTE1)
        LoadData(a2, a1, LoadData2DParams(0, 1))
        for row in range(13):
            LoadData(b2[row * n * 16 :], b1, LoadData2DParams(row, n // 16, 13, 0, True))
        after(HardEvent.MTE1_M)
        Mmad(c1, a2, b2, MmadParams(1, n, k))
        after(HardEvent.M_FIX)
        Fixpipe(GlobalTensor(single).SetGlobalBuffer(c), c1, FixpipeParams(n, 1))

    assert found(on_core(kernel, a, b, c, kind=KernelType.AIC_ONLY)) == []
    assert np.allclose(c, a[:, :k].astype(single) @ b.astype(single), rtol=1e-4, atol=1e-4)


def rounded(numbers, *, to_even):
    """Floats with 11 bits behind the point, digit by digit."""
    mantissa, exponent = np.frexp(numbers.astype(np.float64))
    scaled = mantissa * 2**12
    near = np.rint(scaled) if to_even else np.sign(scaled) * np.ceil(np.abs(scaled) - 0.5)
    return np.ldexp(near, exponent - 12).astype(single)


@pytest.mark.parametrize("mode", HF32TransMode)
def test_floats_are_rounded_to_hf32_for_a_product_that_takes_half_the_time(mode):
    a, b = factors(3, 32, 32, 32, single)
    a[0, :4] = [1 + 2**-12, 1 + 3 * 2**-12, -1 - 2**-12, 2**-130]  # two that lie between numbers, and a small one
    cycles = []

    def kernel(a, b, c, *, hf32):
        if hf32:
            SetHF32TransMode(mode)
            SetHF32Mode(HF32Mode.ENABLE)
        product(a, b, c, None, 32, 32, 32, True, single)
        SetHF32Mode(HF32Mode.DISABLE)

    results = [np.zeros((32, 32), single) for _ in range(2)]
    for hf32, out in enumerate(results):
        result = on_core(lambda a, b, c, hf32=hf32: kernel(a, b, c, hf32=hf32), a, b.T.copy(), out, kind=AIC)
        assert found(result) == []
        (mmad,) = [each for each in result.programs[0].instructions if each.name == "Mmad"]
        cycles.append(mmad.cycles)
    assert cycles[0] == 2 * cycles[1]
    to_even = mode is HF32TransMode.NEAREST_EVEN
    expected = rounded(a, to_even=to_even) @ rounded(b, to_even=to_even)
    np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-5)
    assert np.abs(results[1] - a @ b).max() > 1e-4
    with pytest.raises(KernelError, match=r"SetHF32Mode\(True\); give it HF32Mode.ENABLE"):
        on_core(lambda: SetHF32Mode(True), kind=AIC)
    with pytest.raises(KernelError, match=r"SetHF32TransMode\(0\); give it HF32TransMode.NEAREST_EVEN"):
        on_core(lambda: SetHF32TransMode(0), kind=AIC)
