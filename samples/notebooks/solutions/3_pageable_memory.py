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
# # Solutions of 3
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict({"the first that waits": "64k+4"}, choices=list(SIZES))


# %% tags=["solution"]
async def solution_1(copy):
    number = 1
    while await copy() < 100:
        number += 1
    return number  # 63: the ring has 4,118,000 bytes, and each copy takes 80 more than its own. 62 fit on the card, too


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(number, array, device, stream, pinned, events):
    buffer, copied = pinned[number % 2], events[number % 2]
    await acl_py.SynchronizeEvent(
        copied
    )  # has the device read what was in this buffer? (at first: nothing to wait for)
    await copy_by_host(buffer, array)
    await acl_py.MemcpyAsync(device, NBYTES, buffer, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await acl_py.RecordEvent(copied, stream)


staged, _ = await train(solution_2)
teaching.show({"straight from the array": straight, "through two pinned buffers": staged}, since_ns=start)


# %% tags=["solution"]
async def solution_3(device, stream):
    result = await acl_py.MallocHost(MB)  # pinned: the call returns, and the copy goes beside the work of the host
    await acl_py.MemcpyAsync(result, MB, device, MB, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.HostWork(us=2_000)
    await acl_py.SynchronizeStream(stream)


await check_3(solution_3)
