"""A program that launches kernels, with three mistakes."""

import numpy as np

import acl_py as acl
from acl_py import asc


@acl.kernel(cost=acl.Cost(us=5))
def scale(x: acl.InOut, factor: float) -> None:
    np.multiply(x, factor, out=x)


@acl.block_kernel
def shift(block: int, x: acl.In, out: acl.Out, by: int = 1) -> None:
    out[block] = x[block] + by


@asc.kernel
def add(x: asc.In, y: asc.Out, length: int) -> None:
    source, target = asc.GlobalTensor(np.float16), asc.GlobalTensor(np.float16)
    source.SetGlobalBuffer(x, length)
    target.SetGlobalBuffer(y, length)


@acl.kernel
def transpose(x: acl.InOut) -> None:
    x[:] = x.transposed()  # planted: arrays have no such method


async def main() -> None:
    buffer, stream = await acl.Malloc(4096), await acl.CreateStream()
    x = acl.Array(buffer, np.float32)
    await scale[8, stream](x, 3)
    await scale[np.int64(8), stream](buffer, factor=0.5)
    await shift[8](x[:8], buffer[1024:])
    await shift[8, None](x, buffer.address, by=2)
    await add[8](x, x, 16)
    await acl.LaunchKernel(scale, 8, (x, 3.0), stream)

    await scale[8, stream](x)  # planted: the factor is missing
    await add[8, stream](x, x, "16")  # planted: the length is a text
    launch = await transpose[1](x)
    await launch
    print(launch.end_ns - launch.start_ns)
