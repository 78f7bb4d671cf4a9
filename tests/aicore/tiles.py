"""What the tests of mistakes share: tiles of 256 elements in each memory, and a flag that is set and waited for."""

import numpy as np
from cores import prewritten

from device_model.aicore.core.names import KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.sync import (
    SetFlag,
    WaitFlag,
)

N = 256  # elements of a tile
V, MTE2, MTE3 = Pipe.V, Pipe.MTE2, Pipe.MTE3
MIX = KernelType.MIX_AIC_1_2
AIC = KernelType.AIC_ONLY


def gm(*buffers):
    return [GlobalTensor(float32).SetGlobalBuffer(buffer) for buffer in buffers]


def ub(*tiles):
    """Tiles in UB that are written already."""
    return [prewritten(LocalTensor(float32, TPosition.VECCALC, tile * N * 4, N)) for tile in tiles]


def l0c():
    """A tile in L0C that is written already."""
    return prewritten(LocalTensor(float32, TPosition.CO1, 0, N))


def l1(*tiles):
    return [LocalTensor(float32, TPosition.A1, tile * N * 4, N) for tile in tiles]


def sync(event, event_id=0):
    SetFlag(event, event_id)
    WaitFlag(event, event_id)


def x_y_z():
    return [np.full(4 * N, value, np.float32) for value in (1, 2, 0)]
