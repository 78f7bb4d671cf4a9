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
# # Solutions of 12
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "all cards alike": 3_500,
        "card 2 is slow": 5_100,
        "a card is slow, each in its turn": 3_900,
        "all are slow in every fourth step": 3_900,
    }
)

# %% tags=["solution"]
solution_1 = [70, 70, 46, 70]  # card 2 has two thirds of what the others have

await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(rank, comm, compute, reduce, gradients):
    computed, summed = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    await backward[132, compute](gradients, rank + 1)
    await acl_py.RecordEvent(computed, compute)
    await acl_py.StreamWaitEvent(reduce, computed)
    await acl_py.AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, reduce)
    await acl_py.RecordEvent(summed, reduce)
    await acl_py.StreamWaitEvent(compute, summed)
    await backward[132, compute](gradients, rank + 1)


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(comm, stream, outgoing, incoming, other):
    async with acl_py.group():
        await acl_py.Send(outgoing, None, None, other, comm, stream)
        await acl_py.Recv(incoming, None, None, other, comm, stream)


await check_3(solution_3)
