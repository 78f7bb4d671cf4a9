"""Shows: a matrix product in CUDA C++ in five steps, with what is found, what is advised, and times beside an H200's.

Scenario: matmul.cu has five kernels for the same product. In the first, lanes of a warp are in different rows. In the
second they are side by side. The third has tiles in shared memory and lacks a barrier: its result happens to be right
in this order of warps, and a finding names both lines. The fourth has the barrier, and four numbers of the result for
each thread; now lanes meet in a bank. In the fifth, rows of the tile are padded. The advice says what a step would
save.
"""

from pathlib import Path

import numpy as np

import acl_py as acl
from acl_py import MemcpyKind, ptx

N, DEPTH = 512, 64
# A kernel, its tile, its block, and the time of an H200: one of 50 in a row, tests/bench/rows/ptx_samples.json.
STEPS = [
    ("matmul_1", 16, (16, 16), 37.74),
    ("matmul_2", 16, (16, 16), 8.37),
    ("matmul_3", 16, (16, 16), 5.53),
    ("matmul_4", 32, (8, 32), 4.42),
    ("matmul_5", 32, (8, 32), 4.15),
]


async def main():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(np.float32) for shape in ((N, DEPTH), (DEPTH, N)))
    c = np.empty((N, N), np.float32)
    buffers = [await acl.Malloc(each.nbytes) for each in (a, b, c)]
    for buffer, values in zip(buffers, (a, b), strict=False):
        await acl.Memcpy(buffer, buffer.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    module = await ptx.load(Path(__file__).with_name("matmul.ptx").read_text())
    for name, tile, block, h200_us in STEPS:
        launch = await module[name][(N // tile, N // tile), block](*buffers, N, DEPTH)
        await acl.Memcpy(c, c.nbytes, buffers[2], c.nbytes, MemcpyKind.DEVICE_TO_HOST)
        result = launch.work.result
        us = result.timeline.duration_ns / 1000
        print(f"{name}: right: {(c == a @ b).all()}, {us:.2f} us; an H200 takes {h200_us:.2f} us")
        for advice in ptx.advise(result):
            if advice.saved_us > 0.1:
                first, line, *_ = str(advice).splitlines()
                print(f"  {first}\n  {line}")


if __name__ == "__main__":
    acl.run(main, device="h200", rules="cuda")
