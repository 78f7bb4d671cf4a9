"""What a kernel asks about where it runs."""

from device_model.aicore.machine import running
from device_model.aicore.names import CoreType


def GetBlockIdx() -> int:
    """Which part of the work this core does; on the vector cores of mixed blocks, block * vector cores + sub-block."""
    core = running()
    program = core.program
    if core.core_type is CoreType.AIV:
        return program.block * core.ratio + program.sub_block
    return program.block


def GetBlockNum() -> int:
    """How many blocks were launched."""
    return running().block_dim


def GetSubBlockIdx() -> int:
    """Which vector core of its block this is; 0 on a cube core."""
    return running().program.sub_block


def GetTaskRatio() -> int:
    """How many cores of this kind a block has: 2 on the vector cores of a 1:2 mixed kernel, else 1."""
    core = running()
    return core.ratio if core.core_type is CoreType.AIV else 1


GetTaskRation = GetTaskRatio  # the older spelling


class CoreTypeTest:
    """Does this run on a core of one type? `if ASCEND_IS_AIC:`, as the macro of Ascend C, or `ASCEND_IS_AIC()`."""

    def __init__(self, core_type: CoreType) -> None:
        self._core_type = core_type

    def __bool__(self) -> bool:
        return running().core_type is self._core_type

    def __call__(self) -> bool:
        """As its truth."""
        return bool(self)

    def __repr__(self) -> str:
        return f"<ASCEND_IS_{self._core_type}>"


ASCEND_IS_AIC = CoreTypeTest(CoreType.AIC)
ASCEND_IS_AIV = CoreTypeTest(CoreType.AIV)
