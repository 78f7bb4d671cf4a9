"""Products with a B of which two in four numbers are 0."""

import numpy as np
import pytest
from cores import SPEC, found
from instructions import after, half, on_core

from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int8, int32, uint8
from device_model.aicore.cube.fixpipe import Fixpipe, FixpipeParams
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.cube.mmad import Mmad, MmadParams
from device_model.aicore.cube.sparse import LoadDataWithSparse, MmadWithSparse
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, Nd2NzParams
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY


def sparse(rng, n, k):
    """B transposed, with at most two numbers in four; the same without the others, and their indices."""
    b, dense, index = np.zeros((n, k), np.int8), np.zeros((n, k // 2), np.int8), np.zeros((n, k // 2), np.uint8)
    for row in range(n):
        for four in range(k // 4):
            places = sorted(rng.permutation(4)[: rng.integers(0, 3)])
            # A number on its own is the first of the pair, unless it is the last of the four.
            pair = (
                [*places, None]
                if len(places) == 1 and places[0] < 3
                else [None, *places]
                if len(places) == 1
                else places
            )
            for each, place in enumerate(pair):
                if place is not None:
                    number = rng.integers(1, 100)
                    b[row, four * 4 + place] = dense[row, four * 2 + each] = number
                    index[row, four * 2 + each] = place - each
    return b, dense, index


def in_zn(x, width):
    """Columns of B as fractals of 16 columns, *width* elements long, in the order of L0B."""
    n, k = x.shape
    return np.ascontiguousarray(x.reshape(n // 16, 16, k // width, width).transpose(2, 0, 1, 3))


def packed(index):
    pairs = index.reshape(index.shape[0], -1, 4)
    return (pairs[..., 0] | pairs[..., 1] << 2 | pairs[..., 2] << 4 | pairs[..., 3] << 6).astype(np.uint8)


def product(a, b, idx, c, m, n, k, rounds):
    a1 = LocalTensor(int8, TPosition.A1, 0, m * k)
    b1 = LocalTensor(int8, TPosition.B1, 0x20000, n * k // 2)
    i1 = LocalTensor(uint8, TPosition.B1, 0x40000, n * k // 8)
    a2, b2 = LocalTensor(int8, TPosition.A2, 0, m * k), LocalTensor(int8, TPosition.B2, 0x1000, n * k // 2)
    c1 = LocalTensor(int32, TPosition.CO1, 0, m * n)
    DataCopy(a1, GlobalTensor(int8).SetGlobalBuffer(a), Nd2NzParams(1, m, k, 0, k, m, 1, 0))
    DataCopy(b1, GlobalTensor(int8).SetGlobalBuffer(b), n * k // 2)
    DataCopy(i1, GlobalTensor(uint8).SetGlobalBuffer(idx), n * k // 8)
    after(HardEvent.MTE2_MTE1)
    for row in range(m // 16):
        LoadData(a2[row * 16 * k :], a1, LoadData2DParams(row, k // 32, m // 16))
    LoadDataWithSparse(b2, b1, i1, LoadData2DParams(0, n * k // 1024))
    after(HardEvent.MTE1_M)
    for each in range(rounds):
        MmadWithSparse(c1, a2, b2, MmadParams(m, n, k, each == 0))
    after(HardEvent.M_FIX)
    Fixpipe(GlobalTensor(int32).SetGlobalBuffer(c), c1, FixpipeParams(n, m))


@pytest.mark.parametrize(("m", "n", "k", "rounds"), [(16, 32, 128, 1), (32, 48, 192, 2)])
def test_a_product_with_half_a_matrix_equals_numpy(m, n, k, rounds):
    rng = np.random.default_rng(3)
    a = rng.integers(-128, 128, (m, k), np.int8)
    b, dense, index = sparse(rng, n, k)
    c = np.zeros((m, n), np.int32)
    result = on_core(product, a, in_zn(dense, 32), in_zn(packed(index), 8), c, m, n, k, rounds, kind=AIC)
    assert np.array_equal(c, rounds * (a.astype(int) @ b.T.astype(int)))
    assert found(result) == []
    cycles = [each.cycles for each in result.programs[0].instructions if each.name == "MmadWithSparse"]
    assert cycles == [m // 16 * n // 16 * k // 64] * rounds


def test_what_a_product_with_half_a_matrix_cannot_be_is_refused():
    def tensors(dtype=int8):
        return (
            LocalTensor(int32, TPosition.CO1, 0, 256),
            LocalTensor(dtype, TPosition.A2, 0, 1024),
            LocalTensor(int8, TPosition.B2, 0, 512),
        )

    b1, i1 = (lambda: LocalTensor(int8, TPosition.B1, 0, 1024)), (lambda: LocalTensor(uint8, TPosition.B1, 0x1000, 128))
    for wrong, message in (
        (lambda: MmadWithSparse(*tensors(), MmadParams(16, 16, 62)), "k a multiple of 4"),
        (lambda: MmadWithSparse(*tensors(half), MmadParams(16, 16, 64)), "fm is .* of int8 in L0A"),
        (lambda: MmadWithSparse(*tensors(), MmadParams(16, 32, 64)), "filter has 512 bytes; it needs 1024"),
        (lambda: MmadWithSparse(*tensors(), MmadParams(16, 16, 64)), r"an index is 3; .*LoadDataWithSparse\(\)"),
        (lambda: LoadDataWithSparse(tensors()[2], b1(), b1(), LoadData2DParams()), "idx is .* of uint8 in L1"),
        (lambda: LoadDataWithSparse(tensors()[2], b1(), i1(), LoadData2DParams(1)), "idx has 128 bytes; it needs 256"),
        (
            lambda: LoadDataWithSparse(tensors()[2], b1(), i1(), LoadData2DParams(0, 1, 1, 0, True)),
            "nothing is transposed",
        ),
        (lambda: Mmad(*tensors()[:2], b1(), MmadParams(16, 16, 64)), "Mmad from"),
    ):
        with pytest.raises(KernelError, match=message):
            on_core(wrong, kind=AIC)


@pytest.mark.parametrize(("m", "n", "k", "base"), [(32, 64, 256, (16, 32, 64)), (40, 48, 128, (48, 48, 128))])
def test_a_matmul_with_a_sparse_b_equals_numpy(m, n, k, base):
    rng = np.random.default_rng(5)
    a = rng.integers(-128, 128, (m, k), np.int8)
    b, dense, index = sparse(rng, n, k)
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, int8, cores=1, fix_split=base)
    c = np.zeros((m, n), np.int32)

    def kernel(a, b, idx, c):
        nd, gm = CubeFormat.ND, TPosition.GM
        mm = Matmul(MatmulType(gm, nd, int8), MatmulType(gm, nd, int8, True), MatmulType(gm, nd, int32))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        mm.SetTensorA(GlobalTensor(int8).SetGlobalBuffer(a))
        mm.SetSparseIndex(GlobalTensor(uint8).SetGlobalBuffer(idx))
        mm.SetTensorB(GlobalTensor(int8).SetGlobalBuffer(b), True)
        mm.IterateAll(GlobalTensor(int32).SetGlobalBuffer(c))
        mm.End()

    result = on_core(kernel, a, dense, in_zn(packed(index), 8), c, kind=AIC)
    assert np.array_equal(c, a.astype(int) @ b.T.astype(int))
    assert found(result) == []
    assert sum(each.cycles for each in result.programs[0].instructions if each.name == "MmadWithSparse") == (
        -(-m // 16) * n // 16 * k // 64
    )


@pytest.mark.parametrize("wrong", ["float", "not transposed", "mixed"])
def test_a_matmul_that_cannot_have_a_sparse_b_is_refused(wrong):
    dtype = half if wrong == "float" else int8

    def kernel(gm):
        kinds = [MatmulType(TPosition.GM, CubeFormat.ND, each) for each in (dtype, dtype, int32)]
        kinds[1] = MatmulType(TPosition.GM, CubeFormat.ND, dtype, wrong != "not transposed")
        mm = Matmul(*kinds)
        tiling = multi_core_matmul_tiling(SPEC, 16, 32, 64, dtype, cores=1)
        if not REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            mm.SetSparseIndex(GlobalTensor(uint8).SetGlobalBuffer(gm))

    kind = KernelType.MIX_AIC_1_2 if wrong == "mixed" else AIC
    with pytest.raises(KernelError, match=r"SetSparseIndex on .*; A and B are int8, B is ND in GM and transposed"):
        on_core(kernel, np.zeros(64, np.uint8), kind=kind)


def test_a_batch_of_sparse_b_is_refused():
    def kernel(a, b, idx, c):
        nd, gm = CubeFormat.ND, TPosition.GM
        mm = Matmul(MatmulType(gm, nd, int8), MatmulType(gm, nd, int8, True), MatmulType(gm, nd, int32))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, multi_core_matmul_tiling(SPEC, 16, 32, 64, int8, cores=1))
        mm.SetTensorA(GlobalTensor(int8).SetGlobalBuffer(a))
        mm.SetSparseIndex(GlobalTensor(uint8).SetGlobalBuffer(idx))
        mm.SetTensorB(GlobalTensor(int8).SetGlobalBuffer(b), True)
        mm.IterateBatch(GlobalTensor(int32).SetGlobalBuffer(c), 2, 2)

    arrays = np.zeros((2, 16, 64), np.int8), np.zeros((2, 32, 32), np.int8), np.zeros((2, 256), np.uint8)
    with pytest.raises(KernelError, match=r"IterateBatch with a sparse B; .*IterateAll\(\) for each"):
        on_core(kernel, *arrays, np.zeros((2, 16, 32), np.int32), kind=AIC)
