"""How long a product of matrices takes: tiles, their waves over the cores, and a sum that is split if tiles are few.

Each block computes a tile of C, in steps along k. A step takes the longest of the latency of its instructions, the
multiplications and the operands' way from the L2. A library has kernels for some sizes of tiles and takes the fastest,
so small products get small tiles, and products with few tiles and a long k are split along k. The results are those of
`choose`, the minimum over all tiles and splits.
"""

from functools import lru_cache
from typing import NamedTuple

from device_model.library.spec import Product, Products, Traffic

# The tiles of cuBLAS's kernels, as their names have them, and their steps along k. Each also exists on its side.
_TENSOR_TILES = (
    (64, 8), (64, 16), (64, 24), (64, 32), (64, 48), (64, 64), (64, 96), (64, 128), (64, 192), (64, 256), (96, 128),
    (128, 128), (128, 192), (128, 256), (192, 192), (320, 128),
)  # fmt: skip
_TILES = {
    "float32": ((32, 32), (64, 32), (64, 64), (128, 64), (128, 128), (256, 128)),
    "tf32": ((64, 64), (128, 64), (128, 128), (256, 64), (256, 128)),
    "float16": _TENSOR_TILES,
    "bfloat16": _TENSOR_TILES,
    "int8": _TENSOR_TILES,
}
_STEPS = {"float32": 8, "tf32": 16, "float16": 64, "bfloat16": 64, "int8": 128}
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
_PARTIAL = 4  # bytes of an element of a partial sum, and of an int8 product's result


class Shape(NamedTuple):
    """*batch* products of m x k by k x n elements."""

    m: int
    n: int
    k: int
    batch: int

    def traffic(self, item: int) -> tuple[int, int]:
        """Return the bytes that are read and written."""
        return self.batch * (self.m * self.k + self.k * self.n) * item, self.batch * self.m * self.n * item


class Choice(NamedTuple):
    """The kernel that a library takes: its tile, the parts of its sum, its blocks and its time."""

    ns: float
    blocks: int
    tile: tuple[int, int]
    split: int


@lru_cache(maxsize=4096)
def choose(products: Products, traffic: Traffic, shape: Shape, dtype: str, cores: int, all_cores: int) -> Choice:
    """Return the fastest kernel for *shape* on *cores* of a card that has *all_cores*.

    *products* must have the type *dtype*.
    """
    product: Product = getattr(products, dtype)
    reads, writes = shape.traffic(BYTES[dtype])
    memory_ns = traffic.ns(reads, writes, reads + writes) * all_cores / cores * 1000 / products.memory_permille
    step = _STEPS[dtype]
    rate = product.flops / all_cores / 1e9
    tiles = sorted({tile for a, b in _TILES[dtype] for tile in ((a, b), (b, a))})
    choices = [
        _kernel(products, product, shape, (dtype, step, rate, cores, memory_ns), tile, split)
        for tile in tiles
        for split in _SPLITS
        if split == 1 or _may_split(shape, tile, split, step, cores)
    ]
    if product.vector_ps and min(shape.m, shape.n) == 1:
        outputs = max(shape.m, shape.n) * shape.batch
        choices.append(Choice(max(shape.k * product.vector_ps / 1000, memory_ns), -(-outputs // 32), (1, 32), 1))
    best = min(choices)
    return best._replace(ns=best.ns + products.fixed)


def _may_split(shape: Shape, tile: tuple[int, int], split: int, step: int, cores: int) -> bool:
    """Whether there are too few tiles for all cores, and enough steps for so many parts."""
    part = _part(shape.k, split, step)
    return _tiles(shape, tile) < cores and part >= 2 * step and part * (split - 1) < shape.k


def _part(k: int, split: int, step: int) -> int:
    """Return the elements of k of each part, in whole steps."""
    return -(-k // (split * step)) * step


def _tiles(shape: Shape, tile: tuple[int, int]) -> int:
    return -(-shape.m // tile[0]) * -(-shape.n // tile[1]) * shape.batch


def _kernel(
    products: Products,
    product: Product,
    shape: Shape,
    card: tuple[str, int, float, int, float],
    tile: tuple[int, int],
    split: int,
) -> Choice:
    """Return the kernel with these tiles. *card* has what is the same for all: type, step, rate, cores, memory time."""
    dtype, step, rate, cores, memory_ns = card
    rows, columns = tile
    item = BYTES[dtype]
    blocks = _tiles(shape, tile) * split
    k = _part(shape.k, split, step)
    each = -(-blocks // cores)  # blocks of the core that has the most
    together = max(1, min(product.accumulators // (rows * columns), product.blocks))  # of them, side by side
    step_ns = max(2 * rows * columns / rate, (rows + columns) * item * 1e9 / product.core_read)
    alone_ns = max(product.step_ps / 1000, step_ns * 1000 / product.alone_permille)
    store_ns = rows * columns * item * 1e9 / product.core_write
    waves = -(-each // together)
    ns = max(
        waves * (products.block + k * alone_ns + store_ns),
        products.block + each * (k * step_ns + store_ns),
        memory_ns,
    )
    if split > 1:
        partial_bytes = split * shape.batch * shape.m * shape.n * _PARTIAL
        ns += products.split + 1e9 * partial_bytes / products.split_bytes_per_second
    if each > 2 and product.blocks == 1:
        ns += products.counter
    return Choice(ns, blocks, tile, split)
