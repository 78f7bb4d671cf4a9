"""Fixpipe: copies a result from L0C to GM or L1, and converts, scales and applies ReLU to it on the way.

To scale, each element is converted to float, multiplied by a factor with 1 sign, 8 exponent and 10 mantissa bits, and
rounded to the nearest value, ties to even. Results saturate instead of becoming infinite, and NaN becomes 0.

Scalar modes multiply all elements by one factor, vector modes (V...) each column by its own. The factors of vector
modes are 64-bit words in FB, which DataCopy brings there from L1:

    bits 0-31   the factor, a float whose last 13 bits are ignored
    bits 32-35  the distance less 1 by which int32 is shifted to the right first
    bit  36     whether int32 is shifted, and then saturated to 16 bits
    bits 37-45  the offset that is added to an 8-bit result, -256 to 255
    bit  46     whether an 8-bit result is signed
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.each import array_at, hashable
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import Pipe, Space
from device_model.aicore.core.program import Direction, Flow
from device_model.aicore.core.tensors import LARGEST, GlobalTensor, LocalTensor
from device_model.aicore.cube.mmad import MAX_SIDE, SIDE, Array, CubePlan, CubeUnit, cube_unit, fractals, k0
from device_model.kernel.findings import KernelError

QUANT_BYTES = 2048  # of FB that can hold factors of columns
_INT9 = -256, 255


class QuantMode(Enum):
    """Conversions of Fixpipe: the type in L0C, the possible types of the result, and the kind of factor."""

    NoQuant = ("", (), "")  # float to float, int32 to int32
    F322F16 = ("float32", ("float16",), "")
    F322BF16 = ("float32", ("bfloat16",), "")
    DEQF16 = ("int32", ("float16",), "scalar")
    VDEQF16 = ("int32", ("float16",), "vector")
    QF322B8_PRE = ("float32", ("int8", "uint8"), "scalar")
    VQF322B8_PRE = ("float32", ("int8", "uint8"), "vector")
    REQ8 = ("int32", ("int8", "uint8"), "scalar")
    VREQ8 = ("int32", ("int8", "uint8"), "vector")


class CO2Layout(Enum):
    """The layout that Fixpipe writes: rows, or fractals (NZ)."""

    ROW_MAJOR = 0
    NZ = 1


class FixpipeParams(NamedTuple):
    """Parameters of Fixpipe (Ascend C: FixpipeParams).

    Attributes:
        n_size: Columns of the result, 1 to 4095.
        m_size: Rows of the result.
        src_stride: Rows of a column of fractals in L0C; 0 means *m_size*, rounded up to whole fractals.
        dst_stride: In a result by rows, elements from one row to the next; in NZ, rows of a column of fractals. 0
            leaves no gaps.
        quant_pre: The conversion from the type in L0C to that of the result; NoQuant keeps the type.
        deq_scalar: The factor of scalar modes. Vector modes use the factors that `SetFixPipeConfig` names.
        relu_en: Whether negative results become 0.
        unit_flag: 0: off. 2 or 3: Fixpipe waits for Mmad block by block; with 3, the next Mmad also waits for this
            Fixpipe (see `unit_flags`).
    """

    n_size: int
    m_size: int
    src_stride: int = 0
    dst_stride: int = 0
    quant_pre: QuantMode = QuantMode.NoQuant
    deq_scalar: float = 1.0
    relu_en: bool = False
    unit_flag: int = 0


def trans_quant_param(
    scale: npt.ArrayLike, offset: npt.ArrayLike = 0, *, is_signed: bool = True
) -> npt.NDArray[np.uint64]:
    """Return the words that hold the factors of Fixpipe's vector modes; for the host.

    Args:
        scale: The factor of each column, finite.
        offset: The number that is added to each 8-bit result, -256 to 255.
        is_signed: Whether 8-bit results are int8 or uint8.

    Returns:
        A uint64 for each factor.

    Raises:
        ValueError: A factor is not finite, or an offset is out of range.
    """
    numbers = np.atleast_1d(np.asarray(scale, np.float32))
    added = np.asarray(offset)
    if not np.isfinite(numbers).all() or added.min(initial=0) < _INT9[0] or added.max(initial=0) > _INT9[1]:
        raise ValueError("scales must be finite, and offsets -256 to 255")
    words = numbers.view(np.uint32).astype(np.uint64) & np.uint64(0xFFFFE000)
    words |= (added.astype(np.int64) & 0x1FF).astype(np.uint64) << np.uint64(37)
    return words | np.uint64(is_signed << 46)


def SetFixPipeConfig(tensor: LocalTensor, is_unit_flag: bool = False) -> None:  # Ascend C's order
    """Set the factors of Fixpipe's vector modes on this core (Ascend C: SetFixPipeConfig); no pipe waits.

    Args:
        tensor: uint64 words in the first 2048 bytes of FB (C2PIPE2GM), one for each column. With *is_unit_flag* it may
            be a tensor in L0C instead, and then sets no factors.
        is_unit_flag: Whether the unit flags of all blocks of L0C are cleared first (`unit_flags`).

    Raises:
        KernelError: The core is not a cube core, or *tensor* has the wrong type or place.
    """
    unit = cube_unit()
    if is_unit_flag:
        unit.unit_flags.clear()
        if tensor.memory.space is Space.L0C:
            return
    if tensor.memory.space is not Space.FB or tensor.dtype != np.uint64:
        raise KernelError(f"SetFixPipeConfig({tensor!r})", "give it a tensor of uint64 in FB (C2PIPE2GM)")
    if tensor.address + tensor.nbytes > QUANT_BYTES:
        raise KernelError(
            f"SetFixPipeConfig({tensor!r})",
            f"numbers for columns lie in the first {QUANT_BYTES} bytes of FB: {QUANT_BYTES // 8} columns at a time",
        )
    unit.quant_pre = tensor


def Fixpipe(
    dst: GlobalTensor | LocalTensor,
    src: LocalTensor,
    params: FixpipeParams,
    layout: CO2Layout = CO2Layout.ROW_MAJOR,
) -> None:
    """Copy a result from L0C to GM or L1, converted to the destination's type (Ascend C: Fixpipe).

    Runs on FIX. Order it after M with flags, queues or unit flags.

    Args:
        dst: The tensor in GM, or in L1 with CO2Layout.NZ.
        src: The result in L0C (CO1): float32 or int32.
        params: Sizes, strides, conversion and ReLU.
        layout: Whether rows or fractals are written.

    Raises:
        KernelError: The core is not a cube core, there is no such conversion, a place or size is impossible, or a
            tensor is too small.
    """
    unit = cube_unit()
    # Kernels often make GlobalTensors again, so the place of one is its key.
    place = (
        dst
        if isinstance(dst, LocalTensor)
        else (dst.memory.key, hashable(dst.address), hashable(dst.size), dst.dtype.char, dst.bypass_l2)
    )
    unit.issue_flagged(
        params.unit_flag,
        ("Fixpipe", place, src, params, layout, unit.quant_pre),
        lambda: _plan_fixpipe(unit, dst, src, params, layout),
    )


def _plan_fixpipe(
    unit: CubeUnit, dst: GlobalTensor | LocalTensor, src: LocalTensor, params: FixpipeParams, layout: CO2Layout
) -> CubePlan:
    m, n = params.m_size, params.n_size
    if src.memory.space is not Space.L0C or dst.memory.space not in (Space.GM, Space.L1):
        raise KernelError(f"Fixpipe from {src!r} to {dst!r}", "it goes from L0C to GM or L1")
    quant_pre = _numbers(unit.quant_pre, params, src.dtype, dst.dtype)
    convert = _conversion(params, quant_pre, dst.dtype)
    if not 0 < m <= MAX_SIDE * SIDE or not 0 < n <= MAX_SIDE:
        raise KernelError(f"Fixpipe of {m} x {n}", f"n_size is 1 to {MAX_SIDE}, m_size at least 1")
    if dst.memory.space is Space.L1 and layout is CO2Layout.ROW_MAJOR:
        raise KernelError("Fixpipe row-major to L1", "L1 takes CO2Layout.NZ")
    height = params.src_stride or fractals(m) * SIDE
    columns = fractals(n)
    # Of the last column of fractals only what is copied, for src may begin within the others.
    size = ((columns - 1) * height + m) * SIDE
    if size > src.size or height % SIDE or height < m:
        raise KernelError(
            f"Fixpipe of {m} x {n} from {src!r} with src_stride {height}",
            f"it needs {size} elements, and a stride of whole fractals, {fractals(m) * SIDE} or more",
        )
    itemsize = src.dtype.itemsize
    row = SIDE * itemsize
    cells = np.ndarray((m, columns, SIDE), src.dtype, src.memory.bytes, src.address, (row, height * row, itemsize))
    # It reads whole fractals, as far as src has them.
    stop = src.address + min(columns * height * row, src.nbytes)
    reads: tuple[Range, ...] = ((src.memory, src.address, stop),)
    if quant_pre is not None:
        reads += ((quant_pre.memory, quant_pre.address, quant_pre.address + n * quant_pre.dtype.itemsize),)

    place = _row_major(dst, m, n, params) if layout is CO2Layout.ROW_MAJOR else _fractal(dst, m, n, params)
    target, writes, rows, length, stride = place

    def compute() -> None:
        target(convert(cells.reshape(m, columns * SIDE)[:, :n]))

    spec = unit.core.spec
    if isinstance(dst, LocalTensor):
        rate = spec.local_copy_bytes_per_cycle[Space.L0C, Space.L1]
        return CubePlan(Pipe.FIX, "Fixpipe", spec.copy_issue, -(-rows * length // rate), reads, writes, compute)
    if length == stride:
        rows, length, stride = 1, length * rows, 0
    flow = Flow(Direction.WRITE, "l0c", dst.memory.key, dst.address, length, rows, stride, bypass=dst.bypass_l2)
    return CubePlan(Pipe.FIX, "Fixpipe", 0, 0, reads, writes, compute, flow)


_Place = tuple[Callable[[Array], None], tuple[Range, ...], int, int, int]


def _row_major(dst: GlobalTensor | LocalTensor, m: int, n: int, params: FixpipeParams) -> _Place:
    stride = params.dst_stride or n
    itemsize = dst.dtype.itemsize
    if stride < n or (m - 1) * stride + n > dst.size:
        raise KernelError(f"Fixpipe of {m} x {n} to {dst!r} with dst_stride {stride}", "the rows must fit in it")
    rows = array_at((m, n), dst.dtype, dst.memory.bytes, dst.address, (stride * itemsize, itemsize))

    def store(values: Array) -> None:
        rows()[...] = values

    stop = dst.address + ((m - 1) * stride + n) * itemsize
    written: Range = (dst.memory, dst.address, stop)
    if m > 1 and stride > n:
        written += (n * itemsize, stride * itemsize)
    return store, (written,), m, n * itemsize, stride * itemsize


def _fractal(dst: GlobalTensor | LocalTensor, m: int, n: int, params: FixpipeParams) -> _Place:
    # Float goes out in columns of 16, everything else in rows of 32 bytes.
    width = SIDE if dst.dtype.itemsize == 4 else k0(dst.dtype)
    height = params.dst_stride or fractals(m) * SIDE
    columns = fractals(n, width)
    if height < m or ((columns - 1) * height + m) * width > dst.size:
        raise KernelError(f"Fixpipe of {m} x {n} to {dst!r} with dst_stride {height}", "the fractals must fit in it")
    row = width * dst.dtype.itemsize
    strides = height * row, row, dst.dtype.itemsize
    cells = array_at((columns, m, width), dst.dtype, dst.memory.bytes, dst.address, strides)

    def store(values: Array) -> None:
        whole = np.zeros((m, columns * width), dst.dtype)
        whole[:, :n] = values
        cells()[...] = whole.reshape(m, columns, width).transpose(1, 0, 2)

    written: Range = (dst.memory, dst.address, dst.address + ((columns - 1) * height + m) * row)
    if columns > 1 and height > m:
        written += (m * row, height * row)
    return store, (written,), columns, m * row, height * row


def _numbers(
    quant_pre: LocalTensor | None, params: FixpipeParams, source: np.dtype[Any], to: np.dtype[Any]
) -> LocalTensor | None:
    """Check the mode against the two types; return the factors of columns if the mode takes them."""
    mode, n = params.quant_pre, params.n_size
    from_, targets, factor = mode.value
    if (source != to) if mode is QuantMode.NoQuant else (source.name != from_ or to.name not in targets):
        modes = [each.name for each in QuantMode if each.value[0] == source.name and to.name in each.value[1]]
        remedy = f"take quant_pre={' or '.join(modes)}" if modes else "there is no mode for these types"
        raise KernelError(f"Fixpipe from {source} to {to} with {mode.name}", remedy)
    if factor != "vector":
        return None
    if quant_pre is None:
        raise KernelError(
            f"Fixpipe with {mode.name} without factors of columns",
            "bring uint64 words to FB with DataCopy, and name them with SetFixPipeConfig()",
        )
    if quant_pre.size < n:
        raise KernelError(f"Fixpipe of {n} columns with {mode.name} from {quant_pre!r}", "it takes a word per column")
    return quant_pre


def _conversion(params: FixpipeParams, quant_pre: LocalTensor | None, to: np.dtype[Any]) -> Callable[[Array], Array]:
    """Return the conversion from the type in L0C to the destination's."""
    mode = params.quant_pre

    def convert(values: Array) -> Array:
        if quant_pre is not None:
            return _scaled(values, quant_pre.view[: params.n_size], mode, to, is_cut=params.relu_en)
        if mode.value[2] == "scalar":
            words = trans_quant_param(params.deq_scalar, is_signed=to == np.int8)
            return _scaled(values, words, mode, to, is_cut=params.relu_en)
        if params.relu_en:
            values = np.maximum(values, values.dtype.type(0))
        return values if mode is QuantMode.NoQuant else _saturated(values, to)

    return convert


def _scaled(values: Array, words: npt.NDArray[np.uint64], mode: QuantMode, to: np.dtype[Any], *, is_cut: bool) -> Array:
    """Scale *values* by *words*, one for all columns or one for each."""
    scale = (words & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
    is_signed = words >> np.uint64(46) & np.uint64(1) != 0
    if not np.isfinite(scale).all():
        column = int(np.argmin(np.isfinite(scale)))
        raise KernelError(
            f"Fixpipe with {mode.name} multiplies column {column} with {scale[column]}",
            "each column needs a finite number: bring words for all of them to FB (trans_quant_param() makes them)",
        )
    if to.itemsize == 1 and (is_signed != (to == np.int8)).any():
        raise KernelError(
            f"Fixpipe with {mode.name} to {to}: words say {'uint8' if to == np.int8 else 'int8'}",
            "bit 46 of each word says whether the result is signed (is_signed of trans_quant_param())",
        )
    if values.dtype == np.int32:
        is_shifted = words >> np.uint64(36) & np.uint64(1) != 0
        if is_shifted.any():
            right = (words >> np.uint64(32) & np.uint64(15)).astype(np.int32) + 1
            values = np.where(is_shifted, np.clip(values >> right, -32768, 32767), values)
    numbers = values.astype(np.float32)
    scaled = numbers * scale
    if is_cut:  # by the sign before scaling
        scaled = np.where(numbers < 0, np.float32(0), scaled)
    if to.itemsize > 1:
        return _saturated(scaled, to)
    offset = (words >> np.uint64(37) & np.uint64(0x1FF)).astype(np.int64)
    offset = np.where(offset > _INT9[1], offset - 512, offset)
    whole = np.clip(np.rint(np.nan_to_num(scaled, nan=0.0)), *_INT9).astype(np.int64) + offset
    limits = np.iinfo(to)
    bytes_: Array = np.clip(whole, limits.min, limits.max).astype(to)
    return bytes_


def _saturated(values: Array, to: np.dtype[Any]) -> Array:
    """Convert to half or bfloat16, without infinities and NaN."""
    limit = LARGEST[to.name]
    kept: Array = np.clip(np.nan_to_num(values, nan=0.0, posinf=limit, neginf=-limit), -limit, limit).astype(to)
    return kept
