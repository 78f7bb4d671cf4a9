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
# # Solutions of 14
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {"without the needless wait": 2_400, "and in one piece": 1_900, "in one piece, with it": 1_900}
)


# %% tags=["solution"]
async def solution_1(p, chunk):
    # Without waits of the host, each order that they kept needs an event. These are the ones of `in_one_piece`.
    await in_one_piece(p, chunk)


await check_1(solution_1)


# %% tags=["solution"]
async def solution_2(p, chunk):
    # `compute` waits for `up`, which is recorded behind the wait of `upload` for `free`: so it waits for `free`, too.
    await in_one_piece(p, chunk)


await check_2(solution_2)

# %% tags=["solution"]
# Two slots are enough: while a chunk is computed, the last one goes down and the next one comes up, 80 us together,
# which is less than 92. With one slot nothing overlaps: twelve times 40 + 92 + 40 us, and some latency.
await check_3({2: 40 + 12 * 92 + 40, 1: 12 * (40 + 92 + 40)})
