"""Shows: ping-pong: two buffers in shared memory that alternate, so that each step of a loop needs one barrier.

Scenario: a block of threads smooths a row of numbers, step after step; a thread needs the old values of its neighbours.
With one buffer, a step reads, waits for all threads, writes, and waits again. Without the barrier in the middle, a fast
warp overwrites what a slow one still reads; this is a finding. With two buffers, a step reads one and writes the other,
and then they change places. The barrier in the middle is not needed any more.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

N, STEPS = 256, 64


def smooth(x, y, buffers, has_barrier):
    s, t = cta.shared(np.float32, (buffers, N + 2)), cta.tid
    for buffer in range(buffers):
        s[buffer, t + 1] = x[t]
        with cta.where(t < 2):
            s[buffer, t * (N + 1)] = 0  # a border on both sides, which stays
    cta.syncthreads()
    for step in range(STEPS):
        old, new = s[step % buffers], s[(step + 1) % buffers]
        mean = (old[t] + old[t + 1] + old[t + 2]) * (1 / 3)
        if has_barrier:
            cta.syncthreads()
        new[t + 1] = mean
        cta.syncthreads()
    y[t] = s[STEPS % buffers, t + 1]


@cta.kernel(threads=N)
def one_buffer(x: cta.In, y: cta.Out):
    smooth(x, y, 1, has_barrier=True)


@cta.kernel(threads=N)
def one_buffer_in_a_hurry(x: cta.In, y: cta.Out):
    smooth(x, y, 1, has_barrier=False)


@cta.kernel(threads=N)
def ping_pong(x: cta.In, y: cta.Out):
    smooth(x, y, 2, has_barrier=False)


async def main():
    values = np.random.default_rng(0).random(N, np.float32)
    expected, result = values.astype(np.float64), np.empty_like(values)
    for _ in range(STEPS):
        expected = np.convolve(expected, np.full(3, 1 / 3), "same")
    x, y = [Array(await acl.Malloc(values.nbytes), np.float32) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for kernel in (one_buffer, one_buffer_in_a_hurry, ping_pong):
        launch = await kernel[1](x, y)
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        us, findings = (launch.end_ns - launch.start_ns) / 1000, len(launch.work.result.findings)
        print(f"{kernel.name}: {us:.2f} us, right: {np.allclose(result, expected)}, findings {findings}\n")


acl.run(main, device="h200")
