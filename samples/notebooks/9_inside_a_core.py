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
# # 9 Inside a core: pipes, flags, stages and banks
#
# Streams order whole operations. Inside a kernel the same questions come back, a thousand times shorter: what runs at
# the same time, and who waits for whom? An AI core of Ascend has *pipes*: MTE2 copies in, V computes, MTE3 copies out,
# and *flags* order them. A thread block of CUDA starts asynchronous copies into shared memory, and *waits* for groups
# of them.
#
# *The question:* what do a second, a third and a fourth buffer gain inside a core, and what orders their use?
#
# (Before it: 1. It needs `pip install 'acl-py[notebooks]'`.)

# %%
import numpy as np
from matplotlib.figure import Figure

import acl_py
from acl_py import Array, MemcpyKind, asc, cta, teaching
from acl_py.trace import pipes

teaching.begin()

# %% [markdown]
# ## Your prediction
#
# A vector core of a 910B1 adds two arrays: 12 tiles of 8 KB each. A launch with one buffer takes about 7,200 ns;
# copying in is most of it. A block on an H200 goes through 32 tiles of 8 KB and computes nothing: about 17,000 ns with
# one stage, which is one buffer. Write nanoseconds in place of each `...`; an answer within 10 % counts as right.

# %% tags=["prediction"]
prediction = teaching.predict(
    {"910B1, 2 buffers": ..., "910B1, 3 buffers": ..., "H200, 2 stages": ..., "H200, 4 stages": ...}, unit="ns"
)

# %% [markdown]
# ## The run
#
# The kernel for the AI core has the form of Ascend C. A *queue* has buffers: `AllocTensor` waits for a free one,
# `EnQue` says that it is full, `DeQue` waits for a full one, and `FreeTensor` says that it is free.

# %%
TILE, TILES = 4096, 12  # halves; tiles of a block


@asc.kernel
def add(x: asc.In, y: asc.In, z: asc.Out, buffers: int):
    x_gm, y_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (x, y, z))
    pipe = asc.TPipe()
    x_queue, y_queue = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (x_queue, y_queue, z_queue):
        pipe.InitBuffer(queue, buffers, TILE * 2)
    for at in range(0, TILES * TILE, TILE):
        for queue, source in ((x_queue, x_gm), (y_queue, y_gm)):
            tile = queue.AllocTensor(asc.half)
            asc.DataCopy(tile, source[at:], TILE)
            queue.EnQue(tile)
        a, b, c = x_queue.DeQue(asc.half), y_queue.DeQue(asc.half), z_queue.AllocTensor(asc.half)
        asc.Add(c, a, b, TILE)
        z_queue.EnQue(c)
        x_queue.FreeTensor(a)
        y_queue.FreeTensor(b)
        c = z_queue.DeQue(asc.half)
        asc.DataCopy(z_gm[at:], c, TILE)
        z_queue.FreeTensor(c)


# %% [markdown]
# In the kernel for the thread block every thread copies a part of a tile. `wait_group(n)` waits until at most `n` of
# the thread's groups are still on their way, and `syncthreads` shows what has arrived to the other threads.

# %%
THREADS, PARTS = 128, 32
PART = 16 * THREADS  # numbers: 8 KB


@cta.kernel(threads=THREADS)
def staged(x: cta.In, y: cta.Out, stages: int, work: int):
    s, t = cta.shared(np.float32, (stages, PART)), cta.tid
    for i in range(PARTS + stages - 1):
        if i < PARTS:
            cta.memcpy_async(s[i % stages], x[i], 16)
        cta.commit_group()  # behind the last part an empty one, so that the same number may be pending
        if i >= stages - 1:
            part = i - stages + 1
            cta.wait_group(stages - 1)
            cta.syncthreads()
            value = s[part % stages, t]
            for _ in range(work):
                value = cta.fma(value, 0.5, 1)
            y[part, t] = value
            cta.syncthreads()  # no thread reads this buffer any more


# %%
async def launch(device, kernel, inputs, result, *options):
    """Launch *kernel* on one core with arrays of NumPy, fill *result*; return the nanoseconds, and the simulation."""
    sim = acl_py.open(device=device, instructions=5_000)
    arrays = [Array(await acl_py.Malloc(each.nbytes), each.dtype, each.shape) for each in (*inputs, result)]
    for array, values in zip(arrays, inputs, strict=False):
        await acl_py.Memcpy(array, array.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    launched = await kernel[1](*arrays, *options)
    await acl_py.SynchronizeDevice()
    await acl_py.Memcpy(result, result.nbytes, arrays[-1], result.nbytes, MemcpyKind.DEVICE_TO_HOST)
    await sim.close()
    return launched.end_ns - launched.start_ns, sim, launched.work.result


VALUES = np.arange(TILES * TILE).astype(np.float16) % 64
NUMBERS = np.random.default_rng(0).random((PARTS, PART), np.float32)


async def added(buffers):
    """Add with some *buffers* in each queue."""
    result = np.empty_like(VALUES)
    ns, sim, ran = await launch("ascend910b1", add, (VALUES, VALUES), result, buffers)
    assert (result == VALUES + VALUES).all()
    return ns, sim, ran


async def copied(stages, work=0):
    """Copy with some *stages*, and compute some *work* with each number."""
    return await launch("h200", staged, (NUMBERS,), np.empty((PARTS, THREADS), np.float32), stages, work)


cores = {buffers: await added(buffers) for buffers in (1, 2, 3)}
blocks = {stages: await copied(stages) for stages in (1, 2, 3, 4)}
prediction.check(
    {f"910B1, {buffers} buffers": cores[buffers][0] for buffers in (2, 3)}
    | {f"H200, {stages} stages": blocks[stages][0] for stages in (2, 4)}
)

# %% [markdown]
# Look at the pipes of the core, with one buffer and with two:

# %%
for buffers in (1, 2):
    print(f"{buffers} for each queue:")
    print(pipes.lanes(cores[buffers][1].trace, core="AIV 0", width=100), end="\n\n")

# %% [markdown]
# With one buffer MTE2 waits until V is done with the tile, and V waits for MTE2: the pipes take turns. With two, MTE2
# fills one while V reads the other. The third one still gains, because the latency of a copy is long compared with the
# time of its 8 KB. (The charts have the instructions. A launch takes nearly 2 us more, for its start and its end.)
#
# ## How many stages pay?
#
# The copies on the H200 have a latency too, and a block can hide it by computing, or by more copies on their way.


# %%
WORK = {"no": 0, "64": 64, "256": 256}
times = {name: [(await copied(stages, work))[0] / 1000 for stages in (1, 2, 3, 4)] for name, work in WORK.items()}
figure = Figure(figsize=(7, 3), dpi=110, layout="constrained")
ax = figure.subplots()
looks = {"h2d": "o-", "kernel": "x--", "d2h": "s:"}
for (name, found), (kind, style) in zip(times.items(), looks.items(), strict=True):
    colour, label = teaching.COLOURS[kind], f"{name} multiply-adds"
    ax.plot([1, 2, 3, 4], found, style, color=colour, mfc="none", lw=0.8, label=label)
ax.set_xticks([1, 2, 3, 4])
ax.set_ylim(bottom=0)
ax.set_xlabel("stages, 8 KB of shared memory each", fontsize=9)
ax.set_ylabel("microseconds", fontsize=9)
ax.legend(frameon=False, fontsize=8)
ax.spines[["top", "right"]].set_visible(False)
teaching.picture(
    figure,
    "Microseconds of 32 tiles, with 1, 2, 3 and 4 stages.\n"
    + "\n".join(f"{name} multiply-adds: " + ", ".join(f"{us:.1f}" for us in found) for name, found in times.items()),
    "The price of having one stage: "
    + ", ".join(f"{found[0] - min(found):.1f} us ({name})" for name, found in times.items()),
)

# %% [markdown]
# **The rule:** two buffers overlap copying and computing, and take the longer of the two. If computing is longer, more
# buffers gain nothing. If memory is the limit, further ones keep more bytes on their way, until the latency is hidden.
# Each costs shared memory, and so blocks that fit on a core. (CUDA's programming guide, "Asynchronous Data Copies";
# CANN's guide to Ascend C, "DoubleBuffer".) Cards say: an H200 ran 312 pipelines of copies and multiply-adds, and the
# times of the model differ from its times by 0.7 % (median), and by 7 % at most. On all 48 cores of a 910B1 memory is
# the limit. There a second buffer gained 4 us of 262 (published with CANN's samples), and gains 1 us of 256 here.
# (docs/accuracy.md of the project has these rows.)
#
# ## A forgotten flag
#
# Without queues a kernel sets flags by hand. `SetFlag` behind an instruction of one pipe, `WaitFlag` before one of
# another: that is an event and a wait between two streams. Here V does not wait for MTE2. (In the finding RAW is a read
# after a write, AIV a vector core, and UB its memory.)


# %%
@asc.kernel
def doubled(x: asc.In, z: asc.Out, waits: bool):
    x_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (x, z))
    a, b = (asc.LocalTensor(asc.half, asc.TPosition.VECCALC, place * TILE * 2, TILE) for place in range(2))
    asc.DataCopy(a, x_gm, TILE)
    if waits:
        asc.SetFlag(asc.HardEvent.MTE2_V, 0)
        asc.WaitFlag(asc.HardEvent.MTE2_V, 0)
    asc.Add(b, a, a, TILE)
    asc.SetFlag(asc.HardEvent.V_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
    asc.DataCopy(z_gm, b, TILE)


result = np.empty(TILE, np.float16)
_, sim, _ = await launch("ascend910b1", doubled, (VALUES[:TILE],), result, False)
print("right by luck:", bool((result == 2 * VALUES[:TILE]).all()))
teaching.findings(sim)

# %%
_, sim, _ = await launch("ascend910b1", doubled, (VALUES[:TILE],), result, True)
teaching.findings(sim)

# %% [markdown]
# The simulator computes in the order of the program, so the result is right; on a card it depends on the times. The
# check looks at the order that flags give, not at times. In a thread block a copy needs *two* calls before another
# thread reads: `wait_group` waits for the thread's own copies, and `syncthreads` for all threads.


# %%
@cta.kernel(threads=THREADS)
def reverse(x: cta.In, y: cta.Out):
    s, t = cta.shared(np.float32, THREADS, "tile"), cta.tid
    cta.cp_async(s.at[t], x.at[t], 4)
    cta.commit_group()
    cta.wait_group(0)
    y[t] = s[THREADS - 1 - t]


_, sim, _ = await launch("h200", reverse, (NUMBERS[0, :THREADS],), np.empty(THREADS, np.float32))
teaching.findings(sim)

# %% [markdown]
# ## Banks
#
# Shared memory has 32 banks of 4 bytes, and in one pass each bank gives one number. A warp that loads a column of a
# tile of 32 x 32 numbers loads 32 numbers from one bank: 32 passes, which is called 32 ways. Two layouts avoid that.
# *Padded*, each row has an unused number at its end. *Swizzled*, number j of row i is in place `i ^ j` of its row.

# %%
SIDE, TRANSPOSED = 32, 8


@cta.kernel(threads=SIDE)
def transpose(x: cta.In, y: cta.Out, pitch: int, is_swizzled: bool):
    def place(row, column):
        return row ^ column if is_swizzled else column

    s, t = cta.shared(np.float32, (SIDE, pitch)), cta.tid[:, None]
    each = np.arange(SIDE)[None, :]
    for tile in range(TRANSPOSED):
        s[each, place(each, t)] = x[tile, each, t]
        cta.syncwarp()
        y[tile, each, t] = s[t, place(t, each)]
        cta.syncwarp()


def ways(ran, instruction):
    """Return how many passes an instruction takes: the most of all that the first block has issued."""
    return max(max(row.phases) for row in ran.blocks[0].rows if row.name == instruction)


tiles = NUMBERS.reshape(-1)[: TRANSPOSED * SIDE**2].reshape(TRANSPOSED, SIDE, SIDE)
print("layout    bytes  ways of stores  of loads       time")
for layout, (pitch, is_swizzled) in {"as it is": (32, False), "padded": (33, False), "swizzled": (32, True)}.items():
    result = np.empty_like(tiles)
    ns, sim, ran = await launch("h200", transpose, (tiles,), result, pitch, is_swizzled)
    assert (result == tiles.transpose(0, 2, 1)).all()
    stores, loads = ways(ran, "st.shared.32"), ways(ran, "ld.shared.32")
    print(f"{layout:9} {4 * SIDE * pitch:5} {stores:15} {loads:9} {ns / 1000:7.2f} us")

# %% [markdown]
# Padding costs memory, and its rows do not begin at a multiple of 16 bytes, which `cp.async` of 16 bytes needs. A
# swizzle costs no memory, and may move whole pieces of 16 bytes. (CUDA's programming guide, "Shared Memory"; TMA's
# swizzle modes do the same in hardware.)
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** This kernel doubles 4 tiles through one buffer for input and one for output. The order that is missing is the
# way *back*: nothing says that a buffer is free. Add flags until there is no finding. (`V_MTE2` and `MTE3_V` are the
# flags of that way. A flag that is set must also be waited for.)


# %% tags=["exercise"]
def mine(x_gm, z_gm, a, b):
    flag = asc.HardEvent
    for at in range(0, 4 * TILE, TILE):
        asc.DataCopy(a, x_gm[at:], TILE)
        asc.SetFlag(flag.MTE2_V, 0)
        asc.WaitFlag(flag.MTE2_V, 0)
        asc.Add(b, a, a, TILE)
        asc.SetFlag(flag.V_MTE3, 0)
        asc.WaitFlag(flag.V_MTE3, 0)
        asc.DataCopy(z_gm[at:], b, TILE)


async def check_1(body):
    """Run the kernel with *body*, and check its results and its order."""

    @asc.kernel
    def four_tiles(x: asc.In, z: asc.Out):
        x_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (x, z))
        a, b = (asc.LocalTensor(asc.half, asc.TPosition.VECCALC, place * TILE * 2, TILE) for place in range(2))
        body(x_gm, z_gm, a, b)

    values, result = VALUES[: 4 * TILE], np.empty(4 * TILE, np.float16)
    _, _, ran = await launch("ascend910b1", four_tiles, (values,), result)
    right, missing = bool((result == 2 * values).all()), [finding.missing for finding in ran.findings]
    teaching.exercise(right and not missing, f"right: {right}, missing: {', '.join(missing) or 'nothing'}")


await check_1(mine)

# %% [markdown]
# **2.** This kernel has four stages, and takes nearly as long as with one. Make it take less than 6 us, with the same
# four buffers and without a finding.


# %% tags=["exercise"]
@cta.kernel(threads=THREADS)
def mine(x: cta.In, y: cta.Out):
    s, t = cta.shared(np.float32, (4, PART)), cta.tid
    for i in range(PARTS + 3):
        if i < PARTS:
            cta.memcpy_async(s[i % 4], x[i], 16)
        cta.commit_group()
        if i >= 3:
            cta.wait_group(0)
            cta.syncthreads()
            y[i - 3, t] = s[(i - 3) % 4, t]
            cta.syncthreads()


async def check_2(kernel):
    """Run *kernel*, and check its results, its order and its time."""
    result = np.empty((PARTS, THREADS), np.float32)
    ns, _, ran = await launch("h200", kernel, (NUMBERS,), result)
    right = np.array_equal(result, NUMBERS[:, :THREADS])
    solved = right and not ran.findings and ns < 6_000
    teaching.exercise(solved, f"{ns / 1000:.2f} us, right: {right}, findings: {len(ran.findings)}")


await check_2(mine)

# %% [markdown]
# **3.** A tile of 32 rows with 16 numbers each: two rows fill the 32 banks. Find a swizzle without conflicts: `mine`
# gives the place of a number in its row, from 0 to 15.


# %% tags=["exercise"]
def mine(row, column):
    return column ^ (row % 16)


async def check_3(place):
    """Transpose tiles with *place*, and check the results and the ways."""

    @cta.kernel(threads=32)
    def narrow(x: cta.In, y: cta.Out):
        s, t = cta.shared(np.float32, (32, 16)), cta.tid[:, None]
        pair, column = np.arange(16)[None, :], t % 16
        row = 2 * pair + t // 16  # a warp stores two rows at a time
        s[row, place(row, column)] = x[row, column]
        cta.syncwarp()
        y[pair, t] = s[t, place(t, pair)]  # and loads a column

    values, result = np.arange(512, dtype=np.float32).reshape(32, 16), np.empty((16, 32), np.float32)
    _, _, ran = await launch("h200", narrow, (values,), result)
    right, stores, loads = np.array_equal(result, values.T), ways(ran, "st.shared.32"), ways(ran, "ld.shared.32")
    teaching.exercise(right and stores == loads == 1, f"right: {right}, ways of stores {stores}, of loads {loads}")


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# Columns of a tile, loaded with conflicts and without them.
#
# ```python
# import numpy as np
# import acl_py as acl
#
# KERNEL = """extern "C" __global__ void banks(float *y) {
#   volatile __shared__ float s[32][32]; int t = threadIdx.x; float sum = 0;
#   for (int i = 0; i < 32; i++) s[i][t] = i;
#   __syncwarp();
#   for (int n = 0; n < 100000; n++) sum += s[t][(n ^ (t * SWIZZLED)) % 32];
#   y[t] = sum; }"""
#
# async def main():
#     stream, begin, end = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateEvent()
#     y = acl.Array(await acl.Malloc(128), np.float32)
#     for swizzled in (0, 1, 0, 1):  # the first round warms up
#         banks = (await acl.ptx.load(acl.ptx.compile(KERNEL, [f"-DSWIZZLED={swizzled}"])))["banks"]
#         await acl.RecordEvent(begin, stream)
#         await banks[1, 32, stream](y)
#         await acl.RecordEvent(end, stream)
#         await acl.SynchronizeEvent(end)
#         print(f"swizzled {swizzled}: {await acl.EventElapsedTime(begin, end):.2f} ms")
#
# acl.run(main, device="cuda:0", trace=False)
# ```
#
# The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0):
#
# ```text
# swizzled 0: 3.35 ms
# swizzled 1: 0.78 ms
# swizzled 0: 3.33 ms
# swizzled 1: 0.76 ms
# ```
#
# It is 4 times and not 32, because the loop of a single warp takes time, too: about 15 cycles of an SM for a load
# without conflicts.
