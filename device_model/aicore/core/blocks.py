"""Functions that tell a kernel where it runs: its block, its core, the number of blocks.

They return numbers that are known at launch, so no pipe waits and they take no simulated time.
"""

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import CoreType


def GetBlockIdx() -> int:
    """Return the index of this core's part of the work, from 0 on (Ascend C: GetBlockIdx).

    On a vector core of a mixed kernel it is block index * vector cores per block + GetSubBlockIdx(), elsewhere the
    block index.
    """
    return running().block_idx


def GetBlockNum() -> int:
    """Return the number of blocks that were launched (Ascend C: GetBlockNum)."""
    return running().block_dim


def GetSubBlockIdx() -> int:
    """Return the index of this vector core in its block; 0 on a cube core (Ascend C: GetSubBlockIdx)."""
    return running().program.sub_block


def GetTaskRatio() -> int:
    """Return the cores of this type per block (Ascend C: GetTaskRatio).

    It is 2 on the vector cores of a 1:2 mixed kernel, and 1 on all other cores.
    """
    core = running()
    return core.ratio if core.core_type is CoreType.AIV else 1


GetTaskRation = GetTaskRatio  # the older spelling


def GetSubBlockNum() -> int:
    """Return the cores of this type in a block (Ascend C: GetSubBlockNum).

    It is 2 on the vector cores of a 1:2 mixed kernel, and 1 on all other cores.
    """
    return GetTaskRatio()


class CoreTypeTest:
    """True on cores of one type: `if ASCEND_IS_AIC:`, as with the macro of Ascend C, or `if ASCEND_IS_AIC():`."""

    def __init__(self, core_type: CoreType) -> None:
        self._core_type = core_type

    def __bool__(self) -> bool:
        return running().core_type is self._core_type

    def __call__(self) -> bool:
        """Return True on a core of this type."""
        return bool(self)

    def __repr__(self) -> str:
        return f"<ASCEND_IS_{self._core_type}>"


ASCEND_IS_AIC = CoreTypeTest(CoreType.AIC)
ASCEND_IS_AIV = CoreTypeTest(CoreType.AIV)
