"""int4b_t, of which a byte holds two, and bool: tensors, copies, casts and products."""

import ml_dtypes
import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import after, half, in_ub, issued, on_core

import acl_py as acl
from acl_py import asc
from device_model.aicore.core.names import HardEvent, KernelType, RoundMode, TPosition
from device_model.aicore.core.packed import int4b_t, pack, unpack
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int8
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import (
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyPadExtParams,
    Nd2NzParams,
)
from device_model.aicore.vector.elementwise import Cast
from device_model.aicore.vector.masks import SetMaskCount, UnaryRepeatParams
from device_model.kernel.findings import KernelError

NONE = RoundMode.CAST_NONE
UB = TPosition.VECCALC


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-8, 8, shape, np.int8)


def test_the_first_of_two_numbers_is_in_the_low_half_of_a_byte():
    assert pack(np.array([6, 7, -8, -1], np.int8)).tolist() == [0x76, 0xF8]
    every = np.array([[low, high] for low in range(-8, 8) for high in range(-8, 8)], np.int8)
    assert np.array_equal(unpack(pack(every)), every)


def quantise(x, y, count):
    """Half to int4b_t, with queues: what a quantising kernel ends with."""
    pipe, arriving, leaving = TPipe(), TQue(TPosition.VECIN, 1), TQue(TPosition.VECOUT, 1)
    pipe.InitBuffer(arriving, 1, count * 2)
    pipe.InitBuffer(leaving, 1, count // 2)
    tile = arriving.AllocTensor(half)
    DataCopy(tile, GlobalTensor(half).SetGlobalBuffer(x), count)
    arriving.EnQue(tile)
    tile, result = arriving.DeQue(half), leaving.AllocTensor(int4b_t)
    assert result.GetSize() == count
    Cast(result, tile, RoundMode.CAST_RINT, count)
    leaving.EnQue(result)
    arriving.FreeTensor(tile)
    result = leaving.DeQue(int4b_t)
    DataCopyPad(GlobalTensor(int4b_t).SetGlobalBuffer(y), result, DataCopyExtParams(1, count // 2))
    leaving.FreeTensor(result)


def test_a_kernel_quantises_to_int4():
    x = np.linspace(-12, 12, 384).astype(half)
    y = np.zeros(192, np.int8)
    result = launch(quantise, x, y, 384)
    assert np.array_equal(unpack(y), np.clip(np.rint(x.astype(float)), -8, 7))
    assert found(result) == []


def test_a_cast_from_int4_reads_half_a_byte_for_each_element():
    packed = pack(numbers(512))
    out = np.zeros(512, half)
    costs = []

    def kernel():
        source = in_ub(packed.view(np.int8), 0).ReinterpretCast(int4b_t)
        dst = LocalTensor(half, UB, 0x1000, 512)
        Cast(dst, source[256:], NONE, 256)
        costs.append(issued()[2])
        Cast(dst[256:], in_ub(packed.view(np.int8), 0x4000), NONE, 256)
        costs.append(issued()[2])
        out[:256] = dst.view[:256]

    on_core(kernel)
    assert np.array_equal(out[:256], unpack(packed)[256:])
    assert costs[0] == costs[1]  # a repeat is 256 bytes of halves, whatever they come from


@pytest.mark.parametrize("mode", [NONE, RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL, RoundMode.CAST_TRUNC])
def test_casts_to_int4_round_and_saturate(mode):
    x = np.array([-9, -8, -7.5, -0.5, 0.5, 1.5, 2.5, 6.9, 7.4, 8, np.inf, -np.inf, np.nan, 60_000] + [0] * 50, half)
    out = np.zeros(32, np.uint8)

    def kernel():
        dst = LocalTensor(int4b_t, UB, 0x1000, 64)
        Cast(dst, in_ub(x, 0), mode, 64)
        out[:] = dst.view

    on_core(kernel)
    rounded = {"CAST_NONE": np.rint, "CAST_FLOOR": np.floor, "CAST_CEIL": np.ceil, "CAST_TRUNC": np.trunc}[mode.name](x)
    assert np.array_equal(unpack(out), np.clip(np.nan_to_num(rounded), -8, 7))


@pytest.mark.parametrize("form", ["lanes", "bits", "counter"])
def test_masked_casts_to_int4_leave_the_other_bytes(form):
    x = np.arange(256).astype(half) % 15 - 7
    out = np.zeros(256, np.uint8)
    taken = np.zeros((2, 128), bool)

    def kernel():
        source, dst = in_ub(x, 0), in_ub(np.full(256, 0x11, np.uint8), 0x1000)
        mask = {"lanes": 32, "bits": [0b1100 | 3 << 62, 0b110000], "counter": 192}[form]
        if form == "counter":
            SetMaskCount()
        # The two blocks of a repeat's 64 bytes are two blocks apart, and repeats four.
        Cast(dst.ReinterpretCast(int4b_t), source, RoundMode.CAST_RINT, mask, 2, UnaryRepeatParams(2, 1, 4, 8))
        out[:] = dst.view

    on_core(kernel)
    match form:
        case "lanes":
            taken[:, :32] = True
        case "bits":
            taken[:, [2, 3, 62, 63, 68, 69]] = True
        case "counter":
            taken.ravel()[:192] = True
    expected = np.ones((2, 4, 64), np.int8)  # repeats, blocks, elements
    for repeat in range(2):
        for lane in np.flatnonzero(taken[repeat]):
            expected[repeat, lane // 64 * 2, lane % 64] = x.reshape(2, 128)[repeat, lane]
    assert np.array_equal(unpack(out).reshape(2, 4, 64), expected)


def multiply(a, b, c, tiling, is_trans):
    pipe, nd = TPipe(), CubeFormat.ND
    mm = Matmul(
        MatmulType(TPosition.GM, nd, int4b_t),
        MatmulType(TPosition.GM, nd, int4b_t, is_trans),
        MatmulType(TPosition.GM, nd, np.int32),
    )
    if REGIST_MATMUL_OBJ(pipe, None, mm, tiling):
        return
    mm.SetTensorA(GlobalTensor(int4b_t).SetGlobalBuffer(a))
    mm.SetTensorB(GlobalTensor(int4b_t).SetGlobalBuffer(b))
    mm.IterateAll(GlobalTensor(np.int32).SetGlobalBuffer(c))
    mm.End()


@pytest.mark.parametrize("is_trans", [False, True])
@pytest.mark.parametrize("shape", [(16, 64, 64), (37, 150, 200)], ids=str)
def test_products_of_int4_equal_numpy(shape, is_trans):
    m, n, k = shape
    a, b = numbers(m, k), numbers(k, n, seed=1)
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, int4b_t, cores=1, fix_split=(32, 64, 128))
    c = np.zeros((m, n), np.int32)
    b_gm = np.ascontiguousarray(b.T) if is_trans else b
    result = launch(multiply, pack(a), pack(b_gm), c, tiling, is_trans, kind=KernelType.AIC_ONLY)
    assert np.array_equal(c, a.astype(int) @ b.astype(int))
    assert found(result) == []


def test_a_fractal_of_int4_holds_64_elements_and_takes_one_cycle():
    cycles = {}
    for dtype in (int8, int4b_t):
        a, b, c = np.zeros((16, 512), np.int8), np.zeros((512, 64), np.int8), np.zeros((16, 64), np.int32)
        if dtype is int4b_t:
            a, b = pack(a), pack(b)
        tiling = multi_core_matmul_tiling(SPEC, 16, 64, 512, dtype, cores=1, fix_split=(16, 64, 512))
        kinds = [MatmulType(TPosition.GM, CubeFormat.ND, kind) for kind in (dtype, dtype, np.int32)]

        def kernel(a, b, c, tiling=tiling, kinds=kinds, dtype=dtype):
            mm = Matmul(*kinds)
            if not REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
                mm.SetTensorA(GlobalTensor(dtype).SetGlobalBuffer(a))
                mm.SetTensorB(GlobalTensor(dtype).SetGlobalBuffer(b))
                mm.IterateAll(GlobalTensor(np.int32).SetGlobalBuffer(c))

        result = launch(kernel, a, b, c, kind=KernelType.AIC_ONLY)
        cycles[dtype.name] = [each.cycles for each in result.programs[0].instructions if each.name == "Mmad"]
    assert cycles == {"int8": [4 * 16], "int4": [4 * 8]}


def at_odd(tensor):
    return tensor[3:]


def at_odd_behind(tensor):
    return GlobalTensor(int4b_t).SetGlobalBuffer(GM[0]).GetPhyAddr(2) + 3


def one_alone(tensor):
    return tensor.GetValue(0)


def odd_count(tensor):
    Cast(in_ub(np.zeros(64, half), 0x1000), tensor, NONE, 33)


def odd_mask(tensor):
    Cast(in_ub(np.zeros(128, half), 0x1000), tensor, NONE, [0b0110, 0], 1)


def too_long(tensor):
    Cast(LocalTensor(half, UB, 0x1000, 256), tensor, NONE, 256)


def add(tensor):
    asc.Adds(tensor, tensor, 1, 64)


def padded(tensor):
    padding = DataCopyPadExtParams(True, 0, 2, 0)
    DataCopyPad(tensor, GlobalTensor(int4b_t).SetGlobalBuffer(GM[0]), DataCopyExtParams(1, 31), padding)


GM = []  # the argument of the kernel
MISTAKES = [
    (at_odd, "element 3 .* begins within a byte"),
    (at_odd_behind, "element 3 of <GlobalBuffer .* begins within a byte"),
    (one_alone, "element 0 of .* alone.*int8"),
    (odd_count, "33 elements of int4b_t.*even"),
    (odd_mask, "the mask .* of int4b_t.*both lanes"),
    (too_long, "src has 128 elements and the instruction reaches element 255"),
    (add, "Adds: dst is int4; it takes float16"),
    (padded, "DataCopyPad of int4b_t .*int8"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=lambda each: getattr(each, "__name__", ""))
def test_mistakes_with_int4_are_refused_by_name(mistake, message):
    def kernel(gm):
        GM[:] = [gm]
        mistake(in_ub(np.zeros(64, np.int8), 0).ReinterpretCast(int4b_t))

    with pytest.raises(KernelError, match=message):
        on_core(kernel, np.zeros(64, np.int8))


def test_fractals_of_int4_have_even_sizes():
    def kernel(gm):
        tensor = GlobalTensor(int4b_t).SetGlobalBuffer(gm)
        DataCopy(LocalTensor(int4b_t, TPosition.A1, 0, 4096), tensor, Nd2NzParams(1, 4, 33, 0, 64, 16, 1, 0))

    with pytest.raises(KernelError, match="d_value must be even"):
        on_core(kernel, np.zeros(128, np.int8), kind=KernelType.AIC_ONLY)


async def test_an_argument_of_int4_is_refused_because_numpy_gives_each_element_a_byte():
    @asc.kernel
    def nothing(x: asc.In):
        pass

    async with acl.simulate(device="ascend910b1"):
        x = acl.Array(await acl.Malloc(64), np.dtype(ml_dtypes.int4))
        await nothing[1](x)
        with pytest.raises(acl.AclError, match=r"argument of int4 .*pass int8"):
            await acl.SynchronizeDevice()


def count_true(mask, x, out):
    """As MaskedScatter counts: a mask of bool, read as bytes, becomes numbers that are summed."""
    pipe, calc = TPipe(), TBuf(UB)
    pipe.InitBuffer(calc, 512)
    local = LocalTensor(bool, UB, 0x1000, 64)
    DataCopy(local, GlobalTensor(bool).SetGlobalBuffer(mask), 64)
    after(HardEvent.MTE2_V)
    Cast(calc.Get(half), local.ReinterpretCast(asc.uint8), NONE, 64)
    asc.ReduceSum(calc.Get(half), calc.Get(half), LocalTensor(half, UB, 0x2000, 64), 64)
    after(HardEvent.V_S)
    out.append((local.GetValue(0), local.GetValue(1), float(calc.Get(half).GetValue(0))))


def test_a_bool_is_a_byte():
    mask = np.arange(64) % 3 == 0
    out = []
    launch(count_true, mask, None, out)
    assert out == [(True, False, mask.sum())]
