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
# # 1 Streams in ten minutes
#
# A batch of eight chunks goes **to the device**, through **a kernel**, and **back to the host**. For each chunk each
# of the three takes about 100 microseconds, and nothing that is done for one chunk depends on any other.
#
# *The question:* how long does the batch take if all of it is queued in one stream? In two, three, eight?
#
# The device is a model of an NVIDIA H200: results are computed for real; times are simulated, and the same on every
# machine. Run the cells from top to bottom; each takes a moment.

# %%
import numpy as np
import timeline

import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind

NBYTES = 5_300_000  # of a chunk: about 100 us on the way in, and on the way out


@acl_py.kernel(cost=Cost(us=100))
def square(x: InOut):
    np.multiply(x, x, out=x)


async def queue_chunk(host, device, stream):
    """Queue the three operations of a chunk in *stream*; the host goes on at once."""
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await square[64, stream](Array(device, np.float32))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)


# %% [markdown]
# ## Your prediction
#
# Eight chunks of 3 x 100 us. Write down microseconds, for one stream, two, three and eight; then run on. A wrong
# prediction teaches more than none.

# %%
prediction = {1: 0, 2: 0, 3: 0, 8: 0}


# %% [markdown]
# ## The run
#
# `batch` deals the chunks out over some streams, as one deals cards. It is the whole program: the only wait is in its
# last line but one.


# %%
async def batch(streams, chunks=8, queue=queue_chunk):
    """Do the batch over so many *streams*: the simulation, and how long it took in microseconds."""
    sim = acl_py.open(device="h200")
    hosts = [await acl_py.MallocHost(NBYTES) for _ in range(chunks)]
    devices = [await acl_py.Malloc(NBYTES) for _ in range(chunks)]
    lanes = [await acl_py.CreateStream() for _ in range(streams)]
    for host in hosts:
        host.numpy(np.float32)[:] = 3
    start = sim.now_ns
    for number in range(chunks):
        await queue(hosts[number], devices[number], lanes[number % streams])
    await acl_py.SynchronizeDevice()
    us = (sim.now_ns - start) / 1000
    assert all((host.numpy(np.float32) == 9).all() for host in hosts)
    await sim.close()
    return sim, us


runs = {streams: await batch(streams) for streams in prediction}
for streams, (_, us) in runs.items():
    print(f"streams: {streams}    {us:5,.0f} us    your prediction: {prediction[streams]:5,} us")

# %% [markdown]
# Nearly twice as fast with two streams, more than twice with three, and then hardly any faster. To see why, look:

# %%
timeline.show({"one stream": runs[1][0].trace, "three streams": runs[3][0].trace})

# %% [markdown]
# Read it row by row. The **host** queues 24 operations in a moment and is then held, in the one call in which it
# waits. A row for each **stream** shows when its operations run.
#
# * **A stream is a queue.** What stands in it runs in order, each operation after the one before it. With one stream
#   therefore nothing overlaps, though nothing depends on anything: eight times 300 us, and a little for the way from
#   one engine to the next.
# * **Between streams there is no order.** While one stream copies in, another computes and a third copies out.
#
# Why not more than three at once, then? Streams say what *may* overlap; engines do the work. Here are the engines:

# %%
timeline.show({"three streams": runs[3][0].trace, "eight streams": runs[8][0].trace}, rows="engines")

# %% [markdown]
# There is **one engine for copies in, one for copies out**, and the cores. (The numbers in the boxes are the streams.)
# In the middle all three are busy, and what a fourth stream brings finds none free. Eight chunks of 100 us must pass
# each engine, so 800 us are a bound. On top come the first chunk's way to the cores and the last one's way home, some
# 200 us; and while both directions copy at once, each is some 10 % slower, as on the card (docs/accuracy.md). Only
# kernels can share their engine, if they leave each other cores: two that do, as at 200 us, are drawn one below the
# other.
#
# **The rule of thumb:** as many streams as the job has kinds of engine, here three; and operations of some ten
# microseconds or more each, so that the host, which needs 3 to 8 us for a call, stays ahead of the device.
#
# ## Order where it is needed: events
#
# Streams are without order until you say so. An **event** marks a place in one stream, and another stream can wait for
# it. The host does not wait in either call.


# %%
@acl_py.kernel(cost=Cost(us=60))
def produce(x: acl_py.Out):
    x[:] = 42


@acl_py.kernel(cost=Cost(us=20))
def consume(x: acl_py.In, y: acl_py.Out):
    y[:] = x


async def hand_over(*, with_event):
    """One stream produces, the other consumes: what did it see?"""
    sim = acl_py.open(device="h200")
    x, y, seen = await acl_py.Malloc(1024), await acl_py.Malloc(1024), await acl_py.MallocHost(1024)
    one, other = await acl_py.CreateStream(), await acl_py.CreateStream()
    await acl_py.Memset(x, 1024, 0, 1024)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    await produce[8, one](Array(x))
    if with_event:
        produced = await acl_py.CreateEvent()
        await acl_py.RecordEvent(produced, one)
        await acl_py.StreamWaitEvent(other, produced)
    await consume[8, other](Array(x), Array(y))
    await acl_py.MemcpyAsync(seen, 1024, y, 1024, MemcpyKind.DEVICE_TO_HOST, other)
    await acl_py.SynchronizeDevice()
    await sim.close()
    return sim, start, seen.numpy()[0]


early, start, seen_early = await hand_over(with_event=False)
late, _, seen_late = await hand_over(with_event=True)
timeline.show(
    {f"without an event: it saw {seen_early}": early.trace, f"with an event: it saw {seen_late}": late.trace},
    since_ns=start,
)

# %% [markdown]
# Without the event the consumer reads what was there before. On a card this is a race, right on some days and wrong on
# others; here it is wrong every time, which is a kindness.
#
# ## Exercises
#
# Change `mine` in the cell, run it, and see what the check says. A solution is below each, folded in Jupyter.
#
# **1.** Somebody ported the batch from a synchronous program and waits wherever the old one did. Delete what is not
# needed, so that over three streams it takes less than 1,200 us.


# %% tags=["exercise"]
async def mine(host, device, stream):
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await acl_py.SynchronizeStream(stream)
    await square[64, stream](Array(device, np.float32))
    await acl_py.SynchronizeDevice()
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeStream(stream)


async def check_1(queue):
    """Time the batch with *queue*."""
    _, us = await batch(3, queue=queue)
    print("solved:" if us < 1_200 else "not yet:", f"{us:,.0f} us")


await check_1(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_1(host, device, stream):
    # Within a stream the order is kept anyway, and between the chunks none is needed: no wait at all. `batch` waits.
    await queue_chunk(host, device, stream)


await check_1(solution_1)

# %% [markdown]
# **2.** A chunk is uploaded in stream `copies`, squared in stream `kernels`, and fetched in `copies` again. Make the
# result right without letting the host wait: the check wants 9 in the end, and a host that is free after 60 us.


# %% tags=["exercise"]
@acl_py.kernel(cost=Cost(us=20))
def quick_square(x: InOut):
    np.multiply(x, x, out=x)


async def mine(host, device, copies, kernels):
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, copies)
    await quick_square[64, kernels](Array(device, np.float32))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, copies)


async def check_2(queue):
    """Do one chunk over two streams with *queue*: is the result right, and when was the host free?"""
    sim = acl_py.open(device="h200")
    host, device = await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES)
    host.numpy(np.float32)[:] = 3
    streams = await acl_py.CreateStream(), await acl_py.CreateStream()
    start = sim.now_ns
    await queue(host, device, *streams)
    free_us = (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    result = host.numpy(np.float32)[0]
    await sim.close()
    print(
        "solved:" if result == 9 and free_us < 60 else "not yet:", f"result {result}, host free after {free_us:.0f} us"
    )


await check_2(mine)


# %% tags=["solution"] jupyter={"source_hidden": true}
async def solution_2(host, device, copies, kernels):
    uploaded, squared = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, copies)
    await acl_py.RecordEvent(uploaded, copies)
    await acl_py.StreamWaitEvent(kernels, uploaded)
    await quick_square[64, kernels](Array(device, np.float32))
    await acl_py.RecordEvent(squared, kernels)
    await acl_py.StreamWaitEvent(copies, squared)
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, copies)


await check_2(solution_2)

# %% [markdown]
# **3.** Without running anything: how many microseconds does the batch take over three streams if the kernel takes 300
# us instead of 100, and each kernel occupies all cores? Over eight streams? Put your numbers in; 5 % off is close
# enough.

# %% tags=["exercise"]
my_answer = {3: 0, 8: 0}


@acl_py.kernel(cost=Cost(us=300), exclusive=True)
def slow_square(x: InOut):
    np.multiply(x, x, out=x)


async def queue_slow_chunk(host, device, stream):
    """Like `queue_chunk`, with a kernel that leaves no core to others."""
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await slow_square[132, stream](Array(device, np.float32))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)


async def check_3(answer):
    """Compare *answer* with what the batch takes."""
    times = {streams: (await batch(streams, queue=queue_slow_chunk))[1] for streams in answer}
    close = all(abs(answer[streams] / us - 1) < 0.05 for streams, us in times.items())
    print("solved" if close else "not yet: what is the bound now, and what comes on top?")


await check_3(my_answer)

# %% tags=["solution"] jupyter={"source_hidden": true}
# Now the cores are the bound: eight kernels of 300 us, with one copy before the first and one after the last. How many
# streams there are hardly matters, as long as there are two or more.
await check_3({3: 100 + 8 * 300 + 100, 8: 100 + 8 * 300 + 100})
