"""Shows: a kernel in CUDA C++ without a card: its result, its time beside that of an H200, and a mistake with its line.

Scenario: vector_add.cu adds two vectors of a million numbers, with a thread for each. The second kernel has forgotten
that the last block has threads without a number. On a card it spoils what happens to be behind the vector, and mostly
nothing is said. Here it stops, and the error names the block, the thread and the line of the source.
"""

from pathlib import Path

import numpy as np

import acl_py as acl
from acl_py import AclError, MemcpyKind, ptx

N, THREADS = 1_000_000, 256
BLOCKS = -(-N // THREADS)
H200_US = 3.27  # one of 50 launches in a row: tests/bench/rows/ptx_samples.json


async def main():
    rng = np.random.default_rng(0)
    x, y, z = rng.random(N, np.float32), rng.random(N, np.float32), np.empty(N, np.float32)
    buffers = [await acl.Malloc(each.nbytes) for each in (x, y, z)]
    for buffer, values in zip(buffers, (x, y), strict=False):
        await acl.Memcpy(buffer, buffer.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    module = await ptx.load(Path(__file__).with_name("vector_add.ptx").read_text())
    stream = await acl.CreateStream()

    launch = await module["add"][BLOCKS, THREADS, stream](*buffers, N)
    await acl.SynchronizeStream(stream)
    await acl.Memcpy(z, z.nbytes, buffers[2], z.nbytes, MemcpyKind.DEVICE_TO_HOST)
    us = launch.work.result.timeline.duration_ns / 1000
    print(f"add: right: {(z == x + y).all()}, {us:.2f} us; an H200 takes {H200_US:.2f} us")
    print("what it would save:", *ptx.advise(launch.work.result) or ["nothing is found"])

    await module["add_without_guard"][BLOCKS, THREADS, stream](*buffers, N)
    try:
        await acl.SynchronizeStream(stream)
    except AclError as error:
        print(f"add_without_guard: {error}")


if __name__ == "__main__":
    acl.run(main, device="h200", rules="cuda")
