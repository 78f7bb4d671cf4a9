"""Kernels of vector cores whose times were published, written again from their descriptions: GELU and ND to NZ (CANN's
best practices), TurboQuant's compression (ops-nn), and a product with four numbers (mhc_post).

Each has what its page says of cores, tiles, buffers and flags. Their `*_on_card` run them with zeros, without values.
"""

from typing import Any

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import CMPMODE, PIPE_ALL, PIPE_V, SELMODE, HardEvent, RoundMode, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.runner import Result, run
from device_model.aicore.timing.l2 import Cache
from device_model.aicore.vector.elementwise import Add, Adds, Cast, Div, Exp, Mul, Muls
from device_model.aicore.vector.fill import Copy, CopyRepeatParams, Duplicate
from device_model.aicore.vector.reduce import ReduceSum
from device_model.aicore.vector.select import CompareScalar, Select
from device_model.aicore.vector.unit import VectorPlan, VectorUnit, issue, plain_cost
from device_model.profile import load

single = np.dtype(np.float32)
BLOCK = 32
CENTROIDS, NORM = 16, 16  # of TurboQuant: numbers of the code, and floats between the norms of two tokens
MOST_TOKENS = 12  # that one instruction covers
TALL = 144  # rows of a tile that becomes NZ
TILE = 12288  # floats of a tile of mhc_post: two come and two go, and that is the whole UB
READ_ONCE_CORES = 20  # of mhc_post, when each tile comes once


def parts(size: int, count: int, number: int) -> tuple[int, int]:
    """Return where part *number* of *count* equal parts of *size* begins and ends; the first ones have one more."""
    each, rest = divmod(size, count)
    first = number * each + min(number, rest)
    return first, first + each + (number < rest)


class Pair:
    """Two buffers for what comes in and two for what goes out, used in turn, with flags between the pipes."""

    def __init__(self) -> None:
        self.slot = 1
        for slot in range(2):
            SetFlag(HardEvent.V_MTE2, slot)
            SetFlag(HardEvent.MTE3_V, slot)

    def begin(self) -> int:
        """Return the next slot, when its input may be overwritten."""
        self.slot = 1 - self.slot
        WaitFlag(HardEvent.V_MTE2, self.slot)
        return self.slot

    def came(self) -> None:
        """Let vector instructions wait for the input, and for room in the output."""
        SetFlag(HardEvent.MTE2_V, self.slot)
        WaitFlag(HardEvent.MTE2_V, self.slot)
        WaitFlag(HardEvent.MTE3_V, self.slot)

    def computed(self) -> None:
        """Let the copy out wait for the vector instructions."""
        SetFlag(HardEvent.V_MTE2, self.slot)
        SetFlag(HardEvent.V_MTE3, self.slot)
        WaitFlag(HardEvent.V_MTE3, self.slot)

    def left(self) -> None:
        """Note that the copy out was issued."""
        SetFlag(HardEvent.MTE3_V, self.slot)

    def close(self) -> None:
        """Wait for all flags."""
        for slot in range(2):
            WaitFlag(HardEvent.V_MTE2, slot)
            WaitFlag(HardEvent.MTE3_V, slot)


# GELU


def gelu_of(x: LocalTensor, y: LocalTensor, count: int) -> None:
    """Y = x / (1 + exp(-1.595769 (x + 0.044715 x^3))), in eight instructions that wait for each other."""
    Mul(y, x, x, count)
    Mul(y, y, x, count)
    Muls(y, y, 0.044715, count)
    Add(y, x, y, count)
    Muls(y, y, -1.595769, count)
    Exp(y, y, count)
    Adds(y, y, 1.0, count)
    Div(y, x, y, count)


def gelu(x: Any, y: Any, rows: int, columns: int, part: tuple[int, int]) -> None:
    """Each core has a *part* of so many rows and columns; a tile is two rows of it."""
    tall, wide = part
    block, down = GetBlockIdx(), -(-rows // tall)
    top, left = block % down * tall, block // down * wide
    tall, wide = min(tall, rows - top), min(wide, columns - left)
    x, y = (GlobalTensor(single).SetGlobalBuffer(each) for each in (x, y))
    tile = 2 * part[1]
    ins = [LocalTensor(single, TPosition.VECCALC, slot * tile * 4, tile) for slot in range(2)]
    outs = [LocalTensor(single, TPosition.VECCALC, (2 + slot) * tile * 4, tile) for slot in range(2)]
    pair, gap = Pair(), (columns - wide) // 8
    for row in range(top, top + tall, 2):
        many, at = min(2, top + tall - row), row * columns + left
        slot = pair.begin()
        DataCopy(ins[slot], x[at], DataCopyParams(many, wide // 8, gap, 0))
        pair.came()
        gelu_of(ins[slot], outs[slot], many * wide)
        pair.computed()
        DataCopy(y[at], outs[slot], DataCopyParams(many, wide // 8, 0, gap))
        pair.left()
    pair.close()


# ND to NZ


def nd_to_nz(x: Any, z: Any, rows: int, columns: int, tall: int, stride: int, down: int) -> None:
    """Tiles of *tall* x 128 halves become columns of 16, *stride* blocks apart in UB; cores share rows and columns."""
    wide, across = 128, GetBlockNum() // down
    block = GetBlockIdx()
    first, stop = parts(-(-rows // tall), down, block // across)
    left, right = parts(columns // wide, across, block % across)
    x, z = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, z))
    taken, written = tall * wide, ((tall - 1) + 7 * stride + 2) * 16
    ins = [LocalTensor(half, TPosition.VECIN, slot * taken * 2, taken) for slot in range(2)]
    outs = [LocalTensor(half, TPosition.VECOUT, (2 * taken + slot * written) * 2, written) for slot in range(2)]
    pair = Pair()
    for tile in range((stop - first) * (right - left)):
        row, column = (first + tile // (right - left)) * tall, (left + tile % (right - left)) * wide
        many = min(tall, rows - row)
        slot = pair.begin()
        DataCopy(ins[slot], x[row * columns + column], DataCopyParams(many, 8, (columns - wide) // 16, 0))
        pair.came()
        Copy(outs[slot], ins[slot], wide, many, CopyRepeatParams(stride, 1, 1, wide // 16))
        pair.computed()
        at = (row + column // 16 * rows) * 16
        DataCopy(z[at], outs[slot], DataCopyParams(8, many, stride - many, rows - many))
        pair.left()
    pair.close()


# TurboQuant: the norm of each token, and the nearest of 16 numbers for each element


def slot_bytes(wide: int) -> int:
    """Return the bytes of a compressed token: half a byte for each element and a half, in lines of 64 bytes."""
    return -(-(wide // 2 + 2) // 64) * 64


def compress(latent: Any, centroids: Any, out: Any, tokens: int, wide: int, batch: int) -> None:
    """Each core has its part of the tokens, *batch* of them in an instruction. A barrier follows each step."""
    each = -(-tokens // GetBlockNum())
    first = GetBlockIdx() * each
    stop, size = min(first + each, tokens), slot_bytes(wide)
    latent = GlobalTensor(single).SetGlobalBuffer(latent)
    out = GlobalTensor(np.uint8).SetGlobalBuffer(out)
    pipe, come, go = TPipe(), TQue(TPosition.VECIN, 1), TQue(TPosition.VECOUT, 1)
    pipe.InitBuffer(come, 1, batch * wide * 4)
    pipe.InitBuffer(go, 1, batch * size)

    def room(count: int, dtype: Any = single) -> LocalTensor:
        buffer = TBuf(TPosition.VECCALC)
        pipe.InitBuffer(buffer, -(-count * np.dtype(dtype).itemsize // 64) * 64)
        return buffer.Get(dtype)

    unit, nibble, product, chosen, one = (room(batch * wide) for _ in range(5))
    packed, mask = room(batch * wide, half), room(batch * wide // 8, np.uint8)
    work, norm, centre = room(wide), room(batch * NORM), room(CENTROIDS)
    DataCopy(centre, GlobalTensor(single).SetGlobalBuffer(centroids), CENTROIDS)
    PipeBarrier(PIPE_ALL)
    bounds = [(centre.GetValue(i) + centre.GetValue(i + 1)) * 0.5 for i in range(CENTROIDS - 1)]
    Duplicate(one, 1.0, batch * wide)
    for token in range(first, stop, batch):
        count = min(batch, stop - token)
        x = come.AllocTensor(single)
        DataCopy(x, latent[token * wide], count * wide)
        come.EnQue(x)
        x, slot = come.DeQue(single), go.AllocTensor(np.uint8)
        many = count * wide
        Duplicate(slot.ReinterpretCast(half), 0.0, count * size // 2)
        PipeBarrier(PIPE_V)
        Mul(product, x, x, many)
        PipeBarrier(PIPE_V)
        for i in range(count):
            ReduceSum(norm[i * NORM], product[i * wide], work, wide)
        PipeBarrier(PIPE_V)
        _order(HardEvent.V_S)
        norms = []
        for i in range(count):
            norms.append((norm.GetValue(i * NORM) + 1e-16) ** 0.5)
            Muls(unit[i * wide], x[i * wide], 1.0 / norms[i], wide)
        PipeBarrier(PIPE_V)
        _order(HardEvent.S_V)  # this flag and the next one are the compiler's
        Duplicate(nibble, 0.0, many)
        PipeBarrier(PIPE_V)
        for bound in bounds:
            CompareScalar(mask, unit, bound, CMPMODE.GE, many)
            PipeBarrier(PIPE_V)
            Select(chosen, mask, one, 0.0, SELMODE.VSEL_TENSOR_SCALAR_MODE, many)
            PipeBarrier(PIPE_V)
            Add(nibble, nibble, chosen, many)
            PipeBarrier(PIPE_V)
        CompareScalar(mask, nibble, 8.0, CMPMODE.LT, many)
        PipeBarrier(PIPE_V)
        Adds(chosen, nibble, -16.0, many)
        PipeBarrier(PIPE_V)
        Select(product, mask, nibble, chosen, SELMODE.VSEL_TENSOR_TENSOR_MODE, many)
        PipeBarrier(PIPE_V)
        Cast(packed, product, RoundMode.CAST_RINT, many)
        PipeBarrier(PIPE_V)
        for i in range(count):
            _pack(slot[i * size], packed[i * wide], wide)
        PipeBarrier(PIPE_V)
        _order(HardEvent.V_S)
        for i in range(count):
            low, high = _bytes_of(norms[i])
            slot.SetValue(i * size + wide // 2, low)
            slot.SetValue(i * size + wide // 2 + 1, high)
        _order(HardEvent.S_MTE3)
        come.FreeTensor(x)
        go.EnQue(slot)
        slot = go.DeQue(np.uint8)
        DataCopy(out[token * size], slot, count * size)
        go.FreeTensor(slot)


def _order(event: HardEvent) -> None:
    """Let one pipe wait for another."""
    SetFlag(event, 0)
    WaitFlag(event, 0)


def _bytes_of(norm: Any) -> tuple[Any, Any]:
    """Return the two bytes of *norm* as a half; in a run without values, any."""
    if not isinstance(norm, int | float | np.floating):
        return 0, 0
    low, high = np.float16(norm).tobytes()
    return low, high


def _pack(dst: LocalTensor, src: LocalTensor, count: int) -> None:
    """Cast halves to whole numbers of four bits, two in a byte, as the instruction of a card does."""
    issue(("Cast", dst, src, count), _plan_pack)


def _plan_pack(unit: VectorUnit, name: str, dst: LocalTensor, src: LocalTensor, count: int) -> VectorPlan:
    read, written = src.view[:count], dst.view[: count // 2]

    def compute() -> None:
        numbers = np.rint(read.astype(np.float32)).astype(np.int8).view(np.uint8) & 15
        written[...] = numbers[::2] | numbers[1::2] << 4

    return VectorPlan(
        name,
        plain_cost(unit.core, name, -(-count // 128)),
        ((src.memory, src.address, src.address + count * 2),),
        ((dst.memory, dst.address, dst.address + count // 2),),
        compute,
    )


# Products with four numbers


def times_four(x: Any, h: Any, out: Any, batch: int, size: int, tile: int) -> None:
    """Four results of each batch: its numbers times one of four. A tile comes once; the cores take tiles in turn."""
    x, h, out = (GlobalTensor(single).SetGlobalBuffer(each) for each in (x, h, out))
    come, go = _queues(tile)
    factors = [h.GetValue(number) for number in range(4)]
    tiles = -(-size // tile)
    for task in range(GetBlockIdx(), batch * tiles, GetBlockNum()):
        of, first = task // tiles, task % tiles * tile
        count = min(tile, size - first)
        a = _brought(come, x[of * size + first], count)
        for number, factor in enumerate(factors):
            _store_times(go, out[(of * 4 + number) * size + first], a, factor, count)
        come.FreeTensor(a)


def times_one_of_four(x: Any, h: Any, out: Any, batch: int, size: int, tile: int) -> None:
    """The same results, batch by batch: a core has one batch and one of the four numbers, and then another pair."""
    x, h, out = (GlobalTensor(single).SetGlobalBuffer(each) for each in (x, h, out))
    come, go = _queues(tile)
    for pair in range(GetBlockIdx(), 4 * batch, GetBlockNum()):
        factor = h.GetValue(pair % 4)
        for first in range(0, size, tile):
            count = min(tile, size - first)
            a = _brought(come, x[pair // 4 * size + first], count)
            _store_times(go, out[pair * size + first], a, factor, count)
            come.FreeTensor(a)


def _queues(tile: int) -> tuple[TQue, TQue]:
    pipe, come, go = TPipe(), TQue(TPosition.VECIN, 2), TQue(TPosition.VECOUT, 2)
    for queue in (come, go):
        pipe.InitBuffer(queue, 2, tile * 4)
    return come, go


def _brought(come: TQue, source: GlobalTensor, count: int) -> LocalTensor:
    a = come.AllocTensor(single)
    DataCopy(a, source, count)
    come.EnQue(a)
    return come.DeQue(single)


def _store_times(go: TQue, to: GlobalTensor, a: LocalTensor, factor: Any, count: int) -> None:
    b = go.AllocTensor(single)
    Muls(b, a, factor, count)
    go.EnQue(b)
    b = go.DeQue(single)
    DataCopy(to, b, count)
    go.FreeTensor(b)


def on_card(kernel: Any, card: str, cores: int, *args: Any, launches: int = 1) -> Result:
    """Run *kernel* on *cores* vector cores of a card, and return the last of *launches* in a row."""
    spec = load(card).aicore
    l2 = Cache(spec.l2_bytes)
    for _ in range(launches):
        result = run(kernel, cores, args, spec, hazards=False, values=False, l2=l2)
    return result


def gelu_on_card(card: str, rows: int, columns: int, cores: int) -> Result:
    """Parts of 4096 columns, as the page's code has them, and of as many rows as give each core one part."""
    wide = min(columns, 4096)
    part = -(-rows // max(1, cores // -(-columns // wide))), wide
    x, y = np.zeros((2, rows, columns), single)
    return on_card(gelu, card, -(-rows // part[0]) * -(-columns // wide), x, y, rows, columns, part)


def nd_to_nz_on_card(card: str, rows: int, columns: int, cores: int, stride: int) -> Result:
    x, z = np.zeros((2, rows, columns), half)
    return on_card(nd_to_nz, card, cores, x, z, rows, columns, TALL, stride, max(1, cores // 8))


def compress_on_card(card: str, tokens: int, wide: int, cores: int, batch: int = MOST_TOKENS) -> Result:
    each = -(-tokens // cores)
    args = np.zeros((tokens, wide), single), np.zeros(CENTROIDS, single), np.zeros((tokens, slot_bytes(wide)), np.uint8)
    return on_card(compress, card, -(-tokens // each), *args, tokens, wide, min(batch, each))


def times_four_on_card(card: str, batch: int, tokens: int, wide: int) -> Result:
    """Run it by pairs of batch and number, a block for each; or each tile once, on 20 cores.

    The page's rule for the second way is 4 MB of results of a batch, and 16 batches. It is the second of two launches.
    """
    size = tokens * wide
    x, h, out = np.zeros((batch, size), single), np.zeros(8, single), np.zeros((batch, 4, size), single)
    tile = min(TILE, -(-size // 8) * 8)
    if size * 4 * 4 >= 4 << 20 and batch >= 16:
        blocks = min(READ_ONCE_CORES, batch * -(-size // tile))
        return on_card(times_four, card, blocks, x, h, out, batch, size, tile, launches=2)
    return on_card(times_one_of_four, card, 4 * batch, x, h, out, batch, size, tile, launches=2)
