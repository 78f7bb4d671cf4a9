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
# # 3 Pageable memory: when an asynchronous copy waits
#
# A copy engine can read **pinned** memory, which the operating system promises not to move: `MallocHost`. Ordinary
# memory, such as that of a NumPy array, is **pageable**, and the engine cannot read it. `MemcpyAsync` accepts both.
#
# *The folklore:* "from pageable memory, MemcpyAsync becomes synchronous". CUDA's programming guide says so, too. *The
# reference:* the page "API synchronization behavior" of CUDA's runtime manual says that it *may* first synchronise with
# the stream. Older guides say that copies of up to 64 KB are asynchronous.
#
# *The question:* a kernel of 3 ms runs in a stream, and behind it the host queues a copy from pageable memory. From
# which size on does the call last until the kernel has ended? (Before it: 1. It needs `pip install
# 'acl-py[notebooks]'`.)

# %%
import numpy as np
from matplotlib.figure import Figure

import acl_py
from acl_py import Cost, MemcpyKind, teaching

teaching.begin()
KB, MB = 1 << 10, 1 << 20
SIZES = {"16k": 16 * KB, "64k": 64 * KB, "64k+4": 64 * KB + 4, "1m": MB, "2m": 2 * MB, "16m": 16 * MB, "32m": 32 * MB}

# %% [markdown]
# ## Your prediction
#
# The smallest of these sizes at which the host has to wait for the kernel. Write it in place of `...`, as in "16k".

# %% tags=["prediction"]
prediction = teaching.predict({"the first that waits": ...}, choices=list(SIZES))


# %% [markdown]
# ## The run


# %%
@acl_py.kernel(cost=Cost(us=3_000))
def busy():
    pass


async def call_us(nbytes, *, pinned, to_host=False):
    """Queue a copy of *nbytes* behind a kernel of 3 ms; return the microseconds of its call, and the simulation."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(nbytes)
    host = await acl_py.MallocHost(nbytes) if pinned else np.zeros(nbytes, np.uint8)
    if pinned:
        host.numpy()[:] = 0
    if to_host:
        await acl_py.Memset(device, nbytes, 0, nbytes)
    await busy[1, stream]()
    start = sim.now_ns
    if to_host:
        await acl_py.MemcpyAsync(host, nbytes, device, nbytes, MemcpyKind.DEVICE_TO_HOST, stream)
    else:
        await acl_py.MemcpyAsync(device, nbytes, host, nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
    us = (sim.now_ns - start) / 1000
    await acl_py.SynchronizeDevice()
    await sim.close()
    return us, sim


ours = {size: (await call_us(nbytes, pinned=False))[0] for size, nbytes in SIZES.items()}
pinned = {size: (await call_us(nbytes, pinned=True))[0] for size, nbytes in SIZES.items()}

# %% [markdown]
# The same programs were run on an NVIDIA H200 (CUDA 13.0, driver 580; medians of 9 runs):


# %%
def on_the_card(program):
    """Return the microseconds of the copy's call in *program*, behind the launch of the kernel."""
    return teaching.card(program).us_of("memcpy_async")


card = {size: on_the_card(f"h2d-g-{size}-busy") for size in SIZES}

print(f"{'bytes':10} {'pinned':>10} {'pageable':>10} {'the card':>10}   us")
for size in SIZES:
    print(f"{size:10} {pinned[size]:10,.1f} {ours[size]:10,.1f} {card[size]:10,.1f}")
prediction.check({"the first that waits": next(size for size in SIZES if ours[size] > 2_900)})

# %%
figure = Figure(figsize=(7, 3.6), dpi=110, layout="constrained")
ax = figure.subplots()
nbytes, held, free = list(SIZES.values()), teaching.COLOURS["d2h"], teaching.COLOURS["kernel"]
ax.loglog(nbytes, list(card.values()), "o", mfc="none", ms=9, mec=held, label="pageable, the card")
ax.loglog(nbytes, list(ours.values()), "x-", color=held, lw=0.8, label="pageable, here")
ax.loglog(nbytes, list(pinned.values()), "s:", color=free, ms=4, lw=0.8, label="pinned, here")
ax.axhline(3_000, color="0.5", lw=0.8, ls="--")
ax.text(nbytes[0], 3_300, "the kernel ends", fontsize=8, color="0.3")
ax.set_xticks([16 * KB, 64 * KB, MB, 2 * MB, 16 * MB, 32 * MB], ["16 KB", "64 KB", "1 MB", "2", "16", "32 MB"])
ax.minorticks_off()
ax.set_ylabel("the call keeps the host for, us", fontsize=9)
ax.set_ylim(2, 12_000)
ax.legend(frameon=False, fontsize=8, loc="center left")
ax.spines[["top", "right"]].set_visible(False)
teaching.picture(
    figure,
    "How long the call keeps the host, by size. Pinned: a few microseconds for every size. Pageable, on the card and "
    "here: from tens to hundreds of microseconds up to 2 MB, and longer than the kernel of 3 ms from 16 MB on.",
)

# %% [markdown]
# Up to 2 MB the folklore is wrong: the call takes longer than from pinned memory, but it does not wait. At 16 MB it is
# right. The documented limit of 64 KB has nothing to do with waiting: four bytes more are even a little cheaper.
#
# ## Why
#
# Look at the host and the engine, at 2 and at 16 MB:

# %%
_, two = await call_us(2 * MB, pinned=False)
_, sixteen = await call_us(16 * MB, pinned=False)
teaching.show({"2 MB, pageable": two.trace, "16 MB, pageable": sixteen.trace})

# %% [markdown]
# The host has to bring the bytes to memory that the engine can read: it **stages** them, which means that it copies
# them into pinned buffers of the runtime.
#
# * For up to 64 KB there is a ring of nearly 4 MB. The host copies into it, queues the operation, and continues.
# * Larger copies go in chunks of 1 MB through **two buffers**. Two chunks fit, behind any kernel. For the third chunk
#   a buffer must become free. For that, the first chunk must have been copied, and so the kernel must have ended: the
#   host waits.
#
# (In the picture, "held" includes the time that the host needs for staging, about 55 us per chunk. This also explains
# the gaps between the chunks of 16 MB: the engine is faster than the host.)
#
# So the copy does not become synchronous; a queue of limited room is full. As long as there is room, it makes no
# difference whether the kernel is in the stream of the copy or in another one. The way back is different:

# %%
elsewhere = on_the_card("h2d-pageable-other-busy")
print(f"1 MB in another stream than the busy one: {elsewhere:.1f} us on the card")
for size in ("1m", "32m"):
    us, _ = await call_us(SIZES[size], pinned=False, to_host=True)
    print(f"{size:>3} to pageable memory: {us:7,.0f} us, on the card {on_the_card(f'd2h-g-{size}-busy'):7,.0f} us")

# %% [markdown]
# **Back to the host** a copy cannot return early: the host has to copy bytes out of the staging buffers that the device
# has not written yet. So it waited for stream and copy at every size measured; the manual says only "might be
# synchronous".
#
# ## The price of pinned memory
#
# Pinned memory is read later, when the stream reaches the copy. Until then, the buffer belongs to the device. Pageable
# memory has been read when the call returns:


# %%
async def overwrite(*, pinned):
    """Queue a copy behind a kernel, then overwrite its source; return the simulation, what arrives, and when in us."""
    sim = acl_py.open(device="h200", sanitize="host" if pinned else False)
    stream, device, arrived = await acl_py.CreateStream(), await acl_py.Malloc(MB), await acl_py.MallocHost(MB)
    host = await acl_py.MallocHost(MB) if pinned else np.zeros(MB, np.uint8)
    numbers = host.numpy() if pinned else host
    numbers[:] = 1
    start = sim.now_ns
    await busy[1, stream]()
    await acl_py.MemcpyAsync(device, MB, host, MB, MemcpyKind.HOST_TO_DEVICE, stream)
    us = (sim.now_ns - start) / 1000
    numbers[:] = 2
    await acl_py.MemcpyAsync(arrived, MB, device, MB, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeStream(stream)
    await sim.close()
    return sim, arrived.numpy()[0], us


safe, from_pageable, safe_us = await overwrite(pinned=False)
sim, from_pinned, us = await overwrite(pinned=True)
print("written 1, queued, written 2; arrived from pageable memory", from_pageable)
print("written 1, queued, written 2; arrived from pinned memory  ", from_pinned)
teaching.findings(sim)

# %% [markdown]
# The sanitizer was on for the last run, and names the line that overwrites the buffer too early. The engine reads the
# pinned buffer when the kernel has ended, 3 ms later:

# %%
teaching.show(
    {"pageable": safe.trace, "pinned": sim.trace},
    marks={"pageable": {"the host writes 2": safe_us}, "pinned": {"the host writes 2": us}},
)

# %% [markdown]
# Pinning also takes time: 0.4 ms per MB, here as on the card (`malloc-host-busy` in docs/semantics.md). Pin memory
# once, and reuse it.
#
# **In short:** if the host must not wait, use pinned memory. If it may, pageable memory is simple and safe. Do not rely
# on the 2 MB: one card behaved like this, and no document promises it.
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** Copies of 64 KB go through the ring. If it had 4 MB, 64 of them would fit. Behind a kernel of 3 ms, which copy
# is the first that waits? The obvious answer, the 65th, is wrong. Write `mine` so that it finds the number; it gets the
# function `copy`, which makes one copy and returns the microseconds that its call lasted.


# %% tags=["exercise"]
async def mine(copy):
    return 65


async def check_1(find):
    """Let *find* find the first copy that waits."""
    sim = acl_py.open(device="h200")
    stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(64 * KB), np.zeros(64 * KB, np.uint8)
    await busy[1, stream]()

    async def copy():
        start = sim.now_ns
        await acl_py.MemcpyAsync(device, 64 * KB, host, 64 * KB, MemcpyKind.HOST_TO_DEVICE, stream)
        return (sim.now_ns - start) / 1000

    found = await find(copy)
    await sim.close()
    teaching.exercise(found == 63, found)


await check_1(mine)


# %% [markdown]
# **2.** A program trains on batches of 8 MB that arrive in one and the same NumPy array; `train` overwrites it as soon
# as `upload` returns. If it copies straight from the array, the host waits in every upload until the previous step has
# ended, and stages while the device is idle. Let it stage the next batch while the device computes: four steps must
# take less than 3,800 us, and the right batches must arrive. `copy_by_host` copies an array to pinned memory, and takes
# the time that a host needs for it. There are two pinned buffers, and an event for each of them. (`SynchronizeEvent`
# lets the host wait for what its stream had been given when the event was recorded; before the first record it returns
# at once.)


# %% tags=["exercise"]
NBYTES = 8 * MB


@acl_py.kernel(cost=Cost(us=600))
def step(batch: acl_py.In, total: acl_py.InOut):
    total += batch[0]


async def copy_by_host(target, array):
    """Copy *array* to the pinned buffer *target*, at 20 GB/s."""
    await acl_py.HostWork(us=array.nbytes / 20e3)
    target.numpy()[:] = array


async def mine(number, array, device, stream, pinned, events):
    await acl_py.MemcpyAsync(device, NBYTES, array, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)


async def train(upload):
    """Train for four steps with *upload*; print the time and whether the right batches arrived."""
    sim = acl_py.open(device="h200")
    stream, device, total = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), await acl_py.Malloc(8)
    pinned, events = [await acl_py.MallocHost(NBYTES) for _ in "ab"], [await acl_py.CreateEvent() for _ in "ab"]
    await acl_py.Memset(total, 8, 0, 8)
    await acl_py.SynchronizeDevice()
    array, batches, found = np.empty(NBYTES, np.uint8), (1, 10, 100, 200), await acl_py.MallocHost(8)
    start = sim.now_ns
    for number, batch in enumerate(batches):
        array[:] = batch
        await upload(number, array, device, stream, pinned, events)
        await step[8, stream](acl_py.Array(device), acl_py.Array(total, np.int64))
    await acl_py.MemcpyAsync(found, 8, total, 8, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeDevice()
    us, right = (sim.now_ns - start) / 1000, found.numpy(np.int64)[0] == sum(batches)
    await sim.close()
    teaching.exercise(right and us < 3_800, f"{us:,.0f} us, the right batches: {right}")
    return sim.trace, start


straight, start = await train(mine)

# %% [markdown]
# **3.** A result of 1 MB is fetched to an ordinary array behind a kernel of 3 ms. The host has 2 ms of work of its own
# that does not need the result. Change one line so that the whole takes less than 3,200 us.


# %% tags=["exercise"]
async def mine(device, stream):
    result = np.empty(MB, np.uint8)
    await acl_py.MemcpyAsync(result, MB, device, MB, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.HostWork(us=2_000)
    await acl_py.SynchronizeStream(stream)


async def check_3(fetch):
    """Run *fetch* behind a kernel of 3 ms, and check the time."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(MB)
    await acl_py.Memset(device, MB, 0, MB)
    start = sim.now_ns
    await busy[1, stream]()
    await fetch(device, stream)
    us = (sim.now_ns - start) / 1000
    await sim.close()
    teaching.exercise(us < 3_200, f"{us:,.0f} us")
    return sim


waited = await check_3(mine)

# %% [markdown]
# What does the model say that this wait is worth? It runs the program again with the memory pinned:

# %%
teaching.price(waited.trace)

# %% [markdown]
# ## On your own card
#
# A large copy from pinned memory stands for the kernel, and a pageable copy is queued behind it in the same stream.
#
# ```python
# import numpy as np
# import acl_py as acl
#
# MB, ANY = 1 << 20, acl.MemcpyKind.DEFAULT
#
# async def main():
#     sim = acl.current_simulation()
#     pinned, device, stream = await acl.MallocHost(512 * MB), await acl.Malloc(512 * MB), await acl.CreateStream()
#     array = np.ones(32 * MB, np.uint8)
#     for kb in (64, 64, 1024, 2048, 16384, 32768):  # the first round warms up
#         part = array[: kb * MB // 1024]
#         await acl.MemcpyAsync(device, 512 * MB, pinned, 512 * MB, ANY, stream)  # about 10 ms
#         start = sim.now_ns
#         await acl.MemcpyAsync(device, 512 * MB, part, part.nbytes, ANY, stream)
#         call = sim.now_ns - start
#         await acl.SynchronizeStream(stream)
#         print(f"{kb:6,} KB pageable: the call took {call / 1000:8,.0f} us")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0):
#
# ```text
#     64 KB pageable: the call took       75 us
#     64 KB pageable: the call took       28 us
#  1,024 KB pageable: the call took      139 us
#  2,048 KB pageable: the call took      234 us
# 16,384 KB pageable: the call took   11,273 us
# 32,768 KB pageable: the call took   13,397 us
# ```
