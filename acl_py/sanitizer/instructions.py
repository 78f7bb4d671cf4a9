"""Instructions of kernels on AI cores: which one of a launch reads or writes the bytes of a race."""

from typing import TYPE_CHECKING

from acl_py.sanitizer.shadow import Ranges
from device_model.memory import Allocation
from device_model.work import CoreKernel

if TYPE_CHECKING:
    from device_model.aicore.core.program import Flow


def instruction_text(work: CoreKernel, allocation: Allocation, ranges: Ranges, *, writes: bool) -> str:
    """Return the first instruction of *work*, which has run, that reads or *writes* one of the bytes *ranges* of
    *allocation*: its line, its name and its core. "" if there is none: the launch declares the bytes and does not touch
    them.
    """
    from device_model.aicore.core.program import Direction, Flow  # imported here: most programs have no such kernel

    direction, key = Direction.WRITE if writes else Direction.READ, (allocation.device, allocation.serial)
    for program in () if work.result is None else work.result.programs:
        for instruction in program.instructions:
            flow = instruction.flow
            if isinstance(flow, Flow) and flow.direction is direction and flow.key == key and _meets(flow, ranges):
                return f"{instruction.site}: {instruction.name} in {program}"
    return ""


def _meets(flow: "Flow", ranges: Ranges) -> bool:
    rows = (flow.start + row * flow.stride for row in range(flow.rows))
    return any(start < row + flow.length and row < stop for row in rows for start, stop in ranges)
