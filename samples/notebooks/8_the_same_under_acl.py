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
# # 8 The same under ACL
#
# Ascend's runtime, ACL, has the same nouns as CUDA: streams, events, copies, pinned memory. The same sentence often
# means something else. This notebook runs on a model of an Ascend 910B2 with the rules of CANN 9.0, after the vendor's
# documentation; no card was asked here. (Before it: 2, 3, 5. It needs `pip install 'acl-py[notebooks]'`.)
#
# *The question:* a kernel of 3 ms runs in a stream, and the host makes one call. Under CUDA you know which calls wait
# (notebooks 2, 3 and 5). Which of them wait under ACL?

# %%
import asyncio

import numpy as np

import acl_py
from acl_py import Array, CallbackBlock, Cost, EventFlag, MemcpyKind, teaching

teaching.begin()
CARD, NBYTES = "ascend910b2", 1 << 20


@acl_py.kernel(cost=Cost(us=3_000))
def busy():
    pass


# %% [markdown]
# ## Your prediction
#
# Write "waits" or "returns" in place of each `...`. (A kernel "waits" if it starts behind the one that runs. A
# NumPy array is pageable memory.)

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "Memcpy to the host": ...,
        "MemcpyAsync from a NumPy array": ...,
        "MemcpyAsync to a NumPy array": ...,
        "MemcpyAsync to pinned memory": ...,
        "Free": ...,
        "FreeHost": ...,
        "DestroyStream": ...,
        "a kernel in the default stream": ...,
    },
    choices=["waits", "returns"],
)

# %% [markdown]
# ## The run
#
# The same calls on the same device, once under CUDA's rules and once under ACL's: `acl_py.open(rules=...)`.

# %%
H2D, D2H = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST


async def calls_of(stream):
    """Return the calls by their names; all their memory is ready, and nothing else uses it."""
    device, pinned = await acl_py.Malloc(NBYTES), await acl_py.MallocHost(NBYTES)
    spare, spare_host, array = await acl_py.Malloc(NBYTES), await acl_py.MallocHost(NBYTES), np.zeros(NBYTES, np.uint8)
    await acl_py.Memset(device, NBYTES, 0, NBYTES)
    await acl_py.SynchronizeDevice()
    return {
        "Memcpy to the host": lambda: acl_py.Memcpy(array, NBYTES, device, NBYTES, D2H),
        "MemcpyAsync from a NumPy array": lambda: acl_py.MemcpyAsync(device, NBYTES, array, NBYTES, H2D, stream),
        "MemcpyAsync to a NumPy array": lambda: acl_py.MemcpyAsync(array, NBYTES, device, NBYTES, D2H, stream),
        "MemcpyAsync to pinned memory": lambda: acl_py.MemcpyAsync(pinned, NBYTES, device, NBYTES, D2H, stream),
        "Free": lambda: acl_py.Free(spare),
        "FreeHost": lambda: acl_py.FreeHost(spare_host),
        "DestroyStream": lambda: acl_py.DestroyStream(stream),
        "a kernel in the default stream": lambda: busy[1](),
    }


async def waits(name, rules):
    """Whether the call *name* ends, or its kernel starts, behind a kernel that runs."""
    sim = acl_py.open(device=CARD, rules=rules)
    stream = await acl_py.CreateStream()
    call = (await calls_of(stream))[name]
    await busy[1, stream]()
    await call()
    called = sim.now_ns
    await acl_py.SynchronizeDevice()
    kernels = [op for op in sim.trace.ops if op.name == "busy"]
    await sim.close()
    begun = kernels[1].start_ns if len(kernels) > 1 else called
    return "waits" if begun >= kernels[0].end_ns else "returns"


answers = {rules: {name: await waits(name, rules) for name in prediction.asked} for rules in ("cuda", "acl")}
print(f"{'':32}{'CUDA':10}ACL")
for name, answer in answers["acl"].items():
    print(f"{name:32}{answers['cuda'][name]:10}{answer}{'' if answer == answers['cuda'][name] else '   <-'}")
print()
prediction.check(answers["acl"])

# %% [markdown]
# The arrows are the lines that change their meaning when a program moves. After the vendor's documentation of CANN 9.0,
# with the pages in brackets:
#
# * **The default stream does not synchronise with other streams.** There is one for each context. (Runtime programming
#   guide, "Stream management")
# * **A synchronous copy is outside all streams.** It happens at once, and waits for no stream. (`aclrtMemcpy`)
# * **Free and FreeHost are immediate.** They do not wait for work that uses the memory. `FreeWithDevSync` does.
#   (`aclrtFree`, `aclrtFreeHost`, `aclrtFreeWithDevSync`)
# * **DestroyStream waits** for the work of its stream. The same page asks you to synchronise first, so still do it.
#   (`aclrtDestroyStream`)
# * **A copy of pageable memory waits** for its stream and for itself, in both directions and for all sizes.
#   (`aclrtMemcpyAsync`) Before CANN 8.3 such a copy was undefined. Before 8.5 all addresses had to be multiples of 64.
#   So older scripts pin everything.
#
# ## The port that reads too early
#
# This is right under CUDA, where the synchronous copy is work of the default stream:


# %%
@acl_py.kernel(cost=Cost(us=200))
def write(x: acl_py.Out, value):
    x[:] = value


async def ported(rules, *, sanitize=False):
    sim = acl_py.open(device=CARD, rules=rules, sanitize=sanitize)
    stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), np.zeros(NBYTES, np.uint8)
    await acl_py.Memset(device, NBYTES, 1, NBYTES)
    await acl_py.SynchronizeDevice()
    await write[8, stream](Array(device), 7)
    await acl_py.Memcpy(host, NBYTES, device, NBYTES, D2H)
    await acl_py.SynchronizeDevice()
    await sim.close()
    return sim, host[0]


on_cuda, seen_on_cuda = await ported("cuda")
on_acl, seen_on_acl = await ported("acl", sanitize="device")
teaching.findings(on_acl)  # "cell 4:11" is line 11 of the cell that ran as number 4
teaching.show({f"CUDA: it read {seen_on_cuda}": on_cuda.trace, f"ACL: it read {seen_on_acl}": on_acl.trace})

# %% [markdown]
# ## The free that comes too early
#
# Under CUDA `Free` waits for the device (notebook 5), so many programs free memory right behind the last launch. Under
# ACL the kernel finds its memory gone:


# %%
async def freed(rules):
    sim = acl_py.open(device=CARD, rules=rules)
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
    await write[8, stream](Array(device), 7)
    await acl_py.Free(device)
    try:
        await acl_py.SynchronizeStream(stream)
        print(f"{rules}: the kernel is done")
    except acl_py.AclError as error:
        print(f"{rules}: {str(error).partition(';')[0]}")
    finally:
        await sim.close()


await freed("cuda")
await freed("acl")

# %% [markdown]
# ## Three classes of events
#
# ACL makes events with three calls. A stream waits for an event that has no record yet; the record comes 1 ms
# later. When does the kernel behind the wait start?

# %%
MAKERS = {
    "CreateEvent": lambda: acl_py.CreateEvent(),
    "CreateEventWithFlag": lambda: acl_py.CreateEventWithFlag(EventFlag.SYNC),
    "CreateEventExWithFlag": lambda: acl_py.CreateEventExWithFlag(EventFlag.SYNC),
}


async def wait_first(make):
    sim = acl_py.open(device=CARD)
    one, other, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await make()
    device = await acl_py.Malloc(NBYTES)
    await write[8, other](Array(device), 0)  # the first launch is slow: not in the time
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    try:
        await acl_py.StreamWaitEvent(other, event)
        await write[8, other](Array(device), 1)
        await acl_py.HostWork(us=1_000)
        await acl_py.RecordEvent(event, one)
        await acl_py.SynchronizeDevice()
    except acl_py.AclError as error:
        return str(error).partition(";")[0]
    finally:
        await sim.close()
    return f"starts after {(sim.trace.ops[-1].start_ns - start) / 1000:,.0f} us"


for name, make in MAKERS.items():
    print(f"{name:24}{await wait_first(make)}")

# %% [markdown]
# The first refuses a wait before the first record. The second is a **flag**: the wait stays until some record sets it.
# The third is like CUDA's: no record, no wait. A flag stays set, so in a second round a wait passes at once, on the
# record of the first round, unless `ResetEvent` clears it behind the wait. Exercise 2 is about that.
#
# `ResetEvent` is for the second class; the third refuses it. Old scripts also call it for the first: `create_event`,
# record, wait, `reset_event`.
#
# ## LaunchCallback needs a thread of yours
#
# CUDA runs host functions in a thread of its own, and so does `LaunchHostFunc` since CANN 8.3. `LaunchCallback`, which
# older programs use, puts a report into a queue. A thread (here: a task) that has subscribed to the stream has to fetch
# it with `ProcessReport`:


# %%
async def callbacks(*, subscribed):
    sim = acl_py.open(device=CARD)
    stream, seen = await acl_py.CreateStream(), []

    async def reporter():
        await acl_py.SubscribeReport(None, stream)
        await acl_py.ProcessReport(-1)  # without a limit
        await acl_py.UnsubscribeReport(None, stream)

    task = asyncio.create_task(reporter()) if subscribed else None
    await asyncio.sleep(0)  # the reporter subscribes
    try:
        await busy[1, stream]()
        await acl_py.LaunchCallback(seen.append, "the kernel is done", CallbackBlock.NO_BLOCK, stream)
        await acl_py.SynchronizeStream(stream)
        if task:
            await task
        print(seen)
    except acl_py.AclError as error:
        print(f"error {error.code}: {str(error).partition(';')[0]}")
    finally:
        await sim.close()


await callbacks(subscribed=False)
await callbacks(subscribed=True)

# %% [markdown]
# ## A context belongs to a thread
#
# Under CUDA all threads of a process share the device's context. Under ACL a new thread has none, and each call that
# needs one fails with 107002 until the thread calls `set_device`, `set_context` or `create_context`. This uses `acl`,
# the vendor's Python module, as acl_py gives it to scripts:

# %%
from acl_py.compat.acl import install, uninstall  # noqa: E402

install(device=CARD)
import acl  # noqa: E402


def worker(context):
    if context is not None:
        acl.rt.set_context(context)
    pointer, code = acl.rt.malloc(4096, 0)
    if code == 0:
        acl.rt.free(pointer)
    return code


acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.get_context()
print("a thread without a context:", await asyncio.to_thread(worker, None))
print("a thread that sets it:     ", await asyncio.to_thread(worker, context))
acl.rt.reset_device(0)
acl.finalize()
uninstall()

# %% [markdown]
# ## Exercises
#
# Change `mine_1` in its cell, run it, and read the result of the check; then the others. The solutions are in
# `solutions/`.
#
# **1.** Make the port right under both rules, with one more call.


# %% tags=["exercise"]
async def mine_1(stream, device, host):
    await write[8, stream](Array(device), 7)
    await acl_py.Memcpy(host, NBYTES, device, NBYTES, D2H)
    await acl_py.Free(device)


async def check_1(program):
    """Run *program* under both rules; check what it reads, and that no kernel loses its memory."""
    seen = {}
    for rules in ("cuda", "acl"):
        sim = acl_py.open(device=CARD, rules=rules)
        stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), np.zeros(NBYTES, np.uint8)
        await acl_py.Memset(device, NBYTES, 1, NBYTES)
        await acl_py.SynchronizeDevice()
        try:
            await program(stream, device, host)
            await acl_py.SynchronizeDevice()
            seen[rules] = int(host[0])
        except acl_py.AclError as error:
            seen[rules] = f"error {error.code}"
        finally:
            await sim.close()
    teaching.exercise(seen == {"cuda": 7, "acl": 7}, f"read {seen}")


await check_1(mine_1)

# %% [markdown]
# **2.** A producer and a consumer share one buffer and a flag event for two rounds. In the second round the consumer
# reads too early: the flag of the first round is still set. Mend it with one `ResetEvent`, in the right stream and at
# the right place. Keep the wait of each round. A right result is not enough: the sanitizer must find nothing.


# %% tags=["exercise"]
async def make_event():
    return await acl_py.CreateEventWithFlag(EventFlag.SYNC)


async def mine_2(produce, consume, event, producer, consumer):
    for round_ in (1, 2):
        await acl_py.StreamWaitEvent(consumer, event)
        await consume()
        await produce(round_)
        await acl_py.RecordEvent(event, producer)
        await acl_py.SynchronizeStream(consumer)  # the next round may overwrite the buffer


async def check_2(make, program):
    """Run two rounds; check what the consumer read, that it waited once in each, and that nothing was by luck."""
    sim = acl_py.open(device=CARD, sanitize="device")
    producer, consumer = [await acl_py.CreateStream() for _ in range(2)]
    device, copies = await acl_py.Malloc(NBYTES), [await acl_py.MallocHost(NBYTES) for _ in range(2)]
    await acl_py.Memset(device, NBYTES, 0, NBYTES)
    free, event = list(copies), await make()

    async def produce(value):
        await write[8, producer](Array(device), value)

    async def consume():
        await acl_py.MemcpyAsync(free.pop(0), NBYTES, device, NBYTES, D2H, consumer)

    try:
        await program(produce, consume, event, producer, consumer)
        await acl_py.SynchronizeDevice()
        seen = [int(each.numpy()[0]) for each in copies]
    finally:
        await sim.close()
    waits = sum(call.name == "StreamWaitEvent" for call in sim.trace.calls)
    text = f"read {seen}, waits: {waits}, findings: {len(sim.findings)}"
    teaching.exercise(seen == [1, 2] and waits == 2 and not sim.findings, text)


await check_2(make_event, mine_2)

# %% [markdown]
# **3.** Four kernels of 3 ms each write a buffer of their own, and a second stream fetches each result to a NumPy
# array. The host is held for all of the 12 ms. Make it free within 3 ms. (A result may be an array or a `Buffer`.)


# %% tags=["exercise"]
@acl_py.kernel(cost=Cost(us=3_000))
def work(x: acl_py.Out, value):
    x[:] = value


async def mine_3(kernels, copies, devices):
    results = []
    for value, device in enumerate(devices, 1):
        await work[8, kernels](Array(device), value)
        event = await acl_py.CreateEvent()
        await acl_py.RecordEvent(event, kernels)
        await acl_py.StreamWaitEvent(copies, event)
        results.append(np.zeros(NBYTES, np.uint8))
        await acl_py.MemcpyAsync(results[-1], NBYTES, device, NBYTES, D2H, copies)
    return results


async def check_3(program):
    """Run *program*; check what it fetched, when the host was free, and the time of the whole."""
    sim = acl_py.open(device=CARD)
    kernels, copies = [await acl_py.CreateStream() for _ in range(2)]
    devices = [await acl_py.Malloc(NBYTES) for _ in range(4)]
    for device in devices:
        await acl_py.Memset(device, NBYTES, 0, NBYTES)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    try:
        results = await program(kernels, copies, devices)
        free_us = (sim.now_ns - start) / 1000
        await acl_py.SynchronizeDevice()
        us = (sim.now_ns - start) / 1000
        seen = [int((each.numpy() if isinstance(each, acl_py.Buffer) else each)[0]) for each in results]
    finally:
        await sim.close()
    text = f"read {seen}, host free after {free_us:,.0f} us, all {us:,.0f} us"
    teaching.exercise(seen == [1, 2, 3, 4] and free_us < 3_000, text)


await check_3(mine_3)

# %% [markdown]
# ## On your own card
#
# The copy outside all streams, through pyACL. Without a card: `acl-py run --device ascend910b2 FILE.py`.
#
# ```python
# import acl
#
# def ok(answer):  # a return code, or a tuple that ends with one
#     *values, code = answer if isinstance(answer, tuple) else (answer,)
#     assert code == 0, code
#     return values[0] if values else None
#
# NBYTES, LAST, HUGE_FIRST, D2H = 256 << 20, 4096, 0, 2
# ok(acl.init())
# ok(acl.rt.set_device(0))
# stream, device = ok(acl.rt.create_stream()), ok(acl.rt.malloc(NBYTES, HUGE_FIRST))
# pinned = ok(acl.rt.malloc_host(LAST))
# seen = acl.util.ptr_to_numpy(pinned, (LAST,), 2)  # bytes
# for waits in (False, True):
#     ok(acl.rt.memset(device, NBYTES, 0, NBYTES))
#     for value in range(1, 21):
#         ok(acl.rt.memset_async(device, NBYTES, value, NBYTES, stream))
#     if waits:
#         ok(acl.rt.synchronize_stream(stream))
#     ok(acl.rt.memcpy(pinned, LAST, device + NBYTES - LAST, LAST, D2H))  # in no stream
#     print(f"synchronised before the copy: {waits}, it read {seen[-1]} of 20")
#     ok(acl.rt.synchronize_stream(stream))
# ok(acl.rt.free(device))
# ok(acl.rt.free_host(pinned))
# ok(acl.rt.destroy_stream(stream))
# ok(acl.rt.reset_device(0))
# ok(acl.finalize())
# ```
#
# A card should print some number below 20 in the first line, which varies, and 20 in the second. The model prints:
#
# ```text
# synchronised before the copy: False, it read 2 of 20
# synchronised before the copy: True, it read 20 of 20
# ```
