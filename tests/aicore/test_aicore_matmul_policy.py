"""The policy of a Matmul: which pieces of C it computes."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import after, half, single

from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_cube import MatmulPolicy
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.vector.fill import Duplicate


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
@pytest.mark.parametrize("policy", list(MatmulPolicy), ids=lambda policy: policy.name)
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
