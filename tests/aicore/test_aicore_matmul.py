"""The Matmul object: on cube cores, and asked for by vector cores."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.blocks import GetBlockIdx
from device_model.aicore.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.cube import PRODUCTS
from device_model.aicore.findings import KernelError
from device_model.aicore.matmul import REGIST_MATMUL_OBJ, CubeFormat, Matmul, MatmulType
from device_model.aicore.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.names import KernelType, Pipe, TPosition
from device_model.aicore.queues import TPipe, TQue
from device_model.aicore.tensors import GlobalTensor
from device_model.aicore.vector import LeakyRelu

GM = TPosition.GM


def of(dtype, position=GM, is_trans=False):
    return MatmulType(position, CubeFormat.ND, dtype, is_trans)


def multiply(a, b, c, bias, tiling, kinds):
    """Each core its part of C, all at once."""
    total = np.dtype(PRODUCTS[np.dtype(kinds[0].dtype).name])
    pipe = TPipe()
    mm = Matmul(*kinds, of(total) if tiling.is_bias else None)
    if REGIST_MATMUL_OBJ(pipe, None, mm, tiling):
        return
    if GetBlockIdx() < tiling.used_core_num:
        row, column, m, n = tiling.part(GetBlockIdx())
        left, right, out = (
            GlobalTensor(kind.dtype).SetGlobalBuffer(gm) for kind, gm in zip(kinds, (a, b, c), strict=True)
        )
        mm.SetSingleShape(m, n, tiling.single_core_k)
        mm.SetTensorA(left[row if kinds[0].is_trans else row * tiling.ka])
        mm.SetTensorB(right[column * tiling.kb if kinds[1].is_trans else column])
        if tiling.is_bias:
            mm.SetBias(GlobalTensor(total).SetGlobalBuffer(bias)[column])
        mm.IterateAll(out[row * tiling.n + column])
    mm.End()


def factors(m, n, k, dtype):
    rng = np.random.default_rng(m * n * k)
    if dtype == np.int8:
        return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


CASES = [  # dtype, C, A transposed, B transposed, bias, kind, blocks, base
    (half, single, False, False, True, KernelType.AIC_ONLY, 2, None),
    (half, half, False, True, False, KernelType.AIC_ONLY, 1, (32, 32, 64)),
    (half, single, True, False, True, KernelType.AIC_ONLY, 2, (48, 32, 64)),
    (half, single, True, True, False, KernelType.MIX_AIC_1_1, 2, (32, 48, 32)),
    (bfloat16, bfloat16, False, False, True, KernelType.MIX_AIC_1_2, 1, (32, 32, 64)),
    (single, single, False, False, True, KernelType.AIC_ONLY, 3, (32, 32, 64)),
    (single, single, False, True, True, KernelType.MIX_AIC_1_2, 2, (32, 32, 64)),
    (np.dtype(np.int8), np.dtype(np.int32), False, False, True, KernelType.AIC_ONLY, 2, (32, 32, 64)),
    (np.dtype(np.int8), np.dtype(np.int32), False, True, False, KernelType.MIX_AIC_1_2, 1, (16, 64, 32)),
]


@pytest.mark.parametrize("shape", [(100, 130, 300), (16, 32, 32), (31, 75, 70)], ids=str)
@pytest.mark.parametrize(("dtype", "out", "a_trans", "b_trans", "has_bias", "kind", "blocks", "base"), CASES)
def test_a_product_over_cores_equals_numpy(shape, dtype, out, a_trans, b_trans, has_bias, kind, blocks, base):
    m, n, k = shape
    cores = blocks * max(kind.vectors, 1)
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, dtype, cores=cores, is_bias=has_bias, fix_split=base)
    a, b = factors(m, n, k, dtype)
    bias = np.arange(n).astype(PRODUCTS[dtype.name])
    c = np.zeros((m, n), out)
    kinds = of(dtype, is_trans=a_trans), of(dtype, is_trans=b_trans), of(out)
    gm = [np.ascontiguousarray(x.T) if trans else x for x, trans in ((a, a_trans), (b, b_trans))]
    result = launch(multiply, *gm, c, bias, tiling, kinds, blocks=blocks, kind=kind)
    expected = a.astype(np.float64) @ b.astype(np.float64) + (bias if has_bias else 0)
    tolerance = {4: 1e-5, 2: 1e-3 if out == half else 8e-3}[out.itemsize] if dtype != np.int8 else 0
    assert np.allclose(c.astype(np.float64), expected, rtol=tolerance, atol=tolerance * 20)
    assert found(result) == []


def leaky(a, b, c, workspace, tiling):
    """C = LeakyRelu(A * B): pieces come to UB one after the other."""
    pipe = TPipe()
    mm = Matmul(of(half), of(half), of(single, TPosition.VECIN))
    if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
        return
    queue = TQue(TPosition.VECOUT, 1)
    size = tiling.base_m * tiling.base_n * 4
    pipe.InitBuffer(queue, 2 if 2 * size <= SPEC.ub_bytes else 1, size)
    if GetBlockIdx() < tiling.used_core_num:
        row, column, m, n = tiling.part(GetBlockIdx())
        mm.SetSingleShape(m, n, tiling.ka)
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a)[row * tiling.ka])
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b)[column])
        out = GlobalTensor(single).SetGlobalBuffer(c)[row * tiling.n + column :]
        down = -(-m // tiling.base_m)
        piece = 0
        while mm.Iterate():
            tile = queue.AllocTensor(single)
            mm.GetTensorC(tile)
            LeakyRelu(tile, tile, 0.001, tiling.base_m * tiling.base_n)
            queue.EnQue(tile)
            tile = queue.DeQue(single)
            top, left = piece % down * tiling.base_m, piece // down * tiling.base_n
            rows, width = min(tiling.base_m, m - top), min(tiling.base_n, n - left)
            gap = (tiling.base_n * 4 - -(-width * 4 // 32) * 32) // 32
            params = DataCopyExtParams(rows, width * 4, gap, (tiling.n - width) * 4)
            DataCopyPad(out[top * tiling.n + left :], tile, params)
            queue.FreeTensor(tile)
            piece += 1
    mm.End()


def run_leaky(m, n, k, blocks, base, kind=KernelType.MIX_AIC_1_2):
    cores = blocks * kind.vectors
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, half, cores=cores, fix_split=base)
    a, b = factors(m, n, k, half)
    c = np.zeros((m, n), single)
    workspace = np.zeros(tiling.workspace_bytes(cores), np.uint8)
    result = launch(leaky, a, b, c, workspace, tiling, blocks=blocks, kind=kind)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(c, np.where(expected >= 0, expected, expected * 0.001), rtol=1e-5, atol=1e-4)
    return result


@pytest.mark.parametrize(
    ("m", "n", "k", "blocks", "base", "kind"),
    [
        (512, 128, 128, 1, (128, 64, 128), KernelType.MIX_AIC_1_2),
        (100, 64, 128, 1, (16, 32, 64), KernelType.MIX_AIC_1_2),  # the second vector core has fewer pieces
        (48, 40, 70, 2, (16, 32, 32), KernelType.MIX_AIC_1_2),
        (16, 32, 32, 1, (16, 32, 32), KernelType.MIX_AIC_1_2),
        (512, 256, 64, 1, (128, 256, 64), KernelType.MIX_AIC_1_2),  # L0C holds one result
        (48, 40, 70, 1, (16, 32, 32), KernelType.MIX_AIC_1_1),
    ],
)
def test_vector_cores_work_on_what_the_cube_computes(m, n, k, blocks, base, kind):
    assert found(run_leaky(m, n, k, blocks, base, kind)) == []


def test_the_cube_computes_the_next_piece_before_it_is_asked_for():
    result = run_leaky(512, 128, 128, 1, (64, 64, 64))
    cube, *vectors = result.programs
    mmads = [each for each in cube.instructions if each.pipe is Pipe.M and each.name == "Mmad"]
    relus = [each for vector in vectors for each in vector.instructions if each.name == "LeakyRelu"]
    # Two pieces of two products each, then the next two pieces.
    assert mmads[4].start < min(each.start for each in relus)


def test_double_buffers_keep_the_cube_busy():
    """A large product on one cube core is bound by Mmad: 16 x 16 x 16 fractals a cycle."""
    tiling = multi_core_matmul_tiling(SPEC, 512, 512, 1024, half, cores=1)
    a, b = factors(512, 512, 1024, half)
    result = launch(multiply, a, b, np.zeros((512, 512), single), None, tiling, (of(half), of(half), of(single)),
                    kind=KernelType.AIC_ONLY)  # fmt: skip
    mmads = [each for each in result.programs[0].instructions if each.name == "Mmad"]
    assert sum(each.cycles for each in mmads) == 32 * 32 * 64
    assert mmads[-1].end - mmads[0].start < 1.25 * 32 * 32 * 64


def test_tilings_fit_the_core_and_cover_the_product():
    for m, n, k, cores in [(1, 1, 1, 24), (8192, 8192, 8192, 24), (100, 5000, 77, 20), (16, 16, 100_000, 3)]:
        for dtype in (half, single, np.dtype(np.int8)):
            tiling = multi_core_matmul_tiling(SPEC, m, n, k, dtype, cores=cores)
            assert tiling.used_core_num <= cores
            parts = [tiling.part(core) for core in range(tiling.used_core_num)]
            assert sum(rows * columns for _, _, rows, columns in parts) == m * n
            a, b = (size * tiling.base_k * dtype.itemsize for size in (tiling.base_m, tiling.base_n))
            assert a * tiling.depth_a1 + b * tiling.depth_b1 <= SPEC.l1_bytes
            assert a * tiling.db_l0a <= SPEC.l0a_bytes
            assert b * tiling.db_l0b <= SPEC.l0b_bytes
            assert tiling.base_m * tiling.base_n * 4 * tiling.db_l0c <= SPEC.l0c_bytes


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda mm, x: mm.Iterate(), "call SetTensorA() and SetTensorB() first"),
        (lambda mm, x: mm.GetTensorC(x), "call Iterate() first"),
        (lambda mm, x: mm.SetBias(x), "SetBias on a Matmul without bias"),
        (lambda mm, x: mm.SetTensorA(x, is_transpose=True), "is_trans=True"),
        (lambda mm, x: mm.SetSingleShape(64, 32, 32), "each is 1 to that of the tiling"),
    ],
)
def test_misuse_is_refused(wrong, message):
    tiling = multi_core_matmul_tiling(SPEC, 32, 32, 32, half, cores=1)

    def kernel(x):
        mm = Matmul(of(half), of(half), of(single))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        wrong(mm, GlobalTensor(half).SetGlobalBuffer(x))

    with pytest.raises(KernelError) as refused:
        launch(kernel, np.zeros(1024, half), kind=KernelType.AIC_ONLY)
    assert message in str(refused.value)
