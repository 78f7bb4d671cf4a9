"""Copies between GM and the memories of a core: DataCopy, DataCopyPad, ND to NZ.

Which pipe moves follows from where to where. Between UB and itself it is the vector pipe.
"""

from collections.abc import Callable
from functools import partial
from operator import index as integer
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import KernelError, Rule
from device_model.aicore.machine import LINE, Core, running
from device_model.aicore.memories import BLOCK, POISON, Range
from device_model.aicore.names import Pipe, Space
from device_model.aicore.program import Direction, Flow, Kind
from device_model.aicore.tensors import NOWHERE, GlobalTensor, LocalTensor

FB_BLOCK = 128  # of copies to FB
Tensor = LocalTensor | GlobalTensor

_S = Space
# (from, to): the pipe, and the path of a flow through GM.
_WAYS: dict[tuple[Space, Space], tuple[Pipe, str]] = {
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


class DataCopyParams(NamedTuple):
    """*block_count* blocks (up to 4095) of *block_len* DataBlocks of 32 bytes; the gaps between the end of a block and
    the start of the next are in DataBlocks too.

    To FB, blocks are counted in 128 bytes, and gaps from the start of a block to the start of the next: in 32 bytes in
    L1 (0: the same block again), in 128 in FB.
    """

    block_count: int = 1
    block_len: int = 0
    src_gap: int = 0
    dst_gap: int = 0


class DataCopyExtParams(NamedTuple):
    """*block_count* blocks (up to 4095) of *block_len* bytes (up to 2097151); gaps in bytes in GM, in DataBlocks of 32
    bytes in local memory. *rsv* is reserved by Ascend C and has no effect.
    """

    block_count: int = 1
    block_len: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    rsv: int = 0


class DataCopyPadExtParams(NamedTuple):
    """How DataCopyPad fills blocks up to 32 bytes: with *is_pad*, *left_padding* elements before and *right_padding*
    after each block (up to 32 bytes each) hold *padding_value*; what else is added holds anything.
    """

    is_pad: bool = False
    left_padding: int = 0
    right_padding: int = 0
    padding_value: Any = 0


DataCopyPadParams = DataCopyPadExtParams  # the older name


class Nd2NzParams(NamedTuple):
    """*nd_num* row-major matrices of *n_value* x *d_value* elements become fractal ones (NZ).

    Rows are *src_d_value* elements apart, matrices *src_nd_matrix_stride*. In NZ, a column of blocks of 32 bytes has
    *dst_nz_c0_stride* blocks; rows are *dst_nz_n_stride* blocks apart, matrices *dst_nz_matrix_stride* elements.
    """

    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_d_value: int
    dst_nz_c0_stride: int
    dst_nz_n_stride: int
    dst_nz_matrix_stride: int


def DataCopy(dst: Tensor, src: Tensor, params: "int | DataCopyParams | Nd2NzParams") -> None:
    """Copy from *src* to *dst*: a number of elements, blocks with gaps, or rows to fractals.

    A number of elements is rounded down to whole DataBlocks of 32 bytes: the tail is not copied, and reported. Local
    tensors must begin at a multiple of 32 bytes. Zero elements are no copy at all.
    """
    core = running()
    if isinstance(params, DataCopyParams):
        _copy_blocks(core, dst, src, params)
    elif isinstance(params, Nd2NzParams):
        _copy_nd2nz(core, dst, src, params)
    else:
        _copy_count(core, dst, src, params)


def _copy_count(core: Core, dst: Tensor, src: Tensor, count: int) -> None:
    pipe, path = _way(core, dst, src)
    itemsize = src.dtype.itemsize
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    nbytes = integer(count) * itemsize
    if nbytes % BLOCK:
        nbytes = _drop_tail(core, nbytes, count, src)
    if not nbytes:
        return
    if count < 0 or nbytes > src.nbytes or nbytes > dst.nbytes:
        raise KernelError(f"DataCopy of {count} elements from {src!r} to {dst!r}", "the count must fit in both tensors")
    start, to = src.address, dst.address
    source, target = src.memory.bytes, dst.memory.bytes

    def move() -> None:
        target[to : to + nbytes] = source[start : start + nbytes]

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


def _way(core: Core, dst: Tensor, src: Tensor) -> tuple[Pipe, str]:
    if src.memory is NOWHERE or dst.memory is NOWHERE:
        raise KernelError(f"a copy from {src!r} to {dst!r}", "give the GlobalTensor a buffer with SetGlobalBuffer()")
    way = _WAYS.get((src.memory.space, dst.memory.space))
    if way is None:
        raise KernelError(
            f"there is no way from {src!r} to {dst!r} on {core.program}",
            "DataCopy goes between GM and UB or L1, within UB, and from L1 to BT or FB",
        )
    for tensor in (src, dst):
        alignment = ALIGNMENT.get(tensor.memory.space)
        if alignment is not None and tensor.address % alignment:
            raise KernelError(
                f"{tensor!r} does not begin at a multiple of {alignment} bytes", "a card raises an alignment error here"
            )
    return way


def _drop_tail(core: Core, nbytes: int, count: int, src: Tensor) -> int:
    whole = nbytes // BLOCK * BLOCK
    dropped = (nbytes - whole) // src.dtype.itemsize
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
    count, blocks, src_gap, dst_gap = _checked(
        params, (params.block_count, 4095), (params.block_len, 65535), (params.src_gap, 65535), (params.dst_gap, 65535)
    )
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    if dst.memory.space is _S.FB:
        length = blocks * FB_BLOCK
        source = _Rows(src, count, length, src_gap * BLOCK if count > 1 else length)
        target = _Rows(dst, count, length, dst_gap * FB_BLOCK if count > 1 else length)
        if count > 1 and target.stride < length:
            raise KernelError(f"DataCopy with {params} to {dst!r}", "dst_gap is at least block_len: blocks lie apart")
    else:
        length = blocks * BLOCK
        source = _Rows(src, count, length, length + src_gap * BLOCK)
        target = _Rows(dst, count, length, length + dst_gap * BLOCK)
    _copy_rows(core, "DataCopy", source, target)


def DataCopyPad(
    dst: Tensor,
    src: Tensor,
    params: DataCopyExtParams | DataCopyParams,
    padding: DataCopyPadExtParams | None = None,
) -> None:
    """Copy blocks of any number of bytes between GM and local memory, where each begins at a multiple of 32 bytes.

    Into local memory whole DataBlocks are written: *padding* says with what. Out of it, only the bytes of the blocks.
    Given the older DataCopyParams, it takes their *block_len*, and their gap in GM, as bytes (up to 65535).
    """
    core = running()
    if isinstance(params, DataCopyParams):
        limits, gaps = (65535, 65535), (params.src_gap, params.dst_gap)
    else:
        limits, gaps = (2097151, 2**32 - 1), (params.src_stride, params.dst_stride)
    count, length, src_stride, dst_stride = _checked(
        params, (params.block_count, 4095), (params.block_len, limits[0]), *((gap, limits[1]) for gap in gaps)
    )
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopyPad from {src!r} to {dst!r}: two types", "ReinterpretCast() one, or Cast()")
    if isinstance(src, LocalTensor):
        room = -(-length // BLOCK) * BLOCK + src_stride * BLOCK
        _copy_rows(core, "DataCopyPad", _Rows(src, count, length, room), _Rows(dst, count, length, length + dst_stride))
        return
    if not isinstance(dst, LocalTensor):
        raise KernelError(f"DataCopyPad from {src!r} to {dst!r}", "it goes between GM and local memory")
    padding = padding or DataCopyPadExtParams()
    itemsize = dst.dtype.itemsize
    left, right = padding.left_padding * itemsize, padding.right_padding * itemsize
    if not padding.is_pad:
        left = right = 0
    if not 0 <= left <= BLOCK or not 0 <= right <= BLOCK:
        raise KernelError(f"DataCopyPad with {padding}", f"at most {BLOCK} bytes on each side can be padded")
    whole = -(-(left + length + right) // BLOCK) * BLOCK
    source = _Rows(src, count, length, length + src_stride)
    target = _Rows(dst, count, whole, whole + dst_stride * BLOCK)

    def fill() -> None:
        rows = target.view()
        rows[:, left : left + length] = source.view()
        if padding.is_pad:
            value = np.array([padding.padding_value], dst.dtype).view(np.uint8)
            rows[:, :left] = np.tile(value, padding.left_padding)
            rows[:, left + length : left + length + right] = np.tile(value, padding.right_padding)
        rest = whole - left - length - right
        rows[:, whole - rest :] = np.frombuffer(POISON * BLOCK, np.uint8)[:rest]

    _copy_rows(core, "DataCopyPad", source, target, fill)


class _Rows:
    """*count* rows of *length* bytes, *stride* apart, from the beginning of a tensor on."""

    __slots__ = ("count", "length", "stop", "stride", "tensor")

    def __init__(self, tensor: Tensor, count: int, length: int, stride: int) -> None:
        self.tensor = tensor
        self.count = count
        self.length = length
        self.stride = stride
        self.stop = tensor.address + (count - 1) * stride + length

    def view(self) -> npt.NDArray[np.uint8]:
        """The bytes, by row."""
        tensor = self.tensor
        shape, strides = (self.count, self.length), (self.stride, 1)
        return np.ndarray(shape, np.uint8, tensor.memory.bytes, tensor.address, strides)

    def span(self) -> Range:
        """The bytes, for issue."""
        tensor = self.tensor
        if self.count == 1 or self.stride in (0, self.length):
            return (tensor.memory, tensor.address, self.stop)
        return (tensor.memory, tensor.address, self.stop, self.length, self.stride)

    def flow(self, direction: Direction, path: str, *, nd2nz: bool = False) -> Flow:
        """The traffic with GM that moving these rows makes."""
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
    pipe, path = _way(core, dst, src)
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
    pipe, path = _way(core, dst, src)
    if pipe is not Pipe.MTE2 or path != "l1":
        raise KernelError(f"DataCopy with {params} from {src!r} to {dst!r}", "ND to NZ goes from GM to L1")
    if dst.dtype != src.dtype:
        raise KernelError(f"DataCopy from {src!r} to {dst!r}: two types", "give both tensors one type")
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
        plain = np.ndarray(
            (rows, width), src.dtype, src.memory.bytes, first.address, (params.src_d_value * itemsize, itemsize)
        )
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


def _column(tensor: Tensor, offset: int, rows: int, down: int) -> Range:
    start = tensor.address + offset
    if down == BLOCK:
        return (tensor.memory, start, start + rows * BLOCK)
    return (tensor.memory, start, start + (rows - 1) * down + BLOCK, BLOCK, down)


def _to_fractal(fractal: npt.NDArray[Any], plain: npt.NDArray[Any]) -> None:
    """Columns of blocks; the last one is filled up with zeros."""
    columns, rows, c0 = fractal.shape
    whole = plain.shape[1] // c0
    fractal[:whole] = plain[:, : whole * c0].reshape(rows, whole, c0).transpose(1, 0, 2)
    if whole < columns:
        rest = plain.shape[1] - whole * c0
        fractal[whole, :, :rest] = plain[:, whole * c0 :]
        fractal[whole, :, rest:] = 0


def DataCacheCleanAndInvalid(tensor: GlobalTensor, *, whole: bool = False) -> None:
    """Write the 64-byte line at the beginning of *tensor* back from the scalar data cache, or with *whole* all lines.

    What SetValue wrote to GM is seen by others only then.
    """
    core = running()
    core.note(Pipe.S, Kind.WORK, "DataCacheCleanAndInvalid")
    if whole:
        core.dirty_lines.clear()
    else:
        core.dirty_lines.pop((tensor.memory, tensor.address // LINE), None)


def _check_overlap(core: Core, name: str, source: Range, target: Range) -> None:
    """Report an instruction whose source and destination share some bytes but not all."""
    if source[0] is target[0] and source[1] < target[2] and target[1] < source[2] and source[1:3] != target[1:3]:
        core.find(
            Rule.PARTIAL_OVERLAP,
            f"{name} reads {source[0].name}[{source[1]}:{source[2]}] and writes [{target[1]}:{target[2]}]: "
            "what it reads may be overwritten before; use the same bytes, or others",
        )


def _checked(params: object, *limits: tuple[int, int]) -> tuple[int, ...]:
    """The values of *limits*, each a value of *params* and the most that it may be."""
    for value, most in limits:
        if not 0 <= value <= most:
            raise KernelError(f"{params}", f"{value} must be 0 to {most}")
    return tuple(integer(value) for value, _ in limits)
