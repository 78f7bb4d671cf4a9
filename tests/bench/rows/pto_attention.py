"""Attention on halves in the order of a published kernel (PTO-ISA, demos/baseline/flash_atten), written anew.

A block has 128 queries and goes through the keys in tiles, and through a tile in parts of 128 keys. Scores and shares
pass between cube and vector cores through rings of eight tiles in GM, and the cube core is four tiles of scores ahead.
The products of all parts of a tile with the values are added up in L0C, so each tile stores one. Each of the two vector
cores has 64 queries: it takes the scores of a tile in as many slices of rows as the tile has parts, and the product at
once. The result is in float. More keys have larger tiles, as the kernel's host chooses them (`tile_of`).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from acl_py import asc
from device_model.aicore.runner import Result, run
from device_model.aicore.timing.l2 import Cache
from device_model.profile import load

D = PART = 128  # the width of a head, and the keys of a part; also the queries of a block
AHEAD, RING = 4, 8  # tiles of scores before the first product, and of a ring
ROWS = PART // 2  # of a vector core
SIDE, BLOCK, LANES = 16, 8, 64  # rows of a fractal; floats of a block of 32 bytes, and of a repeat
SCORES, SHARES, MIXTURE = range(3)  # flags between the cores of a block: what is ready
half, single = np.dtype(np.float16), np.dtype(np.float32)
# How numbers of blocks of 8 in a row become one, by tile: blocks become a number each, or pairs of blocks a block.
_STEPS = {128: "pb", 256: "ppb", 512: "bb", 1024: "bpb"}


def tile_of(keys: int) -> int:
    """Return the keys of a tile."""
    return 128 if keys < 256 else 256 if keys <= 1024 else 512 if keys <= 8192 else 1024


def ring_bytes(tile: int) -> int:
    """Return the bytes of the workspace for each block that runs at one time."""
    return RING * PART * (tile * 6 + D * 4)


class _Memory:
    """The arguments of a block and its rings, as both types of cores see them."""

    def __init__(self, q: Any, k: Any, v: Any, out: Any, rings: Any, running: int, tile: int) -> None:
        block, (_, queries, _), (_, keys, _) = asc.GetBlockIdx() // asc.GetTaskRatio(), q.shape, k.shape
        head, first = divmod(block * PART, queries)
        q, k, v, out = (asc.GlobalTensor().SetGlobalBuffer(each) for each in (q, k, v, out))
        self.q, self.out = (each[(head * queries + first) * D :] for each in (q, out))
        self.k, self.v = (each[head * keys * D :] for each in (k, v))
        self.tile, self.parts, self.tiles = tile, tile // PART, keys // tile
        mine = rings[block % running * ring_bytes(tile) :]
        self.scores = asc.GlobalTensor(single).SetGlobalBuffer(mine, RING * PART * tile)
        mine = mine[RING * PART * tile * 4 :]
        self.shares = asc.GlobalTensor(half).SetGlobalBuffer(mine, RING * PART * tile)
        self.mixtures = asc.GlobalTensor(single).SetGlobalBuffer(mine[RING * PART * tile * 2 :], RING * PART * D)

    def at(self, tile: int, part: int, row: int = 0) -> int:
        """Return where *row* of a part of a tile begins in a ring of scores or shares."""
        return ((tile % RING * self.parts + part) * PART + row) * PART

    def of(self, tile: int, part: int) -> int:
        """Return where a part of a tile begins among keys or values."""
        return (tile * self.parts + part) * PART * D


def _queue(pipe: Any, position: Any, size: int, dtype: Any) -> Any:
    queue = asc.TQue(position, 2)
    pipe.InitBuffer(queue, 2, size * dtype.itemsize)
    return queue


class _Cube:
    """The cube core of a block."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        pipe, at, size = asc.TPipe(), asc.TPosition, PART * D
        self.q1 = asc.TQue(at.A1, 1)
        pipe.InitBuffer(self.q1, 1, size * 2)
        self.k1, self.v1, self.p1 = (_queue(pipe, each, size, half) for each in (at.B1, at.B1, at.A1))
        self.a2, self.b2 = _queue(pipe, at.A2, size, half), _queue(pipe, at.B2, size, half)
        self.c = _queue(pipe, at.CO1, size, single)

    def run(self) -> None:
        tiles, memory = self.memory.tiles, self.memory
        self.q = self._come(self.q1, memory.q)
        for tile in range(min(AHEAD, tiles)):
            for part in range(memory.parts):
                self._score(tile, part)
        for tile in range(tiles):
            c = self.c.AllocTensor(single)
            for part in range(memory.parts):
                if tile + AHEAD < tiles:
                    self._score(tile + AHEAD, part)
                self._mix(c, tile, part)
            self._go(c, memory.mixtures[tile % RING * PART * D :])
            asc.CrossCoreSetFlag(2, asc.PIPE_FIX, MIXTURE)
        self.q1.FreeTensor(self.q)

    def _score(self, tile: int, part: int) -> None:
        """Multiply the queries with a part of the keys; it is transposed as it lies."""
        k = self._come(self.k1, self.memory.k[self.memory.of(tile, part) :])
        c, a2, b2 = self.c.AllocTensor(single), self._left(self.q), self.b2.AllocTensor(half)
        asc.LoadData(b2, k, asc.LoadData2DParams(0, (PART // SIDE) ** 2))
        self.k1.FreeTensor(k)
        self._multiply(c, a2, b2, is_first=True)
        self._go(c, self.memory.scores[self.memory.at(tile, part) :])
        if part == self.memory.parts - 1:
            asc.CrossCoreSetFlag(2, asc.PIPE_FIX, SCORES)

    def _mix(self, c: Any, tile: int, part: int) -> None:
        """Add the product of shares and a part of the values."""
        v = self._come(self.v1, self.memory.v[self.memory.of(tile, part) :])
        if not part:
            asc.CrossCoreWaitFlag(SHARES)
        p = self._come(self.p1, self.memory.shares[self.memory.at(tile, part) :])
        a2, b2 = self._left(p), self.b2.AllocTensor(half)
        self.p1.FreeTensor(p)
        for row in range(PART // SIDE):
            params = asc.LoadData2DParams(row, D // SIDE, PART // SIDE, 0, True)
            asc.LoadData(b2[row * SIDE * D :], v, params)
        self.v1.FreeTensor(v)
        self._multiply(c, a2, b2, is_first=not part)

    @staticmethod
    def _come(queue: Any, source: Any) -> Any:
        """Copy 128 rows of 128 halves to L1, as columns of fractals."""
        tensor = queue.AllocTensor(half)
        asc.DataCopy(tensor, source, asc.Nd2NzParams(1, PART, D, 0, D, PART, 1, 0))
        queue.EnQue(tensor)
        return queue.DeQue(half)

    def _left(self, source: Any) -> Any:
        """Load a left factor to L0A: from columns of fractals to rows of them."""
        tensor, count = self.a2.AllocTensor(half), PART // SIDE
        for column in range(count):
            params = asc.LoadData2DParams(column * count, count, 1, count - 1)
            asc.LoadData(tensor[column * SIDE * SIDE :], source, params)
        return tensor

    def _multiply(self, c: Any, a2: Any, b2: Any, *, is_first: bool) -> None:
        for queue, tensor in ((self.a2, a2), (self.b2, b2)):
            queue.EnQue(tensor)
        a2, b2 = self.a2.DeQue(half), self.b2.DeQue(half)
        asc.Mmad(c, a2, b2, asc.MmadParams(PART, D, PART, is_first))
        self.a2.FreeTensor(a2)
        self.b2.FreeTensor(b2)

    def _go(self, c: Any, to: Any) -> None:
        self.c.EnQue(c)
        c = self.c.DeQue(single)
        asc.Fixpipe(to, c, asc.FixpipeParams(PART, PART, 0, PART))
        self.c.FreeTensor(c)


class _Vector:
    """A vector core of a block: the online softmax of its 64 rows.

    Barriers are where the published kernel has them.
    """

    def __init__(self, memory: _Memory) -> None:
        self.memory, self.first = memory, asc.GetSubBlockIdx() * ROWS
        self.rows = ROWS // memory.parts  # of scores that it takes at once
        pipe, at = asc.TPipe(), asc.TPosition
        self.pipe = pipe
        self.come = _queue(pipe, at.VECIN, ROWS * PART, single)
        self.go = _queue(pipe, at.VECOUT, ROWS * PART, half)
        self.mixture = self._buffer(ROWS * D)
        self.most, self.total = self._buffer(ROWS), self._buffer(ROWS)
        self.scale = [self._buffer(ROWS) for _ in range(RING)]
        self.wide, self.part = self._buffer(ROWS * BLOCK), self._buffer(ROWS)
        self.sums = [self._buffer(ROWS * PART // BLOCK) for _ in range(2)]

    def _buffer(self, size: int) -> Any:
        buffer = asc.TBuf(asc.TPosition.VECCALC)
        self.pipe.InitBuffer(buffer, size * 4)
        return buffer.Get(single)

    def run(self) -> None:
        tiles = self.memory.tiles
        for tile in range(min(AHEAD, tiles)):
            for number in range(self.memory.parts):
                self._share(tile, number)
        for tile in range(tiles):
            for number in range(self.memory.parts):
                if tile + AHEAD < tiles:
                    self._share(tile + AHEAD, number)
            self._mix(tile)

    def _share(self, tile: int, number: int) -> None:
        """Turn a slice of the scores of a tile into shares; bring the largest score and the sum up to date."""
        memory, row = self.memory, self.first + number * self.rows
        if not number:
            asc.CrossCoreWaitFlag(SCORES)
        x = self.come.AllocTensor(single)
        apart = (memory.tile - PART) // BLOCK
        for part in range(memory.parts):  # side by side
            params = asc.DataCopyExtParams(self.rows, PART * 4, 0, apart)
            asc.DataCopyPad(x[part * PART :], memory.scores[memory.at(tile, part, row) :], params)
        self.come.EnQue(x)
        x, p = self.come.DeQue(single), self.go.AllocTensor(half)
        mine = slice(number * self.rows, None)
        self._softmax(x, p, self.most[mine], self.total[mine], self.scale[tile % RING][mine] if tile else None)
        self.come.FreeTensor(x)
        self.go.EnQue(p)
        p = self.go.DeQue(half)
        for part in range(memory.parts):
            params = asc.DataCopyExtParams(self.rows, PART * 2, apart // 2, 0)
            asc.DataCopyPad(memory.shares[memory.at(tile, part, row) :], p[part * PART :], params)
        self.go.FreeTensor(p)
        if number == memory.parts - 1:
            asc.CrossCoreSetFlag(2, asc.PIPE_MTE3, SHARES)

    def _softmax(self, x: Any, p: Any, most: Any, total: Any, scale: Any) -> None:
        """Write the shares of *x* to *p*; without *scale* it is the first tile."""
        rows, size, factor = self.rows, ROWS * PART, D**-0.5
        part = most if scale is None else self.part
        self._reduce(part, x, asc.BlockReduceMax, asc.Max)
        if scale is not None:
            asc.Max(part, part, most, rows)
            _barrier()
            asc.Sub(scale, most, part, rows)
            _barrier()
            asc.Muls(most, part, 1.0, rows)
            _barrier()
            asc.Muls(scale, scale, factor, rows)
            asc.Exp(scale, scale, rows)
        self._across(asc.Sub, x, part, rows, self.memory.tile)
        asc.Muls(x, x, factor, size)
        asc.Exp(x, x, size)
        asc.Cast(p, x, asc.RoundMode.CAST_ROUND, size)
        _barrier()
        if scale is None:
            self._reduce(total, x, asc.BlockReduceSum, asc.Add)
            return
        asc.Mul(total, scale, total, rows)
        self._reduce(part, x, asc.BlockReduceSum, asc.Add)
        asc.Add(total, total, part, rows)

    def _mix(self, tile: int) -> None:
        """Scale the mixture, and add the product of a tile; after the last one, store it over the sum."""
        memory = self.memory
        asc.CrossCoreWaitFlag(MIXTURE)
        x = self.come.AllocTensor(single)
        asc.DataCopy(x, memory.mixtures[(tile % RING * PART + self.first) * D :], ROWS * D)
        self.come.EnQue(x)
        x = self.come.DeQue(single)
        if tile:
            self._across(asc.Mul, self.mixture, self.scale[tile % RING], ROWS, D)
            asc.Add(self.mixture, self.mixture, x, ROWS * D)
        else:
            asc.Adds(self.mixture, x, 0.0, ROWS * D)
        self.come.FreeTensor(x)
        if tile == memory.tiles - 1:
            self._across(asc.Div, self.mixture, self.total, ROWS, D)
            asc.SetFlag(asc.HardEvent.V_MTE3, 0)
            asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
            asc.DataCopy(memory.out[self.first * D :], self.mixture, ROWS * D)

    def _across(self, do: Any, x: Any, numbers: Any, rows: int, columns: int) -> None:
        """Combine each row of *x* with its number, in place."""
        asc.Brcb(self.wide, numbers, rows // 8, asc.BrcbRepeatParams(1, 8))
        _barrier()
        params = asc.BinaryRepeatParams(1, 1, 0, columns // BLOCK, columns // BLOCK, 1)
        for at in range(0, columns, LANES):
            do(x[at:], x[at:], self.wide, LANES, rows, params)

    def _reduce(self, to: Any, x: Any, blocks: Any, pairs: Any) -> None:
        """Reduce each row to one number."""
        numbers, steps = ROWS * PART, _STEPS[self.memory.tile]
        results = [*(self.sums[step % 2] for step in range(len(steps))), to]
        for step, result in zip("b" + steps, results, strict=True):
            if step == "b":
                blocks(result, x, -(-numbers // LANES), min(numbers, LANES), 1, 1, 8)
                numbers //= BLOCK
            else:
                params = asc.BinaryRepeatParams(1, 2, 2, 8, 16, 16)
                numbers //= 2
                pairs(result, x, x[BLOCK:], min(numbers, LANES), -(-numbers // LANES), params)
            x = result
            _barrier()


def _barrier() -> None:
    asc.PipeBarrier(asc.PIPE_V)


def attention(q: Any, k: Any, v: Any, out: Any, rings: Any, running: int, tile: int) -> None:
    """Attention of (heads, queries, 128) over (heads, keys, 128), in tiles of *tile* keys: halves, and out in float.

    *rings* has `ring_bytes` for each of the *running* blocks that run at one time.
    """
    memory = _Memory(q, k, v, out, rings, running, tile)
    if asc.ASCEND_IS_AIC:
        _Cube(memory).run()
    else:
        _Vector(memory).run()


def on_card(card: str, cores: int, heads: int, queries: int, keys: int, launches: int = 2) -> Result:
    """Run a block for each 128 queries on *cores* cube cores; return the last of *launches* in a row.

    What a launch leaves in the L2 is there for the next one.
    """
    spec, blocks, tile = load(card).aicore, heads * queries // PART, tile_of(keys)
    assert spec is not None
    spec = replace(spec, cube_cores=cores, vector_cores=2 * cores)
    q, k, v = (np.zeros((heads, length, D), half) for length in (queries, keys, keys))
    running = min(blocks, cores)
    out, rings = np.zeros((heads, queries, D), single), np.zeros(running * ring_bytes(tile), np.uint8)
    args, l2 = (q, k, v, out, rings, running, tile), Cache(spec.l2_bytes)
    for _ in range(launches):
        result = run(attention, blocks, args, spec, kind=asc.KernelType.MIX_AIC_1_2, hazards=False, values=False, l2=l2)
    return result
