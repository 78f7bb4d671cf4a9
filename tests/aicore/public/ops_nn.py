"""Kernels after folders of ops-nn: foreach, activations, losses, indices, and norms of rows."""

import numpy as np

from acl_py import asc
from public.cases import Data, buffer, follows, gm, handed_over, part_of_block, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
HALF, FLOAT = np.float16, np.float32


def _addcmul_data(rng):
    a, b, c = rng.normal(size=(3, 500)).astype(FLOAT)
    return Data({"a": a, "b": b, "c": c, "scalar": 1.5, "length": 500}, {"z": a + b * c * FLOAT(1.5)})


@follows("ops-nn/foreach/foreach_addcmul_list/op_kernel", _addcmul_data, blocks=2, tolerance=1e-5)
@asc.kernel
def addcmul_list(a: asc.In, b: asc.In, c: asc.In, z: asc.Out, scalar: float, length: int):
    """z = a + scalar * b * c: the sum stays in the tensor of a, and is copied within UB."""
    pipe, per_block, tile = asc.TPipe(), 8, 128
    first, count = part_of_block(length, per_block)
    arriving = [queue(pipe, VECIN, 2, tile * 4) for _ in range(3)]
    leaving = queue(pipe, VECOUT, 2, tile * 4)
    for at, n in pieces(count, tile):
        for given, each in zip((a, b, c), arriving, strict=True):
            local = each.AllocTensor(asc.float32)
            asc.DataCopyPad(local, gm(given, asc.float32, first + at), asc.DataCopyExtParams(1, n * 4, 0, 0))
            each.EnQue(local)
        one, two, three = [each.DeQue(asc.float32) for each in arriving]
        result = leaving.AllocTensor(asc.float32)
        asc.Mul(two, two, three, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Axpy(one, two, scalar, n)
        if result.GetPhyAddr() != one.GetPhyAddr():
            asc.PipeBarrier(asc.PIPE_V)
            asc.DataCopy(result, one, up(n, per_block))
        leaving.EnQue(result)
        for each, local in zip(arriving, (one, two, three), strict=True):
            each.FreeTensor(local)
        result = leaving.DeQue(asc.float32)
        asc.DataCopyPad(gm(z, asc.float32, first + at), result, asc.DataCopyExtParams(1, n * 4, 0, 0))
        leaving.FreeTensor(result)


def _swish_data(rng):
    x = rng.normal(size=1_600).astype(HALF)
    wide = x.astype(FLOAT)
    return Data({"x": x, "scale": 1.2, "length": 1_600}, {"y": (wide / (1 + np.exp(-1.2 * wide))).astype(HALF)})


@follows("ops-nn/experimental/activation/swish/op_kernel", _swish_data, blocks=3, tolerance=2e-3)
@asc.kernel
def swish(x: asc.In, y: asc.Out, scale: float, length: int):
    """y = x / (1 + exp(-scale * x)), computed in float."""
    pipe, tile = asc.TPipe(), 256
    first, count = part_of_block(length, 16)
    arriving, leaving = queue(pipe, VECIN, 2, tile * 2), queue(pipe, VECOUT, 2, tile * 2)
    wide_x, wide_y = buffer(pipe, tile * 4), buffer(pipe, tile * 4)
    x_gm, y_gm = gm(x, asc.half, first, count), gm(y, asc.half, first, count)
    for at, n in pieces(count, tile):
        local = arriving.AllocTensor(asc.half)
        asc.DataCopy(local, x_gm[at], n)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
        one, two = wide_x.Get(asc.float32), wide_y.Get(asc.float32)
        asc.Cast(one, local, asc.RoundMode.CAST_NONE, n)
        asc.Muls(two, one, -scale, n)
        asc.Exp(two, two, n)
        asc.Adds(two, two, 1.0, n)
        asc.Div(two, one, two, n)
        asc.Cast(result, two, asc.RoundMode.CAST_ROUND, n)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopy(y_gm[at], result, n)
        leaving.FreeTensor(result)


def _softmax_grad_data(rng):
    rows, width = 7, 100
    y, dy = rng.uniform(size=(rows, width)).astype(FLOAT), rng.normal(size=(rows, width)).astype(FLOAT)
    y /= y.sum(axis=1, keepdims=True)
    dx = y * (dy - (y * dy).sum(axis=1, keepdims=True))
    return Data({"y": y, "dy": dy, "rows": rows, "width": width}, {"dx": dx})


@follows("ops-nn/experimental/loss/softmax_grad/op_kernel", _softmax_grad_data, blocks=3, tolerance=1e-6)
@asc.kernel(auto_sync=True)
def softmax_grad(y: asc.In, dy: asc.In, dx: asc.Out, rows: int, width: int):
    """Gradient of softmax for each row; the scalar pipe reads the sum that the row needs.

    The vendor's compiler lets the next row's sum wait until the scalar pipe has read this one.
    """
    pipe, padded = asc.TPipe(), up(width, 8)
    first, count = part_of_block(rows)
    y_queue, dy_queue = queue(pipe, VECIN, 2, padded * 4), queue(pipe, VECIN, 2, padded * 4)
    dx_queue = queue(pipe, VECOUT, 2, padded * 4)
    products, sums = buffer(pipe, padded * 4), buffer(pipe, up(-(-padded // 64), 8) * 4)
    params = asc.DataCopyExtParams(1, width * 4, 0, 0)
    padding = asc.DataCopyPadExtParams(True, 0, padded - width, 0)
    for row in range(first, first + count):
        y_row, dy_row = y_queue.AllocTensor(asc.float32), dy_queue.AllocTensor(asc.float32)
        asc.DataCopyPad(y_row, gm(y, asc.float32, row * width), params, padding)
        asc.DataCopyPad(dy_row, gm(dy, asc.float32, row * width), params, padding)
        y_queue.EnQue(y_row)
        dy_queue.EnQue(dy_row)
        y_row, dy_row = y_queue.DeQue(asc.float32), dy_queue.DeQue(asc.float32)
        product, total = products.Get(asc.float32), sums.Get(asc.float32)
        asc.Mul(product, y_row, dy_row, padded)
        asc.ReduceSum(total, product, total, padded)
        handed_over(asc.HardEvent.V_S)
        dot = total.GetValue(0)
        asc.Adds(product, dy_row, -dot, padded)
        dx_row = dx_queue.AllocTensor(asc.float32)
        asc.Mul(dx_row, y_row, product, padded)
        dx_queue.EnQue(dx_row)
        dx_row = dx_queue.DeQue(asc.float32)
        asc.DataCopyPad(gm(dx, asc.float32, row * width), dx_row, params)
        dx_queue.FreeTensor(dx_row)
        y_queue.FreeTensor(y_row)
        dy_queue.FreeTensor(dy_row)


def _huber_data(rng):
    x, target = rng.normal(0, 2, (2, 600)).astype(FLOAT)
    off = np.abs(x - target)
    loss = np.where(off <= 0.75, 0.5 * off * off, 0.75 * (off - 0.375)).astype(FLOAT)
    return Data({"x": x, "target": target, "delta": 0.75, "length": 600}, {"loss": loss})


@follows("ops-nn/experimental/loss/huber_loss/op_kernel", _huber_data, blocks=2, tolerance=1e-6)
@asc.kernel
def huber_loss(x: asc.In, target: asc.In, loss: asc.Out, delta: float, length: int):
    """Quadratic near the target and linear further off; Select chooses by the bits of CompareScalar."""
    pipe, tile = asc.TPipe(), 128
    first, count = part_of_block(length, 8)
    x_queue, target_queue = queue(pipe, VECIN, 2, tile * 4), queue(pipe, VECIN, 2, tile * 4)
    loss_queue = queue(pipe, VECOUT, 2, tile * 4)
    off_buffer, size_buffer, near_buffer, far_buffer = (buffer(pipe, tile * 4) for _ in range(4))
    bits_buffer = buffer(pipe, tile)
    for at, n in pieces(count, tile):
        params, padding = asc.DataCopyExtParams(1, n * 4, 0, 0, 0), asc.DataCopyPadExtParams(True, 0, 0, 0)
        a, b = x_queue.AllocTensor(asc.float32), target_queue.AllocTensor(asc.float32)
        asc.DataCopyPad(a, gm(x, asc.float32, first + at), params, padding)
        asc.DataCopyPad(b, gm(target, asc.float32, first + at), params, padding)
        x_queue.EnQue(a)
        target_queue.EnQue(b)
        a, b, out = x_queue.DeQue(asc.float32), target_queue.DeQue(asc.float32), loss_queue.AllocTensor(asc.float32)
        off, size = off_buffer.Get(asc.float32), size_buffer.Get(asc.float32)
        near, far = near_buffer.Get(asc.float32), far_buffer.Get(asc.float32)
        bits = bits_buffer.Get(asc.uint8)
        asc.Sub(off, a, b, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Abs(size, off, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Mul(near, off, off, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Muls(near, near, 0.5, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Adds(far, size, -0.5 * delta, n)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Muls(far, far, delta, n)
        asc.PipeBarrier(asc.PIPE_V)
        width = min(n, 64)
        repeats = -(-n // width)
        asc.CompareScalar(bits, size, delta, asc.CMPMODE.LE, width, repeats, asc.UnaryRepeatParams(1, 1, 8, 8))
        asc.PipeBarrier(asc.PIPE_V)
        mode, strides = asc.SELMODE.VSEL_TENSOR_TENSOR_MODE, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8)
        asc.Select(out, bits, near, far, mode, width, repeats, strides)
        loss_queue.EnQue(out)
        x_queue.FreeTensor(a)
        target_queue.FreeTensor(b)
        out = loss_queue.DeQue(asc.float32)
        asc.DataCopyPad(gm(loss, asc.float32, first + at), out, params)
        loss_queue.FreeTensor(out)


def _l2_data(rng):
    x = rng.normal(size=1_000).astype(FLOAT)
    zeros = np.zeros(16, FLOAT)
    total = (x.astype(np.float64) ** 2).sum() / 2
    return Data({"x": x, "workspace": zeros, "length": 1_000}, {"z": np.array([total], FLOAT)})


@follows("ops-nn/experimental/loss/l2_loss/op_kernel", _l2_data, blocks=4, tolerance=1e-5)
@asc.kernel(auto_sync=True)
def l2_loss(x: asc.In, z: asc.Out, workspace: asc.InOut, length: int):
    """Half of the sum of squares. Blocks add theirs to the workspace with atomic copies, and block 0 writes the result.

    The scalar pipe reads sums and writes them without a flag: the vendor's compiler inserts these.
    """
    tile, line = 128, 16
    pipe = asc.TPipe()
    first, count = part_of_block(length, 8)
    x_gm, work_gm = gm(x, asc.float32, first, count), gm(workspace, asc.float32, 0, line)
    if asc.GetBlockIdx() == 0:
        asc.Fill(work_gm, line, 0.0)
    asc.SyncAll()
    arriving = queue(pipe, VECIN, 2, tile * 4, depth=2)
    work_buffer, sum_buffer = buffer(pipe, line * 4), buffer(pipe, line * 4)
    work, tile_sum = work_buffer.Get(asc.float32), sum_buffer.Get(asc.float32)
    total = 0.0
    parts = list(pieces(count, tile))

    def copy_in(at, n):
        local = arriving.AllocTensor(asc.float32)
        if n < tile:
            params, padding = asc.DataCopyExtParams(1, n * 4, 0, 0), asc.DataCopyPadExtParams(True, 0, 0, 0)
            asc.DataCopyPad(local, x_gm[at], params, padding)
        else:
            asc.DataCopy(local, x_gm[at], tile)
        arriving.EnQue(local)

    copy_in(*parts[0])
    for place, (_, n) in enumerate(parts):
        if place + 1 < len(parts):
            copy_in(*parts[place + 1])
        local = arriving.DeQue(asc.float32)
        wide = local.ReinterpretCast(asc.float32)
        asc.Muls(wide, wide, 0.5**0.5, n)
        asc.Mul(wide, wide, wide, n)
        asc.ReduceSum(tile_sum, wide, work, n)
        total += tile_sum.GetValue(0)
        arriving.FreeTensor(local)
    asc.Duplicate(work, 0.0, line)
    work.SetValue(0, total)
    asc.SetAtomicAdd(asc.float32)
    asc.DataCopy(work_gm, work, line)
    asc.SetAtomicNone()
    asc.DataCacheCleanAndInvalid(work_gm)
    asc.SyncAll()
    if asc.GetBlockIdx() == 0:
        work.SetValue(0, work_gm.GetValue(0))
        asc.DataCopyPad(gm(z, asc.float32, 0, 1), work, asc.DataCopyExtParams(1, 4, 0, 0))
