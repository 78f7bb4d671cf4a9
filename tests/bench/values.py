"""What runs without values save: a ring of peer copies over many devices, and kernels that are timed by running them.

In the ring each device copies 1 MiB to the next one, in a stream of its own; one task makes the calls. A call is one
such copy, with the SetDevice() before it.
"""

import asyncio
from dataclasses import replace
from statistics import median
from time import process_time

import numpy as np

import acl_py
from acl_py import Array, MemcpyKind, asc, cta
from device_model.profile import load
from tests.bench.measure import interleaved, show, spread, target

NBYTES = 1 << 20
COPIES = 4_096  # of a run
DEVICES = (8, 64, 512)
RUNS = 5
MOST_US = 12  # of a call without values
ELEMENTS, TILE, LAUNCHES = 1 << 16, 2048, 4


def ring_us(devices, values):
    """The processor time of a call in the ring, in microseconds."""
    return asyncio.run(_ring(devices, values))


async def _ring(devices, values):
    card = replace(load("h200"), devices=devices)
    async with acl_py.simulate(device=card, trace=False, workers=1, values=values):
        lanes = []
        for device in range(devices):
            await acl_py.SetDevice(device)
            await acl_py.DeviceEnablePeerAccess((device + 1) % devices)
            lanes.append((await acl_py.Malloc(NBYTES), await acl_py.Malloc(NBYTES), await acl_py.CreateStream()))
        begin = process_time()
        rounds = max(1, COPIES // devices)
        for _ in range(rounds):
            for device, (mine, _, stream) in enumerate(lanes):
                theirs = lanes[(device + 1) % devices][1]
                await acl_py.SetDevice(device)
                await acl_py.MemcpyAsync(theirs, NBYTES, mine, NBYTES, MemcpyKind.DEVICE_TO_DEVICE, stream)
        for device in range(devices):
            await acl_py.SetDevice(device)
            await acl_py.SynchronizeDevice()
        return (process_time() - begin) / rounds / devices * 1e6


@asc.kernel
def exp(x: asc.In, y: asc.Out):
    """In tiles, with two buffers."""
    pipe, queues = asc.TPipe(), (asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2))
    for queue in queues:
        pipe.InitBuffer(queue, 2, TILE * 4)
    for at in range(TILE * asc.GetBlockIdx(), ELEMENTS, TILE * asc.GetBlockNum()):
        local = queues[0].AllocTensor(asc.float32)
        asc.DataCopy(local, asc.GlobalTensor(asc.float32).SetGlobalBuffer(x)[at:], TILE)
        queues[0].EnQue(local)
        local, result = queues[0].DeQue(asc.float32), queues[1].AllocTensor(asc.float32)
        asc.Exp(result, local, TILE)
        queues[1].EnQue(result)
        queues[0].FreeTensor(local)
        result = queues[1].DeQue(asc.float32)
        asc.DataCopy(asc.GlobalTensor(asc.float32).SetGlobalBuffer(y)[at:], result, TILE)
        queues[1].FreeTensor(result)


@cta.kernel(threads=128)
def scale(x: cta.In, y: cta.Out):
    """Four elements of each thread, through shared memory."""
    i = cta.block[0] * 128 + cta.tid
    s = cta.shared(np.float32, (128, 4))
    s[cta.tid] = x.reshape(-1, 4)[i] * 2 + 1
    cta.syncthreads()
    y.reshape(-1, 4)[i] = np.exp(s[127 - cta.tid])


KERNELS = {"exp": ("ascend910b1", exp), "scale": ("h200", scale)}


def launch_ms(name, values):
    """The processor time of a launch, in milliseconds."""
    device, kernel = KERNELS[name]
    return asyncio.run(_launches(device, kernel, ELEMENTS // 512 if kernel is scale else 8, values))


async def _launches(device, kernel, blocks, values):
    async with acl_py.simulate(device=device, trace=False, workers=1, values=values):
        x, y = [Array(await acl_py.Malloc(4 * ELEMENTS), np.float32) for _ in range(2)]
        await acl_py.Memset(x.buffer, 4 * ELEMENTS, 0, 4 * ELEMENTS)
        begin = process_time()
        for _ in range(LAUNCHES):
            await kernel[blocks](x, y)
        await acl_py.SynchronizeDevice()
        return (process_time() - begin) / LAUNCHES * 1e3


def main():
    """Print both tables."""
    columns = ("with values", "without", "bound")
    ring = interleaved({(n, values): (n, values) for n in DEVICES for values in (True, False)}, RUNS, ring_us)
    show(
        f"a ring of peer copies of {NBYTES >> 20} MiB: microseconds of processor time for each call",
        ("devices", *columns),
        [(n, spread(ring[n, True]), spread(ring[n, False]), target(median(ring[n, False]), MOST_US)) for n in DEVICES],
    )
    kernels = interleaved({(n, values): (n, values) for n in KERNELS for values in (True, False)}, RUNS, launch_ms)
    show(
        f"kernels on {ELEMENTS:,} floats: milliseconds of processor time for each launch",
        ("kernel", *columns[:2]),
        [(n, spread(kernels[n, True]), spread(kernels[n, False])) for n in KERNELS],
    )
