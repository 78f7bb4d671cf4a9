"""What is fixed when a forward kernel is made: tiles, copies, fragments, softmax. See forward.py."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

WARP = 32
SIDE = 16  # rows and depth of an mma, columns of a pair of them
PIECE = 8  # elements that a thread copies at a time: 16 bytes of two bytes each
DTYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


@dataclass(frozen=True)
class StaticForwardKernelConfig:
    """A variant of the forward kernel; one that cannot be compiled raises ValueError, with each rule that it violates.

    Attributes:
        d_head: The width of a query, a key and a value: 64 or 128.
        b_r: The queries of a block.
        b_c: The keys and values of a step.
        n_warps: The warps of a block; each computes its own part of the queries.
        dtype: Of queries, keys, values and results: float16 or bfloat16.
        async_copy: Whether tiles are copied with cp.async, and not through registers.
        eager_load_blocks: Whether the copy of the next tile starts before the product of this one.
        swizzled: Whether pieces of 16 bytes are permuted in shared memory, so that ldmatrix has no conflicts.
        q_load_k_tiles: How many 16-wide parts of the queries are in registers at a time; 0: all, loaded once.
        k_load_k_tiles: The same for the keys, of each product; 0: all, loaded before the product.
        v_load_k_tiles: The same for the values.
        mma_double_buffer_loads: Whether the parts for the next mma are loaded before this one.
        optimized_softmax: Whether scale and maximum are one multiply-add, and the exponential has base 2.
    """

    d_head: int = 128
    b_r: int = 64
    b_c: int = 64
    n_warps: int = 4
    dtype: np.dtype[Any] = DTYPES[0]
    async_copy: bool = True
    eager_load_blocks: bool = False
    swizzled: bool = False
    q_load_k_tiles: int = 0
    k_load_k_tiles: int = 0
    v_load_k_tiles: int = 0
    mma_double_buffer_loads: bool = False
    optimized_softmax: bool = False

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise ValueError(f"{self} is no kernel: {'; '.join(problems)}")

    def problems(self) -> list[str]:
        """Return a sentence for each rule that is violated."""
        depths = {
            "q_load_k_tiles": (self.q_load_k_tiles, self.d_head),
            "k_load_k_tiles": (self.k_load_k_tiles, self.d_head),
            "v_load_k_tiles": (self.v_load_k_tiles, self.b_c),
        }
        rules = [
            (np.dtype(self.dtype) in DTYPES, f"dtype is float16 or bfloat16, not {np.dtype(self.dtype)}"),
            (self.d_head in (64, 128), f"d_head is 64 or 128, not {self.d_head}"),
            (1 <= self.n_warps <= 32, f"a block has 1 to 32 warps, not {self.n_warps}"),
            (
                self.b_r > 0 and self.b_r % (SIDE * max(self.n_warps, 1)) == 0,
                f"b_r is a multiple of {SIDE} queries for each warp: of {SIDE * self.n_warps}, and {self.b_r} is not",
            ),
            (self.b_c > 0 and self.b_c % SIDE == 0, f"b_c is a multiple of {SIDE}, and {self.b_c} is not"),
            (
                self.b_c % max(self.rows_at_a_time * self.n_warps, 1) == 0,
                f"b_c is a multiple of the {self.rows_at_a_time * self.n_warps} rows that the warps copy at a time",
            ),
            (
                self.async_copy or not self.eager_load_blocks,
                "eager_load_blocks needs async_copy: a copy through registers is done when it returns",
            ),
            (
                not self.mma_double_buffer_loads or any(tiles for tiles, _ in depths.values()),
                "mma_double_buffer_loads needs parts: with q_, k_ and v_load_k_tiles = 0 all is loaded at once",
            ),
            *(
                (
                    tiles >= 0 and (not tiles or depth // SIDE % tiles == 0),
                    f"{name} = {tiles} does not divide the {depth // SIDE} parts of {depth}",
                )
                for name, (tiles, depth) in depths.items()
            ),
        ]
        return [sentence for holds, sentence in rules if not holds]

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.n_warps * WARP

    @property
    def pieces(self) -> int:
        """The pieces of 16 bytes of a row."""
        return self.d_head // PIECE

    @property
    def rows_at_a_time(self) -> int:
        """The rows that a warp copies with one instruction."""
        return max(WARP // max(self.pieces, 1), 1)

    @property
    def warp_rows(self) -> int:
        """The queries of a warp."""
        return self.b_r // self.n_warps

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block: a tile of queries, one of keys and one of values."""
        return (self.b_r + 2 * self.b_c) * self.d_head * self.dtype.itemsize


STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("base", {}),
    ("swizzled", {"swizzled": True}),
    ("eager copies", {"eager_load_blocks": True}),
    ("fragments by part", {"k_load_k_tiles": 2, "v_load_k_tiles": 2}),
    ("double buffer", {"mma_double_buffer_loads": True}),
    ("optimised softmax", {"optimized_softmax": True}),
)


def progression(**base: Any) -> list[tuple[str, StaticForwardKernelConfig]]:
    """Return the steps from the base to the fastest kernel, each with its name; *base* is the same in all."""
    fields = dict(base)
    steps = []
    for name, change in STEPS:
        fields |= change
        steps.append((name, StaticForwardKernelConfig(**fields)))
    return steps
