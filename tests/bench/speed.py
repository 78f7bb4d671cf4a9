"""Functional speed: how fast large data really moves and large kernels really compute, beside NumPy in the same run."""

from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import numpy as np

import acl_py
from acl_py.verbs.copies import MemcpyKind
from tests.bench.measure import interleaved, ratio, say, show, spread, target

TOTAL = 256 << 20
CHUNK = 16 << 20
STREAMS = 4
PASSES = 4  # over the same memory: the first touches it
FLOATS = 1 << 20
KERNELS = 6
GB = 1e9


def main():
    _copies()
    _kernels()


# --- copies


def _copies():
    ways = {
        "np.copyto": (_copy_by_numpy,),
        "acl_py, 1 worker": (lambda: acl_py.run(_copy_by_acl, workers=1, trace=False),),
        "acl_py, 2 workers": (lambda: acl_py.run(_copy_by_acl, workers=2, trace=False),),
    }
    results = interleaved(ways, 3, lambda way: way())
    speed = {way: [2 * TOTAL / median(run[1:]) / GB for run in runs] for way, runs in results.items()}
    first = {way: [2 * TOTAL / run[0] / GB for run in runs] for way, runs in results.items()}
    show(
        f"Copies: {TOTAL >> 20} MiB of pinned data to the device and back, {CHUNK >> 20} MiB each, {STREAMS} streams",
        ("by", "GB/s", "GB/s, memory untouched before"),
        [(way, spread(speed[way]), spread(first[way])) for way in ways],
    )
    for way in list(ways)[1:]:
        say(f"  {way} : np.copyto  {target(ratio(speed[way], speed['np.copyto']), 0.5, at_least=True)}")
    say("")


def _copy_by_numpy():
    source, device, back = np.arange(TOTAL, dtype=np.uint8), np.empty(TOTAL, np.uint8), np.empty(TOTAL, np.uint8)
    seconds = []
    for _ in range(PASSES):
        begin = perf_counter()
        for at in range(0, TOTAL, CHUNK):
            np.copyto(device[at : at + CHUNK], source[at : at + CHUNK])
            np.copyto(back[at : at + CHUNK], device[at : at + CHUNK])
        seconds.append(perf_counter() - begin)
    return seconds


async def _copy_by_acl():
    source, device, back = await acl_py.MallocHost(TOTAL), await acl_py.Malloc(TOTAL), await acl_py.MallocHost(TOTAL)
    source.numpy()[:] = np.arange(TOTAL, dtype=np.uint8)
    streams = [await acl_py.CreateStream() for _ in range(STREAMS)]
    seconds = []
    for _ in range(PASSES):
        begin = perf_counter()
        for index, at in enumerate(range(0, TOTAL, CHUNK)):
            stream, part = streams[index % STREAMS], device[at : at + CHUNK]
            await acl_py.MemcpyAsync(part, CHUNK, source[at : at + CHUNK], CHUNK, MemcpyKind.HOST_TO_DEVICE, stream)
            await acl_py.MemcpyAsync(back[at : at + CHUNK], CHUNK, part, CHUNK, MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.SynchronizeDevice()
        seconds.append(perf_counter() - begin)
    assert (back.numpy() == source.numpy()).all(), "the pipeline lost data"
    return seconds


# --- kernels


def _compute(x):
    for _ in range(10):  # the cores are to be busy, not the memory
        np.power(x, 0.99, out=x)


@acl_py.kernel(cost=acl_py.Cost(us=1000))
def powers(x: acl_py.InOut) -> None:
    _compute(x)


def _kernels():
    arrays = [np.full(FLOATS, 1.5) for _ in range(KERNELS)]
    ways = {
        "NumPy, 1 thread": (_powers_by_numpy, arrays, 1),
        "NumPy, 2 threads": (_powers_by_numpy, arrays, 2),
        "acl_py, 1 worker": (lambda: acl_py.run(_powers_by_acl, workers=1, trace=False),),
        "acl_py, 2 workers": (lambda: acl_py.run(_powers_by_acl, workers=2, trace=False),),
    }
    results = interleaved(ways, 5, lambda way, *args: way(*args))
    show(
        f"Kernels: {KERNELS} independent ones, each ten powers of {FLOATS >> 20} Mi float64",
        ("by", "ms"),
        [(way, spread([second * 1000 for second in results[way]], "{:.0f}")) for way in ways],
    )
    for who, one, two in (("NumPy, 1 : 2 threads  ", *list(ways)[:2]), ("acl_py, 1 : 2 workers ", *list(ways)[2:])):
        say(f"  {who} {ratio(results[one], results[two]):.2f} times as fast")
    gain = ratio(results["acl_py, 1 worker"], results["acl_py, 2 workers"])
    most = ratio(results["NumPy, 1 thread"], results["NumPy, 2 threads"])
    say(f"  of what two bare threads gain  {target(gain / most, 0.8, at_least=True)}\n")


def _powers_by_numpy(arrays, threads):
    with ThreadPoolExecutor(threads) as pool:
        begin = perf_counter()
        list(pool.map(_compute, arrays))
        return perf_counter() - begin


async def _powers_by_acl():
    buffers = [await acl_py.Malloc(FLOATS * 8) for _ in range(KERNELS)]
    streams = [await acl_py.CreateStream() for _ in buffers]
    arrays = [acl_py.Array(buffer, np.float64) for buffer in buffers]
    for buffer in buffers:
        await acl_py.Memset(buffer, FLOATS * 8, 63, FLOATS * 8)
    await acl_py.SynchronizeDevice()
    begin = perf_counter()
    for array, stream in zip(arrays, streams, strict=True):
        await powers[1, stream](array)
    await acl_py.SynchronizeDevice()
    return perf_counter() - begin
