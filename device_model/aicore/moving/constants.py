"""One number in many places of L1, L0A or L0B: what Fill does on a cube core."""

from typing import NamedTuple

import numpy as np

from device_model.aicore.core.machine import running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import BLOCK, Pipe, Space
from device_model.aicore.core.tensors import LocalTensor, whole
from device_model.kernel.findings import KernelError

_FRACTAL = 512  # bytes of a block in L0A and L0B
_MOST = 32767
_TYPES = ("int16", "uint16", "float16", "bfloat16", "int32", "uint32", "float32")


class InitConstValueParams(NamedTuple):
    """What Fill writes to L1, L0A or L0B (Ascend C: InitConstValueParams). A count of 0 writes nothing.

    Attributes:
        repeat_times: How often, 0 to 32767.
        block_num: The blocks of each time, 0 to 32767: of 32 bytes in L1, of 512 in L0A and L0B.
        dst_gap: The blocks from the end of one time to the start of the next, 0 to 32767.
        init_value: The number, of the type of the tensor.
    """

    repeat_times: int = 0
    block_num: int = 0
    dst_gap: int = 0
    init_value: float = 0


def fill_local(dst: LocalTensor, params: InitConstValueParams) -> None:
    """Do as Fill for a tensor in L1, L0A or L0B.

    It runs on MTE2 in L1, and on MTE1 in L0A and L0B. It is timed as a load that brings the same bytes there.

    Raises:
        KernelError: The tensor is elsewhere, of another type, too small or not aligned, or a count is out of range.
    """
    core = running()
    space = dst.memory.space
    if space not in (Space.L1, Space.L0A, Space.L0B) or dst.dtype.name not in _TYPES:
        raise KernelError(f"Fill of {dst!r}", f"it takes {', '.join(_TYPES)} in L1, L0A or L0B")
    counts = [whole(f"Fill: {name}", value) for name, value in zip(params._fields[:3], params[:3], strict=True)]
    for name, count in zip(params._fields, counts, strict=False):
        if not 0 <= count <= _MOST:
            raise KernelError(f"Fill with {name} {count}", f"it is 0 to {_MOST}")
    times, blocks, gap = counts
    block = BLOCK if space is Space.L1 else _FRACTAL
    if dst.address % block:
        raise KernelError(f"Fill of {dst!r}", f"it begins at a multiple of {block} bytes in {space}")
    length, stride = blocks * block, (blocks + gap) * block
    if not times or not blocks:
        return
    stop = dst.address + (times - 1) * stride + length
    if stop > dst.address + dst.nbytes:
        raise KernelError(f"Fill of {dst!r} with {params}", f"it has {dst.nbytes} bytes, and these reach further")
    number = np.array([params.init_value], dst.dtype)
    rows = np.ndarray(
        (times, length // dst.dtype.itemsize), dst.dtype, dst.memory.bytes, dst.address, (stride, dst.dtype.itemsize)
    )

    def compute() -> None:
        rows[...] = number

    written: Range = (dst.memory, dst.address, stop)
    if times > 1 and gap:
        written += (length, stride)
    if space is Space.L1:
        pipe, startup, rate = Pipe.MTE2, core.spec.copy_issue, core.spec.l1_read_bytes_per_cycle
    else:
        pipe, startup = Pipe.MTE1, core.spec.load_issue
        rate = core.spec.local_copy_bytes_per_cycle[Space.L1, space]
    core.issue(pipe, "Fill", startup, -(-times * length // rate), (), (written,), compute)
