"""The cube: products of fractals in L0A and L0B, into L0C (Mmad). `cube_loads` fills the former, `fixpipe` empties L0C.

A fractal is 512 bytes: 16 rows of 32 bytes, k0 elements each (half and bfloat16 16, float 8, int8 32). They lie:

    L1   Nz  columns of fractals, one below the other; rows within
    L0A  Zz  rows of fractals, one beside the other; rows of A within
    L0B  Zn  rows of fractals, along k; each holds 16 columns of B, k0 elements long
    L0C  Nz  16 x 16 fractals of float or int32

Half and bfloat16 are multiplied exactly and summed in float; int8 in int32, which wraps.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import KernelError
from device_model.aicore.machine import Core, running
from device_model.aicore.memories import Range
from device_model.aicore.names import CoreType, Pipe, Space
from device_model.aicore.program import Flow
from device_model.aicore.tensors import LocalTensor
from device_model.aicore.unit_flags import UnitFlags

FRACTAL = 512  # bytes
SIDE = 16  # rows of a fractal
ROW = 32  # bytes of a row
CELL = 16 * 16 * 4  # bytes of a fractal in L0C
MAX_SIDE = 4095  # of m, n, k in one Mmad

Array = npt.NDArray[Any]


class MmadParams(NamedTuple):
    """*m* x *k* times *k* x *n*, each up to 4095; *cmatrix_init_val*: into zeros, else added to what L0C holds.

    *unit_flag* 2 or 3: it waits for Fixpipe block by block, and with 3 Fixpipe for it (`unit_flags`).
    """

    m: int
    n: int
    k: int
    cmatrix_init_val: bool = True
    unit_flag: int = 0


class Plan(NamedTuple):
    """An instruction, as `Core.issue` takes it."""

    pipe: Pipe
    name: str
    startup: int
    cycles: int
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    compute: Callable[[], object]
    flow: Flow | None = None


class CubeUnit:
    """The plans of a cube core, by their operands and parameters (see `vector_unit`), and its state beside memories."""

    __slots__ = ("core", "plans", "quant_pre", "unit_flags")

    def __init__(self, core: Core) -> None:
        if core.core_type is not CoreType.AIC:
            raise KernelError(
                f"a cube instruction on {core.program}", "it exists on cube cores: launch the kernel on them"
            )
        self.core = core
        self.plans: dict[Hashable, Plan] = {}
        self.unit_flags = UnitFlags(core)
        self.quant_pre: LocalTensor | None = None  # what Fixpipe multiplies columns with

    def issue(self, key: Hashable, make: Callable[[], Plan]) -> None:
        """Issue the plan of *key*, which *make* makes the first time."""
        self.core.issue(*self._plan(key, make))

    def issue_flagged(self, unit_flag: int, key: Hashable, make: Callable[[], Plan]) -> None:
        """As `issue`, for an instruction that writes (in M) or reads (in FIX) L0C first of all."""
        plan = self._plan(key, make)
        if unit_flag:
            _, start, stop = (plan.writes if plan.pipe is Pipe.M else plan.reads)[0]
            self.unit_flags.issue(unit_flag, plan.pipe, start, stop, plan)
        else:
            self.core.issue(*plan)

    def _plan(self, key: Hashable, make: Callable[[], Plan]) -> Plan:
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = make()
        return plan


def cube_unit() -> CubeUnit:
    """The unit of the core that is running."""
    core = running()
    unit = core.unit
    if unit is None:
        unit = core.unit = CubeUnit(core)
    elif type(unit) is not CubeUnit:
        CubeUnit(core)  # says what is wrong
    assert isinstance(unit, CubeUnit)
    return unit


def k0(dtype: np.dtype[Any]) -> int:
    """Elements in a row of a fractal."""
    return ROW // dtype.itemsize


def fractals(size: int, side: int = SIDE) -> int:
    """How many fractals *size* elements take."""
    return -(-size // side)


# Mmad

# Factors -> what they are summed in.
PRODUCTS = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "int8": "int32"}


def Mmad(
    dst: LocalTensor,
    fm: LocalTensor,
    filter: LocalTensor,  # noqa: A002  # Ascend C's name
    *bias_and_params: Any,
) -> None:
    """L0C = L0A * L0B, as the parameters say: `(dst, fm, filter, params)`.

    `(dst, fm, filter, bias, params)` adds *bias*, n elements in BT, to each row.
    """
    unit = cube_unit()
    *bias, params = bias_and_params
    unit.issue_flagged(
        params.unit_flag,
        ("Mmad", dst, fm, filter, *bias, params),
        lambda: _plan_mmad(unit.core, dst, fm, filter, bias[0] if bias else None, params),
    )


def _plan_mmad(
    core: Core, dst: LocalTensor, fm: LocalTensor, weights: LocalTensor, bias: LocalTensor | None, params: MmadParams
) -> Plan:
    m, n, k, initial, _ = params
    dtype = fm.dtype
    total = _check_mmad(dst, fm, weights, params)
    rows, columns, depth = fractals(m), fractals(n), fractals(k, k0(dtype))
    nbytes = rows * depth * FRACTAL, depth * columns * FRACTAL, rows * columns * CELL
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
    a, b = _left(fm, rows, depth, k), _right(weights, depth, columns, k)
    cells = dst.view[: rows * columns * SIDE * SIDE].reshape(columns, rows, SIDE, SIDE)
    # Doubles hold sums of products of int8 exactly.
    exact = np.dtype(np.float64 if dtype == np.int8 else np.float32)

    def compute() -> None:
        product = a().astype(exact, copy=False) @ b().astype(exact, copy=False)
        product = product.reshape(rows, SIDE, columns, SIDE).transpose(2, 0, 1, 3).astype(total, copy=False)
        if bias is not None:
            wide = np.zeros(columns * SIDE, total)
            wide[:n] = bias.view[:n]
            np.add(product, wide.reshape(columns, 1, 1, SIDE), cells)
        elif initial:
            cells[...] = product
        else:
            cells[...] += product

    return Plan(
        Pipe.M,
        "Mmad",
        core.spec.mmad_startup,
        rows * columns * depth * core.spec.mmad_cycles[dtype.name],
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
    """A out of its fractals."""
    width = k0(fm.dtype)
    pieces = fm.view[: rows * depth * SIDE * width].reshape(rows, depth, SIDE, width).transpose(0, 2, 1, 3)
    return lambda: pieces.reshape(rows * SIDE, depth * width)[:, :k]


def _right(weights: LocalTensor, depth: int, columns: int, k: int) -> Callable[[], Array]:
    """B out of its fractals."""
    width = k0(weights.dtype)
    pieces = weights.view[: depth * columns * SIDE * width].reshape(depth, columns, SIDE, width).transpose(0, 3, 1, 2)
    return lambda: pieces.reshape(depth * width, columns * SIDE)[:k]
