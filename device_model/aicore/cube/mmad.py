"""The cube: Mmad multiplies fractals in L0A and L0B into L0C. `loads` fills L0A and L0B, `fixpipe` empties L0C.

A fractal is 512 bytes: 16 rows of 32 bytes, of k0 elements each (half and bfloat16 16, float 8, int8 32, int4b_t 64).
Each memory holds its fractals in an order of its own:

    L1   Nz  columns of fractals, one below the other; rows within
    L0A  Zz  rows of fractals, one beside the other; rows of A within
    L0B  Zn  rows of fractals, along k; each holds 16 columns of B, k0 elements long
    L0C  Nz  16 x 16 fractals of float or int32

Half and bfloat16 are multiplied exactly and summed in float; int8 and int4b_t in int32, which wraps.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import CoreType, Pipe, Space
from device_model.aicore.core.packed import bytes_of, elements_in, int4b_t, unpack
from device_model.aicore.core.program import Flow
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.cube.unit_flags import UnitFlags
from device_model.kernel.findings import KernelError

FRACTAL = 512  # bytes
SIDE = 16  # rows of a fractal
ROW = 32  # bytes of a row
CELL = 16 * 16 * 4  # bytes of a fractal in L0C
MAX_SIDE = 4095  # of m, n, k in one Mmad

Array = npt.NDArray[Any]


class MmadParams(NamedTuple):
    """Parameters of Mmad (Ascend C: MmadParams).

    Attributes:
        m: Rows of the left factor, 1 to 4095.
        n: Columns of the right factor, 1 to 4095.
        k: Columns of the left factor and rows of the right one, 1 to 4095.
        cmatrix_init_val: Whether the product replaces the contents of L0C; otherwise it is added to them.
        unit_flag: 0: off. 2 or 3: Mmad waits for Fixpipe block by block; with 3, Fixpipe also waits for this Mmad (see
            `unit_flags`).
    """

    m: int
    n: int
    k: int
    cmatrix_init_val: bool = True
    unit_flag: int = 0


class HF32Mode(Enum):
    """Whether Mmad rounds factors of float to HF32, with 11 bits behind the point (Ascend C: HF32Mode)."""

    DISABLE = 0
    ENABLE = 1


class HF32TransMode(Enum):
    """Which of two numbers of HF32 that are equally near is taken (Ascend C: HF32TransMode)."""

    NEAREST_EVEN = 0
    NEAREST_ZERO = 1  # the one nearer to zero


_HF32_BELOW = 12  # bits of a float that HF32 does not have


class CubePlan(NamedTuple):
    """The arguments of `Core.issue` for one instruction."""

    pipe: Pipe
    name: str
    startup: int
    cycles: int
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    compute: Callable[[], object]
    flow: Flow | None = None


class CubeUnit:
    """The plans of a cube core, by their operands and parameters (see `vector.unit`), its unit flags and factors."""

    __slots__ = (
        "core",
        "fmatrix",
        "hf32",
        "hf32_trans",
        "load_padding",
        "nz2nd",
        "plans",
        "pre_quant",
        "quant_pre",
        "sparse_indices",
        "unit_flags",
    )

    def __init__(self, core: Core) -> None:
        if core.core_type is not CoreType.AIC:
            raise KernelError(
                f"a cube instruction on {core.program}",
                "only cube cores have it: launch the kernel as AIC_ONLY or mixed, and put it under `if ASCEND_IS_AIC:`",
            )
        self.core = core
        self.plans: dict[Hashable, CubePlan] = {}
        self.unit_flags = UnitFlags(core)
        self.quant_pre: LocalTensor | None = None  # factors of columns for Fixpipe
        self.hf32 = HF32Mode.DISABLE  # whether Mmad rounds float to HF32
        self.hf32_trans = HF32TransMode.NEAREST_EVEN
        self.fmatrix: tuple[int, int, tuple[int, int, int, int]] | None = None  # what SetFmatrix has set
        self.load_padding: float = 0  # what SetLoadDataPaddingValue has set
        self.nz2nd: tuple[int, int, int] | None = None  # what SetFixpipeNz2ndFlag has set
        self.pre_quant: float | None = None  # what SetFixpipePreQuantFlag has set
        self.sparse_indices: Array | None = None  # what LoadDataWithSparse has loaded

    def issue(self, key: Hashable, make: Callable[[], CubePlan]) -> None:
        """Issue the plan of *key*; *make* makes it the first time."""
        self.core.issue(*self._plan(key, make))

    def issue_flagged(self, unit_flag: int, key: Hashable, make: Callable[[], CubePlan]) -> None:
        """Do as `issue`, for an instruction whose first range is L0C: written by M or read by FIX."""
        plan = self._plan(key, make)
        if unit_flag:
            _, start, stop = (plan.writes if plan.pipe is Pipe.M else plan.reads)[0]
            self.unit_flags.issue(unit_flag, plan.pipe, start, stop, plan)
        else:
            self.core.issue(*plan)

    def _plan(self, key: Hashable, make: Callable[[], CubePlan]) -> CubePlan:
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = make()
        return plan


def cube_unit() -> CubeUnit:
    """Return the cube unit of the core that runs the caller."""
    core = running()
    unit = core.unit
    if unit is None:
        unit = core.unit = CubeUnit(core)
    elif type(unit) is not CubeUnit:
        CubeUnit(core)  # raises the error
    assert isinstance(unit, CubeUnit)
    return unit


def k0(dtype: np.dtype[Any]) -> int:
    """Return the number of elements in a row of a fractal."""
    return elements_in(dtype, ROW)


def fractals(size: int, side: int = SIDE) -> int:
    """Return the number of fractals that *size* elements take."""
    return -(-size // side)


# Mmad

# Type of the factors -> type of the sums.
PRODUCTS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "int8": "int32", "int4": "int32"}


def Mmad(
    dst: LocalTensor,
    fm: LocalTensor,
    filter: LocalTensor,  # noqa: A002  # Ascend C's name
    *bias_and_params: Any,
) -> None:
    """Multiply two matrices: dst = fm * filter, or dst += fm * filter (Ascend C: Mmad).

    Runs on the cube pipe (M). Order it after MTE1, which loads the factors, and before FIX, with flags or queues, or
    with unit flags.

    Args:
        dst: The result in L0C (CO1), m x n in Nz: float32, or int32 for int8 and int4b_t. It starts at a multiple of
            1024 bytes.
        fm: The left factor in L0A (A2), m x k in Zz: half, bfloat16, float32, int8 or int4b_t. With m of 1 the card
            reads it as a vector: k elements in a row, and no fractals.
        filter: The right factor in L0B (B2), k x n in Zn, of the type of *fm*. Both start at multiples of 512 bytes.
        bias_and_params: `params`, the `MmadParams`; or `bias, params` with *bias* a tensor of n elements in BT (C2),
            of the type of *dst*, which is added to each row.

    Raises:
        KernelError: The core is not a cube core, a type, place or size is impossible, or a tensor is too small.
    """
    unit = cube_unit()
    *bias, params = bias_and_params
    rounding = unit.hf32_trans if unit.hf32 is HF32Mode.ENABLE and fm.dtype == np.float32 else None
    unit.issue_flagged(
        params.unit_flag,
        ("Mmad", dst, fm, filter, *bias, params, rounding),
        lambda: _plan_mmad(unit.core, dst, fm, filter, bias[0] if bias else None, params, rounding),
    )


def SetHF32Mode(mode: HF32Mode) -> None:
    """Let Mmad round factors of float to HF32, which takes half the time, or not (Ascend C: SetHF32Mode).

    Raises:
        KernelError: The core is not a cube core, or *mode* is no HF32Mode.
    """
    if not isinstance(mode, HF32Mode):
        raise KernelError(f"SetHF32Mode({mode!r})", "give it HF32Mode.ENABLE or HF32Mode.DISABLE")
    cube_unit().hf32 = mode


def SetHF32TransMode(mode: HF32TransMode) -> None:
    """Set how floats are rounded to HF32 (Ascend C: SetHF32TransMode).

    Raises:
        KernelError: The core is not a cube core, or *mode* is no HF32TransMode.
    """
    if not isinstance(mode, HF32TransMode):
        raise KernelError(
            f"SetHF32TransMode({mode!r})", "give it HF32TransMode.NEAREST_EVEN or HF32TransMode.NEAREST_ZERO"
        )
    cube_unit().hf32_trans = mode


def _as_hf32(factor: Array, mode: HF32TransMode) -> Array:
    """Return floats rounded to HF32."""
    bits = np.ascontiguousarray(factor).view(np.uint32)
    half_less_one = np.uint32((1 << (_HF32_BELOW - 1)) - 1)
    odd = (bits >> np.uint32(_HF32_BELOW)) & np.uint32(1)
    added = bits + half_less_one + (odd if mode is HF32TransMode.NEAREST_EVEN else np.uint32(0))
    return (added & np.uint32(0xFFFF_FFFF << _HF32_BELOW & 0xFFFF_FFFF)).view(np.float32)


def _plan_mmad(
    core: Core,
    dst: LocalTensor,
    fm: LocalTensor,
    weights: LocalTensor,
    bias: LocalTensor | None,
    params: MmadParams,
    rounding: HF32TransMode | None,
) -> CubePlan:
    m, n, k, initial, _ = params
    dtype = fm.dtype
    total = _check_mmad(dst, fm, weights, params)
    rows, columns, depth = fractals(m), fractals(n), fractals(k, k0(dtype))
    left = bytes_of(dtype, k) if m == 1 else rows * depth * FRACTAL
    nbytes = left, depth * columns * FRACTAL, rows * columns * CELL
    for role, tensor, needed in (("fm", fm, nbytes[0]), ("filter", weights, nbytes[1]), ("dst", dst, nbytes[2])):
        if needed > tensor.nbytes:
            raise KernelError(f"Mmad of {m} x {k} x {n}: {role} has {tensor.nbytes} bytes", f"it needs {needed}")
    reads: list[Range] = [
        (fm.memory, fm.address, fm.address + nbytes[0]),
        (weights.memory, weights.address, weights.address + nbytes[1]),
    ]
    target = (dst.memory, dst.address, dst.address + nbytes[2])
    if bias is not None:
        if bias.memory.space is not Space.BT or bias.dtype != total or bias.size < n:
            raise KernelError(f"Mmad with bias {bias!r}", f"it is {n} elements of {total} in BT (C2)")
        reads.append((bias.memory, bias.address, bias.address + n * bias.dtype.itemsize))
    elif not initial:
        reads.append(target)
    a = (lambda: _numbers(fm, k).reshape(1, k)) if m == 1 else _left(fm, rows, depth, k)
    b = _right(weights, depth, columns, k)
    cells = dst.view[: rows * columns * SIDE * SIDE].reshape(columns, rows, SIDE, SIDE)
    # Doubles hold sums of products of integers exactly.
    exact = np.dtype(np.float64 if total == np.int32 else np.float32)

    def compute() -> None:
        left, right = a().astype(exact, copy=False), b().astype(exact, copy=False)
        if rounding is not None:
            left, right = _as_hf32(left, rounding), _as_hf32(right, rounding)
        product = left @ right
        if m == 1:
            product = np.pad(product, ((0, SIDE - 1), (0, 0)))
        product = product.reshape(rows, SIDE, columns, SIDE).transpose(2, 0, 1, 3).astype(total, copy=False)
        if bias is not None:
            wide = np.zeros(columns * SIDE, total)
            wide[:n] = bias.view[:n]
            np.add(product, wide.reshape(columns, 1, 1, SIDE), cells)
        elif initial:
            cells[...] = product
        else:
            cells[...] += product

    return CubePlan(
        Pipe.M,
        "Mmad",
        core.spec.mmad_startup,
        rows * columns * depth * (1 if rounding else core.spec.mmad_cycles[dtype.name]),
        tuple(reads),
        (target,),
        compute,
    )


def _check_mmad(dst: LocalTensor, fm: LocalTensor, weights: LocalTensor, params: MmadParams) -> np.dtype[Any]:
    places = (dst.memory.space, fm.memory.space, weights.memory.space)
    if places != (Space.L0C, Space.L0A, Space.L0B):
        raise KernelError(f"Mmad from {fm!r} and {weights!r} to {dst!r}", "it goes from L0A and L0B to L0C")
    total = PRODUCTS.get(fm.dtype.name)
    if total is None or weights.dtype != fm.dtype or dst.dtype.name != total:
        types = ", ".join(f"{factor} to {result}" for factor, result in PRODUCTS.items())
        raise KernelError(f"Mmad of {fm.dtype} and {weights.dtype} to {dst.dtype}", f"it takes two of a type: {types}")
    if not all(0 < size <= MAX_SIDE for size in params[:3]):
        raise KernelError(f"Mmad with {params}", f"m, n and k are 1 to {MAX_SIDE}")
    for tensor, alignment in ((fm, FRACTAL), (weights, FRACTAL), (dst, CELL)):
        if tensor.address % alignment:
            raise KernelError(f"Mmad: {tensor!r}", f"it must start at a multiple of {alignment} bytes")
    return np.dtype(total)


def _left(fm: LocalTensor, rows: int, depth: int, k: int) -> Callable[[], Array]:
    """Return a function that reads A from its fractals."""
    width = k0(fm.dtype)

    def read() -> Array:
        pieces = _numbers(fm, rows * depth * SIDE * width).reshape(rows, depth, SIDE, width).transpose(0, 2, 1, 3)
        return pieces.reshape(rows * SIDE, depth * width)[:, :k]

    return read


def _right(weights: LocalTensor, depth: int, columns: int, k: int) -> Callable[[], Array]:
    """Return a function that reads B from its fractals."""
    width = k0(weights.dtype)

    def read() -> Array:
        pieces = _numbers(weights, depth * columns * SIDE * width).reshape(depth, columns, SIDE, width)
        return pieces.transpose(0, 3, 1, 2).reshape(depth * width, columns * SIDE)[:k]

    return read


def _numbers(factor: LocalTensor, count: int) -> Array:
    """Return the first *count* elements of a factor; of int4b_t as int8."""
    return (
        unpack(factor.view[: bytes_of(factor.dtype, count)])[:count] if factor.dtype is int4b_t else factor.view[:count]
    )
