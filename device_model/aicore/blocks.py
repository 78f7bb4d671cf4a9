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


def ASCEND_IS_AIC() -> bool:
    """Does this run on a cube core?"""
    return running().core_type is CoreType.AIC


def ASCEND_IS_AIV() -> bool:
    """Does this run on a vector core?"""
    return running().core_type is CoreType.AIV
