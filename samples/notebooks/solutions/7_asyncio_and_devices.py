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
# # Solutions of 7
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {"await SynchronizeStream": 0, "a loop of StreamQuery": 10, "sleep between queries": 10, "a busy host": 0},
    unit="times",
)


# %% tags=["solution"]
async def solution_1(stream):
    await acl_py.SynchronizeStream(stream)  # the task waits, the host does not


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(slow_stream, quick_stream):
    done = []

    async def wait(stream, name):
        await acl_py.SynchronizeStream(stream)
        done.append(name)

    await asyncio.gather(wait(slow_stream, "slow"), wait(quick_stream, "quick"))
    return done


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(one, other):
    # What the first client was given stays in use until its stream is done, so the second one gets the other set.
    first = await serve(*one, 1, patience=0.001)
    second = await serve(*other, 2, patience=1)
    await acl_py.SynchronizeStream(one[-1])  # only now may its memory be used again
    return first, second


await check_3(solution_3)
