"""The policy of a Matmul: which pieces of C it computes."""

from dataclasses import replace

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import after, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import MatmulPolicy, multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.vector.fill import Duplicate
from device_model.kernel.findings import KernelError


def of(dtype, position=TPosition.GM):
    return MatmulType(position, CubeFormat.ND, dtype)


def of_triangle(a, b, c, workspace, tiling, policy, position):
    """All pieces of C at once, or each through UB, in which a piece that is left out keeps what was there."""
    pipe = TPipe()
    mm = Matmul(of(half), of(half), of(single, position), policy=policy)
    if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
        return
    mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
    mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
    out = GlobalTensor(single).SetGlobalBuffer(c)
    if position is TPosition.GM:
        mm.IterateAll(out)
        mm.End()
        return
    room = TBuf(TPosition.VECCALC)
    pipe.InitBuffer(room, tiling.base_m * tiling.base_n * 4)
    tile = room.Get(single)
    down = tiling.m // tiling.base_m
    piece = 0
    while mm.Iterate():
        Duplicate(tile, 7, tile.size)
        mm.GetTensorC(tile)
        column, row = divmod(piece, down)
        after(HardEvent.V_MTE3)
        to = out[row * tiling.base_m * tiling.n + column * tiling.base_n :]
        gap = (tiling.n - tiling.base_n) * 4
        DataCopyPad(to, tile, DataCopyExtParams(tiling.base_m, tiling.base_n * 4, 0, gap))
        after(HardEvent.MTE3_V)
        piece += 1
    mm.End()


@pytest.mark.parametrize("position", [TPosition.GM, TPosition.VECIN], ids=str)
@pytest.mark.parametrize("policy", list(MatmulPolicy)[:3], ids=lambda policy: policy.name)
def test_a_policy_leaves_out_the_pieces_below_or_above_the_diagonal(policy, position):
    """Of 4 x 3 pieces of 16 x 32; the others stay as they were."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-3, 4, (64, 32)).astype(half), rng.integers(-3, 4, (32, 96)).astype(half)
    tiling = multi_core_matmul_tiling(SPEC, 64, 96, 32, half, cores=1, fix_split=(16, 32, 32))
    c = np.full((64, 96), 7, single)
    row, column = np.indices(c.shape) // np.array([16, 32])[:, None, None]
    left = {"NORMAL": row < 0, "TRIAN_UPPER": row > column, "TRIAN_LOWER": row < column}[policy.name]
    kind = KernelType.AIC_ONLY if position is TPosition.GM else KernelType.MIX_AIC_1_1
    workspace = np.zeros(tiling.workspace_bytes(1), np.uint8)
    result = launch(of_triangle, a, b, c, workspace, tiling, policy, position, kind=kind)
    assert np.array_equal(c, np.where(left, 7, a.astype(single) @ b.astype(single)))
    assert found(result) == []
    mmads = [each for each in result.programs[0].instructions if each.name == "Mmad"]
    assert len(mmads) == (~left).sum() // (16 * 32)


def test_a_policy_is_one_of_them():
    with pytest.raises(ValueError, match="'upper' is not a valid MatmulPolicy"):
        Matmul(of(half), of(half), of(single), policy="upper")


@pytest.mark.parametrize("policy", [MatmulPolicy.NORMAL, MatmulPolicy.TRIAN_LOWER], ids=lambda policy: policy.name)
def test_a_piece_in_l0c_that_is_left_out_is_not_computed(policy):
    def kernel(a, b):
        pipe = TPipe()
        mm = Matmul(of(half), of(half), MatmulType(TPosition.CO1, CubeFormat.NZ, single), policy=policy)
        REGIST_MATMUL_OBJ(pipe, None, mm, tiling)
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
        while mm.Iterate(False, LocalTensor(single, TPosition.CO1, 0, 256)):
            after(HardEvent.M_FIX)
            after(HardEvent.FIX_M)
        mm.End()

    tiling = multi_core_matmul_tiling(SPEC, 32, 32, 16, half, cores=1, fix_split=(16, 16, 16))
    result = launch(kernel, np.zeros((32, 16), half), np.zeros((16, 32), half), kind=KernelType.AIC_ONLY)
    mmads = [each for each in result.programs[0].instructions if each.name == "Mmad"]
    assert len(mmads) == (4 if policy is MatmulPolicy.NORMAL else 3)


def n_buffered(a, b, bias, c, tiling):
    """A part of C for each core, with A of the core in L1."""
    mm = Matmul(of(half), of(half), of(single), of(single), policy=MatmulPolicy.N_BUFFER_33)
    REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
    row, column, m, n = tiling.part(GetBlockIdx())
    mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a)[row * tiling.ka :])
    mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b)[column:])
    mm.SetBias(GlobalTensor(single).SetGlobalBuffer(bias)[column:])
    mm.SetTail(m, n)
    mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(c)[row * tiling.n + column :])
    mm.End()


def test_a_stays_in_l1_while_b_goes_by():
    m, n, k, cores = 144, 320, 96, 2
    rng = np.random.default_rng(6)
    a, b = rng.integers(-3, 4, (m, k)).astype(half), rng.integers(-3, 4, (k, n)).astype(half)
    bias, c = rng.integers(-3, 4, n).astype(single), np.zeros((m, n), single)
    tiling = multi_core_matmul_tiling(
        SPEC, m, n, k, half, cores=cores, is_bias=True, fix_split=(32, 32, 32), policy=MatmulPolicy.N_BUFFER_33
    )
    assert (tiling.step_m, tiling.step_ka, tiling.depth_a1, tiling.depth_b1) == (3, 3, 9, 6)
    result = launch(n_buffered, a, b, bias, c, tiling, blocks=tiling.used_core_num, kind=KernelType.AIC_ONLY)
    assert np.array_equal(c, a.astype(single) @ b.astype(single) + bias)
    assert found(result) == []
    copies = [each for each in result.programs[0].instructions if each.name == "DataCopy" and each.pipe is Pipe.MTE2]
    columns = -(-tiling.single_core_n // 32)
    assert len(copies) == 3 + columns  # each row of pieces of A once, and each column of pieces of B once


TALL = {"base_m": 256, "single_core_m": 768, "base_n": 64, "base_k": 128, "single_core_k": 384}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"single_core_m": 256}, KernelType.AIC_ONLY, "A of a core is 3 x 3 pieces at most, not 4 x 3"),
        ({"step_kb": 1}, KernelType.AIC_ONLY, "step_kb must be 3, not 1"),
        (TALL, KernelType.AIC_ONLY, "its pieces take 688128 bytes of L1, and there are 524288"),
        ({}, KernelType.MIX_AIC_1_1, "the kernel has vector cores: launch it as AIC_ONLY"),
    ],
)
def test_a_product_that_cannot_keep_a_is_refused(change, kind, message):
    tiling = multi_core_matmul_tiling(
        SPEC, 192, 256, 192, half, cores=1, fix_split=(64, 256, 64), policy=MatmulPolicy.N_BUFFER_33
    )

    def kernel(tiling):
        mm = Matmul(of(half), of(half), of(single), policy=MatmulPolicy.N_BUFFER_33)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, replace(tiling, **change))

    with pytest.raises(KernelError, match=message):
        launch(kernel, tiling, kind=kind)


def test_pieces_are_not_taken_one_by_one_where_a_stays_in_l1():
    tiling = multi_core_matmul_tiling(SPEC, 64, 64, 64, half, cores=1, policy=MatmulPolicy.N_BUFFER_33)

    def kernel(a, tiling):
        mm = Matmul(of(half), of(half), of(single), policy=MatmulPolicy.N_BUFFER_33)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        for give in (mm.SetTensorA, mm.SetTensorB):
            give(GlobalTensor(half).SetGlobalBuffer(a))
        mm.Iterate()

    with pytest.raises(KernelError, match=r"Iterate with MatmulPolicy\.N_BUFFER_33; .* call IterateAll\(\)"):
        launch(kernel, np.zeros((64, 64), half), tiling, kind=KernelType.AIC_ONLY)
    with pytest.raises(KernelError, match=r"a product of 64 x 4096 x 64 on 1 cores with .*; A of a core is 3 x 3"):
        multi_core_matmul_tiling(SPEC, 64, 64, 4096, half, cores=1, policy=MatmulPolicy.N_BUFFER_33)
