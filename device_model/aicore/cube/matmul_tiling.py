"""The tiling of a matrix product: first over cores, then into pieces that fit L1, L0A, L0B and L0C.

`multi_core_matmul_tiling` tries all sizes of pieces that fit and all ways to divide C over the cores. It prices each by
the slowest of three things on the busiest core: Mmad, LoadData, and the copies from GM.
"""

from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import BLOCK, Space
from device_model.aicore.core.packed import bytes_of, elements_in
from device_model.aicore.core.tensors import dtype_of
from device_model.aicore.cube.mmad import FRACTAL, SIDE, k0
from device_model.aicore.timing.gm import LINE
from device_model.kernel.findings import KernelError


class MatmulPolicy(Enum):
    """Which pieces of C a Matmul computes and stores, and how L1 is used (Ascend C: MatmulPolicy).

    A piece has base_m x base_n elements, and its row and column are counted in pieces of this core's C. Those that are
    left out stay as they were.
    """

    NORMAL = 0  # all
    TRIAN_UPPER = 1  # those on the diagonal and above it (TrianUpperMatmulPolicy)
    TRIAN_LOWER = 2  # those on the diagonal and below it (TrianLowerMatmulPolicy)
    # All: L1 keeps A of this core, of 3 x 3 pieces at most, and two columns of B in turn (NBuffer33MatmulPolicy).
    N_BUFFER_33 = 3


MOST_PIECES = 3  # of A, down and across, with N_BUFFER_33


@dataclass(frozen=True, slots=True)
class TCubeTiling:
    """The tiling of C = A * B + bias, with the fields of Ascend C's structure. All sizes are in elements.

    Attributes:
        m: Rows of A and of C.
        n: Columns of B and of C.
        ka: Columns of A.
        kb: Rows of B, the same as *ka*.
        single_core_m: Rows of C that one core computes.
        single_core_n: Columns of C that one core computes.
        single_core_k: The length of the sums of one core, that is, columns of A.
        base_m: Rows of a piece of C in L0C.
        base_n: Columns of a piece of C in L0C.
        base_k: The length of the sums of one Mmad.
        depth_a1: How many pieces of A (base_m x base_k) L1 holds.
        depth_b1: How many pieces of B (base_k x base_n) L1 holds.
        step_m: 1, as pieces of A in further rows are slots of their own in L1; with MatmulPolicy.N_BUFFER_33, how many
            rows of pieces of A L1 keeps.
        step_n: Always 1: pieces of B in further columns are slots of their own in L1.
        step_ka: How many pieces of A one copy to L1 brings.
        step_kb: How many pieces of B one copy to L1 brings.
        db_l0a: The number of buffers in L0A, 1 or 2.
        db_l0b: The number of buffers in L0B, 1 or 2.
        db_l0c: The number of buffers in L0C, 1 or 2.
        is_bias: Whether a bias is added.
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
        """The number of parts that the rows of C are divided into, one for each core."""
        return -(-self.m // self.single_core_m)

    @property
    def blocks_n(self) -> int:
        """The number of parts that the columns of C are divided into, one for each core."""
        return -(-self.n // self.single_core_n)

    @property
    def used_core_num(self) -> int:
        """The number of cores that compute a part of C."""
        return self.blocks_m * self.blocks_n

    def part(self, core: int) -> tuple[int, int, int, int]:
        """Return the part of C that core number *core* computes: first row, first column, rows, columns."""
        row = core % self.blocks_m * self.single_core_m
        column = core // self.blocks_m * self.single_core_n
        return row, column, min(self.single_core_m, self.m - row), min(self.single_core_n, self.n - column)

    def workspace_bytes(
        self,
        cores: int,
        *,
        a: npt.DTypeLike | None = None,
        b: npt.DTypeLike | None = None,
        bias: npt.DTypeLike | None = None,
    ) -> int:
        """Return the bytes of GM through which the cube cores hand results to the UB of *cores* vector cores.

        Args:
            cores: The number of vector cores.
            a: The type of A, if it lies in UB. It then needs room, too.
            b: The same for B.
            bias: The same for the bias.
        """
        m, n, k = self.single_core_m, self.single_core_n, self.single_core_k
        operands = ((a, room_for(m, k)), (b, room_for(k, n)), (bias, n))
        rooms = sum(room_bytes(dtype_of(dtype), size) for dtype, size in operands if dtype is not None)
        return cores * (WORKSPACE_TILES * self.base_m * self.base_n * 4 + rooms)


WORKSPACE_TILES = 2  # per vector core: one is read while the other is written


def room_for(down: int, across: int) -> int:
    """Return the elements of room for a matrix, in any layout: as if its sides were whole fractals of any type."""
    return _whole(down, _WIDEST) * _whole(across, _WIDEST)


_WIDEST = 64  # elements of int4b_t in a row of a fractal


def room_bytes(dtype: np.dtype[Any], size: int) -> int:
    """Return the bytes of *size* elements, in whole blocks of 32 bytes."""
    return _whole(bytes_of(dtype, size), BLOCK)


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
    policy: MatmulPolicy = MatmulPolicy.NORMAL,
    l1_bytes: int | None = None,
) -> TCubeTiling:
    """Return the fastest tiling of *m* x *k* times *k* x *n* elements (Ascend C: MultiCoreMatmulTiling).

    The time of a tiling is that of its busiest core: the slowest of Mmad, LoadData and the copies from GM, for which
    all cores share the L2. Of equally fast tilings, it takes the one that copies the fewest bytes from GM. Parts of
    cores may end at any fractal. It also tries parts of whole pieces and of whole L2 lines, because a row of B that
    begins within a line costs one line more.

    Args:
        spec: The cores of the card: `profile.aicore`.
        m: Rows of A and C.
        n: Columns of B and C.
        k: Columns of A and rows of B.
        dtype: The type of A and B.
        cores: The number of cores. For a kernel with vector cores that request products, the number of these.
        is_bias: Whether a bias is added.
        fix_split: (base_m, base_n, base_k), if the sizes of the pieces are given.
        policy: The policy of the Matmul. With N_BUFFER_33, A of each core is 3 x 3 pieces at most, and fits L1 with two
            columns of B.
        l1_bytes: How much of L1 the product may take, such as a half if two objects are registered together (Ascend C:
            SetBufferSpace); by default all.

    Raises:
        ValueError: A size or the number of cores is below 1, or *l1_bytes* is, or above what a core has.
        KernelError: The pieces of *fix_split* do not fit the memories of a core, or A is too large for N_BUFFER_33.
    """
    type_, keeps_a = dtype_of(dtype), policy is MatmulPolicy.N_BUFFER_33
    if min(m, n, k, cores) < 1:
        raise ValueError(f"a product of {m} x {k} x {n} on {cores} cores: all must be 1 or more")
    if l1_bytes is not None:
        if not 0 < l1_bytes <= spec.l1_bytes:
            raise ValueError(f"multi_core_matmul_tiling with l1_bytes {l1_bytes}: it is 1 to {spec.l1_bytes}")
        spec = replace(spec, l1_bytes=l1_bytes)
    best: tuple[tuple[float, int], TCubeTiling] | None = None
    for base in [fix_split] if fix_split else _bases(spec, type_):
        for parts_m in range(1, min(cores, -(-m // SIDE)) + 1):
            parts_n = min(cores // parts_m, -(-n // SIDE))
            for grain in product((base[0], SIDE), (elements_in(type_, LINE), SIDE)):
                tiling = _cut(m, n, k, base, (parts_m, parts_n), grain, is_bias=is_bias)
                if keeps_a:
                    tiling = _keeping_a(tiling)
                    if why_no_n_buffer(spec, tiling, type_):
                        continue
                price = _price(spec, tiling, type_, keeps_a=keeps_a)
                if best is None or price < best[0]:
                    best = price, tiling
    if best is None:
        raise KernelError(
            f"a product of {m} x {k} x {n} on {cores} cores with {policy}",
            "A of a core is 3 x 3 pieces at most: take more cores, or another policy",
        )
    return _with_buffers(spec, best[1], type_, keeps_a=keeps_a)


def _keeping_a(tiling: TCubeTiling) -> TCubeTiling:
    """Return *tiling* with all of A, and two columns of B, in L1."""
    down, along = (-(-tiling.single_core_m // tiling.base_m), -(-tiling.single_core_k // tiling.base_k))
    return replace(tiling, step_m=down, step_ka=along, step_kb=along, depth_a1=down * along, depth_b1=2 * along)


def why_no_n_buffer(spec: Any, tiling: TCubeTiling, dtype: np.dtype[Any]) -> str:
    """Return why MatmulPolicy.N_BUFFER_33 cannot take *tiling*; "" if it can."""
    down, along = -(-tiling.single_core_m // tiling.base_m), -(-tiling.single_core_k // tiling.base_k)
    if max(down, along) > MOST_PIECES:
        return f"A of a core is 3 x 3 pieces at most, not {down} x {along}"
    wanted = {"step_ka": along, "step_kb": along, "depth_a1": down * along, "depth_b1": 2 * along}
    for field, value in wanted.items():
        if getattr(tiling, field) != value:
            return f"{field} must be {value}, not {getattr(tiling, field)}"
    a, b = (bytes_of(dtype, side * tiling.base_k) for side in (tiling.base_m, tiling.base_n))
    nbytes, room = tiling.depth_a1 * a + tiling.depth_b1 * b, _room(spec, tiling)
    return f"its pieces take {nbytes} bytes of L1, and there are {room}" if nbytes > room else ""


def _room(spec: Any, tiling: TCubeTiling) -> int:
    """Return the bytes of L1 for pieces of A and B, beside those of the bias."""
    return int(spec.space_bytes[Space.L1]) - (tiling.base_n * 4 + 64 if tiling.is_bias else 0)


def _bases(spec: Any, dtype: np.dtype[Any]) -> list[tuple[int, int, int]]:
    """Return sizes of pieces that fit L0C, each with the largest base_k at which A and B fit half of L0A and L0B."""
    width = k0(dtype)
    half_a, half_b = (elements_in(dtype, spec.space_bytes[space] // 2) for space in (Space.L0A, Space.L0B))
    bases = []
    for base_m in (256, 128, 64, 32, 16):
        for base_n in (256, 128, 64, 32):
            base_k = min(half_a // base_m, half_b // base_n, 256) // max(width, SIDE)
            if base_k and base_m * base_n * 4 <= spec.space_bytes[Space.L0C]:
                bases.append((base_m, base_n, base_k * max(width, SIDE)))
    return bases


def _cut(
    m: int, n: int, k: int, base: tuple[int, int, int], parts: tuple[int, int], grain: tuple[int, int], *, is_bias: bool
) -> TCubeTiling:
    """Return the tiling of C into at most *parts* (down, across), whose sizes are multiples of *grain*."""
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
    """Return *size*, rounded up to a multiple of *side*, by default that of a fractal."""
    return -(-size // side) * side


def _price(spec: Any, tiling: TCubeTiling, dtype: np.dtype[Any], *, keeps_a: bool) -> tuple[float, int]:
    """Return the cycles of the busiest core (the slowest of Mmad, LoadData and copies), and the bytes from GM."""
    rates = spec.local_copy_bytes_per_cycle
    m, n, k = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
    tiles_m, tiles_n = -(-m // tiling.base_m), -(-n // tiling.base_n)
    rows, columns, depth = -(-m // SIDE), -(-n // SIDE), -(-k // k0(dtype))
    mmad = rows * columns * depth * spec.mmad_cycles[dtype.name]
    a, b = tiles_n * rows * depth * FRACTAL, tiles_m * columns * depth * FRACTAL
    load = a / rates[Space.L1, Space.L0A] + b / rates[Space.L1, Space.L0B]
    waste = 0
    if any(bytes_of(dtype, size) % LINE for size in (tiling.n, tiling.base_n, n if tiling.blocks_n > 1 else 0)):
        waste = LINE  # bytes for each row of B
    down, across = _tiles(tiling.m, m, tiling.base_m), _tiles(tiling.n, n, tiling.base_n)
    if keeps_a:  # each core copies its A and its B once
        tiles_m = tiles_n = 1
        down, across = tiling.blocks_m, tiling.blocks_n
    one = tiles_n * bytes_of(dtype, m * k) + tiles_m * k * (bytes_of(dtype, n) + tiles_n * waste)
    all_ = across * bytes_of(dtype, tiling.m * k) + down * k * (bytes_of(dtype, tiling.n) + across * waste)
    copies = max(one / spec.l1_read_gbps, all_ / spec.l2_gbps) * spec.mhz / 1000
    return max(mmad, load, copies), all_


def _tiles(size: int, part: int, base: int) -> int:
    """Return the number of pieces when *size* is divided into parts of *part*, and these into pieces of *base*."""
    whole, rest = divmod(size, part)
    return whole * -(-part // base) - (-rest // base)


def _with_buffers(spec: Any, tiling: TCubeTiling, dtype: np.dtype[Any], *, keeps_a: bool) -> TCubeTiling:
    """Return *tiling* with double buffers where they fit, and as many pieces for each copy as L1 has room for."""
    a, b = (bytes_of(dtype, side * tiling.base_k) for side in (tiling.base_m, tiling.base_n))
    c = tiling.base_m * tiling.base_n * 4
    space, room = spec.space_bytes, _room(spec, tiling)
    steps = -(-tiling.single_core_k // tiling.base_k)
    step = 1
    while step * 2 <= min(steps, 8) and 2 * step * 2 * (a + b) <= room:
        step *= 2
    slots = 2 if 2 * step * (a + b) <= room else 1
    if slots * step * (a + b) > room or max(a, b) > min(space[Space.L0A], space[Space.L0B]) or c > space[Space.L0C]:
        raise KernelError(
            f"pieces of {tiling.base_m} x {tiling.base_n} over {tiling.base_k} do not fit the core", "give smaller ones"
        )
    if not keeps_a:
        tiling = replace(tiling, depth_a1=slots * step, depth_b1=slots * step, step_ka=step, step_kb=step)
    return replace(
        tiling,
        db_l0a=2 if 2 * a <= space[Space.L0A] else 1,
        db_l0b=2 if 2 * b <= space[Space.L0B] else 1,
        db_l0c=2 if 2 * c <= space[Space.L0C] else 1,
    )
