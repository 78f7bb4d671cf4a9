"""Kernels after folders of ops-nn that work on rows, and on indices."""

import numpy as np

from acl_py import asc
from public.cases import Data, buffer, follows, gm, handed_over, part_of_block, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
FLOAT = np.float32


def _linear_index_data(rng):
    indices = rng.integers(-50, 50, 300).astype(np.int32)
    place = np.arange(300)
    wanted = (indices - (indices >> 31) * 50) * 40 + place % 40
    return Data({"indices": indices, "target": 50, "stride": 40, "length": 300}, {"output": wanted.astype(np.int32)})


@follows("ops-nn/index/linear_index/op_kernel", _linear_index_data, blocks=2)
@asc.kernel
def linear_index(indices: asc.In, output: asc.Out, target: int, stride: int, length: int):
    """Indices, of which negative ones count from the end, to places in a matrix: row by index, column by place."""
    pipe, tile = asc.TPipe(), 64
    first, count = part_of_block(length, 8)
    index_buffer, other_buffer, place_buffer, whole_buffer = (buffer(pipe, tile * 4) for _ in range(4))
    index, other = index_buffer.Get(asc.int32), other_buffer.Get(asc.int32)
    places, whole = place_buffer.Get(asc.float32), whole_buffer.Get(asc.int32)
    for at, n in pieces(count, tile):
        params = asc.DataCopyExtParams(1, n * 4, 0, 0, 0)
        handed_over(asc.HardEvent.MTE3_MTE2)
        asc.DataCopyPad(index, gm(indices, asc.int32, first + at), params, asc.DataCopyPadExtParams(False, 0, 0, 0))
        handed_over(asc.HardEvent.MTE2_V)
        asc.ShiftRight(other, index, 31, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Muls(other, other, target, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Sub(index, index, other, n)
        asc.ArithProgression(places, float(first + at), 1.0, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(whole, places, asc.RoundMode.CAST_FLOOR, n)
        asc.Muls(places, places, 1 / stride, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(other, places, asc.RoundMode.CAST_FLOOR, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Muls(other, other, stride, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Sub(other, whole, other, n)
        asc.Muls(index, index, stride, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Add(index, index, other, n)
        handed_over(asc.HardEvent.V_MTE3)
        asc.DataCopyPad(gm(output, asc.int32, first + at), index, params)


def _layer_norm_data(rng):
    rows, width, eps = 5, 200, 1e-5
    x = rng.normal(2, 3, (rows, width)).astype(FLOAT)
    gamma, beta = rng.normal(size=(2, width)).astype(FLOAT)
    mean = x.mean(axis=1, dtype=np.float64)
    rstd = 1 / np.sqrt(x.var(axis=1, dtype=np.float64) + eps)
    y = (x - mean[:, None]) * rstd[:, None] * gamma + beta
    given = {"x": x, "gamma": gamma, "beta": beta, "rows": rows, "width": width, "eps": eps}
    return Data(given, {"y": y.astype(FLOAT), "mean": mean.astype(FLOAT), "rstd": rstd.astype(FLOAT)})


@follows("ops-nn/norm/layer_norm_v4/op_kernel/kernel", _layer_norm_data, blocks=2, tolerance=1e-5)
@asc.kernel(auto_sync=True)
def layer_norm_v4(
    x: asc.In, gamma: asc.In, beta: asc.In, y: asc.Out, mean: asc.Out, rstd: asc.Out, rows: int, width: int, eps: float
):
    """LayerNorm of rows in tiles: the tiles' sums are added in a second ReduceSum. One buffer is divided by offsets."""
    tile, results = 80, 512
    pipe = asc.TPipe()
    first, count = part_of_block(rows)
    total = asc.TBuf(asc.TPosition.VECCALC)
    aligned = up(tile, 32)
    pipe.InitBuffer(total, 2 * aligned * 4 + 3 * results)
    at = 2 * aligned * 4
    calc, other = total.GetWithOffset(aligned, 0, asc.float32), total.GetWithOffset(aligned, aligned * 4, asc.float32)
    work, means, rstds = (total.GetWithOffset(results // 4, at + each * results, asc.float32) for each in range(3))

    def copy_in(local, given, start, n):
        params = asc.DataCopyExtParams(1, n * 4, 0, 0)
        asc.DataCopyPad(local, gm(given, asc.float32, start), params, asc.DataCopyPadExtParams())
        handed_over(asc.HardEvent.MTE2_V)

    tiles = list(pieces(width, tile))
    for row in range(count):
        base = (first + row) * width
        for place, (start, n) in enumerate(tiles):
            copy_in(calc, x, base + start, n)
            asc.Muls(calc, calc, 1 / width, n)
            asc.PipeBarrier(asc.PIPE_V)
            asc.ReduceSum(other[place:], calc, work, n)
            handed_over(asc.HardEvent.V_MTE2)
        asc.PipeBarrier(asc.PIPE_V)
        asc.ReduceSum(means[row:], other, work, len(tiles))
        asc.PipeBarrier(asc.PIPE_V)
        handed_over(asc.HardEvent.V_S)
        average = means[row:].GetValue(0)
        for place, (start, n) in enumerate(tiles):
            copy_in(calc, x, base + start, n)
            asc.Adds(calc, calc, -average, n)
            asc.PipeBarrier(asc.PIPE_V)
            asc.Mul(calc, calc, calc, n)
            asc.PipeBarrier(asc.PIPE_V)
            asc.ReduceSum(other[place:], calc, work, n)
            handed_over(asc.HardEvent.V_MTE2)
        asc.PipeBarrier(asc.PIPE_V)
        asc.ReduceSum(other, other, work, len(tiles))
        asc.PipeBarrier(asc.PIPE_V)
        handed_over(asc.HardEvent.V_S)
        scale = 1.0 / (other.GetValue(0) / width + eps) ** 0.5
        rstds.SetValue(row, scale)
        for start, n in tiles:
            copy_in(calc, x, base + start, n)
            asc.Adds(calc, calc, -average, n)
            asc.PipeBarrier(asc.PIPE_V)
            asc.Muls(calc, calc, scale, n)
            asc.PipeBarrier(asc.PIPE_V)
            copy_in(other, gamma, start, n)
            asc.Mul(calc, other, calc, n)
            handed_over(asc.HardEvent.V_MTE2)
            copy_in(other, beta, start, n)
            asc.Add(calc, calc, other, n)
            handed_over(asc.HardEvent.V_MTE3)
            asc.DataCopyPad(gm(y, asc.float32, base + start), calc, asc.DataCopyExtParams(1, n * 4, 0, 0))
            handed_over(asc.HardEvent.MTE3_MTE2)
    handed_over(asc.HardEvent.S_MTE3)
    asc.DataCopyPad(gm(mean, asc.float32, first), means, asc.DataCopyExtParams(1, count * 4, 0, 0))
    asc.DataCopyPad(gm(rstd, asc.float32, first), rstds, asc.DataCopyExtParams(1, count * 4, 0, 0))


def _masked_softmax_data(rng):
    rows, width = 6, 50
    x = rng.normal(size=(rows, width)).astype(np.float16)
    mask = rng.integers(0, 2, (rows, width)).astype(np.uint8)
    scores = np.where(mask == 0, x.astype(FLOAT) * 0.5, -10_000)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    y = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float16)
    return Data({"x": x, "mask": mask, "scale": 0.5, "rows": rows, "width": width}, {"y": y})


@follows("ops-nn/vfusion/scaled_masked_softmax_v2/op_kernel", _masked_softmax_data, blocks=2, tolerance=2e-3)
@asc.kernel
def scaled_masked_softmax(x: asc.In, mask: asc.In, y: asc.Out, scale: float, rows: int, width: int):
    """Softmax of scaled scores, of which a byte mask takes some out; rows are padded to whole blocks."""
    pipe, lines = asc.TPipe(), 2
    first, count = part_of_block(rows, lines)
    padded, mask_width = up(width, 16), up(width, 32)
    x_queue, y_queue = queue(pipe, VECIN, 1, lines * padded * 2), queue(pipe, VECOUT, 1, lines * padded * 2)
    wide_buffer, shared_buffer = buffer(pipe, lines * padded * 4), buffer(pipe, 32 * 1024)
    mask_queue = queue(pipe, VECIN, 1, lines * mask_width)
    for at, n in pieces(count, lines):
        start = (first + at) * width
        masked = mask_queue.AllocTensor(asc.uint8)
        params = asc.DataCopyExtParams(n, width, 0, 0, 0)
        asc.DataCopyPad(
            masked, gm(mask, asc.uint8, start), params, asc.DataCopyPadExtParams(True, 0, mask_width - width, 0)
        )
        mask_queue.EnQue(masked)
        scores = x_queue.AllocTensor(asc.half)
        params = asc.DataCopyExtParams(n, width * 2, 0, 0, 0)
        asc.DataCopyPad(scores, gm(x, asc.half, start), params, asc.DataCopyPadExtParams(True, 0, padded - width, 0))
        x_queue.EnQue(scores)
        scores, masked = x_queue.DeQue(asc.half), mask_queue.DeQue(asc.uint8)
        wide, shared = wide_buffer.Get(asc.float32), shared_buffer.Get(asc.uint8)
        shape = asc.SelectWithBytesMaskShapeInfo(n, padded, mask_width)
        wide.SetSize(n * padded)
        scores.SetSize(n * padded)
        masked.SetSize(n * mask_width)
        asc.Muls(scores, scores, scale, n * padded)
        asc.SelectWithBytesMask(scores, scores, -10_000.0, masked, shared, shape)
        asc.Cast(wide, scores, asc.RoundMode.CAST_NONE, n * padded)
        result = y_queue.AllocTensor(asc.half)
        result.SetSize(n * padded)
        asc.SoftMax(wide, wide, shared, asc.SoftMaxShapeInfo(n, padded, n, width))
        asc.Cast(result, wide, asc.RoundMode.CAST_RINT, n * padded)
        x_queue.FreeTensor(scores)
        mask_queue.FreeTensor(masked)
        y_queue.EnQue(result)
        result = y_queue.DeQue(asc.half)
        asc.DataCopyPad(gm(y, asc.half, start), result, params)
        y_queue.FreeTensor(result)


def _masked_scatter_data(rng):
    rows, line = 40, 24
    x, updates = rng.normal(size=(2, rows, line)).astype(FLOAT)
    mask = rng.random(rows) < 0.4
    wanted = x.copy()
    wanted[mask] = updates[: mask.sum()]
    given = {"x": x, "mask": mask, "updates": updates, "rows": rows, "line": line}
    return Data(given, {"y": wanted})


@follows("ops-nn/index/masked_scatter/op_kernel", _masked_scatter_data, blocks=3)
@asc.kernel
def masked_scatter(x: asc.In, mask: asc.In, updates: asc.In, y: asc.Out, rows: int, line: int):
    """Rows of x, of which those under the mask, of bool, are replaced by the rows of another matrix in turn."""
    pipe, tile, whole = asc.TPipe(), 8, up(line, 8)
    first, count = part_of_block(rows)
    masks, before = queue(pipe, VECIN, 1, up(tile, 32)), queue(pipe, VECIN, 1, up(rows, 32))
    leaving, given = queue(pipe, VECOUT, 1, tile * whole * 4), queue(pipe, VECIN, 1, tile * whole * 4)
    float_buffer, work_buffer, int_buffer, half_buffer, wide_buffer = (buffer(pipe, up(rows, 16) * 4) for _ in range(5))
    local_mask, earlier = masks.AllocTensor(bool), before.AllocTensor(bool)
    new, old = leaving.AllocTensor(asc.float32), given.AllocTensor(asc.float32)
    plain = asc.DataCopyPadExtParams(False, 0, 0, 0)

    def copied_in(local, argument, dtype, at, blocks, size):
        params = asc.DataCopyExtParams(blocks, size * local.dtype.itemsize, 0, 0, 0)
        asc.DataCopyPad(local, gm(argument, dtype, at), params, plain)

    def true_in(local, n):
        narrow, wide = half_buffer.Get(asc.half), wide_buffer.Get(asc.float32)
        asc.Cast(narrow, local.ReinterpretCast(asc.uint8), asc.RoundMode.CAST_NONE, n)
        asc.Cast(wide, narrow, asc.RoundMode.CAST_NONE, n)
        asc.ReduceSum(float_buffer.Get(asc.float32), wide, work_buffer.Get(asc.float32), n)
        asc.Cast(int_buffer.Get(asc.int32), float_buffer.Get(asc.float32), asc.RoundMode.CAST_RINT, 1)
        asc.PipeBarrier(asc.PIPE_ALL)
        return int_buffer.Get(asc.int32).GetValue(0)

    used = 0
    if first:
        copied_in(earlier, mask, bool, 0, 1, first)
        asc.PipeBarrier(asc.PIPE_ALL)
        used = true_in(earlier, first)
    for at, n in pieces(count, tile):
        copied_in(local_mask, mask, bool, first + at, 1, n)
        copied_in(old, x, asc.float32, (first + at) * line, 1, n * line)
        asc.PipeBarrier(asc.PIPE_ALL)
        number = true_in(local_mask, n)
        if number:
            copied_in(new, updates, asc.float32, used * line, number, line)
        used += number
        asc.PipeBarrier(asc.PIPE_ALL)
        asc.DataCopyPad(gm(y, asc.float32, (first + at) * line), old, asc.DataCopyExtParams(1, n * line * 4, 0, 0, 0))
        asc.PipeBarrier(asc.PIPE_ALL)
        index = 0
        for row in range(n):
            if local_mask.GetValue(row):
                out = gm(y, asc.float32, (first + at + row) * line)
                asc.DataCopyPad(out, new[index * whole :], asc.DataCopyExtParams(1, line * 4, 0, 0, 0))
                index += 1
        asc.PipeBarrier(asc.PIPE_ALL)
    masks.FreeTensor(local_mask)
    before.FreeTensor(earlier)
    leaving.FreeTensor(new)
    given.FreeTensor(old)
