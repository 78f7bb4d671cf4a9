"""Copies between GM and the memories of a core: DataCopy, DataCopyPad, ND to NZ.

The pipe of a copy follows from its two memories:

    GM to UB or L1    MTE2
    UB or L1 to GM    MTE3
    L1 to BT or FB    MTE1
    UB to UB          V

A copy through GM is timed by its `Flow`, which shares the bandwidth of the memory with the flows of other cores. A copy
inside a core takes cycles by its number of bytes.
"""

import numbers
from collections.abc import Callable
from functools import partial
from operator import index as integer
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.each import array_at
from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import LINE, Core, running
from device_model.aicore.core.memories import POISON, Range
from device_model.aicore.core.names import BLOCK, Pipe, Space
from device_model.aicore.core.packed import bytes_of, elements_in, int4b_t
from device_model.aicore.core.program import Direction, Flow, Kind
from device_model.aicore.core.tensors import NOWHERE, GlobalTensor, LocalTensor, int8, whole
from device_model.kernel.findings import KernelError

Tensor = LocalTensor | GlobalTensor

_S = Space
# (from, to): the pipe, and the path of a flow through GM.
_PATHS: dict[tuple[Space, Space], tuple[Pipe, str]] = {
    (_S.GM, _S.UB): (Pipe.MTE2, "ub"),
    (_S.GM, _S.L1): (Pipe.MTE2, "l1"),
    (_S.UB, _S.GM): (Pipe.MTE3, "ub"),
    (_S.L1, _S.GM): (Pipe.MTE3, "l1"),
    (_S.UB, _S.UB): (Pipe.V, ""),
    (_S.L1, _S.BT): (Pipe.MTE1, ""),
    (_S.L1, _S.FB): (Pipe.MTE1, ""),
}
# Where a tensor must begin, in bytes.
ALIGNMENT = {_S.UB: 32, _S.L1: 32, _S.L0A: 512, _S.L0B: 512, _S.L0C: 64, _S.BT: 64, _S.FB: 128}
_TABLE_BLOCK = {_S.BT: 64, _S.FB: 128}  # bytes of a block in copies to the tables


class DataCopyParams(NamedTuple):
    """The blocks that DataCopy copies, and the gaps between them (Ascend C: DataCopyParams).

    Attributes:
        block_count: The number of blocks, 0 to 4095.
        block_len: The length of a block in DataBlocks of 32 bytes, 0 to 65535. In copies to BT it is in units of 64
            bytes of the source, in copies to FB of 128 bytes.
        src_gap: DataBlocks between the end of a block of the source and the start of the next one, 0 to 65535. In
            copies to BT and FB, DataBlocks from the start of a block to the start of the next one; 0 reads one block
            again.
        dst_gap: The same in the destination; in copies to BT in units of 64 bytes, in copies to FB of 128 bytes.
    """

    block_count: int = 1
    block_len: int = 0
    src_gap: int = 0
    dst_gap: int = 0


class DataCopyExtParams(NamedTuple):
    """The blocks that DataCopyPad copies, and the gaps between them (Ascend C: DataCopyExtParams).

    Attributes:
        block_count: The number of blocks, 0 to 4095.
        block_len: The length of a block in bytes, 0 to 2097151.
        src_stride: The gap from the end of a block of the source to the start of the next one: bytes in GM, DataBlocks
            of 32 bytes in local memory.
        dst_stride: The same in the destination.
        rsv: Reserved by Ascend C, and without effect.
    """

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    rsv: int = 0


class DataCopyPadExtParams(NamedTuple):
    """How DataCopyPad fills blocks up to whole DataBlocks of 32 bytes (Ascend C: DataCopyPadExtParams).

    Attributes:
        is_pad: Whether padding is written; otherwise the three other fields have no effect, unless SetPadValue has set
            a number.
        left_padding: How many elements before each block hold *padding_value*, at most 32 bytes.
        right_padding: How many elements after each block hold *padding_value*, at most 32 bytes.
        padding_value: The value of the padding.

    The contents of all other bytes that fill a block are undefined.
    """

    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: Any = 0


DataCopyPadParams = DataCopyPadExtParams  # the older name


class Nd2NzParams(NamedTuple):
    """Row-major (ND) matrices that DataCopy turns into fractal ones (NZ) on the way to L1 (Ascend C: Nd2NzParams).

    Each stride goes from one start to the next.

    Attributes:
        nd_num: The number of matrices.
        n_value: Rows of a matrix.
        d_value: Columns of a matrix.
        src_nd_matrix_stride: From one matrix to the next in GM, in elements.
        src_d_value: From one row to the next in GM, in elements.
        dst_nz_c0_stride: From one column of 32-byte blocks to the next in L1, in blocks.
        dst_nz_n_stride: From one row of such a column to the next in L1, in blocks.
        dst_nz_matrix_stride: From one matrix to the next in L1, in elements.
    """

    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_d_value: int
    dst_nz_c0_stride: int
    dst_nz_n_stride: int
    dst_nz_matrix_stride: int


# Forms of DataCopy that belong to another pipe, by the class of their parameters: from L0C.
FORMS: dict[type, Callable[[Any, Any, Any], None]] = {}


def DataCopy(dst: Tensor, src: Tensor, params: int | DataCopyParams | Nd2NzParams | tuple[Any, ...]) -> None:
    """Copy elements, blocks with gaps, or rows to fractals (Ascend C: DataCopy).

    Runs on MTE2 from GM, on MTE3 to GM, on MTE1 from L1 to BT or FB, and on V within UB. It waits for nothing but
    earlier instructions of its pipe: order it with flags or queues. Copies of one pipe may finish in any order.

    Args:
        dst: The tensor to write, of the type of *src*; with `DataCopyParams` BT takes half as float, too.
        src: The tensor to read.
        params: A number of elements, rounded down to whole DataBlocks of 32 bytes; `DataCopyParams` for blocks with
            gaps; `Nd2NzParams` for row-major to fractal on the way from GM to L1; or `DataCopyCO12DstParams` from L0C
            to GM or L1, which runs on FIX. 0 elements copy nothing.

    Raises:
        KernelError: No pipe copies between the two memories, the types differ, a local tensor does not begin at a
            multiple of 32 bytes (L0C and BT 64, FB 128), a parameter is out of range, or a tensor is too small.

    A tail that is rounded away is the finding TAIL_DROPPED.
    """
    core = running()
    if isinstance(params, DataCopyParams):
        _copy_blocks(core, dst, src, params)
    elif isinstance(params, Nd2NzParams):
        _copy_nd2nz(core, dst, src, params)
    elif isinstance(params, tuple):
        form = FORMS.get(type(params))
        if form is None:
            raise TypeError(f"DataCopy takes a number of elements or parameters of a copy, not {params!r}")
        form(dst, src, params)
    else:
        _copy_count(core, dst, src, params)


def _copy_count(core: Core, dst: Tensor, src: Tensor, count: int) -> None:
    pipe, path = _pipe_and_path(core, dst, src)
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    nbytes = bytes_of(src.dtype, count if type(count) is int else whole("DataCopy: the count", count))
    if nbytes % BLOCK:
        nbytes = _drop_tail(core, nbytes, count, src)
    if not nbytes:
        return
    if count < 0 or nbytes > src.nbytes or nbytes > dst.nbytes:
        raise KernelError(f"DataCopy of {count} elements from {src!r} to {dst!r}", "the count must fit in both tensors")
    start, to = src.address, dst.address
    source, target = src.memory.bytes, dst.memory.bytes
    part, room = slice(start, start + nbytes), slice(to, to + nbytes)

    def move() -> None:
        target[room] = source[part]

    flow = None
    cycles = 0
    if pipe is Pipe.MTE2:
        flow = Flow(Direction.READ, path, src.memory.key, start, nbytes, bypass=src.bypass_l2)
    elif pipe is Pipe.MTE3:
        flow = Flow(Direction.WRITE, path, dst.memory.key, to, nbytes, bypass=dst.bypass_l2)
    else:
        cycles = _local_cycles(core, src, dst, nbytes)
        _check_overlap(core, "DataCopy", (src.memory, start, start + nbytes), (dst.memory, to, to + nbytes))
    core.issue(
        pipe,
        "DataCopy",
        0,
        cycles,
        ((src.memory, start, start + nbytes),),
        ((dst.memory, to, to + nbytes),),
        move,
        flow,
    )


def _pipe_and_path(core: Core, dst: Tensor, src: Tensor) -> tuple[Pipe, str]:
    if src.memory is NOWHERE or dst.memory is NOWHERE:
        raise KernelError(f"a copy from {src!r} to {dst!r}", "give the GlobalTensor a buffer with SetGlobalBuffer()")
    pipe_and_path = _PATHS.get((src.memory.space, dst.memory.space))
    if pipe_and_path is None:
        raise KernelError(
            f"no pipe of {core.program} copies from {src!r} to {dst!r}",
            "DataCopy goes between GM and UB or L1, within UB, and from L1 to BT or FB",
        )
    for tensor in (src, dst):
        alignment = ALIGNMENT.get(tensor.memory.space)
        if alignment is not None and tensor.address % alignment:
            raise KernelError(
                f"{tensor!r} does not begin at a multiple of {alignment} bytes", "a card raises an alignment error here"
            )
    return pipe_and_path


def _drop_tail(core: Core, nbytes: int, count: int, src: Tensor) -> int:
    whole = nbytes // BLOCK * BLOCK
    dropped = count - elements_in(src.dtype, whole)
    core.find(
        Rule.TAIL_DROPPED,
        f"DataCopy of {count} x {src.dtype} moves whole blocks of 32 bytes: the last {dropped} elements are not "
        "copied; use DataCopyPad, or a count that fills blocks",
    )
    return whole


def _local_cycles(core: Core, src: Tensor, dst: Tensor, nbytes: int) -> int:
    rate = core.spec.local_copy_bytes_per_cycle[src.memory.space, dst.memory.space]
    return -(-nbytes // rate)


def _copy_blocks(core: Core, dst: Tensor, src: Tensor, params: DataCopyParams) -> None:
    count, blocks, src_gap, dst_gap = _checked(params, block_count=4095, block_len=65535, src_gap=65535, dst_gap=65535)
    is_widened = dst.memory.space is _S.BT and (src.dtype.name, dst.dtype.name) == ("float16", "float32")
    if dst.dtype != src.dtype and not is_widened:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    block = _TABLE_BLOCK.get(dst.memory.space)
    if block is None:
        length = blocks * BLOCK
        source = _Rows(src, count, length, length + src_gap * BLOCK)
        target = _Rows(dst, count, length, length + dst_gap * BLOCK)
        _copy_rows(core, "DataCopy", source, target)
        return
    length = blocks * block
    written = length * dst.dtype.itemsize // src.dtype.itemsize
    source = _Rows(src, count, length, src_gap * BLOCK if count > 1 else length)
    target = _Rows(dst, count, written, dst_gap * block if count > 1 else written)
    if count > 1 and target.stride < written:
        raise KernelError(
            f"DataCopy with {params} to {dst!r}",
            "dst_gap must be at least block_len, so that blocks do not overlap",
        )

    def widen() -> None:
        target.view().view(dst.dtype)[:] = source.view().view(src.dtype)

    _copy_rows(core, "DataCopy", source, target, widen if is_widened else None)


def DataCopyPad(
    dst: Tensor,
    src: Tensor,
    params: DataCopyExtParams | DataCopyParams,
    padding: DataCopyPadExtParams | None = None,
) -> None:
    """Copy blocks of any number of bytes between GM and local memory (Ascend C: DataCopyPad).

    Runs on MTE2 from GM and on MTE3 to GM. In local memory each block begins at a multiple of 32 bytes; from there,
    only the bytes of the blocks are copied.

    Args:
        dst: The tensor to write, of the type of *src*.
        src: The tensor to read.
        params: The blocks. The older `DataCopyParams` are accepted too; then *block_len* and the gap in GM are
            bytes, up to 65535.
        padding: For copies into local memory, how each block is filled up to whole DataBlocks of 32 bytes.

    Raises:
        KernelError: As for DataCopy; or the padding is longer than 32 bytes on a side.
    """
    core = running()
    if isinstance(params, DataCopyParams):
        values = _checked(params, block_count=4095, block_len=65535, src_gap=65535, dst_gap=65535)
    else:
        most = 2**32 - 1
        values = _checked(params, block_count=4095, block_len=2097151, src_stride=most, dst_stride=most)
    count, length, src_stride, dst_stride = values
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopyPad from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    if isinstance(src, LocalTensor):
        stride = -(-length // BLOCK) * BLOCK + src_stride * BLOCK
        source, target = _Rows(src, count, length, stride), _Rows(dst, count, length, length + dst_stride)
        _copy_rows(core, "DataCopyPad", source, target)
        return
    if not isinstance(dst, LocalTensor):
        raise KernelError(f"DataCopyPad from {src!r} to {dst!r}", "it goes between GM and local memory")
    padding = padding or DataCopyPadExtParams()
    itemsize = dst.dtype.itemsize
    left, right = padding.left_padding * itemsize, padding.right_padding * itemsize
    pads, number = padding.is_pad, padding.padding_value
    if not pads and core.pad_value is not None:
        pads, number = True, core.pad_value
    if not pads:
        left = right = 0
    if (left or right) and dst.dtype is int4b_t:
        raise KernelError(f"DataCopyPad of int4b_t with {padding}", "it pads whole bytes: copy as int8")
    if not 0 <= left <= BLOCK or not 0 <= right <= BLOCK:
        raise KernelError(f"DataCopyPad with {padding}", f"at most {BLOCK} bytes on each side can be padded")
    whole = -(-(left + length + right) // BLOCK) * BLOCK
    source = _Rows(src, count, length, length + src_stride)
    target = _Rows(dst, count, whole, whole + dst_stride * BLOCK)

    def fill() -> None:
        rows = target.view()
        rows[:, left : left + length] = source.view()
        if pads:
            value = np.array([number], dst.dtype).view(np.uint8)
            rows[:, :left] = np.tile(value, padding.left_padding)
            rows[:, left + length : left + length + right] = np.tile(value, padding.right_padding)
        rest = whole - left - length - right
        rows[:, whole - rest :] = np.frombuffer(POISON * BLOCK, np.uint8)[:rest]

    _copy_rows(core, "DataCopyPad", source, target, fill)


def SetPadValue(padding_value: Any) -> None:
    """Set the number with which later DataCopyPads of this core pad (Ascend C: SetPadValue); no pipe waits.

    It is used by those whose *is_pad* is False, which pad nothing before. A DataCopyPad with *is_pad* has its own.

    Args:
        padding_value: The number, of the type of the tensors that are copied.

    Raises:
        TypeError: It is no number.
    """
    if not isinstance(padding_value, numbers.Number | np.generic):
        raise TypeError(f"SetPadValue takes a number, not {padding_value!r}")
    running().pad_value = padding_value


class _Rows:
    """*count* rows of *length* bytes, *stride* bytes apart, from the beginning of a tensor on."""

    __slots__ = ("address", "bytes", "count", "length", "stop", "stride", "tensor")

    def __init__(self, tensor: Tensor, count: int, length: int, stride: int) -> None:
        self.tensor = tensor
        self.bytes, self.address = tensor.memory.bytes, tensor.address
        self.count = count
        self.length = length
        self.stride = stride
        self.stop = tensor.address + (count - 1) * stride + length

    def view(self) -> npt.NDArray[np.uint8]:
        """Return the bytes as an array of rows."""
        return np.ndarray((self.count, self.length), np.uint8, self.bytes, self.address, (self.stride, 1))

    def span(self) -> Range:
        """Return the bytes as `Core.issue` takes them."""
        tensor = self.tensor
        if self.count == 1 or self.stride in (0, self.length):
            return (tensor.memory, tensor.address, self.stop)
        return (tensor.memory, tensor.address, self.stop, self.length, self.stride)

    def flow(self, direction: Direction, path: str, *, nd2nz: bool = False) -> Flow:
        """Return the traffic with GM that a copy of these rows makes."""
        tensor = self.tensor
        assert isinstance(tensor, GlobalTensor)
        rows, length, stride = self.count, self.length, self.stride
        if length == stride:
            rows, length, stride = 1, length * rows, 0
        return Flow(
            direction,
            path,
            tensor.memory.key,
            tensor.address,
            length,
            rows,
            stride,
            bypass=tensor.bypass_l2,
            nd2nz=nd2nz,
        )


def _copy_rows(core: Core, name: str, source: _Rows, target: _Rows, fill: Callable[[], object] | None = None) -> None:
    src, dst = source.tensor, target.tensor
    pipe, path = _pipe_and_path(core, dst, src)
    if not source.count or not source.length:
        return
    for rows in (source, target):
        if rows.stop > rows.tensor.address + rows.tensor.nbytes:
            raise KernelError(
                f"{name} of {rows.count} blocks of {rows.length} bytes, {rows.stride} apart, goes past the end of "
                f"{rows.tensor!r}",
                f"it has {rows.tensor.nbytes} bytes",
            )

    def move() -> None:
        target.view()[:] = source.view()

    flow = None
    cycles = 0
    if pipe is Pipe.MTE2:
        flow = source.flow(Direction.READ, path)
    elif pipe is Pipe.MTE3:
        flow = target.flow(Direction.WRITE, path)
    else:
        cycles = _local_cycles(core, src, dst, source.count * source.length)
        _check_overlap(core, name, source.span(), target.span())
    core.issue(pipe, name, 0, cycles, (source.span(),), (target.span(),), fill or move, flow)


def _copy_nd2nz(core: Core, dst: Tensor, src: Tensor, params: Nd2NzParams) -> None:
    pipe, path = _pipe_and_path(core, dst, src)
    if pipe is not Pipe.MTE2 or path != "l1":
        raise KernelError(f"DataCopy with {params} from {src!r} to {dst!r}", "ND to NZ goes from GM to L1")
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "give both tensors one type")
    if src.dtype is int4b_t:
        dst, src, params = _as_bytes(dst, src, params)
    rows, width = params.n_value, params.d_value
    if not params.nd_num or not rows or not width:
        return
    itemsize = src.dtype.itemsize
    c0 = BLOCK // itemsize
    columns = -(-width // c0)
    for matrix in range(params.nd_num):
        first = src[matrix * params.src_nd_matrix_stride]
        into = dst[matrix * params.dst_nz_matrix_stride]
        source = _Rows(first, rows, width * itemsize, params.src_d_value * itemsize)
        across, down = params.dst_nz_c0_stride * BLOCK, params.dst_nz_n_stride * BLOCK
        last = into.address + (columns - 1) * across + (rows - 1) * down + BLOCK
        if source.stop > first.address + first.nbytes or last > into.address + into.nbytes:
            raise KernelError(f"DataCopy with {params} goes past the end of {src!r} or {dst!r}", "check the strides")
        fractal = np.ndarray((columns, rows, c0), dst.dtype, dst.memory.bytes, into.address, (across, down, itemsize))
        strides = params.src_d_value * itemsize, itemsize
        plain = array_at((rows, width), src.dtype, src.memory.bytes, first.address, strides)
        core.issue(
            pipe,
            "DataCopy",
            0,
            0,
            (source.span(),),
            [_column(into, column * across, rows, down) for column in range(columns)],
            partial(_to_fractal, fractal, plain),
            source.flow(Direction.READ, path, nd2nz=True),
        )


def _as_bytes(dst: Tensor, src: Tensor, params: Nd2NzParams) -> tuple[Tensor, Tensor, Nd2NzParams]:
    """Return a copy of int4b_t as one of its bytes."""
    fields = "d_value", "src_nd_matrix_stride", "src_d_value", "dst_nz_matrix_stride"
    odd = [field for field in fields if getattr(params, field) % 2]
    if odd:
        raise KernelError(f"DataCopy of int4b_t with {params}", f"a byte holds two elements: {odd[0]} must be even")
    halves = {field: getattr(params, field) // 2 for field in fields}
    assert isinstance(dst, LocalTensor)
    assert isinstance(src, GlobalTensor)
    source = GlobalTensor(int8).SetGlobalBuffer(src.GetPhyAddr())
    source.bypass_l2 = src.bypass_l2
    return dst.ReinterpretCast(int8), source, params._replace(**halves)


def _column(tensor: Tensor, offset: int, rows: int, down: int) -> Range:
    start = tensor.address + offset
    if down == BLOCK:
        return (tensor.memory, start, start + rows * BLOCK)
    return (tensor.memory, start, start + (rows - 1) * down + BLOCK, BLOCK, down)


def _to_fractal(fractal: npt.NDArray[Any], matrix: Callable[[], npt.NDArray[Any]]) -> None:
    """Copy a matrix to columns of blocks, the last of which is filled up with zeros."""
    plain = matrix()
    columns, rows, c0 = fractal.shape
    whole = plain.shape[1] // c0
    fractal[:whole] = plain[:, : whole * c0].reshape(rows, whole, c0).transpose(1, 0, 2)
    if whole < columns:
        rest = plain.shape[1] - whole * c0
        fractal[whole, :, :rest] = plain[:, whole * c0 :]
        fractal[whole, :, rest:] = 0


def DataCacheCleanAndInvalid(tensor: GlobalTensor, *, whole: bool = False) -> None:
    """Write back lines of the scalar data cache (Ascend C: DataCacheCleanAndInvalid).

    Runs on the scalar pipe. Other pipes and cores see a SetValue to GM only after this call.

    Args:
        tensor: The tensor whose first 64-byte line is written back.
        whole: Whether all lines of the cache are written back.

    A line that is never written back is the finding NOT_FLUSHED.
    """
    core = running()
    flush = core.note(Pipe.S, Kind.WORK, "DataCacheCleanAndInvalid")
    for memory, line in list(core.dirty_lines) if whole else [(tensor.memory, tensor.address // LINE)]:
        if core.dirty_lines.pop((memory, line), None) is not None:
            memory.flushed[line] = flush, core.crossing


def _check_overlap(core: Core, name: str, source: Range, target: Range) -> None:
    """Report an instruction whose source and destination share some bytes but not all."""
    if source[0] is target[0] and source[1] < target[2] and target[1] < source[2] and source[1:3] != target[1:3]:
        core.find(
            Rule.PARTIAL_OVERLAP,
            f"{name} reads {source[0].name}[{source[1]}:{source[2]}] and writes [{target[1]}:{target[2]}]: "
            "it may overwrite bytes before it reads them; use the same bytes, or bytes that do not overlap",
        )


def _checked(params: DataCopyParams | DataCopyExtParams, **limits: int) -> tuple[int, ...]:
    """Return the fields of *params* that *limits* names; raise if one is not an int from 0 to its limit."""
    values = []
    for field, most in limits.items():
        value = getattr(params, field)
        try:
            values.append(integer(value))
        except TypeError:
            raise TypeError(f"{params}: {field} must be an int, not {value!r}") from None
        if not 0 <= value <= most:
            raise KernelError(f"{params}", f"{field} must be 0 to {most}, not {value}")
    return tuple(values)
