"""The cube: fractals into L0A and L0B (LoadData), products of them into L0C (Mmad), and out of it (Fixpipe).

A fractal is 512 bytes: 16 rows of 32 bytes, k0 elements each (half and bfloat16 16, float 8, int8 32). They lie:

    L1   Nz  columns of fractals, one below the other; rows within
    L0A  Zz  rows of fractals, one beside the other; rows of A within
    L0B  Zn  rows of fractals, along k; each holds 16 columns of B, k0 elements long
    L0C  Nz  16 x 16 fractals of float or int32

Half and bfloat16 are multiplied exactly and summed in float; int8 in int32, which wraps.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import KernelError
from device_model.aicore.machine import Core, running
from device_model.aicore.names import CoreType, Pipe, Space
from device_model.aicore.program import Direction, Flow
from device_model.aicore.tensors import GlobalTensor, LocalTensor

FRACTAL = 512  # bytes
SIDE = 16  # rows of a fractal
ROW = 32  # bytes of a row
CELL = 16 * 16 * 4  # bytes of a fractal in L0C
MAX_SIDE = 4095  # of m, n, k in one Mmad
MAX_REPEATS = 255

Array = npt.NDArray[Any]
Range = tuple[Any, ...]


class LoadData2DParams(NamedTuple):
    """*repeat_times* fractals: the first is number *start_index* of the source, the next *src_stride* on.

    In the destination *dst_gap* fractals lie between two. *if_transpose*: each is transposed (16-bit types).
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 1
    dst_gap: int = 0
    if_transpose: bool = False


class LoadData2dTransposeParams(NamedTuple):
    """*repeat_times* squares: the first is number *start_index* of the source, the next *src_stride* squares on.

    A square is one fractal of a 16-bit type, two of float beside each other, two of int8 one below the other. In the
    destination *dst_gap* fractals lie between the first ones of two squares, *dst_frac_gap* between the two of one.
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 1
    dst_gap: int = 0
    dst_frac_gap: int = 0


class MmadParams(NamedTuple):
    """*m* x *k* times *k* x *n*, each up to 4095; *cmatrix_init_val*: into zeros, else added to what L0C holds."""

    m: int
    n: int
    k: int
    cmatrix_init_val: bool = True


class QuantMode(Enum):
    """What Fixpipe makes of the elements of L0C: (from, to)."""

    NoQuant = ("", "")  # float to float, int32 to int32
    F322F16 = ("float32", "float16")
    F322BF16 = ("float32", "bfloat16")
    DEQF16 = ("int32", "float16")  # times deq_scalar
    QF322B8_PRE = ("float32", "int8")  # times deq_scalar
    REQ8 = ("int32", "int8")  # times deq_scalar


class CO2Layout(Enum):
    """How Fixpipe writes."""

    ROW_MAJOR = 0
    NZ = 1


class FixpipeParams(NamedTuple):
    """*m_size* x *n_size* elements of L0C, whose columns of fractals have *src_stride* rows (0: m_size, rounded up).

    *dst_stride* is, row-major, the elements from one row to the next, and in NZ the rows of a column of fractals.
    """

    n_size: int
    m_size: int
    src_stride: int = 0
    dst_stride: int = 0
    quant_pre: QuantMode = QuantMode.NoQuant
    deq_scalar: float = 1.0
    relu_en: bool = False


class _Plan(NamedTuple):
    pipe: Pipe
    name: str
    startup: int
    cycles: int
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    compute: Callable[[], object]
    flow: Flow | None = None


class CubeUnit:
    """The plans of a cube core, by their operands and parameters (see `vector_unit`)."""

    __slots__ = ("core", "plans")

    def __init__(self, core: Core) -> None:
        if core.core_type is not CoreType.AIC:
            raise KernelError(
                f"a cube instruction on {core.program}", "it exists on cube cores: launch the kernel on them"
            )
        self.core = core
        self.plans: dict[Hashable, _Plan] = {}

    def issue(self, key: Hashable, make: Callable[[], _Plan]) -> None:
        """Issue the plan of *key*, which *make* makes the first time."""
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = make()
        self.core.issue(*plan)


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


# LoadData


def LoadData(dst: LocalTensor, src: LocalTensor, params: LoadData2DParams) -> None:
    """Copy fractals from L1 to L0A or L0B."""
    unit = cube_unit()
    unit.issue(("LoadData", dst, src, params), lambda: _plan_load(unit.core, dst, src, params))


def _plan_load(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData2DParams) -> _Plan:
    _check_load("LoadData", dst, src, params.repeat_times)
    if params.if_transpose and src.dtype.itemsize != 2:
        raise KernelError(
            f"LoadData of {src.dtype} with if_transpose", "it takes 16-bit types; use LoadDataWithTranspose()"
        )
    at = params.start_index + params.src_stride * np.arange(params.repeat_times)
    to = (1 + params.dst_gap) * np.arange(params.repeat_times)
    into, out_of = _by_fractal("LoadData", "dst", dst, to), _by_fractal("LoadData", "src", src, at)
    if params.if_transpose:

        def compute() -> None:
            into[to] = out_of[at].reshape(-1, SIDE, SIDE).transpose(0, 2, 1).reshape(-1, SIDE * SIDE)

    else:

        def compute() -> None:
            into[to] = out_of[at]

    return _Plan(Pipe.MTE1, "LoadData", *_load_cost(core, dst, len(at)), _touch(src, at), _touch(dst, to), compute)


def LoadDataWithTranspose(dst: LocalTensor, src: LocalTensor, params: LoadData2dTransposeParams) -> None:
    """Copy squares from L1 to L0B (or L0A), each transposed: B as it lies in GM becomes what the cube wants."""
    unit = cube_unit()
    unit.issue(("LoadDataWithTranspose", dst, src, params), lambda: _plan_transposed(unit.core, dst, src, params))


def _plan_transposed(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData2dTransposeParams) -> _Plan:
    name = "LoadDataWithTranspose"
    _check_load(name, dst, src, params.repeat_times)
    width = k0(src.dtype)
    each = 1 if width == SIDE else 2
    repeats = np.arange(params.repeat_times)
    squares = params.start_index + params.src_stride * repeats
    at = (squares[:, None] * each + np.arange(each)).ravel()
    to = (repeats[:, None] * (1 + params.dst_gap) + np.arange(each) * (1 + params.dst_frac_gap)).ravel()
    into, out_of = _by_fractal(name, "dst", dst, to), _by_fractal(name, "src", src, at)

    def compute() -> None:
        pieces = out_of[at].reshape(-1, each, SIDE, width)
        if width < SIDE:  # beside each other
            side = pieces.transpose(0, 2, 1, 3).reshape(-1, SIDE, SIDE).transpose(0, 2, 1)
            turned = side.reshape(-1, SIDE, each, width).transpose(0, 2, 1, 3)
        else:  # one below the other
            turned = pieces.reshape(-1, each * SIDE, width).transpose(0, 2, 1)
        into[to] = turned.reshape(len(to), -1)

    return _Plan(Pipe.MTE1, name, *_load_cost(core, dst, len(at)), _touch(src, at), _touch(dst, to), compute)


def _check_load(name: str, dst: LocalTensor, src: LocalTensor, repeats: int) -> None:
    if src.memory.space is not Space.L1 or dst.memory.space not in (Space.L0A, Space.L0B):
        raise KernelError(f"{name} from {src!r} to {dst!r}", "it goes from L1 (A1, B1) to L0A (A2) or L0B (B2)")
    if dst.dtype != src.dtype or dst.dtype.name not in PRODUCTS:
        raise KernelError(f"{name} from {src.dtype} to {dst.dtype}", f"both are of one of {', '.join(PRODUCTS)}")
    if src.address % ROW or dst.address % FRACTAL:
        raise KernelError(
            f"{name} from byte {src.address} of L1 to byte {dst.address} of {dst.memory.name}",
            f"L1 is addressed in multiples of {ROW} bytes, L0A and L0B of {FRACTAL}",
        )
    if not 0 < repeats <= MAX_REPEATS:
        raise KernelError(f"{name} with {repeats} repeats", f"an instruction takes 1 to {MAX_REPEATS}")


def _by_fractal(name: str, role: str, tensor: LocalTensor, numbers: Array) -> Array:
    """*tensor* as rows of fractals; *numbers* must lie in it."""
    size = FRACTAL // tensor.dtype.itemsize
    if numbers.min() < 0 or numbers.max() >= tensor.size // size:
        raise KernelError(
            f"{name}: {role} has {tensor.size // size} fractals and the instruction reaches number {numbers.max()}",
            "check start_index, strides and gaps",
        )
    return tensor.view[: tensor.size // size * size].reshape(-1, size)


def _touch(tensor: LocalTensor, numbers: Array) -> tuple[Range, ...]:
    """The bytes of fractals *numbers* of *tensor*."""
    numbers = np.unique(numbers)
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    start = tensor.address + int(numbers[0]) * FRACTAL
    stop = tensor.address + int(numbers[-1] + 1) * FRACTAL
    if step == 1 and len(numbers) == numbers[-1] - numbers[0] + 1:
        return ((tensor.memory, start, stop),)
    if (np.diff(numbers) == step).all():
        return ((tensor.memory, start, stop, FRACTAL, step * FRACTAL),)
    first = tensor.address + numbers * FRACTAL
    return tuple((tensor.memory, int(at), int(at) + FRACTAL) for at in first)


def _load_cost(core: Core, dst: LocalTensor, count: int) -> tuple[int, int]:
    rate = core.spec.local_copy_bytes_per_cycle[Space.L1, dst.memory.space]
    return core.spec.load_issue, -(-count * FRACTAL // rate)


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
    unit.issue(
        ("Mmad", dst, fm, filter, *bias, params),
        lambda: _plan_mmad(unit.core, dst, fm, filter, bias[0] if bias else None, params),
    )


def _plan_mmad(
    core: Core, dst: LocalTensor, fm: LocalTensor, weights: LocalTensor, bias: LocalTensor | None, params: MmadParams
) -> _Plan:
    m, n, k, initial = params
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

    return _Plan(
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


# Fixpipe


def Fixpipe(
    dst: GlobalTensor | LocalTensor,
    src: LocalTensor,
    params: FixpipeParams,
    layout: CO2Layout = CO2Layout.ROW_MAJOR,
) -> None:
    """Bring a result from L0C to GM or L1, turned into the destination's type and with relu_en cut at 0."""
    unit = cube_unit()
    # A GlobalTensor is often made anew: its place is its key.
    place = (
        dst if isinstance(dst, LocalTensor) else (dst.memory.key, dst.address, dst.size, dst.dtype.char, dst.bypass_l2)
    )
    unit.issue(("Fixpipe", place, src, params, layout), lambda: _plan_fixpipe(unit.core, dst, src, params, layout))


def _plan_fixpipe(
    core: Core, dst: GlobalTensor | LocalTensor, src: LocalTensor, params: FixpipeParams, layout: CO2Layout
) -> _Plan:
    m, n = params.m_size, params.n_size
    if src.memory.space is not Space.L0C or dst.memory.space not in (Space.GM, Space.L1):
        raise KernelError(f"Fixpipe from {src!r} to {dst!r}", "it goes from L0C to GM or L1")
    convert = _conversion(params, src.dtype, dst.dtype)
    if not 0 < m <= MAX_SIDE * SIDE or not 0 < n <= MAX_SIDE:
        raise KernelError(f"Fixpipe of {m} x {n}", f"n_size is 1 to {MAX_SIDE}, m_size at least 1")
    if dst.memory.space is Space.L1 and layout is CO2Layout.ROW_MAJOR:
        raise KernelError("Fixpipe row-major to L1", "L1 takes CO2Layout.NZ")
    height = params.src_stride or fractals(m) * SIDE
    columns = fractals(n)
    size = columns * height * SIDE
    if size > src.size or height % SIDE or height < m:
        raise KernelError(
            f"Fixpipe of {m} x {n} from {src!r} with src_stride {height}",
            f"it needs {size} elements, and a stride of whole fractals, {fractals(m) * SIDE} or more",
        )
    cells = src.view[:size].reshape(columns, height, SIDE)
    reads = ((src.memory, src.address, src.address + size * src.dtype.itemsize),)

    def values() -> Array:
        """Row-major, of the destination's type."""
        return convert(cells.transpose(1, 0, 2).reshape(height, columns * SIDE)[:m, :n])

    place = _row_major(dst, m, n, params) if layout is CO2Layout.ROW_MAJOR else _fractal(dst, m, n, params)
    target, writes, rows, length, stride = place

    def compute() -> None:
        target(values())

    if isinstance(dst, LocalTensor):
        rate = core.spec.local_copy_bytes_per_cycle[Space.L0C, Space.L1]
        return _Plan(Pipe.FIX, "Fixpipe", core.spec.copy_issue, -(-rows * length // rate), reads, writes, compute)
    if length == stride:
        rows, length, stride = 1, length * rows, 0
    flow = Flow(Direction.WRITE, "l0c", dst.memory.key, dst.address, length, rows, stride, bypass=dst.bypass_l2)
    return _Plan(Pipe.FIX, "Fixpipe", 0, 0, reads, writes, compute, flow)


_Place = tuple[Callable[[Array], None], tuple[Range, ...], int, int, int]


def _row_major(dst: GlobalTensor | LocalTensor, m: int, n: int, params: FixpipeParams) -> _Place:
    stride = params.dst_stride or n
    itemsize = dst.dtype.itemsize
    if stride < n or (m - 1) * stride + n > dst.size:
        raise KernelError(f"Fixpipe of {m} x {n} to {dst!r} with dst_stride {stride}", "the rows must fit in it")
    rows = np.ndarray((m, n), dst.dtype, dst.memory.bytes, dst.address, (stride * itemsize, itemsize))

    def store(values: Array) -> None:
        rows[...] = values

    stop = dst.address + ((m - 1) * stride + n) * itemsize
    written: Range = (dst.memory, dst.address, stop)
    if m > 1 and stride > n:
        written += (n * itemsize, stride * itemsize)
    return store, (written,), m, n * itemsize, stride * itemsize


def _fractal(dst: GlobalTensor | LocalTensor, m: int, n: int, params: FixpipeParams) -> _Place:
    # Float goes out in columns of 16, all else in rows of 32 bytes.
    width = SIDE if dst.dtype.itemsize == 4 else k0(dst.dtype)
    height = params.dst_stride or fractals(m) * SIDE
    columns = fractals(n, width)
    if height < m or ((columns - 1) * height + m) * width > dst.size:
        raise KernelError(f"Fixpipe of {m} x {n} to {dst!r} with dst_stride {height}", "the fractals must fit in it")
    row = width * dst.dtype.itemsize
    cells = np.ndarray(
        (columns, m, width), dst.dtype, dst.memory.bytes, dst.address, (height * row, row, dst.dtype.itemsize)
    )

    def store(values: Array) -> None:
        whole = np.zeros((m, columns * width), dst.dtype)
        whole[:, :n] = values
        cells[...] = whole.reshape(m, columns, width).transpose(1, 0, 2)

    written: Range = (dst.memory, dst.address, dst.address + ((columns - 1) * height + m) * row)
    if columns > 1 and height > m:
        written += (m * row, height * row)
    return store, (written,), columns, m * row, height * row


def _conversion(params: FixpipeParams, source: np.dtype[Any], to: np.dtype[Any]) -> Callable[[Array], Array]:
    """From L0C's type to the destination's."""
    mode = params.quant_pre
    expected = mode.value if mode is not QuantMode.NoQuant else (source.name, source.name)
    if (source.name, to.name) != expected:
        modes = [each.name for each in QuantMode if each.value == (source.name, to.name)]
        remedy = f"take quant_pre={modes[0]}" if modes else "there is no mode for these types"
        raise KernelError(f"Fixpipe from {source} to {to} with {mode.name}", remedy)
    scale = np.float32(params.deq_scalar)

    def convert(values: Array) -> Array:
        if mode in (QuantMode.DEQF16, QuantMode.QF322B8_PRE, QuantMode.REQ8):
            values = values.astype(np.float32) * scale
        if params.relu_en:
            values = np.maximum(values, values.dtype.type(0))
        if to == np.int8:
            values = np.clip(np.rint(values), -128, 127)
        return values.astype(to, copy=False)

    return convert
