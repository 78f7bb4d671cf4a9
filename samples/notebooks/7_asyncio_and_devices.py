# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7 asyncio and devices
#
# A server answers many clients with one event loop and one device. Each client has a task. While one task waits for the
# device, the others should run.
#
# *The question:* a task waits for a kernel of 10 ms, and another task wants to run every millisecond. How often does it
# run, and on which way of waiting does that depend? (Before it: 4. It needs `pip install 'acl-py[notebooks]'`.)
#
# Jupyter has an event loop of its own, whose timers take real time. So this notebook runs each program as a script
# would: `acl_py.run(main)`, with a loop on the simulated clock, in a thread (`teaching.run`). There `asyncio.sleep` and
# time-outs count simulated time, on the same clock as the device.

# %%
import asyncio

import acl_py
from acl_py import Array, Cost, MemcpyKind, Status, teaching

teaching.begin()
NBYTES = 1 << 20


async def run(main, *args, **options):
    """Run `main(*args)` in a loop on the simulated clock; return what it returns."""
    return await teaching.run(main, *args, device="h200", **options)


@acl_py.kernel(cost=Cost(us=10_000))
def slow():
    pass


# %% [markdown]
# ## Your prediction
#
# How often does the other task run in about 10 ms? Write a number in place of each `...`.

# %% tags=["prediction"]
prediction = teaching.predict(
    {"await SynchronizeStream": ..., "a loop of StreamQuery": ..., "sleep between queries": ..., "a busy host": ...},
    unit="times",
)

# %% [markdown]
# ## The run


# %%
async def by_sync(stream):
    await acl_py.SynchronizeStream(stream)


async def by_polling(stream):
    while await acl_py.StreamQuery(stream) is Status.NOT_READY:
        pass


async def by_sleeping(stream):
    while await acl_py.StreamQuery(stream) is Status.NOT_READY:
        await asyncio.sleep(0.002)


async def by_working(_):
    await acl_py.HostWork(us=10_000)  # Python code that computes for 10 ms


async def heartbeat(wait):
    """Return how often a task runs beside one that waits, the calls that were made, and the simulation."""
    sim, stream, beats = acl_py.current_simulation(), await acl_py.CreateStream(), 0

    async def answer():
        await slow[1, stream]()
        await wait(stream)

    task = asyncio.create_task(answer(), name="answer")
    while not task.done():
        await asyncio.sleep(0.001)
        beats += 1
    return beats, len(sim.trace.calls), sim


WAYS = {
    "await SynchronizeStream": by_sync,
    "a loop of StreamQuery": by_polling,
    "sleep between queries": by_sleeping,
    "a busy host": by_working,
}
runs = {name: await run(heartbeat, wait) for name, wait in WAYS.items()}
prediction.check({name: beats for name, (beats, _, _) in runs.items()})
for name, (_, calls, _) in runs.items():
    print(f"{name:24} {calls:6,} calls")

# %% [markdown]
# * **A wait that is awaited** lets all other tasks run. Every verb of acl_py is a coroutine for this reason.
# * **A loop of queries** lets them run too, here, but it makes thousands of calls, and each takes the host 1.5 us. The
#   host does nothing else for 10 ms. In a program whose query is an ordinary function (CUDA, pyACL) such a loop stops
#   all other tasks, as any call that does not return does. The program at the end of this page shows it on a card.
# * **A sleep between queries** costs little, and the answer comes up to one sleep late.
# * **A busy host** stops everybody. There is one thread; the time of one task's Python code is time of all.
#
# ## One task's wait, and the work of the others
#
# Two clients, each with its own stream: one kernel takes 1 ms, the other 10. When is the first one answered?


# %%
@acl_py.kernel(cost=Cost(us=1_000))
def quick():
    pass


async def client(kernel, synchronize, answered):
    stream = await acl_py.CreateStream()
    await kernel[8, stream]()
    await synchronize(stream)
    answered.append((kernel.name, acl_py.current_simulation().now_ns / 1000))


async def two_clients(synchronize):
    answered = []
    await asyncio.gather(client(slow, synchronize, answered), client(quick, synchronize, answered))
    return answered, acl_py.current_simulation().trace


everything, trace_of_everything = await run(two_clients, lambda _: acl_py.SynchronizeDevice())
own, trace_of_own = await run(two_clients, acl_py.SynchronizeStream)
for name, answers in {"SynchronizeDevice": everything, "SynchronizeStream": own}.items():
    print(name, ", ".join(f"{kernel} answered at {us:,.0f} us" for kernel, us in answers))
teaching.show({"SynchronizeDevice": trace_of_everything, "SynchronizeStream": trace_of_own})

# %% [markdown]
# `SynchronizeDevice` waits for the work of all clients. With one client that makes no difference. (`gather` runs its
# tasks in turn: a task queues until its first wait, then the next one begins. So the order of calls is the order of
# the tasks, and the same in each run.)
#
# ## A time-out ends the wait, never the work
#
# A client has patience for 3 ms, and its kernel takes 10. `asyncio.timeout` cancels the wait. What is queued stays
# queued: there is no call that takes a kernel back, neither in CUDA nor in ACL.


# %%
async def impatient():
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    await slow[1, stream]()
    start = sim.now_ns
    try:
        async with asyncio.timeout(0.003):
            await acl_py.SynchronizeStream(stream)
    except TimeoutError:
        print(f"gave up after {(sim.now_ns - start) / 1000:,.0f} us; the stream: {await acl_py.StreamQuery(stream)}")
    await acl_py.SynchronizeStream(stream)
    print(f"the kernel was done after {(sim.now_ns - start) / 1000:,.0f} us")


await run(impatient)

# %% [markdown]
# So the memory of a client that gave up is still in use. Here it goes to the next client at once:


# %%
@acl_py.kernel(cost=Cost(us=5_000))
def compute(x: acl_py.InOut):
    x[:] = x  # the answer is the question


async def serve(host, device, stream, value, patience):
    """Answer one client with pinned memory *host*; None if that takes longer than *patience* seconds."""
    host.numpy()[:] = value
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await compute[8, stream](Array(device))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    try:
        async with asyncio.timeout(patience):
            await acl_py.SynchronizeStream(stream)
    except TimeoutError:
        return None
    return int(host.numpy()[0])


async def reuse():
    host, device = await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES)
    stream = await acl_py.CreateStream()
    first = await serve(host, device, stream, 1, patience=0.001)
    second = await serve(host, device, stream, 2, patience=1)
    return first, second, acl_py.current_simulation()


first, second, sim = await run(reuse, sanitize="host")
print("the first client got", first, "and the second", second, "in place of 2")
teaching.findings(sim)

# %% [markdown]
# The second client got the answer of the first: the copy out of the first one was still queued, and overwrote what the
# host had written for the second.
#
# **The rule:** cancelling ends a wait. Memory may be used again after a wait that was *not* cut short. (Python's
# manual, "Task Cancellation"; "Stream Management" in CUDA's runtime manual has no call that removes work.)
#
# ## A server
#
# Clients arrive every 300 us; each needs a copy in, 500 us of a kernel that uses a part of the device, and a copy out.
# With one worker, which has one stream, the queue grows. With more, answers overlap:


# %%
@acl_py.kernel(cost=Cost(us=500))
def model(x: acl_py.InOut):
    x += 1


async def server(streams, clients=12):
    """Return the microseconds from the arrival of each client to its answer."""
    sim, waiting, times = acl_py.current_simulation(), asyncio.Queue(), []

    async def worker():
        stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
        host = await acl_py.MallocHost(NBYTES)
        host.numpy()[:] = 0
        while True:
            arrived = await waiting.get()
            await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
            await model[8, stream](Array(device))
            await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
            await acl_py.SynchronizeStream(stream)
            times.append((sim.now_ns - arrived) / 1000)
            waiting.task_done()

    workers = [asyncio.create_task(worker()) for _ in range(streams)]
    await asyncio.sleep(0.01)  # they make their buffers
    for _ in range(clients):
        waiting.put_nowait(sim.now_ns)
        await asyncio.sleep(300e-6)
    await waiting.join()
    for each in workers:
        each.cancel()
    return times, sim.trace


SIZES = {"1 worker": 1, "2 workers": 2, "4 workers": 4}
served = {name: await run(server, workers) for name, workers in SIZES.items()}
for name, (times, _) in served.items():
    print(f"{name}: first answer after {times[0]:,.0f} us, last after {times[-1]:,.0f} us")
teaching.show({name: trace for name, (_, trace) in served.items() if name != "2 workers"})

# %% [markdown]
# Two workers are enough: an answer takes less than 600 us, and a client comes every 300. (samples/server of the project
# has batches, random arrivals, and clients that give up.)
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** A progress bar should move each millisecond while the device computes for 10 ms. It moves once. Change the
# wait.


# %% tags=["exercise"]
async def mine(stream):
    await acl_py.HostWork(us=10_100)  # as long as the kernel takes, to be on the safe side


async def check_1(wait):
    """Count how often another task runs, and whether the kernel was done."""
    beats, _, sim = await run(heartbeat, wait)
    end = max(op.end_ns for op in sim.trace.ops)
    exits = [call.exit_ns for call in sim.trace.calls]
    teaching.exercise(beats >= 10 and max(exits) >= end, f"the bar moved {beats} times")


await check_1(mine)

# %% [markdown]
# **2.** A client waits for the result of two kernels in two streams. They are awaited one after the other, so the
# client does not notice if the second one is done first. Return the names in the order in which they end.


# %% tags=["exercise"]
async def mine(slow_stream, quick_stream):
    done = []
    await acl_py.SynchronizeStream(slow_stream)
    done.append("slow")
    await acl_py.SynchronizeStream(quick_stream)
    done.append("quick")
    return done


async def check_2(wait):
    """Let *wait* wait for two streams; check the order."""

    async def program():
        streams = [await acl_py.CreateStream() for _ in range(2)]
        await slow[8, streams[0]]()
        await quick[8, streams[1]]()
        return await wait(*streams)

    done = await run(program)
    teaching.exercise(done == ["quick", "slow"], f"done: {', '.join(done)}")


await check_2(mine)

# %% [markdown]
# **3.** `reuse` above gave the memory of a client that had given up to the next one. Here are two sets of buffers, each
# with its stream. Make `mine` answer the first client (value 1, patience 1 ms) with None, and the second (value 2)
# with 2, without a race, and before 8 ms have passed.


# %% tags=["exercise"]
async def mine(one, other):
    first = await serve(*one, 1, patience=0.001)
    second = await serve(*one, 2, patience=1)
    return first, second


async def check_3(program):
    """Let *program* answer two clients; check the answers, the order and the time."""

    async def whole():
        sim = acl_py.current_simulation()
        sets = [
            (await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES), await acl_py.CreateStream())
            for _ in range(2)
        ]
        start = sim.now_ns
        answers = await program(*sets)
        return answers, (sim.now_ns - start) / 1000, sim

    answers, us, sim = await run(whole, sanitize="host")
    solved = answers == (None, 2) and us < 8_000 and not sim.findings
    teaching.exercise(solved, f"answers {answers} after {us:,.0f} us, findings: {len(sim.findings)}")


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# A copy of 40 ms, awaited with a verb, while another task runs every millisecond.
#
# ```python
# import asyncio
# import acl_py as acl
#
# BIG, ANY = 2 << 30, acl.MemcpyKind.DEFAULT
#
# async def main():
#     pinned, device, stream = await acl.MallocHost(BIG), await acl.Malloc(BIG), await acl.CreateStream()
#
#     async def answer():
#         await acl.MemcpyAsync(device, BIG, pinned, BIG, ANY, stream)  # about 40 ms
#         await acl.SynchronizeStream(stream)
#
#     for _ in range(3):
#         beats, task = 0, asyncio.create_task(answer())
#         while not task.done():
#             await asyncio.sleep(0.001)
#             beats += 1
#         print(f"the other task ran {beats} times")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The other task goes on. A blocking call of cuda-python stops the loop. On an H200 (driver 580, CUDA 13.0) the other
# task ran once while it waited, and 34 times while the call was in a thread.
