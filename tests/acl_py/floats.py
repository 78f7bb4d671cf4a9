"""A program whose floats are what NumPy and BLAS make of them on this machine, and whose integers and times are not.

Run as a script it prints a line of JSON: which instructions NumPy and BLAS use, the floats, and all the rest.
"""

import json
from hashlib import sha256

import numpy as np
from threadpoolctl import threadpool_info

import acl_py as acl
from acl_py import asc

SIDE = 192


@acl.kernel(cost=acl.Cost(flops=2 * SIDE**3))
def product(a: acl.In, b: acl.In, out: acl.Out) -> None:
    np.matmul(a, b, out=out)


@acl.kernel(cost=acl.Cost(us=3))
def grow(x: acl.In, out: acl.Out) -> None:
    np.exp(-x, out=out)


@acl.kernel(cost=acl.Cost(us=2))
def count(n: acl.InOut) -> None:
    n[:] = np.cumsum(n * 3 + 1) % 1_000_003


@asc.kernel
def double(x: asc.In, out: asc.Out) -> None:
    pipe, queue, results = asc.TPipe(), asc.TQue(asc.QuePosition.VECIN, 1), asc.TQue(asc.QuePosition.VECOUT, 1)
    pipe.InitBuffer(queue, 1, 1024)
    pipe.InitBuffer(results, 1, 1024)
    given, taken = queue.AllocTensor(asc.int32), results.AllocTensor(asc.int32)
    asc.DataCopy(given, asc.GlobalTensor(asc.int32).SetGlobalBuffer(x), 256)
    queue.EnQue(given)
    given = queue.DeQue(asc.int32)
    asc.Add(taken, given, given, 256)
    results.EnQue(taken)
    queue.FreeTensor(given)
    taken = results.DeQue(asc.int32)
    asc.DataCopy(asc.GlobalTensor(asc.int32).SetGlobalBuffer(out), taken, 256)
    results.FreeTensor(taken)


async def program():
    rng = acl.current_simulation().rng
    a, b, out = [acl.Array(await acl.Malloc(4 * SIDE**2), np.float32, (SIDE, SIDE)) for _ in range(3)]
    n, doubled = [acl.Array(await acl.Malloc(1024), np.int32) for _ in range(2)]
    values = rng.integers(1 << 20, size=256, dtype=np.int32)
    for array, content in ((a, rng.random((SIDE, SIDE), np.float32)), (n, values)):
        await acl.Memcpy(array, array.nbytes, content, array.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
    for _ in range(3):
        await grow[4](a, b)
        await product[20](a, b, out)
        await grow[4](out, b)
        await count[1](n)
        await double[1](n, doubled)
    await acl.SynchronizeDevice()
    return [await read(array) for array in (b, out)], [await read(array) for array in (n, doubled)]


async def read(array):
    result = np.zeros(array.nbytes, np.uint8)
    await acl.Memcpy(result, array.nbytes, array, array.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    return sha256(result).hexdigest()


async def main():
    floats, integers = await program()
    trace = acl.current_simulation().trace
    return floats, integers, [str(op) for op in trace.ops], [str(call) for call in trace.calls]


if __name__ == "__main__":
    floats, *rest = acl.run(main, device="ascend910b1")
    blas = [library["architecture"] for library in threadpool_info() if "architecture" in library]
    settings = [np.show_config(mode="dicts")["SIMD Extensions"], blas]
    print(json.dumps({"settings": settings, "floats": floats, "rest": rest}))
