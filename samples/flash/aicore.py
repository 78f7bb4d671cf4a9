"""Shows: FlashAttention on AI cores. The cube core multiplies, its two vector cores compute the softmax online.

Scenario: attention of several heads, out = softmax(Q K^T / sqrt(d)) V, in tiles of B_r queries by B_c keys. The matrix
of scores is never whole: of each tile the cube core computes S = Q K^T, the vector cores turn S into shares P, and the
cube core computes P V. For each query the vector cores keep the largest score so far, the sum of the shares, and the
mixture of the values; a larger score scales sum and mixture down. Split cores share no memory but GM, so S, P and P V
go through slots of a workspace, and flags between the cores order them. With one slot the cores take turns. With more,
the cube core is up to `stages` - 1 tiles ahead, and computes scores while the vector cores work.

Each vector core has half of the queries of a tile. Inside a core, queues order the pipes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

DEVICE = "ascend910b1"
SIDE = 16  # rows of a fractal
LANES = 64  # floats in a repeat of the vector pipe
BLOCK = 32  # bytes of a block of local memory
SCORES, SHARES, MIXTURE = range(3)  # flags between the cores of a block: what is ready
FARTHEST = -1e30  # what is added to a score for each position that its key lies beyond the query's own

Floats = npt.NDArray[np.float64]


# --- shapes and tiles


class Shape(NamedTuple):
    """The shape of an attention: *heads* of all batches together, each with *queries* and *keys* of width *d*.

    If *causal*, the queries are those of the last positions, and see no position after their own.
    """

    heads: int
    queries: int
    keys: int
    d: int
    causal: bool = False

    def check(self) -> "Shape":
        """Return the shape itself; raise ValueError if the kernel cannot compute it."""
        if min(self) < 0 or not all(self[:4]) or self.d % LANES:
            raise ValueError(f"{self}: all numbers must be 1 or more, and d a multiple of {LANES}")
        if self.causal and self.keys < self.queries:
            raise ValueError(f"{self}: with fewer keys than queries, the first queries see no key")
        return self


class Tile(NamedTuple):
    """*rows* queries from *row* on and *columns* keys from *column* on, of one *head*."""

    head: int
    row: int
    rows: int
    column: int
    columns: int
    is_first: bool  # of these queries
    is_last: bool


@dataclass(frozen=True)
class Config:
    """The tiles of a kernel: *br* queries by *bc* keys, *stages* of them at a time between cube and vector cores."""

    br: int
    bc: int
    stages: int

    def check(self) -> "Config":
        """Return the tiles themselves; raise ValueError if the kernel does not have such tiles."""
        if self.br < 1 or self.bc < 1 or self.br % (2 * SIDE) or self.bc % SIDE:
            raise ValueError(f"{self}: br must be a multiple of {2 * SIDE}, bc of {SIDE}")
        if not 1 <= self.stages <= 15:
            raise ValueError(f"{self}: stages must be 1 to 15, because a flag between cores counts to 15")
        return self

    def tiles(self, shape: Shape, block: int, blocks: int) -> Iterator[Tile]:
        """Yield the tiles of *block*: for each of its parts of the queries, all keys that these queries see."""
        parts = -(-shape.queries // self.br)
        for part in range(block, shape.heads * parts, blocks):
            head, row = part // parts, part % parts * self.br
            rows = min(self.br, shape.queries - row)
            seen = row + rows + shape.keys - shape.queries if shape.causal else shape.keys
            for column in range(0, seen, self.bc):
                columns = min(self.bc, seen - column)
                yield Tile(head, row, rows, column, columns, column == 0, column + self.bc >= seen)

    def slot_bytes(self, d: int) -> int:
        """Return the bytes of a slot of the workspace: S and P V in float, P in a type of 16 bits."""
        return self.br * (self.bc * 6 + d * 4)

    def workspace_bytes(self, d: int, blocks: int) -> int:
        """Return the bytes that *blocks* blocks need in GM between their cores."""
        return blocks * self.stages * self.slot_bytes(d)


# --- the kernel


class Memory:
    """The arguments and the workspace of a block, as both types of cores see them."""

    def __init__(self, q, k, v, out, workspace, shape, config):
        self.q, self.k, self.v, self.out = (asc.GlobalTensor().SetGlobalBuffer(each) for each in (q, k, v, out))
        self.shape, self.config = shape, config
        self.block = asc.GetBlockIdx() // asc.GetTaskRatio()
        self.tiles = list(config.tiles(shape, self.block, asc.GetBlockNum()))
        first = self.block * config.workspace_bytes(shape.d, 1)
        slots = [workspace[first + slot * config.slot_bytes(shape.d) :] for slot in range(config.stages)]
        s, p, o = config.br * config.bc, config.br * config.bc, config.br * shape.d
        self.s = [asc.GlobalTensor(asc.float32).SetGlobalBuffer(slot, s) for slot in slots]
        self.o = [asc.GlobalTensor(asc.float32).SetGlobalBuffer(slot[s * 4 :], o) for slot in slots]
        self.p = [asc.GlobalTensor(self.q.dtype).SetGlobalBuffer(slot[(s + o) * 4 :], p) for slot in slots]

    def queries(self, tile, tensor):
        """Return *tensor* from the first query of *tile* on."""
        return tensor[(tile.head * self.shape.queries + tile.row) * self.shape.d :]

    def keys(self, tile, tensor):
        """Return *tensor* from the first key of *tile* on."""
        return tensor[(tile.head * self.shape.keys + tile.column) * self.shape.d :]

    def run(self, ahead, behind):
        """Call `ahead(tile, slot)` for each tile, and `behind(tile, slot)` when *stages* - 1 more tiles are ahead."""
        stages = self.config.stages
        for number in range(len(self.tiles) + stages - 1):
            if number < len(self.tiles):
                ahead(self.tiles[number], number % stages)
            if number >= stages - 1:
                behind(self.tiles[number - stages + 1], (number + 1) % stages)


def queue_of(pipe, position, size, dtype):
    """Return a queue of two buffers of *size* elements."""
    queue = asc.TQue(position, 1)
    pipe.InitBuffer(queue, 2, size * dtype.itemsize)
    return queue


def whole(size, unit=SIDE):
    """Return *size*, rounded up to whole fractals or other units."""
    return -(-size // unit) * unit


def rows_of(tile: Tile) -> int:
    """Return the rows of a left factor: the card would read one row alone as a vector, and not as fractals."""
    return max(tile.rows, 2)


class Cube:
    """The cube core of a block: the two products of each tile, from GM through L1, L0A, L0B and L0C to GM."""

    def __init__(self, memory):
        self.memory, self.dtype = memory, memory.q.dtype
        br, bc, d = memory.config.br, memory.config.bc, memory.shape.d
        pipe, wide = asc.TPipe(), max(bc, d)
        self.q1 = queue_of(pipe, asc.TPosition.A1, br * d, self.dtype)
        self.p1 = queue_of(pipe, asc.TPosition.A1, br * bc, self.dtype)
        self.b1 = queue_of(pipe, asc.TPosition.B1, bc * d, self.dtype)
        self.a2 = queue_of(pipe, asc.TPosition.A2, br * wide, self.dtype)
        self.b2 = queue_of(pipe, asc.TPosition.B2, bc * d, self.dtype)
        self.c = queue_of(pipe, asc.TPosition.CO1, br * wide, asc.float32)
        self.q = None

    def run(self):
        self.memory.run(self.score, self.mix)

    def score(self, tile, slot):
        """Compute S = Q K^T. Q stays in L1 for all tiles of its queries."""
        memory, d = self.memory, self.memory.shape.d
        if tile.is_first:
            self.q = self.load(self.q1, memory.queries(tile, memory.q), tile.rows, d, d)
        k = self.load(self.b1, memory.keys(tile, memory.k), tile.columns, d, d)
        left = self.load_left(self.q, tile.rows, d)
        right = self.load_right_transposed(k, d, tile.columns)
        self.b1.FreeTensor(k)
        if tile.is_last:
            self.q1.FreeTensor(self.q)
        self.multiply(left, right, asc.MmadParams(rows_of(tile), tile.columns, d), memory.s[slot], memory.config.bc)
        asc.CrossCoreSetFlag(2, asc.PIPE_FIX, SCORES)

    def mix(self, tile, slot):
        """Compute P V, when the vector cores have written P."""
        memory, d = self.memory, self.memory.shape.d
        v = self.load(self.b1, memory.keys(tile, memory.v), tile.columns, d, d)
        asc.CrossCoreWaitFlag(SHARES)
        p = self.load(self.p1, memory.p[slot], tile.rows, tile.columns, memory.config.bc)
        left = self.load_left(p, tile.rows, tile.columns)
        right = self.load_right(v, tile.columns, d)
        self.p1.FreeTensor(p)
        self.b1.FreeTensor(v)
        self.multiply(left, right, asc.MmadParams(rows_of(tile), d, tile.columns), memory.o[slot], d)
        asc.CrossCoreSetFlag(2, asc.PIPE_FIX, MIXTURE)

    def load(self, queue, source, rows, columns, stride):
        """Copy a matrix from GM to L1, as columns of fractals."""
        tensor = queue.AllocTensor(self.dtype)
        asc.DataCopy(tensor, source, asc.Nd2NzParams(1, rows, columns, 0, stride, whole(rows), 1, 0))
        queue.EnQue(tensor)
        return queue.DeQue(self.dtype)

    def load_left(self, source, m, k):
        """Load the left factor, *m* x *k*, to L0A: from columns of fractals to rows of them."""
        rows, depth = whole(m) // SIDE, whole(k) // SIDE
        tensor = self.a2.AllocTensor(self.dtype)
        for column in range(depth):
            params = asc.LoadData2DParams(column * rows, rows, 1, depth - 1)
            asc.LoadData(tensor[column * SIDE * SIDE :], source, params)
        self.a2.EnQue(tensor)
        return tensor

    def load_right_transposed(self, source, k, n):
        """Load the right factor, *k* x *n*, to L0B from a matrix that is *n* x *k*: it has the order of L0B already."""
        tensor = self.b2.AllocTensor(self.dtype)
        asc.LoadData(tensor, source, asc.LoadData2DParams(0, whole(k) // SIDE * (whole(n) // SIDE)))
        self.b2.EnQue(tensor)
        return tensor

    def load_right(self, source, k, n):
        """Load the right factor, *k* x *n*, to L0B: each fractal is transposed."""
        depth, columns = whole(k) // SIDE, whole(n) // SIDE
        tensor = self.b2.AllocTensor(self.dtype)
        for row in range(depth):
            params = asc.LoadData2DParams(row, columns, depth, 0, True)
            asc.LoadData(tensor[row * columns * SIDE * SIDE :], source, params)
        self.b2.EnQue(tensor)
        return tensor

    def multiply(self, left, right, params, target, stride):
        """Multiply two factors into L0C, and store the product to GM, *stride* elements from row to row."""
        left = self.a2.DeQue(self.dtype)
        right = self.b2.DeQue(self.dtype)
        product = self.c.AllocTensor(asc.float32)
        asc.Mmad(product, left, right, params)
        self.a2.FreeTensor(left)
        self.b2.FreeTensor(right)
        self.c.EnQue(product)
        product = self.c.DeQue(asc.float32)
        asc.Fixpipe(target, product, asc.FixpipeParams(params.n, params.m, 0, stride))
        self.c.FreeTensor(product)


class Vector:
    """A vector core of a block: the online softmax of its half of the rows of each tile.

    What belongs to a tile and is needed until its mixture has come (the largest score, the sum of the shares, and how
    much the mixture before it is scaled down) has a slot more than there are stages, because the tile after the last
    one in flight continues from it.
    """

    def __init__(self, memory):
        self.memory, self.dtype = memory, memory.q.dtype
        config, d = memory.config, memory.shape.d
        self.half = config.br // 2  # rows of this core
        pipe = self.pipe = asc.TPipe()
        self.arriving = queue_of(pipe, asc.TPosition.VECIN, self.half * max(config.bc, d), asc.float32)
        self.leaving = queue_of(pipe, asc.TPosition.VECOUT, self.half * max(config.bc, d), self.dtype)
        self.mixture = self.buffer(self.half * d)
        slots = range(config.stages + 1)
        self.largest, self.total, self.scale = ([self.buffer(self.half) for _ in slots] for _ in range(3))
        self.spread, self.sums, self.part = (self.buffer(self.half * each) for each in (8, 8, 1))
        self.position = self.buffer(config.bc) if memory.shape.causal else None
        self.beyond = self.buffer(self.half * LANES) if memory.shape.causal else None
        self.shared = self.mixed = 0  # tiles so far

    def buffer(self, size):
        """Return a tensor of floats that is not handed from pipe to pipe."""
        buffer = asc.TBuf(asc.TPosition.VECCALC)
        self.pipe.InitBuffer(buffer, size * 4)
        return buffer.Get(asc.float32)

    def run(self):
        if self.position is not None:
            asc.CreateVecIndex(self.position, 0.0, self.memory.config.bc)
        self.memory.run(self.share, self.mix)

    def rows_of(self, tile):
        """Return the first row of *tile* that is this core's, and how many are."""
        first = min(self.half, tile.rows) * asc.GetSubBlockIdx()
        return first, min(self.half, tile.rows - first)

    def share(self, tile, slot):
        """Turn the scores of a tile into shares, and bring largest score and sum up to date."""
        memory, bc = self.memory, self.memory.config.bc
        first, rows = self.rows_of(tile)
        before, now = (self.shared - 1) % len(self.total), self.shared % len(self.total)
        self.shared += 1
        asc.CrossCoreWaitFlag(SCORES)
        if rows:
            scores = self.load(memory.s[slot][first * bc :], rows, tile.columns, bc)
            for at, lanes in chunks(tile.columns):
                asc.Muls(scores[at:], scores[at:], memory.shape.d**-0.5, lanes, rows, across(bc))
            self.hide(scores, tile, first, rows)
            largest, total, scale = self.largest[now], self.total[now], self.scale[now]
            self.maximum(largest, scores, rows, tile.columns)
            if not tile.is_first:
                asc.Max(largest, largest, self.largest[before], rows)
                asc.Sub(scale, self.largest[before], largest, rows)
                asc.Exp(scale, scale, rows)
            self.spread_rows(largest, rows)
            for at, lanes in chunks(tile.columns):
                asc.Sub(scores[at:], scores[at:], self.spread, lanes, rows, by_row(bc))
                asc.Exp(scores[at:], scores[at:], lanes, rows, across(bc))
            self.sum(total, scores, rows, tile.columns)
            if not tile.is_first:
                asc.Mul(self.part, self.total[before], scale, rows)
                asc.Add(total, total, self.part, rows)
            shares = self.leaving.AllocTensor(self.dtype)
            for at, lanes in chunks(tile.columns):
                params = asc.UnaryRepeatParams(1, 1, bc * 2 // BLOCK, bc * 4 // BLOCK)
                asc.Cast(shares[at:], scores[at:], asc.RoundMode.CAST_RINT, lanes, rows, params)
            self.arriving.FreeTensor(scores)
            self.store(shares, memory.p[slot][first * bc :], rows, tile.columns, bc)
        asc.CrossCoreSetFlag(2, asc.PIPE_MTE3, SHARES)

    def mix(self, tile, slot):
        """Add the product of a tile to the mixture, and store the mixture after the last tile of its queries."""
        memory, d = self.memory, self.memory.shape.d
        first, rows = self.rows_of(tile)
        now = self.mixed % len(self.total)
        self.mixed += 1
        asc.CrossCoreWaitFlag(MIXTURE)
        if not rows:
            return
        product = self.load(memory.o[slot][first * d :], rows, d, d)
        if tile.is_first:
            asc.Adds(self.mixture, product, 0.0, rows * d)
        else:
            self.spread_rows(self.scale[now], rows)
            for at, lanes in chunks(d):
                asc.Mul(self.mixture[at:], self.mixture[at:], self.spread, lanes, rows, by_row(d))
            asc.Add(self.mixture, self.mixture, product, rows * d)
        self.arriving.FreeTensor(product)
        if tile.is_last:
            self.spread_rows(self.total[now], rows)
            for at, lanes in chunks(d):
                asc.Div(self.mixture[at:], self.mixture[at:], self.spread, lanes, rows, by_row(d))
            result = self.leaving.AllocTensor(self.dtype)
            asc.Cast(result, self.mixture, asc.RoundMode.CAST_RINT, rows * d)
            self.store(result, memory.queries(tile, memory.out)[first * d :], rows, d, d)

    def load(self, source, rows, columns, stride):
        """Copy rows of floats from GM, *stride* elements apart there and here."""
        tensor = self.arriving.AllocTensor(asc.float32)
        gap = (stride - columns) * 4
        asc.DataCopyPad(tensor, source, asc.DataCopyExtParams(rows, columns * 4, gap, gap // BLOCK))
        self.arriving.EnQue(tensor)
        return self.arriving.DeQue(asc.float32)

    def store(self, tensor, target, rows, columns, stride):
        """Copy rows to GM, *stride* elements apart here and there."""
        gap = (stride - columns) * 2
        self.leaving.EnQue(tensor)
        tensor = self.leaving.DeQue(self.dtype)
        asc.DataCopyPad(target, tensor, asc.DataCopyExtParams(rows, columns * 2, gap // BLOCK, gap))
        self.leaving.FreeTensor(tensor)

    def hide(self, scores, tile, first, rows):
        """Lower the scores of keys that lie beyond the position of their query, if there are any in this tile."""
        shape, bc = self.memory.shape, self.memory.config.bc
        own = tile.row + first + shape.keys - shape.queries - tile.column  # the position of the first row in the tile
        if not shape.causal or own >= tile.columns - 1:
            return
        asc.CreateVecIndex(self.part, float(own), rows)
        self.spread_rows(self.part, rows)
        for at, lanes in chunks(tile.columns):
            params = asc.BinaryRepeatParams(1, 1, 0, 8, 0, 1)
            asc.Sub(self.beyond, self.position[at:], self.spread, lanes, rows, params)
            asc.Maxs(self.beyond, self.beyond, 0.0, lanes, rows, asc.UnaryRepeatParams())
            asc.Muls(self.beyond, self.beyond, FARTHEST, lanes, rows, asc.UnaryRepeatParams())
            params = asc.BinaryRepeatParams(1, 1, 1, bc // 8, bc // 8, 8)
            asc.Add(scores[at:], scores[at:], self.beyond, lanes, rows, params)

    def maximum(self, result, scores, rows, columns):
        """Write the largest score of each row."""
        stride = self.memory.config.bc // 8
        order = asc.ReduceOrder.ORDER_ONLY_VALUE
        for at, lanes in chunks(columns):
            asc.WholeReduceMax(self.part if at else result, scores[at:], lanes, rows, 1, 1, stride, order)
            if at:
                asc.Max(result, result, self.part, rows)

    def sum(self, result, scores, rows, columns):
        """Write the sum of each row: first of each block of 8 numbers, then of the 8 blocks of a repeat."""
        for at, lanes in chunks(columns):
            asc.BlockReduceSum(self.sums, scores[at:], rows, lanes, 1, 1, self.memory.config.bc // 8)
            target = self.part if at else result
            for row, lanes in chunks(rows * 8):
                asc.BlockReduceSum(target[row // 8 :], self.sums[row:], 1, lanes, 1, 1, 8)
            if at:
                asc.Add(result, result, self.part, rows)

    def spread_rows(self, numbers, rows):
        """Repeat the number of each row through a block of `spread`."""
        asc.Brcb(self.spread, numbers, -(-rows // 8), asc.BrcbRepeatParams(1, 8))


def chunks(columns):
    """Return the repeats of a row: the first column of each, and its number of lanes."""
    return [(at, min(LANES, columns - at)) for at in range(0, columns, LANES)]


def across(stride):
    """Return the strides of one repeat in each row of floats, in place."""
    return asc.UnaryRepeatParams(1, 1, stride // 8, stride // 8)


def by_row(stride):
    """Return the strides of one repeat in each row of floats, in place, and one block for all of the row."""
    return asc.BinaryRepeatParams(1, 1, 0, stride // 8, stride // 8, 1)


@asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
def flash_attention(
    q: asc.In, k: asc.In, v: asc.In, out: asc.Out, workspace: asc.InOut, shape: Shape, br: int, bc: int, stages: int
):
    """Attention of (heads, queries, d) over (heads, keys, d): halves or bfloat16."""
    memory = Memory(q, k, v, out, workspace, shape.check(), Config(br, bc, stages).check())
    if asc.ASCEND_IS_AIC:
        Cube(memory).run()
    else:
        Vector(memory).run()


# --- the host


def reference(q, k, v, shape: Shape) -> tuple[Floats, Floats]:
    """Return attention in float64, and how far a result of the kernel may be from it.

    With u, half a unit in the last place of the 16-bit type, and A, the mixture of the values' magnitudes:

        u * A            each share is rounded to 16 bits; the sum of the shares is not
        e * A            scores, exponentials and sums are floats. A score is off by at most (d + 6) / 2^24 times
                         the largest sum of |q k| / sqrt(d), which shows in the share and in the sum. Each of about
                         2 * (keys + 16) additions and products along the keys is off by at most 1 / 2^23.
        keys * tiny      shares below the normal numbers of half are off by at most half of the smallest step
        u * |out|        the result is rounded to 16 bits
    """
    q, k, v, last = (*(array.astype(np.float64) for array in (q, k, v)), ml_dtypes.finfo(v.dtype))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(shape.d)
    largest = np.max(np.abs(q) @ np.abs(k).swapaxes(-1, -2)) / np.sqrt(shape.d)
    if shape.causal:
        position = np.arange(shape.queries)[:, None] + shape.keys - shape.queries
        scores[:, np.arange(shape.keys) > position] = -np.inf
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    out, magnitude = shares @ v, shares @ np.abs(v)
    u = float(last.eps) / 2
    e = 2 * (shape.d + 6) * 2.0**-24 * largest + 2 * (shape.keys + 16) * 2.0**-23
    tiny = float(last.smallest_subnormal) / 2 * np.abs(v).max()
    return out, (u + e) * magnitude + shape.keys * tiny + u * np.abs(out)


def is_right(q, k, v, out, _workspace, shape: Shape) -> bool:
    """Return whether *out* is attention, within the bound."""
    expected, bound = reference(q, k, v, shape)
    return bool((np.abs(out.astype(np.float64) - expected) <= bound).all())


def random_inputs(shape: Shape, dtype=np.float16, seed=0):
    """Return q, k and v with normal numbers."""
    rng = np.random.default_rng(seed)
    lengths = shape.queries, shape.keys, shape.keys
    return [rng.normal(size=(shape.heads, length, shape.d)).astype(dtype) for length in lengths]


async def attend(shape: Shape, config: Config, blocks: int, dtype=np.float16):
    """Launch the kernel on random inputs; return the completion of the launch, and whether its result is right."""
    shape.check(), config.check()
    inputs = random_inputs(shape, dtype)
    arrays = []
    for numbers in inputs:
        arrays.append(Array(await acl.Malloc(numbers.nbytes), numbers.dtype))
        await acl.Memcpy(arrays[-1], numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    out = Array(await acl.Malloc(inputs[0].nbytes), dtype)
    workspace = await acl.Malloc(config.workspace_bytes(shape.d, blocks))
    asc.reset_l2()  # or the copies of a second call would leave its inputs there
    launch = await flash_attention[blocks](*arrays, out, workspace, shape, config.br, config.bc, config.stages)
    await acl.SynchronizeDevice()
    result = np.empty_like(inputs[0])
    await acl.Memcpy(result, result.nbytes, out, result.nbytes, MemcpyKind.DEVICE_TO_HOST)
    return launch, is_right(*inputs, result, workspace, shape)


async def main():
    blocks = 4
    for shape in (Shape(4, 256, 256, 128), Shape(4, 200, 250, 128, causal=True)):
        mask = ", causal" if shape.causal else ""
        print(f"{shape.heads} heads, {shape.queries} queries, {shape.keys} keys, d {shape.d}{mask}")
        for stages in (1, 2, 3, 4):
            launch, right = await attend(shape, Config(128, 128, stages), blocks)
            busy = launch.work.result.timeline.busy_us
            print(
                f"  {stages} in flight: {(launch.end_ns - launch.start_ns) / 1000:5.2f} us, "
                f"cube busy {100 * busy['mac'] / busy['aic_time']:2.0f} %, "
                f"vector cores {100 * busy['vec'] / busy['aiv_time']:2.0f} %, "
                f"right: {right}, findings {len(launch.work.result.findings)}"
            )


if __name__ == "__main__":
    acl.run(main, device=DEVICE)
