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
# # Solutions of 15
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "1 longer rows": 300,
        "2 two buffers in L1": 250,
        "3 two buffers in L0": 225,
        "4 wider tiles": 180,
        "5 A stays": 140,
        "6 block by block": 140,
    },
    unit="us",
)


# %% tags=["solution"]
def solution_1(step):
    # Each tile of C needs its rows of A and its columns of B. So A is read once for each column of tiles, unless it
    # stays, and B once for each row of tiles.
    rows, columns, _ = step.tile
    matrix = 2 * 1024 * 1024
    return matrix * (1 if step.keeps_a else 1024 // columns) + matrix * (1024 // rows)


check_1(solution_1)

# %% tags=["solution"]
# Advice names the short rows and the wait for Fixpipe. That MTE2 and MTE1 take turns only the pipes show.
await check_2(Step("mine", (128, 256, 256), 64, 2, 2, False, True))

# %% tags=["solution"]
# Two buffers half as deep take as much room as one, and let MTE2 go on.
await check_3(Step("mine", (128, 256, 128), 64, 2, 2, False, True))
