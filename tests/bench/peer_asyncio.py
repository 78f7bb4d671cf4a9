"""The ring in asyncio, as its user would write it: a task and an asyncio.Queue per stream, on a loop in simulated time.

A copy engine is a Semaphore of one, the cores are one of 132; what takes time sleeps. The loop's clock jumps to the
next timer and no system call is made. The host pays for each call in simulated time and waits while a stream holds as
many entries as a hardware queue does. Latencies are those of peer_simpy, and left out is what it leaves out.
"""

import asyncio
import selectors
from time import process_time

import numpy as np

from tests.bench.ring import D2H_NS, FLOATS, H2D_NS, KERNEL_NS, ONE, PROFILE, SUBMIT_NS, Result, check, rounds_of

H2D, KERNEL, D2H, RECORD, WAIT = range(5)
NS = 1e-9


class JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: whoever would sleep finds that the time has passed."""

    now = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "nobody can run and no timer is set"
        self.now += timeout
        return []


def new_loop():
    selector = JumpingSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now
    return loop


def run(ops, count):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(ring(ops, count))


async def ring(ops, count):
    rounds = rounds_of(ops, count)
    hosts = [np.full(FLOATS, index % 7, np.float32) for index in range(count)]
    queues = [asyncio.Queue(PROFILE.queues.depth) for _ in range(count)]
    h2d, d2h, cores = asyncio.Semaphore(1), asyncio.Semaphore(1), asyncio.Semaphore(PROFILE.cores.count)
    h2d.free_s = d2h.free_s = 0.0
    ends = [0.0] * count
    loop = asyncio.get_running_loop()
    streams = [
        asyncio.create_task(stream(loop, queue, host, np.empty(FLOATS, np.float32), h2d, d2h, cores, ends, index))
        for index, (queue, host) in enumerate(zip(queues, hosts, strict=True))
    ]
    simulated = loop.time()
    begin = process_time()
    await host_program(loop, queues, rounds)
    seconds = process_time() - begin
    simulated_ns = round((loop.time() - simulated) / NS)
    for task in streams:
        task.cancel()
    check(hosts, rounds)
    ops = 3 * count * rounds
    return Result("asyncio", ops, count, seconds, simulated_ns, sum(ends) / ops / NS)


async def host_program(loop, queues, rounds):
    costs = PROFILE.host
    sleep = asyncio.sleep
    copy, launch, record, wait = costs.copy * NS, costs.launch * NS, costs.record * NS, costs.wait * NS
    for _ in range(rounds):
        events = []
        for queue in queues:
            await sleep(copy)
            await queue.put((H2D, loop.time()))
            await sleep(launch)
            await queue.put((KERNEL, loop.time()))
            await sleep(copy)
            await queue.put((D2H, loop.time()))
            await sleep(record)
            event = loop.create_future()
            events.append(event)
            await queue.put((RECORD, event))
        for queue, event in zip(queues, events[-1:] + events[:-1], strict=True):
            await sleep(wait)
            await queue.put((WAIT, event))
    last = [loop.create_future() for _ in queues]
    await sleep(costs.sync * NS)
    for queue, event in zip(queues, last, strict=True):
        await queue.put((RECORD, event))
    await asyncio.gather(*last)
    await sleep(costs.wake * NS)


async def stream(loop, queue, host, device, h2d, d2h, cores, ends, index):
    sleep, get, now = asyncio.sleep, queue.get, loop.time
    h2d_s, kernel_s, d2h_s = H2D_NS * NS, KERNEL_NS * NS, D2H_NS * NS
    submit, across, gap = SUBMIT_NS * NS, PROFILE.latency.engines * NS, PROFILE.latency.copy_gap * NS
    end = -across  # of what the next operation comes behind
    while True:
        kind, what = await get()
        if kind == RECORD:
            what.set_result(end)
            continue
        if kind == WAIT:
            end = max(end, await what)
            continue
        ready = max(what + submit, end + across)
        if ready > now():
            await sleep(ready - now())
        if kind == H2D:
            async with h2d:
                await sleep(max(h2d.free_s - now(), 0) + h2d_s)
            h2d.free_s = now() + gap
            device[:] = host
        elif kind == KERNEL:
            async with cores:
                await sleep(kernel_s)
            np.add(device, ONE, out=device)
        else:
            async with d2h:
                await sleep(max(d2h.free_s - now(), 0) + d2h_s)
            d2h.free_s = now() + gap
            host[:] = device
        end = now()
        ends[index] += end
