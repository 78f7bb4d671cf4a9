"""Programs that mix asyncio's timers with a device; `python clocked.py [uvloop]` prints what they come to.

test_clock.py runs them many times, in several processes and beside others, and compares what they return.
"""

import asyncio
import sys
from contextlib import asynccontextmanager

import acl_py as acl


def busy(us):
    return acl.kernel(cost=acl.Cost(us=us))(lambda: None)


@asynccontextmanager
async def bystanders(count=20):
    """Tasks that sleep, wait for queues with a time-out, and wait for an event, as long as the block lasts."""
    queue, never = asyncio.Queue(), asyncio.Event()

    async def sleeper(seconds):
        while True:  # noqa: ASYNC110 - it waits for nothing but the clock
            await asyncio.sleep(seconds)

    async def reader(seconds):
        while True:
            try:
                await asyncio.wait_for(queue.get(), seconds)
            except TimeoutError:
                queue.put_nowait("item")

    kinds = (lambda n: sleeper(0.0021 + n * 1e-4), lambda n: reader(0.0031 + n * 1e-4), lambda n: never.wait())
    tasks = [asyncio.create_task(kinds[n % 3](n)) for n in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def strike():
    """A time-out of a second around a wait of a minute strikes after a second."""
    stream, sim = await acl.CreateStream(), acl.current_simulation()
    await acl.LaunchKernel(busy(60e6), 1, (), stream)
    begin = sim.now_ns
    try:
        async with asyncio.timeout(1):
            await acl.SynchronizeStream(stream)
    except TimeoutError:
        return sim.now_ns - begin


async def kernels():
    """How many kernels of 100 us a time-out of 10 ms lets through, and when it struck."""
    stream, sim, kernel = await acl.CreateStream(), acl.current_simulation(), busy(100)
    begin, count = sim.now_ns, 0
    try:
        async with asyncio.timeout(0.01):
            while True:
                await acl.LaunchKernel(kernel, 1, (), stream)
                await acl.SynchronizeStream(stream)
                count += 1
    except TimeoutError:
        return count, sim.now_ns - begin


async def sleep():
    """How far asyncio.sleep(0.2) moves the clock."""
    sim = acl.current_simulation()
    begin = sim.now_ns
    await asyncio.sleep(0.2)
    return sim.now_ns - begin


async def serve():
    """A server with one stream, and clients that give up after 300 us: who was answered, and when."""
    sim, stream, kernel = acl.current_simulation(), await acl.CreateStream(), busy(90)
    requests, log = asyncio.Queue(), []
    begin = sim.now_ns

    async def worker():
        while True:
            answer = await requests.get()
            await acl.LaunchKernel(kernel, 1, (), stream)
            await acl.SynchronizeStream(stream)
            if not answer.done():
                answer.set_result(None)

    async def client(number):
        await asyncio.sleep(number * 60e-6)
        answer = asyncio.get_running_loop().create_future()
        requests.put_nowait(answer)
        try:
            await asyncio.wait_for(answer, 300e-6)
            outcome = "answered"
        except TimeoutError:
            outcome = "gave up"
        log.append((number, outcome, sim.now_ns - begin))

    working = asyncio.create_task(worker())
    await asyncio.gather(*(client(number) for number in range(20)))
    working.cancel()
    await asyncio.wait([working])
    return log


async def instant():
    """A hundred timers at one instant, set from several sides: the order in which they ring."""
    loop, rung = asyncio.get_running_loop(), []
    when = loop.time() + 0.3
    for number in range(100):
        if number % 2:
            loop.call_at(when, rung.append, number)
        else:
            loop.call_later(when - loop.time(), rung.append, number)
        await acl.HostWork(0.1)
    await asyncio.sleep(1)
    return rung


PROGRAMS = (strike, kernels, sleep, serve, instant)


async def _beside_others(program):
    async with bystanders():
        return await program()


def outcomes(uvloop=False):
    """What each program returns: alone, and beside twenty other tasks."""
    for program in PROGRAMS:
        yield program.__name__, acl.run(program, device="tiny", uvloop=uvloop)
        yield f"{program.__name__} beside others", acl.run(_beside_others, program, device="tiny", uvloop=uvloop)


if __name__ == "__main__":
    for name, outcome in outcomes("uvloop" in sys.argv):
        print(name, outcome)
