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
# # 12 Why everybody waits for the slowest
#
# Four cards train one network. In each step each card computes gradients for its part of the batch, 400 microseconds
# long. Then an **all-reduce** adds the gradients of all cards up and gives the sum to each of them. Cards that work
# together like this are called **ranks**, and what joins them is a **communicator**.
#
# *The question:* one card takes 600 us instead of 400. How long do eight steps take now? And if each card is slow only
# in every fourth step? (Before it: 1. It needs `pip install 'acl-py[notebooks]'`.)
#
# One task makes the calls of all four ranks here. Each call is for the rank of its communicator, and queues that rank's
# part in a stream of its card. The part then waits in its stream for the parts of the other ranks.

# %%
import numpy as np

import acl_py
from acl_py import Array, Cost, MemcpyKind, ReduceOp, explain, teaching
from acl_py.explain.edits import parse
from acl_py.explain.recordings import asker_of

teaching.begin()
RANKS, STEPS, NBYTES = 4, 8, 4 << 20
TOTAL = sum(range(1, RANKS + 1))  # of gradients that are 1 on the first card, 2 on the second, and so on


@acl_py.kernel(cost=Cost(us=400))
def backward(gradients: acl_py.Out, value):
    gradients[:] = value


@acl_py.kernel(cost=Cost(us=600))
def slow_backward(gradients: acl_py.Out, value):
    gradients[:] = value


# %% [markdown]
# ## Your prediction
#
# Eight steps of 400 us and an all-reduce. Write microseconds for all of them in place of each `...`. In the last three
# a card that is slow takes 600 us.

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "all cards alike": ...,
        "card 2 is slow": ...,
        "a card is slow, each in its turn": ...,
        "all are slow in every fourth step": ...,
    }
)

# %% [markdown]
# ## The run


# %%
async def lanes():
    """Make a communicator, a stream and memory for each rank."""
    found = []
    for rank, comm in enumerate(await acl_py.CommInitAll(RANKS)):
        await acl_py.SetDevice(rank)
        memory = await acl_py.Malloc(NBYTES)
        found.append((comm, await acl_py.CreateStream(name=f"card {rank}"), Array(memory, np.float32)))
    return found


async def first_number(array):
    """Return the first number of *array*, from the card."""
    into = np.zeros(1, np.float32)
    await acl_py.Memcpy(into, 4, array, 4, MemcpyKind.DEVICE_TO_HOST)
    return into[0]


async def train(slow):
    """Make all steps; *slow* has each step and rank that is slow. Return the simulation and the microseconds."""
    sim = acl_py.open(device="h200")
    ranks = await lanes()
    start = sim.now_ns
    for step in range(STEPS):
        for rank, (comm, stream, gradients) in enumerate(ranks):
            await acl_py.SetDevice(rank)
            kernel = slow_backward if (step, rank) in slow else backward
            await kernel[132, stream](gradients, rank + 1)
            await acl_py.AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, stream)
    for rank, (_, stream, _) in enumerate(ranks):
        await acl_py.SetDevice(rank)
        await acl_py.SynchronizeStream(stream)
    us = (sim.now_ns - start) / 1000
    assert all([await first_number(gradients) == TOTAL for _, _, gradients in ranks])
    await sim.close()
    return sim, us


ALL = range(STEPS)
WAYS = {
    "all cards alike": set(),
    "card 2 is slow": {(step, 2) for step in ALL},
    "a card is slow, each in its turn": {(step, step % RANKS) for step in ALL},
    "all are slow in every fourth step": {(step, rank) for step in ALL[::4] for rank in range(RANKS)},
}
runs = {name: await train(slow) for name, slow in WAYS.items()}
prediction.check({name: us for name, (_, us) in runs.items()})

# %% [markdown]
# One slow card of four makes all of them slow: each step ends when the slowest card has its gradients. That much was to
# be expected. The third line is worse. No card is slower than the others, and each is slow in two steps of eight. Yet
# the eight steps take as long as with a card that is always slow. In each step there is *some* card that is late.
#
# The fourth line has the same amount of slow work as the third: eight slow kernels of 32. But they come at the same
# time, and then they cost only a quarter of it. So a pause that must be (a checkpoint, a garbage collection, a log)
# belongs into the same step on all ranks.

# %%
teaching.show({name: runs[name][0].trace for name in ("all cards alike", "a card is slow, each in its turn")})

# %% [markdown]
# An all-reduce that waits looks as busy as one that works. On a card, too, a kernel of the library runs and asks for
# the others again and again. So a profiler shows long all-reduces on the *fast* cards, and short ones on the slow card.
# A person who tunes the all-reduce because it takes so long tunes the wrong thing:

# %%
sim, _ = runs["card 2 is slow"]
timeline = sim.trace.timeline()
asker = asker_of(timeline, "the run")
for rank in range(RANKS):
    parts = [op.end_ns - op.start_ns for op in timeline.ops if op.kind == "collective" and op.device == rank]
    print(f"card {rank}: all-reduces of {sum(parts) / len(parts) / 1000:,.0f} us")
print(asker.ask([parse("links=2x")]).text)

# %% [markdown]
# Links that are twice as fast would hardly help. The report of the run says what would, with the card and the line. The
# worth is the time of the same program, run again with a card 2 that comes with the others:

# %%
teaching.price(sim.trace)

# %% [markdown]
# The **critical path** is the chain of waits because of which the run took so long. Through each all-reduce it goes to
# the rank that came last. The **slack** of an operation is how much longer it could take without any effect on the
# whole:

# %%
path = explain.critical_path(timeline)
slack = explain.slacks(timeline, path)
on_path = {timeline.ops[part.op].stream for part in path if part.op is not None}
print("on the critical path:", ", ".join(sorted(on_path)))
for rank in range(RANKS):
    kernels = [ns for op, ns in zip(timeline.ops, slack, strict=True) if op.kind == "kernel" and op.device == rank]
    print(f"card {rank}: its kernels could take {min(kernels) / 1000:,.0f} us longer")

# %% [markdown]
# ## Overlap does not help, and is easy to get wrong
#
# Often the all-reduce is put in a stream of its own, beside the kernel of the next step. That hides the *work* of the
# all-reduce, not the wait for a slow card. And it needs order in both directions: the sum waits for its kernel, and the
# next kernel must not write gradients that are still being summed up.


# %%
async def overlapped(*, places, waits, kernels=(backward, backward, slow_backward, backward), sanitize=False):
    """The same with a second stream for all-reduces, and memory for the gradients of *places* steps.

    With *waits*, a kernel waits for the all-reduce that had its memory before.
    """
    sim = acl_py.open(device="h200", sanitize=sanitize)
    ranks = await lanes()
    more = []
    for rank in range(RANKS):
        await acl_py.SetDevice(rank)
        memory = [await acl_py.Malloc(NBYTES) for _ in range(places)]
        more.append((await acl_py.CreateStream(name=f"sums {rank}"), [Array(each, np.float32) for each in memory], {}))
    start = sim.now_ns
    for step in range(STEPS):
        for rank, ((comm, compute, _), (reduce, memory, summed)) in enumerate(zip(ranks, more, strict=True)):
            await acl_py.SetDevice(rank)
            gradients = memory[step % places]
            if waits and step >= places:
                await acl_py.StreamWaitEvent(compute, summed[step - places])
            await kernels[rank][132, compute](gradients, rank + 1)
            computed, summed[step] = await acl_py.CreateEvent(), await acl_py.CreateEvent()
            await acl_py.RecordEvent(computed, compute)
            await acl_py.StreamWaitEvent(reduce, computed)
            await acl_py.AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, reduce)
            await acl_py.RecordEvent(summed[step], reduce)
    for rank, (reduce, _, _) in enumerate(more):
        await acl_py.SetDevice(rank)
        await acl_py.SynchronizeStream(reduce)
    us = (sim.now_ns - start) / 1000
    await sim.close()
    return sim, us


alike, us_alike = await overlapped(places=2, waits=True, kernels=[backward] * RANKS)
one_slow, us_slow = await overlapped(places=2, waits=True)
print(f"all alike: {us_alike:,.0f} us, and card 2 slow: {us_slow:,.0f} us")
teaching.show({"all alike": alike.trace, "card 2 slow": one_slow.trace})

# %% [markdown]
# With one place for gradients and without the second wait it takes as long, and is wrong. While a fast card waits for
# card 2, its own next kernel overwrites the gradients that are still to be summed up. The sanitizer says so, whatever
# the times are:

# %%
raced, us = await overlapped(places=1, waits=False, sanitize="device")
print(f"{us:,.0f} us")
teaching.findings(raced)

# %% [markdown]
# ## Exercises
#
# Change `mine_1`, `mine_2` and `mine_3`, run their cells, and read the result of the check.
#
# **1.** Card 2 needs one and a half times as long for each row of the batch, and cannot be replaced. The batch has 256
# rows. Divide them so that the eight steps take less than 4,100 us.

# %% tags=["exercise"]
mine_1 = [64, 64, 64, 64]


async def check_1(rows):
    """Measure eight steps in which rank i computes *rows[i]* rows."""
    sim = acl_py.open(device="h200")
    ranks = await lanes()
    us_of = [each * 400 / 64 * (1.5 if rank == 2 else 1) for rank, each in enumerate(rows)]
    kernels = [acl_py.kernel(cost=Cost(us=each))(backward.function) for each in us_of]
    start = sim.now_ns
    for _ in range(STEPS):
        for rank, (comm, stream, gradients) in enumerate(ranks):
            await acl_py.SetDevice(rank)
            await kernels[rank][132, stream](gradients, rank + 1)
            await acl_py.AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, stream)
    for rank, (_, stream, _) in enumerate(ranks):
        await acl_py.SetDevice(rank)
        await acl_py.SynchronizeStream(stream)
    us = (sim.now_ns - start) / 1000
    await sim.close()
    teaching.exercise(sum(rows) == 256 and us < 4_100, f"{sum(rows)} rows, {us:,.0f} us")


await check_1(mine_1)

# %% [markdown]
# **2.** One step on one rank: the kernel runs in `compute`, the all-reduce in `reduce`, and behind it the next kernel
# writes the same gradients. Put the calls in order. The host must not wait.


# %% tags=["exercise"]
async def mine_2(rank, comm, compute, reduce, gradients):
    await backward[132, compute](gradients, rank + 1)
    await acl_py.AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, reduce)
    await backward[132, compute](gradients, rank + 1)


async def check_2(step):
    """Make one *step* on each rank; look for races, and for waits of the host."""
    sim = acl_py.open(device="h200", sanitize="device")
    ranks = await lanes()
    start = sim.now_ns
    for rank, (comm, compute, gradients) in enumerate(ranks):
        await acl_py.SetDevice(rank)
        await step(rank, comm, compute, await acl_py.CreateStream(), gradients)
    free_us = (sim.now_ns - start) / 1000
    for rank in range(RANKS):
        await acl_py.SetDevice(rank)
        await acl_py.SynchronizeDevice()
    await sim.close()
    races = len(sim.findings)
    teaching.exercise(not races and free_us < 400, f"{races} races, host free after {free_us:,.0f} us")


await check_2(mine_2)

# %% [markdown]
# **3.** Two ranks exchange 32 MiB. Both send first: that goes well as long as the bytes fit the buffer that the
# receiver has for them, 16 MiB here. Make it right for any size.


# %% tags=["exercise"]
async def mine_3(comm, stream, outgoing, incoming, other):
    await acl_py.Send(outgoing, None, None, other, comm, stream)
    await acl_py.Recv(incoming, None, None, other, comm, stream)


async def exchange(call):
    """Let two ranks exchange; return what each of them has got."""
    info = await acl_py.GetRootInfo()

    async def rank(number):
        comm = await acl_py.CommInitRootInfo(2, info, number)
        stream = await acl_py.CreateStream()
        outgoing, incoming = [Array(await acl_py.Malloc(32 << 20), np.float32) for _ in range(2)]
        await backward[132, stream](outgoing, number + 1)
        await call(comm, stream, outgoing, incoming, 1 - number)
        await acl_py.SynchronizeStreamWithTimeout(stream, 1_000)  # milliseconds
        return await first_number(incoming)

    return await acl_py.ranks(2, rank)


async def check_3(call):
    """Let two ranks exchange with *call*."""
    try:
        got = await teaching.run(exchange, call, device="h200")
    except* acl_py.AclError:
        got = ["nothing: both wait for the other to receive"]
    teaching.exercise(got == [2, 1], f"they got {', '.join(map(str, got))}")


await check_3(mine_3)

# %% [markdown]
# ## On your own card
#
# The first two lines of the prediction on two cards or more, with PyTorch: `torchrun --nproc-per-node 4 FILE.py`.
#
# ```python
# import os
# import torch
# import torch.distributed as dist
#
# dist.init_process_group("nccl")
# rank = dist.get_rank()
# torch.cuda.set_device(rank)
# gradients = torch.zeros(1 << 20, device="cuda")
# begin, computed, end = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
# for name, cycles in ("warm", 1), ("alike", 800_000), ("one slow", 1_200_000 if rank == 1 else 800_000):
#     dist.barrier()
#     torch.cuda.synchronize()
#     begin.record()
#     for _ in range(8):
#         torch.cuda._sleep(cycles)  # a kernel of so many cycles
#         computed.record()
#         dist.all_reduce(gradients)
#     end.record()
#     torch.cuda.synchronize()
#     us, last = begin.elapsed_time(end) * 1000, computed.elapsed_time(end) * 1000
#     print(f"{name}: rank {rank} took {us:,.0f} us, its last all-reduce {last:,.0f} us")
# ```
#
# With one slow rank all ranks should take as long as it does, and its own last all-reduce should be the shortest. This
# program was not run on a card for this course.
