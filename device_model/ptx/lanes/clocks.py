"""What lanes read of time, and how they spend it."""

import numpy as np

from device_model.ptx.lanes.group import Array, Lanes

_DTYPES = {"%clock": "u4", "%clock_hi": "u4", "%globaltimer_lo": "u4", "%globaltimer_hi": "u4"}


def clock(at: Lanes, name: str) -> Array:
    """Return what a clock register holds now."""
    value = at.group.launch.nanoseconds if name.startswith("%globaltimer") else at.group.launch.cycles
    if name.endswith("_hi"):
        value >>= 32
    dtype = np.dtype(_DTYPES.get(name, "u8"))
    return np.full((1, 1), value % (1 << 8 * dtype.itemsize), dtype)


def sleep(at: Lanes, nanoseconds: Array) -> None:
    """Let time pass for the lanes."""
    at.group.launch.nanoseconds += int(nanoseconds.max())
