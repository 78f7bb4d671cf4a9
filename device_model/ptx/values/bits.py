"""Instructions on bits: shifts, fields, counts, permutations and logic. Counts and positions are u32."""

from typing import Any

import numpy as np

from device_model.ptx.values.packed import split, word_of
from device_model.ptx.values.rounding import UNSIGNED, Array, flushed, in_pieces

NONE = np.uint32(0xFFFFFFFF)
SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def shl(a: Array, count: Array) -> Array:
    """Return a shifted left; counts of the width and more give 0."""
    return np.asarray(a << _clamped_count(a, count))


def shr(a: Array, count: Array) -> Array:
    """Return a shifted right; counts of the width and more give 0, or for signed types the sign in all bits."""
    return np.asarray(a >> _clamped_count(a, count))


def shf_l(a: Array, b: Array, count: Array, *, wrap: bool) -> Array:
    """Return the upper word of b:a shifted left; the count is taken modulo 32, or is at most 32."""
    count = count & np.uint32(31) if wrap else np.minimum(count, np.uint32(32))
    return np.asarray((_pair(a, b) << count >> 32).astype(a.dtype))


def shf_r(a: Array, b: Array, count: Array, *, wrap: bool) -> Array:
    """Return the lower word of b:a shifted right; the count is taken modulo 32, or is at most 32."""
    count = count & np.uint32(31) if wrap else np.minimum(count, np.uint32(32))
    return np.asarray((_pair(a, b) >> count).astype(np.uint32).view(a.dtype))


def bfe(a: Array, position: Array, length: Array) -> Array:
    """Return the field of *length* bits at *position*; of signed types with its sign extended. `_place` takes both."""
    width = 8 * a.dtype.itemsize
    position, length = _place(a, position), _place(a, length)
    field = a >> _clamped_count(a, position)
    if a.dtype.kind == "u":
        return np.asarray(field & _ones(a, length))
    rest = (np.uint32(width) - np.minimum(length, np.uint32(width))).astype(a.dtype)
    return np.asarray(field << rest >> rest)


def bfi(a: Array, b: Array, position: Array, length: Array) -> Array:
    """Return b with its field of *length* bits at *position* replaced by the lower bits of a. `_place` takes both."""
    count = _clamped_count(a, _place(a, position))
    mask = _ones(a, _place(a, length)) << count
    return np.asarray(b ^ ((a << count ^ b) & mask))


def bfind(a: Array, *, shiftamt: bool = False) -> Array:
    """Return the position of the highest bit that is 1, or in a negative number 0; 2**32 - 1 if there is none.

    Args:
        a: Words of 32 or 64 bits, signed or not.
        shiftamt: Whether to return the count of the shift to the left that brings that bit to the top instead.
    """
    if a.dtype.kind == "i":
        a = (a ^ (a >> (8 * a.dtype.itemsize - 1))).view(UNSIGNED[a.dtype.itemsize])
    if a.dtype.itemsize == 4:
        found = _highest(a)
    else:
        high = _highest((a >> 32).astype(np.uint32))
        low = _highest(a.astype(np.uint32))
        found = np.where(high >= 0, high + 32, low)
    if shiftamt:
        found = np.where(found >= 0, 8 * a.dtype.itemsize - 1 - found, -1)
    return found.astype(np.uint32)


def clz(a: Array) -> Array:
    """Return how many bits above the highest 1 are 0."""
    return np.asarray(np.uint32(8 * a.dtype.itemsize - 1) - bfind(a.view(UNSIGNED[a.dtype.itemsize])))


def popc(a: Array) -> Array:
    """Return how many bits are 1."""
    return np.asarray(np.bitwise_count(a.view(UNSIGNED[a.dtype.itemsize])).astype(np.uint32))


def brev(a: Array) -> Array:
    """Return the bits in reverse order."""
    bits = np.asarray(a.view(UNSIGNED[a.dtype.itemsize]).byteswap())
    for shift, mask in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        field = bits.dtype.type(int.from_bytes(bytes([mask]) * a.dtype.itemsize, "little"))
        bits = (bits >> shift & field) | (bits & field) << shift
    return np.asarray(bits.view(a.dtype))


@in_pieces(4096)
def fns(mask: Array, base: Array, offset: Array) -> Array:
    """Return the position of the n-th bit that is 1 in a word, from *base* on; 2**32 - 1 if there is none.

    Args:
        mask: Words of 32 bits.
        base: The first position.
        offset: n, an s32: positive upwards from *base*, negative downwards; with 0 only *base* itself counts.
    """
    mask, base, offset = mask.view(np.uint32), base.view(np.uint32), offset.view(np.int32)
    is_down = offset < 0
    word = np.where(is_down, brev(mask) >> (np.uint32(31) - base), mask >> base)
    word = np.where(offset == 0, word & np.uint32(1), word)
    wanted = np.where(is_down, ~offset, np.maximum(offset, 1) - np.int32(1)).view(np.uint32)
    exists = (wanted < popc(word)) & (base < 32)
    distance = np.zeros_like(word)
    for width in (16, 8, 4, 2, 1):
        below = popc(word & np.uint32((1 << width) - 1))
        is_above = wanted >= below
        wanted = wanted - below * is_above
        step = is_above * np.uint32(width)
        word = word >> step
        distance = distance + step
    return np.where(exists, np.where(is_down, base - distance, base + distance), NONE)


@in_pieces(4096)
def prmt(a: Array, b: Array, selector: Array, mode: str | None = None) -> Array:
    """Return four of the eight bytes of b:a.

    Args:
        a: The lower four bytes.
        b: The upper four.
        selector: For each byte of the result four bits: which byte, and whether its sign fills all of it. With a
            *mode* the lower two bits.
        mode: None, f4e, b4e, rc8, ecl, ecr or rc16.
    """
    if mode is not None:
        selector = np.array(SELECTORS[mode], np.uint32)[selector & np.uint32(3)]
    if np.size(selector) == 1:
        return _bytes_of_all(a, b, int(np.asarray(selector).item()))
    pair = _pair(a, b)
    result = np.uint32(0)
    for place in range(4):
        which = selector >> (4 * place)
        byte = (pair >> ((which & np.uint32(7)) << 3)).astype(np.uint32) & np.uint32(0xFF)
        is_sign = np.asarray(which & np.uint32(8))
        if is_sign.any():
            byte = np.where(is_sign, (byte >> 7) * np.uint32(0xFF), byte)
        result = result | byte << (8 * place)
    return np.asarray(result).view(a.dtype)


def lop3(a: Array, b: Array, c: Array, table: int) -> Array:
    """Return the logical operation that *table* gives: bit 4a + 2b + c of it is the result for these bits."""
    without, with_ = table & 15, table >> 4 & 15
    result = _logic(b, c, without)
    if without != with_:
        result = result ^ (a & _logic(b, c, without ^ with_))
    return np.array(np.broadcast_to(result, np.broadcast_shapes(a.shape, b.shape, c.shape)))


def bmsk(a: Array, b: Array, *, wrap: bool) -> Array:
    """Return a word with *b* ones from position *a* on; both are taken modulo 32, or 32 and more count as 32."""
    if wrap:
        a, b = a & np.uint32(31), b & np.uint32(31)
    a, b = np.minimum(a, np.uint32(32)), np.minimum(b, np.uint32(32))
    return np.asarray(_ones(a, b) << a)


def szext(a: Array, b: Array, *, wrap: bool) -> Array:
    """Return the lower *b* bits of a, with the sign extended if the type is signed; b is modulo 32, or at most 32."""
    width = b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))
    if a.dtype.kind == "u":
        return np.asarray(a & _ones(a, width))
    rest = (np.uint32(32) - width).astype(np.int32)
    return np.asarray(a << rest >> rest)


def cnot(a: Array) -> Array:
    """Return 1 where a is 0, and 0 elsewhere."""
    return np.asarray(a == 0).astype(a.dtype)


def slct(a: Array, b: Array, c: Array, *, ftz: bool = False) -> Array:
    """Return a where c, an s32 or f32, is at least 0, and b elsewhere, also where c is NaN. -0 is at least 0.

    With *ftz* a subnormal c counts as 0.
    """
    return np.where((flushed(c) if ftz else c) >= 0, a, b)


def _bytes_of_all(a: Array, b: Array, selector: int) -> Array:
    """Return the bytes of b:a that one selector of prmt names, for all lanes."""
    sources = [split(a, np.uint8), split(b, np.uint8)]
    result = np.empty((*np.broadcast_shapes(a.shape, b.shape), 4), np.uint8)
    for place in range(4):
        which = selector >> 4 * place & 15
        byte = sources[which >> 2 & 1][..., which & 3]
        result[..., place] = (byte.view(np.int8) >> 7).view(np.uint8) if which & 8 else byte
    return word_of(result).view(a.dtype)


def _place(a: Array, count: Array) -> Array:
    """Return a position or a length of a field: modulo 256 in words of 32 bits, and all of it in those of 64.

    A card has an instruction for 32 bits only. Those of 64 are made of shifts, which are not modulo 256 (measured).
    """
    return np.asarray(count & np.uint32(255) if a.dtype.itemsize == 4 else count)


def _clamped_count(a: Array, count: Array) -> Array:
    """Return a count in the dtype of a; NumPy shifts by the width as PTX does."""
    return np.asarray(np.minimum(count.view(np.uint32), np.uint32(8 * a.dtype.itemsize)).astype(a.dtype))


def _ones(a: Array, length: Array) -> Array:
    """Return words of the dtype of a with *length* ones below."""
    return np.asarray(
        ~(a.dtype.type(-1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max) << _clamped_count(a, length))
    )


def _pair(a: Array, b: Array) -> Array:
    return np.asarray(b.view(np.uint32).astype(np.uint64) << 32 | a.view(np.uint32))


def _highest(a: Array) -> Array:
    """Return the position of the highest 1 of words of 32 bits, or -1."""
    exponent = (a.astype(np.float64).view(np.int64) >> 52) - 1023
    return np.asarray(np.maximum(exponent, -1))


def _logic(b: Array, c: Array, table: int) -> Array:
    """Return the operation whose result for these bits is bit 2b + c of a table of four."""
    match table:
        case 0x0:
            return np.zeros((), b.dtype)
        case 0x1:
            return ~(b | c)
        case 0x2:
            return ~b & c
        case 0x3:
            return ~b
        case 0x4:
            return b & ~c
        case 0x5:
            return ~c
        case 0x6:
            return b ^ c
        case 0x7:
            return ~(b & c)
        case 0xF:
            return ~np.zeros((), b.dtype)
        case _:
            return ~_logic(b, c, 15 - table)


def wide(low: Array, high: Array, dtype: Any) -> Array:
    """Return values of 128 bits, of a dtype with a field for the lower and one for the higher half."""
    return np.asarray(np.stack(np.broadcast_arrays(low, high), -1).view(dtype)[..., 0])
