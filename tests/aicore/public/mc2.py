"""Kernels after folders of ops-transformer/mc2: products whose collectives go on beside them, tile by tile."""

import numpy as np

from acl_py import asc
from device_model.profile import load
from public.cases import Data, follows_on_ranks, gm

CUBE = asc.KernelType.AIC_ONLY
HALF, FLOAT = np.float16, np.float32
FP16, FP32 = asc.HcclDataType.HCCL_DATA_TYPE_FP16, asc.HcclDataType.HCCL_DATA_TYPE_FP32
SUM = asc.HcclReduceOp.HCCL_REDUCE_SUM
SPEC = load("ascend910b1").aicore
BLOCKS = 2
M, N, K = 48, 32, 32  # of a rank
TILE, TAIL = 32, 16  # rows of a tile, and of the last one
TILES = asc.multi_core_matmul_tiling(SPEC, TILE, N, K, HALF, cores=BLOCKS)


def _numbers(rng, *shape):
    return rng.integers(-4, 5, shape).astype(HALF)


def _products(dtype=asc.float32):
    """Return a function that multiplies: C = A * B for some rows, of which each core takes a part of the columns."""
    kinds = [asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, each) for each in (asc.half, asc.half, dtype)]
    mm = asc.Matmul(*kinds)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, TILES)
    columns = N // asc.GetBlockNum()
    left = asc.GetBlockIdx() * columns

    def product(a, b, c, rows):
        mm.SetSingleShape(rows, columns, K)
        mm.SetTensorA(gm(a, asc.half))
        mm.SetTensorB(gm(b, asc.half, left))
        mm.IterateAll(gm(c, dtype, left))

    return mm, product


def _all_cube_cores():
    """Wait until Fixpipe is done on all cube cores."""
    asc.CrossCoreSetFlag(0, asc.PIPE_FIX, 6)
    asc.CrossCoreWaitFlag(6)


def _opened(hccl, tiling):
    hccl.Init(asc.GetHcclContext(), tiling)
    hccl.SetCcTiling(tiling)
    return hccl.GetRankId(), hccl.GetRankDim()


def _gathered_data(rng, ranks):
    parts, b = [_numbers(rng, M, K) for _ in range(ranks)], _numbers(rng, K, N)
    whole = np.concatenate(parts)
    wanted = {"gathered": whole, "c": (whole.astype(FLOAT) @ b.astype(FLOAT))}
    # A rank multiplies its own rows from where they are; the server brings them to their place beside that.
    return [Data({"a": part, "b": b}, wanted) for part in parts]


@follows_on_ranks("ops-transformer/mc2/all_gather_matmul/op_kernel", _gathered_data, BLOCKS)
@asc.kernel(kind=CUBE)
def all_gather_matmul(a: asc.In, b: asc.In, gathered: asc.Out, c: asc.Out, comm: object):
    """The rows of all ranks come in tiles; a rank multiplies its own meanwhile, and then each tile as it has come."""
    hccl = asc.Hccl(asc.HcclServerType.HCCL_SERVER_TYPE_AICPU)
    rank, ranks = _opened(hccl, TILES)
    mm, product = _products()
    handle = hccl.AllGather(a, gathered, TILE * K, FP16, M * K, 1, commit=True)
    tail = hccl.AllGather(a + TILE * K, gathered + TILE * K, TAIL * K, FP16, M * K, 1, commit=True)
    own = rank * M * N
    product(a, b, c + own, TILE)
    product(a + TILE * K, b, c + own + TILE * N, TAIL)
    for task, first, rows in ((handle, 0, TILE), (tail, TILE, TAIL)):
        hccl.Wait(task)
        for step in range(1, ranks):
            other = (rank + step) % ranks
            top = other * M + first
            product(gathered + top * K, b, c + top * N, rows)
    mm.End()
    _all_cube_cores()
    hccl.Finalize()


def _scattered_data(rng, ranks):
    a = [_numbers(rng, ranks * M, K) for _ in range(ranks)]
    b = [_numbers(rng, K, N) for _ in range(ranks)]
    total = sum(each.astype(FLOAT) @ other.astype(FLOAT) for each, other in zip(a, b, strict=True))
    return [
        Data({"a": a[rank], "b": b[rank], "partial": np.zeros((ranks * M, N), FLOAT)},
             {"c": total[rank * M : (rank + 1) * M]})
        for rank in range(ranks)
    ]  # fmt: skip


@follows_on_ranks("ops-transformer/mc2/matmul_reduce_scatter/op_kernel", _scattered_data, BLOCKS)
@asc.kernel(kind=CUBE)
def matmul_reduce_scatter(a: asc.In, b: asc.In, partial: asc.InOut, c: asc.Out, comm: object):
    """A tile of the rows of each rank is multiplied, all cores wait for one another, and it is committed."""
    hccl = asc.Hccl(asc.HcclServerType.HCCL_SERVER_TYPE_AICPU)
    _, ranks = _opened(hccl, TILES)
    mm, product = _products()
    handle = hccl.ReduceScatter(partial, c, TILE * N, FP32, SUM, M * N, 1)
    tail = hccl.ReduceScatter(partial + TILE * N, c + TILE * N, TAIL * N, FP32, SUM, M * N, 1)
    for task, first, rows in ((handle, 0, TILE), (tail, TILE, TAIL)):
        for rank in range(ranks):
            top = rank * M + first
            product(a + top * K, b, partial + top * N, rows)
        _all_cube_cores()
        hccl.Commit(task)
    hccl.Wait(handle)
    hccl.Wait(tail)
    mm.End()
    _all_cube_cores()
    hccl.Finalize()


def _reduced_data(rng, ranks):
    a = [_numbers(rng, 2 * TILE + TAIL, K) for _ in range(ranks)]
    b = [_numbers(rng, K, N) for _ in range(ranks)]
    total = sum(each.astype(FLOAT) @ other.astype(FLOAT) for each, other in zip(a, b, strict=True))
    return [Data({"a": a[rank], "b": b[rank]}, {"y": total.astype(HALF)}) for rank in range(ranks)]


@follows_on_ranks("ops-transformer/mc2/matmul_all_reduce/op_kernel", _reduced_data, BLOCKS)
@asc.kernel(kind=CUBE)
def matmul_all_reduce(a: asc.In, b: asc.In, y: asc.Out, comm: object):
    """Products go to the window of the rank, and each tile of it is reduced while the next one is multiplied."""
    hccl = asc.Hccl(asc.HcclServerType.HCCL_SERVER_TYPE_AICPU)
    rank, _ = _opened(hccl, TILES)
    c = hccl.GetWindowsInAddr(rank).of_type(np.dtype(HALF))
    mm, product = _products(asc.half)
    handle = hccl.AllReduce(c, y, TILE * N, FP16, SUM, 2)
    tail = hccl.AllReduce(c + 2 * TILE * N, y + 2 * TILE * N, TAIL * N, FP16, SUM, 1)
    for turn in range(2):
        product(a + turn * TILE * K, b, c + turn * TILE * N, TILE)
        _all_cube_cores()
        hccl.Commit(handle)
    product(a + 2 * TILE * K, b, c + 2 * TILE * N, TAIL)
    _all_cube_cores()
    hccl.Commit(tail)
    hccl.Wait(handle)
    hccl.Wait(tail)
    mm.End()
    _all_cube_cores()
    hccl.Finalize()
