"""Values for the operands of single instructions: special ones with one another, and many for approximate functions.

Types have the names of PTX, but for counts of bits ("c32"), lanes ("l32") and small offsets ("o32").
"""

import random
from itertools import product

import numpy as np

from tests.ptx.drawing import real, whole

COUNT = {1: 512, 2: 4096, 3: 4096, 4: 4096}  # elements, for so many operands
MANY = 1 << 17
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def bits_of(type_):
    """Return the bits of a type; those of pairs are 32, of predicates 1."""
    if type_ == "pred":
        return 1
    if type_.endswith("x2"):
        return 16 if type_[0] == "e" else 32
    return int(type_.lstrip("usbft"))


def holder(type_):
    """Return the bits of memory for a value of a type."""
    return 32 if type_ in ("pred", "c32", "l32", "o32") else bits_of(type_)


def special_inputs(operands):
    """Return an array of values for each operand: first special ones with one another, then random ones."""
    count = COUNT[len(operands)]
    draw = random.Random("".join(operands))
    each = [special(type_) for type_ in operands]
    most = {1: len(each[0]), 2: 56, 3: 14, 4: 7}[len(operands)]
    chosen = [values if len(values) <= most else picked(draw, values, most) for values in each]
    rows = list(product(*chosen))[:count]
    rows += [tuple(drawn(draw, type_) for type_ in operands) for _ in range(count - len(rows))]
    return [np.array(column, np.uint64).astype(f"u{max(8, holder(type_)) // 8}")
            for column, type_ in zip(zip(*rows, strict=True), operands, strict=True)]  # fmt: skip


def picked(draw, values, most):
    """Return so many of the values: the first, which are the most special, and some of the others."""
    first = most * 2 // 3
    return [*values[:first], *draw.sample(values[first:], most - first)]


def special(type_):
    """Return the special values of a type, the most special ones first."""
    if type_ in ("c32", "l32", "o32"):
        return counts(type_)
    if type_ in FRACTION:
        return special_floats(bits_of(type_) if type_ != "bf16" else 16, FRACTION[type_])
    if type_ in ("f16x2", "bf16x2"):
        one = special(type_.removesuffix("x2"))
        return [low | high << 16 for low, high in zip(one, one[7:] + one[:7], strict=True)]
    if type_ in ("e4m3x2", "e5m2x2"):
        return [low | (low * 37 + 11) % 256 << 8 for low in range(256)]
    bits_ = bits_of(type_)
    top = 1 << bits_
    near = [0, 1, top - 1, top // 2, top // 2 - 1, 2, top - 2, top // 2 + 1, 3, 255, 127, 128, 31, 32, 33, 63, 64, 65]
    powers = [1 << place for place in range(bits_)] + [(1 << place) - 1 for place in range(1, bits_)]
    words = [0x0123456789ABCDEF % top, 0xFEDCBA9876543210 % top, 0xAAAAAAAAAAAAAAAA % top, 0x5555555555555555 % top]
    return list(dict.fromkeys(each % top for each in near + words + powers))


def counts(type_):
    if type_ == "l32":  # a lane
        return [0, 1, 5, 16, 30, 31]
    if type_ == "o32":  # an offset of some lanes
        return [each % (1 << 32) for each in (0, 1, -1, 2, -2, 5, -5, 32, -32)]
    return [0, 1, 31, 32, 33, 63, 64, 65, 2, 7, 8, 15, 16, 17, 30, 127, 128, 255, 256, 257, 0x7FFFFFFF, 0x80000000,
            0xFFFFFFFF]  # fmt: skip


def special_floats(bits_, fraction):
    """Return zeros, infinities, NaNs with payloads, subnormal numbers, extremes, and numbers where others end."""
    top, infinity = 1 << bits_ - 1, (1 << bits_ - 1) - (1 << fraction)
    bias = (1 << bits_ - fraction - 2) - 1
    one, quiet = bias << fraction, 1 << fraction - 1
    values = [0, infinity, infinity | quiet, infinity + 1, one, 1, infinity - 1, 1 << fraction, (1 << fraction) - 1,
              infinity | quiet | 5, infinity | (quiet >> 1), infinity | (1 << fraction) - 1, one + 1, one - 1,
              (bias + 1) << fraction, (bias - 1) << fraction, one | quiet, quiet, one | quiet | quiet >> 1,
              (1 << fraction) + 1, infinity | quiet >> 3 | 3]  # fmt: skip
    values += [exponent_of(bias, size, fraction) for size in range(-25, 70) if 0 < bias + size < 2 * bias]
    for size in (7, 8, 15, 16, 31, 32, 63, 64, -14, -24, -126, -149):  # where other types end
        if 0 < bias + size < 2 * bias:
            start = exponent_of(bias, size, fraction)
            values += [start - 1, start + 1, start | quiet, start - (1 << max(0, fraction - 10))]
    values += [exponent_of(bias, place, fraction) | ((1 << fraction) - 1) << place & (1 << fraction) - 1
               for place in range(min(fraction, bias))]  # fmt: skip
    for other in (10, 7, 23):  # ties of other formats
        if other < fraction:
            half = 1 << fraction - other - 1
            values += [one | half, one | half + 1, one | half - 1, one | 3 * half]
            values += [exponent_of(bias, size, fraction) | half | sign for size in (-20, -14, -3, 15) for sign in (0, 1)
                       if bias + size > 0]  # fmt: skip
    values += [1 << place for place in range(fraction)]
    both = [each | sign for each in dict.fromkeys(values) for sign in (0, top)]
    return list(dict.fromkeys(both))


def exponent_of(bias, size, fraction):
    return bias + size << fraction


def drawn(draw, type_):
    """Return a random value of a type."""
    if type_ in ("c32", "l32", "o32"):
        return draw.choice(counts(type_))
    if type_ in ("f16", "f32", "f64"):
        return real(draw, bits_of(type_))
    if type_ == "bf16":
        return real(draw, 32) >> 16
    if type_ in ("f16x2", "bf16x2"):
        return drawn(draw, type_[:-2]) | drawn(draw, type_[:-2]) << 16
    return whole(draw, bits_of(type_))


def many_inputs(words, operands):
    """Return many values for an approximate function: all exponents, and those where its bounds hold."""
    draw = np.random.default_rng([ord(each) for each in words])
    size = bits_of(operands[0])
    columns = []
    for type_ in operands:
        special_ = np.array(special(type_), np.uint64)
        count = MANY if size == 32 else MANY // 2
        any_ = draw.integers(0, 1 << size, count // 4, np.uint64, endpoint=False) if size < 64 else (
            draw.integers(0, (1 << 64) - 1, count // 4, np.uint64, endpoint=True))  # fmt: skip
        rest = draw.uniform(*usual(words), count - len(any_) - len(special_))
        near = rest.astype(f"f{size // 8}").view(f"u{size // 8}").astype(np.uint64)
        columns.append(np.concatenate([special_, any_, near]).astype(f"u{size // 8}"))
    if len(columns) == 2:
        columns[1] = np.roll(columns[1], 1000)
    return columns


def usual(words):
    """Return between which numbers most operands of a function are."""
    name = words.partition(".")[0]
    return {"ex2": (-130, 130), "sin": (-7, 7), "cos": (-7, 7), "tanh": (-5, 5), "lg2": (0, 4)}.get(name, (0.5, 4))
