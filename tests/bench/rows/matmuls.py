"""C = A * B on halves, as the profiler's sample measured the vendor's MatMulV3 (910B4).

Published are M = 8192 and 240.5 GFLOP; N and K are a guess with that product. The vendor's kernel has tiles of its own,
here they are those of `multi_core_matmul_tiling`: this is no check of the model.
"""

import numpy as np

from device_model.aicore.blocks import GetBlockIdx
from device_model.aicore.matmul import REGIST_MATMUL_OBJ, CubeFormat, Matmul, MatmulType
from device_model.aicore.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.names import KernelType, TPosition
from device_model.aicore.queues import TPipe
from device_model.aicore.runner import run
from device_model.aicore.tensors import GlobalTensor, half
from device_model.profile import load
from tests.bench.rows import Row

CARD = "ascend910b4"
M, N, K = 8192, 3584, 4096
SHARE = 16


def multiply(a, b, c, tiling):
    kind = MatmulType(TPosition.GM, CubeFormat.ND, half)
    pipe, matmul = TPipe(), Matmul(kind, kind, kind)
    REGIST_MATMUL_OBJ(pipe, None, matmul, tiling)
    if GetBlockIdx() < tiling.used_core_num:
        row, column, m, n = tiling.part(GetBlockIdx())
        matmul.SetSingleShape(m, n, tiling.single_core_k)
        matmul.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a)[row * tiling.ka])
        matmul.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b)[column])
        matmul.IterateAll(GlobalTensor(half).SetGlobalBuffer(c)[row * tiling.n + column])
    matmul.End()


def matmul():
    spec = load(CARD).aicore
    rows = M // SHARE
    a, b, c = np.zeros((rows, K), half), np.zeros((K, N), half), np.zeros((rows, N), half)
    tiling = multi_core_matmul_tiling(spec, rows, N, K, half, cores=spec.cube_cores)
    return run(multiply, spec.cube_cores, (a, b, c, tiling), spec, kind=KernelType.AIC_ONLY, hazards=False)


ROWS = [Row("Matmul", "8192 rows, 240.5 GFLOP", CARD, 1046.6, matmul, SHARE, "task")]
