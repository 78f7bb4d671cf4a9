"""How a matrix product is cut: over cores, then into pieces that fit L1, L0A, L0B and L0C."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.findings import KernelError
from device_model.aicore.core.names import Space
from device_model.aicore.cube.mmad import FRACTAL, SIDE, k0
from device_model.aicore.timing.gm import LINE


@dataclass(frozen=True, slots=True)
class TCubeTiling:
    """The tiling of C = A * B + bias, with Ascend C's fields.

    The whole product is *m* x *n* over *ka* (*kb* is the same); one core has *single_core_m* x *single_core_n* over
    *single_core_k* of it, in pieces of *base_m* x *base_n* over *base_k*. L1 holds *depth_a1* pieces of A and
    *depth_b1* of B; one copy brings *step_ka* (*step_kb*) of them. *db_l0a*, *db_l0b*, *db_l0c* are 2 where a buffer is
    doubled. *step_m* and *step_n* are 1: chunks of more rows are slots of their own here.
    """

    m: int
    n: int
    ka: int
    kb: int
    single_core_m: int
    single_core_n: int
    single_core_k: int
    base_m: int
    base_n: int
    base_k: int
    depth_a1: int = 1
    depth_b1: int = 1
    step_m: int = 1
    step_n: int = 1
    step_ka: int = 1
    step_kb: int = 1
    db_l0a: int = 1
    db_l0b: int = 1
    db_l0c: int = 1
    is_bias: bool = False

    @property
    def blocks_m(self) -> int:
        """Into how many parts the rows are cut over cores."""
        return -(-self.m // self.single_core_m)

    @property
    def blocks_n(self) -> int:
        """Into how many parts the columns are cut over cores."""
        return -(-self.n // self.single_core_n)

    @property
    def used_core_num(self) -> int:
        """How many cores have a part of the product."""
        return self.blocks_m * self.blocks_n

    def part(self, core: int) -> tuple[int, int, int, int]:
        """The part of number *core*: first row, first column, rows, columns."""
        row = core % self.blocks_m * self.single_core_m
        column = core // self.blocks_m * self.single_core_n
        return row, column, min(self.single_core_m, self.m - row), min(self.single_core_n, self.n - column)

    def workspace_bytes(self, cores: int) -> int:
        """Bytes of GM that *cores* vector cores need to hand results over in UB."""
        return cores * WORKSPACE_TILES * self.base_m * self.base_n * 4


WORKSPACE_TILES = 2  # per vector core: one is read while the other is written


def multi_core_matmul_tiling(
    spec: Any,
    m: int,
    n: int,
    k: int,
    dtype: npt.DTypeLike,
    *,
    cores: int,
    is_bias: bool = False,
    fix_split: tuple[int, int, int] | None = None,
) -> TCubeTiling:
    """A tiling of *m* x *k* times *k* x *n* elements of *dtype* on *cores* cores (as MultiCoreMatmulTiling gives).

    It takes the cut with the fewest cycles of the busiest core, those of the slowest of Mmad, LoadData and the copies
    from GM, for which all cores share the L2; of equal ones, that which brings least from GM. It is cut between any
    fractals, or between pieces and where lines of the L2 end: rows of B that begin within a line bring a line more.
    *fix_split* fixes (base_m, base_n, base_k).
    """
    known = np.dtype(dtype)
    if min(m, n, k, cores) < 1:
        raise ValueError(f"a product of {m} x {k} x {n} on {cores} cores: all must be 1 or more")
    best: tuple[tuple[float, int], TCubeTiling] | None = None
    for base in [fix_split] if fix_split else _bases(spec, known):
        for parts_m in range(1, min(cores, -(-m // SIDE)) + 1):
            parts_n = min(cores // parts_m, -(-n // SIDE))
            for grain in product((base[0], SIDE), (LINE // known.itemsize, SIDE)):
                tiling = _cut(m, n, k, base, (parts_m, parts_n), grain, is_bias=is_bias)
                price = _price(spec, tiling, known)
                if best is None or price < best[0]:
                    best = price, tiling
    assert best is not None
    return _with_buffers(spec, best[1], known)


def _bases(spec: Any, dtype: np.dtype[Any]) -> list[tuple[int, int, int]]:
    """Pieces of C that fit L0C, with the largest k for which A and B fit half of L0A and L0B."""
    width, itemsize = k0(dtype), dtype.itemsize
    half_a, half_b = spec.space_bytes[Space.L0A] // 2, spec.space_bytes[Space.L0B] // 2
    bases = []
    for base_m in (256, 128, 64, 32, 16):
        for base_n in (256, 128, 64, 32):
            base_k = min(half_a // (base_m * itemsize), half_b // (base_n * itemsize), 256) // max(width, SIDE)
            if base_k and base_m * base_n * 4 <= spec.space_bytes[Space.L0C]:
                bases.append((base_m, base_n, base_k * max(width, SIDE)))
    return bases


def _cut(
    m: int, n: int, k: int, base: tuple[int, int, int], parts: tuple[int, int], grain: tuple[int, int], *, is_bias: bool
) -> TCubeTiling:
    """Into so many *parts* down and across at most, of so many rows and columns, or a multiple."""
    base_m, base_n, base_k = (min(size, _whole(of)) for size, of in zip(base, (m, n, k), strict=True))
    return TCubeTiling(
        m=m,
        n=n,
        ka=k,
        kb=k,
        single_core_m=min(_whole(-(-m // parts[0]), grain[0]), m),
        single_core_n=min(_whole(-(-n // parts[1]), grain[1]), n),
        single_core_k=k,
        base_m=base_m,
        base_n=base_n,
        base_k=base_k,
        is_bias=is_bias,
    )


def _whole(size: int, side: int = SIDE) -> int:
    """*size* in whole fractals, or what else has *side* elements."""
    return -(-size // side) * side


def _price(spec: Any, tiling: TCubeTiling, dtype: np.dtype[Any]) -> tuple[float, int]:
    """Cycles of the busiest core, of the slowest of Mmad, LoadData and the copies from GM; then bytes from GM."""
    itemsize, rates = dtype.itemsize, spec.local_copy_bytes_per_cycle
    m, n, k = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
    tiles_m, tiles_n = -(-m // tiling.base_m), -(-n // tiling.base_n)
    rows, columns, depth = -(-m // SIDE), -(-n // SIDE), -(-k // k0(dtype))
    mmad = rows * columns * depth * spec.mmad_cycles[dtype.name]
    a, b = tiles_n * rows * depth * FRACTAL, tiles_m * columns * depth * FRACTAL
    load = a / rates[Space.L1, Space.L0A] + b / rates[Space.L1, Space.L0B]
    waste = 0
    if any(size * itemsize % LINE for size in (tiling.n, tiling.base_n, n if tiling.blocks_n > 1 else 0)):
        waste = LINE  # of each row of B
    one = tiles_n * m * k * itemsize + tiles_m * k * (n * itemsize + tiles_n * waste)
    down, across = _tiles(tiling.m, m, tiling.base_m), _tiles(tiling.n, n, tiling.base_n)
    all_ = across * tiling.m * k * itemsize + down * k * (tiling.n * itemsize + across * waste)
    copies = max(one / spec.l1_read_gbps, all_ / spec.l2_gbps) * spec.mhz / 1000
    return max(mmad, load, copies), all_


def _tiles(size: int, part: int, base: int) -> int:
    """How many pieces *size* has in parts of *part*, each cut into pieces of *base*."""
    whole, rest = divmod(size, part)
    return whole * -(-part // base) - (-rest // base)


def _with_buffers(spec: Any, tiling: TCubeTiling, dtype: np.dtype[Any]) -> TCubeTiling:
    """Double buffers where they fit, and as many steps along k as L1 takes."""
    itemsize = dtype.itemsize
    a, b = tiling.base_m * tiling.base_k * itemsize, tiling.base_n * tiling.base_k * itemsize
    c = tiling.base_m * tiling.base_n * 4
    space = spec.space_bytes
    room = space[Space.L1] - (tiling.base_n * 4 + 64 if tiling.is_bias else 0)
    steps = -(-tiling.single_core_k // tiling.base_k)
    step = 1
    while step * 2 <= min(steps, 8) and 2 * step * 2 * (a + b) <= room:
        step *= 2
    slots = 2 if 2 * step * (a + b) <= room else 1
    if slots * step * (a + b) > room or max(a, b) > min(space[Space.L0A], space[Space.L0B]) or c > space[Space.L0C]:
        raise KernelError(
            f"pieces of {tiling.base_m} x {tiling.base_n} over {tiling.base_k} do not fit the core", "give smaller ones"
        )
    return replace(
        tiling,
        depth_a1=slots * step,
        depth_b1=slots * step,
        step_ka=step,
        step_kb=step,
        db_l0a=2 if 2 * a <= space[Space.L0A] else 1,
        db_l0b=2 if 2 * b <= space[Space.L0B] else 1,
        db_l0c=2 if 2 * c <= space[Space.L0C] else 1,
    )
