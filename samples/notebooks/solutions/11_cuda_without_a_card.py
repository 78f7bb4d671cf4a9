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
# # Solutions of 11
#
# The first cell is a prediction with the mistakes that readers make; the page of the notebook shows it. Each other cell
# goes into the notebook, below the exercise with its number.

# %% tags=["guess"]
prediction = teaching.predict(
    {
        "the stream of the kernel": "right",
        "another stream": "old bytes",
        "another stream, behind an event": "right",
        "the default stream": "right",
        "cuda.core: another stream": "old bytes",
        "cuda.core: the default stream": "right",
    },
    choices=["right", "old bytes"],
)


# %% tags=["solution"]
def solution_1(compute, download, numbers, answer):
    count[SIZE // 256, 256, compute](numbers, STEPS)
    event = cuda.event()
    event.record(compute)
    event.wait(download)
    numbers.copy_to_host(answer, stream=download)


check_1(solution_1)


# %% tags=["solution"]
def solution_2(arrays):
    pinned = [cuda.pinned_array(array.shape, array.dtype) for array in arrays]
    for target, array in zip(pinned, arrays, strict=True):
        target[:] = array
    return pinned


check_2(solution_2)


# %% tags=["solution"]
def solution_3(values):
    # Each half gets a number more than it gives, so that all that it gives has both its neighbours.
    try:
        return on_card(values)
    except CudaAPIError:
        middle = len(values) // 2
        return np.concatenate([on_card(values[: middle + 1])[:-1], on_card(values[middle - 1 :])[1:]])


check_3(solution_3)
