"""Kernels after folders of ops-math: gathers, sorts, comparisons, sums over blocks, and functions of whole tensors."""

import numpy as np

from acl_py import asc
from public.cases import Data, buffer, follows, gm, handed_over, part_of_block, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
HALF, FLOAT = np.float16, np.float32


def _diag_data(rng):
    x = rng.integers(0, 9_999, (50, 50)).astype(np.int32)
    return Data({"x": x, "side": 50}, {"y": np.diag(x).copy()})


@follows("ops-math/experimental/math/diag_part/op_kernel", _diag_data, blocks=3)
@asc.kernel
def diag_part(x: asc.In, y: asc.Out, side: int):
    """The diagonal of a matrix: squares around it are copied in, and Gather takes one element of each row."""
    pipe, square = asc.TPipe(), 16
    first, count = part_of_block(side, square)
    x_queue, y_queue = queue(pipe, VECIN, 2, square * square * 4), queue(pipe, VECOUT, 2, square * 4)
    offsets = buffer(pipe, square * 4)
    for at, n in pieces(count, square):
        start = first + at
        local = x_queue.AllocTensor(asc.int32)
        params = asc.DataCopyExtParams(n, n * 4, (side - n) * 4, 0)
        asc.DataCopyPad(local, gm(x, asc.int32, start * (side + 1)), params, asc.DataCopyPadExtParams(False, 0, 0, 0))
        handed_over(asc.HardEvent.MTE2_V)
        offset = offsets.Get(asc.int32)
        asc.ArithProgression(offset, 0, up(n * 4, 32) + 4, n)
        result = y_queue.AllocTensor(asc.int32)
        asc.Gather(result, local, offset.ReinterpretCast(asc.uint32), 0, n)
        handed_over(asc.HardEvent.V_MTE3)
        asc.DataCopyPad(gm(y, asc.int32, start), result, asc.DataCopyExtParams(1, n * 4, 0, 0))
        x_queue.FreeTensor(local)
        y_queue.FreeTensor(result)


def _sort_data(rng):
    x = rng.permutation(4 * 100).reshape(4, 100).astype(FLOAT)
    order = np.argsort(x, axis=1).astype(np.uint32)
    index = np.tile(np.arange(100, dtype=np.uint32), (4, 1))
    return Data({"x": x, "index": index, "rows": 4, "width": 100}, {"y": np.sort(x, axis=1), "places": order})


@follows("ops-math/experimental/math/sort_v2/op_kernel", _sort_data, blocks=2)
@asc.kernel
def sort_v2(x: asc.In, index: asc.In, y: asc.Out, places: asc.Out, rows: int, width: int):
    """Rows in ascending order, with the places they came from: Sort goes downwards, so scores are negated around it."""
    padded, largest = up(width, 32), float(np.finfo(FLOAT).max)
    pipe = asc.TPipe()
    first, count = part_of_block(rows)
    arriving = queue(pipe, VECIN, 2, padded * 4, depth=2)
    y_queue, places_queue = queue(pipe, VECOUT, 1, padded * 4), queue(pipe, VECOUT, 1, padded * 4)
    sorted_queue, tmp_queue, concat_queue = (queue(pipe, VECIN, 1, padded * 9 * 4) for _ in range(3))
    for row in range(first, first + count):
        scores, indices = arriving.AllocTensor(asc.float32), arriving.AllocTensor(asc.uint32)
        params, missing = asc.DataCopyExtParams(1, width * 4, 0, 0), up(width, 8) - width
        row_gm = gm(x, asc.float32, row * width)
        asc.DataCopyPad(scores, row_gm, params, asc.DataCopyPadExtParams(True, 0, missing, largest))
        asc.Duplicate(scores[up(width, 8) :], largest, padded - up(width, 8))
        index_gm = gm(index, asc.uint32, row * width)
        asc.DataCopyPad(indices, index_gm, params, asc.DataCopyPadExtParams(True, 0, missing, 0))
        asc.Duplicate(indices[up(width, 8) :], 0, padded - up(width, 8))
        arriving.EnQue(scores)
        arriving.EnQue(indices)
        scores, indices = arriving.DeQue(asc.float32), arriving.DeQue(asc.uint32)
        records, concat_tmp = sorted_queue.AllocTensor(asc.float32), concat_queue.AllocTensor(asc.float32)
        sort_tmp, result = tmp_queue.AllocTensor(asc.float32), y_queue.AllocTensor(asc.float32)
        result_places = places_queue.AllocTensor(asc.uint32)
        joined = asc.Concat(None, scores, concat_tmp, padded // 16)
        asc.Muls(joined, joined, -1.0, padded)
        asc.Sort(records, joined, indices, sort_tmp, padded // 32, is_full_sort=True)
        asc.Extract(result, result_places, records, padded // 32)
        asc.Muls(result, result, -1.0, padded)
        y_queue.EnQue(result)
        places_queue.EnQue(result_places)
        for each, tensor in ((arriving, scores), (arriving, indices), (sorted_queue, records)):
            each.FreeTensor(tensor)
        concat_queue.FreeTensor(concat_tmp)
        tmp_queue.FreeTensor(sort_tmp)
        result, result_places = y_queue.DeQue(asc.float32), places_queue.DeQue(asc.uint32)
        asc.DataCopyPad(gm(y, asc.float32, row * width), result, params)
        asc.DataCopyPad(gm(places, asc.uint32, row * width), result_places, params)
        y_queue.FreeTensor(result)
        places_queue.FreeTensor(result_places)


def _cast_data(rng):
    x = rng.integers(-2_000, 2_000, 700).astype(np.int32)
    return Data({"x": x, "length": 700}, {"z": x.astype(HALF)})


@follows("ops-math/experimental/math/cast_v2/op_kernel", _cast_data, blocks=2)
@asc.kernel
def cast_v2(x: asc.In, z: asc.Out, length: int):
    """Integers to half, which takes a factor: SetDeqScale sets it to 1 before each Cast."""
    pipe, tile = asc.TPipe(), 128
    first, count = part_of_block(length, 16)
    arriving, leaving = queue(pipe, VECIN, 2, tile * 4), queue(pipe, VECOUT, 2, tile * 2)
    for at, n in pieces(count, tile):
        local = arriving.AllocTensor(asc.int32)
        asc.DataCopyPad(local, gm(x, asc.int32, first + at), asc.DataCopyExtParams(1, n * 4, 0, 0))
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.int32), leaving.AllocTensor(asc.half)
        asc.SetDeqScale(1.0)
        asc.Cast(result, local, asc.RoundMode.CAST_NONE, n)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopyPad(gm(z, asc.half, first + at), result, asc.DataCopyExtParams(1, n * 2, 0, 0))
        leaving.FreeTensor(result)


def _not_equal_data(rng):
    a, b = rng.integers(0, 3, (2, 512)).astype(HALF)
    return Data({"a": a, "b": b, "length": 512}, {"y": (a != b).astype(np.int8)})


@follows("ops-math/experimental/math/not_equal/op_kernel", _not_equal_data, blocks=2)
@asc.kernel
def not_equal(a: asc.In, b: asc.In, y: asc.Out, length: int):
    """Bits of Compare become bytes: Select takes 0 or 1 as half, and Cast makes bytes of them."""
    pipe, tile = asc.TPipe(), 128
    first, count = part_of_block(length, tile)
    a_queue, b_queue = queue(pipe, VECIN, 2, tile * 2), queue(pipe, VECIN, 2, tile * 2)
    y_queue = queue(pipe, VECOUT, 2, tile)
    for at, n in pieces(count, tile):
        one, two = a_queue.AllocTensor(asc.half), b_queue.AllocTensor(asc.half)
        asc.DataCopy(one, gm(a, asc.half, first + at), n)
        asc.DataCopy(two, gm(b, asc.half, first + at), n)
        a_queue.EnQue(one)
        b_queue.EnQue(two)
        one, two, result = a_queue.DeQue(asc.half), b_queue.DeQue(asc.half), y_queue.AllocTensor(asc.int8)
        asc.Compare(result, one, two, asc.CMPMODE.EQ, up(n, 128))
        asc.Duplicate(one, 0, n)
        asc.Duplicate(two, 1, n)
        asc.Select(one, result.ReinterpretCast(asc.uint8), one, two, asc.SELMODE.VSEL_TENSOR_TENSOR_MODE, n)
        asc.Cast(result, one, asc.RoundMode.CAST_TRUNC, n)
        a_queue.FreeTensor(one)
        b_queue.FreeTensor(two)
        y_queue.EnQue(result)
        result = y_queue.DeQue(asc.int8)
        asc.DataCopy(gm(y, asc.int8, first + at), result, n)
        y_queue.FreeTensor(result)


def _polar_data(rng):
    size, angle = rng.uniform(0, 3, 150).astype(FLOAT), rng.uniform(-4, 4, 150).astype(FLOAT)
    wanted = np.stack([size * np.cos(angle), size * np.sin(angle)], axis=1).ravel()
    return Data({"size": size, "angle": angle, "length": 150}, {"out": wanted})


@follows("ops-math/experimental/math/polar/op_kernel", _polar_data, blocks=2, tolerance=1e-5)
@asc.kernel
def polar(size: asc.In, angle: asc.In, out: asc.Out, length: int):
    """Complex numbers from size and angle: cosines and sines are side by side, and Gather interleaves them."""
    pipe, tile = asc.TPipe(), 64
    first, count = part_of_block(length, 8)
    arriving, leaving = queue(pipe, VECIN, 2, 2 * tile * 4), queue(pipe, VECOUT, 2, 2 * tile * 4)
    packed_buffer, offset_buffer, shared_buffer = (buffer(pipe, n) for n in (2 * tile * 4, 2 * tile * 4, 4_096))
    places, pairs = offset_buffer.Get(asc.int32), packed_buffer.Get(asc.float32).ReinterpretCast(asc.int32)
    asc.CreateVecIndex(places, 0, 2 * tile)
    asc.ShiftRight(pairs, places, 1, 2 * tile)
    asc.Muls(places, places, 4 * tile, 2 * tile)
    asc.Muls(pairs, pairs, 4 - 8 * tile, 2 * tile)
    asc.Add(places, places, pairs, 2 * tile)
    for at, n in pieces(count, tile):
        params, padding = asc.DataCopyExtParams(1, n * 4, 0, 0), asc.DataCopyPadExtParams(False, 0, 0, 0)
        local = arriving.AllocTensor(asc.float32)
        asc.DataCopyPad(local, gm(size, asc.float32, first + at), params, padding)
        asc.DataCopyPad(local[tile:], gm(angle, asc.float32, first + at), params, padding)
        arriving.EnQue(local)
        local = arriving.DeQue(asc.float32)
        packed, shared = packed_buffer.Get(asc.float32), shared_buffer.Get(asc.uint8)
        asc.Cos(packed, local[tile:], shared, n)
        asc.Sin(packed[tile:], local[tile:], shared, n)
        asc.Mul(packed, packed, local, n)
        asc.Mul(packed[tile:], packed[tile:], local, n)
        arriving.FreeTensor(local)
        result = leaving.AllocTensor(asc.float32)
        asc.Gather(result, packed, offset_buffer.Get(asc.uint32), 0, 2 * n)
        leaving.EnQue(result)
        result = leaving.DeQue(asc.float32)
        asc.DataCopyPad(gm(out, asc.float32, 2 * (first + at)), result, asc.DataCopyExtParams(1, 2 * n * 4, 0, 0))
        leaving.FreeTensor(result)


def _trace_data(rng):
    x = rng.normal(size=(40, 60)).astype(FLOAT)
    given = {"x": x, "rows": 40, "columns": 60, "y": np.zeros(8, FLOAT)}
    return Data(given, {"y": np.append(np.trace(x), np.zeros(7)).astype(FLOAT)})


@follows("ops-math/experimental/math/trace_v2/op_kernel", _trace_data, blocks=3, tolerance=1e-5)
@asc.kernel
def trace_v2(x: asc.In, y: asc.InOut, rows: int, columns: int):
    """The sum of the diagonal: an element of each row is copied in, and blocks add their sums atomically.

    The folder copies 32 elements out, of which only one is a result, into an output of one element. The rest goes
    through memory that belongs to nobody, so here one block of 32 bytes is copied, of which Duplicate fills the rest.
    """
    pipe = asc.TPipe()
    first, count = part_of_block(min(rows, columns))
    arriving, work_queue, leaving = (queue(pipe, each, 2, count * 32) for each in (VECIN, VECIN, VECOUT))
    local = arriving.AllocTensor(asc.float32)
    params, padding = asc.DataCopyExtParams(count, 4, columns * 4, 0), asc.DataCopyPadExtParams(True, 0, 7, 0)
    asc.DataCopyPad(local, gm(x, asc.float32, first * (columns + 1)), params, padding)
    arriving.EnQue(local)
    local, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.float32)
    work = work_queue.AllocTensor(asc.float32)
    asc.Duplicate(result, 0.0, 8)
    asc.ReduceSum(result, local, work, count * 8)
    leaving.EnQue(result)
    arriving.FreeTensor(local)
    work_queue.FreeTensor(work)
    result = leaving.DeQue(asc.float32)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.SetAtomicAdd(asc.float32)
    asc.DataCopy(gm(y, asc.float32), result, 8)
    asc.SetAtomicNone()
    leaving.FreeTensor(result)


def _dot_data(rng):
    a, b = rng.normal(size=(2, 600)).astype(FLOAT)
    return Data(
        {"a": a, "b": b, "length": 600, "workspace": np.ones(8, FLOAT)},
        {"z": np.array([a.astype(np.float64) @ b.astype(np.float64)], FLOAT)},
    )


@follows("ops-math/experimental/math/dot_v2/op_kernel", _dot_data, blocks=3, tolerance=1e-5)
@asc.kernel(auto_sync=True)
def dot_v2(a: asc.In, b: asc.In, z: asc.Out, workspace: asc.InOut, length: int):
    """A product of two vectors. A block adds up with the scalar pipe, the blocks with atomic copies after SyncAll."""
    pipe, tile = asc.TPipe(), 64
    first, count = part_of_block(length, 8)
    work_gm, z_gm = gm(workspace, asc.float32, 0, 8), gm(z, asc.float32, 0, 1)
    if asc.GetBlockIdx() == 0:
        asc.InitGlobalMemory(work_gm, 8, 0.0)
    a_queue, b_queue, tmp_queue = (queue(pipe, VECIN, 2, tile * 4) for _ in range(3))
    z_queue, total_buffer = queue(pipe, VECOUT, 2, tile * 4), buffer(pipe, tile * 4)
    asc.SyncAll()
    total = total_buffer.Get(asc.float32)
    asc.Duplicate(total, 0.0, tile)
    for at, n in pieces(count, tile):
        one, two = a_queue.AllocTensor(asc.float32), b_queue.AllocTensor(asc.float32)
        asc.DataCopy(one, gm(a, asc.float32, first + at), n)
        asc.DataCopy(two, gm(b, asc.float32, first + at), n)
        a_queue.EnQue(one)
        b_queue.EnQue(two)
        one, two = a_queue.DeQue(asc.float32), b_queue.DeQue(asc.float32)
        part, tmp = z_queue.AllocTensor(asc.float32), tmp_queue.AllocTensor(asc.float32)
        asc.Duplicate(part, 0.0, n)
        asc.Mul(one, one, two, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.ReduceSum(part, one, tmp, n)
        asc.PipeBarrier(asc.PIPE_V)
        total.SetValue(0, total.GetValue(0) + part.GetValue(0))
        z_queue.FreeTensor(part)
        a_queue.FreeTensor(one)
        b_queue.FreeTensor(two)
        tmp_queue.FreeTensor(tmp)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.SetAtomicAdd(asc.float32)
    asc.DataCopy(work_gm, total, 8)
    asc.SetAtomicNone()
    asc.SyncAll()
    if asc.GetBlockIdx() == 0:
        z_gm.SetValue(0, work_gm.GetValue(0))
        asc.DataCacheCleanAndInvalid(z_gm)


def _unpack_data(rng):
    x = rng.integers(0, 256, 192).astype(np.uint8)
    bits = np.unpackbits(x, bitorder="little")
    return Data({"x": x, "length": 192}, {"y": np.where(bits == 1, 1, -1).astype(HALF)})


@follows("ops-math/experimental/math/sign_bits_unpack/op_kernel", _unpack_data, blocks=2)
@asc.kernel
def sign_bits_unpack(x: asc.In, y: asc.Out, length: int):
    """A number, 1 or -1, for each bit: the bytes that are copied in are the mask of Select."""
    pipe, tile = asc.TPipe(), 64
    first, count = part_of_block(length, 32)
    arriving, leaving = queue(pipe, VECIN, 2, tile), queue(pipe, VECOUT, 2, tile * 8 * 2)
    for at, n in pieces(count, tile):
        local = arriving.AllocTensor(asc.uint8)
        asc.DataCopy(local, gm(x, asc.uint8, first + at), n)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.uint8), leaving.AllocTensor(asc.half)
        asc.Duplicate(result, 1.0, n * 8)
        asc.Select(result, local, result, 1.0, asc.SELMODE.VSEL_TENSOR_SCALAR_MODE, n * 8)
        asc.Select(result, local, result, -1.0, asc.SELMODE.VSEL_TENSOR_SCALAR_MODE, n * 8)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopy(gm(y, asc.half, 8 * (first + at)), result, n * 8)
        leaving.FreeTensor(result)


def _real_data(rng):
    x = (rng.normal(size=640) + 1j * rng.normal(size=640)).astype(np.complex64)
    return Data({"x": x.view(FLOAT), "length": 640}, {"y": x.real.copy()})


@follows("ops-math/experimental/math/real/op_kernel", _real_data, blocks=2)
@asc.kernel
def real(x: asc.In, y: asc.Out, length: int):
    """Real parts of complex numbers, gathered in place; the next tile is copied in before this one is copied out."""
    pipe, tile = asc.TPipe(), 128
    first, count = part_of_block(length, 32)
    arriving = queue(pipe, VECIN, 2, 2 * tile * 4, depth=2)
    parts = list(pieces(count, tile))

    def copy_in(at, n):
        local = arriving.AllocTensor(asc.float32)
        params = asc.DataCopyExtParams(1, 2 * n * 4, 0, 0)
        asc.DataCopyPad(local, gm(x, asc.float32, 2 * (first + at)), params, asc.DataCopyPadExtParams(False, 0, 0, 0))
        arriving.EnQue(local)

    copy_in(*parts[0])
    for place, (at, n) in enumerate(parts):
        local = arriving.DeQue(asc.float32)
        if place + 1 < len(parts):
            copy_in(*parts[place + 1])
        asc.GatherMask(local, local, 1, False, 0, asc.GatherMaskParams(1, 2 * n * 4 // 256, 8, 0))
        asc.PipeBarrier(asc.PIPE_V)
        asc.DataCopyPad(gm(y, asc.float32, first + at), local, asc.DataCopyExtParams(1, n * 4, 0, 0))
        arriving.FreeTensor(local)
