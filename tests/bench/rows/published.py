"""Rows of a file: which kernel computes what a row names, with what its words and its shape say.

A row has a kind, an `op` in words, a shape, a dtype, a card, cores, microseconds and how they were measured. A kernel
belongs to words, and not to one row: other shapes of the same words run, too.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import log
from typing import Any

from device_model.aicore.core.program import Direction
from device_model.aicore.runner import Result, Timeline
from device_model.aicore.timing.l2 import Cache
from device_model.aicore.timing.play import play
from device_model.profile import load, names
from tests.bench.rows import attention, convolutions, grids, largest, products, pto_attention, quantised, vectors
from tests.bench.rows.calls import call_us

Row = Mapping[str, Any]
KINDS = (  # those that are compared; the last ones are other names of kinds of single kernels
    "cube", "cube-int8", "attention", "vector", "mixed", "reduce", "convolution", "conv", "topk", "sort",
)  # fmt: skip
# What the profiler of an operator counts before the first copy, as the code is fetched again, and launches in a row
# do not have: the shortest products (docs/accuracy.md) are late by 1 to 7 us without it. A launch of both types of core
# takes 1 to 5 us more (documented: catlass, 102_dynamic_optimized_matmul); products with k split agree with 5.
HEAD_US, MIX_US = 4.0, 5.0
_HEADS = {"cube": HEAD_US, "vector": HEAD_US, "cube-int8": HEAD_US + MIX_US, "mixed": HEAD_US + MIX_US}
# What the first launch of a program adds for each core: 20 to 21 us on all 48 vector cores, and hardly anything on one
# (documented for A2: start of the cores, TLB misses of the code, cores at the same addresses), of which 5 are here.
FIRST_US = 15.5 / 48
# Between the starts of two cores in the shortest of many launches; the profiles have the median (910C,
# kernel_evaluation: 1.42 us on 48 vector cores, 0.9 on 24 cube cores, 2.3 on 72 of both, 0.52 on one core).
SHORTEST_START_NS = 20
_LONG_KEYS = 8192  # of attention
_CARDS = {"A3": "ascend910c"}
_TYPES = {"float16": products.half, "float32": products.single}
_PROFILED = ("msprof", "msopprof", "task")


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
        if row["kind"] in (kinds or KINDS) and (found := re.search(words, row["op"])):
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


def head_us(row: Row) -> float:
    """Return what the way of measuring *row* adds to its kernel: the first launch of a program, or the profiler's head.

    Launches in a row have neither.
    """
    if is_first(row):
        return FIRST_US * row["cores"]
    how = row.get("how", "").lower()
    return _HEADS.get(row["kind"], 0.0) if any(each in how for each in _PROFILED) else 0.0


def is_first(row: Row) -> bool:
    """Whether *row* is the only launch of its program, behind the copies of its arguments to the card.

    PTO's single kernels are measured so; its attention is launched in a row.
    """
    is_pto = re.search(r"\bpto\b", f"{row['op']} {row.get('source', '')}".lower())
    return bool(is_pto) and row["kind"] != "attention" and not re.search("in a row|mean", row.get("how", "").lower())


def measured_as(row: Row, result: Result) -> Timeline:
    """Return the times of *result* as those of *row* were measured.

    The shortest of many launches is one whose cores start without delay. In the first launch of a program the L2 has
    what the arguments left there as they came from the host.
    """
    spec, l2 = result.spec, None
    if is_first(row):
        l2 = Cache(spec.l2_bytes)
        for program in result.programs:
            for each in program.instructions:
                if each.flow is not None and each.flow.direction is Direction.READ:
                    l2.touch(each.flow)
    elif "shortest" in row.get("how", ""):
        spec = replace(spec, start_interval_ns=SHORTEST_START_NS)
    else:
        assert result.timeline is not None
        return result.timeline
    return play(result.programs, spec, l2)


def _sizes(row: Row, count: int) -> list[int]:
    sizes = _flat(row["shape"])
    if len(sizes) != count:
        raise UnknownRowError(f"shape {row['shape']} is not {count} sizes")
    return sizes


def _flat(shape: Any) -> list[int]:
    """Return the sizes of one shape, or of several that are listed one behind the other."""
    sizes = [each for part in shape for each in (part if isinstance(part, list | tuple) else [part])]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise UnknownRowError(f"shape {shape}: sizes are whole numbers of 1 or more")
    return sizes


def _number(words: str, op: str) -> int | None:
    """Return the number that *op* has for one of some *words*, as "k = 100", "k=100" or "100 k"."""
    for form in (rf"\b(?:{words})\b\W{{0,3}}(\d+)", rf"(\d+) (?:{words})\b"):
        if found := re.search(form, op, re.IGNORECASE):
            return int(found[1])
    return None


def _product(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """A template of catlass: its words give tiles, the order of B, and the order of the tiles of C."""
    op, (m, k, n), dtype = row["op"], _sizes(row, 3), _TYPES.get(row["dtype"])
    if dtype is None:
        raise UnknownRowError(f"products are of {' and '.join(_TYPES)}, not of {row['dtype']}")
    if dtype == products.single and "zN" in op:
        raise UnknownRowError("products of float32 have B by rows or by columns, not in zN")
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
    """A part of C for each core, B by columns; with GELU of the result, if the words say so. PTO's kernel goes through
    its part row by row, and Fixpipe waits until a tile is complete.
    """
    (m, k, n), dtype = _sizes(row, 3), _TYPES.get(row["dtype"])
    if dtype is None or k % 16 or n % 16:
        raise UnknownRowError(f"{row['dtype']} {row['shape']}: {' or '.join(_TYPES)}, k and n in whole fractals of 16")
    tile, depth = ((128, 256, 256), 64) if dtype == products.half else ((128, 128, 256), 64)
    op, is_pto = row["op"].lower(), is_first(row)
    product = products.Product(
        m, k, n, dtype, "column", tile, depth, out=products.single, unit_flags=not is_pto
    )  # fmt: skip
    return partial(grids.grid_on_card, product, card, row["cores"], with_gelu="gelu" in op, by_rows=is_pto)


def _grouped(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Equal groups, which are whole tiles of 128 rows; the scenario of the page, by default the fastest."""
    m, k, n, groups = _sizes(row, 4)
    if m % (groups * 128) or k % 32 or n % 32 or k > 2048:
        raise UnknownRowError(f"shape {row['shape']}: groups of whole 128 rows, k up to 2048, k and n in squares of 32")
    product = grids.grouped_product(m // groups, k, n)
    return partial(grids.grouped_on_card, product, groups, card, row["cores"], int(found[1] or 2))


def _attention(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """PTO's shapes are [heads, queries, keys, width]; TileLang's [batches, heads, queries and keys, width].

    On all cores PTO's kernel has tiles by the number of keys. What the L2 holds at the start hardly matters to long
    launches, so of these one is enough.
    """
    heads, queries, keys, d = _sizes(row, 4)
    if "TileLang" in found[0]:
        heads, queries = heads * queries, keys
    all_cores = "all cores" in found[0]
    tile = pto_attention.tile_of(keys) if all_cores else attention.SIDE
    if d != attention.D or queries % attention.SIDE or keys % tile:
        raise UnknownRowError(
            f"shape {row['shape']}: heads of {attention.D}, whole {attention.SIDE} queries, {tile} keys"
        )
    if all_cores:
        launches = 1 if keys > _LONG_KEYS else 2
        return partial(pto_attention.on_card, card, row["cores"], heads, queries, keys, launches)
    parts, whole = heads * queries // attention.SIDE, "TileLang" in found[0]
    return partial(
        attention.attention, queries, keys, min(row["cores"], parts) if whole else parts, card=card, heads=heads,
        launches=1 if whole else 2,
    )  # fmt: skip


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
    return partial(vectors.times_four_on_card, card, batch, tokens, wide)


def _convolution(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Images and filter in planes of 16 channels, "X=[4,8,8,48,16] K=[72,96,16,16]", in words or as shape; or as a
    product [m, k, n] with a filter of 3 x 3; or [batch, channels, rows, columns, channels of the result, filter].
    """
    op = row["op"]
    lists = [[int(size) for size in re.findall(r"\d+", each)] for each in re.findall(r"\[([\d, x]+)\]", op)]
    sizes = [size for each in lists for size in each] if sum(map(len, lists)) == 9 else _flat(row["shape"])
    words = re.search(r"(?<![\dx] )(?<![\dx])([1-9]) ?[x*] ?([1-9])(?! ?[x*]? ?\d)", op)
    size = (int(words[1]), int(words[2])) if words else (3, 3)
    if len(sizes) == 9:
        batch, planes, high, wide, _, blocks, columns, _, _ = sizes
        columns *= 16
        size = size if blocks == planes * size[0] * size[1] else _square(blocks // planes)
    elif len(sizes) == 7:
        batch, planes, high, wide, columns, *size = sizes
        planes = -(-planes // 16)
    elif len(sizes) == 3:
        batch, (m, k, columns) = 4, sizes
        planes, (high, wide) = k // (size[0] * size[1] * 16), _image(m // batch)
        if sizes != [batch * high * wide, planes * size[0] * size[1] * 16, columns]:
            raise UnknownRowError(f"shape {sizes} is no convolution of {batch} images by {size[0]} x {size[1]}")
    else:
        raise UnknownRowError(f"shape {row['shape']}: images and filter, 9 sizes; or a product, 3; or 7 sizes")
    if min(size) % 2 == 0 or columns % 16:
        raise UnknownRowError(f"shape {row['shape']}: filters have odd sizes, and results whole blocks of 16 channels")
    what = convolutions.Convolution(batch, planes, high, wide, columns, (size[0], size[1]))
    return partial(convolutions.on_card, what, card, row["cores"])


def _square(taps: int) -> tuple[int, int]:
    side = round(taps**0.5)
    return (side, side) if side * side == taps else (1, taps)


def _image(pixels: int) -> tuple[int, int]:
    """Return rows and columns of an image that is about six times as wide as high; times hardly depend on it."""
    wide = [each for each in range(16, pixels + 1, 16) if pixels % each == 0] or [pixels]
    best = min(wide, key=lambda each: abs(log(each * each / pixels / 6)))
    return pixels // best, best


def _largest(row: Row, card: str, found: re.Match[str]) -> Callable[[], Result]:
    """Rows and columns, and in the shape or in words k, and from one row to the next."""
    op, sizes, dtype = row["op"], _flat(row["shape"]), _TYPES.get(row["dtype"])
    if len(sizes) not in (2, 3, 4) or dtype is None:
        raise UnknownRowError(f"{row['dtype']} {row['shape']}: rows, columns, k and stride of {' or '.join(_TYPES)}")
    rows, columns, *more = sizes
    strides, ks = ([size for size in more if (size > columns) is beyond] for beyond in (True, False))
    columns = _number("valid ?col(?:umn)?s?", op) or columns
    stride = _number("cols", op) or (strides[0] if strides else columns)
    stride, columns = max(stride, columns), min(stride, columns)
    k = _number("top ?k|k|largest", op) or (ks[0] if ks else columns)
    if columns % 32 or not 0 < k <= columns or not largest.fits(columns, k, dtype):
        raise UnknownRowError(f"{row['shape']}, k {k}: columns in groups of 32, k of them at most, that fit the UB")
    return partial(largest.largest_on_card, card, rows, columns, stride, k, dtype, row["cores"])


_KERNELS: tuple[tuple[tuple[str, ...], str, Callable[[Row, str, re.Match[str]], Callable[[], Result]]], ...] = (
    (("cube",), r"^catlass(?!.*split)", _product),
    ((), r"(?i)\bconv(olution)?(?![a-z])|\bconv[123]d", _convolution),
    ((), r"(?i)\btop-? ?k", _largest),
    (("cube",), r"(?i)^GEMM, basic API|^(PTO\b.*)?(?:gemm|matmul|matrix product|product)(?![a-z])(?!.*split)", _grid),
    (("cube-int8",), r"^catlass", _quantised),
    (("mixed",), r"^quantised grouped matmul \+ GELU(?:, scenario ([012]))?", _grouped),
    (("mixed",), r"^(?:GEMM|matmul|product)\b.*\+ GELU", _grid),
    (("attention",), r"^flash attention, (?:PTO kernel(?: \(tiles of 128| ?, all cores)|TileLang)", _attention),
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
    timeline = measured_as(row, kernel_of(row)())
    us = timeline.duration_ns / 1000
    if called := re.search(r"^call, includes (\d+) us of the host", row.get("how", "").lower()):
        us = call_us(card_of(row), us, float(called[1]))
    us += head_us(row)
    pipes = {pipe: round(float(busy), 3) for pipe, busy in timeline.busy_us.items()}
    return {**row, "measured": row["us"], "predicted": round(us, 3), "pipes": pipes}
