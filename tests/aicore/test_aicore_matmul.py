"""The Matmul object: on cube cores, and asked for by vector cores."""

from dataclasses import replace

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.fixpipe import trans_quant_param
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.cube.mmad import PRODUCTS
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.vector.elementwise import LeakyRelu
from device_model.kernel.findings import KernelError

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


@pytest.mark.one_in(3)
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
    """A large product on one cube core is bound by Mmad, 16 x 16 x 16 fractals a cycle; its 2 MB from HBM take 0.7 of
    that time, and its first tiles come before the first Mmad.
    """
    tiling = multi_core_matmul_tiling(SPEC, 512, 512, 1024, half, cores=1)
    a, b = factors(512, 512, 1024, half)
    result = launch(multiply, a, b, np.zeros((512, 512), single), None, tiling, (of(half), of(half), of(single)),
                    kind=KernelType.AIC_ONLY)  # fmt: skip
    mmads = [each for each in result.programs[0].instructions if each.name == "Mmad"]
    assert sum(each.cycles for each in mmads) == 32 * 32 * 64
    assert mmads[-1].end - mmads[0].start < 1.35 * 32 * 32 * 64


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
        (lambda mm, x: mm.SetQuantVector(x), "it is a GlobalTensor of uint64"),
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


def on_cubes(m, n, k, tiling, spec=SPEC):
    """C of zeros, computed by cube cores alone; hazards are looked for elsewhere."""
    a, b, c = np.zeros((m, k), half), np.zeros((k, n), half), np.zeros((m, n), half)
    kinds = of(half), of(half), of(half)
    return launch(multiply, a, b, c, None, tiling, kinds, blocks=tiling.used_core_num, kind=KernelType.AIC_ONLY,
                  spec=spec, hazards=False)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "n", "k", "l2_gbps", "share"),
    [
        (1536, 2048, 1024, 5200, 0.62),  # copies to L1: 12 x 8 pieces on 24 cores
        (1536, 2048, 1024, 2600, 0.70),  # that of the L2
        (3072, 512, 512, 5200, 0.50),  # short: the first copies, of lines that many want, and the last Fixpipe count
    ],
)
def test_a_large_product_takes_little_more_than_its_bound(m, n, k, l2_gbps, share):
    """Multiply-adds at the peak of all cubes, bytes at the bandwidth of the L2, or bytes of a core at the rate of lines
    that several read, whichever is longest. What comes first from HBM comes slower.
    """
    spec = replace(SPEC, l2_gbps=l2_gbps)
    tiling = multi_core_matmul_tiling(spec, m, n, k, half, cores=24)
    timeline = on_cubes(m, n, k, tiling, spec).timeline
    cube_us = m * n * k / 4096 / 24 / spec.mhz
    pieces_m, pieces_n = m // tiling.base_m, n // tiling.base_n
    l2_us = (pieces_n * m * k + pieces_m * n * k + m * n) * 2 / l2_gbps / 1000
    pieces = pieces_m * pieces_n / tiling.used_core_num
    l1_us = pieces * (tiling.base_m + tiling.base_n) * k * 2 / spec.l1_shared_read_gbps / 1000
    first_copy_us = (spec.soft_init_ns + 1000 * spec.matmul_init / spec.mhz) / 1000
    us = timeline.busy_us["aic_time"] - first_copy_us
    assert share < max(cube_us, l2_us, l1_us) / us < 1
    assert timeline.busy_us["mac"] * tiling.used_core_num == pytest.approx(24 * cube_us, rel=0.03)


def test_parts_end_where_lines_of_the_l2_do():
    """Of 3584 columns on 20 cores a fifth would begin within a line, and each row of B would bring a line more."""
    spec = replace(SPEC, cube_cores=20, l2_gbps=2600)
    tiling = multi_core_matmul_tiling(spec, 8192, 3584, 4096, half, cores=20)
    assert tiling.single_core_n * 2 % 512 == 0
    assert tiling.used_core_num == 20


def test_a_result_leaves_while_the_next_is_computed():
    """L0C holds one result of 128 x 256, and unit flags pass it on; beside vector cores, events do."""
    tiling = multi_core_matmul_tiling(SPEC, 256, 512, 64, half, cores=1, fix_split=(128, 256, 64))
    assert tiling.db_l0c == 1
    (program,) = on_cubes(256, 512, 64, tiling).programs
    mmads = [each for each in program.instructions if each.name == "Mmad"]
    pipes = [each for each in program.instructions if each.name == "Fixpipe"]
    assert len(mmads) == len(pipes) == 4
    for mmad, fix, following in zip(mmads, pipes, [*mmads[1:], None], strict=True):
        assert fix.waits == (mmad,)
        assert mmad.start < fix.start < fix.end
        assert following is None or fix.start < following.start < fix.end
    mixed = run_leaky(256, 512, 64, 1, (128, 256, 64)).programs[0]
    assert {each.waits for each in mixed.instructions if each.name in ("Mmad", "Fixpipe")} == {()}


def test_to_register_a_matmul_takes_the_cube_core_a_while():
    tiling = multi_core_matmul_tiling(SPEC, 64, 64, 64, half, cores=1)
    first, quick = (
        next(each for each in on_cubes(64, 64, 64, tiling, spec).programs[0].instructions if each.pipe is Pipe.MTE2)
        for spec in (SPEC, replace(SPEC, matmul_init=0))
    )
    assert first.start - quick.start == SPEC.matmul_init


QUANTISED = [  # factors, C, a number for each column, transposed B
    (np.dtype(np.int8), half, True, False),
    (np.dtype(np.int8), half, False, True),
    (np.dtype(np.int8), np.dtype(np.int8), True, True),
    (half, np.dtype(np.int8), True, False),
    (half, np.dtype(np.uint8), True, False),
    (half, np.dtype(np.uint8), False, False),
    (bfloat16, np.dtype(np.int8), False, True),
]


@pytest.mark.parametrize("kind", [KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2], ids=str)
@pytest.mark.parametrize(("dtype", "out", "has_words", "b_trans"), QUANTISED)
def test_c_is_scaled_on_its_way_out(dtype, out, has_words, b_trans, kind):
    m, n, k = 100, 130, 64
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, dtype, cores=2, fix_split=(32, 64, 32))
    rng = np.random.default_rng(7)
    a, b = rng.integers(-8, 9, (m, k)).astype(dtype), rng.integers(-8, 9, (k, n)).astype(dtype)
    scales = 2.0 ** rng.integers(-6, 0, n) if has_words else np.full(n, 0.125)
    words = trans_quant_param(scales, is_signed=out != np.uint8)
    c = np.zeros((m, n), out)

    def scaled(a, b, c, words):
        mm = Matmul(of(dtype), of(dtype, is_trans=b_trans), of(out))
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        if GetBlockIdx() < tiling.used_core_num:
            row, column, height, width = tiling.part(GetBlockIdx())
            mm.SetSingleShape(height, width, k)
            mm.SetTensorA(GlobalTensor(dtype).SetGlobalBuffer(a)[row * k])
            mm.SetTensorB(GlobalTensor(dtype).SetGlobalBuffer(b)[column * k if b_trans else column])
            if has_words:
                mm.SetQuantVector(GlobalTensor(np.uint64).SetGlobalBuffer(words)[column])
            else:
                mm.SetQuantScalar(0.125)
            mm.IterateAll(GlobalTensor(out).SetGlobalBuffer(c)[row * n + column])
        mm.End()

    gm = np.ascontiguousarray(b.T) if b_trans else b
    result = launch(scaled, a, gm, c, words, blocks=2 // max(kind.vectors, 1), kind=kind)
    exact = a.astype(np.float64) @ b.astype(np.float64) * scales
    if out.kind in "iu":
        exact = np.clip(np.rint(exact), np.iinfo(out).min, np.iinfo(out).max)
    assert np.array_equal(c.astype(np.float64), exact.astype(out).astype(np.float64))
    assert found(result) == []
    if kind is KernelType.AIC_ONLY and has_words:
        for program in result.programs[: tiling.used_core_num]:
            pipes = [each for each in program.instructions if each.name == "Fixpipe"]
            tables = [each for each in program.instructions if each.pipe is Pipe.MTE1 and each.name == "DataCopy"]
            assert len(tables) < len(pipes)  # once for the pieces that stand below each other


@pytest.mark.parametrize(
    ("dtype", "out", "scale", "message"),
    [
        (half, np.dtype(np.int8), None, "say what to multiply it with: SetQuantScalar() or SetQuantVector()"),
        (np.dtype(np.int8), half, None, "say what to multiply it with"),
        (half, half, 2.0, "a Matmul of float16 to C of float16, scaled"),
        (half, single, 2.0, "a Matmul of float16 to C of float32, scaled"),
    ],
)
def test_c_is_scaled_where_its_type_needs_it(dtype, out, scale, message):
    tiling = multi_core_matmul_tiling(SPEC, 32, 32, 32, dtype, cores=1)

    def kernel(a, b, c):
        mm = Matmul(of(dtype), of(dtype), of(out))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        if scale:
            mm.SetQuantScalar(scale)
        mm.SetTensorA(GlobalTensor(dtype).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(dtype).SetGlobalBuffer(b))
        mm.IterateAll(GlobalTensor(out).SetGlobalBuffer(c))

    with pytest.raises(KernelError) as refused:
        launch(kernel, *(np.zeros(1024, kind) for kind in (dtype, dtype, out)), kind=KernelType.AIC_ONLY)
    assert message in str(refused.value)


@pytest.mark.parametrize("kind", [KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2], ids=str)
@pytest.mark.parametrize(
    ("en_atomic", "combined"), [(0, lambda old, new: new), (1, np.add), (2, np.maximum), (3, np.minimum)],
    ids=["overwrites", "adds", "keeps the larger", "keeps the smaller"],
)  # fmt: skip
def test_c_is_combined_with_what_is_in_gm(en_atomic, combined, kind):
    tiling = multi_core_matmul_tiling(SPEC, 32, 48, 64, half, cores=1, fix_split=(16, 16, 32))
    a, b = factors(32, 48, 64, half)
    before = np.random.default_rng(1).normal(0, 9, (32, 48)).astype(single)
    pieces, whole = before.copy(), before.copy()

    def kernel(a, b, pieces, whole, tiling):
        mm = Matmul(of(half), of(half), of(single))
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
        if GetBlockIdx() == 0:
            mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(whole), en_atomic)
            while mm.Iterate():
                mm.GetTensorC(GlobalTensor(single).SetGlobalBuffer(pieces), en_atomic)
        mm.End()

    result = launch(kernel, a, b, pieces, whole, tiling, kind=kind)
    expected = combined(before, a.astype(single) @ b.astype(single))
    assert np.allclose(pieces, expected, rtol=1e-4, atol=1e-4)
    assert np.allclose(whole, expected, rtol=1e-4, atol=1e-4)
    assert found(result) == []


def test_a_number_of_no_atomic_is_refused():
    tiling = multi_core_matmul_tiling(SPEC, 16, 16, 16, half, cores=1)
    a, b = factors(16, 16, 16, half)

    def kernel(a, b, c, tiling):
        mm = Matmul(of(half), of(half), of(single))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
        mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(c), 4)

    with pytest.raises(KernelError, match=r"en_atomic 4; 0 overwrites, 1 adds, 2 keeps the larger and 3 the smaller"):
        launch(kernel, a, b, np.zeros((16, 16), single), tiling, kind=KernelType.AIC_ONLY)


@pytest.mark.parametrize("kind", [KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2], ids=str)
@pytest.mark.parametrize("batches", [(3, 3), (3, 1), (1, 3), (1, 1)], ids=str)
def test_a_batch_of_products_is_one_request(batches, kind):
    m, n, k, total = 32, 48, 64, max(batches)
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, half, cores=1, is_bias=True, fix_split=(16, 16, 32))
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(batches[0], m, k)).astype(half), rng.normal(size=(batches[1], k, n)).astype(half)
    bias, c = rng.normal(size=(total, n)).astype(single), np.ones((total, m, n), single)

    def kernel(a, b, bias, c, tiling):
        mm = Matmul(of(half), of(half), of(single), of(single))
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        if GetBlockIdx() == 0:
            mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
            mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
            mm.SetBias(GlobalTensor(single).SetGlobalBuffer(bias))
            mm.SetBatchNum(*batches)
            mm.IterateBatch(GlobalTensor(single).SetGlobalBuffer(c), en_atomic=1, sync=False)
            mm.WaitIterateBatch()
        mm.End()

    result = launch(kernel, a, b, bias, c, tiling, kind=kind)
    expected = 1 + a.astype(single) @ b.astype(single) + bias[:, None]
    assert np.allclose(c, expected, rtol=1e-4, atol=1e-4)
    assert found(result) == []
    if kind is KernelType.MIX_AIC_1_2:
        asked = [each for each in result.programs[1].instructions if each.name.startswith("CrossCoreSetFlag")]
        assert len(asked) == 2  # for the batch, and for the end


def test_a_batch_of_other_numbers_is_refused():
    tiling = multi_core_matmul_tiling(SPEC, 16, 16, 16, half, cores=1)

    def kernel(tiling, *batches):
        mm = Matmul(of(half), of(half), of(single))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        mm.SetBatchNum(*batches)

    with pytest.raises(KernelError, match=r"a batch of 3 A and 2 B; as many of both, or one of one of them"):
        launch(kernel, tiling, 3, 2, kind=KernelType.AIC_ONLY)
    with pytest.raises(KernelError, match=r"a batch of 0 A and 1 B"):
        launch(kernel, tiling, 0, 1, kind=KernelType.AIC_ONLY)
    with pytest.raises(TypeError, match=r"SetBatchNum: batch_a must be an int, not 1.5: divide with //"):
        launch(kernel, tiling, 1.5, 1, kind=KernelType.AIC_ONLY)
