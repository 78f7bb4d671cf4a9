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
# # Solutions of 2
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict_table("""
               legacy   blocking   per-thread   non-blocking
legacy           w         w           w             w
blocking         w         -           -             -
per-thread       w         -           w             -
non-blocking     w         -           -             -
""")


# %% tags=["solution"]
async def solution_1(buffer, one, other):
    await left[8, one]()
    await right[8, other]()
    await acl_py.MemsetAsync(buffer, 1024, 1, 1024, one)  # or first of all, or in a stream of its own


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(x, result, one, other):
    await library(x)
    filled = await acl_py.CreateEvent(timing=False)
    await acl_py.RecordEvent(filled)  # in the default stream, where the library works
    await acl_py.StreamWaitEvent(other, filled)
    await left[8, one]()
    await use[8, other](Array(x), Array(result))


await check_2(solution_2)


# %% tags=["solution"]
async def solution_3(one, other, events):
    # A record on the default stream is a barrier. A record in the stream of the kernel is not.
    await acl_py.RecordEvent(events[0], one)
    await left[8, one]()
    await acl_py.RecordEvent(events[1], one)
    await acl_py.RecordEvent(events[2], other)
    await right[8, other]()
    await acl_py.RecordEvent(events[3], other)


await check_3(solution_3)
