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
# # 5 The hidden waits: folklore against the card
#
# Some calls wait for the device although nothing in their names says so. Articles and forums have lists of them. Lists
# differ, and some are wrong.
#
# *The question:* a kernel of 3 ms runs, and the host makes one call. Which calls keep the host until the kernel has
# ended? (Before it: 2, 4. It needs `pip install 'acl-py[notebooks]'`.)

# %%
import numpy as np

import acl_py
from acl_py import Array, Cost, teaching

teaching.begin()
MB = 1 << 20

# %% [markdown]
# ## Your prediction
#
# Write "waits" or "returns" in place of each `...`. A call that is slow by itself, and does not wait for the kernel,
# returns.

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "Malloc": ...,
        "MallocHost": ...,
        "MallocAsync": ...,
        "Free": ...,
        "Free of a non-blocking stream's memory": ...,
        "FreeAsync": ...,
        "FreeHost": ...,
        "HostRegister": ...,
        "HostUnregister": ...,
        "Memset": ...,
        "DestroyStream": ...,
        "DestroyEvent": ...,
        "SetDevice": ...,
        "GetMemInfo": ...,
    },
    choices=["waits", "returns"],
)

# %% [markdown]
# ## The run
#
# Each program queues the kernel, makes the call, and then synchronises with the device. All were run on an NVIDIA H200
# (CUDA 13.0, driver 580; medians of 9 runs), and here. If the call has waited, the synchronisation has nothing left to
# wait for. (`HostRegister` is followed by `HostUnregister`: of these, the second one waited. The program of
# `DestroyEvent` has two kernels, one behind the other.)

# %%
PROGRAMS = {
    "Malloc": ("malloc-busy-64m", "malloc"),
    "MallocHost": ("malloc-host-busy", "malloc_host"),
    "MallocAsync": ("malloc-async-busy", "malloc_async"),
    "Free": ("free-busy", "free"),
    "Free of a non-blocking stream's memory": ("free-busy-nonblocking", "free"),
    "FreeAsync": ("malloc-async-busy", "free_async"),
    "FreeHost": ("free-host-busy", "free_host"),
    "HostRegister": ("host-register-busy", "host_register"),
    "HostUnregister": ("host-register-busy", "host_unregister"),
    "Memset": ("memset-busy", "memset"),
    "DestroyStream": ("destroy-stream-busy", "destroy_stream"),
    "DestroyEvent": ("destroy-event-busy", "destroy_event"),
    "SetDevice": ("set-device-busy", "set_device"),
    "GetMemInfo": ("mem-get-info-busy", "mem_get_info"),
}

answers = {}
print(f"{'the call, us':40}{'the card':>9}{'here':>9}   the synchronisation after it, on the card")
for name, (program, op) in PROGRAMS.items():
    card, here = teaching.card(program), teaching.model(program)
    left = card.us_of("sync_device")
    answers[name] = "waits" if left < 100 and op != "host_register" else "returns"
    print(f"{name:40}{card.us_of(op):9,.0f}{here.us_of(op):9,.0f}{left:9,.0f}")

print()
prediction.check(answers)

# %% [markdown]
# * **Free, FreeHost and HostUnregister wait**, whatever the stream and however few the bytes. CUDA's runtime manual
#   says that `cudaFree` *may* synchronise, and promises nothing for the others. A driver may stop doing it, so never
#   use a free as a synchronisation.
# * **FreeAsync does not.** It is work of its stream.
# * **Malloc, MallocHost and HostRegister do not wait.** The list "Implicit Synchronization" in CUDA's programming guide
#   has allocations of device memory and of pinned memory, but no `cudaHostRegister`. And it is about something else: if
#   the host makes such a call between commands of two streams, these do not run side by side. It does not say that the
#   call waits. MallocHost is slow by itself: 0.4 ms per MB, and HostRegister 0.1 ms.
# * **SetDevice does not wait.** A widely read article says that it does; the runtime manual and the card say no.
# * **Memset** returns although it is not called "Async", and its work is in the default stream (notebook 2).
# * **DestroyStream and DestroyEvent** return, and what was queued completes.
# * **DestroyContext and ResetDevice wait** for all their work, which completes, and take the card 55 ms more, which are
#   not modelled. CUDA's manual says of `cudaDeviceReset` that it resets the device immediately.
#
# ## The price
#
# Each step of a program needs scratch memory, and its steps alternate between two streams:


# %%
@acl_py.kernel(cost=Cost(us=200))
def use(x: acl_py.Out):
    x[:] = 1


async def with_free(streams, step):
    scratch = await acl_py.Malloc(MB)
    await use[8, streams[step % 2]](Array(scratch))
    await acl_py.Free(scratch)


async def with_free_async(streams, step):
    scratch = await acl_py.MallocAsync(MB, streams[step % 2])
    await use[8, streams[step % 2]](Array(scratch))
    await acl_py.FreeAsync(scratch, streams[step % 2])


async def steps(step, *, number=6, sanitize=False):
    """Make that many steps; return the simulation, its time before them in ns, and the microseconds of all."""
    sim = acl_py.open(device="h200", sanitize=sanitize)
    streams = [await acl_py.CreateStream() for _ in range(2)]
    start = sim.now_ns
    for at in range(number):
        await step(streams, at)
    await acl_py.SynchronizeDevice()
    us = (sim.now_ns - start) / 1000
    await sim.close()
    return sim, start, us


slow, start, slow_us = await steps(with_free)
fast, _, fast_us = await steps(with_free_async)
teaching.price(slow.trace)
teaching.show({f"Free: {slow_us:,.0f} us": slow.trace, f"FreeAsync: {fast_us:,.0f} us": fast.trace}, since_ns=start)

# %% [markdown]
# The frees keep the host, so it launches the next step late, and the two streams never overlap. (The first MallocAsync
# of a process is slow: the pool gets its memory. The price counts from the first launch on; the picture also has the
# Malloc before it.)
#
# ## A race in place of a wait
#
# `FreeAsync` is work of a stream, so it has to be in the right one. Here it is in the other stream, behind some work
# there. That work takes long enough, and the kernel is done by the time of the free. With a faster neighbour the memory
# would go back to the pool while the kernel still uses it, and somebody else might get it.


# %%
async def hasty(streams, step):
    scratch = await acl_py.MallocAsync(MB, streams[0])
    await use[8, streams[0]](Array(scratch))
    await neighbour[8, streams[1]]()
    await acl_py.FreeAsync(scratch, streams[1])


@acl_py.kernel(cost=Cost(us=1_000))
def neighbour():
    pass


wrong, start, _ = await steps(hasty, number=1, sanitize="device")
teaching.findings(wrong)
freed_us = (next(op.end_ns for op in wrong.trace.ops if op.name == "neighbour") - start) / 1000
teaching.show({"the wrong stream": wrong.trace}, since_ns=start, marks={"the wrong stream": {"the free": freed_us}})

# %% [markdown]
# The first finding says that stream 2 does not wait for the allocation in stream 1, either. The second one is the race
# of the free and the kernel. The picture shows why the program seems right: the free comes long after the kernel.

# %% [markdown]
# ## Managed memory: waits that are not even calls
#
# Memory of `MallocManaged` can be used by the host and by kernels. Its pages move to where they are used. That is a
# copy, and what uses them waits: the kernel, or a line of the host as harmless as `values.sum()`. An H200 with 4 MB
# that a kernel and the host touch in turn:

# %%
for name, found in {"card": teaching.card, "here": teaching.model}.items():
    program = found("managed-back-and-forth")
    for step, us in list(zip(program.steps, program.call_us, strict=True))[1:3]:
        print(f"{name}: {step['op']:12} {us:7,.0f} us")


# %%
@acl_py.kernel(cost=Cost(us=1_000))
def other_work():
    pass


@acl_py.kernel
def double(values: acl_py.InOut):
    values *= 2


async def managed(*, prefetch):
    """The host writes 16 MB, a kernel doubles them behind another one, and the host adds them up."""
    sim = acl_py.open(device="h200")
    stream, buffer = await acl_py.CreateStream(), await acl_py.MallocManaged(16 * MB)
    beside, done = await acl_py.CreateStream(), await acl_py.CreateEvent()
    values = buffer.numpy(np.float32)
    values[:] = 1
    start = sim.now_ns
    await other_work[1, beside]()
    await acl_py.RecordEvent(done, beside)
    if prefetch:
        await acl_py.MemPrefetchAsync(buffer, 16 * MB, 0, stream)
    await acl_py.StreamWaitEvent(stream, done)
    await double[132, stream](Array(buffer, np.float32))
    if prefetch:
        await acl_py.MemPrefetchAsync(buffer, 16 * MB, acl_py.CPU_DEVICE_ID, stream)
    await acl_py.SynchronizeStream(stream)
    total = values.sum()
    us = (sim.now_ns - start) / 1000
    await sim.close()
    assert total == 2 * values.size
    return sim, us


faults, faults_us = await managed(prefetch=False)
ahead, ahead_us = await managed(prefetch=True)
teaching.show({f"page faults: {faults_us:,.0f} us": faults.trace, f"prefetches: {ahead_us:,.0f} us": ahead.trace})

# %% [markdown]
# A prefetch is work of a stream: it runs beside other work, and moves the pages in one go. The host still needs 1.1 ms
# for its sum. After a prefetch the pages are there, but not in its page table, and the first touch of each of the 4,096
# pages takes 0.27 us. The "host function" is the driver's: it begins a prefetch whose stream is busy. (CUDA's guide,
# "Unified Memory"; docs/managed.md of the project has these times, which were measured.)
#
# ## Capture: calls that may not wait
#
# A **graph** is a list of operations that one call launches (notebook 6). It is made by **capturing** a stream: from
# the beginning of the capture to its end, calls on the stream run nothing, and what they would queue is written down.
# So a call that would wait for captured work is an error, and it also ends the capture. The card's codes, and ours:

# %%
for program in ("capture-sync", "capture-query-event", "capture-legacy-global", "capture-unjoined"):
    card, here = teaching.card(program), teaching.model(program)
    print(card.question)
    for step, codes, ours in zip(card.steps, card.returned, here.returned, strict=True):
        print(f"    {step['op']:15} the card: {codes[0]:3}   here: {ours[0]:3}")

# %% [markdown]
# 900 is "operation not permitted when stream is capturing". 906 is "would make the legacy stream depend on a capturing
# blocking stream", and 907 "operation not permitted on an event last recorded in a capturing stream". They invalidate
# the capture, whose end then returns 901. In the last program a second stream waits for an event of the captured one:
# it is captured too (a *fork*). The first stream has to wait for it before the end, or the end returns 904.
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** Eight requests each pin memory, and unpin it when they are done. Make them take less than 2,600 us. All memory
# must be given back at the end.


# %% tags=["exercise"]
async def mine(streams, requests):
    for number in range(requests):
        stream = streams[number % 2]
        pinned, device = await acl_py.MallocHost(MB), await acl_py.Malloc(MB)
        await use[8, stream](Array(device))
        await acl_py.MemcpyAsync(pinned, MB, device, MB, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.FreeHost(pinned)
        await acl_py.Free(device)


async def check_1(program):
    """Run eight requests; check the time, the order, and that all memory was given back."""
    sim = acl_py.open(device="h200", sanitize="device")
    streams = [await acl_py.CreateStream() for _ in range(2)]
    free = (await acl_py.GetMemInfo())[0]
    start = sim.now_ns
    await program(streams, 8)
    await acl_py.SynchronizeDevice()
    us, back = (sim.now_ns - start) / 1000, (await acl_py.GetMemInfo())[0] == free
    kernels = sum(op.name == "use" for op in sim.trace.ops)
    await sim.close()
    solved = us < 2_600 and back and kernels == 8 and not sim.findings
    teaching.exercise(solved, f"{us:,.0f} us, all given back: {back}, findings: {len(sim.findings)}")


await check_1(mine)

# %% [markdown]
# **2.** The host fills managed memory, a kernel doubles it, and the host needs one number of it. Make this take less
# than 500 us. (Who touches how much, and when?)


# %% tags=["exercise"]
async def mine(buffer, stream):
    await double[132, stream](Array(buffer, np.float32))
    await acl_py.SynchronizeStream(stream)
    return buffer.numpy(np.float32).max()


async def check_2(program):
    """Run *program* on 16 MB that the host has written; check the number and the time."""
    sim = acl_py.open(device="h200")
    stream, buffer = await acl_py.CreateStream(), await acl_py.MallocManaged(16 * MB)
    buffer.numpy(np.float32)[:] = 21
    start = sim.now_ns
    number = await program(buffer, stream)
    us = (sim.now_ns - start) / 1000
    await sim.close()
    teaching.exercise(number == 42 and us < 500, f"{us:,.0f} us, the number: {number:.0f}")


await check_2(mine)

# %% [markdown]
# **3.** This capture fails. Make it work, so that the graph fills `x` with 1 and then with 2.


# %% tags=["exercise"]
@acl_py.kernel(cost=Cost(us=10))
def fill(x: acl_py.Out, value):
    x[:] = value


async def mine(stream, x):
    async with acl_py.capture(stream) as graph:
        await fill[8, stream](x, 1)
        await acl_py.SynchronizeStream(stream)
        await fill[8](x, 2)
    return graph


async def check_3(make):
    """Let *make* capture a graph, launch it, and check the result."""
    sim = acl_py.open(device="h200")
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(1024)
    try:
        graph = await make(stream, Array(device))
        executable = await acl_py.GraphInstantiate(graph)
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.SynchronizeStream(stream)
    except acl_py.AclError as error:
        teaching.exercise(False, str(error).partition("\n")[0])
    else:
        found = np.empty(1024, np.uint8)
        await acl_py.Memcpy(found, 1024, device, 1024, acl_py.MemcpyKind.DEVICE_TO_HOST)
        ran = [op.name for op in sim.trace.ops if op.name == "fill"]
        teaching.exercise((found == 2).all() and len(ran) == 2, f"x holds {found[0]}, kernels: {len(ran)}")
    finally:
        await sim.close()


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# A copy of 10 ms runs, and the host makes one call.
#
# ```python
# import acl_py as acl
#
# BIG, ANY = 512 << 20, acl.MemcpyKind.DEFAULT
#
# async def main():
#     sim = acl.current_simulation()
#     pinned, device, stream = await acl.MallocHost(BIG), await acl.Malloc(BIG), await acl.CreateStream()
#     x, pool, host = await acl.Malloc(1024), await acl.MallocAsync(1024, stream), await acl.MallocHost(1024)
#     other, event = await acl.CreateStream(), await acl.CreateEvent()
#     for name, call in {
#         "cudaMalloc": acl.Malloc(1024), "cudaFreeAsync": acl.FreeAsync(pool, stream), "cudaFree": acl.Free(x),
#         "cudaMallocHost": acl.MallocHost(1024), "cudaFreeHost": acl.FreeHost(host),
#         "cudaMemset": acl.Memset(device, 1024, 0, 1024), "cudaSetDevice": acl.SetDevice(0),
#         "cudaEventDestroy": acl.DestroyEvent(event), "cudaStreamDestroy": acl.DestroyStream(other),
#     }.items():
#         await acl.MemcpyAsync(device, BIG, pinned, BIG, ANY, stream)  # about 10 ms
#         start = sim.now_ns
#         await call
#         print(f"{name:18} {(sim.now_ns - start) / 1000:8,.0f} us")
#         await acl.SynchronizeStream(stream)
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0):
#
# ```text
# cudaMalloc               18 us
# cudaFreeAsync            13 us
# cudaFree              9,752 us
# cudaMallocHost           20 us
# cudaFreeHost          9,731 us
# cudaMemset               21 us
# cudaSetDevice             9 us
# cudaEventDestroy         24 us
# cudaStreamDestroy        22 us
# ```
