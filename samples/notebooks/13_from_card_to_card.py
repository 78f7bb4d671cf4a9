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
# # 13 From card to card
#
# 64 MiB lie in the memory of card 0, and card 1 needs them. Both cards are H200s, joined by **NVLink**, and both are in
# one host.
#
# *The question:* how long does it take by way of the host? By a copy from card to card? And does it matter whether one
# card was given **access** to the memory of the other? (Before it: 1, 3. It needs `pip install 'acl-py[notebooks]'`.)
#
# * Each card has memory, engines and streams of its own. `SetDevice(1)` makes card 1 the **current** one of this task:
#   memory and streams that it makes from then on are those of card 1.
# * `DeviceEnablePeerAccess(1)` gives the current card access to the memory of card 1. Access has one direction.
# * A stream belongs to the card that was current when it was made. A copy between cards can be queued in a stream of
#   either. An event belongs to a card, too, and is recorded in a stream of this card; streams of each can wait for it.

# %%
import numpy as np

import acl_py
from acl_py import Array, Cost, MemcpyKind, teaching

teaching.begin()
NBYTES = 64 << 20
IN, OUT, ACROSS = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST, MemcpyKind.DEVICE_TO_DEVICE

# %% [markdown]
# ## Your prediction
#
# A copy of 64 MiB between a card and pinned memory takes about 1,200 us. Write microseconds in place of each `...`:
# from the first call until both cards are idle. In the last line each card sends 64 MiB to the other. An answer within
# 10 % counts as right.

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "through an array of the host": ...,
        "through pinned memory": ...,
        "from card to card, without access": ...,
        "from card to card, with access": ...,
        "both ways at once, with access": ...,
    }
)


# %% [markdown]
# ## The run


# %%
async def both_idle():
    """Wait until both cards are idle."""
    for card in (1, 0):
        await acl_py.SetDevice(card)
        await acl_py.SynchronizeDevice()


async def card(number, nbytes=NBYTES):
    """Make a stream and two pieces of memory on card *number*, which becomes the current one: 7 on card 0, 8 on 1."""
    await acl_py.SetDevice(number)
    stream, *memory = await acl_py.CreateStream(name=f"card {number}"), *[await acl_py.Malloc(nbytes) for _ in range(2)]
    for piece in memory:
        await acl_py.Memset(piece, nbytes, 7 + number, nbytes)
    return stream, *memory


async def by_host(zero, one, host):
    """Send by way of *host*: an array, or pinned memory."""
    await acl_py.MemcpyAsync(host, NBYTES, zero[1], NBYTES, OUT, zero[0])
    await acl_py.SynchronizeStream(zero[0])
    await acl_py.SetDevice(1)
    await acl_py.MemcpyAsync(one[1], NBYTES, host, NBYTES, IN, one[0])


async def across(zero, one, host=None):
    await acl_py.MemcpyAsync(one[1], NBYTES, zero[1], NBYTES, ACROSS, zero[0])


async def both_ways(zero, one, host=None):
    await across(zero, one)
    await acl_py.SetDevice(1)
    await acl_py.MemcpyAsync(zero[2], NBYTES, one[2], NBYTES, ACROSS, one[0])


async def timed(way, *, access=False, pinned=False):
    """Send 64 MiB by *way*. Return the simulation, time 0, and microseconds: until both cards are idle, and for which
    the host was held.
    """
    sim = acl_py.open(device="h200")
    one, zero = await card(1), await card(0)
    host = await acl_py.MallocHost(NBYTES) if pinned else np.empty(NBYTES, np.uint8)
    if access:
        await acl_py.DeviceEnablePeerAccess(1)
        await acl_py.SetDevice(1)
        await acl_py.DeviceEnablePeerAccess(0)
    await both_idle()
    start = sim.now_ns
    await way(zero, one, host)
    held_us = (sim.now_ns - start) / 1000
    await both_idle()
    us, got = (sim.now_ns - start) / 1000, np.zeros(1, np.uint8)
    await acl_py.Memcpy(got, 1, one[1] + (NBYTES - 1), 1, OUT)
    assert got == 7, "the last byte has not arrived"
    await sim.close()
    return sim, start, us, held_us


WAYS = {
    "through an array of the host": (by_host, {}),
    "through pinned memory": (by_host, {"pinned": True}),
    "from card to card, without access": (across, {}),
    "from card to card, with access": (across, {"access": True}),
    "both ways at once, with access": (both_ways, {"access": True}),
}
runs = {name: await timed(way, **options) for name, (way, options) in WAYS.items()}
prediction.check({name: us for name, (_, _, us, _) in runs.items()})

# %% [markdown]
# (Two H200s took 2,480, 1,786, 182 and 187 us for the last four: the program is at the end.)
#
# * **An array of the host** is pageable memory. Both copies go through a staging buffer, and the host waits for both.
# * **Pinned memory** is five times as fast. The bytes still cross two links to the host, one after the other.
# * **A copy from card to card without access** has the same two links to cross. It is faster, probably because the
#   driver cuts it in pieces: while one goes to card 1, the next one comes from card 0.
# * **With access** the bytes take the link between the cards: nearly ten times as fast again. Without access nothing is
#   wrong, and no call says that the copy took the slow way.
# * **Both ways at once** takes as long as one way: the link has two directions.

# %%
sim, start, _, _ = runs["both ways at once, with access"]
teaching.show({"both ways at once, with access": sim.trace}, rows="both", since_ns=start)

# %% [markdown]
# Look at the host, too. Without access it is held while the driver feeds the pieces:

# %%
sim, start, _, _ = runs["from card to card, without access"]
teaching.show({"from card to card, without access": sim.trace}, rows="both", since_ns=start)

# %%
for name, (_, _, _, held_us) in runs.items():
    print(f"{name:34} keeps the host for {held_us:9,.1f} us")

# %% [markdown]
# What is it worth to pin the array of the first way? The price is that of the same program with pinned memory:

# %%
teaching.price(runs["through an array of the host"][0].trace)

# %% [markdown]
# ## Under ACL the copy fails
#
# CUDA lets a copy without access take the slow way. Under ACL's rules it fails on the card, and the call after it says
# so (aclrtMemcpyAsync needs aclrtDeviceEnablePeerAccess first):


# %%
async def without_access():
    """Copy from card to card on two Ascend cards, without access."""
    sim = acl_py.open(device="ascend910b2")
    one, zero = await card(1), await card(0)
    try:
        await across(zero, one)
        await acl_py.SynchronizeStream(zero[0])
    except acl_py.AclError as error:
        print(error)
    await sim.close()


await without_access()

# %% [markdown]
# So ask `DeviceCanAccessPeer(0, 1)` once at the start, enable access, and keep the way through pinned memory for
# machines that say no.
#
# ## Order across cards
#
# A kernel on card 0 computes, a copy carries the result over, and a kernel on card 1 uses it. The copy is in the stream
# of card 0, behind the kernel. Nothing orders it before the kernel on card 1:


# %%
@acl_py.kernel(cost=Cost(us=60))
def produce(x: acl_py.Out):
    x[:] = 42


@acl_py.kernel(cost=Cost(us=20))
def consume(x: acl_py.In, y: acl_py.Out):
    y[:] = x


async def hand_over(*, with_event, sanitize=False):
    """Produce on card 0, copy, consume on card 1; return the simulation, time 0, and what the consumer has read."""
    sim = acl_py.open(device="h200", sanitize=sanitize)
    (compute, x, _), (use, arrived, y) = await card(0, 1024), await card(1, 1024)
    await acl_py.SetDevice(0)
    await acl_py.DeviceEnablePeerAccess(1)
    sent = await acl_py.CreateEvent()
    await both_idle()
    start = sim.now_ns
    await produce[8, compute](Array(x))
    await acl_py.MemcpyAsync(arrived, 1024, x, 1024, ACROSS, compute)
    await acl_py.RecordEvent(sent, compute)
    await acl_py.SetDevice(1)
    if with_event:
        await acl_py.StreamWaitEvent(use, sent)
    await consume[8, use](Array(arrived), Array(y))
    await both_idle()
    seen = np.zeros(1, np.uint8)
    await acl_py.Memcpy(seen, 1, y, 1, OUT)
    await sim.close()
    return sim, start, seen[0]


early, start, seen_early = await hand_over(with_event=False)
late, _, seen_late = await hand_over(with_event=True)
teaching.show(
    {f"without a wait: it saw {seen_early}": early.trace, f"with a wait: it saw {seen_late}": late.trace},
    since_ns=start,
)

# %% [markdown]
# The sanitizer knows both cards, and names the streams that lack an order:

# %%
raced, _, _ = await hand_over(with_event=False, sanitize="device")
teaching.findings(raced)

# %% [markdown]
# **The rule:** a stream orders its own work, on whichever card; between two cards there is no order but that of events
# and of host waits. `SynchronizeDevice` waits for the current card alone, so `both_idle` above needs it twice.
#
# ## Exercises
#
# Change `mine_1`, `mine_2` and `mine_3`, run their cells, and read the result of the check. The solutions are in
# `solutions/`.
#
# **1.** These two cards have no link, and the host has pinned memory. Cut the copy in parts, so that one part goes up
# while the next one comes down: less than 1,500 us, and the host waits for nothing.


# %% tags=["exercise"]
async def mine_1(pinned, source, target, down, up):
    await acl_py.SetDevice(0)
    await acl_py.MemcpyAsync(pinned, NBYTES, source, NBYTES, OUT, down)
    await acl_py.SynchronizeStream(down)
    await acl_py.SetDevice(1)
    await acl_py.MemcpyAsync(target, NBYTES, pinned, NBYTES, IN, up)


async def check_1(send):
    """Measure *send*, which copies by way of the host; check the order and the last byte."""
    sim = acl_py.open(device="h200", sanitize="device")
    (up, target, _), (down, source, _) = await card(1), await card(0)
    pinned = await acl_py.MallocHost(NBYTES)
    await both_idle()
    start = sim.now_ns
    await send(pinned, source, target, down, up)
    free_us = (sim.now_ns - start) / 1000
    await both_idle()
    us, got = (sim.now_ns - start) / 1000, np.zeros(1, np.uint8)
    await acl_py.SetDevice(1)
    await acl_py.Memcpy(got, 1, target + (NBYTES - 1), 1, OUT)
    await sim.close()
    races = len(sim.findings)
    solved = us < 1_500 and free_us < 400 and got[0] == 7 and not races
    teaching.exercise(solved, f"{us:,.0f} us, host free after {free_us:,.0f} us, last byte {got[0]}, races: {races}")


await check_1(mine_1)

# %% [markdown]
# **2.** Each card sends 64 MiB to the other, and has access to it. This program takes twice as long as it could. Make
# it take less than 200 us.


# %% tags=["exercise"]
async def mine_2(zero, one):
    await acl_py.SetDevice(0)
    await acl_py.MemcpyAsync(one[1], NBYTES, zero[1], NBYTES, ACROSS, zero[0])
    await acl_py.MemcpyAsync(zero[2], NBYTES, one[2], NBYTES, ACROSS, zero[0])


async def check_2(exchange):
    """Measure *exchange*; *zero* and *one* are the stream of a card, what it sends, and what it receives."""
    _, _, us, _ = await timed(lambda zero, one, _: exchange(zero, one), access=True)
    teaching.exercise(us < 200, f"{us:,.0f} us")


await check_2(mine_2)

# %% [markdown]
# **3.** Card 0 computes four chunks, and card 1 uses each of them. All go through the same kilobyte on card 1. One
# order is there: a chunk is used when it has arrived. Which one is missing? The host must not wait.


# %% tags=["exercise"]
async def mine_3(compute, x, use, arrived, y):
    for _ in range(4):
        await acl_py.SetDevice(0)
        sent = await acl_py.CreateEvent()
        await produce[8, compute](Array(x))
        await acl_py.MemcpyAsync(arrived, 1024, x, 1024, ACROSS, compute)
        await acl_py.RecordEvent(sent, compute)
        await acl_py.SetDevice(1)
        await acl_py.StreamWaitEvent(use, sent)
        await consume[8, use](Array(arrived), Array(y))


async def check_3(stream_of_chunks):
    """Look for races in *stream_of_chunks*, and for waits of the host."""
    sim = acl_py.open(device="h200", sanitize="device")
    (use, arrived, y), (compute, x, _) = await card(1, 1024), await card(0, 1024)
    await acl_py.DeviceEnablePeerAccess(1)
    await both_idle()
    start = sim.now_ns
    await stream_of_chunks(compute, x, use, arrived, y)
    free_us = (sim.now_ns - start) / 1000
    await both_idle()
    await sim.close()
    races = len(sim.findings)
    teaching.exercise(not races and free_us < 150, f"races: {races}, host free after {free_us:,.0f} us")


await check_3(mine_3)

# %% [markdown]
# ## On your own card
#
# Three of the ways on two cards, with `pip install 'acl-py[cuda]'`.
#
# ```python
# import acl_py as acl
#
# NBYTES, ANY = 64 << 20, acl.MemcpyKind.DEFAULT
#
# async def main():
#     sim, streams, memory = acl.current_simulation(), [], []
#     pinned = await acl.MallocHost(NBYTES)
#     for card in (1, 0):
#         await acl.SetDevice(card)
#         streams.insert(0, await acl.CreateStream(nonblocking=True))
#         memory.insert(0, await acl.Malloc(NBYTES))
#     for way in ("warm", "through pinned memory", "without access", "with access", "with access"):
#         await acl.SetDevice(0)
#         if way == "with access" and not await acl.DeviceCanAccessPeer(0, 1):
#             return print("card 0 can have no access to card 1")
#         start = sim.now_ns
#         if way == "through pinned memory":
#             await acl.MemcpyAsync(pinned, NBYTES, memory[0], NBYTES, ANY, streams[0])
#             await acl.SynchronizeStream(streams[0])
#         await acl.MemcpyAsync(memory[1], NBYTES, pinned if "pinned" in way else memory[0], NBYTES, ANY, streams[0])
#         await acl.SynchronizeStream(streams[0])
#         print(f"{way}: {(sim.now_ns - start) / 1000:,.0f} us")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python, with both cards idle before each, took this on two H200s (driver 580, CUDA 13.0).
# Each is the middle one of four; the last two lines have access in both directions, the parts are those of exercise 1.
#
# ```text
# through pinned memory: 2,481 us
# through pinned memory, in 8 parts: 1,440 us
# from card to card, without access: 1,786 us, the call 227 us or more
# from card to card, with access: 182 us
# both ways at once, with access: 187 us
# ```
