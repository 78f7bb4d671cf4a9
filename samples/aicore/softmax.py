"""Shows: reductions and scalars in a core kernel: softmax over the rows of a matrix, more rows than one core has.

Scenario: each block takes its share of the rows; if they do not divide evenly, the first blocks take one more. For each
row, ReduceMax finds the largest element, which is subtracted so that Exp does not overflow; ReduceSum adds up the
results, and they are divided by the sum. The scalar pipe reads both numbers with GetValue, which does not wait for the
vector pipe: that takes a flag, V_S. Queues do the rest. The result is compared with softmax in float64.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

ROWS, WIDTH = 100, 1024
BLOCKS = 48


def scalar_of(tensor):
    """Return the first element of *tensor* after the vector pipe has written it."""
    asc.SetFlag(asc.HardEvent.V_S, 0)
    asc.WaitFlag(asc.HardEvent.V_S, 0)
    value = tensor.GetValue(0)
    asc.SetFlag(asc.HardEvent.S_V, 0)  # the vector pipe may write it again
    asc.WaitFlag(asc.HardEvent.S_V, 0)
    return value


@asc.kernel
def softmax(x: asc.In, y: asc.Out):
    share, more = divmod(ROWS, asc.GetBlockNum())
    block = asc.GetBlockIdx()
    first = block * share + min(block, more)
    pipe = asc.TPipe()
    arriving, leaving = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.InitBuffer(arriving, 2, WIDTH * 4)
    pipe.InitBuffer(leaving, 2, WIDTH * 4)
    scratch, found = asc.TBuf(asc.TPosition.VECCALC), asc.TBuf(asc.TPosition.VECCALC)
    pipe.InitBuffer(scratch, WIDTH * 4)
    pipe.InitBuffer(found, 32)
    work, number = scratch.Get(asc.float32), found.Get(asc.float32)
    x_gm, y_gm = asc.GlobalTensor(asc.float32).SetGlobalBuffer(x), asc.GlobalTensor(asc.float32).SetGlobalBuffer(y)
    for row in range(first, first + share + (block < more)):
        values = arriving.AllocTensor(asc.float32)
        asc.DataCopy(values, x_gm[row * WIDTH :], WIDTH)
        arriving.EnQue(values)
        values, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.float32)
        asc.ReduceMax(number, values, work, WIDTH)
        asc.Adds(result, values, -scalar_of(number), WIDTH)
        asc.Exp(result, result, WIDTH)
        asc.ReduceSum(number, result, work, WIDTH)
        asc.Muls(result, result, 1 / scalar_of(number), WIDTH)
        leaving.EnQue(result)
        arriving.FreeTensor(values)
        result = leaving.DeQue(asc.float32)
        asc.DataCopy(y_gm[row * WIDTH :], result, WIDTH)
        leaving.FreeTensor(result)


async def main():
    values = np.random.default_rng(0).normal(0, 5, (ROWS, WIDTH)).astype(np.float32)
    result = np.empty_like(values)
    sim = acl.current_simulation()
    x, y = [Array(await acl.Malloc(values.nbytes), np.float32) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    await softmax[BLOCKS](x, y)
    await acl.SynchronizeDevice()
    [launch] = [op for op in sim.trace.ops if op.cores is not None]
    await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
    exact = np.exp(values - values.max(axis=1, keepdims=True).astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    print(f"relative error below 0.00001: {np.max(np.abs(result - exact) / exact) < 1e-5}, findings {sim.findings}")
    print(f"{ROWS} rows on {BLOCKS} cores took {(launch.end_ns - launch.start_ns) / 1000:.2f} us; a core was busy")
    print("  " + ", ".join(f"{name} {us:.2f} us" for name, us in launch.cores.busy_us.items()))


acl.run(main, device="ascend910b1")
