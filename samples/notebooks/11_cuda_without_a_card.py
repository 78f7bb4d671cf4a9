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
# # 11 Your numba and cuda.core code without a card
#
# numba, cuda.core and cuda.bindings reach a card through one library, `libcuda.so.1`. acl_py can be that library. Then
# code for these packages runs as it is, on a simulated H200, and the simulation knows what a card does not tell.
#
# *The question:* a kernel counts in one stream, and the program downloads its result. In which stream may the copy be?
#
# (Before it: 1, 3, 4. It needs Linux and `pip install 'acl-py[notebooks,cuda]' numba-cuda`, and neither a GPU nor a
# driver.)

# %%
import os

import numpy as np

import acl_py
import acl_py.compat.cuda
from acl_py import faults, teaching

teaching.begin()
teaching.need("numba", "cuda.core", install="'acl-py[notebooks,cuda]' numba-cuda")
acl_py.compat.cuda.install()  # before the first import of a package that looks for the driver
sim = acl_py.open(device="h200", sanitize="device")
os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"  # small kernels are meant

# %% [markdown]
# From here on there are only lines that also run on a card. This is a kernel of numba:

# %%
from numba import cuda  # noqa: E402

SIZE, STEPS = 1 << 14, 1000


@cuda.jit
def count(x, steps):
    """Add one to each number, again and again."""
    i = cuda.grid(1)
    for _ in range(steps):
        x[i] += 1
        cuda.threadfence()  # each sum goes to memory


numbers = cuda.to_device(np.zeros(SIZE, np.float32))
count[SIZE // 256, 256](numbers, STEPS)
print(numbers.copy_to_host())

# %% [markdown]
# ## Your prediction
#
# The kernel runs in a stream. The copy of its result is given to the stream named on the left, right behind the launch,
# and the program then waits for the whole card. Write "right" or "old bytes" in place of each `...`. The last two
# questions are about the same program, written with cuda.core.

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "the stream of the kernel": ...,
        "another stream": ...,
        "another stream, behind an event": ...,
        "the default stream": ...,
        "cuda.core: another stream": ...,
        "cuda.core: the default stream": ...,
    },
    choices=["right", "old bytes"],
)

# %% [markdown]
# ## The run


# %%
def says(answer):
    """Whether the host has what the kernel counted."""
    return "right" if (answer == STEPS).all() else "old bytes"


def with_numba(way):
    """Count in one stream, and download in the stream that *way* names."""
    compute, download, event = cuda.stream(), cuda.stream(), cuda.event()
    answer = cuda.pinned_array(SIZE, np.float32)
    answer[:] = 0
    numbers = cuda.to_device(np.zeros(SIZE, np.float32))
    cuda.synchronize()
    count[SIZE // 256, 256, compute](numbers, STEPS)
    if way == "another stream, behind an event":
        event.record(compute)
        event.wait(download)
    stream = {"the stream of the kernel": compute, "the default stream": 0}.get(way, download)
    numbers.copy_to_host(answer, stream=stream)
    cuda.synchronize()
    return says(answer)


# %% [markdown]
# The same with cuda.core, whose kernels are C++:

# %%
from cuda.core import (  # noqa: E402
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = """
extern "C" __global__ void count_up(volatile float* x, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < steps; step++) x[i] += 1;
}
"""
device = Device()
device.set_current()
count_up = Program(CODE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx").get_kernel("count_up")


def with_core(way):
    """Count in one stream, and download in the stream that *way* names."""
    compute, download = device.create_stream(), device.create_stream()
    pinned = LegacyPinnedMemoryResource()
    host = pinned.allocate(4 * SIZE, stream=compute)
    numbers = device.allocate(4 * SIZE, stream=compute)
    answer = np.from_dlpack(host).view(np.float32)
    answer[:] = 0
    numbers.copy_from(host, stream=compute)
    compute.sync()
    launch(compute, LaunchConfig(grid=SIZE // 256, block=256), count_up, numbers, np.int32(STEPS))
    numbers.copy_to(host, stream=device.default_stream if "default" in way else download)
    device.sync()
    return says(answer)


# %%
answers = {}
for way in prediction.asked:
    answers[way] = with_core(way) if way.startswith("cuda.core") else with_numba(way)
prediction.check(answers)

# %% [markdown]
# * **A stream waits for another one only if it is told to:** by an event, or because the host waits between them.
# * **The default stream waits for blocking streams**, and numba's streams are blocking. Those of cuda.core are not, so
#   the same line is right in one package and wrong in the other. (CUDA C++ Programming Guide, "Default Stream")
#
# On a card these programs print the same, as long as the kernel takes longer than the copy needs to begin. With a short
# kernel the result is right, by luck. The sanitizer asks for the order, not for the times. It names the line of the
# kernel and that of the copy ("cell 4:13" is line 13 of the cell that ran as number 4), and a fix:

# %%
teaching.findings(sim)

# %% [markdown]
# ## What ordinary arrays cost
#
# Four pieces go to the card, through a kernel and back, each in a stream of its own. Only the arrays of the host
# differ. In the first run they are ordinary ones of NumPy, which the system may move ("pageable"). In the second one
# they are pinned.

# %%
PIECE, PIECES = 1 << 18, 4


@cuda.jit
def square(x):
    """Square each number."""
    i = cuda.grid(1)
    x[i] *= x[i]


def pieces(make):
    """Return arrays for the pieces on the host, made by *make*, and a stream and a buffer for each."""
    arrays = [make(PIECE, np.float32) for _ in range(PIECES)]
    for array in arrays:
        array[:] = 3
    return arrays, [cuda.stream() for _ in arrays], [cuda.device_array(PIECE, np.float32) for _ in arrays]


def pipeline(arrays, streams, buffers):
    """Square each array on the card; return the time in microseconds, and when it began."""
    begin, end = cuda.event(), cuda.event()
    cuda.synchronize()
    since_ns = sim.now_ns
    begin.record()
    for array, stream, buffer in zip(arrays, streams, buffers, strict=True):
        buffer.copy_to_device(array, stream=stream)
        square[PIECE // 256, 256, stream](buffer)
        buffer.copy_to_host(array, stream=stream)
    cuda.synchronize()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000, since_ns


def picture(title, since_ns):
    """Return a picture of what happened since then."""
    shown = teaching.show({title: sim.trace}, rows="engines", since_ns=since_ns)
    shown.caption = ""  # it would have the waits of all cells
    return shown


ordinary, pinned = pieces(np.empty), pieces(cuda.pinned_array)
pipeline(*ordinary)  # compiles the kernel
pageable_us, since_ns = pipeline(*ordinary)
print(f"{pageable_us:,.0f} us with ordinary arrays")
picture("ordinary arrays", since_ns)

# %%
pinned_us, since_ns = pipeline(*pinned)
print(f"{pinned_us:,.0f} us with pinned arrays: {pageable_us / pinned_us:.1f} times as fast")
picture("pinned arrays", since_ns)

# %% [markdown]
# A copy from an ordinary array of this size keeps the host until it is done (notebook 3). So the host queues the next
# piece too late, and nothing overlaps.
#
# ## A kernel whose lanes read far apart
#
# The lanes of a warp have numbers next to each other in the first index of `cuda.grid(2)`. If that is the row, each
# lane reads from a row of its own, and a warp fetches eight times what it uses. `advising()` says so, with lines of the
# compiled kernel and what they cost:

# %%
ROWS = 512


@cuda.jit
def by_rows(matrix, result):
    """Double each number: the lanes are in different rows."""
    row, column = cuda.grid(2)
    result[row, column] = 2 * matrix[row, column]


@cuda.jit
def by_columns(matrix, result):
    """Double each number: the lanes are side by side."""
    column, row = cuda.grid(2)
    result[row, column] = 2 * matrix[row, column]


matrix = cuda.to_device(np.ones((ROWS, ROWS), np.float32))
result = cuda.device_array_like(matrix)
for kernel in (by_rows, by_columns):
    with acl_py.compat.cuda.advising() as advice:
        kernel[(ROWS // 32, ROWS // 8), (32, 8)](matrix, result)
        cuda.synchronize()
    print(advice)

# %% [markdown]
# ## A test with a fault
#
# A library smooths a vector. When the card has no room for the whole, it works in halves. On a card that branch is
# hardly ever tested. Here a fault rule takes the memory away: the allocation fails, and so does the second try, which
# numba makes after it has freed what it kept.

# %%
from numba.cuda.cudadrv.driver import CudaAPIError  # noqa: E402


@cuda.jit
def smooth_inside(source, target):
    """Give each number but the first and the last the mean of itself and its neighbours."""
    i = cuda.grid(1)
    if 0 < i < source.size - 1:
        target[i] = (source[i - 1] + source[i] + source[i + 1]) / 3


def on_card(values):
    """Smooth all *values* at once."""
    source, target = cuda.to_device(values), cuda.to_device(values)
    smooth_inside[(len(values) + 127) // 128, 128](source, target)
    return target.copy_to_host()


def smooth(values):
    """Smooth *values*, in halves if there is no room for all."""
    try:
        return on_card(values)
    except CudaAPIError:
        middle = len(values) // 2
        return np.concatenate([on_card(values[: middle + 1])[:-1], on_card(values[middle:])])


def check_smooth(library):
    """Test *library* on a bent line, first without room and then with it; return whether its results are right."""
    values = np.abs(np.arange(-500, 500, dtype=np.float32))
    wanted = on_card(values)
    no_room = faults.fail(call="Malloc", nth=1, kind="OUT_OF_MEMORY")
    with sim.fault(no_room, no_room):  # the second one is for numba's second try
        without = library(values)
    return {"without room": np.allclose(without, wanted), "with room": np.allclose(library(values), wanted)}


check_smooth(smooth)

# %% [markdown]
# The branch was taken, and its result is wrong: the third exercise asks why. In the tests of a project the same rule is
# `with cuda_driver.fault("fail call=Malloc nth=1 kind=OUT_OF_MEMORY"):`, with the fixture that `pytest --cuda` brings.
# Whole scripts run with `acl-py run script.py`, and `--sanitize`, `--fault`, `--report` and the other options work
# there too.
#
# ## Exercises
#
# Change `mine_1` in its cell, run it, and read the result of the check; then the others. The solutions are in
# `solutions/`.
#
# **1.** Download the result in the other stream, and make it right without making the host wait before the copy is
# queued.


# %% tags=["exercise"]
def mine_1(compute, download, numbers, answer):
    count[SIZE // 256, 256, compute](numbers, STEPS)
    numbers.copy_to_host(answer, stream=download)


def check_1(program):
    """Run *program*; check its result, its order, and that the host was free."""
    before = len(sim.findings)
    answer = cuda.pinned_array(SIZE, np.float32)
    answer[:] = 0
    numbers = cuda.to_device(np.zeros(SIZE, np.float32))
    streams = cuda.stream(), cuda.stream()
    cuda.synchronize()
    start = sim.now_ns
    program(*streams, numbers, answer)
    us = (sim.now_ns - start) / 1000
    cuda.synchronize()
    races = len(sim.findings) - before
    teaching.exercise(
        says(answer) == "right" and not races and us < 30, f"{says(answer)}, races: {races}, the host: {us:.0f} us"
    )


check_1(mine_1)

# %% [markdown]
# **2.** The pipeline again, with arrays that you make. The arrays arrive as ordinary ones. Copy what you need to pinned
# memory first (that time does not count), and make the pipeline at least four times as fast.


# %% tags=["exercise"]
def mine_2(arrays):
    return arrays


def check_2(prepare):
    """Run the pipeline with the arrays that *prepare* returns, and check its results and its time."""
    arrays, streams, buffers = pieces(np.empty)
    prepared = prepare(arrays)
    us, _ = pipeline(prepared, streams, buffers)
    right = all((array == 9).all() for array in prepared)
    teaching.exercise(right and us < pageable_us / 4, f"right: {right}, {us:,.0f} us of {pageable_us:,.0f} us")


check_2(mine_2)

# %% [markdown]
# **3.** The halves of `smooth` are joined at a number that both have at their edge, where it is not smoothed. Mend that
# in `mine_3`.


# %% tags=["exercise"]
def mine_3(values):
    try:
        return on_card(values)
    except CudaAPIError:
        middle = len(values) // 2
        return np.concatenate([on_card(values[: middle + 1])[:-1], on_card(values[middle:])])


def check_3(library):
    """Test *library* with room and without."""
    right = check_smooth(library)
    teaching.exercise(all(right.values()), f"right: {right}")


check_3(mine_3)

# %% [markdown]
# ## On your own card
#
# This program runs unmodified here, with `acl-py run own.py`, and on a card. A card prints the same, as long as nothing
# else uses it.
#
# ```python
# import numpy as np
# from numba import cuda
#
#
# @cuda.jit
# def count(x, steps):
#     i = cuda.grid(1)
#     for _ in range(steps):
#         x[i] += 1
#         cuda.threadfence()
#
#
# compute, download = cuda.stream(), cuda.stream()
# answer = cuda.pinned_array(16384, np.float32)
# numbers = cuda.to_device(np.zeros(16384, np.float32))
# count[64, 256, compute](numbers, 1000)  # compile it
# for way, stream in (("another stream", download), ("the default stream", 0)):
#     answer[:] = 0
#     numbers.copy_to_device(np.zeros(16384, np.float32))
#     cuda.synchronize()
#     count[64, 256, compute](numbers, 1000)
#     numbers.copy_to_host(answer, stream=stream)
#     cuda.synchronize()
#     print(f"{way}: {answer.min():.0f}")
# ```

# %%
await sim.close()
