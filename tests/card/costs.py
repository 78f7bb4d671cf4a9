"""What verbs cost on a card above the bare calls of the driver, and what waits cost.

Each verb and its call take turns in one run, and the medians count. A wait is a fill, a kernel of 20 us and an `await`.
"""

import asyncio
import ctypes
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import acl_py
from tests.card.kernels import SPIN

_CALLS, _ROUNDS = 300, 9
_US = 20
_NBYTES = 4096
_ANY = acl_py.MemcpyKind.DEFAULT


async def costs() -> None:
    """Print a line for each verb: its cost, that of the call, and the difference, in us."""
    stream, event = await acl_py.CreateStream(), await acl_py.CreateEvent(timing=False)
    pinned, buffer = await acl_py.MallocHost(_NBYTES), await acl_py.Malloc(_NBYTES)
    kernel = (await acl_py.ptx.load(SPIN))["nothing"][1, 32, stream]
    await kernel()
    context: Any = await acl_py.GetCurrentContext()
    cu, handle = context.driver.cu, stream.handle
    [entry] = context.works.modules.entries.values()
    async with acl_py.capture(stream) as graph:
        for _ in range(10):
            await kernel()
    executable: Any = await acl_py.GraphInstantiate(graph)
    pairs: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], object]]] = {
        "copy": (
            lambda: acl_py.MemcpyAsync(buffer, _NBYTES, pinned, _NBYTES, _ANY, stream),
            lambda: cu.cuMemcpyAsync(buffer.address, pinned.address, _NBYTES, handle),
        ),
        "fill": (
            lambda: acl_py.MemsetAsync(buffer, _NBYTES, 0, _NBYTES, stream),
            lambda: cu.cuMemsetD8Async(buffer.address, 0, _NBYTES, handle),
        ),
        "launch": (kernel, lambda: cu.cuLaunchKernel(entry.function, 1, 1, 1, 32, 1, 1, 0, handle, 0, 0)),
        "record": (lambda: acl_py.RecordEvent(event, stream), lambda: cu.cuEventRecord(event.handle, handle)),
        "wait": (
            lambda: acl_py.StreamWaitEvent(stream, event),
            lambda: cu.cuStreamWaitEvent(handle, event.handle, 0),
        ),
        "graph": (
            lambda: acl_py.GraphLaunch(executable, stream),
            lambda: cu.cuGraphLaunch(executable.handle, handle),
        ),
    }
    for name, (verb, call) in pairs.items():
        verbs, calls = [], []
        for _ in range(_ROUNDS):
            begin = time.perf_counter_ns()
            for _ in range(_CALLS):
                await verb()
            verbs.append(time.perf_counter_ns() - begin)
            await acl_py.SynchronizeStream(stream)
            begin = time.perf_counter_ns()
            for _ in range(_CALLS):
                call()
            calls.append(time.perf_counter_ns() - begin)
            await acl_py.SynchronizeStream(stream)
        with_verb, alone = (median(each) / _CALLS / 1000 for each in (verbs, calls))
        print(f"{name:7} {with_verb:6.2f} us, the call {alone:5.2f}, above it {with_verb - alone:5.2f}")


async def waits() -> None:
    """Print what a wait costs if it blocks, in one task, and in many beside a ticker; and one for a second of work."""
    spin = (await acl_py.ptx.load(SPIN))["spin"]
    await _blocking(spin)
    for tasks in (1, 8, 64):
        await _tasks(spin, tasks)
    stream = await acl_py.CreateStream()
    began, used = time.perf_counter(), time.process_time()
    await (await spin[1, 32, stream](10**9))
    print(f"a second of work: {time.perf_counter() - began:.3f} s, {time.process_time() - used:.3f} s of a processor")


async def _blocking(spin: Any, rounds: int = 300) -> None:
    stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(_NBYTES)
    await (await spin[1, 32, stream](_US * 1000))
    context: Any = await acl_py.GetCurrentContext()
    cu, handle = context.driver.cu, stream.handle
    [entry] = context.works.modules.entries.values()
    values = ((_US * 1000,), (ctypes.c_uint64,))
    began = time.perf_counter()
    for _ in range(rounds):
        cu.cuMemsetD8Async(buffer.address, 0, _NBYTES, handle)
        cu.cuLaunchKernel(entry.function, 1, 1, 1, 32, 1, 1, 0, handle, values, 0)
        cu.cuStreamSynchronize(handle)
    print(f"blocking: {(time.perf_counter() - began) / rounds * 1e6:.1f} us a wait")


async def _tasks(spin: Any, count: int, rounds: int = 100) -> None:
    late, is_over = [], asyncio.Event()

    async def tick() -> None:
        last = time.perf_counter()
        while not is_over.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            late.append(now - last - 0.001)
            last = now

    async def wait() -> None:
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(_NBYTES)
        for _ in range(rounds):
            await acl_py.MemsetAsync(buffer, _NBYTES, 0, _NBYTES, stream)
            await (await spin[1, 32, stream](_US * 1000))

    ticker = asyncio.create_task(tick())
    await asyncio.gather(*[wait() for _ in range(count)])  # once to warm up
    began = time.perf_counter()
    await asyncio.gather(*[wait() for _ in range(count)])
    took = time.perf_counter() - began
    is_over.set()
    await ticker
    last = sorted(late)[int(len(late) * 0.99)]
    print(f"{count:2} tasks: {took / count / rounds * 1e6:.1f} us a wait, a ticker is {last * 1e3:.2f} ms late (99 %)")
