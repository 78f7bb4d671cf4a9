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
# The second half asks the same of clocks: what does the time between two lines of the program measure? (Before
# it: 1. It needs `pip install 'acl-py[notebooks]'`.)

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

# %% tags=["prediction"]
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
    await acl_py.RecordEvent(before, stream)
    start = sim.now_ns
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
#
# * Behind every read, `fetch` calls `SynchronizeDevice` only to clean up. That is the wait in the first picture.
# * In the second, the box "4 calls" is the launch, the copy, the record and the work.
# * The black line is the moment of the read.
# * In the third, `fetch` waits for the stream and then reads. The text below the pictures names *implicit* waits only,
#   and a `Synchronize...` is not one.

# %%
three = ("nothing", "work of 500 us", "SynchronizeStream(stream)")
for name in three:
    print(f"{name:26} the host reads at {runs[name][2]:4.0f} us")
teaching.show(
    {name: runs[name][0].trace for name in three}, marks={name: {"the host reads": runs[name][2]} for name in three}
)

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
# **The rule:** the destination of an asynchronous copy belongs to the device until the host has waited. It can wait for
# an event behind the copy, for its stream or for the device. A query of one of these that returns success counts, too.
# (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; PyTorch's tutorial about `non_blocking` warns of the
# same.) The price of the wait is the time until the copy ends, and the host can use that time: queue more, or work on
# what has arrived.
#
# With **pageable** memory the H200 did not read too early at any size that was measured, because the call waited
# (notebook 3). CUDA's manual says only that this call "might be synchronous", so wait all the same. A program that was
# right by this wait becomes wrong when somebody pins its memory to make it faster:

# %%
for pinned in (False, True):
    _, seen, us = await fetch(nothing, pinned=pinned)
    print(f"{'pinned' if pinned else 'pageable':9} read {seen:2} after {us:4.0f} us")

# %% [markdown]
# ## What a clock measures
#
# Predict how many microseconds each of these gives for the kernel of 100 us. The kernel ran once before, and the stream
# is empty. An answer within 10 % counts as right.

# %% tags=["prediction"]
times = teaching.predict({"host clock around the launch": ..., "with SynchronizeStream": ..., "two events": ...})


# %%
async def measure():
    """Return the microseconds of the kernel by three clocks."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
    begin, end = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    await produce[8, stream](Array(device))  # the first launch is slower
    await acl_py.SynchronizeStream(stream)
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
#   is empty, so the time until the launch arrives counts too. For one kernel this adds some microseconds. Many launches
#   between two events, divided by their number, make this small. If the kernel is shorter than a launch, the device
#   waits for the host, and the events measure the host. Then queue a long kernel first: it holds the stream until all
#   is queued.
#
# A process also has to **warm up**. On an H200 the first call of a process took 203 ms (the program at the end of this
# page prints it): the driver makes a context. The first launch of a kernel is slower, too: by default CUDA loads its
# code only then (CUDA C++ Programming Guide, "Lazy Loading"). The model leaves out both. Even without them, the first
# launch of a program is the slowest, on the card and here. Measure a second round, never the first.
#
# Here is the host time of the three launches of one small program. Both are called from Python; calls of a C++ program
# are shorter. The card's numbers are medians of nine runs, in a process that held the buffers of other programs too.

# %%
for where, ran in (("card", teaching.card("rerecord-then-wait")), ("here", teaching.model("rerecord-then-wait"))):
    launches = [us for step, us in zip(ran.steps, ran.call_us, strict=True) if step["op"] == "launch"]
    print(f"{where}:", ", ".join(f"{us:.0f} us" for us in launches))

# %% [markdown]
# ## Events that were never recorded, or twice
#
# These programs were run on an NVIDIA H200, and here. Kernels `a` and `b` are in two streams, and the stream of `b`
# waits for the event `e`. The first lines say what each program calls; kernel `a2` is behind `a` in its stream.


# %%
def in_short(step):
    """Return a call of a program as a few words, such as "launch a 2 ms"."""
    return f"launch {step['id']} {step['us'] // 1000} ms" if step["op"] == "launch" else step["op"].replace("_", " ")


orders = ("wait-never-recorded", "wait-before-record", "wait-then-rerecord", "rerecord-then-wait")
for program in orders:
    print(f"{program:20}", ", ".join(in_short(step) for step in teaching.card(program).steps))

print(f"\n{'start of b minus start of a, us':32} {'card':>8} {'here':>8}")
for program in orders:
    started = [found.ran["b"][0] - found.ran["a"][0] for found in (teaching.card(program), teaching.model(program))]
    print(f"{program:32} {started[0]:8,.0f} {started[1]:8,.0f}")

print("\nreturn codes")
for program in ("query-never-recorded", "elapsed-unrecorded", "elapsed-pending", "elapsed-no-timing"):
    measured, modelled = teaching.card(program), teaching.model(program)
    calls = [step["op"] for step in measured.steps]
    for op, codes, ours in zip(calls, measured.returned, modelled.returned, strict=True):
        if op in ("query_event", "sync_event", "elapsed"):
            print(f"{program:24}{op:14} the card: {codes[0]:3}   here: {ours[0]:3}")

# %% [markdown]
# * An event that was **never recorded** counts as complete: a wait for it has no effect, a query returns 0.
# * A wait **before the record** does not see the record. Its stream goes on, silently and too early.
# * A wait means the **last record before the wait**. A later record does not change it; a second record before the wait
#   does: `b` then waits for `a` and `a2`, 2 + 4 ms.
# * Some 10 or 20 us between `a` and `b` are the host's calls, which take longer on the card's host. What counts is that
#   `b` did not wait for the 3 ms of `a`.
# * `EventElapsedTime` of an event without a record, or made without timing, is an error (400), of one that has not
#   happened yet "not ready" (600).
#
# CUDA's runtime manual says the same, at `cudaEventRecord`, `cudaStreamWaitEvent` and `cudaEventElapsedTime`.
#
# ## Exercises
#
# Change `mine_...` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** When `mine_1` returns, the check reads the result, which is then probably there. Make it right, without waiting
# longer than necessary.


# %% tags=["exercise"]
async def mine_1(stream):
    await acl_py.HostWork(us=500)


async def check_1(wait):
    """Queue a kernel and a copy, let *wait* wait, and read; check the result, the order, and the time."""
    sim = acl_py.open(device="h200", sanitize="host")
    stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), await acl_py.MallocHost(NBYTES)
    host.numpy()[:] = 0
    start = sim.now_ns
    await produce[8, stream](Array(device))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    await wait(stream)
    seen, us = host.numpy()[0], (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    solved = seen == 42 and us < 200 and not sim.findings
    teaching.exercise(solved, f"read {seen} after {us:.0f} us, races: {len(sim.findings)}")


await check_1(mine_1)

# %% [markdown]
# **2.** How often can the device run a short kernel? `launch` launches one; the check tries a kernel of 2 us and one of
# 20 us. `mine_2` measures a single one and says 16 and 34 us. The device starts the next one less than 2 us after the
# end of the last: find that by measuring, with as many launches as you like. A launch takes the host about 6 us.


# %% tags=["exercise"]
async def mine_2(sim, stream, launch):
    start = sim.now_ns
    await launch()
    await acl_py.SynchronizeStream(stream)
    return (sim.now_ns - start) / 1000


async def check_2(measure):
    """Let *measure* measure a kernel of 2 us and one of 20 us, and check what it says."""
    says, right = [], []
    for cost in (2, 20):

        @acl_py.kernel(cost=Cost(us=cost))
        def short():
            pass

        sim = acl_py.open(device="h200")
        stream = await acl_py.CreateStream()
        await short[1, stream]()
        await acl_py.SynchronizeStream(stream)
        us = await measure(sim, stream, short[1, stream])
        idle = await acl_py.StreamQuery(stream) is acl_py.Status.COMPLETE
        await acl_py.SynchronizeDevice()
        await sim.close()
        if not isinstance(us, int | float):
            raise teaching.NotebookError(f"`mine_2` has to return a number of us, not {us!r}.")
        right.append(idle and cost < us < cost + 2)
        says.append(f"{cost} us: {us:.1f} us" + ("" if idle else " (but kernels are still queued)"))
    teaching.exercise(all(right), ", ".join(says))


await check_2(mine_2)

# %% [markdown]
# **3.** Two results are fetched, and the host wants to read the first as soon as it is there, after about 170 us. It
# waits for the event, and still waits for both. Make it read the first result before 200 us have passed, and queue both
# before it waits.


# %% tags=["exercise"]
async def mine_3(stream, fetch_first, fetch_second):
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
    hosts, queued_us = [await acl_py.MallocHost(NBYTES) for _ in range(2)], []
    for host in hosts:
        host.numpy()[:] = 0

    def fetch_into(host):
        async def fetch():
            queued_us.append((sim.now_ns - start) / 1000)
            await produce[8, stream](Array(device))
            await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)

        return fetch

    start = sim.now_ns
    await program(stream, fetch_into(hosts[0]), fetch_into(hosts[1]))
    seen, us = hosts[0].numpy()[0], (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    queued = len(queued_us) == 2 and queued_us[-1] < 100
    at = ", ".join(f"{each:.0f}" for each in queued_us)
    solved = seen == 42 and us < 200 and queued and not sim.findings
    teaching.exercise(solved, f"queued at {at} us, read {seen} after {us:.0f} us, races: {len(sim.findings)}")


await check_3(mine_3)

# %% [markdown]
# ## On your own card
#
# Each round fills 256 MB with its number and fetches them. It reads once too early and once behind the wait.
#
# ```python
# import acl_py as acl
#
# NBYTES, ANY = 256 << 20, acl.MemcpyKind.DEFAULT
#
# async def main():
#     sim = acl.current_simulation()
#     pinned, device, stream = await acl.MallocHost(NBYTES), await acl.Malloc(NBYTES), await acl.CreateStream()
#     begin, end, seen = await acl.CreateEvent(), await acl.CreateEvent(), pinned.numpy()
#     for value in (1, 2, 3):
#         start = sim.now_ns
#         await acl.RecordEvent(begin, stream)
#         await acl.MemsetAsync(device, NBYTES, value, NBYTES, stream)
#         await acl.MemcpyAsync(pinned, NBYTES, device, NBYTES, ANY, stream)
#         await acl.RecordEvent(end, stream)
#         calls, early = (sim.now_ns - start) / 1000, seen[-1]
#         await acl.SynchronizeStream(stream)
#         us = await acl.EventElapsedTime(begin, end) * 1000
#         print(f"host clock {calls:,.0f} us, events {us:,.0f} us; read at once {early}, after the wait {seen[-1]}")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0). What was read at once is the
# result of the round before:
#
# ```text
# host clock 111 us, events 4,969 us; read at once 0, after the wait 1
# host clock 26 us, events 4,937 us; read at once 1, after the wait 2
# host clock 18 us, events 4,923 us; read at once 2, after the wait 3
# ```
