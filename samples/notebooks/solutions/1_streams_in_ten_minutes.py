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
# # Solutions of 1
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict({1: 2_400, 2: 1_200, 3: 800, 8: 300})


# %% tags=["solution"]
async def solution_1(host, device, stream):
    # A stream keeps its order anyway, and the chunks need none: no wait is necessary. `batch` waits at the end.
    await queue_chunk(host, device, stream)


await check_1(solution_1)


# %% tags=["solution"]
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

# %% tags=["solution"]
# Now the SMs are the bound: eight kernels of 300 us, with one copy before the first and one after the last. The
# number of streams hardly matters, if there are two or more.
await check_3({3: 100 + 8 * 300 + 100, 8: 100 + 8 * 300 + 100})
