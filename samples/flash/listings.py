"""Shows: loops as articles print them: what the check for hazards says about each, its mended form, and both times.

Scenario: articles about asynchronous copies show short loops, and many of these loops lack something. Each listing here
is run as it is written, then in a mended form. The first four walk over tiles: two pipelines and two double buffers.
The others are loops of FlashAttention over keys and values, with the tiles and fragments of forward.py. All results are
compared with float64. Wrong loops may be fast and have right results, because a copy here has its bytes at once; the
findings do not look at results. Two listings are right, and one of them is slow: it copies K and V in one group, and
waits for V before it multiplies with K.

Findings inside Tile and Operand name the line of shared_tiles.py that copies or loads, and the tile: Q, K or V.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from aicore import Shape, random_inputs, reference
from config import DTYPES, StaticForwardKernelConfig
from forward import Block, grid_of, shape_of

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

THREADS, TILES, WORK = 128, 16, 64
TILE = 8 * THREADS  # numbers: 4 KB

# --- loops over tiles


def compute(s, y, tile):
    """Let each thread compute with a number that another one has copied."""
    value = s[THREADS - 1 - cta.tid]
    for _ in range(WORK):
        value = cta.fma(value, 0.5, 1)
    y[tile, cta.tid] = value


def computed(x):
    """What the loops over tiles store, in float64."""
    values = x[:, THREADS - 1 :: -1].astype(np.float64)
    for _ in range(WORK):
        values = values * 0.5 + 1
    return values


def pipelined(x, y, scope, has_barriers):
    s, pipe = cta.shared(np.float32, (2, TILE), "tiles"), cta.pipeline(2, scope)
    pipe.producer_acquire()
    cta.memcpy_async(s[0], x[0])
    pipe.producer_commit()
    for tile in range(TILES):
        if tile + 1 < TILES:
            pipe.producer_acquire()
            cta.memcpy_async(s[(tile + 1) % 2], x[tile + 1])
            pipe.producer_commit()
        pipe.consumer_wait()
        if has_barriers:
            cta.syncthreads()
        compute(s[tile % 2], y, tile)
        pipe.consumer_release()
        if has_barriers:
            cta.syncthreads()


@cta.kernel(threads=THREADS)
def shared_state(x: cta.In, y: cta.Out):
    pipelined(x, y, "block", has_barriers=False)


@cta.kernel(threads=THREADS)
def state_of_a_thread(x: cta.In, y: cta.Out):
    pipelined(x, y, "thread", has_barriers=False)


@cta.kernel(threads=THREADS)
def state_of_a_thread_mended(x: cta.In, y: cta.Out):
    pipelined(x, y, "thread", has_barriers=True)


def double_buffered(x, y, waits, has_second_barrier):
    s = cta.shared(np.float32, (2, TILE), "tiles")
    cta.memcpy_async(s[0], x[0])
    cta.commit_group()
    for tile in range(TILES):
        if tile + 1 < TILES:
            cta.memcpy_async(s[(tile + 1) % 2], x[tile + 1])
        cta.commit_group()
        if waits:
            cta.wait_group(1)
        cta.syncthreads()
        compute(s[tile % 2], y, tile)
        if has_second_barrier:
            cta.syncthreads()
    cta.wait_all()


@cta.kernel(threads=THREADS)
def syncthreads_alone(x: cta.In, y: cta.Out):
    double_buffered(x, y, waits=False, has_second_barrier=True)


@cta.kernel(threads=THREADS)
def one_barrier(x: cta.In, y: cta.Out):
    double_buffered(x, y, waits=True, has_second_barrier=False)


@cta.kernel(threads=THREADS)
def double_buffer_mended(x: cta.In, y: cta.Out):
    double_buffered(x, y, waits=True, has_second_barrier=True)


# --- loops of FlashAttention

SHAPE = Shape(1, 64, 512, 64)
CONFIG = StaticForwardKernelConfig(d_head=64, swizzled=True, eager_load_blocks=True, optimized_softmax=True)
flash_kernel = cta.kernel(threads=CONFIG.threads, shared=CONFIG.shared_bytes, registers=128)


class Loop(Block):
    """A block of queries, and the parts of the loop over its keys and values."""

    def __init__(self, q, k, v, out):
        super().__init__(CONFIG, SHAPE)
        self.arguments = q[0], k[0], v[0], out[0]
        self.held = None

    def copy_q(self):
        self.q.load(self.arguments[0], self.first, SHAPE.queries)

    def copy_k(self, key):
        self.k.load(self.arguments[1], key, SHAPE.keys)

    def copy_v(self, key):
        self.v.load(self.arguments[2], key, SHAPE.keys)

    def shares(self):
        """Return softmax(Q K^T) of this step."""
        if self.held is None:
            self.held = self.queries.load(0, self.queries.depth)
        return self.mix(self.scores(self.held))

    def store(self):
        self.finish(self.arguments[3])


def eager(loop, has_prologue=True, waits_for_values=True):
    """K is copied while P V is computed, and V while Q K^T is."""
    loop.copy_q()
    if has_prologue:
        loop.copy_k(loop.steps()[0])
    cta.commit_group()
    for key in loop.steps():
        cta.wait_group(0)
        cta.syncthreads()
        loop.copy_v(key)
        cta.commit_group()
        shares = loop.shares()
        if waits_for_values:
            cta.wait_group(0)
        cta.syncthreads()
        if key:
            loop.copy_k(key - CONFIG.b_c)
            cta.commit_group()
        loop.add(shares)
    cta.wait_all()
    loop.store()


def at_the_top(loop, groups, pending):
    """K and V are copied at the top of each step, in one group or two."""
    loop.copy_q()
    for key in loop.steps():
        loop.copy_k(key)
        if groups == 2:
            cta.commit_group()
        loop.copy_v(key)
        cta.commit_group()
        cta.wait_group(pending)
        cta.syncthreads()
        shares = loop.shares()
        if pending:
            cta.wait_group(0)
            cta.syncthreads()
        loop.add(shares)
        cta.syncthreads()
    loop.store()


@flash_kernel
def no_prologue(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    eager(Loop(q, k, v, out), has_prologue=False)


@flash_kernel
def no_wait(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    eager(Loop(q, k, v, out), waits_for_values=False)


@flash_kernel
def one_group(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    at_the_top(Loop(q, k, v, out), groups=1, pending=0)


@flash_kernel
def one_group_for_two(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    at_the_top(Loop(q, k, v, out), groups=1, pending=1)


@flash_kernel
def two_groups(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    at_the_top(Loop(q, k, v, out), groups=2, pending=1)


@flash_kernel
def attention_mended(q: cta.In, k: cta.In, v: cta.In, out: cta.Out):
    eager(Loop(q, k, v, out))


# --- the table


class Listing(NamedTuple):
    """A loop as it is printed, its mended form or None, and the function that launches it on its inputs."""

    title: str
    written: Any
    mended: Any
    launch: Callable[[Any], Any]


async def on_device(numbers, shape):
    array = Array(await acl.Malloc(numbers.nbytes), numbers.dtype, shape)
    await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return array


async def launched(kernel, inputs, result, shapes, grid):
    """Launch *kernel*; return its completion and its result."""
    arrays = [await on_device(numbers, shape) for numbers, shape in zip((*inputs, result), shapes, strict=True)]
    launch = await kernel[grid](*arrays)
    await launch
    await acl.Memcpy(result, result.nbytes, arrays[-1], result.nbytes, MemcpyKind.DEVICE_TO_HOST)
    for array in arrays:
        await acl.Free(array.buffer)
    return launch, result


async def over_tiles(kernel):
    x = np.random.default_rng(0).random((TILES, TILE), np.float32)
    result = np.zeros((TILES, THREADS), np.float32)
    launch, result = await launched(kernel, (x,), result, (x.shape, result.shape), 1)
    return launch, np.allclose(result, computed(x), rtol=1e-6)


async def attention(kernel):
    inputs = random_inputs(SHAPE.check(), DTYPES[0], 0)
    shapes = [shape_of(CONFIG, *numbers.shape[:2]) for numbers in (*inputs, inputs[0])]
    grid = grid_of(CONFIG, SHAPE.heads, SHAPE.queries)
    launch, result = await launched(kernel, inputs, np.zeros_like(inputs[0]), shapes, grid)
    expected, bound = reference(*inputs, SHAPE)
    return launch, bool((np.abs(result - expected) <= bound).all())


LISTINGS = (
    Listing("cuda::pipeline with a shared state", shared_state, None, over_tiles),
    Listing("cuda::pipeline of each thread", state_of_a_thread, state_of_a_thread_mended, over_tiles),
    Listing("double buffer, syncthreads alone", syncthreads_alone, double_buffer_mended, over_tiles),
    Listing("double buffer, one barrier", one_barrier, double_buffer_mended, over_tiles),
    Listing("attention without a prologue", no_prologue, attention_mended, attention),
    Listing("attention without a wait for V", no_wait, attention_mended, attention),
    Listing("K and V in one group", one_group, attention_mended, attention),
    Listing("K and V in one group, waits for one", one_group_for_two, two_groups, attention),
)


async def row(listing):
    """Run both forms; return the cells of the table, and a line for each finding."""
    cells, lines = [listing.title], []
    for kernel in (listing.written, listing.mended):
        if kernel is None:
            cells += ["", "", ""]
            continue
        launch, is_right = await listing.launch(kernel)
        findings = list(launch.work.result.findings)
        us = (launch.end_ns - launch.start_ns) / 1000
        cells += [f"{us:.2f} us", "right" if is_right else "wrong", str(len(findings))]
        for finding in findings:
            where = " and ".join(map(str, finding.sites))
            lines.append(f"  {finding.rule.name} {where}: missing {finding.missing}")
    return cells, lines


async def main():
    rows = [await row(listing) for listing in LISTINGS]
    print(f"{'':37}as it is written  findings      mended         findings")
    for (title, *cells), lines in rows:
        us, right, findings, mended, is_right, left = cells
        print(f"{title:36} {us:>9} {right:>6} {findings:>9} {mended:>11} {is_right:>6} {left:>9}".rstrip())
        print(*lines, sep="\n", end="\n" * bool(lines))


if __name__ == "__main__":
    acl.run(main, device="h200")
