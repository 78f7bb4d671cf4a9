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
# # Solutions of 8
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "Memcpy to the host": "waits",
        "MemcpyAsync from a NumPy array": "returns",
        "MemcpyAsync to a NumPy array": "waits",
        "MemcpyAsync to pinned memory": "returns",
        "Free": "waits",
        "FreeHost": "waits",
        "DestroyStream": "returns",
        "a kernel in the default stream": "waits",
    },
    choices=["waits", "returns"],
)


# %% tags=["solution"]
async def solution_1(stream, device, host):
    await write[8, stream](Array(device), 7)
    await acl_py.SynchronizeStream(stream)  # for the copy and for the free
    await acl_py.Memcpy(host, NBYTES, device, NBYTES, D2H)
    await acl_py.Free(device)


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(produce, consume, event, producer, consumer):
    for round_ in (1, 2):
        await acl_py.StreamWaitEvent(consumer, event)
        await acl_py.ResetEvent(event, consumer)  # behind the wait, in the stream that waits
        await consume()
        await produce(round_)
        await acl_py.RecordEvent(event, producer)
        await acl_py.SynchronizeStream(consumer)  # the next round may overwrite the buffer


await check_2(make_event, solution_2)


# %% tags=["solution"]
async def solution_3(kernels, copies, devices):
    # Pinned memory: the copies are really asynchronous. Pinning takes most of the time that is left.
    results = [await acl_py.MallocHost(NBYTES) for _ in range(4)]
    for value, (device, result) in enumerate(zip(devices, results, strict=True), 1):
        await work[8, kernels](Array(device), value)
        event = await acl_py.CreateEvent()
        await acl_py.RecordEvent(event, kernels)
        await acl_py.StreamWaitEvent(copies, event)
        await acl_py.MemcpyAsync(result, NBYTES, device, NBYTES, D2H, copies)
    return results


await check_3(solution_3)
