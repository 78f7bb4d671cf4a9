"""Kernels after folders of cann-samples: copies through queues, norms of rows, and attention on mixed cores."""

import numpy as np

from acl_py import asc
from public.cases import Data, buffer, follows, gm, handed_over, part_of_block, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
HALF, FLOAT = np.float16, np.float32
NO_PADDING = asc.DataCopyPadExtParams(False, 0, 0, 0)


def _add_data(rng):
    a, b = rng.normal(size=(2, 1_000)).astype(FLOAT)
    return Data({"a": a, "b": b, "length": 1_000}, {"c": a + b})


@follows("cann-samples/Samples/0_Introduction/vector_add", _add_data, blocks=3)
@asc.kernel
def vector_add(a: asc.In, b: asc.In, c: asc.Out, length: int):
    """Two queues in and one out, of two buffers each, and copies of any number of bytes."""
    pipe, tile = asc.TPipe(), 128
    first, count = part_of_block(length)
    a_queue, b_queue, c_queue = (queue(pipe, each, 2, tile * 4) for each in (VECIN, VECIN, VECOUT))
    for at, n in pieces(count, tile):
        params = asc.DataCopyExtParams(1, n * 4, 0, 0, 0)
        one, two = a_queue.AllocTensor(asc.float32), b_queue.AllocTensor(asc.float32)
        asc.DataCopyPad(one, gm(a, asc.float32, first + at), params, NO_PADDING)
        asc.DataCopyPad(two, gm(b, asc.float32, first + at), params, NO_PADDING)
        a_queue.EnQue(one)
        b_queue.EnQue(two)
        one, two, total = a_queue.DeQue(asc.float32), b_queue.DeQue(asc.float32), c_queue.AllocTensor(asc.float32)
        asc.Add(total, one, two, n)
        c_queue.EnQue(total)
        a_queue.FreeTensor(one)
        b_queue.FreeTensor(two)
        total = c_queue.DeQue(asc.float32)
        asc.DataCopyPad(gm(c, asc.float32, first + at), total, params)
        c_queue.FreeTensor(total)


def _copied_data(rng):
    x = rng.normal(size=3_000).astype(FLOAT)
    return Data({"x": x, "length": 3_000}, {"size": np.abs(x), "copy": x})


@follows("cann-samples/Samples/1_Features/hardware_features/mem_bandwidth/src", _copied_data, blocks=4)
@asc.kernel
def bandwidth(x: asc.In, size: asc.Out, copy: asc.Out, length: int):
    """Three loops over the data: read alone, through one queue from GM to GM, and through Abs between two queues."""
    pipe, tile, buffers = asc.TPipe(), 256, 4
    first, count = part_of_block(length)
    reading, through = queue(pipe, VECIN, buffers, tile * 4), asc.TQueBind(VECIN, VECOUT, 1)
    pipe.InitBuffer(through, buffers, tile * 4)
    arriving, leaving = queue(pipe, VECIN, buffers, tile * 4), queue(pipe, VECOUT, buffers, tile * 4)
    x_gm = gm(x, asc.float32, first, count)

    def copy_in(to, at, n):
        local = to.AllocTensor(asc.float32)
        asc.DataCopyPad(local, x_gm[at], asc.DataCopyExtParams(1, n * 4, 0, 0, 0), NO_PADDING)
        to.EnQue(local)
        return to.DeQue(asc.float32)

    def copy_out(out, of, at, n, local):
        asc.DataCopyPad(gm(out, asc.float32, first + at), local, asc.DataCopyExtParams(1, n * 4, 0, 0, 0))
        of.FreeTensor(local)

    for at, n in pieces(count, tile):
        reading.FreeTensor(copy_in(reading, at, n))
    for at, n in pieces(count, tile):
        copy_out(copy, through, at, n, copy_in(through, at, n))
    for at, n in pieces(count, tile):
        local, result = copy_in(arriving, at, n), leaving.AllocTensor(asc.float32)
        asc.Abs(result, local, n)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        copy_out(size, leaving, at, n, leaving.DeQue(asc.float32))


def _cache_data(rng):
    rows, dv, dk, eps = 5, 512, 64, 1e-5
    kv = rng.normal(size=(rows, dv + dk)).astype(HALF)
    gamma = rng.normal(size=dv).astype(HALF)
    cos, sin = rng.uniform(-1, 1, (2, rows, dk)).astype(HALF)
    index = np.array([3, -1, 0, 7, 2], np.int64)
    v = kv[:, :dv].astype(FLOAT)
    v_out = (v / np.sqrt((v * v).mean(axis=1, keepdims=True) + eps) * gamma).astype(HALF)
    left, right = kv[:, dv::2].astype(FLOAT), kv[:, dv + 1 :: 2].astype(FLOAT)
    k_out = np.concatenate([left, right], 1) * cos + np.concatenate([-right, left], 1) * sin
    k_cache, v_cache = np.zeros((8, dk), HALF), np.zeros((8, dv), HALF)
    kept = index >= 0
    wanted = {"k_cache": k_cache.copy(), "v_cache": v_cache.copy(), "k_out": k_out.astype(HALF), "v_out": v_out}
    wanted["k_cache"][index[kept]], wanted["v_cache"][index[kept]] = k_out[kept], v_out[kept]
    given = {
        "kv": kv, "gamma": gamma, "cos": cos, "sin": sin, "index": index, "k_cache": k_cache, "v_cache": v_cache,
        "rows": rows, "dv": dv, "dk": dk, "eps": eps,
    }  # fmt: skip
    return Data(given, wanted)


@follows(
    "cann-samples/Samples/2_Performance/kv_rms_norm_rope_cache_story/membase", _cache_data, blocks=2, tolerance=4e-3
)
@asc.kernel
def kv_rms_norm_rope_cache(
    kv: asc.In, gamma: asc.In, cos: asc.In, sin: asc.In, index: asc.In, k_cache: asc.InOut, v_cache: asc.InOut,
    k_out: asc.Out, v_out: asc.Out, rows: int, dv: int, dk: int, eps: float,
):  # fmt: skip
    """Keys get a rotary embedding and values RmsNorm; both go to rows of a cache, of which some are left out.

    Values of 512 are halved three times with repeats of 64 before WholeReduceSum; Brcb spreads the roots.
    """
    pipe, block, tile = asc.TPipe(), asc.GetBlockIdx(), 2
    first, count = part_of_block(rows)
    gamma_queue = queue(pipe, VECIN, 1, dv * 4 + dv * 2)
    in_queue, table_queue = queue(pipe, VECIN, 2, tile * (dv + dk) * 2), queue(pipe, VECIN, 2, tile * dk * 2 * 2)
    out_queue, scratch = queue(pipe, VECOUT, 2, tile * dv * 2), buffer(pipe, tile * (dv * 3 + dk * 8) * 4)
    kept = [int(gm(index, asc.int64).GetValue(row)) for row in range(first, first + count)]
    assert block < asc.GetBlockNum()
    weights = gamma_queue.AllocTensor(asc.float32)
    asc.DataCopy(weights[dv:].ReinterpretCast(asc.half), gm(gamma, asc.half), dv)
    gamma_queue.EnQue(weights)
    weights = gamma_queue.DeQue(asc.float32)
    asc.Cast(weights, weights[dv:].ReinterpretCast(asc.half), asc.RoundMode.CAST_NONE, dv)

    def rope(result, pairs, cosines, sines, n):
        room = scratch.Get(asc.float32)[tile * dv * 3 :]
        cos_wide, sin_wide, one, two, real, imag = (room[each * n * dk :] for each in range(6))
        halves = room[6 * n * dk :].ReinterpretCast(asc.half)
        real_half, imag_half = halves, halves[n * dk :]
        asc.Cast(cos_wide, cosines, asc.RoundMode.CAST_NONE, n * dk)
        asc.Cast(sin_wide, sines, asc.RoundMode.CAST_NONE, n * dk)
        for pattern, part in ((1, real_half), (2, imag_half)):
            asc.GatherMask(part, pairs, pattern, True, n * dk, asc.GatherMaskParams(1, 1, 8, 0))
        asc.Cast(real, real_half, asc.RoundMode.CAST_NONE, n * dk // 2)
        asc.Cast(imag, imag_half, asc.RoundMode.CAST_NONE, n * dk // 2)
        mask, strides, other = [2**32 - 1, 0], asc.BinaryRepeatParams(1, 1, 1, 8, 4, 8), dk // 2
        asc.Mul(one, real, cos_wide, mask, n, strides)
        asc.Mul(one[other:], imag, cos_wide[other:], mask, n, strides)
        asc.Muls(imag, imag, -1.0, n * dk // 2)
        asc.Mul(two, imag, sin_wide, mask, n, strides)
        asc.Mul(two[other:], real, sin_wide[other:], mask, n, strides)
        asc.Add(one, one, two, n * dk)
        asc.Cast(result, one, asc.RoundMode.CAST_RINT, n * dk)

    def rms_norm(result, values, n):
        wide, square, sums = (scratch.Get(asc.float32)[each * n * dv :] for each in range(3))
        asc.Cast(wide, values, asc.RoundMode.CAST_NONE, n * dv)
        asc.Mul(square, wide, wide, n * dv)
        for repeats in (4 * n, 2 * n, n):
            asc.Add(square, square, square[64:], 64, repeats, asc.BinaryRepeatParams(1, 1, 1, 8, 16, 16))
        asc.WholeReduceSum(sums, square, 64, n, 1, 1, 8)
        asc.Muls(sums, sums, 1 / dv, n)
        asc.Adds(sums, sums, eps, n)
        asc.Sqrt(sums, sums, n)
        asc.Brcb(square, sums, -(-n // 8), asc.BrcbRepeatParams(1, 8))
        for row in range(n):
            part = wide[row * dv :]
            asc.Div(part, part, square[row * 8 :], 64, dv // 64, asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0))
        for row in range(n):
            asc.Mul(wide[row * dv :], wide[row * dv :], weights, dv)
        asc.Cast(result, wide, asc.RoundMode.CAST_RINT, n * dv)

    def copy_out(cache, out, result, at, n, width):
        params = asc.DataCopyExtParams(1, width * 2, 0, 0, 0)
        for row in range(n):
            handed_over(asc.HardEvent.S_MTE3)
            if kept[at + row] >= 0:
                asc.DataCopyPad(gm(cache, asc.half, kept[at + row] * width), result[row * width :], params)
            asc.DataCopyPad(gm(out, asc.half, (first + at + row) * width), result[row * width :], params)

    for at, n in pieces(count, tile):
        start = (first + at) * (dv + dk)
        local = in_queue.AllocTensor(asc.half)
        pairs, values = local, local[n * dk :]
        params = asc.DataCopyExtParams(n, dv * 2, dk * 2, 0, 0)
        asc.DataCopyPad(values, gm(kv, asc.half, start), params, NO_PADDING)
        params = asc.DataCopyExtParams(n, dk * 2, dv * 2, 0, 0)
        asc.DataCopyPad(pairs, gm(kv, asc.half, start + dv), params, NO_PADDING)
        in_queue.EnQue(local)
        local = in_queue.DeQue(asc.half)
        tables = table_queue.AllocTensor(asc.half)
        asc.DataCopy(tables, gm(cos, asc.half, (first + at) * dk), n * dk)
        asc.DataCopy(tables[n * dk :], gm(sin, asc.half, (first + at) * dk), n * dk)
        table_queue.EnQue(tables)
        tables = table_queue.DeQue(asc.half)
        result = out_queue.AllocTensor(asc.half)
        rope(result, pairs, tables, tables[n * dk :], n)
        out_queue.EnQue(result)
        result = out_queue.DeQue(asc.half)
        copy_out(k_cache, k_out, result, at, n, dk)
        out_queue.FreeTensor(result)
        table_queue.FreeTensor(tables)
        result = out_queue.AllocTensor(asc.half)
        rms_norm(result, values, n)
        out_queue.EnQue(result)
        result = out_queue.DeQue(asc.half)
        copy_out(v_cache, v_out, result, at, n, dv)
        out_queue.FreeTensor(result)
        in_queue.FreeTensor(local)
    gamma_queue.FreeTensor(weights)


def _norm_quant_data(rng):
    rows, width, eps = 3, 200, 1e-6
    x, gamma = rng.normal(size=(rows, width)).astype(HALF), rng.normal(size=width).astype(HALF)
    scale, offset = np.array([20], HALF), np.array([3], np.int8)
    wide = x.astype(FLOAT)
    y = (
        wide / np.sqrt((wide * wide).sum(1, keepdims=True) * FLOAT(1 / width) + FLOAT(eps)) * gamma.astype(FLOAT) * 20
        + 3
    )
    given = {"x": x, "gamma": gamma, "scale": scale, "offset": offset, "rows": rows, "width": width, "eps": eps}
    return Data(given, {"y": np.rint(y.astype(HALF)).clip(-128, 127).astype(np.int8)})


@follows("cann-samples/Samples/2_Performance/rms_norm_quant_story/src", _norm_quant_data)
@asc.kernel(auto_sync=True)
def rms_norm_quant(
    x: asc.In, gamma: asc.In, scale: asc.In, offset: asc.In, y: asc.Out, rows: int, width: int, eps: float
):
    """RmsNorm to bytes, each row by itself. The sum's scratch is the buffer of x, and a cast narrows in place.

    The folder lets Duplicate take the sum from a tensor, which Atlas A2 does not have: here the scalar pipe reads it.
    """
    pipe = asc.TPipe()
    x_queue, gamma_queue, y_queue = (queue(pipe, each, 1, up(width * 2, 32)) for each in (VECIN, VECIN, VECOUT))
    wide, weights, root = (buffer(pipe, up(width, 8) * 4).Get(asc.float32) for _ in range(3))
    total = buffer(pipe, 32).Get(asc.float32)
    factor, added = float(gm(scale, asc.half).GetValue(0)), float(gm(offset, asc.int8).GetValue(0))
    params = asc.DataCopyExtParams(1, width * 2, 0, 0)
    for row in range(rows):
        for given, to, at in ((gamma, gamma_queue, 0), (x, x_queue, row * width)):
            local = to.AllocTensor(asc.half)
            asc.DataCopyPad(local, gm(given, asc.half, at), params, NO_PADDING)
            to.EnQue(local)
        local, narrow = x_queue.DeQue(asc.half), gamma_queue.DeQue(asc.half)
        result = y_queue.AllocTensor(asc.int8)
        asc.Cast(weights, narrow, asc.RoundMode.CAST_NONE, width)
        asc.Cast(wide, local, asc.RoundMode.CAST_NONE, width)
        asc.Mul(root, wide, wide, width)
        asc.ReduceSum(total, root, local.ReinterpretCast(asc.float32), width)
        asc.Duplicate(root, float(total.GetValue(0)), width)
        asc.Muls(root, root, 1 / width, width)
        asc.Adds(root, root, eps, width)
        asc.Sqrt(root, root, width)
        asc.Div(wide, wide, root, width)
        asc.Mul(root, wide, weights, width)
        asc.Muls(root, root, factor, width)
        asc.Adds(root, root, added, width)
        half_root = root.ReinterpretCast(asc.half)
        asc.Cast(half_root, root, asc.RoundMode.CAST_NONE, width)
        asc.Cast(result, half_root, asc.RoundMode.CAST_RINT, width)
        x_queue.FreeTensor(local)
        gamma_queue.FreeTensor(narrow)
        y_queue.EnQue(result)
        result = y_queue.DeQue(asc.int8)
        asc.DataCopyPad(gm(y, asc.int8, row * width), result, asc.DataCopyExtParams(1, width, 0, 0, 0))
        y_queue.FreeTensor(result)


def _attention_data(rng):
    br, bc, d, blocks = 32, 32, 64, 3
    q, k, v = (rng.normal(size=(n, d)).astype(HALF) for n in (br, bc * blocks, bc * blocks))
    scores = (k.astype(FLOAT) @ q.astype(FLOAT).T) / 8
    weights = np.exp(scores - scores.max(axis=0))
    out = (weights / weights.sum(axis=0)).T @ v.astype(FLOAT)
    given = {
        "q": q, "k": k, "v": v, "scores": np.zeros((bc, br), FLOAT), "weights": np.zeros((bc, br), HALF),
        "part": np.zeros((br, d), FLOAT), "sizes": (br, bc, d, blocks),
    }  # fmt: skip
    return Data(given, {"out": out})


@follows(
    "cann-samples/Samples/2_Performance/flash_attn_lite_story/src/v0/kernel", _attention_data, blocks=1, tolerance=4e-3
)
@asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
def flash_attn_lite(
    q: asc.In, k: asc.In, v: asc.In, scores: asc.InOut, weights: asc.InOut, part: asc.InOut, out: asc.Out, sizes: tuple
):
    """Attention in two products, with online softmax between them on two vector cores: scores lie key by key.

    The folder's vector cores work in registers of Ascend 950; here instructions on UB do the same steps. The flags
    between cores, and all of the cube core, are as there.
    """
    if asc.ASCEND_IS_AIC():
        _products(q, k, v, scores, weights, part, sizes)
    else:
        _softmax(scores, weights, part, out, sizes)
    asc.PipeBarrier(asc.PIPE_ALL)


SCORES_READY, PART_READY, DONE, WEIGHTS_READY = 0, 1, 2, 4  # flags between the cores of a block


def _handed(event, event_id=0):
    asc.SetFlag(event, event_id)
    asc.WaitFlag(event, event_id)


def _products(q, k, v, scores, weights, part, sizes):
    br, bc, d, blocks = sizes
    q1, k1, v1, p1 = (asc.LocalTensor(asc.half, asc.TPosition.A1, each * 65_536, 8_192) for each in range(4))
    a2, b2 = (asc.LocalTensor(asc.half, each, 0, 8_192) for each in (asc.TPosition.A2, asc.TPosition.B2))
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 4_096)

    def to_l1(local, given, rows, columns, at=0):
        asc.DataCopy(local, gm(given, asc.half, at), asc.Nd2NzParams(1, rows, columns, 0, columns, rows, 1, 0))

    def by_rows(local, rows, columns, transposes):
        """To L0A in Zz; with *transposes*, the transpose of what lies in L1."""
        for row in range((columns if transposes else rows) // 16):
            if transposes:
                params, at = asc.LoadData2DParams(0, rows // 16, 1, 0, True), row * rows * 16
            else:
                params, at = asc.LoadData2DParams(0, columns // 16, rows // 16, 0, False), row * 256
            asc.LoadData(a2[row * (rows if transposes else columns) * 16 :], local[at:], params)

    to_l1(q1, q, br, d)
    _handed(asc.HardEvent.MTE2_MTE1)
    for block in range(blocks):
        if block:
            asc.CrossCoreWaitFlag(DONE)
        to_l1(k1, k, bc, d, block * bc * d)
        _handed(asc.HardEvent.MTE2_MTE1, 1)
        by_rows(k1, bc, d, False)
        asc.LoadData(b2, q1, asc.LoadData2DParams(0, br * d // 256, 1, 0, False))
        _handed(asc.HardEvent.MTE1_M)
        asc.Mmad(total, a2, b2, asc.MmadParams(bc, br, d))
        _handed(asc.HardEvent.M_FIX)
        asc.Fixpipe(gm(scores, asc.float32), total, asc.FixpipeParams(br, bc, bc, br))
        asc.PipeBarrier(asc.PIPE_FIX)
        asc.CrossCoreSetFlag(2, asc.PIPE_FIX, SCORES_READY)
        asc.CrossCoreWaitFlag(WEIGHTS_READY)
        to_l1(p1, weights, bc, br)
        to_l1(v1, v, bc, d, block * bc * d)
        _handed(asc.HardEvent.MTE2_MTE1, 2)
        _handed(asc.HardEvent.M_MTE1)
        by_rows(p1, bc, br, True)
        for row in range(bc // 16):
            asc.LoadData(b2[row * d * 16 :], v1[row * 256 :], asc.LoadData2DParams(0, d // 16, bc // 16, 0, True))
        _handed(asc.HardEvent.MTE1_M, 1)
        _handed(asc.HardEvent.FIX_M)
        asc.Mmad(total, a2, b2, asc.MmadParams(br, d, bc))
        _handed(asc.HardEvent.M_FIX, 1)
        asc.Fixpipe(gm(part, asc.float32), total, asc.FixpipeParams(d, br, br, d))
        asc.PipeBarrier(asc.PIPE_FIX)
        asc.CrossCoreSetFlag(2, asc.PIPE_FIX, PART_READY)
        for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1, asc.HardEvent.FIX_M):
            _handed(event)
    asc.CrossCoreWaitFlag(DONE)


def _softmax(scores, weights, part, out, sizes):
    br, bc, d, blocks = sizes
    rows = br // 2
    base = asc.GetSubBlockIdx() * rows
    shapes = (bc * rows, rows * d, rows * d, rows, rows, rows, rows, rows * 8)
    starts = np.cumsum([0, *(up(each * 4, 32) for each in shapes)])
    score, added, total, most, sums, old, factor, spread = (
        asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, int(at), size)
        for at, size in zip(starts, shapes, strict=False)
    )
    narrow = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, int(starts[-1]), bc * rows)

    def by_row(instruction, of, numbers):
        asc.Brcb(spread, numbers, rows // 8, asc.BrcbRepeatParams(1, 8))
        for row in range(rows):
            place = of[row * d :]
            instruction(place, place, spread[row * 8 :], d, 1, asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0))

    asc.Duplicate(total, 0.0, rows * d)
    asc.Duplicate(most, -1e30, rows)
    asc.Duplicate(sums, 0.0, rows)
    for _ in range(blocks):
        asc.CrossCoreWaitFlag(SCORES_READY)
        columns = asc.DataCopyParams(bc, rows * 4 // 32, (br - rows) * 4 // 32, 0)
        asc.DataCopy(score, gm(scores, asc.float32, base), columns)
        _handed(asc.HardEvent.MTE2_V)
        asc.Muls(score, score, 1 / 8, bc * rows)
        asc.Muls(old, most, 1.0, rows)
        for key in range(bc):
            asc.Max(most, most, score[key * rows :], rows)
        asc.Sub(factor, old, most, rows)
        asc.Exp(factor, factor, rows)
        asc.Mul(sums, sums, factor, rows)
        for key in range(bc):
            place = score[key * rows :]
            asc.Sub(place, place, most, rows)
            asc.Exp(place, place, rows)
            asc.Add(sums, sums, place, rows)
        asc.Cast(narrow, score, asc.RoundMode.CAST_RINT, bc * rows)
        _handed(asc.HardEvent.V_MTE3, 1)
        columns = asc.DataCopyParams(bc, rows * 2 // 32, 0, (br - rows) * 2 // 32)
        asc.DataCopy(gm(weights, asc.half, base), narrow, columns)
        _handed(asc.HardEvent.MTE3_V, 1)
        asc.CrossCoreSetFlag(2, asc.PIPE_MTE3, WEIGHTS_READY)
        asc.CrossCoreWaitFlag(PART_READY)
        asc.DataCopy(added, gm(part, asc.float32, base * d), rows * d)
        _handed(asc.HardEvent.MTE2_V)
        by_row(asc.Mul, total, factor)
        asc.Add(total, total, added, rows * d)
        _handed(asc.HardEvent.V_MTE2)
        asc.CrossCoreSetFlag(2, asc.PIPE_V, DONE)
    by_row(asc.Div, total, sums)
    _handed(asc.HardEvent.V_MTE3, 1)
    asc.DataCopy(gm(out, asc.float32, base * d), total, rows * d)


def _matmul_data(rng):
    m, k, n = 80, 112, 96
    a, b = rng.integers(-3, 4, (m, k)).astype(HALF), rng.integers(-3, 4, (k, n)).astype(HALF)
    return Data({"a": a, "b": b, "m": m, "k": k, "n": n}, {"c": a.astype(FLOAT) @ b.astype(FLOAT)})


@follows("cann-samples/Samples/0_Introduction/matmul", _matmul_data, blocks=2)
@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def matmul_tiles(a: asc.In, b: asc.In, c: asc.Out, m: int, k: int, n: int):
    """Blocks take tiles of C in turn: chunks of k come to L1, and parts of these to L0, with one flag for each pair.

    The folder says what lies where with layouts of its tensor library; here they are parameters of the copies.
    """
    base_m, base_n, base_k, chunk = 32, 48, 16, 64
    across = -(-n // base_n)
    a1, b1 = (
        asc.LocalTensor(asc.half, place, at, size * chunk)
        for place, at, size in ((asc.TPosition.A1, 0, base_m), (asc.TPosition.B1, 65_536, base_n))
    )
    a2, b2 = (
        asc.LocalTensor(asc.half, place, 0, size * base_k)
        for place, size in ((asc.TPosition.A2, base_m), (asc.TPosition.B2, base_n))
    )
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, base_m * base_n)
    for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1, asc.HardEvent.FIX_M):
        asc.SetFlag(event, 0)
    for tile in range(asc.GetBlockIdx(), -(-m // base_m) * across, asc.GetBlockNum()):
        top, left = tile // across * base_m, tile % across * base_n
        height, width = min(base_m, m - top), min(base_n, n - left)
        asc.WaitFlag(asc.HardEvent.FIX_M, 0)
        for at, deep in pieces(k, chunk):
            asc.WaitFlag(asc.HardEvent.MTE1_MTE2, 0)
            params = asc.Nd2NzParams(1, height, deep, 0, k, height, 1, 0)
            asc.DataCopy(a1, gm(a, asc.half, top * k + at), params)
            asc.DataCopy(b1, gm(b, asc.half, at * n + left), asc.Nd2NzParams(1, deep, width, 0, n, deep, 1, 0))
            _handed(asc.HardEvent.MTE2_MTE1)
            for inner, _ in pieces(deep, base_k):
                asc.WaitFlag(asc.HardEvent.M_MTE1, 0)
                # One column of fractals of A, and one row of them of B, which are turned.
                asc.LoadData(a2, a1[inner * height :], asc.LoadData2DParams(0, height // 16, 1, 0, False))
                asc.LoadData(b2, b1[inner * 16 :], asc.LoadData2DParams(0, width // 16, deep // 16, 0, True))
                _handed(asc.HardEvent.MTE1_M)
                asc.Mmad(total, a2, b2, asc.MmadParams(height, width, base_k, at + inner == 0))
                asc.SetFlag(asc.HardEvent.M_MTE1, 0)
            asc.SetFlag(asc.HardEvent.MTE1_MTE2, 0)
        _handed(asc.HardEvent.M_FIX)
        asc.Fixpipe(gm(c, asc.float32, top * n + left), total, asc.FixpipeParams(width, height, height, n))
        asc.SetFlag(asc.HardEvent.FIX_M, 0)
    for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1, asc.HardEvent.FIX_M):
        asc.WaitFlag(event, 0)
