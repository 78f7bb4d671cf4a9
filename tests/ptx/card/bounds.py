"""The bounds of the approximate functions, by the PTX ISA, and how far results are from the exact values."""

import math
from typing import NamedTuple

import numpy as np


class Bound(NamedTuple):
    """What errors are measured in ("ulp", "relative" or "absolute"), the most, and between which operands."""

    kind: str
    most: float
    low: float = -math.inf
    high: float = math.inf


TAU = 2 * math.pi
BOUNDS = {
    "ex2": [Bound("relative", 2**-22)],
    "lg2": [Bound("absolute", 2**-22, 0.5, 2), Bound("relative", 2**-22, 0, 0.5), Bound("relative", 2**-22, 2)],
    "sin": [Bound("absolute", 2**-20.5, -TAU, TAU)],
    "cos": [Bound("absolute", 2**-20.5, -TAU, TAU)],
    "tanh": [Bound("relative", 2**-11)],
    "rcp": [Bound("ulp", 1)],
    "rsqrt": [Bound("relative", 2**-22.9)],
    "sqrt": [Bound("relative", 2**-23)],
    "div": [Bound("ulp", 2)],
}
EXACT = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "div": lambda x, y: x / y,
}  # fmt: skip
LEAST = float(np.finfo(np.float32).tiny)
MOST = float(np.finfo(np.float32).max)


def line(words, operands, card, ours):
    """Return what a listing says of one function."""
    name, type_ = words.partition(".")[0], words.rpartition(".")[2]
    dtype = f"f{int(type_[1:]) // 8}"
    given = [each.view(dtype).astype(np.float64) for each in operands]
    results = [each.view(dtype) for each in (card, ours)]
    with np.errstate(all="ignore"):
        exact = EXACT[name](*given)
        parts = [_one(bound, exact, given, results) for bound in _bounds(name, type_)]
    special = ~np.isfinite(exact) | (np.abs(exact) < LEAST) | (np.abs(exact) > MOST)
    bits = [each.view(dtype.replace("f", "u")) for each in results]
    odd = np.flatnonzero(special & (bits[0] != bits[1]))
    same = float(np.mean(bits[0] == bits[1]))
    first = ""
    if len(odd):
        where = ", ".join(f"{each[odd[0]].item()!r}" for each in given)
        first = f", first of {where}: card {bits[0][odd[0]]:#x}, device {bits[1][odd[0]]:#x}"
    return f"{words}: {'; '.join(parts)}; {same:.1%} equal; {len(odd)} of {special.sum()} special ones differ{first}"


def _bounds(name, type_):
    return BOUNDS[name] if type_ == "f32" else [Bound("relative", 2**-19)]


def _one(bound, exact, given, results):
    """Return the greatest errors where a bound holds and the exact value is a normal number."""
    holds = (given[0] >= bound.low) & (given[0] <= bound.high) & np.isfinite(exact)
    holds &= (np.abs(exact) >= LEAST) & (np.abs(exact) <= MOST)
    holds &= np.logical_and.reduce([np.isfinite(each) & (np.abs(each) >= LEAST) for each in given])
    if bound.kind == "ulp":
        unit = np.ldexp(1.0, np.frexp(exact)[1] - 24)
    else:
        unit = np.abs(exact) if bound.kind == "relative" else np.ones_like(exact)
    errors = [np.max((np.abs(each.astype(np.float64) - exact) / unit)[holds], initial=0) for each in results]
    return f"{bound.kind} {_size(bound.most)}: card {_size(errors[0])}, device {_size(errors[1])}"


def _size(error):
    return f"2**{math.log2(error):.2f}" if 0 < error < 0.01 else f"{error:.3g}"
