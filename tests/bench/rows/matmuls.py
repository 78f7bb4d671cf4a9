"""C = A * B on halves with the Matmul object: the vendor's MatMulV3 as the profiler's sample measured it (910B4), and
the Matmul object of Ascend C as the vendor's best practices measured it (an A2 card with 24 cores).

Of MatMulV3, M = 8192 and 240.5 GFLOP are published; N and K are a guess with that product. Its kernel and its tiling
are public (ops-nn, mat_mul_v3): C is cut into parts whose factors and result fit about half of the L2. Such a part is
computed by all cores before the next one. `30720 x 4096 over 1024` has the tiles of `multi_core_matmul_tiling`, and the
other tilings are published. Whole products are computed: a part of the rows would read B from HBM as often as all of
them.

The samples of these pages (asc-devkit, 04_advanced_api/00_matmul) have C in float. `30720 x 4096 over 1024` is as its
page has it, and C is in half: its sample computes another shape, 30720 x 1024 over 4096.
"""

from functools import partial

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, half
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import TCubeTiling, multi_core_matmul_tiling
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.rows import Row
from tests.bench.rows.products import Cube, Product, operands, single

SMALL, LARGE = "ascend910b4", "ascend910b1"


def multiply(a, b, c, tiling, is_trans):
    of_a, of_b = (MatmulType(TPosition.GM, CubeFormat.ND, half, trans) for trans in (False, is_trans))
    pipe, matmul = TPipe(), Matmul(of_a, of_b, MatmulType(TPosition.GM, CubeFormat.ND, c.dtype))
    REGIST_MATMUL_OBJ(pipe, None, matmul, tiling)
    if GetBlockIdx() < tiling.used_core_num:
        row, column, m, n = tiling.part(GetBlockIdx())
        matmul.SetSingleShape(m, n, tiling.single_core_k)
        matmul.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a)[row * tiling.ka])
        matmul.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b)[column * tiling.kb if is_trans else column])
        matmul.IterateAll(GlobalTensor(c.dtype).SetGlobalBuffer(c)[row * tiling.n + column])
    matmul.End()


def product(card, m, n, k, tiling=None, is_trans=False, out=single):
    spec = load(card).aicore
    if tiling is None:
        tiling = multi_core_matmul_tiling(spec, m, n, k, half, cores=spec.cube_cores)
    a, b, c = np.zeros((m, k), half), np.zeros((n, k) if is_trans else (k, n), half), np.zeros((m, n), out)
    args = a, b, c, tiling, is_trans
    return run(
        multiply, tiling.used_core_num, args, spec, kind=KernelType.AIC_ONLY, hazards=False, values=False
    )  # fmt: skip


def runs(product, part, cores, core):
    """Return the tiles of C of a core: of each *part* of so many rows of tiles it has a run of neighbours in a row.

    If runs are of two lengths, the longer ones begin at the core behind the last long one of the part before.
    """
    down, across = product.tiles()
    tiles, begin = [], 0
    for top in range(0, down, part):
        short, longer = divmod(min(part, down - top) * across, cores)
        lengths = [short + ((each - begin) % cores < longer) for each in range(cores)]
        first = sum(lengths[:core])
        tiles += [(top + at // across, at % across) for at in range(first, first + lengths[core])]
        begin = (begin + longer) % cores
    return tiles


def multiply_in_parts(a, b, c, product, part):
    cube, count = Cube(product, a, b), -(-product.k // product.l1[2])
    result = GlobalTensor(product.out).SetGlobalBuffer(c)
    for row, column in runs(product, part, GetBlockNum(), GetBlockIdx()):
        m, n = cube.compute(row, column, 0, count, 0)
        cube.store(result[row * product.l1[0] * product.n + column * product.l1[1]], m, n, product.n)
    cube.close()


def in_parts(card, m, n, k, part):
    """MatMulV3 with parts of C of *part* rows of tiles, as its tiling chooses them."""
    spec, product = load(card).aicore, Product(m, k, n)
    a, b = operands(product)
    args = a, b, np.zeros((m, n), half), product, part
    return run(
        multiply_in_parts, spec.cube_cores, args, spec, kind=KernelType.AIC_ONLY, hazards=False, values=False
    )  # fmt: skip


def cut(m, n, k, single_m, single_n, base_n=256, step=4, depth_a=8, depth_b=8):
    """A published tiling; base_m is 128 and base_k 64 in all of them."""
    return TCubeTiling(
        m, n, k, k, single_m, single_n, k, 128, base_n, 64, depth_a, depth_b, step_ka=step, step_kb=step,
        db_l0a=2, db_l0b=2, db_l0c=256 // base_n,
    )  # fmt: skip


def row(
    what, published, m, n, k, tiling=None, *, is_trans=False, out=single, reads="aic_time", fitted=False, columns=()
):  # fmt: skip
    multiplied = partial(product, LARGE, m, n, k, tiling, is_trans, out)
    return Row("Matmul", what, LARGE, published, multiplied, reads=reads, fitted=fitted, columns=dict(columns))


ROWS = [
    # Parts of 8 rows of tiles: A, B and C of a part may take 50 MB of this L2 together, half of it.
    Row("Matmul", "8192 rows, 240.5 GFLOP", SMALL, 1046.6, partial(in_parts, SMALL, 8192, 3584, 4096, 8), reads="task"),
    row("128 x 30720 over 64", 10.62, 128, 30720, 64, cut(128, 30720, 64, 128, 1280), columns={"scalar": 6.32}),
    row("128 x 30720 over 1024", 53.4, 128, 30720, 1024, cut(128, 30720, 1024, 128, 1280), columns={"mte2": 46.24}),
    row("128 x 24576 over 512", 28.5, 128, 24576, 512, cut(128, 24576, 512, 128, 1024, 128, 8, 8, 16)),
    row("768 x 2048 over 6144", 98.72, 768, 2048, 6144, cut(768, 2048, 6144, 128, 512),
        reads="task", fitted=True, columns={"mte2": 90}),
    row("30720 x 4096 over 1024", 867, 30720, 4096, 1024, is_trans=True, out=half, columns={"mte2": 861.9}),
    # Rows of B begin anywhere: 8,190 bytes lie between them.
    row("1024 x 4095 over 1024", 149.04, 1024, 4095, 1024, cut(1024, 4095, 1024, 128, 1408), columns={"mte2": 130.77}),
]  # fmt: skip
