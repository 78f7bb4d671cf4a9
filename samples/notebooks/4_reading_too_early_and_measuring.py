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
# # 4 Reading too early, and measuring
#
# A kernel computes a result, and `MemcpyAsync` brings it to pinned memory. Both calls return at once. The host can read
# that memory at any time; nothing stops it.
#
# *The question:* after which calls does the host read the result, and not what was there before?
#
# The second half asks the same of clocks: what does the time between two lines of the program measure? (About 20
# minutes; `pip install 'acl-py[notebooks]'`.)

# %%
import numpy as np

import acl_py
from acl_py import Array, Cost, MemcpyKind, teaching

teaching.begin()
NBYTES = 1 << 20


@acl_py.kernel(cost=Cost(us=100))
def produce(x: acl_py.Out):
    x[:] = 42


# %% [markdown]
# ## Your prediction
#
# The memory holds 0, and the result is 42. Behind the copy, the host does one of these, and then reads. `before` is an
# event that was recorded before the kernel was queued, `behind` one that was recorded behind the copy. Write 0 or 42 in
# place of each `...`.

# %%
prediction = teaching.predict(
    {
        "nothing": ...,
        "StreamQuery(stream)": ...,
        "SynchronizeEvent(before)": ...,
        "work of 50 us": ...,
        "work of 500 us": ...,
        "SynchronizeEvent(behind)": ...,
        "SynchronizeStream(stream)": ...,
    },
    choices=[0, 42],
)

# %% [markdown]
# ## The run


# %%
async def fetch(then, *, pinned=True, sanitize=False):
    """Produce and fetch a result, do *then*, and read; return the simulation, what was read, and when, in us."""
    sim = acl_py.open(device="h200", sanitize=sanitize)
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
    host = await acl_py.MallocHost(NBYTES) if pinned else np.zeros(NBYTES, np.uint8)
    before, behind = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    if pinned:
        host.numpy()[:] = 0
    start = sim.now_ns
    await acl_py.RecordEvent(before, stream)
    await produce[8, stream](Array(device))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.RecordEvent(behind, stream)
    await then(stream, before, behind)
    us, seen = (sim.now_ns - start) / 1000, int((host.numpy() if pinned else host)[0])
    await acl_py.SynchronizeDevice()
    await sim.close()
    return sim, seen, us


async def nothing(*_):
    pass


WAYS = {
    "nothing": nothing,
    "StreamQuery(stream)": lambda stream, *_: acl_py.StreamQuery(stream),
    "SynchronizeEvent(before)": lambda _, before, __: acl_py.SynchronizeEvent(before),
    "work of 50 us": lambda *_: acl_py.HostWork(us=50),
    "work of 500 us": lambda *_: acl_py.HostWork(us=500),
    "SynchronizeEvent(behind)": lambda _, __, behind: acl_py.SynchronizeEvent(behind),
    "SynchronizeStream(stream)": lambda stream, *_: acl_py.SynchronizeStream(stream),
}
runs = {name: await fetch(then) for name, then in WAYS.items()}
prediction.check({name: seen for name, (_, seen, _) in runs.items()}, within=0)

# %% [markdown]
# `StreamQuery` asks whether the stream is done and does not wait for it. An event stands for the work *before its
# record*, so `before` is complete at once. And 500 us of work are long enough here. Look at three of them:

# %%
teaching.show({name: runs[name][0].trace for name in ("nothing", "work of 500 us", "SynchronizeStream(stream)")})

# %% [markdown]
# ## Right by luck
#
# With 500 us of work the result is right in every run, and the program is wrong all the same: nothing makes the host
# wait. On a slower link, or behind another program's work, the copy ends later. A test does not find this, because the
# test is as lucky as the program. The sanitizer looks for the order, not for the times:

# %%
lucky, seen, _ = await fetch(WAYS["work of 500 us"], sanitize="host")
print("read:", seen)
teaching.findings(lucky)

# %%
ordered, seen, _ = await fetch(WAYS["SynchronizeEvent(behind)"], sanitize="host")
print("read:", seen)
teaching.findings(ordered)

# %% [markdown]
# **The rule:** the destination of an asynchronous copy belongs to the device until the host has waited for the copy,
# for an event behind it, for its stream or for the device. (CUDA's programming guide, "Asynchronous Concurrent
# Execution"; PyTorch's tutorial about `non_blocking` warns of the same.) The price of the wait is the time until the
# copy ends, and the host can use that time: queue more, or work on what has arrived.
#
# With **pageable** memory this mistake cannot happen under CUDA, because the call waits (notebook 3). So programs that
# were right become wrong when somebody pins their memory to make them faster:

# %%
for pinned in (False, True):
    _, seen, us = await fetch(nothing, pinned=pinned)
    print(f"{'pinned' if pinned else 'pageable':9} read {seen:2} after {us:4.0f} us")

# %% [markdown]
# ## What a clock measures
#
# Predict how many microseconds each of these gives for the kernel of 100 us.

# %%
times = teaching.predict({"host clock around the launch": ..., "with SynchronizeStream": ..., "two events": ...})


# %%
async def measure():
    """Return the microseconds of the kernel by three clocks."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
    begin, end = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    start = sim.now_ns
    await produce[8, stream](Array(device))
    called = sim.now_ns
    await acl_py.SynchronizeStream(stream)
    waited = sim.now_ns
    await acl_py.RecordEvent(begin, stream)
    await produce[8, stream](Array(device))
    await acl_py.RecordEvent(end, stream)
    await acl_py.SynchronizeEvent(end)
    ms = await acl_py.EventElapsedTime(begin, end)
    await sim.close()
    return (called - start) / 1000, (waited - start) / 1000, ms * 1000


clocks = ("host clock around the launch", "with SynchronizeStream", "two events")
times.check(dict(zip(clocks, await measure(), strict=True)))

# %% [markdown]
# * **Around an asynchronous call** a host clock measures the call. The kernel has hardly begun.
# * **With a wait** it measures the launch, the way to the device, the kernel and the way back. That is right for "how
#   long does the user wait", and too much for a short kernel.
# * **Two events** in the stream of the kernel are stamped by the device. The first one is stamped as soon as the stream
#   is empty, so the time until the launch arrives counts too. For one kernel this adds some microseconds; put many
#   launches between two events and divide.
#
# A process also has to **warm up**. On an H200 the first call of a process took 203 ms (the program at the end of this
# page prints it): the driver makes a context. A first launch is slower, too. The model leaves out the start of a
# process. Measure a second round, never the first.

# %%
again = teaching.card("rerecord-then-wait")
launches = [us for step, us in zip(again.steps, again.call_us, strict=True) if step["op"] == "launch"]
print("three launches on the card:", ", ".join(f"{us:.0f} us" for us in launches))

# %% [markdown]
# ## Events that were never recorded, or twice
#
# These programs were run on an NVIDIA H200, and here. Kernels `a` and `b` are in two streams, and the stream of `b`
# waits for an event.

# %%
print(f"{'':24}{'b starts after a has started: the card':>40} {'here':>8}   us")
for program in ("wait-never-recorded", "wait-before-record", "wait-then-rerecord", "rerecord-then-wait"):
    started = [found.ran["b"][0] - found.ran["a"][0] for found in (teaching.card(program), teaching.model(program))]
    print(f"{program:24}{started[0]:40,.0f} {started[1]:8,.0f}")

print("\nreturn codes")
for program in ("query-never-recorded", "elapsed-unrecorded", "elapsed-pending", "elapsed-no-timing"):
    measured, modelled = teaching.card(program), teaching.model(program)
    calls = [step["op"] for step in measured.steps]
    for op, codes, ours in zip(calls, measured.returned, modelled.returned, strict=True):
        if op in ("query_event", "sync_event", "elapsed"):
            print(f"{program:24}{op:14} the card: {codes[0]:3}   here: {ours[0]:3}")

# %% [markdown]
# * An event that was **never recorded** counts as complete: nobody waits for it, and a query returns success (0).
# * A wait **before the record** does not see the record. Its stream goes on, silently and too early.
# * A wait means the **last record before the wait**. A later record does not change it; a second record before the wait
#   does. (In the last two programs kernel `a` takes 2 ms, and a second kernel before the second record takes 4 or 6.)
# * `EventElapsedTime` of an event without a record, or made without timing, is an error (400), of one that has not
#   happened yet "not ready" (600).
#
# CUDA's runtime manual says the same, at `cudaEventRecord`, `cudaStreamWaitEvent` and `cudaEventElapsedTime`.
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** `mine` reads the result when it is probably there. Make it right, without waiting longer than necessary.


# %% tags=["exercise"]
async def mine(stream, host):
    await acl_py.HostWork(us=500)
    return host.numpy()[0]


async def check_1(read):
    """Let *read* read a result; check it, the order, and the time."""
    sim = acl_py.open(device="h200", sanitize="host")
    stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), await acl_py.MallocHost(NBYTES)
    start = sim.now_ns
    await produce[8, stream](Array(device))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    seen = await read(stream, host)
    us = (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    solved = seen == 42 and us < 200 and not sim.findings
    teaching.exercise(solved, f"read {seen} after {us:.0f} us, races: {len(sim.findings)}")


await check_1(mine)

# %% [markdown]
# **2.** How often can the device run one of these short kernels? `mine` says every 21 us. The device needs less than
# 7 us for each, with the gap to the next; find that by measuring, with as many launches as you like.


# %% tags=["exercise"]
@acl_py.kernel(cost=Cost(us=5), serial=True)
def short(x: acl_py.InOut):
    x += 1


async def mine(sim, stream, x):
    start = sim.now_ns
    await short[1, stream](x)
    await acl_py.SynchronizeStream(stream)
    return (sim.now_ns - start) / 1000


async def check_2(measure):
    """Let *measure* measure, and check what it says."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(1024)
    await acl_py.Memset(device, 1024, 0, 1024)
    await acl_py.SynchronizeDevice()
    us = await measure(sim, stream, Array(device))
    await sim.close()
    teaching.exercise(5 < us < 7, f"{us:.1f} us")


await check_2(mine)

# %% [markdown]
# **3.** Two results are fetched, and the host wants to read the first as soon as it is there, after about 170 us. It
# waits for the event, and still waits for both. Make it read the first result before 200 us have passed.


# %% tags=["exercise"]
async def mine(stream, fetch_first, fetch_second):
    ready = await acl_py.CreateEvent()
    await fetch_first()
    await acl_py.RecordEvent(ready, stream)
    await fetch_second()
    await acl_py.RecordEvent(ready, stream)
    await acl_py.SynchronizeEvent(ready)


async def check_3(program):
    """Run *program*, then read the first result; check it, the order, and the time."""
    sim = acl_py.open(device="h200", sanitize="host")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
    hosts = [await acl_py.MallocHost(NBYTES) for _ in range(2)]

    def fetch_into(host):
        async def fetch():
            await produce[8, stream](Array(device))
            await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)

        return fetch

    start = sim.now_ns
    await program(stream, fetch_into(hosts[0]), fetch_into(hosts[1]))
    seen, us = hosts[0].numpy()[0], (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    solved = seen == 42 and us < 200 and not sim.findings
    teaching.exercise(solved, f"read {seen} after {us:.0f} us, races: {len(sim.findings)}")


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# Each round fills 256 MB with its number and fetches them.
#
# ```python
# import ctypes, time
# from cuda.bindings import runtime as cuda
#
# def ok(answer):
#     assert int(answer[0]) == 0, answer[0]
#     return answer[1] if len(answer) > 1 else None
#
# OUT, NBYTES, clock = cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost, 256 << 20, time.perf_counter
# start = clock()
# ok(cuda.cudaFree(0))
# print(f"the first call of the process: {(clock() - start) * 1e3:,.0f} ms")
# pinned, device, stream = ok(cuda.cudaMallocHost(NBYTES)), ok(cuda.cudaMalloc(NBYTES)), ok(cuda.cudaStreamCreate())
# begin, end = ok(cuda.cudaEventCreate()), ok(cuda.cudaEventCreate())
# last = ctypes.c_ubyte.from_address(int(pinned) + NBYTES - 1)
# for value in (1, 2, 3):
#     start = clock()
#     ok(cuda.cudaEventRecord(begin, stream))
#     ok(cuda.cudaMemsetAsync(device, value, NBYTES, stream))
#     ok(cuda.cudaMemcpyAsync(pinned, device, NBYTES, OUT, stream))
#     ok(cuda.cudaEventRecord(end, stream))
#     calls, early = (clock() - start) * 1e6, last.value
#     ok(cuda.cudaStreamSynchronize(stream))
#     us = ok(cuda.cudaEventElapsedTime(begin, end)) * 1e3
#     print(f"host clock {calls:,.0f} us, events {us:,.0f} us; read at once {early}, after the wait {last.value}")
# ```
#
# An H200 (driver 580, CUDA 13.0) printed this. What was read at once is the result of the round before:
#
# ```text
# the first call of the process: 203 ms
# host clock 111 us, events 4,969 us; read at once 0, after the wait 1
# host clock 26 us, events 4,937 us; read at once 1, after the wait 2
# host clock 18 us, events 4,923 us; read at once 2, after the wait 3
# ```
