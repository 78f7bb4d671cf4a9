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
# # Solutions of 5
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "Malloc": "waits",
        "MallocHost": "waits",
        "MallocAsync": "returns",
        "Free": "waits",
        "Free of a non-blocking stream's memory": "returns",
        "FreeAsync": "returns",
        "FreeHost": "returns",
        "HostRegister": "waits",
        "HostUnregister": "returns",
        "Memset": "waits",
        "DestroyStream": "waits",
        "DestroyEvent": "returns",
        "SetDevice": "waits",
        "GetMemInfo": "returns",
    },
    choices=["waits", "returns"],
)


# %% tags=["solution"]
async def solution_1(streams, requests):
    # One pair of buffers for each stream, made before and given back behind the loop: the order of a stream keeps the
    # requests of a buffer apart.
    buffers = [(await acl_py.MallocHost(MB), await acl_py.Malloc(MB)) for _ in streams]
    for number in range(requests):
        stream, (pinned, device) = streams[number % 2], buffers[number % 2]
        await use[8, stream](Array(device))
        await acl_py.MemcpyAsync(pinned, MB, device, MB, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeDevice()
    for pinned, device in buffers:
        await acl_py.FreeHost(pinned)
        await acl_py.Free(device)


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(buffer, stream):
    # Pages move to whoever touches them, and the host needs one number: it touches one page.
    await acl_py.MemPrefetchAsync(buffer, 16 * MB, 0, stream)
    await double[132, stream](Array(buffer, np.float32))
    await acl_py.SynchronizeStream(stream)
    return buffer.numpy(np.float32)[0]


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(stream, x):
    # The order of the stream is the order of the graph's nodes: no wait is needed, and none is possible. The default
    # stream cannot take part, because it would wait for the captured one.
    async with acl_py.capture(stream) as graph:
        await fill[8, stream](x, 1)
        await fill[8, stream](x, 2)
    return graph


await check_3(solution_3)
