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
# # 15 One product, from a quarter of the cube to nine tenths
#
# A cube core does 4,096 multiply-adds in a cycle if it gets the numbers in time. Four pipes of the core have to work
# side by side for that. MTE2 brings tiles of A and B from GM to L1, MTE1 brings pieces of them to L0, the cube (M)
# multiplies, and Fixpipe (FIX) stores tiles of C. This notebook has seven versions of one kernel. Each changes one
# thing.
#
# *The question:* which pipe is in the way, and what gets it out of the way?
#
# (Before it: 9. It needs `pip install 'acl-py[notebooks]'`.)

# %%
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import acl_py
from acl_py import Array, MemcpyKind, asc, teaching
from acl_py.trace.page import Page, Run

teaching.begin()

# %% [markdown]
# ## Your prediction
#
# C = A B for matrices of 1024 x 1024 halves, on one cube core of a 910B1. With one buffer in each memory it takes about
# 561 us, and the cube works for 27 % of that. Then six steps, each on top of the one before:
#
# 1. rows of 512 bytes for A, in place of 128: tiles four times as deep;
# 2. two buffers in L1, so that MTE2 and MTE1 work side by side;
# 3. two buffers in L0, so that MTE1 and the cube do;
# 4. tiles of C of 128 x 256, in place of 128 x 128;
# 5. the rows of A stay in L1 for a whole row of tiles of C;
# 6. C leaves L0C block by block, while the cube goes on.
#
# Write the microseconds after each step in place of each `...`; an answer within 10 % counts as right.

# %% tags=["prediction"]
prediction = teaching.predict(
    {
        "1 longer rows": ...,
        "2 two buffers in L1": ...,
        "3 two buffers in L0": ...,
        "4 wider tiles": ...,
        "5 A stays": ...,
        "6 block by block": ...,
    },
    unit="us",
)

# %% [markdown]
# ## The kernel
#
# A `Step` says what a version does. `tile` has the rows and columns of a tile of C, and how deep along k the tiles of A
# and B in L1 are; `depth` is that of the pieces in L0.


# %%
class Step(NamedTuple):
    name: str
    tile: tuple
    depth: int = 64
    l1_buffers: int = 1
    l0_buffers: int = 1
    keeps_a: bool = False
    has_unit_flags: bool = False
    is_hasty: bool = False


STEPS = (
    Step("0 one buffer each", (128, 128, 64)),
    Step("1 longer rows", (128, 128, 256)),
    Step("2 two buffers in L1", (128, 128, 256), 64, 2),
    Step("3 two buffers in L0", (128, 128, 256), 64, 2, 2),
    Step("4 wider tiles", (128, 256, 256), 64, 2, 2),
    Step("5 A stays", (128, 256, 256), 64, 2, 2, True),
    Step("6 block by block", (128, 256, 256), 64, 2, 2, True, True),
)

# %% [markdown]
# `Buffers` are filled by one pipe and read by the next one, in turn. A flag says that one is full, and another one that
# it is empty.

# %%
E, P = asc.HardEvent, asc.TPosition
SIDE, CELLS = 16, 256  # of a fractal: rows, and elements
KEPT = 4  # the first id of the flags of tiles of A that stay in L1


class Buffers:
    def __init__(self, full, empty, tensors):
        self.full, self.empty, self.tensors, self.turn = full, empty, tensors, 0
        for number in range(len(tensors)):
            asc.SetFlag(empty, number)

    def fill(self):
        asc.WaitFlag(self.empty, self.turn)
        return self.tensors[self.turn]

    def read(self):
        asc.SetFlag(self.full, self.turn)
        asc.WaitFlag(self.full, self.turn)

    def release(self):
        asc.SetFlag(self.empty, self.turn)
        self.turn = (self.turn + 1) % len(self.tensors)

    def close(self):
        for number in range(len(self.tensors)):
            asc.WaitFlag(self.empty, number)


def halves(position, at, count):
    """Some halves from byte *at* of a memory."""
    return asc.LocalTensor(asc.half, position, at, count)


def memories(step, k):
    """The buffers of L1 and of L0, and the tiles of A that stay in L1, behind those of B."""
    rows, columns, long = step.tile
    a, b, count = 0 if step.keeps_a else rows * long, columns * long, step.l1_buffers
    l1 = [(halves(P.A1, i * a * 2, a), halves(P.B1, (count * a + i * b) * 2, b)) for i in range(count)]
    a, b = rows * step.depth, columns * step.depth
    l0 = [(halves(P.A2, i * a * 2, a), halves(P.B2, i * b * 2, b)) for i in range(step.l0_buffers)]
    behind, kept = count * columns * long * 2, rows * long
    kept = [halves(P.A1, behind + i * kept * 2, kept) for i in range(k // long if step.keeps_a else 0)]
    return Buffers(E.MTE2_MTE1, E.MTE1_MTE2, l1), Buffers(E.MTE1_M, E.M_MTE1, l0), kept


def load(a1, b1, a2, b2, at, step):
    """Bring a piece from L1 to L0: rows of fractals of A, and of B, which is transposed on the way."""
    rows, columns, long = (size // SIDE for size in step.tile)
    deep = step.depth // SIDE
    for row in range(rows):
        asc.LoadData(a2[row * deep * CELLS :], a1, asc.LoadData2DParams(at // SIDE * rows + row, deep, rows))
    for row in range(deep):
        piece = asc.LoadData2DParams(at // SIDE + row, columns, long, 0, if_transpose=True)
        asc.LoadData(b2[row * columns * CELLS :], b1, piece)


@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def product(a: asc.In, b: asc.In, c: asc.Out, step, m: int, n: int, k: int):
    a_gm, b_gm, c_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (a, b, c))
    rows, columns, long = step.tile
    l1, l0, kept = memories(step, k)
    total = asc.LocalTensor(asc.float32, P.CO1, 0, rows * columns)
    for number in range(len(kept)):
        asc.SetFlag(E.MTE1_MTE2, KEPT + number)
    waits = not step.has_unit_flags and not step.is_hasty
    if waits:
        asc.SetFlag(E.FIX_M, 0)
    for row, column in ((row, column) for row in range(0, m, rows) for column in range(0, n, columns)):
        if waits:
            asc.WaitFlag(E.FIX_M, 0)  # the last tile of C has left L0C
        for deep in range(0, k, long):
            a1, b1 = l1.fill()
            number = deep // long
            if kept:
                a1 = kept[number]
            if kept and column == 0:
                asc.WaitFlag(E.MTE1_MTE2, KEPT + number)
            if not kept or column == 0:
                asc.DataCopy(a1, a_gm[row * k + deep :], asc.Nd2NzParams(1, rows, long, 0, k, rows, 1, 0))
            asc.DataCopy(b1, b_gm[deep * n + column :], asc.Nd2NzParams(1, long, columns, 0, n, long, 1, 0))
            l1.read()
            for at in range(0, long, step.depth):
                a2, b2 = l0.fill()
                load(a1, b1, a2, b2, at, step)
                l0.read()
                is_last = deep + long == k and at + step.depth == long
                flag = (3 if is_last else 2) if step.has_unit_flags else 0
                asc.Mmad(total, a2, b2, asc.MmadParams(rows, columns, step.depth, deep + at == 0, flag))
                l0.release()
            if kept and column + columns == n:
                asc.SetFlag(E.MTE1_MTE2, KEPT + number)
            l1.release()
        flag = 3 if step.has_unit_flags else 0
        if not step.has_unit_flags:
            asc.SetFlag(E.M_FIX, 0)
            asc.WaitFlag(E.M_FIX, 0)
        to_half = asc.FixpipeParams(columns, rows, 0, n, asc.QuantMode.F322F16, unit_flag=flag)
        asc.Fixpipe(c_gm[row * n + column :], total, to_half)
        if waits:
            asc.SetFlag(E.FIX_M, 0)
    if waits:
        asc.WaitFlag(E.FIX_M, 0)
    for number in range(len(kept)):
        asc.WaitFlag(E.MTE1_MTE2, KEPT + number)
    l1.close()
    l0.close()


# %% [markdown]
# ## The run
#
# Times do not depend on the values of a matrix. So the values are checked once, with small matrices, and the times are
# those of runs with `values=False`.


# %%
async def launch(step, m=1024, n=1024, k=1024, check=False):
    """Launch *step*; return the launch and the simulation. With *check* compare the result with that of NumPy."""
    sim = acl_py.open(device="ascend910b1", values=check, instructions=8_000)
    factors = [np.random.default_rng(0).normal(size=shape).astype(np.float16) for shape in ((m, k), (k, n))]
    arrays = [Array(await acl_py.Malloc(2 * x * y), np.float16, (x, y)) for x, y in ((m, k), (k, n), (m, n))]
    for array, values in zip(arrays, factors, strict=False):
        await acl_py.Memcpy(array, array.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    launched = await product[1](*arrays, step, m, n, k)
    await acl_py.SynchronizeDevice()
    if check:
        result, (a, b) = np.empty((m, n), np.float16), (each.astype(np.float32) for each in factors)
        await acl_py.Memcpy(result, result.nbytes, arrays[2], result.nbytes, MemcpyKind.DEVICE_TO_HOST)
        assert np.allclose(result, a @ b, rtol=1e-2, atol=0.2), step
        assert not launched.work.result.findings
    await sim.close()
    return launched.work.result, sim


PIPES = {"mac": "cube", "mte2": "mte2", "mte1": "mte1", "fixpipe": "fixpipe"}


def shares(ran):
    """The time of the core in microseconds, and the share of each pipe in it."""
    busy = ran.timeline.busy_us
    return busy["aic_time"], {name: busy[key] / busy["aic_time"] for key, name in PIPES.items()}


for step in STEPS:
    await launch(step, 256, 512, 512, check=True)
runs = {step.name: await launch(step) for step in STEPS}
prediction.check({name: round(shares(ran)[0]) for name, (ran, _) in runs.items() if name[0] != "0"})

# %%
print(f"{'':22}{'us':>7}{'cube':>7}{'mte2':>7}{'mte1':>7}{'fixpipe':>9}")
for name, (ran, _) in runs.items():
    us, busy = shares(ran)
    print(f"{name:22}{us:7.1f}{busy['cube']:7.0%}{busy['mte2']:7.0%}{busy['mte1']:7.0%}{busy['fixpipe']:9.0%}")

# %% [markdown]
# A pipe that is near 100 % is in the way. If none is, the pipes take turns. Look at 20 us of each step:

# %%
LANES = {"MTE2": "h2d", "MTE1": "d2h", "M": "kernel", "FIX": "p2p"}
SINCE, UNTIL = 60, 80  # microseconds from the first instruction of the core
figure = Figure(figsize=(8, 9), dpi=110, layout="constrained")
said = []
for ax, (name, (_, sim)) in zip(figure.subplots(len(runs), sharex=True), runs.items(), strict=True):
    first = min(row.start_ns for row in sim.trace.instructions)
    rows = [
        (row.pipe, (row.start_ns - first) / 1000, (row.end_ns - first) / 1000)
        for row in sim.trace.instructions
        if row.kind == "work"
    ]
    busy = []
    for place, (pipe, kind) in enumerate(LANES.items()):
        spans = [(begin, end - begin) for own, begin, end in rows if own == pipe and begin < UNTIL and end > SINCE]
        ax.broken_barh(spans, (place - 0.4, 0.8), facecolor=teaching.COLOURS[kind])
        busy.append(f"{pipe} {len(spans)}")
    ax.set_yticks(range(len(LANES)), LANES, fontsize=7)
    ax.set(xlim=(SINCE, UNTIL), ylim=(len(LANES) - 0.5, -0.5))
    ax.set_title(name, fontsize=8, loc="left", pad=2)
    ax.spines[["top", "right"]].set_visible(False)
    said.append(f"{name}: {', '.join(busy)}")
ax.set_xlabel("microseconds from the first instruction of the core", fontsize=8)
alt = f"The pipes from {SINCE} to {UNTIL} us in each step. Instructions in that time:\n" + "\n".join(said)
shown = teaching.picture(figure, alt)
shown.page = Page([Run(name, runs[name][1].trace.timeline()) for name in ("0 one buffer each", "6 block by block")])
shown

# %% [markdown]
# ## Why each step helps
#
# 1. *Longer rows.* Rows of A of 128 bytes come from the L2 in whole requests of 256, so half of what MTE2 moves for A
#    is of no use. With rows of 512 bytes it moves what it needs, and makes fewer copies.
# 2. *Two buffers in L1.* No pipe was in the way: MTE2 waited until MTE1 had read the tile. Now the next tile comes
#    while this one is read.
# 3. *Two buffers in L0.* The same one level further down: MTE1 waited until the cube had read the piece.
# 4. *Wider tiles.* Now MTE2 is in the way. Each tile of C needs its rows of A and its columns of B. With tiles twice as
#    wide, A is read four times in place of eight.
# 5. *A stays.* A is read once. That gains little, because the next thing in the way is close behind: the cube waits
#    until each tile of C has left L0C.
# 6. *Block by block.* A block of C leaves when its last Mmad is done, and the next Mmad follows Fixpipe block by block.
#
# The order matters. Wider tiles bring little while the pipes take turns. And when one pipe is at its limit, another
# buffer brings nothing: only fewer bytes do, as in steps 4 and 5.
#
# **Cards say:** for the last step there is a published number. A kernel of CANN's samples with such tiles multiplies
# 8192 cubed on the 24 cube cores of a 910B1 in 4,228 us. Each core is at work for 3,761 us of these, the cube for 3,083
# us (82 %), MTE2 for 3,686 us (98 %), and Fixpipe for 194 us. There 24 cores share the memory, so MTE2 is in the way
# again. Our core has the memory for itself. (docs/accuracy.md of the project has this row, and what the model says.)
#
# ## What advice says
#
# `asc.advise` plays the launch again with each mistake mended. Before step 6 it names the wait of the cube, and what it
# is worth:

# %%
for advice in asc.advise(runs["5 A stays"][0]):
    print(advice.guideline.name, f"{advice.saved_us:.1f} us:", advice.guideline.value)
us = {name: shares(ran)[0] for name, (ran, _) in runs.items()}
print(f"step 6 gains {us['5 A stays'] - us['6 block by block']:.1f} us")

# %% [markdown]
# ## A cube that does not wait
#
# Why not leave the wait out? In this version the cube goes on at once, and nothing else is changed. (In the finding WAR
# is a write after a read, and AIC a cube core.)

# %%
_, sim = await launch(Step("5 hasty", (128, 256, 256), 64, 2, 2, True, False, True), 256, 512, 512)
teaching.findings(sim)

# %% [markdown]
# The cube may overwrite a tile of C that Fixpipe still stores. Unit flags keep that order, for each block by itself.
# That is why they cost so little.
#
# **The rule:** first let the pipes work side by side: two buffers between each pair. Then look which pipe is busy all
# the time, and give it less to do. For MTE2 that means larger tiles of C and longer rows, for Fixpipe unit flags.
#
# ## Exercises
#
# Change `mine` in the cell, run it, and read the result of the check. The solutions are in `solutions/`.
#
# **1.** How many bytes does MTE2 bring for the whole product? `mine` gets a step, whose `step.tile` and `step.keeps_a`
# matter; the matrices are 1024 x 1024 halves. (As it stands, each matrix is read once.)


# %% tags=["exercise"]
def mine(step):
    matrix = 2 * 1024 * 1024
    return matrix + matrix


def check_1(count):
    """Compare *count* with the bytes that MTE2 brought in each step."""
    brought = {
        step.name: sum(
            each.flow.nbytes
            for program in runs[step.name][0].programs
            for each in program.instructions
            if each.flow is not None and each.pipe is asc.Pipe.MTE2
        )
        for step in STEPS
    }
    right = [step.name for step in STEPS if count(step) == brought[step.name]]
    said = ", ".join(f"{name[0]}: {nbytes >> 20} MB" for name, nbytes in brought.items())
    teaching.exercise(len(right) == len(STEPS), f"right for {len(right)} of {len(STEPS)} steps ({said})")


check_1(mine)

# %% [markdown]
# **2.** This version is slow for three reasons. Advice knows two of them, and names the second one when the first one
# is gone. Mend it until no advice is worth 1 % of its time, and until it takes less than 170 us.

# %% tags=["exercise"]
mine = Step("mine", (128, 256, 64), 64, 1, 2)


async def check_2(step):
    """Run *step*, and print the advice on it."""
    await launch(step, 256, 512, 512, check=True)
    ran, _ = await launch(step)
    us, _ = shares(ran)
    worth = [each for each in asc.advise(ran) if each.saved_us > us / 100]
    teaching.exercise(not worth and us < 170, f"{us:.1f} us, pieces of advice: {len(worth)}")
    for each in worth:
        print(f"{each.guideline.name}, worth {each.saved_us:.1f} us: {each.guideline.value}")


await check_2(mine)

# %% [markdown]
# **3.** Half of L1 is needed for something else: 256 KB are left. Find a version that takes less than 170 us. (In L1 a
# tile of A takes rows x depth halves, and one of B columns x depth.)

# %% tags=["exercise"]
mine = Step("mine", (128, 256, 256), 64, 1, 2, False, True)


async def check_3(step):
    """Run *step*, and look at the L1 that it takes and at its time."""
    rows, columns, long = step.tile
    of_a = rows * 1024 if step.keeps_a else step.l1_buffers * rows * long
    nbytes = 2 * (of_a + step.l1_buffers * columns * long)
    await launch(step, 256, 512, 512, check=True)
    us, _ = shares((await launch(step))[0])
    teaching.exercise(nbytes <= 256 << 10 and us < 170, f"{nbytes >> 10} KB of L1, {us:.1f} us")


await check_3(mine)

# %% [markdown]
# ## On your own card
#
# What the library of your card makes of a product, with torch_npu: it takes these steps, and more. Set the cores and
# the clock of your card; these are those of a 910B1.
#
# ```python
# import torch
# import torch_npu
#
# CORES, GHZ, SIZE = 24, 1.85, 8192
# a, b = (torch.randn(SIZE, SIZE, dtype=torch.float16, device="npu") for _ in range(2))
# begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
# for _ in range(3):  # the first round warms up
#     begin.record()
#     torch.matmul(a, b)
#     end.record()
#     torch.npu.synchronize()
#     us = begin.elapsed_time(end) * 1000
#     cube = SIZE**3 / (4096 * CORES * GHZ * 1000)
#     print(f"{us:,.0f} us, of which the cube has to work {cube:,.0f}: {cube / us:.0%}")
# ```
#
# Nobody has run it for this notebook. A kernel of your own is measured by `msprof op --application=./product`: of its
# file PipeUtilization.csv, compare `aic_cube_ratio` with the column "cube" above, and `aic_mte2_ratio` with "mte2".
