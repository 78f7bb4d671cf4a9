"""TransDataTo5HD: transposes blocks of 32 bytes that may lie anywhere in UB; runs on the vector pipe.

A repeat takes a block from each of 16 sources, as the rows of a matrix, and writes its columns:

    16 bits    16 x 16: block i of dst is column i
    32 bits    16 x 8: blocks 2 i and 2 i + 1 of dst are the first and the last 8 elements of column i
    8 bits     16 x 16, half of each block: half of block i of dst is column i of the chosen half
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.machine import running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import BLOCK, Space
from device_model.aicore.core.tensors import LocalTensor, dtype_of
from device_model.aicore.vector.masks import MAX_REPEATS
from device_model.aicore.vector.unit import VectorPlan, VectorUnit, check_type, issue, plain_cost
from device_model.kernel.findings import KernelError

ROWS = 16
TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32")
Places = Sequence[LocalTensor] | Sequence[int]


class TransDataTo5HDParams(NamedTuple):
    """How TransDataTo5HD repeats (Ascend C: TransDataTo5HDParams).

    Attributes:
        dst_high_half: For types of 8 bits: whether it writes the upper half of each block.
        src_high_half: For types of 8 bits: whether it reads the upper half of each block.
        repeat_times: The number of repeats, 0 to 255.
        dst_rep_stride: From one repeat to the next in each destination, in blocks of 32 bytes. A single repeat begins
            so far behind the places that are given.
        src_rep_stride: The same in each source.
    """

    dst_high_half: bool = False
    src_high_half: bool = False
    repeat_times: int = 1
    dst_rep_stride: int = 0
    src_rep_stride: int = 0


def TransDataTo5HD(
    dst_list: Places, src_list: Places, params: TransDataTo5HDParams, dtype: npt.DTypeLike | None = None
) -> None:
    """Transpose blocks of 32 bytes from 16 places to 16 places (Ascend C: TransDataTo5HD), on the vector pipe.

    Args:
        dst_list: 16 tensors in UB, or 16 addresses from GetPhyAddr().
        src_list: The same for the sources, of the same type.
        params: Repeats and strides.
        dtype: The type of the elements, if addresses are given.

    Raises:
        TypeError: Addresses are given without a type, or tensors with addresses.
        KernelError: There are not 16 places, one is not aligned to 32 bytes or outside UB, or a type or number is
            impossible.
    """
    key = "TransDataTo5HD", tuple(dst_list), tuple(src_list), params, None if dtype is None else dtype_of(dtype)
    issue(key, _plan)


def _plan(unit: VectorUnit, name: str, dsts: Any, srcs: Any, params: TransDataTo5HDParams, dtype: Any) -> VectorPlan:
    tensors = [each for each in (*dsts, *srcs) if isinstance(each, LocalTensor)]
    if tensors and len(tensors) != len(dsts) + len(srcs):
        raise TypeError(f"{name} takes tensors or addresses, not both")
    if not tensors and dtype is None:
        raise TypeError(f"{name} of addresses needs the type of the elements: dtype=asc.half")
    dtype = tensors[0].dtype if tensors else dtype
    for role, places in (("dst_list", dsts), ("src_list", srcs)):
        if len(places) != ROWS:
            raise KernelError(f"{name}: {role} has {len(places)} places", f"it takes {ROWS}")
        for place in places if tensors else ():
            check_type(name, role, place, TYPES if place is tensors[0] else (dtype.name,))
    if dtype.name not in TYPES:
        raise KernelError(f"{name} of {dtype}", f"it takes {', '.join(TYPES)}")
    if not 0 <= params.repeat_times <= MAX_REPEATS:
        raise KernelError(f"{name}: {params.repeat_times} repeats", f"an instruction takes 0 to {MAX_REPEATS}")
    memory = running().memory(Space.UB)
    reads, source = _blocks(name, "src_list", memory, srcs, params.repeat_times, params.src_rep_stride)
    writes, target = _blocks(name, "dst_list", memory, dsts, params.repeat_times, params.dst_rep_stride)
    high = BLOCK // 2 * np.array([params.src_high_half, params.dst_high_half])
    if dtype.itemsize == 1:
        source, target = (
            where[..., begin : begin + BLOCK // 2] for where, begin in zip((source, target), high, strict=True)
        )
    elif high.any():
        raise KernelError(f"{name} of {dtype} with a high half", "only types of 8 bits have halves")
    data, itemsize = memory.bytes, dtype.itemsize

    def compute() -> None:
        rows = data[source].view(dtype)  # repeats x 16 x columns
        columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
        # 32 bits: a column has two blocks.
        data[target] = columns.view(np.uint8).reshape(len(rows), ROWS, ROWS if itemsize == 1 else BLOCK)

    return VectorPlan(name, plain_cost(unit.core, name, params.repeat_times), reads, writes, compute)


def _blocks(
    name: str, role: str, memory: Any, places: Any, repeats: int, stride: int
) -> tuple[tuple[Range, ...], npt.NDArray[np.intp]]:
    """Return the ranges of the blocks of all repeats, and the addresses of their bytes: repeats x 16 x 32."""
    if not 0 <= stride < 1 << 16:
        raise KernelError(f"{name}: a stride of {stride} blocks in {role}", "it is 0 to 65535")
    starts = np.array([each.address if isinstance(each, LocalTensor) else int(each) for each in places])
    if (starts % BLOCK).any():
        raise KernelError(f"{name}: {role} has the addresses {starts.tolist()}", f"each is a multiple of {BLOCK}")
    if repeats == 1:
        starts, stride = starts + stride * BLOCK, 0  # as the vendor's manual says
    steps = np.arange(repeats) * stride * BLOCK
    end = int(starts.max()) + max(int(steps[-1]) if repeats else 0, 0) + BLOCK
    if starts.min() < 0 or end > memory.size:
        raise KernelError(f"{name}: {role} reaches byte {end} of {memory.name}", f"it has {memory.size} bytes")
    ranges: list[Range] = []
    for start in map(int, starts if repeats else ()):
        last = start + int(steps[-1])
        ranges.append(
            (memory, start, last + BLOCK, BLOCK, stride * BLOCK) if stride > 1 else (memory, start, last + BLOCK)
        )
    return tuple(ranges), steps[:, None, None] + starts[:, None] + np.arange(BLOCK)
