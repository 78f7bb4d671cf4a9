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
# | | made by | |
# | --- | --- | --- |
# | **legacy** | always exists | the default stream, which `None` or no stream argument means |
# | **blocking** | `CreateStream()` | the normal kind |
# | **per-thread** | always exists | the default stream of programs that are compiled for it |
# | **non-blocking** | `CreateStream(nonblocking=True)` | |
#
# *The question:* a kernel is queued in a stream of one kind, then another kernel in a stream of another kind. Does the
# second wait for the first? That makes sixteen answers.

# %%
import json
from pathlib import Path

import numpy as np
import timeline

import acl_py
from acl_py import Array, Cost

# %% [markdown]
# ## Your prediction
#
# Rows are the stream of the first kernel, columns that of the second: `w` for "waits", `-` for "runs beside it". (Two
# blocking streams are two different ones, and so are two non-blocking ones; there is only one of each of the others.)

# %%
prediction = """
               legacy   blocking   per-thread   non-blocking
legacy           ?         ?           ?             ?
blocking         ?         ?           ?             ?
per-thread       ?         ?           ?             ?
non-blocking     ?         ?           ?             ?
"""


# %% [markdown]
# ## The run
#
# Two kernels of 100 us, small enough for the cores to run them side by side. The trace shows whether they did.


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
timeline.matrix(answers, prediction)

# %% [markdown]
# So it does not synchronise with everything. Three sentences are enough:
#
# 1. **A stream is a queue:** work waits for earlier work of its stream (the diagonal of legacy and per-thread).
# 2. **The legacy stream is a barrier to blocking streams,** in both directions: its work waits for all their earlier
#    work, and their later work waits for it. The per-thread stream counts as one of them.
# 3. **Nothing else waits for anything.** Non-blocking streams are outside the rule. Their name means no more: no
#    stream ever blocks the host.
#
# A card does the same. These programs were run on an NVIDIA H200 (tests/conformance/data/semantics.json; all of
# them are in docs/semantics.md). Each queues kernels of 3 ms; the card's clock says when they ran.

# %%
measured = {each["id"]: each for each in json.loads(Path("../../tests/conformance/data/semantics.json").read_text())}


def waits_on_the_card(program, one, other):
    ran = measured[program]["observed"]["device"]
    return ran[other]["start_us"] >= ran[one]["end_us"]


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


timeline.show(
    {
        "blocking streams, and one kernel without a stream": await three(),
        "way out 1: give it a stream": await three(log_stream=True),
        "way out 2: non-blocking streams": await three(nonblocking=True),
        "way out 3: no stream means the per-thread one (rules cuda_per_thread)": await three(rules="cuda_per_thread"),
    }
)

# %% [markdown]
# Way 3 needs no change to the program: CUDA has a compiler flag for it, a simulation `rules="cuda_per_thread"`. Ways 2
# and 3 have a price: if the program relied on the barrier for its order, that order is gone too. See exercise 2.
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
#   (`legacy-event-only`: 6,074 us for two kernels of 3 ms). To time an operation, record in its own stream.
# * **Memset and Memcpy** take no stream, so they are work of the default stream. Use `MemsetAsync`, `MemcpyAsync`.
# * **Free** and **SynchronizeStream()** are different: there the *host* waits, so it launches the second kernel late.
#
# ## Exercises
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
    print("solved:" if us < 130 and (found == 1).all() else "not yet:", f"{us:.0f} us, ones: {(found == 1).all()}")


await check_1(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_1(buffer, one, other):
    await left[8, one]()
    await right[8, other]()
    await acl_py.MemsetAsync(buffer, 1024, 1, 1024, one)  # or first of all, or in a stream of its own


await check_1(solution_1)

# %% [markdown]
# **2.** `library` fills `x` without using streams, and relies on the barrier. Your streams are now non-blocking, and
# `use` runs too early. Correct this with two calls, without a wait of the host or of `left`: the result must be 7, and
# `left` must run beside `fill`.


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
    print(
        "solved:" if well else "not yet:",
        f"result {found[0]}, host free after {host_us:.0f} us, left beside fill: {beside}",
    )


await check_2(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_2(x, result, one, other):
    await library(x)
    filled = await acl_py.CreateEvent(timing=False)
    await acl_py.RecordEvent(filled)  # in the default stream, where the library works
    await acl_py.StreamWaitEvent(other, filled)
    await left[8, one]()
    await use[8, other](Array(x), Array(result))


await check_2(solution_2)
