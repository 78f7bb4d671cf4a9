"""The forward kernel of FlashAttention for blocks of threads: out = softmax(Q K^T / sqrt(d)) V.

A block computes b_r queries of one head, each warp its own of them. It walks over the keys and values in tiles of b_c,
from the last to the first, and never has more than a tile of scores. For each query it keeps the largest score so far,
the sum of the shares, and the mixture of the values; a larger score scales sum and mixture down.

Each step has two waits and two barriers. The first shows the keys, and that nobody reads the values of the step before
any more; the second shows the values, and that nobody reads the keys any more. An eager kernel starts the copy of the
next tile right behind these barriers, so that it runs beside a product.
"""

from functools import cache
from typing import Any

import numpy as np
from aicore import Shape
from config import PIECE, SIDE, StaticForwardKernelConfig
from shared_tiles import GSMemLdstConfig, Tile, keys_of, queries_of, values_of

from acl_py import cta

UNSEEN = np.float32(-np.inf)  # the score of a key that a query does not see
LOG2_E = np.float32(np.log2(np.e))


def show_copies() -> None:
    """Wait for the copies of each thread, and show them to all."""
    cta.wait_group(0)
    cta.syncthreads()


class Softmax:
    """The online softmax of a warp's queries. Each row of scores is in four lanes, in two halves of a fragment."""

    def __init__(self, rows: int, d: int, *, optimized: bool) -> None:
        self.optimized = optimized
        self.scale = np.float32(d**-0.5) * (LOG2_E if optimized else np.float32(1))
        self.largest = cta.full((rows, 2), UNSEEN)
        self.total = cta.zeros((rows, 2))

    def shares(self, scores: Any) -> tuple[Any, Any]:
        """Return the shares of *scores*, (threads, m, n, 4), and by what the mixture so far is multiplied."""
        by_row = scores.reshape(*scores.shape[:3], 2, 2)
        if not self.optimized:
            by_row = by_row * self.scale
        largest = np.maximum(self.largest, by_row.max(axis=(2, 4)))
        for lanes in (1, 2):
            largest = np.maximum(largest, cta.shfl_xor(largest, lanes))
        # A row that has seen no key yet: an infinity less itself would be no number.
        highest = cta.select(largest == UNSEEN, np.float32(0), largest)
        if self.optimized:
            highest = highest * self.scale
            shares = np.exp2(cta.fma(by_row, self.scale, -highest[:, :, None, :, None]))
            factor = np.exp2(cta.fma(self.largest, self.scale, -highest))
        else:
            shares = np.exp(by_row - highest[:, :, None, :, None])
            factor = np.exp(self.largest - highest)
        self.total = cta.fma(self.total, factor, shares.sum(axis=(2, 4)))
        self.largest = largest
        return shares.reshape(scores.shape), factor

    def share_of_one(self) -> Any:
        """Return the reciprocal of the sum of each row's shares."""
        total = self.total
        for lanes in (1, 2):
            total = total + cta.shfl_xor(total, lanes)
        return 1 / total


def product(left: Any, right: Any, acc: Any, parts: int, *, is_double_buffered: bool) -> Any:
    """Return *acc* plus the product, loading *parts* parts of the operands at a time; 0: all before the product.

    *left* and *right* are functions of (part, parts) that return fragments; double-buffered, those of the next parts
    are loaded before this one's mma.
    """
    depth = right.depth
    parts = parts or depth
    loaded = left(0, parts), right.load(0, parts)
    for part in range(0, depth, parts):
        now, following = loaded, part + parts
        if is_double_buffered and following < depth:
            loaded = left(following, parts), right.load(following, parts)
        acc = cta.tile_mma(*now, acc)
        if not is_double_buffered and following < depth:
            loaded = left(following, parts), right.load(following, parts)
    return acc


class Block:
    """What a block has: its tiles, its queries, and how far it is."""

    def __init__(self, config: StaticForwardKernelConfig, shape: Shape) -> None:
        self.config, self.shape = config, shape
        d, copies = config.d_head, (config.n_warps, config.swizzled, config.async_copy)
        self.q = Tile(GSMemLdstConfig(config.b_r, d, *copies), config.dtype, "Q")
        self.k = Tile(GSMemLdstConfig(config.b_c, d, *copies), config.dtype, "K")
        self.v = Tile(GSMemLdstConfig(config.b_c, d, *copies), config.dtype, "V")
        self.queries, self.keys, self.values = queries_of(self.q), keys_of(self.k), values_of(self.v)
        self.first = cta.block[0] * config.b_r
        rows = config.warp_rows // SIDE
        self.softmax = Softmax(rows, d, optimized=config.optimized_softmax)
        self.acc = cta.zeros((rows, d // 8, 4))

    def steps(self) -> range:
        """The first key of each step, from last to first."""
        _, queries, keys, _, causal = self.shape
        last = min(self.first + self.config.b_r, queries)
        seen = last + keys - queries if causal else keys
        return range((seen - 1) // self.config.b_c * self.config.b_c, -1, -self.config.b_c)

    def scores(self, held: Any) -> Any:
        """Return the scores of this step. *held* are the fragments of all queries, or None if they come by part."""
        config = self.config

        def left(part: int, parts: int) -> Any:
            return self.queries.load(part, parts) if held is None else held[:, :, part : part + parts]

        parts = [each for each in (config.q_load_k_tiles, config.k_load_k_tiles) if each]
        rows = config.warp_rows // SIDE
        acc = cta.zeros((rows, config.b_c // 8, 4))
        return product(left, self.keys, acc, min(parts, default=0), is_double_buffered=config.mma_double_buffer_loads)

    def hide(self, scores: Any, key: int) -> Any:
        """Lower the scores of keys that are beyond the last one, or beyond the position of their query."""
        _, queries, keys, _, causal = self.shape
        own = self.first + keys - queries  # the position of the first query
        is_ragged, is_diagonal = key + self.config.b_c > keys, causal and key + self.config.b_c - 1 > own
        if not (is_ragged or is_diagonal):
            return scores
        _, m, n, _ = scores.shape
        pair = np.arange(n)[:, None] * 8 + np.arange(4) % 2
        column = key + pair[None, None] + (cta.lane % 4 * 2)[:, None, None, None]
        seen = column < keys
        if is_diagonal:
            row = np.arange(m)[:, None, None] * SIDE + np.arange(4) // 2 * 8
            first = own + cta.warp * self.config.warp_rows + cta.lane // 4
            seen = seen & (column <= row[None] + first[:, None, None, None])
        return cta.select(seen, scores, UNSEEN)

    def mix(self, scores: Any) -> tuple[Any, Any]:
        """Return the shares of *scores* as the left operand of P V; scale the mixture so far."""
        shares, factor = self.softmax.shares(scores)
        self.acc = (self.acc.reshape(*self.acc.shape[:3], 2, 2) * factor[:, :, None, :, None]).reshape(self.acc.shape)
        threads, m, n, _ = shares.shape
        return shares.astype(self.config.dtype).reshape(threads, m, n // 2, 8)

    def add(self, shares: Any) -> None:
        """Add the product of *shares* and the values of this step."""
        self.acc = product(
            lambda part, parts: shares[:, :, part : part + parts],
            self.values,
            self.acc,
            self.config.v_load_k_tiles,
            is_double_buffered=self.config.mma_double_buffer_loads,
        )

    def finish(self, out: Any) -> None:
        """Store the mixture, through the queries' shared memory: each warp uses its own rows only."""
        whole = self.acc.reshape(*self.acc.shape[:3], 2, 2) * self.softmax.share_of_one()[:, :, None, :, None]
        self.q.put(whole.reshape(self.acc.shape).astype(self.config.dtype))
        cta.syncwarp()
        self.q.store(out, self.first, self.shape.queries)


def forward(config: StaticForwardKernelConfig, shape: Shape, q: Any, k: Any, v: Any, out: Any) -> None:
    """Compute one block. The arrays have the shape (heads, length, pieces, 8)."""
    head = cta.block[1]
    block = Block(config, shape)
    steps = block.steps()
    block.q.load(q[head], block.first, shape.queries)
    if config.eager_load_blocks:
        block.k.load(k[head], steps[0], shape.keys)
        cta.commit_group()
    held = None
    for key in steps:
        if not config.eager_load_blocks:
            block.k.load(k[head], key, shape.keys)
            cta.commit_group()
        show_copies()  # K, and with the first step Q
        if config.eager_load_blocks:
            block.v.load(v[head], key, shape.keys)
            cta.commit_group()
        if held is None and not config.q_load_k_tiles:
            held = block.queries.load(0, block.queries.depth)
        shares = block.mix(block.hide(block.scores(held), key))
        if not config.eager_load_blocks:
            block.v.load(v[head], key, shape.keys)
            cta.commit_group()
        show_copies()  # V
        if config.eager_load_blocks and key:
            block.k.load(k[head], key - config.b_c, shape.keys)
            cta.commit_group()
        block.add(shares)
    block.finish(out[head])


@cache
def kernel_of(config: StaticForwardKernelConfig) -> cta.BlockKernelFunction:
    """Return the kernel of *config*: `await kernel_of(config)[grid, stream](q, k, v, out, shape)`."""

    @cta.kernel(threads=config.threads, shared=config.shared_bytes, registers=128)
    def flash_forward(q: cta.In, k: cta.In, v: cta.In, out: cta.Out, shape: Shape) -> None:
        forward(config, shape, q, k, v, out)

    flash_forward.allow_shared(config.shared_bytes)
    return flash_forward


def grid_of(config: StaticForwardKernelConfig, heads: int, queries: int) -> tuple[int, int]:
    """Return the blocks of a launch: parts of the queries, by heads."""
    return -(-queries // config.b_r), heads


def shape_of(config: StaticForwardKernelConfig, heads: int, length: int) -> tuple[int, int, int, int]:
    """Return the shape of an argument: (heads, length, pieces, 8)."""
    return heads, length, config.d_head // PIECE, PIECE
