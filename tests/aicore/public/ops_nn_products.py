"""Kernels after folders of ops-nn that multiply matrices."""

from dataclasses import replace

import numpy as np

from acl_py import asc
from public.asc_devkit_products import CUBE, HALF, SPEC, factors
from public.cases import Data, follows, gm

FLOAT = np.float32


def _split_k_data(rng):
    a, b, c = factors(rng, 64, 96, 256)
    tiling = asc.multi_core_matmul_tiling(SPEC, 32, 48, 64, HALF, cores=1, fix_split=(32, 48, 64))
    return Data({"a": a, "b": b, "c": np.zeros((64, 96), FLOAT), "k": 256, "tiling": tiling}, {"c": c})


@follows("ops-nn/matmul/mat_mul_v3/op_kernel", _split_k_data, blocks=2, tolerance=1e-3)
@asc.kernel(kind=CUBE)
def mat_mul_sc_split_k(a: asc.In, b: asc.In, c: asc.InOut, k: int, tiling: asc.TCubeTiling):
    """One core walks along k with two parts of B in L1 in turn, and adds each product to GM from its own L0C."""
    m0, n0, k0, n = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k, 96
    pipe = asc.TPipe()
    l1, l0c = asc.TBuf(asc.TPosition.A1), asc.TBuf(asc.TPosition.CO1)
    pipe.InitBuffer(l1, (m0 * k0 + 2 * k0 * n0) * 2)
    pipe.InitBuffer(l0c, 2 * m0 * n0 * 4)
    part_a, parts_b = l1.Get(asc.half)[: m0 * k0], l1.Get(asc.half)[m0 * k0 :]
    result = l0c.Get(asc.float32)
    fractals = asc.CubeFormat.NZ
    kinds = [asc.MatmulType(place, fractals, asc.half) for place in (asc.TPosition.A1, asc.TPosition.B1)]
    mm = asc.Matmul(*kinds, asc.MatmulType(asc.TPosition.CO1, fractals, asc.float32))
    asc.REGIST_MATMUL_OBJ(pipe, None, mm, tiling)
    top = asc.GetBlockIdx() * m0
    loaded_a, used_a = pipe.AllocEventID(asc.HardEvent.MTE2_MTE1), pipe.AllocEventID(asc.HardEvent.MTE1_MTE2)
    loaded = [pipe.AllocEventID(asc.HardEvent.MTE2_MTE1) for _ in range(2)]
    used = [pipe.AllocEventID(asc.HardEvent.MTE1_MTE2) for _ in range(2)]
    done = [pipe.AllocEventID(asc.HardEvent.M_FIX) for _ in range(2)]
    stored = [pipe.AllocEventID(asc.HardEvent.FIX_M) for _ in range(2)]
    asc.SetFlag(asc.HardEvent.MTE1_MTE2, used_a)
    for turn in range(2):
        asc.SetFlag(asc.HardEvent.MTE1_MTE2, used[turn])
        asc.SetFlag(asc.HardEvent.FIX_M, stored[turn])
    asc.SetAtomicAdd(asc.float32)
    turn = 0
    for first in range(0, k, k0):
        asc.WaitFlag(asc.HardEvent.MTE1_MTE2, used_a)
        asc.DataCopy(part_a, gm(a, asc.half, top * k + first), asc.Nd2NzParams(1, m0, k0, 0, k, m0, 1, 0))
        asc.SetFlag(asc.HardEvent.MTE2_MTE1, loaded_a)
        for left in range(0, n, n0):
            part_b = parts_b[turn * k0 * n0 : (turn + 1) * k0 * n0]
            asc.WaitFlag(asc.HardEvent.MTE1_MTE2, used[turn])
            asc.DataCopy(part_b, gm(b, asc.half, first * n + left), asc.Nd2NzParams(1, k0, n0, 0, n, k0, 1, 0))
            asc.SetFlag(asc.HardEvent.MTE2_MTE1, loaded[turn])
            mm.SetSingleShape(m0, n0, k0)
            mm.SetTensorA(part_a, False)
            mm.SetTensorB(part_b, False)
            if left == 0:
                asc.WaitFlag(asc.HardEvent.MTE2_MTE1, loaded_a)
            asc.WaitFlag(asc.HardEvent.MTE2_MTE1, loaded[turn])
            asc.WaitFlag(asc.HardEvent.FIX_M, stored[turn])
            piece = result[turn * m0 * n0 : (turn + 1) * m0 * n0]
            mm.Iterate(False, piece)
            asc.SetFlag(asc.HardEvent.M_FIX, done[turn])
            asc.WaitFlag(asc.HardEvent.M_FIX, done[turn])
            asc.Fixpipe(gm(c, asc.float32, top * n + left), piece, asc.FixpipeParams(n0, m0, m0, n))
            asc.SetFlag(asc.HardEvent.FIX_M, stored[turn])
            mm.ClearBias()
            mm.End()
            asc.SetFlag(asc.HardEvent.MTE1_MTE2, used[turn])
            turn = 1 - turn
        asc.SetFlag(asc.HardEvent.MTE1_MTE2, used_a)
    asc.SetAtomicNone()
    asc.WaitFlag(asc.HardEvent.MTE1_MTE2, used_a)
    for turn in range(2):
        asc.WaitFlag(asc.HardEvent.MTE1_MTE2, used[turn])
        asc.WaitFlag(asc.HardEvent.FIX_M, stored[turn])


def _traits_data(rng):
    a, b, c = factors(rng, 96, 80, 48)
    tiling = asc.multi_core_matmul_tiling(SPEC, 96, 80, 48, HALF, cores=1, fix_split=(32, 32, 48))
    tiling = replace(tiling, single_core_m=32, single_core_n=32)
    return Data({"a": a, "b": b, "shape": (96, 80, 48), "tiling": tiling}, {"c": c})


@follows("ops-nn/matmul/common/cmct/kernel", _traits_data, blocks=4, tolerance=1e-3)
@asc.kernel(kind=CUBE)
def kernel_matmul(a: asc.In, b: asc.In, c: asc.Out, shape: tuple[int, int, int], tiling: asc.TCubeTiling):
    """Tensors in GM carry their layouts, which say where the tile of a round begins; cores take tiles in turn."""
    m, n, k = shape
    types = (asc.half, (m, k)), (asc.half, (k, n)), (asc.float32, (m, n))
    traits = [asc.MakeTensorTrait(dtype, asc.TPosition.GM, (size, (size[1], 1))) for dtype, size in types]
    tensors = [asc.GlobalTensor(trait).SetGlobalBuffer(each) for trait, each in zip(traits, (a, b, c), strict=True)]
    mm = asc.Matmul(*(asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, dtype) for dtype, _ in types))
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)

    def at(tensor, row, column):
        down, across = tensor.GetTensorTrait().GetLayout()[1]
        return tensor[row * down + column * across]

    for tile in range(asc.GetBlockIdx(), tiling.used_core_num, asc.GetBlockNum()):
        row, column, rows, columns = tiling.part(tile)
        mm.SetSingleShape(rows, columns, k)
        mm.SetTensorA(at(tensors[0], row, 0))
        mm.SetTensorB(at(tensors[1], 0, column))
        mm.IterateAll(at(tensors[2], row, column))
    mm.End()
