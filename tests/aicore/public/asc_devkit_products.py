"""Kernels after folders of asc-devkit's examples that multiply matrices: with instructions of the cube, and Matmul."""

from dataclasses import replace

import numpy as np

from acl_py import asc
from device_model.profile import load
from public.cases import Data, follows, gm

HALF, FLOAT = np.float16, np.float32
EXAMPLES = "asc-devkit/examples/01_simd_cpp_api"
GM, ND = asc.TPosition.GM, asc.CubeFormat.ND
CUBE, MIXED = asc.KernelType.AIC_ONLY, asc.KernelType.MIX_AIC_1_2
SIDE, SQUARE = 16, 256  # elements of a fractal of halves
SPEC = load("ascend910b1").aicore


def of(dtype):
    """A matrix row by row in GM."""
    return asc.MatmulType(GM, ND, dtype)


def factors(rng, m, n, k):
    a, b = rng.normal(size=(m, k)).astype(HALF), rng.normal(size=(k, n)).astype(HALF)
    return a, b, a.astype(FLOAT) @ b.astype(FLOAT)


def handed(event, event_id=0):
    asc.SetFlag(event, event_id)
    asc.WaitFlag(event, event_id)


def multiplied(a_gm, b_gm, c_gm, m, n, k, whole_n, quant):
    """One product in five memories: to L1 as fractals, to L0A and L0B fractal by fractal, to L0C, and to GM."""
    l1, l0a, l0b, l0c = (
        asc.LocalMemAllocator(each) for each in (asc.Hardware.L1, asc.Hardware.L0A, asc.Hardware.L0B, asc.Hardware.L0C)
    )
    a1, b1 = l1.Alloc(asc.half, m * k), l1.Alloc(asc.half, k * n, asc.TPosition.B1)
    a2, b2, c1 = l0a.Alloc(asc.half, m * k), l0b.Alloc(asc.half, k * n), l0c.Alloc(asc.float32, m * n)
    asc.DataCopy(a1, a_gm, asc.Nd2NzParams(1, m, k, 0, k, m, 1, 0))
    asc.DataCopy(b1, b_gm, asc.Nd2NzParams(1, k, n, 0, whole_n, k, 1, 0))
    handed(asc.HardEvent.MTE2_MTE1)
    for row in range(m // SIDE):
        params = asc.LoadData2DParams(0, k // SIDE, m // SIDE, 0, False)
        asc.LoadData(a2[row * k * SIDE :], a1[row * SQUARE :], params)
    for row in range(k // SIDE):
        params = asc.LoadData2DParams(0, n // SIDE, k // SIDE, 0, True)
        asc.LoadData(b2[row * n * SIDE :], b1[row * SQUARE :], params)
    handed(asc.HardEvent.MTE1_M)
    asc.Mmad(c1, a2, b2, asc.MmadParams(m, n, k))
    handed(asc.HardEvent.M_FIX)
    asc.Fixpipe(c_gm, c1, asc.FixpipeParams(n, m, m, whole_n, quant))


def _matmul_data(rng):
    a, b, c = factors(rng, 64, 48, 32)
    return Data({"a": a, "b": b, "rows": 32, "n": 48, "k": 32}, {"c": c.astype(HALF)})


@follows(f"{EXAMPLES}/00_introduction/02_matrix/matmul_basic_api", _matmul_data, blocks=2, tolerance=4e-3)
@asc.kernel(kind=CUBE)
def matmul_basic_api(a: asc.In, b: asc.In, c: asc.Out, rows: int, n: int, k: int):
    """Each cube core multiplies its rows; Fixpipe makes halves of the result."""
    at = asc.GetBlockIdx() * rows
    c_gm = gm(c, asc.half, at * n)
    multiplied(gm(a, asc.half, at * k), gm(b, asc.half), c_gm, rows, n, k, n, asc.QuantMode.F322F16)
    asc.PipeBarrier(asc.PIPE_ALL)


def _leaky_data(rng):
    a, b, c = factors(rng, 128, 32, 48)
    c = c.astype(HALF)
    return Data({"a": a, "b": b, "rows": 64, "n": 32, "k": 48}, {"c": np.where(c >= 0, c, c * HALF(0.1))})


@follows(
    f"{EXAMPLES}/00_introduction/03_fusion_operation/matmul_leakyrelu_basic_api", _leaky_data, blocks=2, tolerance=4e-3
)
@asc.kernel(kind=MIXED)
def matmul_leakyrelu_basic_api(a: asc.In, b: asc.In, c: asc.InOut, rows: int, n: int, k: int):
    """The cube core of a block writes its rows, and its two vector cores each take half of them out of GM again."""
    if asc.ASCEND_IS_AIC():
        at = asc.GetBlockIdx() * rows
        c_gm = gm(c, asc.half, at * n)
        multiplied(gm(a, asc.half, at * k), gm(b, asc.half), c_gm, rows, n, k, n, asc.QuantMode.F322F16)
        asc.CrossCoreSetFlag(2, asc.PIPE_FIX, 0)
    if asc.ASCEND_IS_AIV():
        half_of = rows // 2
        local = asc.LocalMemAllocator(asc.Hardware.UB).Alloc(asc.half, half_of * n)
        asc.CrossCoreWaitFlag(0)
        c_gm = gm(c, asc.half, asc.GetBlockIdx() * half_of * n)
        params = asc.DataCopyExtParams(half_of, n * 2, 0, 0, 0)
        asc.DataCopyPad(local, c_gm, params, asc.DataCopyPadExtParams(True, 0, 0, 0))
        handed(asc.HardEvent.MTE2_V)
        asc.LeakyRelu(local, local, 0.1, half_of * n)
        handed(asc.HardEvent.V_MTE3)
        asc.DataCopyPad(c_gm, local, params)
    asc.PipeBarrier(asc.PIPE_ALL)


def _splitk_data(rng):
    a, b, c = factors(rng, 16, 16, 256)
    tiling = asc.multi_core_matmul_tiling(SPEC, 16, 16, 64, HALF, cores=1)
    return Data({"a": a, "b": b, "c": np.ones((16, 16), FLOAT), "k": 256, "tiling": tiling}, {"c": c})


@follows(f"{EXAMPLES}/04_advanced_api/00_matmul/matmul_splitk", _splitk_data, blocks=4, tolerance=1e-4)
@asc.kernel(kind=MIXED)
def matmul_splitk(a: asc.In, b: asc.In, c: asc.InOut, k: int, tiling: asc.TCubeTiling):
    """Each block has its part of k, and adds its products to C, which it has filled with 0.

    The folder fills C on cube cores, where Fill does nothing on Atlas A2, so its C has to be 0 before. Here the kernel
    is mixed, a vector core fills C, and all of them meet behind it.
    """
    mm = asc.Matmul(of(asc.half), of(asc.half), of(asc.float32))
    pipe = asc.TPipe()
    if asc.GetBlockIdx() == 0:
        asc.Fill(gm(c, asc.float32), 16 * 16, 0.0)
    if asc.ASCEND_IS_AIV():
        asc.SyncAll()
    if asc.REGIST_MATMUL_OBJ(pipe, None, mm, tiling):
        return
    part = tiling.single_core_k
    at = asc.GetBlockIdx() // 2 * part
    mm.SetOrgShape(16, 16, k)
    mm.SetSingleShape(16, 16, part)
    if asc.GetSubBlockIdx() == 0:
        mm.SetTensorA(gm(a, asc.half, at), False)
        mm.SetTensorB(gm(b, asc.half, at * 16), False)
        mm.IterateAll(gm(c, asc.float32), 1)
    mm.End()


def _quant_data(rng):
    a, b = rng.integers(-9, 9, (64, 96), np.int8), rng.integers(-9, 9, (96, 64), np.int8)
    bias = rng.integers(-99, 99, 64).astype(np.int32)
    scale = rng.uniform(0.01, 0.1, 64).astype(FLOAT)
    c = (a.astype(np.int32) @ b.astype(np.int32) + bias) * scale
    tiling = asc.multi_core_matmul_tiling(SPEC, 64, 64, 96, np.int8, cores=4, is_bias=True)
    given = {"a": a, "b": b, "bias": bias, "scale": asc.trans_quant_param(scale), "tiling": tiling}
    return Data(given, {"c": c.astype(HALF)})


@follows(f"{EXAMPLES}/04_advanced_api/00_matmul/matmul_quant", _quant_data, blocks=4, tolerance=4e-3)
@asc.kernel(kind=CUBE)
def matmul_quant(a: asc.In, b: asc.In, bias: asc.In, scale: asc.In, c: asc.Out, tiling: asc.TCubeTiling):
    """Bytes times bytes: Fixpipe multiplies each column with a factor of its own, and makes halves."""
    mm = asc.Matmul(of(asc.int8), of(asc.int8), of(asc.half), of(asc.int32))
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    if asc.GetBlockIdx() < tiling.used_core_num:
        row, column, rows, columns = tiling.part(asc.GetBlockIdx())
        mm.SetQuantVector(gm(scale, asc.uint64, column))
        mm.SetTail(rows, columns)
        mm.SetTensorA(gm(a, asc.int8, row * tiling.ka), False)
        mm.SetTensorB(gm(b, asc.int8, column), False)
        mm.SetBias(gm(bias, asc.int32, column))
        mm.IterateAll(gm(c, asc.half, row * tiling.n + column))
    mm.End()


def _triangle_data(rng):
    a, b, c = factors(rng, 126, 125, 48)
    bias = rng.normal(size=125).astype(FLOAT)
    tiling = asc.multi_core_matmul_tiling(SPEC, 126, 125, 48, HALF, cores=4, is_bias=True, fix_split=(16, 32, 48))
    tiling = replace(tiling, single_core_m=64, single_core_n=64)
    row, column = np.indices(c.shape)
    # Blocks below the diagonal are left out, and within those on it pieces of 16 x 32.
    left = (row // 64 > column // 64) | ((row // 64 == column // 64) & (row % 64 // 16 > column % 64 // 32))
    return Data(
        {"a": a, "b": b, "bias": bias, "c": np.full(c.shape, 7, FLOAT), "tiling": tiling},
        {"c": np.where(left, 7, c + bias).astype(FLOAT)},
    )


@follows(f"{EXAMPLES}/04_advanced_api/00_matmul/matmul_triangle", _triangle_data, blocks=4, tolerance=1e-3)
@asc.kernel(kind=CUBE)
def matmul_triangle(a: asc.In, b: asc.In, bias: asc.In, c: asc.InOut, tiling: asc.TCubeTiling):
    """The upper triangle of C: cores on the diagonal have a policy, those above it none, and those below do nothing."""
    kinds = of(asc.half), of(asc.half), of(asc.float32), of(asc.float32)
    down, right = asc.GetBlockIdx() % tiling.blocks_m, asc.GetBlockIdx() // tiling.blocks_m
    policy = asc.MatmulPolicy.TRIAN_UPPER if down == right else asc.MatmulPolicy.NORMAL
    mm = asc.Matmul(*kinds, policy=policy)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    if down > right:
        return
    row, column, m, n = tiling.part(asc.GetBlockIdx())
    mm.SetTail(m, n, tiling.single_core_k)
    mm.SetTensorA(gm(a, asc.half, row * tiling.ka))
    mm.SetTensorB(gm(b, asc.half, column))
    mm.SetBias(gm(bias, asc.float32, column))
    mm.IterateAll(gm(c, asc.float32, row * tiling.n + column))
    mm.End()


def _gemv_data(rng):
    a, b, c = factors(rng, 1, 32, 256)
    return Data({"a": a, "b": b.T.copy(), "n": 32, "k": 256}, {"c": c})


@follows(f"{EXAMPLES}/03_basic_api/03_matrix_compute/mmad_gemv", _gemv_data, tolerance=1e-4)
@asc.kernel(kind=CUBE)
def mmad_gemv(a: asc.In, b: asc.In, c: asc.Out, n: int, k: int):
    """A row times a matrix, which is transposed: with m of 1 Mmad reads the row as it lies in GM."""
    a1, b1 = (
        asc.LocalTensor(asc.half, asc.TPosition.A1, 0, k),
        asc.LocalTensor(asc.half, asc.TPosition.B1, k * 2, k * n),
    )
    asc.DataCopy(a1, gm(a, asc.half), asc.Nd2NzParams(1, 1, k, 0, k, 1, 1, 0))
    asc.SetFlag(asc.HardEvent.MTE2_MTE1, asc.EVENT_ID0)
    asc.DataCopy(b1, gm(b, asc.half), asc.Nd2NzParams(1, n, k, 0, k, n, 1, 0))
    asc.SetFlag(asc.HardEvent.MTE2_MTE1, asc.EVENT_ID1)
    a2 = asc.LocalTensor(asc.half, asc.TPosition.A2, 0, k)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE1, asc.EVENT_ID0)
    asc.LoadData(a2, a1, asc.LoadData2DParams(0, -(-k // SQUARE), 1, 0, False))
    b2 = asc.LocalTensor(asc.half, asc.TPosition.B2, 0, k * n)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE1, asc.EVENT_ID1)
    asc.LoadData(b2, b1, asc.LoadData2DParams(0, k * n // SQUARE, 1, 0, False))
    handed(asc.HardEvent.MTE1_M)
    c1 = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * n)
    asc.Mmad(c1, a2, b2, asc.MmadParams(1, n, k))
    handed(asc.HardEvent.M_FIX)
    asc.Fixpipe(gm(c, asc.float32), c1, asc.FixpipeParams(n, 1, SIDE, n))
    asc.PipeBarrier(asc.PIPE_ALL)


def _batches_data(rng):
    m, n, k, count = 32, 64, 48, 3
    a, b = rng.normal(size=(m, count, k)).astype(HALF), rng.normal(size=(n, count, k)).astype(HALF)
    c = np.einsum("mbk,nbk->mbn", a.astype(FLOAT), b.astype(FLOAT))
    tiling = asc.multi_core_matmul_tiling(SPEC, m, n, k, HALF, cores=1)
    room = np.zeros(c.shape, FLOAT)
    return Data({"a": a, "b": b, "room": room, "tiling": tiling, "batches": count}, {"c": c})


@follows(f"{EXAMPLES}/04_advanced_api/00_matmul/batch_matmul_iterate_n_batch", _batches_data, tolerance=1e-4)
@asc.kernel(kind=asc.KernelType.MIX_AIC_1_1)
def batch_matmul_iterate_n_batch(
    a: asc.In, b: asc.In, room: asc.InOut, c: asc.Out, tiling: asc.TCubeTiling, batches: int
):
    """Three products whose rows lie side by side; their C goes through the room of the object and the UB."""
    pipe = asc.TPipe()
    mm = asc.Matmul(of(asc.half), asc.MatmulType(GM, ND, asc.half, is_trans=True), of(asc.float32))
    if asc.REGIST_MATMUL_OBJ(pipe, None, mm, tiling):
        return
    n, k, size = tiling.n, tiling.ka, batches * tiling.m * tiling.n
    mm.SetOrgShape(tiling.m, n, batches * k, batches * k, batches * n)
    mm.SetTensorA(gm(a, asc.half))
    mm.SetTensorB(gm(b, asc.half))
    results, room_gm = asc.TQue(asc.TPosition.VECIN, 2), gm(room, asc.float32)
    pipe.InitBuffer(results, 1, size * 4)
    local = results.AllocTensor(asc.float32)
    mm.SetWorkspace(room_gm)
    mm.IterateNBatch(1, batches, batches, False, k, k, n)
    asc.DataCopy(local, room_gm, size)
    handed(asc.HardEvent.MTE2_MTE3, asc.GetTPipePtr().FetchEventID(asc.HardEvent.MTE2_MTE3))
    results.EnQue(local)
    local = results.DeQue(asc.float32)
    asc.DataCopy(gm(c, asc.float32), local, size)
    results.FreeTensor(local)
    mm.End()


def _n_buffer_data(rng):
    a, b, c = factors(rng, 256, 512, 192)
    bias = rng.normal(size=512).astype(FLOAT)
    tiling = asc.multi_core_matmul_tiling(
        SPEC, 256, 512, 192, HALF, cores=2, is_bias=True, policy=asc.MatmulPolicy.N_BUFFER_33
    )
    return Data({"a": a, "b": b, "bias": bias, "tiling": tiling}, {"c": c + bias})


@follows(f"{EXAMPLES}/04_advanced_api/00_matmul/matmul_nbuffer33", _n_buffer_data, blocks=2, tolerance=1e-4)
@asc.kernel(kind=CUBE)
def matmul_nbuffer33(a: asc.In, b: asc.In, bias: asc.In, c: asc.Out, tiling: asc.TCubeTiling):
    """A of each core stays in L1, and columns of B go by."""
    kinds = of(asc.half), of(asc.half), of(asc.float32), of(asc.float32)
    mm = asc.Matmul(*kinds, policy=asc.MatmulPolicy.N_BUFFER_33)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    row, column, m, n = tiling.part(asc.GetBlockIdx())
    mm.SetTail(m, n)
    mm.SetTensorA(gm(a, asc.half, row * tiling.ka))
    mm.SetTensorB(gm(b, asc.half, column))
    mm.SetBias(gm(bias, asc.float32, column))
    mm.IterateAll(gm(c, asc.float32, row * tiling.n + column))
    mm.End()
