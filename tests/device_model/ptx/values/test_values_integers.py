"""Integer arithmetic and instructions on bits, compared with Python's integers."""

import itertools

import numpy as np
import pytest

from device_model.ptx.values import bits, integers, packed

TYPES = [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
WORDS = [np.int32, np.uint32, np.int64, np.uint64]
U32 = [0, 1, 5, 7, 8, 16, 31, 32, 33, 63, 64, 65, 128, 255, 256, 300, 2**31, 2**32 - 1]


def values(dtype, count, seed):
    width = 8 * np.dtype(dtype).itemsize
    special = [0, 1, 2, 3, 7, 127, 128, 255, 256, (1 << width // 2) - 1, 1 << width // 2, (1 << width - 1) - 1,
               1 << width - 1, (1 << width - 1) + 1, (1 << width) - 2, (1 << width) - 1]  # fmt: skip
    random = [int(x) >> 64 - width for x in np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)]
    return [wrap(x, dtype) for x in special], [wrap(x >> x % 7 * (width // 8), dtype) for x in random]


def both(dtype, count, seed):
    special, random = values(dtype, count, seed)
    return special + random


def lanes(arity, dtype, count=300, seed=0):
    columns = [values(dtype, count, seed + place) for place in range(arity)]
    special = list(itertools.product(*(column[0] for column in columns)))
    if len(special) > 300:
        special = [special[place] for place in np.random.default_rng(seed).permutation(len(special))[:300]]
    return special + list(zip(*(column[1] for column in columns), strict=True))


def wrap(value, dtype):
    width = 8 * np.dtype(dtype).itemsize
    value &= (1 << width) - 1
    return value - (1 << width) if np.dtype(dtype).kind == "i" and value >> width - 1 else value


def clamp(value, dtype):
    return min(max(value, np.iinfo(dtype).min), np.iinfo(dtype).max)


def check(function, reference, dtypes, rows, to=None):
    columns = [np.array(column, dtype) for column, dtype in zip(zip(*rows, strict=True), dtypes, strict=True)]
    result = function(*columns)
    to = to or dtypes[0]
    assert result.dtype == to
    assert result.tolist() == [wrap(int(reference(*row)), to) for row in rows]
    last = function(*(column[-1] for column in map(np.asarray, columns)))  # without dimension
    assert last == result[-1]


def quotient(a, b):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic(dtype):
    width = 8 * np.dtype(dtype).itemsize
    two, three, all_two, all_three = lanes(2, dtype), lanes(3, dtype), [dtype] * 2, [dtype] * 3
    check(integers.mul_hi, lambda a, b: a * b >> width, all_two, two)
    check(integers.mad_hi, lambda a, b, c: (a * b >> width) + c, all_three, three)
    check(integers.div, quotient, all_two, two)
    check(integers.rem, lambda a, b: a - quotient(a, b) * b if b else -1, all_two, two)
    check(integers.sad, lambda a, b, c: c + abs(a - b), all_three, three)
    check(integers.minimum, min, all_two, two)
    check(integers.maximum, max, all_two, two)
    check(integers.abs_, abs, [dtype], [row[:1] for row in two])
    check(integers.neg, lambda a: -a, [dtype], [row[:1] for row in two])
    check(integers.add, lambda a, b: a + b, all_two, two)
    check(integers.sub, lambda a, b: a - b, all_two, two)
    if width < 64:
        wide = np.dtype(f"{np.dtype(dtype).kind}{width // 4}")
        check(integers.mul_wide, lambda a, b: a * b, all_two, two, wide)
        check(integers.mad_wide, lambda a, b, c: a * b + c, [dtype, dtype, wide], three, wide)


def test_saturation():
    two, three, s32 = lanes(2, np.int32), lanes(3, np.int32), np.int32
    check(lambda a, b: integers.add(a, b, sat=True), lambda a, b: clamp(a + b, s32), [s32] * 2, two)
    check(lambda a, b: integers.sub(a, b, sat=True), lambda a, b: clamp(a - b, s32), [s32] * 2, two)
    check(lambda a, b, c: integers.mad_hi(a, b, c, sat=True), lambda a, b, c: clamp((a * b >> 32) + c, s32), [s32] * 3,
          three)  # fmt: skip
    check(lambda a, b: integers.minimum(a, b, relu=True), lambda a, b: max(0, min(a, b)), [s32] * 2, two)
    check(lambda a, b: integers.maximum(a, b, relu=True), lambda a, b: max(0, a, b), [s32] * 2, two)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_mul24(dtype):
    def part(a):
        a &= 0xFFFFFF
        return a - (1 << 24) if dtype == np.int32 and a >> 23 else a

    two, three = lanes(2, dtype), lanes(3, dtype)
    check(integers.mul24_lo, lambda a, b: part(a) * part(b), [dtype] * 2, two)
    check(integers.mul24_hi, lambda a, b: part(a) * part(b) >> 16, [dtype] * 2, two)
    check(integers.mad24_lo, lambda a, b, c: part(a) * part(b) + c, [dtype] * 3, three)
    check(integers.mad24_hi, lambda a, b, c: (part(a) * part(b) >> 16) + c, [dtype] * 3, three)
    if dtype == np.int32:
        check(lambda a, b, c: integers.mad24_hi(a, b, c, sat=True),
              lambda a, b, c: clamp((part(a) * part(b) >> 16) + wrap(c, dtype), dtype), [dtype] * 3, three)  # fmt: skip


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("carry", [None, 0, 1])
def test_carries(dtype, carry):
    width = 8 * np.dtype(dtype).itemsize
    ones, rows = (1 << width) - 1, lanes(3, dtype)
    a, b, c = (np.array(column, dtype) for column in zip(*rows, strict=True))
    flags = None if carry is None else np.full(len(rows), carry == 1)
    extra = carry or 0
    for hi in (False, True):
        halves = [(x * y >> width if hi else x * y) & ones for x, y, _ in rows]
        fused = [half + (z & ones) + extra for half, (_, _, z) in zip(halves, rows, strict=True)]
        for (value, flag), totals in (
            (integers.mad_carry(a, b, c, flags, hi=hi), fused),
            (integers.add_carry(a, b, flags), [(x & ones) + (y & ones) + extra for x, y, _ in rows]),
            (integers.sub_carry(a, b, flags), [(x & ones) - (y & ones) - extra for x, y, _ in rows]),
        ):
            assert value.tolist() == [wrap(total, dtype) for total in totals]
            assert flag.tolist() == [not 0 <= total <= ones for total in totals]


@pytest.mark.parametrize("dtype", TYPES)
def test_shifts(dtype):
    width = 8 * np.dtype(dtype).itemsize
    rows = [(a, n) for a in both(dtype, 20, 1) for n in U32]
    check(bits.shl, lambda a, n: a << min(n, width), [dtype, np.uint32], rows)
    check(bits.shr, lambda a, n: a >> min(n, width), [dtype, np.uint32], rows)


@pytest.mark.parametrize("wrapped", [False, True])
def test_funnel_shifts_masks_and_extensions(wrapped):
    u32 = np.uint32
    rows = [(a, b, n) for a, b in lanes(2, u32, 20)[::9] for n in U32]

    def count(n):
        return n % 32 if wrapped else min(n, 32)

    check(lambda a, b, n: bits.shf_l(a, b, n, wrap=wrapped), lambda a, b, n: (b << 32 | a) << count(n) >> 32,
          [u32] * 3, rows)  # fmt: skip
    check(lambda a, b, n: bits.shf_r(a, b, n, wrap=wrapped), lambda a, b, n: (b << 32 | a) >> count(n), [u32] * 3, rows)
    check(lambda a, b: bits.bmsk(a, b, wrap=wrapped), lambda a, b: ((1 << count(b)) - 1) << count(a), [u32] * 2,
          list(itertools.product(U32, U32)))  # fmt: skip
    rows = [(a, n) for a in both(u32, 20, 2) for n in U32]
    check(lambda a, n: bits.szext(a, n, wrap=wrapped), lambda a, n: a & (1 << count(n)) - 1, [u32] * 2, rows)

    def extended(a, n):
        low = a & (1 << count(n)) - 1
        return low - (1 << count(n)) if count(n) and low >> count(n) - 1 else low

    check(
        lambda a, n: bits.szext(a, n, wrap=wrapped),
        extended,
        [np.int32, u32],
        [(wrap(a, np.int32), n) for a, n in rows],
    )


@pytest.mark.parametrize("dtype", WORDS)
def test_fields(dtype):
    width = 8 * np.dtype(dtype).itemsize

    def places(*given):  # a card takes a byte of each for 32 bits, and all of it for 64
        return [each & 255 if width == 32 else min(each, 64) for each in given]

    def bfe(a, position, length):  # as the PTX ISA has it, bit by bit
        position, length = places(position, length)
        sign = a >> min(position + length - 1, width - 1) & 1 if length and np.dtype(dtype).kind == "i" else 0
        found = [(a >> position + i & 1) if i < length and position + i < width else sign for i in range(width)]
        return sum(bit << i for i, bit in enumerate(found))

    def bfi(a, b, position, length):
        position, length = places(position, length)
        for i in range(length):
            if position + i < width:
                b = b & ~(1 << position + i) | (a >> i & 1) << position + i
        return b

    rows = [(a, *place) for a in both(dtype, 6, 3)[::2] for place in itertools.product(U32[::2], U32[1::2])]
    check(bits.bfe, bfe, [dtype, np.uint32, np.uint32], rows)
    check(
        bits.bfi, bfi, [dtype, dtype, np.uint32, np.uint32], [(a, wrap(a * 77 + 5, dtype), *more) for a, *more in rows]
    )


@pytest.mark.parametrize("dtype", WORDS)
def test_counts(dtype):
    width = 8 * np.dtype(dtype).itemsize
    rows = [(a,) for a in both(dtype, 300, 4)] + [(wrap(1 << n, dtype),) for n in range(width)]
    rows += [(wrap((1 << n) - 1, dtype),) for n in range(width)]
    unsigned = (1 << width) - 1
    check(bits.popc, lambda a: (a & unsigned).bit_count(), [dtype], rows, np.uint32)
    check(bits.clz, lambda a: width - (a & unsigned).bit_length(), [dtype], rows, np.uint32)
    check(bits.brev, lambda a: int(f"{a & unsigned:0{width}b}"[::-1], 2), [dtype], rows)
    check(bits.bfind, lambda a: (~a if a < 0 else a).bit_length() - 1, [dtype], rows, np.uint32)

    def shift(a):
        found = (~a if a < 0 else a).bit_length()
        return width - found if found else -1

    check(lambda a: bits.bfind(a, shiftamt=True), shift, [dtype], rows, np.uint32)
    check(bits.cnot, lambda a: a == 0, [dtype], rows)


def test_fns():
    def fns(mask, base, offset):
        if offset == 0:
            return base if mask >> base & 1 else -1
        order = range(base, 32) if offset > 0 else range(base, -1, -1)
        found = [place for place in order if mask >> place & 1]
        return found[abs(offset) - 1] if abs(offset) <= len(found) else -1

    rows = [(a, base, offset) for a in both(np.uint32, 30, 5) for base in (0, 3, 16, 31)
            for offset in (-(2**31), -20, -2, -1, 0, 1, 2, 9, 32)]  # fmt: skip
    check(bits.fns, fns, [np.uint32, np.uint32, np.int32], rows)


def test_prmt():
    modes = {
        "f4e": lambda n: [n, n + 1, n + 2, n + 3], "b4e": lambda n: [n, n - 1, n - 2, n - 3],
        "rc8": lambda n: [n] * 4, "ecl": lambda n: [max(i, n) for i in range(4)],
        "ecr": lambda n: [min(i, n) for i in range(4)], "rc16": lambda n: [n % 2 * 2, n % 2 * 2 + 1] * 2,
    }  # fmt: skip

    def by_mode(mode):
        def prmt(a, b, c):
            data = (b << 32 | a).to_bytes(8, "little")
            return int.from_bytes([data[i % 8] for i in modes[mode](c & 3)], "little")

        return prmt

    def generic(a, b, c):
        data = (b << 32 | a).to_bytes(8, "little")
        which = [c >> 4 * i & 15 for i in range(4)]
        return int.from_bytes([255 * (data[w & 7] >> 7) if w & 8 else data[w & 7] for w in which], "little")

    rows = lanes(3, np.uint32, 500)
    check(bits.prmt, generic, [np.uint32] * 3, rows)
    a, b, _ = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    for selector in (0x5410, 0x0123, 0x89AB, 0xFEDC, 0x7632):  # one for all
        expected = [generic(*row[:2], selector) for row in rows]
        assert bits.prmt(a, b, np.uint32(selector)).tolist() == expected
        assert bits.prmt(a, b[0], np.array([selector], np.uint32))[3] == generic(rows[3][0], rows[0][1], selector)
    for mode in modes:
        check(lambda a, b, c, mode=mode: bits.prmt(a, b, c, mode), by_mode(mode), [np.uint32] * 3, rows)


def test_lop3():
    a, b, c = np.array(0xF0, np.uint32), np.array(0xCC, np.uint32), np.array(0xAA, np.uint32)
    for table in range(256):
        assert bits.lop3(a, b, c, table) & 0xFF == table
        assert bits.lop3(np.stack([a, a]), b, c, table).tolist() == bits.lop3(a, b, np.stack([c, c]), table).tolist()


def test_slct():
    a, b = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    assert bits.slct(a, b, np.int32([0, -1, 1, -5])).tolist() == [1, 6, 3, 8]
    assert bits.slct(a, b, np.float32([-0.0, np.nan, -1e-45, 1])).tolist() == [1, 6, 7, 4]
    assert bits.slct(a, b, np.float32([-0.0, np.nan, -1e-45, 1]), ftz=True).tolist() == [1, 6, 3, 4]


def test_dot_products():
    def parts(word, size, signed):
        data = word.to_bytes(4, "little")
        return [int.from_bytes(data[i : i + size], "little", signed=signed) for i in range(0, 4, size)]

    rows = lanes(3, np.uint32, 500)
    for a_signed, b_signed in itertools.product((False, True), repeat=2):
        signs = {"a_signed": a_signed, "b_signed": b_signed}
        check(lambda a, b, c, signs=signs: packed.dp4a(a, b, c, **signs),
              lambda a, b, c, s=(a_signed, b_signed):
              c + sum(x * y for x, y in zip(parts(a, 1, s[0]), parts(b, 1, s[1]), strict=True)),
              [np.uint32] * 3, rows)  # fmt: skip
        for hi in (False, True):
            check(lambda a, b, c, signs=signs, hi=hi: packed.dp2a(a, b, c, hi=hi, **signs),
                  lambda a, b, c, s=(a_signed, b_signed), hi=hi:
                  c + sum(x * y for x, y in zip(parts(a, 2, s[0]), parts(b, 1, s[1])[2 * hi :], strict=False)),
                  [np.uint32] * 3, rows)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_pairs_of_integers(dtype):
    def by_half(function):
        def word(*words):
            halves = [function(*(wrap(x >> shift, dtype) for x in words)) & 0xFFFF for shift in (0, 16)]
            return halves[0] | halves[1] << 16

        return word

    rows = lanes(2, np.uint32, 500)
    check(lambda a, b: packed.by_pair(integers.add, dtype, a, b), by_half(lambda a, b: a + b), [np.uint32] * 2, rows)
    check(lambda a, b: packed.by_pair(integers.minimum, dtype, a, b), by_half(min), [np.uint32] * 2, rows)
    check(lambda a, b: packed.by_pair(integers.maximum, dtype, a, b, relu=True), by_half(lambda a, b: max(a, b, 0)),
          [np.uint32] * 2, rows)  # fmt: skip
