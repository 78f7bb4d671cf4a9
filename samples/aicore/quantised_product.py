"""Shows: a product of int8 matrices, whose sums become halves on their way out of the cube.

Scenario: Y = X * W, where X and W are stored as int8 with a factor for X and one for each column of W. The cube adds up
products of int8 in int32. Fixpipe, which stores C, multiplies each column with the product of both factors and rounds
to half, so no vector core is needed. The same product of halves moves twice the bytes, and its cube is half as fast.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

M, N, K = 512, 1024, 1024
CORES = 8
GM, ND = asc.TPosition.GM, asc.CubeFormat.ND


@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def product(x: asc.In, w: asc.In, words: asc.In, y: asc.Out, tiling: asc.TCubeTiling, dtype: np.dtype):
    factors = asc.MatmulType(GM, ND, dtype)
    matmul = asc.Matmul(factors, factors, asc.MatmulType(GM, ND, asc.half))
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, matmul, tiling)
    row, column, rows, columns = tiling.part(asc.GetBlockIdx())
    matmul.SetSingleShape(rows, columns, K)
    matmul.SetTensorA(asc.GlobalTensor(dtype).SetGlobalBuffer(x)[row * K :])
    matmul.SetTensorB(asc.GlobalTensor(dtype).SetGlobalBuffer(w)[column:])
    if dtype == asc.int8:
        matmul.SetQuantVector(asc.GlobalTensor(asc.uint64).SetGlobalBuffer(words)[column:])
    matmul.IterateAll(asc.GlobalTensor(asc.half).SetGlobalBuffer(y)[row * N + column :])
    matmul.End()


def quantised(numbers, axis):
    """Return *numbers* as int8, and the factors with which they become floats again."""
    scale = np.abs(numbers).max(axis, keepdims=True) / 127
    return np.rint(numbers / scale).astype(np.int8), scale.astype(np.float32)


async def on_device(numbers):
    array = Array(await acl.Malloc(numbers.nbytes), numbers.dtype)
    await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return array


async def main():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(M, K)), rng.normal(size=(K, N)) / np.sqrt(K)
    (x8, of_x), (w8, of_w) = quantised(x, None), quantised(w, 0)
    words = await on_device(asc.trans_quant_param((of_x * of_w).ravel()))
    spec, result = acl.current_simulation().runtime.profile.aicore, np.empty((M, N), np.float16)
    y = Array(await acl.Malloc(result.nbytes), np.float16)
    for name, left, right in (("int8", x8, w8), ("half", x.astype(np.float16), w.astype(np.float16))):
        tiling = asc.multi_core_matmul_tiling(spec, M, N, K, left.dtype, cores=CORES)
        launched = await product[CORES](await on_device(left), await on_device(right), words, y, tiling, left.dtype)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        busy = launched.work.result.timeline.busy_us
        print(
            f"{name}: {(launched.end_ns - launched.start_ns) / 1000:5.2f} us, cube {busy['mac']:5.2f} us, copies in "
            f"{busy['mte2']:5.2f} us; mean error {np.abs(result - x @ w).mean():.4f}, "
            f"findings {len(launched.work.result.findings)}"
        )


acl.run(main, device="ascend910b1")
