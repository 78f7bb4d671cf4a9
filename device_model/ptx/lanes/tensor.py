"""Products of matrices that the lanes of a warp hold together.

The registers of a matrix are a tuple. As a table (`warps.Table`) each has a row for each warp; side by side and read as
elements, they are a fragment of the layout that the instruction has.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Lanes
from device_model.ptx.lanes.warps import Table, common
from device_model.ptx.values import floats
from device_model.sm.fragments import A, B, C, Layout
from device_model.sm.tensor_core import multiply

# The bits of elements that are multiplied, by what they are.
OPERANDS: dict[str, Any] = {
    "float16": np.uint16, "bfloat16": np.uint16, "tfloat32": np.uint32, "int8": np.int8, "uint8": np.uint8,
    "float64": np.float64,
}  # fmt: skip


class Form(NamedTuple):
    """The layouts of the operands of a product."""

    a: Layout
    b: Layout
    c: Layout = C


_OF_8_ROWS = Layout("gte", "g", "te")  # an accumulator with 8 rows
_BYTES_B = Layout("gtq", "tq", "g")
FORMS = {  # by shape, and bytes of an element
    ("m16n8k16", 2): Form(A, B),
    ("m16n8k8", 2): Form(Layout("gtre", "rg", "te"), Layout("gte", "te", "g")),
    ("m16n8k8", 4): Form(Layout("gthr", "rg", "ht"), Layout("gth", "ht", "g")),
    ("m16n8k4", 4): Form(Layout("gtr", "rg", "t"), Layout("gt", "t", "g")),
    ("m8n8k16", 1): Form(Layout("gtq", "g", "tq"), _BYTES_B, _OF_8_ROWS),
    ("m16n8k16", 1): Form(Layout("gtrq", "rg", "tq"), _BYTES_B),
    ("m16n8k32", 1): Form(Layout("gthrq", "rg", "htq"), Layout("gthq", "htq", "g")),
    ("m8n8k4", 8): Form(Layout("gt", "g", "t"), Layout("gt", "t", "g"), _OF_8_ROWS),
    ("m16n8k4", 8): Form(Layout("gtr", "rg", "t"), Layout("gt", "t", "g")),
    ("m16n8k8", 8): Form(Layout("gthr", "rg", "ht"), Layout("gth", "ht", "g")),
    ("m16n8k16", 8): Form(Layout("gtqr", "rg", "qt"), Layout("gtq", "qt", "g")),
}


def nbytes(kind: str) -> int:
    """Return the bytes of an element that is multiplied."""
    return int(np.dtype(OPERANDS[kind]).itemsize)


def mma(
    at: Lanes, shape: str, kinds: tuple[str, str], a: Sequence[Array], b: Sequence[Array], c: Sequence[Array],
    accumulators: str, *, satfinite: bool = False,
) -> list[Array]:  # fmt: skip
    """Return the registers of a @ b + c.

    Args:
        at: The lanes.
        shape: Such as "m16n8k16".
        kinds: What the elements of a and of b are, one of `OPERANDS`.
        a: The registers of the first matrix.
        b: Those of the second.
        c: Those of the accumulators.
        accumulators: What their elements are: "float16", "float32", "int32" or "float64".
        satfinite: Whether sums of integers stop at the ends of their range.
    """
    form = FORMS[shape, nbytes(kinds[0])]
    table = Table(at)
    left, right, added = _fragments(table, (a, b, c), (OPERANDS[kinds[0]], OPERANDS[kinds[1]], accumulators))
    result = product(form.a.join(left), form.b.join(right), form.c.join(added), kinds[0], satfinite=satfinite)
    return _registers(table, form.c.split(result))


def wmma(
    at: Lanes, shape: tuple[int, int, int], kinds: tuple[str, str], a: Sequence[Array], b: Sequence[Array],
    c: Sequence[Array], accumulators: str, result: str, *, satfinite: bool = False,
) -> list[Array]:  # fmt: skip
    """Return the registers of a @ b + c, whose elements lie in the lanes as `tiles.places` says.

    The arguments are those of `mma`; *shape* is m, n and k, and *result* what the elements of the result are.
    """
    m, n, k = shape
    table = Table(at)
    given = _fragments(table, (a, b, c), (OPERANDS[kinds[0]], OPERANDS[kinds[1]], accumulators))
    left, right, added = (
        np.ascontiguousarray(each[..., : rows * columns // WARP]).reshape(-1, rows, columns)
        for each, rows, columns in zip(given, (m, k, m), (k, n, n), strict=True)
    )
    total = product(left, right, added.astype(result), kinds[0], satfinite=satfinite)
    return _registers(table, total.reshape(-1, WARP, m * n // WARP))


def product(a: Array, b: Array, c: Array, kind: str, *, satfinite: bool = False) -> Array:
    """Return a @ b + c of matrices whose elements are of this kind, as a tensor core computes it."""
    if kind == "float64":
        return _doubles(a, b, c)
    if kind in ("int8", "uint8"):
        total = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64) + c
        bounds = np.iinfo(np.int32)
        return (np.clip(total, bounds.min, bounds.max) if satfinite else total).astype(np.int32)
    return multiply(a, b, c, kind)


def _doubles(a: Array, b: Array, c: Array) -> Array:
    """Return a @ b + c of f64: product after product, with one rounding of each sum, as an H200 does."""
    for place in range(a.shape[-1]):
        x, y = (
            np.ascontiguousarray(np.broadcast_to(each, c.shape))
            for each in (a[..., :, place, None], b[..., None, place, :])
        )
        c = floats.canonical(floats.fma(x, y, c), x, y, c)
    return c


def _fragments(table: Table, operands: Sequence[Sequence[Array]], dtypes: Sequence[Any]) -> list[Array]:
    """Return the registers of each operand as elements: (warps, 32, elements of a lane)."""
    tables = iter(common(*(table.of(register) for operand in operands for register in operand)))
    return [
        np.stack([next(tables) for _ in operand], -1).view(dtype)
        for operand, dtype in zip(operands, dtypes, strict=True)
    ]


def _registers(table: Table, fragment: Array) -> list[Array]:
    """Return the elements of lanes as registers; two of float16 share one."""
    words = np.ascontiguousarray(fragment)
    if words.dtype == np.float16:
        words = words.view(np.uint32)
    return [table.back(np.ascontiguousarray(words[..., number])) for number in range(words.shape[-1])]
