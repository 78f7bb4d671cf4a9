"""Kernels after folders of asc-devkit's examples that work on rows: with functions of the library."""

import numpy as np
from convolutions import in_planes

from acl_py import asc
from public.asc_devkit_products import EXAMPLES
from public.cases import Data, buffer, follows, gm, queue, up

HALF, FLOAT = np.float16, np.float32
IN, OUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
BLOCK, HALVES = 8, 16  # floats and halves of 32 bytes


def _flash_data(rng):
    rows, k, loop, alpha = 16, 1_024, 2, 0.9375
    x = rng.uniform(-0.5, 0.5, (rows, k)).astype(HALF)
    in_mean, in_sum, in_max = (rng.uniform(low, 1, (rows, 1)).astype(FLOAT) for low in (0.2, 0.5, 0.5))
    wide, scale = x.astype(np.float64), alpha / (1 - alpha)
    lanes = wide[:, :512].reshape(rows, 64, 8).sum(2) + wide[:, 512:].reshape(rows, -1, 64).sum(1)
    local = lanes.reshape(rows, 8, 8).sum(2) / (k // 8)
    own = local.mean(1, keepdims=True)
    wide -= np.repeat((own - local) * scale, k // 8, axis=1)
    mean = (own + in_mean * (loop - 1)) / loop
    now = (own - mean) * scale
    largest = np.maximum(now + wide.max(1, keepdims=True), (in_mean - mean) * scale + in_max)
    given = {
        name: np.repeat(each, BLOCK, 1) for name, each in (("in_max", in_max), ("in_sum", in_sum), ("in_mean", in_mean))
    }
    given |= {"x": x, "rows": rows, "k": k, "loop": loop, "alpha": alpha}
    return Data(given, {"y": np.exp(wide - largest + now).astype(HALF)})


@follows(f"{EXAMPLES}/04_advanced_api/01_activation/softmaxflashv3", _flash_data, blocks=2, tolerance=3e-3)
@asc.kernel
def softmaxflashv3(
    x: asc.In, in_max: asc.In, in_sum: asc.In, in_mean: asc.In, y: asc.Out, rows: int, k: int, loop: int, alpha: float
):
    """Each core has some rows; maxima, sums and means are updated where they are."""
    pipe, share = asc.TPipe(), rows // asc.GetBlockNum()
    row = asc.GetBlockIdx() * share
    source = queue(pipe, IN, 1, share * k * 2)
    maxima, sums, means = (queue(pipe, IN, 1, share * BLOCK * 4) for _ in range(3))
    result, factor = queue(pipe, OUT, 1, share * k * 2), buffer(pipe, share * HALVES * 2)
    local, total, largest, mean = (
        each.AllocTensor(dtype)
        for each, dtype in ((source, asc.half), *((q, asc.float32) for q in (sums, maxima, means)))
    )
    asc.DataCopy(local, gm(x, asc.half, row * k), share * k)
    for state, argument in ((total, in_sum), (largest, in_max), (mean, in_mean)):
        asc.DataCopy(state, gm(argument, asc.float32, row * BLOCK), share * BLOCK)
    for each, tensor in ((source, local), (sums, total), (maxima, largest), (means, mean)):
        each.EnQue(tensor)
    local, total, largest, mean = (
        each.DeQue(dtype) for each, dtype in ((source, asc.half), *((q, asc.float32) for q in (sums, maxima, means)))
    )
    scale, dst = factor.Get(asc.half), result.AllocTensor(asc.half)
    local.SetShapeInfo(asc.ShapeInfo(2, [share, k]))
    params = asc.SoftMaxParams(share, k, share, k, loop, 8, alpha)
    asc.SoftmaxFlashV3(dst, mean, total, largest, local, scale, mean, total, largest, params, is_update=True)
    result.EnQue(dst)
    for each, tensor in ((source, local), (maxima, largest), (sums, total), (means, mean)):
        each.FreeTensor(tensor)
    dst = result.DeQue(asc.half)
    asc.DataCopy(gm(y, asc.half, row * k), dst, share * k)
    result.FreeTensor(dst)


def _layernorm_data(rng):
    rows, k, epsilon = 8, 64, 1e-5
    x, gamma, beta = (rng.normal(size=size).astype(FLOAT) for size in ((rows, k), k, k))
    mean, variance = x.mean(1), x.var(1)
    y = ((x - mean[:, None]) / np.sqrt(variance + epsilon)[:, None] * gamma + beta).astype(FLOAT)
    given = {"x": x, "gamma": gamma, "beta": beta, "rows": rows, "k": k, "epsilon": epsilon}
    rstd = 1 / np.sqrt(variance + epsilon)
    return Data(given, {"y": y, "mean": mean, "variance": variance, "again": y, "rstd": rstd.astype(FLOAT)})


@follows(f"{EXAMPLES}/04_advanced_api/02_normalization/layernorm_v2", _layernorm_data, tolerance=1e-4)
@asc.kernel
def layernorm_v2(
    x: asc.In, gamma: asc.In, beta: asc.In, y: asc.Out, mean: asc.Out, variance: asc.Out, again: asc.Out, rstd: asc.Out,
    rows: int, k: int, epsilon: float,
):  # fmt: skip
    """LayerNorm, and once more with Normalize from the mean and variance that it has left.

    The folder's LayerNorm gives 1 / sqrt(variance + epsilon), of which it makes the variance again. This one gives the
    variance itself.
    """
    pipe = asc.TPipe()
    arriving = [queue(pipe, IN, 1, count * 4) for count in (rows * k, k, k)]
    leaving = [queue(pipe, OUT, 1, count * 4) for count in (rows * k, rows, rows, rows * k, rows)]
    for each, argument, count in zip(arriving, (x, gamma, beta), (rows * k, k, k), strict=True):
        tensor = each.AllocTensor(asc.float32)
        asc.DataCopy(tensor, gm(argument, asc.float32), count)
        each.EnQue(tensor)
    source, factor, summand = (each.DeQue(asc.float32) for each in arriving)
    first, averages, spreads, second, inverse = (each.AllocTensor(asc.float32) for each in leaving)
    asc.LayerNorm(first, averages, spreads, source, factor, summand, epsilon, asc.NormTiling(1, rows, k))
    asc.Duplicate(inverse, 0.0, rows)
    para = asc.NormalizePara(rows, k, k)
    asc.Normalize(second, inverse, averages, spreads, source, factor, summand, epsilon, para)
    for each, tensor in zip(leaving, (first, averages, spreads, second, inverse), strict=True):
        each.EnQue(tensor)
    for each, tensor in zip(arriving, (source, factor, summand), strict=True):
        each.FreeTensor(tensor)
    outs = zip(leaving, (y, mean, variance, again, rstd), (rows * k, rows, rows, rows * k, rows), strict=True)
    for each, argument, count in outs:
        tensor = each.DeQue(asc.float32)
        asc.DataCopy(gm(argument, asc.float32), tensor, count)
        each.FreeTensor(tensor)


def _transdata_data(rng):
    x = rng.integers(-99, 99, (2, 20, 2, 3, 5)).astype(HALF)
    return Data({"x": x, "shape": x.shape}, {"y": in_planes(x)})


@follows(f"{EXAMPLES}/04_advanced_api/08_transpose/transdata", _transdata_data)
@asc.kernel
def transdata(x: asc.In, y: asc.Out, shape: tuple[int, ...]):
    """Planes of 15 pixels are filled up on their way in, and leave as pixels of 16 channels each."""
    n, c, d, h, w = shape
    pipe, padded, c1 = asc.TPipe(), up(h * w, HALVES), -(-c // HALVES)
    size = n * d * c1 * h * w * HALVES
    arriving = queue(pipe, IN, 1, n * c * d * padded * 2)
    leaving = queue(pipe, OUT, 1, size * 2)
    temporary = buffer(pipe, 1_024)
    local = arriving.AllocTensor(asc.half)
    blocks, pads = asc.DataCopyExtParams(n * c * d, h * w * 2), asc.DataCopyPadExtParams(True, 0, padded - h * w, 123)
    asc.DataCopyPad(local, gm(x, asc.half), blocks, pads)
    arriving.EnQue(local)
    result, tmp, local = leaving.AllocTensor(asc.half), temporary.Get(asc.uint8), arriving.DeQue(asc.half)
    asc.PipeBarrier(asc.PIPE_V)
    config = asc.TransDataConfig(asc.DataFormat.NCDHW, asc.DataFormat.NDC1HWC0)
    params = asc.TransDataParams(shape, (n, d, c1, h, w, HALVES))
    asc.TransData(result, local, tmp, params, config=config)
    leaving.EnQue(result)
    arriving.FreeTensor(local)
    result = leaving.DeQue(asc.half)
    asc.DataCopy(gm(y, asc.half), result, size)
    leaving.FreeTensor(result)
