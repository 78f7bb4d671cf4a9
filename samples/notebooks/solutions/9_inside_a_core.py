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
# # Solutions of 9
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {"910B1, 2 buffers": 3_600, "910B1, 3 buffers": 2_400, "H200, 2 stages": 8_500, "H200, 4 stages": 4_250}, unit="ns"
)


# %% tags=["solution"]
def solution_1(x_gm, z_gm, a, b):
    # Both buffers are free at first: the flags are set before the loop, and waited for once more behind it.
    flag = asc.HardEvent
    asc.SetFlag(flag.V_MTE2, 0)
    asc.SetFlag(flag.MTE3_V, 0)
    for at in range(0, 4 * TILE, TILE):
        asc.WaitFlag(flag.V_MTE2, 0)
        asc.DataCopy(a, x_gm[at:], TILE)
        asc.SetFlag(flag.MTE2_V, 0)
        asc.WaitFlag(flag.MTE2_V, 0)
        asc.WaitFlag(flag.MTE3_V, 0)
        asc.Add(b, a, a, TILE)
        asc.SetFlag(flag.V_MTE2, 0)
        asc.SetFlag(flag.V_MTE3, 0)
        asc.WaitFlag(flag.V_MTE3, 0)
        asc.DataCopy(z_gm[at:], b, TILE)
        asc.SetFlag(flag.MTE3_V, 0)
    asc.WaitFlag(flag.V_MTE2, 0)
    asc.WaitFlag(flag.MTE3_V, 0)


await check_1(solution_1)


# %% tags=["solution"]
@cta.kernel(threads=THREADS)
def solution_2(x: cta.In, y: cta.Out):
    s, t = cta.shared(np.float32, (4, PART)), cta.tid
    for i in range(PARTS + 3):
        if i < PARTS:
            cta.memcpy_async(s[i % 4], x[i], 16)
        cta.commit_group()
        if i >= 3:
            cta.wait_group(3)  # 0 waits for all copies, also for those of the next tiles
            cta.syncthreads()
            y[i - 3, t] = s[(i - 3) % 4, t]
            cta.syncthreads()


await check_2(solution_2)


# %% tags=["solution"]
def solution_3(row, column):
    # Rows i and i + 1 fill the banks together, so both get the same swizzle, and the next two another one.
    return column ^ (row // 2)


await check_3(solution_3)
