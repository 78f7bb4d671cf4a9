"""Kernels after folders of ops-transformer: routing of tokens, rotary embeddings, norms, and products behind others."""

import numpy as np

from acl_py import asc
from device_model.profile import load
from public.cases import Data, buffer, follows, gm, handed_over, part_of_block, pieces, queue, up

VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
HALF, FLOAT = np.float16, np.float32
SPEC = load("ascend910b1").aicore
NO_PADDING = asc.DataCopyPadExtParams(False, 0, 0, 0)


def _routing_data(rng):
    ranks, experts, width = 3, 4, 40
    counts = rng.integers(0, 6, (ranks, experts)).astype(np.int32)
    total = int(counts.sum())
    tokens = rng.normal(size=(total, width)).astype(HALF)
    starts = np.concatenate([[0], np.cumsum(counts.ravel())[:-1]]).reshape(ranks, experts)
    order = [
        starts[rank, expert] + each
        for expert in range(experts) for rank in range(ranks) for each in range(counts[rank, expert])
    ]  # fmt: skip
    given = {"tokens": tokens, "counts": counts, "ranks": ranks, "experts": experts, "width": width}
    return Data(given, {"routed": tokens[order], "places": np.array(order, np.int32), "sums": counts.sum(0, np.int32)})


@follows("ops-transformer/moe/moe_re_routing/op_kernel", _routing_data, blocks=2)
@asc.kernel
def moe_re_routing(
    tokens: asc.In,
    counts: asc.In,
    routed: asc.Out,
    places: asc.Out,
    sums: asc.Out,
    ranks: int,
    experts: int,
    width: int,
):
    """Tokens by rank become tokens by expert. The scalar pipe adds counts up, and a TQueBind copies through."""
    pipe, rows = asc.TPipe(), 2
    through = asc.TQueBind(VECIN, VECOUT, 1)
    pipe.InitBuffer(through, 2, up(rows * width * 2, 32))
    place_queue = queue(pipe, VECOUT, 2, rows * 4)
    counts_gm, sums_gm = gm(counts, asc.int32), gm(sums, asc.int32)
    for rank in range(asc.GetBlockIdx(), ranks, asc.GetBlockNum()):
        source, target = 0, 0
        for earlier in range(rank * experts):
            source += int(counts_gm.GetValue(earlier))
        for expert in range(experts):
            count = int(counts_gm.GetValue(rank * experts + expert))
            for earlier in range(rank):
                target += int(counts_gm.GetValue(earlier * experts + expert))
            for at, n in pieces(count, rows):
                local = through.AllocTensor(asc.half)
                params = asc.DataCopyExtParams(1, n * width * 2, 0, 0, 0)
                asc.DataCopyPad(local, gm(tokens, asc.half, (source + at) * width), params, NO_PADDING)
                through.EnQue(local)
                index = place_queue.AllocTensor(asc.int32)
                asc.CreateVecIndex(index, source + at, n)
                place_queue.EnQue(index)
                index = place_queue.DeQue(asc.int32)
                asc.DataCopyPad(gm(places, asc.int32, target + at), index, asc.DataCopyExtParams(1, n * 4, 0, 0, 0))
                place_queue.FreeTensor(index)
                local = through.DeQue(asc.half)
                asc.DataCopyPad(gm(routed, asc.half, (target + at) * width), local, params)
                through.FreeTensor(local)
            source += count
            for later in range(rank, ranks):
                target += int(counts_gm.GetValue(later * experts + expert))
        if rank == 0:
            for expert in range(experts):
                sums_gm.SetValue(expert, 0)
            for place in range(ranks * experts):
                expert = place % experts
                sums_gm.SetValue(expert, sums_gm.GetValue(expert) + counts_gm.GetValue(place))
            asc.DataCacheCleanAndInvalid(sums_gm)


def _permute_data(rng):
    tokens, top_k, hidden = 12, 3, 70
    index = rng.permutation(tokens * top_k).astype(np.int32)
    kept = 30  # rows beyond it were dropped
    grad = rng.normal(size=(kept, hidden)).astype(HALF)
    wide = np.concatenate([grad.astype(FLOAT), np.zeros((tokens * top_k - kept, hidden), FLOAT)])
    wanted = wide[index].reshape(tokens, top_k, hidden).sum(axis=1).astype(HALF)
    given = {"grad": grad, "index": index, "tokens": tokens, "top_k": top_k, "hidden": hidden, "kept": kept}
    return Data(given, {"out": wanted})


@follows("ops-transformer/moe/moe_token_permute_grad/op_kernel", _permute_data, blocks=3, tolerance=2e-3)
@asc.kernel(auto_sync=True)
def moe_token_permute_grad(grad: asc.In, index: asc.In, out: asc.Out, tokens: int, top_k: int, hidden: int, kept: int):
    """Gradients of a token are those of its copies, added up. The scalar pipe reads where they are."""
    pipe, aligned = asc.TPipe(), up(hidden, 256)
    first, count = part_of_block(tokens)
    token_queue, index_queue = queue(pipe, VECIN, 2, aligned * 2), queue(pipe, VECIN, 1, up(count * top_k * 4, 32))
    out_queue = queue(pipe, VECOUT, 1, aligned * 2)
    total = buffer(pipe, aligned * 4 + 256).Get(asc.float32)
    other = buffer(pipe, aligned * 4).Get(asc.float32)
    indices = index_queue.AllocTensor(asc.int32)
    params = asc.DataCopyExtParams(1, count * top_k * 4, 0, 0, 0)
    asc.DataCopyPad(indices, gm(index, asc.int32, first * top_k), params, NO_PADDING)
    index_queue.EnQue(indices)
    indices = index_queue.DeQue(asc.int32)
    row = asc.DataCopyExtParams(1, hidden * 2, 0, 0, 0)

    def copy_in(place):
        local = token_queue.AllocTensor(asc.half)
        asc.DataCopyPad(local, gm(grad, asc.half, place * hidden), row, NO_PADDING)
        token_queue.EnQue(local)
        asc.PipeBarrier(asc.PIPE_V)
        return token_queue.DeQue(asc.half)

    for token in range(count):
        place = int(indices.GetValue(token * top_k))
        if place < kept:
            local = copy_in(place)
            asc.Cast(total, local, asc.RoundMode.CAST_NONE, hidden)
            token_queue.FreeTensor(local)
        else:
            asc.PipeBarrier(asc.PIPE_V)
            asc.Duplicate(total, 0.0, hidden)
        for copy in range(1, top_k):
            place = int(indices.GetValue(token * top_k + copy))
            if place < kept:
                local = copy_in(place)
                asc.Cast(other, local, asc.RoundMode.CAST_NONE, hidden)
                token_queue.FreeTensor(local)
                asc.PipeBarrier(asc.PIPE_V)
                asc.Add(total, total, other, hidden)
        result = out_queue.AllocTensor(asc.half)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(result, total, asc.RoundMode.CAST_RINT, hidden)
        out_queue.EnQue(result)
        result = out_queue.DeQue(asc.half)
        asc.DataCopyPad(gm(out, asc.half, (first + token) * hidden), result, row)
        out_queue.FreeTensor(result)
    index_queue.FreeTensor(indices)


def _rope(x, cos, sin):
    """x * cos + (its halves exchanged, the first negated) * sin, in halves."""
    left, right = np.split(x, 2, axis=-1)
    return (np.concatenate([-right, left], axis=-1) * sin).astype(HALF) + (x * cos).astype(HALF)


def _rope_quant_data(rng):
    heads, hidden = 3, 64
    x = rng.normal(size=(2, heads, hidden)).astype(HALF)
    cos, sin = rng.uniform(-1, 1, (2, 2, 1, hidden)).astype(HALF)
    scale = rng.uniform(0.02, 0.05, hidden).astype(FLOAT)
    offset = rng.integers(-5, 5, hidden).astype(np.int32)
    wide = _rope(x, cos, sin).astype(FLOAT) / scale + offset
    cache = np.rint(wide).astype(np.int16).astype(HALF).clip(-128, 127).astype(np.int8)
    given = {"x": x, "cos": cos, "sin": sin, "scale": scale, "offset": offset, "heads": heads, "hidden": hidden}
    return Data(given, {"cache": cache})


@follows("ops-transformer/posembedding/rope_quant_kvcache/op_kernel", _rope_quant_data, blocks=2)
@asc.kernel
def rope_quant_kvcache(
    x: asc.In, cos: asc.In, sin: asc.In, scale: asc.In, offset: asc.In, cache: asc.Out, heads: int, hidden: int
):
    """A rotary embedding in halves, divided by a scale and rounded to bytes; casts narrow in place."""
    pipe, half_of, block = asc.TPipe(), hidden // 2, asc.GetBlockIdx()
    size = heads * hidden
    arriving = queue(pipe, VECIN, 1, size * 2 + hidden * 2 * 2 + hidden * 4 * 2)
    leaving = queue(pipe, VECOUT, 1, size * 4)
    tables = [gm(cos, asc.half, block * hidden), gm(sin, asc.half, block * hidden), gm(scale, asc.float32)]
    for table in tables:
        table.SetL2CacheHint(asc.CacheMode.CACHE_MODE_DISABLE)
    keys = arriving.AllocTensor(asc.half)
    cosines, sines = keys[size:], keys[size + hidden :]
    scales = keys[size + 2 * hidden :].ReinterpretCast(asc.float32)
    offsets = scales[hidden:]
    whole_offsets = offsets.ReinterpretCast(asc.int32)
    asc.DataCopy(scales, tables[2], hidden)
    asc.DataCopy(whole_offsets, gm(offset, asc.int32), hidden)
    asc.DataCopy(cosines, tables[0], hidden)
    asc.DataCopy(sines, tables[1], hidden)
    asc.DataCopy(keys, gm(x, asc.half, block * size), size)
    arriving.EnQue(keys)
    keys = arriving.DeQue(asc.half)
    asc.Muls(sines, sines, -1.0, half_of)
    asc.Cast(offsets, whole_offsets, asc.RoundMode.CAST_NONE, hidden)
    asc.PipeBarrier(asc.PIPE_V)
    result = leaving.AllocTensor(asc.half)
    strides = asc.BinaryRepeatParams(1, 1, 1, hidden // 16, hidden // 16, 0)
    asc.Mul(result, keys[half_of:], sines, half_of, heads, strides)
    asc.Mul(result[half_of:], keys, sines[half_of:], half_of, heads, strides)
    asc.PipeBarrier(asc.PIPE_V)
    for head in range(heads):
        asc.Mul(keys[head * hidden :], keys[head * hidden :], cosines, hidden)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Add(keys, result, keys, size)
    asc.PipeBarrier(asc.PIPE_V)
    wide = result.ReinterpretCast(asc.float32)
    asc.Cast(wide, keys, asc.RoundMode.CAST_NONE, size)
    for instruction, table in ((asc.Div, scales), (asc.Add, offsets)):
        asc.PipeBarrier(asc.PIPE_V)
        for head in range(heads):
            instruction(wide[head * hidden :], wide[head * hidden :], table, hidden)
    asc.PipeBarrier(asc.PIPE_V)
    whole = result.ReinterpretCast(asc.int16)
    asc.Cast(whole, wide, asc.RoundMode.CAST_RINT, size)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Cast(result, whole, asc.RoundMode.CAST_NONE, size)
    asc.PipeBarrier(asc.PIPE_V)
    small = result.ReinterpretCast(asc.int8)
    asc.Cast(small, result, asc.RoundMode.CAST_NONE, size)
    handed_over(asc.HardEvent.V_MTE3)
    asc.DataCopy(gm(cache, asc.int8, block * size), small, size)
    leaving.FreeTensor(result)
    arriving.FreeTensor(keys)


def _interleaved_data(rng):
    batch, seq = 2, 5
    x = rng.normal(size=(batch, seq, 64)).astype(HALF)
    cos, sin = rng.uniform(-1, 1, (2, batch, seq, 64)).astype(HALF)
    left, right = x[..., 0::2].astype(FLOAT), x[..., 1::2].astype(FLOAT)
    y = np.concatenate([left, right], axis=-1) * cos + np.concatenate([-right, left], axis=-1) * sin
    return Data({"x": x, "cos": cos, "sin": sin, "seq": seq}, {"y": y.astype(HALF)})


@follows("ops-transformer/posembedding/interleave_rope/op_kernel", _interleaved_data, blocks=2, tolerance=2e-3)
@asc.kernel
def interleave_rope(x: asc.In, cos: asc.In, sin: asc.In, y: asc.Out, seq: int):
    """A rotary embedding of pairs: GatherMask takes them apart, and masked repeats work on 32 of 64 numbers."""
    pipe, dim, half_of = asc.TPipe(), 64, 32
    at = asc.GetBlockIdx() * seq * dim
    x_queue, y_queue = queue(pipe, VECIN, 1, seq * dim * 2), queue(pipe, VECOUT, 1, seq * dim * 4 * 2)
    cos_queue, sin_queue = (queue(pipe, VECIN, 1, seq * dim * 4 * 2) for _ in range(2))
    real, imag = (buffer(pipe, seq * half_of * 4 * 2).Get(asc.float32) for _ in range(2))
    other = buffer(pipe, seq * dim * 4).Get(asc.float32)

    def table(given, tables):
        local = tables.AllocTensor(asc.float32)
        asc.DataCopy(local[seq * dim :].ReinterpretCast(asc.half), gm(given, asc.half, at), seq * dim)
        tables.EnQue(local)
        local = tables.DeQue(asc.float32)
        asc.Cast(local, local[seq * dim :].ReinterpretCast(asc.half), asc.RoundMode.CAST_NONE, seq * dim)
        return local

    cosines, sines = table(cos, cos_queue), table(sin, sin_queue)
    local = x_queue.AllocTensor(asc.half)
    asc.DataCopy(local, gm(x, asc.half, at), seq * dim)
    x_queue.EnQue(local)
    local = x_queue.DeQue(asc.half)
    for pattern, part in ((1, real), (2, imag)):
        narrow = part[seq * half_of :].ReinterpretCast(asc.half)
        asc.GatherMask(narrow, local, pattern, True, seq * dim, asc.GatherMaskParams(1, 1, 8, 0))
    for part in (real, imag):
        asc.Cast(part, part[seq * half_of :].ReinterpretCast(asc.half), asc.RoundMode.CAST_NONE, seq * half_of)
    x_queue.FreeTensor(local)
    result, mask, strides = y_queue.AllocTensor(asc.float32), [0xFFFFFFFF, 0], asc.BinaryRepeatParams(1, 1, 1, 8, 4, 8)
    asc.Mul(result, real, cosines, mask, seq, strides)
    asc.Mul(result[half_of:], imag, cosines[half_of:], mask, seq, strides)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Muls(imag, imag, -1.0, seq * half_of)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Mul(other, imag, sines, mask, seq, strides)
    asc.Mul(other[half_of:], real, sines[half_of:], mask, seq, strides)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Add(result, result, other, seq * dim)
    asc.PipeBarrier(asc.PIPE_V)
    narrow = result[seq * dim :].ReinterpretCast(asc.half)
    asc.Cast(narrow, result, asc.RoundMode.CAST_RINT, seq * dim)
    asc.PipeBarrier(asc.PIPE_V)
    y_queue.EnQue(result)
    result = y_queue.DeQue(asc.float32)
    asc.DataCopy(gm(y, asc.half, at), result[seq * dim :].ReinterpretCast(asc.half), seq * dim)
    y_queue.FreeTensor(result)
    cos_queue.FreeTensor(cosines)
    sin_queue.FreeTensor(sines)


def _rms_data(rng):
    rows, width, eps = 4, 300, 1e-6
    x = rng.normal(size=(rows, width)).astype(FLOAT)
    gamma = rng.uniform(5, 30, width).astype(FLOAT)
    scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + eps)
    y = np.rint(x * scale * gamma).astype(np.int8)
    return Data({"x": x, "gamma": gamma, "rows": rows, "width": width, "eps": eps}, {"y": y})


@follows("ops-transformer/mc2/3rd/rms_norm/op_kernel", _rms_data, blocks=2)
@asc.kernel(auto_sync=True)
def rms_norm(x: asc.In, gamma: asc.In, y: asc.Out, rows: int, width: int, eps: float):
    """RmsNorm to bytes. Repeats add into one place, WholeReduceSum adds that up, and casts narrow in place."""
    pipe, lanes = asc.TPipe(), 64
    first, count = part_of_block(rows)
    size = up(width, 16)
    x_queue, gamma_queue, y_queue = (queue(pipe, each, 1, size * 4) for each in (VECIN, VECIN, VECOUT))
    square, work, total = (buffer(pipe, n).Get(asc.float32) for n in (size * 4, 256, 32))
    row = asc.DataCopyParams(1, width * 4, 0, 0)
    weights = gamma_queue.AllocTensor(asc.float32)
    asc.DataCopyPad(weights, gm(gamma, asc.float32), row, asc.DataCopyPadParams())
    gamma_queue.EnQue(weights)
    weights = gamma_queue.DeQue(asc.float32)
    repeats, tail = divmod(width, lanes)
    adding = asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0)
    for each in range(first, first + count):
        local = x_queue.AllocTensor(asc.float32)
        asc.DataCopyPad(local, gm(x, asc.float32, each * width), row, asc.DataCopyPadParams())
        x_queue.EnQue(local)
        local = x_queue.DeQue(asc.float32)
        asc.Mul(square, local, local, width)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Duplicate(work, 0.0, lanes)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Add(work, square, work, lanes, repeats, adding)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Add(work, square[repeats * lanes :], work, tail, 1, adding)
        asc.PipeBarrier(asc.PIPE_V)
        asc.SetVectorMask(0, 2**64 - 1)
        asc.WholeReduceSum(total, work, asc.MASK_PLACEHOLDER, 1, 1, 1, 8)
        asc.PipeBarrier(asc.PIPE_V)
        handed_over(asc.HardEvent.V_S)
        scale = 1 / (float(total.GetValue(0)) / width + eps) ** 0.5
        asc.Muls(local, local, scale, width)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Mul(local, local, weights, width)
        asc.PipeBarrier(asc.PIPE_V)
        result = y_queue.AllocTensor(asc.int8)
        whole, narrow = local.ReinterpretCast(asc.int32), local.ReinterpretCast(asc.half)
        asc.Cast(whole, local, asc.RoundMode.CAST_RINT, width)
        asc.PipeBarrier(asc.PIPE_V)
        asc.SetDeqScale(1.0)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(narrow, whole, asc.RoundMode.CAST_NONE, width)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(result, narrow, asc.RoundMode.CAST_TRUNC, width)
        y_queue.EnQue(result)
        x_queue.FreeTensor(local)
        result = y_queue.DeQue(asc.int8)
        asc.DataCopyPad(gm(y, asc.int8, each * width), result, asc.DataCopyParams(1, width, 0, 0))
        y_queue.FreeTensor(result)
    gamma_queue.FreeTensor(weights)


def _ln_qkv_data(rng):
    rows, width, columns, eps = 64, 128, 96, 1e-5
    x = rng.normal(size=(rows, width)).astype(HALF)
    gamma, beta = rng.normal(size=(2, width)).astype(HALF)
    weight = rng.normal(0, 0.1, (width, columns)).astype(HALF)
    bias = rng.normal(size=columns).astype(HALF)
    wide = x.astype(np.float64)
    normed = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + eps) * gamma + beta
    tiling = asc.multi_core_matmul_tiling(SPEC, rows // 2, columns, width, HALF, cores=1, is_bias=True)
    given = {
        "x": x, "gamma": gamma, "beta": beta, "weight": weight, "bias": bias.astype(FLOAT),
        "normed": np.zeros((rows, width), HALF), "width": width, "tiling": tiling,
    }  # fmt: skip
    return Data(given, {"out": (normed.astype(HALF).astype(FLOAT) @ weight.astype(FLOAT) + bias).astype(HALF)})


@follows("ops-transformer/ffn/swin_transformer_ln_qkv/op_kernel", _ln_qkv_data, blocks=1, tolerance=2e-2)
@asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
def swin_transformer_ln_qkv(
    x: asc.In, gamma: asc.In, beta: asc.In, weight: asc.In, bias: asc.In, normed: asc.InOut, out: asc.Out,
    width: int, tiling: asc.TCubeTiling,
):  # fmt: skip
    """LayerNorm of 8 rows at a time, through the scalar pipe, to a workspace, which the cube core multiplies."""
    lines, size = 8, 8 * 128
    pipe = asc.TPipe()
    kinds = [asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, each) for each in (asc.half,) * 3 + (asc.float32,)]
    mm = asc.Matmul(*kinds)
    if asc.REGIST_MATMUL_OBJ(pipe, None, mm, tiling):
        return
    m = tiling.m
    row = asc.GetBlockIdx() * m
    arriving, leaving = queue(pipe, VECIN, 2, size * 2), queue(pipe, VECOUT, 2, size * 2)
    gammas, betas = (buffer(pipe, size * 4).Get(asc.float32) for _ in range(2))
    wide, square, total, work, mean, centred = (buffer(pipe, size * 4).Get(asc.float32) for _ in range(6))
    mm.SetTensorB(gm(weight, asc.half))
    mm.SetBias(gm(bias, asc.float32))
    narrow = work.ReinterpretCast(asc.half)
    for given, table, at in ((gamma, gammas, 0), (beta, betas, width)):
        asc.DataCopy(narrow[at:], gm(given, asc.half), width)
        asc.SetFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
        asc.WaitFlag(asc.HardEvent.MTE2_V, asc.EVENT_ID0)
        for line in range(lines):
            asc.Cast(table[width * line :], narrow[at:], asc.RoundMode.CAST_NONE, width)
            asc.PipeBarrier(asc.PIPE_V)

    def handed(event):
        asc.SetFlag(event, asc.EVENT_ID0)
        asc.WaitFlag(event, asc.EVENT_ID0)

    def sums(of):
        """Two levels of BlockReduceSum leave two parts of a row's sum, 32 numbers apart."""
        asc.BlockReduceSum(work, of, 16, 64, 8, 1, 8)
        asc.PipeBarrier(asc.PIPE_V)
        asc.BlockReduceSum(total, work, 16, 8, 4, 1, 8)

    def fill(to, line, number):
        handed(asc.HardEvent.S_V)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Duplicate(to[line * width :], number, 64, 2, 1, 8)
        asc.PipeBarrier(asc.PIPE_V)

    for at, _ in pieces(m, lines):
        start = (row + at) * width
        local = arriving.AllocTensor(asc.half)
        asc.DataCopy(local, gm(x, asc.half, start), size)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
        asc.Cast(wide, local, asc.RoundMode.CAST_NONE, size)
        asc.PipeBarrier(asc.PIPE_V)
        sums(wide)
        handed(asc.HardEvent.V_S)
        for line in range(lines):
            number = float(total.GetValue(line * 64) + total.GetValue(line * 64 + 32))
            fill(mean, line, number / width)
        asc.Sub(centred, wide, mean, size)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Mul(square, centred, centred, size)
        asc.PipeBarrier(asc.PIPE_V)
        sums(square)
        asc.PipeBarrier(asc.PIPE_V)
        handed(asc.HardEvent.V_S)
        for line in range(lines):
            number = float(total.GetValue(line * 64) + total.GetValue(line * 64 + 32))
            total.SetValue(line, number / width + 1e-5)
        handed(asc.HardEvent.S_V)
        asc.Sqrt(total, total, lines)
        asc.PipeBarrier(asc.PIPE_V)
        for line in range(lines):
            handed(asc.HardEvent.V_S)
            fill(square, line, float(total.GetValue(line)))
        asc.Div(wide, centred, square, size)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Mul(square, wide, gammas, size)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Add(wide, square, betas, size)
        asc.PipeBarrier(asc.PIPE_V)
        asc.Cast(result, wide, asc.RoundMode.CAST_RINT, size)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopy(gm(normed, asc.half, start), result, size)
        leaving.FreeTensor(result)
    mm.SetTensorA(gm(normed, asc.half, row * width))
    mm.IterateAll(gm(out, asc.half, row * tiling.n))
    mm.End()


def _ffn_data(rng):
    m, k1, n1, n2 = 32, 64, 128, 64
    x, w1, w2 = (rng.normal(0, 0.3, size).astype(HALF) for size in ((m, k1), (k1, n1), (n1, n2)))
    bias1, bias2 = rng.normal(size=n1).astype(FLOAT), rng.normal(size=n2).astype(FLOAT)
    hidden = x.astype(FLOAT) @ w1.astype(FLOAT) + bias1
    hidden = (hidden / (1 + np.exp(-1.595769 * (hidden + 0.044715 * hidden**3)))).astype(HALF)
    first, second = (
        asc.multi_core_matmul_tiling(SPEC, m, n, k, HALF, cores=4, is_bias=True, l1_bytes=SPEC.l1_bytes // 2)
        for n, k in ((n1, k1), (n2, n1))
    )
    given = {"x": x, "w1": w1, "bias1": bias1, "w2": w2, "bias2": bias2, "first": first, "second": second}
    rooms = {"mm1_room": np.zeros((m, n1), FLOAT), "mm2_room": np.zeros((m, n1), HALF)}
    return Data(given | rooms, {"y": hidden.astype(FLOAT) @ w2.astype(FLOAT) + bias2})


@follows("ops-transformer/ffn/ffn/op_kernel", _ffn_data, blocks=2, tolerance=5e-3)
@asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
def ffn(
    x: asc.In, w1: asc.In, bias1: asc.In, w2: asc.In, bias2: asc.In, mm1_room: asc.InOut, mm2_room: asc.InOut,
    y: asc.Out, first: asc.TCubeTiling, second: asc.TCubeTiling,
):  # fmt: skip
    """Two layers of one expert: a product, an activation on all vector cores, and a product of its results."""
    ours, float_ = (asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, each) for each in (asc.half, asc.float32))
    pipe = asc.TPipe()
    mm1, mm2 = (asc.Matmul(ours, ours, float_, float_) for _ in range(2))
    if asc.REGIST_MATMUL_OBJ(pipe, None, mm1, first, mm2, second):
        return
    core, cores = asc.GetBlockIdx(), 2 * asc.GetBlockNum()
    size = first.m * first.n // cores  # of the activation, on each core
    arriving, leaving = queue(pipe, asc.TPosition.VECIN, 1, size * 4), queue(pipe, asc.TPosition.VECOUT, 1, size * 2)
    active, temporary = buffer(pipe, size * 4), buffer(pipe, 8 * size * 4)
    operands = (
        (mm1, first, x, w1, bias1, gm(mm1_room, asc.float32)), (mm2, second, mm2_room, w2, bias2, gm(y, asc.float32))
    )  # fmt: skip
    for number, (mm, tiling, a, b, bias, out) in enumerate(operands):
        if core < tiling.used_core_num:
            row, column, m, n = tiling.part(core)
            mm.SetOrgShape(tiling.m, tiling.n, tiling.ka)
            mm.SetSingleShape(m, n, tiling.ka)
            mm.SetTensorA(gm(a, asc.half, row * tiling.ka))
            mm.SetTensorB(gm(b, asc.half, column))
            mm.SetBias(gm(bias, asc.float32, column))
            mm.IterateAll(out[row * tiling.n + column :], 0)
            mm.End()
        if number:
            return
        asc.SyncAll()
        local = arriving.AllocTensor(asc.float32)
        whole = asc.DataCopyExtParams(1, size * 4)
        asc.DataCopyPad(local, gm(mm1_room, asc.float32, core * size), whole, NO_PADDING)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.half)
        wide = active.Get(asc.float32)
        asc.Gelu(wide, local, temporary.Get(asc.uint8), size)
        asc.Cast(result, wide, asc.RoundMode.CAST_ROUND, size)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopyPad(gm(mm2_room, asc.half, core * size), result, asc.DataCopyExtParams(1, size * 2))
        leaving.FreeTensor(result)
        asc.SyncAll()
