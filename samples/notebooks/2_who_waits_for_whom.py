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
# # 2 The default stream: which work waits for which
#
# People say that the default stream synchronises with everything. There are four kinds of stream:
#
# | | made by | what it is |
# | --- | --- | --- |
# | **legacy** | always exists | the default stream, which `None` or no stream argument means |
# | **blocking** | `CreateStream()` | the normal kind |
# | **per-thread** | always exists | the default stream of programs that are compiled for it |
# | **non-blocking** | `CreateStream(nonblocking=True)` | its difference is a part of the question |
#
# *The question:* a kernel is queued in a stream of one kind, then another kernel in a stream of another kind. Does the
# second wait for the first? That makes sixteen answers. (Before it: 1. It needs `pip install 'acl-py[notebooks]'`.)

# %%
import numpy as np

import acl_py
from acl_py import Array, Cost, teaching

teaching.begin()

# %% [markdown]
# ## Your prediction
#
# Rows are the stream of the first kernel, columns that of the second: `w` for "waits", `-` for "runs beside it". (Two
# blocking streams are two different ones, and so are two non-blocking ones; there is only one of each of the others.)

# %% tags=["prediction"]
prediction = teaching.predict_table("""
               legacy   blocking   per-thread   non-blocking
legacy           ?         ?           ?             ?
blocking         ?         ?           ?             ?
per-thread       ?         ?           ?             ?
non-blocking     ?         ?           ?             ?
""")


# %% [markdown]
# ## The run
#
# Two kernels of 100 us, small enough for the SMs to run them side by side. The trace shows whether they did.


# %%
@acl_py.kernel(cost=Cost(us=100))
def first():
    pass


@acl_py.kernel(cost=Cost(us=100))
def second():
    pass


async def stream_of(kind):
    if kind == "legacy":
        return acl_py.LEGACY_STREAM
    if kind == "per-thread":
        return acl_py.PER_THREAD_STREAM
    return await acl_py.CreateStream(nonblocking=kind == "non-blocking")


async def waits(one, other):
    """Whether a kernel in a stream of kind *other* waits for an earlier one in a stream of kind *one*."""
    sim = acl_py.open(device="h200")
    streams = await stream_of(one), await stream_of(other)
    await first[8, streams[0]]()
    await second[8, streams[1]]()
    await acl_py.SynchronizeDevice()
    await sim.close()
    ran = {op.name: op for op in sim.trace.ops}
    return ran["second"].start_ns >= ran["first"].end_ns


kinds = ["legacy", "blocking", "per-thread", "non-blocking"]
answers = {(one, other): await waits(one, other) for one in kinds for other in kinds}
teaching.matrix(answers, prediction)

# %% [markdown]
# So it does not synchronise with everything. Three sentences are enough:
#
# 1. **A stream is a queue:** work waits for earlier work of its stream (the diagonal of legacy and per-thread).
# 2. **The legacy stream is a barrier to blocking streams,** in both directions: its work waits for all their earlier
#    work, and their later work waits for it. The per-thread stream counts as one of them.
# 3. **No other work waits for work of another stream** unless you order it with an event. Non-blocking streams are
#    outside rule 2, and that is all that their name means.
#
# These are rules of the API. Work can also wait for room: for an engine that is busy (notebook 1), or for a hardware
# queue that many streams share (notebook 6). The host can wait, too. A launch returns at once until the queue of its
# stream is full, at about a thousand entries. Then it keeps the host (notebook 6).
#
# The rule is in CUDA's runtime manual under "Stream synchronization behavior", and a card does the same. These programs
# were run on an NVIDIA H200. Each queues kernels of 3 ms; the card's clock says when they ran. (Eleven pairs are here.
# Two of the other five are one stream twice, which is a queue; the other three begin with a non-blocking stream, and
# have no program of their own.)


# %%
def waits_on_the_card(program, one, other):
    ran = teaching.card(program).ran
    return ran[other][0] >= ran[one][1]


seen = [
    ("legacy-serialises", "a", "0", "blocking", "legacy"),
    ("legacy-serialises", "0", "b", "legacy", "blocking"),
    ("per-thread-vs-legacy", "t", "0", "per-thread", "legacy"),
    ("per-thread-vs-legacy", "0", "t2", "legacy", "per-thread"),
    ("legacy-nonblocking", "0", "n", "legacy", "non-blocking"),
    ("legacy-after-nonblocking", "n", "0", "non-blocking", "legacy"),
    ("independent-streams-overlap", "a", "b", "blocking", "blocking"),
    ("per-thread-overlaps", "a", "t", "blocking", "per-thread"),
    ("per-thread-overlaps", "t", "b", "per-thread", "blocking"),
    ("two-kernels-per-thread", "t", "n", "per-thread", "non-blocking"),
    ("nonblocking-vs-all", "a", "n", "blocking", "non-blocking"),
]
for program, one, other, kind, other_kind in seen:
    card, ours = waits_on_the_card(program, one, other), answers[kind, other_kind]
    says, agree = "waits" if card else "runs beside it", "as here" if card == ours else "NOT AS HERE"
    print(f"{kind:12} then {other_kind:12}  the card: {says:14}  {agree}   ({program})")

# %% [markdown]
# ## The effect on a program
#
# Two kernels run in streams of their own. Between them, a library launches a small kernel without a stream. The three
# kernels do not depend on one another.


# %%
@acl_py.kernel(cost=Cost(us=100))
def left():
    pass


@acl_py.kernel(cost=Cost(us=20))
def log():
    pass


@acl_py.kernel(cost=Cost(us=100))
def right():
    pass


async def three(*, rules="cuda", nonblocking=False, log_stream=False):
    sim = acl_py.open(device="h200", rules=rules)
    one, other = [await acl_py.CreateStream(nonblocking=nonblocking) for _ in range(2)]
    await left[8, one]()
    await log[8, await acl_py.CreateStream() if log_stream else None]()
    await right[8, other]()
    await acl_py.SynchronizeDevice()
    await sim.close()
    return sim.trace


teaching.show(
    {
        "blocking streams, and one kernel without a stream": await three(),
        "way out 1: give it a stream": await three(log_stream=True),
        "way out 2: non-blocking streams": await three(nonblocking=True),
        "way out 3: no stream means the per-thread one (rules cuda_per_thread)": await three(rules="cuda_per_thread"),
    }
)

# %% [markdown]
# The first picture has two waits that the program did not ask for: `log` waits for `left`, and `right` waits for `log`.
# The line below the pictures has both, with the launch that caused them: "cell 5:20" is line 20 of the cell `[5]`.
#
# Way 3 needs no change to the program: CUDA has a compiler flag for it (`nvcc --default-stream per-thread`), a
# simulation `rules="cuda_per_thread"`. Ways 2 and 3 have a price: if the program relied on the barrier for its order,
# that order is gone too. See exercise 2.
#
# ## Other work of the default stream
#
# Not only kernels go there. Each of these calls is made between two kernels of 1 ms in blocking streams. Predict: does
# the second kernel wait for the first?


# %%
@acl_py.kernel(cost=Cost(us=1_000))
def long():
    pass


async def is_barrier(between):
    """Whether two kernels in blocking streams run one after another if *between* is called between them."""
    sim = acl_py.open(device="h200")
    one, other = [await acl_py.CreateStream() for _ in range(2)]
    buffer, event = await acl_py.Malloc(1024), await acl_py.CreateEvent()
    await long[8, one]()
    await between(buffer, event)
    await long[8, other]()
    await acl_py.SynchronizeDevice()
    await sim.close()
    ran = [op for op in sim.trace.ops if op.name == "long"]
    return ran[1].start_ns >= ran[0].end_ns


calls = {
    "Memset(buffer)": lambda buffer, _: acl_py.Memset(buffer, 1024, 0, 1024),
    "Malloc()": lambda *_: acl_py.Malloc(1024),
    "Free(buffer)": lambda buffer, _: acl_py.Free(buffer),
    "RecordEvent(event)": lambda _, event: acl_py.RecordEvent(event),
    "RecordEvent(event, PER_THREAD_STREAM)": lambda _, event: acl_py.RecordEvent(event, acl_py.PER_THREAD_STREAM),
    "StreamQuery()": lambda *_: acl_py.StreamQuery(),
    "SynchronizeStream()": lambda *_: acl_py.SynchronizeStream(),
    "LaunchHostFunc(None, function)": lambda *_: acl_py.LaunchHostFunc(None, lambda: None),
}
for name, call in calls.items():
    print(f"{name:38} {'one after another' if await is_barrier(call) else 'side by side'}")

# %% [markdown]
# * A **record** on the default stream is a barrier, although it runs nothing. This is surprising, but the card does it
#   (the program `legacy-event-only`, see the next cell). To time an operation, record in its own stream.
# * **Memset and Memcpy** take no stream, so they are work of the default stream. Use `MemsetAsync`, `MemcpyAsync`.
# * **Free** and **SynchronizeStream()** are different: there the *host* waits, so it launches the second kernel late.

# %%
print(f"two kernels of 3 ms, with a record between them: {teaching.card('legacy-event-only').makespan_us:,.0f} us")
print(f"the same without the record: {teaching.card('independent-streams-overlap').makespan_us:,.0f} us")

# %% [markdown]
# ## Where the order was needed
#
# Ways 2 and 3 above take away an order, and a program may need it. Here a library fills `x` in the default stream, and
# a kernel in a non-blocking stream reads it. The fill is short, so the result is right in every run. The sanitizer
# finds that nothing promises it:


# %%
@acl_py.kernel(cost=Cost(us=5))
def quick_fill(x: acl_py.Out):
    x[:] = 7


@acl_py.kernel(cost=Cost(us=5))
def read(x: acl_py.In, y: acl_py.Out):
    y[:] = x


async def lucky(*, nonblocking):
    """Fill in the default stream, read in another one; return the simulation, what was read, and when in us."""
    sim = acl_py.open(device="h200", sanitize="device")
    x, y = await acl_py.Malloc(1024), await acl_py.MallocHost(1024)
    z, other = await acl_py.Malloc(1024), await acl_py.CreateStream(nonblocking=nonblocking)
    start = sim.now_ns
    await quick_fill[1](Array(x))
    await acl_py.HostWork(us=20)  # the host does something else, and the fill ends by then
    await read[1, other](Array(x), Array(z))
    await acl_py.MemcpyAsync(y, 1024, z, 1024, acl_py.MemcpyKind.DEVICE_TO_HOST, other)
    await acl_py.SynchronizeStream(other)
    await sim.close()
    read_at = next(op.start_ns for op in sim.trace.ops if op.name == "read")
    return sim, y.numpy()[0], (read_at - start) / 1000


for nonblocking in (False, True):
    sim, seen, read_us = await lucky(nonblocking=nonblocking)
    print(f"nonblocking={nonblocking}: it read {seen}")
    teaching.findings(sim)
teaching.show({"nonblocking=True": sim.trace}, marks={"nonblocking=True": {"`read` reads x": read_us}})

# %% [markdown]
# The fill has ended about 20 us before the mark. Only the times put the two in order: with a fill of 50 us, the kernel
# would read what was there before.

# %% [markdown]
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** Make `mine` take less than 130 us, with both kernels, and with `buffer` full of ones at the end.


# %% tags=["exercise"]
async def mine(buffer, one, other):
    await left[8, one]()
    await acl_py.Memset(buffer, 1024, 1, 1024)
    await right[8, other]()


async def check_1(program):
    """Run *program* on two blocking streams; check its time, and that the buffer is full of ones."""
    sim = acl_py.open(device="h200")
    buffer, one, other = await acl_py.Malloc(1024), await acl_py.CreateStream(), await acl_py.CreateStream()
    start = sim.now_ns
    await program(buffer, one, other)
    await acl_py.SynchronizeDevice()
    us = (sim.now_ns - start) / 1000
    found = np.empty(1024, np.uint8)
    await acl_py.Memcpy(found, 1024, buffer, 1024, acl_py.MemcpyKind.DEVICE_TO_HOST)
    await sim.close()
    teaching.exercise(us < 130 and (found == 1).all(), f"{us:.0f} us, ones: {(found == 1).all()}")


await check_1(mine)


# %% [markdown]
# **2.** `library` fills `x` without using streams, and relies on the barrier. Your streams are now non-blocking, and
# `use` runs too early. Correct this with an event and two calls, without a wait of the host or of `left`: the result
# must be 7, and `left` must run beside `fill`.


# %% tags=["exercise"]
@acl_py.kernel(cost=Cost(us=100))
def fill(x: acl_py.InOut):
    x[:] = 7


@acl_py.kernel(cost=Cost(us=20))
def use(x: acl_py.In, result: acl_py.Out):
    result[:] = x


async def library(x):
    await fill[8](Array(x))


async def mine(x, result, one, other):
    await library(x)
    await left[8, one]()
    await use[8, other](Array(x), Array(result))


async def check_2(program):
    """Run *program* on two non-blocking streams; check the result, and that nothing waited without need."""
    sim = acl_py.open(device="h200")
    x, result = await acl_py.Malloc(1024), await acl_py.Malloc(1024)
    one, other = [await acl_py.CreateStream(nonblocking=True) for _ in range(2)]
    await acl_py.Memset(x, 1024, 0, 1024)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    await program(x, result, one, other)
    host_us = (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    found = np.empty(1024, np.uint8)
    await acl_py.Memcpy(found, 1024, result, 1024, acl_py.MemcpyKind.DEVICE_TO_HOST)
    await sim.close()
    ran = {op.name: op for op in sim.trace.ops}
    beside = ran["left"].start_ns < ran["fill"].end_ns
    well = found[0] == 7 and beside and host_us < 50
    teaching.exercise(well, f"result {found[0]}, host free after {host_us:.0f} us, left beside fill: {beside}")


await check_2(mine)

# %% [markdown]
# **3.** Two kernels of 100 us in blocking streams are timed with events, and since then they no longer overlap. Time
# both kernels so that the whole takes less than 150 us.


# %% tags=["exercise"]
async def mine(one, other, events):
    await acl_py.RecordEvent(events[0])
    await left[8, one]()
    await acl_py.RecordEvent(events[1])
    await acl_py.RecordEvent(events[2])
    await right[8, other]()
    await acl_py.RecordEvent(events[3])


async def check_3(program):
    """Let *program* time two kernels with four events; check both times, and the time of the whole."""
    sim = acl_py.open(device="h200")
    one, other = [await acl_py.CreateStream() for _ in range(2)]
    events = [await acl_py.CreateEvent() for _ in range(4)]
    start = sim.now_ns
    await program(one, other, events)
    await acl_py.SynchronizeDevice()
    us = (sim.now_ns - start) / 1000
    times = [await acl_py.EventElapsedTime(events[at], events[at + 1]) * 1000 for at in (0, 2)]
    await sim.close()
    teaching.exercise(
        us < 150 and all(95 < time < 125 for time in times),
        f"{us:.0f} us; by the events {times[0]:.0f} and {times[1]:.0f} us",
    )


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# A copy in and a copy out in two blocking streams overlap. Between them, an event is recorded in the default stream.
#
# ```python
# import acl_py as acl
#
# NBYTES, ANY = 100_000_000, acl.MemcpyKind.DEFAULT
#
# async def main():
#     sim = acl.current_simulation()
#     hosts, devices = [await acl.MallocHost(NBYTES) for _ in "ab"], [await acl.Malloc(NBYTES) for _ in "ab"]
#     a, b, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
#     for between in ("nothing", "nothing", "a record on the default stream"):  # the first round warms up
#         start = sim.now_ns
#         await acl.MemcpyAsync(devices[0], NBYTES, hosts[0], NBYTES, ANY, a)
#         if between != "nothing":
#             await acl.RecordEvent(event, acl.LEGACY_STREAM)
#         await acl.MemcpyAsync(hosts[1], NBYTES, devices[1], NBYTES, ANY, b)
#         await acl.SynchronizeDevice()
#         print(f"{between}: {(sim.now_ns - start) / 1000:,.0f} us")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0):
#
# ```text
# nothing: 2,056 us
# nothing: 1,988 us
# a record on the default stream: 3,640 us
# ```
