"""Kernels after folders of catlass: products of a matrix and a vector, a convolution, and a reader of the L2."""

import numpy as np

from acl_py import asc
from public.cases import Data, follows, gm, part_of_block, pieces, up

HALF, FLOAT = np.float16, np.float32
CUBE, MIXED = asc.KernelType.AIC_ONLY, asc.KernelType.MIX_AIC_1_2
SIDE, SQUARE = 16, 256  # elements of a fractal of halves


def handed(event, event_id=0):
    asc.SetFlag(event, event_id)
    asc.WaitFlag(event, event_id)


@follows("catlass/tools/tuner/dfx_kernel", lambda rng: Data({"x": rng.integers(0, 9, 5_632, np.int8)}, {}), blocks=2)
@asc.kernel(kind=MIXED)
def clear_l2_cache(x: asc.In):
    """Cube cores read a buffer piece by piece to one place in L1, and use nothing of it; vector cores do nothing."""
    if asc.ASCEND_IS_AIV():
        return
    pipe, arriving, tile = asc.TPipe(), asc.TQue(asc.TPosition.A1, 1), 512
    pipe.InitBuffer(arriving, 1, tile)
    first, count = part_of_block(5_632, tile)
    local = arriving.AllocTensor(asc.int8)
    for at, n in pieces(count, tile):
        asc.DataCopy(local, gm(x, asc.int8, first + at), n)
    arriving.FreeTensor(local)


def _gemv_data(rng, dtype, m, n):
    a, x, y = rng.normal(size=(m, n)).astype(dtype), rng.normal(size=n).astype(dtype), rng.normal(size=m).astype(dtype)
    z = 1.5 * (a.astype(np.float64) @ x) + 0.5 * y
    return Data({"a": a, "x": x, "y": y, "alpha": 1.5, "beta": 0.5, "m": m, "n": n}, {"z": z.astype(dtype)})


def counted(count):
    """Let masks count elements: the next instructions work on so many, in as many repeats as that takes."""
    asc.SetMaskCount()
    asc.SetVectorMask(0, count)


def uncounted():
    asc.SetMaskNorm()
    asc.ResetMask()


def scaled(dst, src, scalar, count):
    counted(count)
    asc.Muls(dst, src, scalar, asc.MASK_PLACEHOLDER, 1, asc.UnaryRepeatParams())
    uncounted()


@follows("catlass/include/catlass/gemv/tile", lambda rng: _gemv_data(rng, FLOAT, 40, 136), blocks=2, tolerance=1e-4)
@asc.kernel
def gemv_rows(a: asc.In, x: asc.In, y: asc.In, z: asc.Out, alpha: float, beta: float, m: int, n: int):
    """Rows by a vector: columns of 64 are multiplied and added with counted masks, and each row is reduced.

    This is tile_vmad for matrices of float by rows, with the copies and the scaling around it.
    """
    asc.SetAtomicNone()
    first, count = part_of_block(m, 8)
    wide = up(n, 8)
    vector, rows, result, old = (
        asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, at, size)
        for at, size in ((0, wide), (4_096, 24 * up(n, 64)), (65_536, 64), (66_560, 64))
    )
    asc.DataCopy(vector, gm(x, asc.float32), asc.DataCopyParams(1, wide // 8, 0, 0))
    asc.DataCopy(old, gm(y, asc.float32, first), asc.DataCopyParams(1, count // 8, 0, 0))
    handed(asc.HardEvent.MTE2_V)
    scaled(vector, vector, alpha, n)
    asc.PipeBarrier(asc.PIPE_V)
    scaled(result, old, beta, count)
    apart = up(n, 64) // 8
    params = asc.DataCopyParams(count, n // 8, 0, apart - n // 8)
    asc.DataCopy(rows, gm(a, asc.float32, first * n), params)
    handed(asc.HardEvent.MTE2_V, 1)
    strides = asc.BinaryRepeatParams(1, 1, 1, apart, apart, 0)
    counted(count * 64)
    for at in range(0, n // 64 * 64, 64):
        if at == 0:
            asc.Mul(rows, rows, vector, asc.MASK_PLACEHOLDER, 1, strides)
        else:
            asc.MulAddDst(rows, rows[at:], vector[at:], asc.MASK_PLACEHOLDER, 1, strides)
        asc.PipeBarrier(asc.PIPE_V)
    uncounted()
    rest = n // 64 * 64
    asc.MulAddDst(rows, rows[rest:], vector[rest:], n - rest, count, strides)
    asc.PipeBarrier(asc.PIPE_V)
    asc.WholeReduceSum(rows, rows, 64, count, 1, 1, apart)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Add(result, rows, result, count, 1, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopyPad(gm(z, asc.float32, first), result, asc.DataCopyExtParams(1, count * 4, 0, 0, 0))
    asc.PipeBarrier(asc.PIPE_ALL)


def _columns_data(rng):
    data = _gemv_data(rng, HALF, 64, 32)
    return Data(data.given | {"a": data.given["a"].T}, data.wanted)


@follows("catlass/include/catlass/gemv/kernel", _columns_data, blocks=2, tolerance=2e-2)
@asc.kernel
def gemv_columns(a: asc.In, x: asc.In, y: asc.In, z: asc.Out, alpha: float, beta: float, m: int, n: int):
    """Columns by numbers: the scalar pipe reads each number, and Axpy adds a column of halves to floats."""
    first, count = part_of_block(m, 32)
    vector, columns, result = (
        asc.LocalTensor(asc.half, asc.TPosition.VECCALC, at, size)
        for at, size in ((0, up(n, 16)), (4_096, n * count), (65_536, 128))
    )
    total = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 66_560, 128)
    asc.DataCopy(vector, gm(x, asc.half), asc.DataCopyParams(1, n * 2 // 32, 0, 0))
    asc.DataCopy(result, gm(y, asc.half, first), asc.DataCopyParams(1, count * 2 // 32, 0, 0))
    asc.DataCopy(columns, gm(a, asc.half, first), asc.DataCopyParams(n, count * 2 // 32, (m - count) * 2 // 32, 0))
    handed(asc.HardEvent.MTE2_V)
    scaled(vector, vector, alpha, n)
    asc.PipeBarrier(asc.PIPE_V)
    scaled(result, result, beta, count)
    counted(count)
    asc.Duplicate(total, 0.0, asc.MASK_PLACEHOLDER, 1, 1, 8)
    asc.PipeBarrier(asc.PIPE_V)
    handed(asc.HardEvent.V_S)
    numbers = [float(vector.GetValue(each)) for each in range(n)]
    handed(asc.HardEvent.S_V)
    for each, number in enumerate(numbers):
        strides = asc.UnaryRepeatParams(1, 1, 8, 4)
        asc.Axpy(total, columns[each * count :], number, asc.MASK_PLACEHOLDER, 1, strides)
        asc.PipeBarrier(asc.PIPE_V)
    strides = asc.UnaryRepeatParams(1, 1, 4, 8)
    asc.Cast(columns, total, asc.RoundMode.CAST_NONE, asc.MASK_PLACEHOLDER, 1, strides)
    asc.PipeBarrier(asc.PIPE_V)
    asc.Add(result, columns, result, asc.MASK_PLACEHOLDER, 1, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8))
    uncounted()
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopyPad(gm(z, asc.half, first), result, asc.DataCopyExtParams(1, count * 2, 0, 0, 0))
    asc.PipeBarrier(asc.PIPE_ALL)


def _block_data(rng):
    m, n = 64, 192
    a, x = rng.normal(size=(m, n)).astype(HALF), rng.normal(size=n).astype(HALF)
    return Data({"a": a, "x": x, "m": m, "n": n}, {"y": a.astype(FLOAT) @ x.astype(FLOAT)})


@follows("catlass/include/catlass/gemv/block", _block_data, blocks=2, tolerance=1e-3)
@asc.kernel(kind=CUBE)
def gemv_block(a: asc.In, x: asc.In, y: asc.Out, m: int, n: int):
    """A vector by rows of a matrix on the cube: x is the first of 16 rows of the left factor, and rows are columns.

    The next part of k is copied to L1 while this one is multiplied; two buffers each in L1, L0A and L0B have flags.
    """
    part, rows = 64, m // asc.GetBlockNum()
    first = asc.GetBlockIdx() * rows
    l1x, l1a, l0x, l0a = (
        [asc.LocalTensor(asc.half, place, at + each * apart, size) for each in range(2)]
        for place, at, apart, size in (
            (asc.TPosition.A1, 0, 4_096, SIDE * part), (asc.TPosition.B1, 16_384, 16_384, rows * part),
            (asc.TPosition.A2, 0, 32_768, SIDE * part), (asc.TPosition.B2, 0, 32_768, rows * part),
        )
    )  # fmt: skip
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * rows)
    for each in range(2):
        for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1):
            asc.SetFlag(event, each)
            asc.SetFlag(event, each + 2)
    asc.SetFlag(asc.HardEvent.FIX_M, asc.EVENT_ID0)

    def copy_in(index):
        turn = index % 2
        asc.WaitFlag(asc.HardEvent.MTE1_MTE2, turn)
        asc.DataCopy(l1x[turn], gm(x, asc.half, index * part), asc.Nd2NzParams(1, 1, part, 0, n, SIDE, 1, 0))
        asc.SetFlag(asc.HardEvent.MTE2_MTE1, turn)
        asc.WaitFlag(asc.HardEvent.MTE1_MTE2, turn + 2)
        a_gm = gm(a, asc.half, first * n + index * part)
        asc.DataCopy(l1a[turn], a_gm, asc.Nd2NzParams(1, rows, part, 0, n, rows, 1, 0))
        asc.SetFlag(asc.HardEvent.MTE2_MTE1, turn + 2)

    asc.WaitFlag(asc.HardEvent.FIX_M, asc.EVENT_ID0)
    copy_in(0)
    for index in range(n // part):
        turn = index % 2
        if (index + 1) * part < n:
            copy_in(index + 1)
        asc.WaitFlag(asc.HardEvent.MTE2_MTE1, turn)
        asc.WaitFlag(asc.HardEvent.MTE2_MTE1, turn + 2)
        asc.WaitFlag(asc.HardEvent.M_MTE1, turn)
        asc.LoadData(l0x[turn], l1x[turn], asc.LoadData2DParams(0, part // SIDE, 1, 0, False))
        asc.SetFlag(asc.HardEvent.MTE1_M, turn)
        asc.WaitFlag(asc.HardEvent.M_MTE1, turn + 2)
        asc.LoadData(l0a[turn], l1a[turn], asc.LoadData2DParams(0, rows * part // SQUARE, 1, 0, False))
        asc.SetFlag(asc.HardEvent.MTE1_M, turn + 2)
        asc.WaitFlag(asc.HardEvent.MTE1_M, turn + 2)
        asc.WaitFlag(asc.HardEvent.MTE1_M, turn)
        asc.Mmad(total, l0x[turn], l0a[turn], asc.MmadParams(SIDE, rows, part, index == 0))
        asc.PipeBarrier(asc.PIPE_M)
        for event in (asc.HardEvent.M_MTE1, asc.HardEvent.MTE1_MTE2):
            asc.SetFlag(event, turn)
            asc.SetFlag(event, turn + 2)
    handed(asc.HardEvent.M_FIX)
    asc.Fixpipe(gm(y, asc.float32, first), total, asc.FixpipeParams(rows, 1, SIDE, rows))
    asc.SetFlag(asc.HardEvent.FIX_M, asc.EVENT_ID0)
    for each in range(2):
        for event in (asc.HardEvent.MTE1_MTE2, asc.HardEvent.M_MTE1):
            asc.WaitFlag(event, each)
            asc.WaitFlag(event, each + 2)
    asc.WaitFlag(asc.HardEvent.FIX_M, asc.EVENT_ID0)
    asc.PipeBarrier(asc.PIPE_ALL)


def _conv_data(rng):
    channels, outputs, height, width, kernel = 16, 32, 6, 8, 3
    image = rng.normal(size=(channels, height, width)).astype(HALF)
    weights = rng.normal(size=(outputs, channels, kernel, kernel)).astype(HALF)
    padded = np.pad(image.astype(FLOAT), ((0, 0), (1, 1), (1, 1)))
    result = sum(
        np.einsum("oc,chw->ohw", weights[:, :, i, j].astype(FLOAT), padded[:, i : i + height, j : j + width])
        for i in range(kernel) for j in range(kernel)
    )  # fmt: skip
    # The image by 16 channels, innermost; the weights by places of the kernel, and the result by 16 outputs.
    given = {
        "image": image.transpose(1, 2, 0), "weights": weights.transpose(2, 3, 0, 1),
        "sizes": (height, width, kernel), "outputs": outputs,
    }  # fmt: skip
    return Data(given, {"out": result.reshape(outputs // 16, 16, height, width).transpose(0, 2, 3, 1).astype(HALF)})


@follows("catlass/include/catlass/conv/tile/atlasa2", _conv_data, tolerance=2e-2)
@asc.kernel(kind=CUBE)
def convolution(image: asc.In, weights: asc.In, out: asc.Out, sizes: tuple, outputs: int):
    """A 3 x 3 convolution: LoadData unrolls the image into L0A, and Fixpipe writes row by row in NZ."""
    height, width, kernel = sizes
    places, m, k = kernel * kernel, height * width, kernel * kernel * SIDE
    a1 = asc.LocalTensor(asc.half, asc.TPosition.A1, 0, m * SIDE)
    b1 = asc.LocalTensor(asc.half, asc.TPosition.B1, 65_536, k * outputs)
    asc.DataCopy(a1, gm(image, asc.half), asc.DataCopyParams(height, width * SIDE * 2 // 32, 0, 0))
    asc.DataCopy(b1, gm(weights, asc.half), asc.DataCopyParams(places, outputs * SIDE * 2 // 32, 0, 0))
    handed(asc.HardEvent.MTE2_MTE1)
    a2 = asc.LocalTensor(asc.half, asc.TPosition.A2, 0, m * k)
    b2 = asc.LocalTensor(asc.half, asc.TPosition.B2, 0, k * outputs)
    params = asc.LoadData3DParamsV2(
        pad_list=(1, 1, 1, 1), l1_h=height, l1_w=width, channel_size=SIDE, k_extension=k, m_extension=m,
        filter_w=kernel, filter_h=kernel,
    )  # fmt: skip
    asc.LoadData(a2, a1, params)
    asc.LoadData(b2, b1, asc.LoadData2DParams(0, k * outputs // SQUARE, 1, 0, False))
    handed(asc.HardEvent.MTE1_M)
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, m * outputs)
    asc.Mmad(total, a2, b2, asc.MmadParams(m, outputs, k))
    asc.PipeBarrier(asc.PIPE_M)
    handed(asc.HardEvent.M_FIX)
    for row in range(height):
        params = asc.FixpipeParams(outputs, width, m, m, asc.QuantMode.F322F16)
        asc.Fixpipe(gm(out, asc.half, row * width * SIDE), total[row * width * SIDE :], params, asc.CO2Layout.NZ)
    asc.PipeBarrier(asc.PIPE_ALL)


def _tiles_data(rng):
    rows, columns = 20, 136
    x, gate = rng.normal(size=(2, rows, columns)).astype(FLOAT)
    bias = rng.normal(size=columns).astype(FLOAT)
    wide = (x + bias).astype(np.float64)
    gelu = wide / (1 + np.exp(-1.5957691216 * (wide + 0.044715 * wide**3)))
    given = {"x": x, "gate": gate, "bias": bias, "rows": rows, "columns": columns}
    return Data(given, {"out": (gelu * gate / (1 + np.exp(-gate.astype(np.float64)))).astype(FLOAT)})


def by_columns(instruction, dst, src, row, rows, columns):
    """Issue dst = instruction(src, row) of a matrix of floats: 64 columns of up to 255 rows at a time."""
    apart = columns // 8
    for top, count in pieces(rows, 255):
        for left, width in pieces(columns, 64):
            at = top * columns + left
            strides = asc.BinaryRepeatParams(1, 1, 1, apart, apart, 0)
            instruction(dst[at:], src[at:], row[left:], width, count, strides)
    asc.PipeBarrier(asc.PIPE_V)


@follows("catlass/include/catlass/epilogue/tile", _tiles_data, blocks=2, tolerance=1e-4)
@asc.kernel
def gated_tiles(x: asc.In, gate: asc.In, bias: asc.In, out: asc.Out, rows: int, columns: int):
    """The tiles of epilogues, one behind the other: a row is added to all rows, then Gelu, Silu and their product."""
    first, count = part_of_block(rows)
    size = count * columns
    wide, other, product, row = (
        asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, at, n)
        for at, n in ((0, size), (32_768, size), (65_536, size), (98_304, columns))
    )
    for local, given, at, n in (
        (wide, x, first * columns, size),
        (other, gate, first * columns, size),
        (row, bias, 0, columns),
    ):
        asc.DataCopyPad(
            local,
            gm(given, asc.float32, at),
            asc.DataCopyExtParams(1, n * 4, 0, 0, 0),
            asc.DataCopyPadExtParams(False, 0, 0, 0),
        )
    handed(asc.HardEvent.MTE2_V)
    by_columns(asc.Add, wide, wide, row, count, columns)

    def then(instruction, *operands):
        instruction(*operands, size)
        asc.PipeBarrier(asc.PIPE_V)

    then(asc.Mul, product, wide, wide)
    then(asc.Mul, product, product, wide)
    then(asc.Axpy, product, wide, 1 / 0.044715)
    then(asc.Muls, product, product, -1.5957691216 * 0.044715)
    then(asc.Exp, product, product)
    then(asc.Adds, product, product, 1.0)
    then(asc.Div, product, wide, product)
    then(asc.Muls, wide, other, -1.0)
    then(asc.Exp, wide, wide)
    then(asc.Adds, wide, wide, 1.0)
    then(asc.Div, wide, other, wide)
    then(asc.Mul, product, product, wide)
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopyPad(gm(out, asc.float32, first * columns), product, asc.DataCopyExtParams(1, size * 4, 0, 0, 0))
    asc.PipeBarrier(asc.PIPE_ALL)


def _per_token_data(rng):
    m, n = 48, 160  # whole tiles, which the folder always computes
    c = rng.integers(-9_000, 9_000, (m, n)).astype(np.int32)
    scale, token = rng.uniform(1e-3, 2e-3, n).astype(HALF), rng.uniform(0.5, 2, m).astype(HALF)
    out = c * scale.astype(FLOAT) * token.astype(FLOAT)[:, None]
    return Data({"c": c, "scale": scale, "token": token, "m": m, "n": n}, {"d": out.astype(HALF)})


@follows("catlass/include/catlass/epilogue/block", _per_token_data, blocks=1, tolerance=2e-2)
@asc.kernel(kind=MIXED)
def per_token_dequant(c: asc.In, scale: asc.In, token: asc.In, d: asc.Out, m: int, n: int):
    """Integers times a factor for each column and one for each row; the vector cores of a block take tiles in turn.

    Two stages of buffers have flags of their own; Brcb makes a block of each row's factor, and Mul takes 8 rows of a
    block's width at a time.
    """
    if asc.ASCEND_IS_AIC():
        return
    tile_m, tile_n, stages, at = 16, 80, [], 0

    def room(dtype, count):
        nonlocal at
        made = asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, count)
        at = up(at + made.GetSize() * made.dtype.itemsize, 32)
        return made

    for stage in range(2):
        stages.append(
            [
                room(asc.int32, tile_m * tile_n),
                room(asc.half, tile_n),
                room(asc.half, tile_m),
                room(asc.half, tile_m * tile_n),
            ]
        )
        for each in range(3):
            asc.SetFlag(asc.HardEvent.V_MTE2, 3 * stage + each)
        asc.SetFlag(asc.HardEvent.MTE3_V, stage)
    wide, columns, product, rows, spread = (
        room(asc.float32, count) for count in (tile_m * tile_n, tile_n, tile_m * tile_n, tile_m, tile_m * 8)
    )
    across = -(-n // tile_n)
    loops, stage = -(-m // tile_m) * across, 0
    for loop in range(asc.GetSubBlockIdx(), loops, asc.GetSubBlockNum()):
        top, left = loop // across * tile_m, loop % across * tile_n
        height, width = min(tile_m, m - top), min(tile_n, n - left)
        integers, factors, tokens, result = stages[stage]
        copies = (
            (
                integers,
                gm(c, asc.int32, top * n + left),
                asc.DataCopyExtParams(height, width * 4, (n - width) * 4, (tile_n - width) * 4 // 32, 0),
            ),
            (factors, gm(scale, asc.half, left), asc.DataCopyExtParams(1, width * 2, 0, 0, 0)),
            (tokens, gm(token, asc.half, top), asc.DataCopyExtParams(1, height * 2, 0, 0, 0)),
        )
        for each, (local, given, params) in enumerate(copies):
            asc.WaitFlag(asc.HardEvent.V_MTE2, 3 * stage + each)
            asc.DataCopyPad(local, given, params, asc.DataCopyPadExtParams(False, 0, 0, 0))
            asc.SetFlag(asc.HardEvent.MTE2_V, 3 * stage + each)
        casts = (
            (wide, integers, asc.RoundMode.CAST_RINT, tile_m * tile_n),
            (columns, factors, asc.RoundMode.CAST_NONE, tile_n),
            (rows, tokens, asc.RoundMode.CAST_NONE, tile_m),
        )
        for each, operands in enumerate(casts):
            asc.WaitFlag(asc.HardEvent.MTE2_V, 3 * stage + each)
            asc.Cast(*operands)
            asc.SetFlag(asc.HardEvent.V_MTE2, 3 * stage + each)
        asc.PipeBarrier(asc.PIPE_V)
        by_columns(asc.Mul, product, wide, columns, tile_m, tile_n)
        asc.Brcb(spread, rows, tile_m // 8, asc.BrcbRepeatParams(1, 8))
        asc.PipeBarrier(asc.PIPE_V)
        for row, count in pieces(tile_m, 8):
            apart = tile_n // 8
            strides = asc.BinaryRepeatParams(apart, apart, 1, 1, 1, 0)
            place = product[row * tile_n :]
            asc.Mul(place, place, spread[row * 8 :], count * 8, apart, strides)
        asc.PipeBarrier(asc.PIPE_V)
        asc.WaitFlag(asc.HardEvent.MTE3_V, stage)
        asc.Cast(result, product, asc.RoundMode.CAST_RINT, tile_m * tile_n)
        asc.SetFlag(asc.HardEvent.V_MTE3, stage)
        asc.WaitFlag(asc.HardEvent.V_MTE3, stage)
        params = asc.DataCopyExtParams(height, width * 2, (tile_n - width) * 2 // 32, (n - width) * 2, 0)
        asc.DataCopyPad(gm(d, asc.half, top * n + left), result, params)
        asc.SetFlag(asc.HardEvent.MTE3_V, stage)
        stage = 1 - stage
    for stage in range(2):
        for each in range(3):
            asc.WaitFlag(asc.HardEvent.V_MTE2, 3 * stage + each)
        asc.WaitFlag(asc.HardEvent.MTE3_V, stage)
