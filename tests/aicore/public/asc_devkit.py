"""Kernels after folders of asc-devkit's examples: rearranging, sorting, reducing, and atomic copies."""

import numpy as np

from acl_py import asc
from public.cases import Data, follows, gm, queue

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
HALF, FLOAT = np.float16, np.float32
BASIC = "asc-devkit/examples/01_simd_cpp_api/03_basic_api"


def _brcb_data(rng):
    x = rng.integers(0, 60_000, 16).astype(np.uint16)
    return Data({"x": x}, {"y": np.repeat(x, 16)})


@follows(f"{BASIC}/01_memory_vector_compute/brcb", _brcb_data)
@asc.kernel
def brcb(x: asc.In, y: asc.Out):
    """Each of 16 numbers fills a block of 32 bytes, in tensors of a LocalMemAllocator."""
    allocator = asc.LocalMemAllocator(asc.Hardware.UB)
    numbers, blocks = allocator.Alloc(asc.uint16, 16), allocator.Alloc(asc.uint16, 256)
    asc.DataCopy(numbers, gm(x, asc.uint16), 16)
    asc.SetFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
    asc.WaitFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
    asc.Brcb(blocks, numbers, 2, asc.BrcbRepeatParams(1, 8))
    asc.SetFlag(asc.HardEvent.V_MTE3, asc.EVENT_ID1)
    asc.WaitFlag(asc.HardEvent.V_MTE3, asc.EVENT_ID1)
    asc.DataCopy(gm(y, asc.uint16), blocks, 256)
    asc.PipeBarrier(asc.PIPE_ALL)


def _mrg_sort_data(rng):
    x = rng.permutation(1_024).astype(FLOAT)
    index = np.arange(1_024, dtype=np.uint32)
    order = np.argsort(-x)
    records = np.stack([x[order], index[order].view(FLOAT)], axis=1).ravel()
    return Data({"x": x, "index": index}, {"y": records})


@follows(f"{BASIC}/01_memory_vector_compute/mrg_sort", _mrg_sort_data)
@asc.kernel
def mrg_sort(x: asc.In, index: asc.In, y: asc.Out):
    """1,024 scores: Sort32, then two levels that merge four lists at a time, and one that merges the last two."""
    size, group = 1_024, 32
    allocator = asc.LocalMemAllocator(asc.Hardware.UB)
    scores, indices = allocator.Alloc(asc.float32, size), allocator.Alloc(asc.uint32, size)
    work, result = allocator.Alloc(asc.float32, 6 * size), allocator.Alloc(asc.float32, 2 * size)
    asc.DataCopy(scores, gm(x, asc.float32), size)
    asc.DataCopy(indices, gm(index, asc.uint32), size)
    asc.SetFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
    asc.WaitFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
    asc.Sort32(work, scores, indices, size // group)
    asc.PipeBarrier(asc.PIPE_V)
    lists, length = work, group
    for level, repeats in ((work[2_048:], 8), (work[4_096:], 2)):
        sources = asc.MrgSortSrcList(*(lists[each * length * 2 :] for each in range(4)))
        asc.MrgSort(level, sources, asc.MrgSort4Info([length] * 4, False, 0b1111, repeats))
        asc.PipeBarrier(asc.PIPE_V)
        lists, length = level, length * 4
    sources = asc.MrgSortSrcList(lists, lists[length * 2 :], lists, lists)
    asc.MrgSort(result, sources, asc.MrgSort4Info([length, length, 0, 0], False, 0b11, 1))
    asc.SetFlag(asc.HardEvent.V_MTE3, asc.EVENT_ID0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, asc.EVENT_ID0)
    asc.DataCopy(gm(y, asc.float32), result, 2 * size)
    asc.PipeBarrier(asc.PIPE_ALL)


def _transpose_data(rng):
    n, c, h, w = 2, 32, 16, 16
    x = rng.normal(size=(n, c, h, w)).astype(HALF)
    # Each image of 16 channels: channels innermost.
    wanted = x.reshape(n * c // 16, 16, h * w).transpose(0, 2, 1)
    return Data({"x": x.ravel()}, {"y": wanted.ravel()})


@follows(f"{BASIC}/01_memory_vector_compute/transpose", _transpose_data)
@asc.kernel
def transpose(x: asc.In, y: asc.Out):
    """Channels innermost, by 16: TransDataTo5HD gets addresses of 16 rows, and moves from one square to the next."""
    c0, h, w, size = 16, 16, 16, 2 * 32 * 16 * 16
    pipe = asc.TPipe()
    arriving, leaving = queue(pipe, VECIN, 1, size * 2), queue(pipe, VECOUT, 1, size * 2)
    local = arriving.AllocTensor(asc.half)
    asc.DataCopy(local, gm(x, asc.half), size)
    arriving.EnQue(local)
    local, result = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
    params = asc.TransDataTo5HDParams(False, False, 16, 16, 1)
    for image in range(4):
        to = [result[image * c0 * h * w + w * each :].GetPhyAddr() for each in range(16)]
        at = [local[image * c0 * h * w + h * w * each :].GetPhyAddr() for each in range(16)]
        asc.TransDataTo5HD(to, at, params, asc.half)
    leaving.EnQue(result)
    arriving.FreeTensor(local)
    result = leaving.DeQue(asc.half)
    asc.DataCopy(gm(y, asc.half), result, size)
    leaving.FreeTensor(result)
    asc.PipeBarrier(asc.PIPE_ALL)


def _reduce_repeat_data(rng):
    x = rng.normal(size=(13, 57)).astype(FLOAT)
    return Data({"x": x, "rows": 13, "columns": 57}, {"y": x.sum(axis=1)})


@follows(f"{BASIC}/01_memory_vector_compute/reduce_repeat", _reduce_repeat_data, tolerance=1e-5)
@asc.kernel
def reduce_repeat(x: asc.In, y: asc.Out, rows: int, columns: int):
    """Sums of rows that are no whole blocks: a repeat for each, with a mask."""
    pipe, blocks = asc.TPipe(), -(-columns * 4 // 32)
    arriving, leaving = queue(pipe, VECIN, 1, rows * blocks * 32), queue(pipe, VECOUT, 1, rows * 4)
    local = arriving.AllocTensor(asc.float32)
    params, padding = asc.DataCopyExtParams(rows, columns * 4, 0, 0, 0), asc.DataCopyPadExtParams(False, 0, 7, 0)
    asc.DataCopyPad(local, gm(x, asc.float32), params, padding)
    arriving.EnQue(local)
    local, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.float32)
    asc.ReduceRepeat(result, local, columns, rows, 1, 1, blocks, reduce_type=asc.ReduceType.SUM)
    leaving.EnQue(result)
    arriving.FreeTensor(local)
    result = leaving.DeQue(asc.float32)
    asc.DataCopyPad(gm(y, asc.float32), result, asc.DataCopyExtParams(1, rows * 4, 0, 0, 0))
    leaving.FreeTensor(result)
    asc.PipeBarrier(asc.PIPE_ALL)


def _atomic_max_data(rng):
    x, y = rng.normal(size=(3, 256)).astype(HALF), rng.normal(size=256).astype(HALF)
    return Data({"x": x, "y": y}, {"y": np.maximum(x.max(axis=0), y)})


@follows(f"{BASIC}/06_atomic/data_movement_with_atomic_operations", _atomic_max_data, blocks=3)
@asc.kernel
def atomic_max(x: asc.In, y: asc.InOut):
    """Three blocks keep the larger of what they have and what is in GM, after all have read."""
    size = 256
    local = asc.LocalMemAllocator(asc.Hardware.UB).Alloc(asc.half, size)
    asc.DisableDmaAtomic()
    asc.DataCopy(local, gm(x, asc.half, asc.GetBlockIdx() * size), size)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, asc.EVENT_ID0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, asc.EVENT_ID0)
    asc.SyncAll()
    asc.SetAtomicMax(asc.half)
    asc.DataCopy(gm(y, asc.half), local, size)
    asc.DisableDmaAtomic()
    asc.PipeBarrier(asc.PIPE_ALL)


class _Pool(asc.TBufPool):
    """A pool that gives out its buffers itself."""

    def InitBuffer(self, target, first, length=None):
        count, length = (1, first) if length is None else (first, length)
        handle, address = self.GetBufHandle(self.GetCurBufSize()), self.GetCurAddr()
        target.InitStartBufHandle(handle, count, length)
        for number in range(count):
            target.InitBufHandle(self, number, handle, address + number * length, length)
        self.SetCurAddr(address + count * length)
        self.SetCurBufSize(self.GetCurBufSize() + count)


def _pool_data(rng):
    x, y = (rng.integers(-99, 99, 1_024).astype(HALF) for _ in range(2))
    return Data({"x": x, "y": y, "count": 1_024}, {"z": x + y})


@follows(f"{BASIC}/04_memory_management/tbufpool_management", _pool_data)
@asc.kernel
def tbufpool_management(x: asc.In, y: asc.In, z: asc.Out, count: int):
    """A sum in a queue, a buffer and a queue of a pool of the kernel's own; the queue's flag covers both copies."""
    pipe, pool, nbytes = asc.TPipe(), _Pool(asc.TPosition.VECCALC, 16), count * 2
    arriving, other, leaving = asc.TQue(VECIN, 1), asc.TBuf(VECIN), asc.TQue(VECOUT, 1)
    pipe.InitBufPool(pool, nbytes * 3)
    pool.InitBuffer(arriving, 1, nbytes)
    pool.InitBuffer(other, nbytes)
    pool.InitBuffer(leaving, 1, nbytes)
    local, second = arriving.AllocTensor(asc.half), other.Get(asc.half)
    asc.DataCopy(local, gm(x, asc.half), count)
    asc.DataCopy(second, gm(y, asc.half), count)
    arriving.EnQue(local)
    local, second, result = arriving.DeQue(asc.half), other.Get(asc.half), leaving.AllocTensor(asc.half)
    asc.Add(result, local, second, count)
    leaving.EnQue(result)
    arriving.FreeTensor(local)
    result = leaving.DeQue(asc.half)
    asc.DataCopy(gm(z, asc.half), result, count)
    leaving.FreeTensor(result)
    pool.Reset()
    pipe.Reset()


def _compare_data(rng):
    x, y = (rng.integers(-3, 3, 64).astype(FLOAT) for _ in range(2))
    bits = np.zeros(32, np.uint8)
    bits[:8] = np.packbits(x < y, bitorder="little")
    return Data({"x": x, "y": y}, {"z": bits})


@follows(f"{BASIC}/01_memory_vector_compute/compare", _compare_data)
@asc.kernel
def compare(x: asc.In, y: asc.In, z: asc.Out):
    """A repeat is compared into the register, of which UB then gets a copy."""
    pipe, itemsize = asc.TPipe(), 4
    lefts, rights = (queue(pipe, VECIN, 1, 64 * itemsize) for _ in range(2))
    leaving = queue(pipe, VECOUT, 1, 32)
    left, right = lefts.AllocTensor(asc.float32), rights.AllocTensor(asc.float32)
    asc.DataCopy(left, gm(x, asc.float32), 64)
    asc.DataCopy(right, gm(y, asc.float32), 64)
    lefts.EnQue(left)
    rights.EnQue(right)
    left, right, result = lefts.DeQue(asc.float32), rights.DeQue(asc.float32), leaving.AllocTensor(asc.uint8)
    asc.Duplicate(result.ReinterpretCast(asc.float32), 0.0, 8)
    asc.Compare(None, left, right, asc.CMPMODE.LT, 256 // itemsize)
    asc.PipeBarrier(asc.PIPE_V)
    asc.GetCmpMask(result)
    leaving.EnQue(result)
    lefts.FreeTensor(left)
    rights.FreeTensor(right)
    result = leaving.DeQue(asc.uint8)
    asc.DataCopy(gm(z, asc.uint8), result, 32)
    leaving.FreeTensor(result)
    asc.PipeBarrier(asc.PIPE_ALL)
