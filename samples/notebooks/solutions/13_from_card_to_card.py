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
# # Solutions of 13
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "through an array of the host": 2_400,
        "through pinned memory": 2_400,
        "from card to card, without access": 200,
        "from card to card, with access": 200,
        "both ways at once, with access": 400,
    }
)


# %% tags=["solution"]
async def solution_1(pinned, source, target, down, up):
    part = NBYTES // 8
    for first in range(0, NBYTES, part):
        await acl_py.SetDevice(0)
        arrived = await acl_py.CreateEvent(timing=False)  # of card 0, where it is recorded
        await acl_py.MemcpyAsync(pinned + first, part, source + first, part, OUT, down)
        await acl_py.RecordEvent(arrived, down)
        await acl_py.SetDevice(1)
        await acl_py.StreamWaitEvent(up, arrived)
        await acl_py.MemcpyAsync(target + first, part, pinned + first, part, IN, up)


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(zero, one):
    # A stream orders its copies: so each direction needs a stream of its own, and that of the sender has its engine.
    await acl_py.SetDevice(0)
    await acl_py.MemcpyAsync(one[1], NBYTES, zero[1], NBYTES, ACROSS, zero[0])
    await acl_py.SetDevice(1)
    await acl_py.MemcpyAsync(zero[2], NBYTES, one[2], NBYTES, ACROSS, one[0])


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(compute, x, use, arrived, y):
    used = None
    for _ in range(4):
        await acl_py.SetDevice(0)
        sent = await acl_py.CreateEvent()
        await produce[8, compute](Array(x))
        if used is not None:  # the next chunk must not arrive while the last one is still in use
            await acl_py.StreamWaitEvent(compute, used)
        await acl_py.MemcpyAsync(arrived, 1024, x, 1024, ACROSS, compute)
        await acl_py.RecordEvent(sent, compute)
        await acl_py.SetDevice(1)
        used = await acl_py.CreateEvent()
        await acl_py.StreamWaitEvent(use, sent)
        await consume[8, use](Array(arrived), Array(y))
        await acl_py.RecordEvent(used, use)


await check_3(solution_3)
