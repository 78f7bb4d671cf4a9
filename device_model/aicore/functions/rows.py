"""Functions of the rows of a matrix, and of GM: Broadcast, Sum and Fill."""

from collections.abc import Sequence
from operator import index as integer
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.blocks import ASCEND_IS_AIC
from device_model.aicore.core.machine import running
from device_model.aicore.core.names import BLOCK, HardEvent, RoundMode, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.functions.scratch import temporary
from device_model.aicore.moving.constants import InitConstValueParams, fill_local
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.vector.elementwise import FLOATS, Adds, Cast, typed
from device_model.aicore.vector.fill import Copy, CopyRepeatParams, Duplicate
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams, brcb_first
from device_model.aicore.vector.masks import MAX_REPEATS, REPEAT
from device_model.aicore.vector.reduce_repeats import WholeReduceSum
from device_model.aicore.vector.unit import check_count, check_type, vector_unit
from device_model.kernel.findings import KernelError

BYTES = ("int8", "uint8")
MOST_ROWS = 240  # that Broadcast makes with one Brcb, less than the repeats of an instruction
FILLED = 65_280  # bytes of UB that Fill copies at once: a Duplicate of 255 repeats


class Rows:
    """Tensors one behind the other in a temporary buffer, of which function *name* takes what it needs."""

    def __init__(self, name: str, buffer: LocalTensor) -> None:
        self._name = name
        self._buffer = buffer
        self._used = -buffer.address % BLOCK

    @property
    def room(self) -> int:
        """The bytes that are left."""
        return self._buffer.nbytes - self._used

    def take(self, dtype: np.dtype[Any], size: int) -> LocalTensor:
        """Return the next *size* elements of *dtype*, in whole blocks."""
        nbytes = -(-size * dtype.itemsize // BLOCK) * BLOCK
        if nbytes > self.room:
            raise KernelError(
                f"{self._name}: a temporary buffer of {self._buffer.nbytes} bytes",
                f"it needs {nbytes - self.room} more: give it a larger one, or let it take the rest of the UB",
            )
        unit = vector_unit()
        key = "rows", self._buffer.address + self._used, dtype, size
        tensor = unit.scratch.get(key)
        if tensor is None:
            tensor = unit.scratch[key] = LocalTensor(dtype, TPosition.VECCALC, self._buffer.address + self._used, size)
        self._used += nbytes
        taken: LocalTensor = tensor
        return taken


# Broadcast


def Broadcast(
    dst: LocalTensor,
    src: LocalTensor,
    dst_shape: Sequence[int],
    src_shape: Sequence[int],
    tmp: LocalTensor | None = None,
) -> None:
    """Repeat a row, a column or a number to fill a matrix or vector (Ascend C: Broadcast).

    Made of Brcb, Copy and GatherMask.

    Args:
        dst: The tensor to write, in UB: half, float, int8 or uint8.
        src: The tensor to read, of the same type.
        dst_shape: The shape of dst: (n) or (m, n).
        src_shape: The shape of src: (1), (m, 1) or (1, n); rows of (1, n) are whole blocks of 32 bytes.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.

    Raises:
        KernelError: A type or shape is impossible, a tensor is too small, or the temporary buffer is.
    """
    check_type("Broadcast", "dst", dst, (*FLOATS, *BYTES))
    check_type("Broadcast", "src", src, (dst.dtype.name,))
    to, at = tuple(map(integer, dst_shape)), tuple(map(integer, src_shape))
    m, n = (1, *to)[-2:]
    rows, columns = (1, *at)[-2:]
    if len(to) != len(at) or len(to) not in (1, 2) or min(m, n) < 1 or (rows, columns) not in ((m, 1), (1, n)):
        raise KernelError(
            f"Broadcast of {at} to {to}", "a shape has 1 or 2 dimensions, and one of src's is 1 where dst's is larger"
        )
    for role, tensor, size in (("dst", dst, m * n), ("src", src, rows * columns)):
        if tensor.size < size:
            raise KernelError(f"Broadcast of {at} to {to}", f"{role} has {tensor.size} elements")
    if columns > 1 and columns * dst.dtype.itemsize % BLOCK:
        raise KernelError(f"Broadcast of {at} to {to}", f"rows of {dst.dtype} are whole blocks of {BLOCK} bytes")
    buffer = Rows("Broadcast", temporary("Broadcast", tmp, dst, src))
    if dst.dtype.itemsize == 1:
        wide, out = buffer.take(half, rows * columns), buffer.take(half, m * n)
        Cast(wide, src, RoundMode.CAST_NONE, rows * columns)
        _broadcast(out, wide, m, n, columns, buffer)
        Cast(dst, out, RoundMode.CAST_NONE, m * n)
    else:
        _broadcast(dst, src, m, n, columns, buffer)


def _broadcast(dst: LocalTensor, src: LocalTensor, m: int, n: int, columns: int, buffer: Rows) -> None:
    if columns == n and n > 1:
        _copy_rows(dst, src, m, n, 0)
        return
    per_block = BLOCK // dst.dtype.itemsize
    padded = -(-n // per_block) * per_block
    # Rows at a time: a block for each, and with padding the rows themselves.
    each = BLOCK + (padded * dst.dtype.itemsize if padded != n else 0)
    # A block of src at least, so that the next rows of it begin at one, too.
    count = min(-(-m // per_block), buffer.room // each // per_block, MOST_ROWS // per_block) * per_block
    count = max(count, per_block)
    blocks = buffer.take(dst.dtype, count * per_block)
    whole = buffer.take(dst.dtype, count * padded) if padded != n else None
    for row in range(0, m, count):
        rows = min(count, m - row)
        brcb_first(blocks, src[row:], rows)
        if whole is None:
            _copy_rows(dst[row * n :], blocks, rows, n, 1)
        else:
            _copy_rows(whole, blocks, rows, padded, 1)
            params = GatherMaskParams(1, rows, padded // per_block, 0)
            GatherMask(dst[row * n :], whole, 7, True, n, params)


def _copy_rows(dst: LocalTensor, src: LocalTensor, m: int, n: int, step: int) -> None:
    """Copy to *m* rows of *n* elements: the same row to all (*step* 0), or block i through row i (*step* 1)."""
    per_block = BLOCK // dst.dtype.itemsize
    lanes = REPEAT // dst.dtype.itemsize
    apart = n // per_block
    for column in range(0, n, lanes):
        mask = min(lanes, n - column)
        for row in range(0, m, MAX_REPEATS if apart <= MAX_REPEATS else 1):
            repeats = min(MAX_REPEATS, m - row) if apart <= MAX_REPEATS else 1
            part = src[row * per_block :] if step else src[column:]
            params = CopyRepeatParams(1, 0 if step else 1, apart if repeats > 1 else 8, step)
            Copy(dst[row * n + column :], part, mask, repeats, params)


# Sum


class SumParams(NamedTuple):
    """The rows of Sum (Ascend C: SumParams).

    Attributes:
        outter: The number of rows.
        inner: From the start of a row to the next, in elements; whole blocks of 32 bytes.
        n: The elements of a row that are added.
    """

    outter: int
    inner: int
    n: int


def Sum(
    dst: LocalTensor, src: LocalTensor, tmp: LocalTensor | SumParams | None, params: SumParams | None = None
) -> None:
    """Add up each row of a matrix (Ascend C: Sum): `(dst, src, params)` or `(dst, src, tmp, params)`.

    Made of WholeReduceSum.

    Args:
        dst: A number for each row, in UB: half or float.
        src: The matrix, of the same type.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has.
        params: The number and length of the rows.

    Raises:
        TypeError: There are no params.
        KernelError: A type or length is impossible, a tensor is too small, or the temporary buffer is.
    """
    if isinstance(tmp, SumParams):
        tmp, params = None, tmp
    if not isinstance(params, SumParams):
        raise TypeError(f"Sum: params must be SumParams(outter, inner, n), not {params!r}")
    check_type("Sum", "dst", dst, FLOATS)
    check_type("Sum", "src", src, (dst.dtype.name,))
    itemsize, lanes = dst.dtype.itemsize, REPEAT // dst.dtype.itemsize
    outter, inner, n = map(integer, params)
    if min(outter, n) < 1 or n > inner or inner * itemsize % BLOCK:
        raise KernelError(
            f"Sum of {params}", f"outter and n are 1 or more, and inner is at least n, in whole blocks of {BLOCK} bytes"
        )
    if dst.size < outter or src.size < (outter - 1) * inner + n:
        raise KernelError(f"Sum of {params}", f"dst has {dst.size} elements, and src {src.size}")
    apart = inner * itemsize // BLOCK
    if n <= lanes and apart <= MAX_REPEATS:
        for row in range(0, outter, MAX_REPEATS):
            repeats = min(MAX_REPEATS, outter - row)
            WholeReduceSum(dst[row:], src[row * inner :], n, repeats, 1, 1, apart)
        return
    buffer = Rows("Sum", temporary("Sum", tmp, dst, src))
    sums = [buffer.take(dst.dtype, -(-n // lanes)), buffer.take(dst.dtype, -(-n // lanes))]
    for row in range(outter):
        part, count = src[row * inner :], n
        for level in range(n):
            results = -(-count // lanes)
            out = dst[row:] if results == 1 else sums[level % 2]
            _sum_repeats(out, part, count, lanes)
            if results == 1:
                break
            part, count = out, results


def _sum_repeats(dst: LocalTensor, src: LocalTensor, count: int, lanes: int) -> None:
    whole, rest = divmod(count, lanes)
    for first in range(0, whole, MAX_REPEATS):
        WholeReduceSum(dst[first:], src[first * lanes :], lanes, min(MAX_REPEATS, whole - first), 1, 1, 8)
    if rest:
        WholeReduceSum(dst[whole:], src[whole * lanes :], rest, 1, 1, 1, 8)


# Arange


def Arange(dst: LocalTensor, first_value: float, diff_value: float, count: int) -> None:
    """Fill a tensor with an arithmetic progression (Ascend C: Arange).

    The scalar pipe writes the first block of 32 bytes, and each Adds makes the next one of it.

    Args:
        dst: The tensor to write, in UB: half, float, int16 or int32.
        first_value: The first number.
        diff_value: From each number to the next, 0 or more.
        count: How many numbers.

    Raises:
        KernelError: A type or number is impossible, or dst is too small.
    """
    check_type("Arange", "dst", dst, (*FLOATS, "int16", "int32"))
    check_count("Arange", count)
    if diff_value < 0:
        raise KernelError(f"Arange with a diff_value of {diff_value!r}", "it is 0 or more")
    if count > dst.size:
        raise KernelError(f"Arange: a count of {count}", f"dst has {dst.size} elements")
    per_block = BLOCK // dst.dtype.itemsize
    # The vector pipe, which may have used dst, comes before the scalar pipe, and after it.
    for event, writes in ((HardEvent.V_S, True), (HardEvent.S_V, False)):
        pass_flag(event)
        for place in range(min(per_block, count) if writes else 0):
            dst.SetValue(place, typed("Arange", first_value + place * diff_value, dst.dtype))
    for start in range(per_block, count, per_block):
        Adds(dst[start:], dst, start * diff_value, min(per_block, count - start))


# Fill


def Fill(dst: GlobalTensor | LocalTensor, size: int | InitConstValueParams, value: float = 0) -> None:
    """Fill a tensor with a number (Ascend C: Fill).

    Elements of GM are filled before the TPipe gives out buffers. A Duplicate fills the start of the bytes of UB that no
    buffer has, and copies to GM follow it. What later uses these bytes waits for MTE3. On a cube core this does
    nothing, as the vendor's does.

    A tensor in L1 is filled by MTE2, one in L0A or L0B by MTE1. Order these as copies and loads.

    Args:
        dst: In GM half, float, or an integer of 16 or 32 bits; in L1, L0A and L0B bfloat16, too.
        size: The number of elements of GM; for the other tensors `InitConstValueParams`.
        value: The number for GM, of the type of dst.

    Raises:
        KernelError: A type, size, number or place is impossible, or UB has no bytes left.
    """
    if isinstance(size, InitConstValueParams):
        if not isinstance(dst, LocalTensor):
            raise KernelError(f"Fill of {dst!r} with {size}", "these are for L1, L0A and L0B: give a size and a value")
        fill_local(dst, size._replace(init_value=typed("Fill", size.init_value, dst.dtype)))
        return
    _fill_gm(dst, size, value)


def _fill_gm(gm: Any, size: int, value: float) -> None:
    types = ("uint16", "int16", "float16", "uint32", "int32", "float32")
    if not isinstance(gm, GlobalTensor) or gm.dtype.name not in types:
        raise KernelError(f"Fill of {gm!r}", f"it takes a GlobalTensor of {', '.join(types)}")
    size = integer(size)
    if not 0 < size <= gm.size:
        raise KernelError(f"Fill of {size} elements", f"{gm!r} has {gm.size}")
    value = typed("Fill", value, gm.dtype)
    if ASCEND_IS_AIC():
        return
    itemsize = gm.dtype.itemsize
    buffer = Rows("Fill", temporary("Fill", None))
    count = min(size, FILLED // itemsize, buffer.room // BLOCK * BLOCK // itemsize)
    number = buffer.take(gm.dtype, max(count, 1))
    Duplicate(number, value, count)
    pass_flag(HardEvent.V_MTE3)
    for start in range(0, size, count):
        part = min(count, size - start)
        DataCopyPad(gm[start:], number, DataCopyExtParams(1, part * itemsize, 0, 0))


InitGlobalMemory = InitConstValue = Fill  # older names


def GetReduceRepeatSumSpr() -> float:
    """Return the sum of the last ReduceSum in its form with *count* (Ascend C: GetReduceRepeatSumSpr).

    The scalar pipe waits for the vector pipe, so no flag is needed. The result is a Python float.

    Raises:
        KernelError: There was no such ReduceSum, the core has no vector pipe, or the run computes no values.
    """
    core, unit = running(), vector_unit()
    core.check_values("GetReduceRepeatSumSpr")
    if unit.summed is None:
        raise KernelError(
            "GetReduceRepeatSumSpr without a ReduceSum", "call ReduceSum(dst, src, tmp, count) first, with no mask"
        )
    pass_flag(HardEvent.V_S)
    core.scalar += core.spec.get_value
    return unit.summed
