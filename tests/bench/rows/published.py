"""Rows of a file: which kernel computes what a row names, with what its words and its shape say.

A row has a kind, an `op` in words, a shape, a dtype, a card, cores, microseconds and how they were measured. A kernel
belongs to words, and not to one row: other shapes of the same words run, too.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from device_model.aicore.runner import Result
from device_model.profile import load, names
from tests.bench.rows import attention, grids, products, quantised, vectors

Row = Mapping[str, Any]
KINDS = ("cube", "cube-int8", "attention", "vector", "mixed", "reduce")  # those that are compared
# What the profiler of the vendor counts for each type of core whose code is fetched again, and launches in a row do not
# have: before the first copy of a cube kernel, and behind the first wait of vector cores for cube cores. The shortest
# products (docs/accuracy.md) are late by 3.6 to 7.1 us without it.
HEAD_US = 4.0
_HEADS = {"cube": 1, "cube-int8": 2, "mixed": 2}
_CARDS = {"A3": "ascend910c"}
_TYPES = {"float16": products.half, "float32": products.single}
_PROFILED = ("msprof", "msopprof", "profiler", "task")


class UnknownRowError(ValueError):
    """A row that names what is not here; the text says what."""


def kernel_of(row: Row) -> Callable[[], Result]:
    """Return what runs the kernel of *row*.

    Raises:
        UnknownRowError: Its kind, card, cores, shape or words are not known.
    """
    card = card_of(row)
    if row["kind"] not in KINDS:
        raise UnknownRowError(f"kind {row['kind']!r} is not compared; these are: {', '.join(KINDS)}")
    for kinds, words, make in _KERNELS:
        if row["kind"] in kinds and (found := re.search(words, row["op"])):
            return make(row, card, found)
    raise UnknownRowError(f"there is no kernel for {row['op']!r}")


def card_of(row: Row) -> str:
    """Return the profile of the card of *row*, which has as many cores.

    Raises:
        UnknownRowError: There is none.
    """
    card = _CARDS.get(row["card"], row["card"])
    if card not in names() or load(card).aicore is None:
        raise UnknownRowError(f"there is no profile with AI cores for {row['card']!r}")
    spec = load(card).aicore
    assert spec is not None
    if type(row["cores"]) is not int or not 1 <= row["cores"] <= max(spec.cube_cores, spec.vector_cores):
        raise UnknownRowError(f"{card} has no {row['cores']} cores")
    return card


def head_us(row: Row, kernel_us: float) -> float:
    """Return what the way of measuring *row* adds to its kernel: the profiler's head, or the host's part of a call.

    In launches in a row a kernel that takes longer than the host's part hides it.
    """
    how = row.get("how", "").lower()
    if called := re.search(r"^call, includes (\d+) us of the host", how):
        host_us = float(called[1])
        return host_us if kernel_us < host_us else 0.0
    return HEAD_US * _HEADS.get(row["kind"], 0) if any(each in how for each in _PROFILED) else 0.0


def _sizes(row: Row, count: int) -> list[int]:
    shape = row["shape"]
    if len(shape) != count or not all(type(size) is int and size > 0 for size in shape):
        raise UnknownRowError(f"shape {shape} is not {count} sizes")
    return list(shape)


def _product(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """A template of catlass: its words give tiles, the order of B, and the order of the tiles of C."""
    op, (m, k, n), dtype = row["op"], _sizes(row, 3), _TYPES.get(row["dtype"])
    if dtype is None:
        raise UnknownRowError(f"products are of {' and '.join(_TYPES)}, not of {row['dtype']}")
    tile = re.search(r"(\d+) ?x ?(\d+) ?x ?(\d+)", op)
    swizzle = re.search(r"swizzle <(\d+), ?(\d)>", op)
    rows, columns, depth = map(int, tile.groups()) if tile else (128, 256 if dtype == products.half else 128, 256)
    product = products.Product(
        m, k, n, dtype,
        "zN" if "zN" in op else "column" if "column major" in op else "row",
        (rows, columns, depth), depth // 4,
        (int(swizzle[1]), int(swizzle[2])) if swizzle else (3, 0 if m > n else 1),
        shuffles="optimized" in op, out=dtype,
    )  # fmt: skip
    return partial(products.on_card, product, card, row["cores"])


def _quantised(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """A product of int8 that vector cores scale: A stays in L1 or k is split over cores, where the words say so."""
    m, k, n = _sizes(row, 3)
    splits, keeps_a = "split over cores" in row["op"], "A kept in L1" in row["op"]
    if k % 32 or n % 32:
        raise UnknownRowError(f"shape {row['shape']}: k and n are whole squares of 32")
    by_columns = "column major" in row["op"] or (splits and "row major" not in row["op"])
    product = quantised.product_of(m, k, n, "column" if by_columns else "row", keeps_a=keeps_a, flags=splits)
    return partial(quantised.on_card, product, card, row["cores"], splits=splits)


def _grid(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """A part of C for each core, B by columns; with GELU of the result, if the words say so."""
    (m, k, n), dtype = _sizes(row, 3), _TYPES.get(row["dtype"])
    if dtype is None or k % 16 or n % 16:
        raise UnknownRowError(f"{row['dtype']} {row['shape']}: {' or '.join(_TYPES)}, k and n in whole fractals of 16")
    tile, depth = ((128, 256, 256), 64) if dtype == products.half else ((128, 128, 256), 64)
    product = products.Product(m, k, n, dtype, "column", tile, depth, out=products.single)
    return partial(grids.grid_on_card, product, card, row["cores"], with_gelu="gelu" in row["op"].lower())


def _grouped(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Equal groups, which are whole tiles of 128 rows; the scenario of the page, by default the fastest."""
    m, k, n, groups = _sizes(row, 4)
    if m % (groups * 128) or k % 32 or n % 32 or k > 2048:
        raise UnknownRowError(f"shape {row['shape']}: groups of whole 128 rows, k up to 2048, k and n in squares of 32")
    product = grids.grouped_product(m // groups, k, n)
    return partial(grids.grouped_on_card, product, groups, card, row["cores"], int(found[1] or 2))


def _attention(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    heads, queries, keys, d = _sizes(row, 4)
    if (heads, d, card) != (1, attention.D, attention.CARD) or queries % attention.SIDE or keys % attention.SIDE:
        raise UnknownRowError(f"shape {row['shape']}: one head of {attention.D}, and whole tiles of {attention.SIDE}")
    blocks = row["cores"] if found[0].endswith("all cores") else queries // attention.SIDE
    return partial(attention.attention, queries, keys, min(blocks, queries // attention.SIDE))


def _turbo_quant(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Up to 12 tokens in an instruction, unless the words say one."""
    tokens, wide = _sizes(row, 2)
    batch = 1 if "one token at a time" in row["op"] else vectors.MOST_TOKENS
    return partial(vectors.compress_on_card, card, tokens, wide, row["cores"], batch)


def _gelu(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    rows, columns = _sizes(row, 2)
    return partial(vectors.gelu_on_card, card, rows, columns, row["cores"])


def _nd_to_nz(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Columns of 16 halves lie as many blocks apart in UB as the words say; by default, as a tile has rows."""
    rows, columns = _sizes(row, 2)
    return partial(vectors.nd_to_nz_on_card, card, rows, columns, row["cores"], int(found[1] or vectors.TALL))


def _times_four(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    batch, tokens, wide = _sizes(row, 3)
    return partial(vectors.times_four_on_card, card, batch, tokens, wide, row["cores"])


_KERNELS: tuple[tuple[tuple[str, ...], str, Callable[[Row, str, re.Match[str]], Callable[[], Result]]], ...] = (
    (("cube",), r"^catlass (basic|preload|optimized|B row)(?!.*split)", _product),
    (("cube",), r"^GEMM, basic API", _grid),
    (("cube-int8",), r"^catlass", _quantised),
    (("mixed",), r"^quantised grouped matmul \+ GELU(?:, scenario ([012]))?", _grouped),
    (("mixed",), r"^(?:GEMM|matmul|product)\b.*\+ GELU", _grid),
    (("attention",), r"^flash attention, PTO kernel(?: \(tiles of 128| ?, all cores)", _attention),
    (("vector",), r"^TurboQuant", _turbo_quant),
    (("vector",), r"^GELU of", _gelu),
    (("vector",), r"^ND to NZ(?:.*?(\d+) blocks apart)?", _nd_to_nz),
    (("vector",), r"^mhc_post", _times_four),
)


def predicted(row: Row) -> dict[str, Any]:
    """Return *row* with its measured and its predicted microseconds, and those of the pipes.

    Raises:
        UnknownRowError: There is no kernel for it.
    """
    timeline = kernel_of(row)().timeline
    assert timeline is not None
    us = timeline.duration_ns / 1000
    us += head_us(row, us)
    pipes = {pipe: round(float(busy), 3) for pipe, busy in timeline.busy_us.items()}
    return {**row, "measured": row["us"], "predicted": round(us, 3), "pipes": pipes}
