"""Conditions of graphs, which kernels set."""

import numpy as np

from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.memory import AccessError


def set_condition(at: Lanes, number: Array, value: Array) -> None:
    """Give the condition with a *number* a *value*; of several lanes the last one counts."""
    launch, lanes = at.group.launch, at.flat.reshape(-1)
    numbers, values = (np.broadcast_to(each, at.shape).reshape(-1).tolist() for each in (number, value))
    for place, wanted in enumerate(numbers):
        if wanted not in launch.conditions:
            raise AccessError(f"{wanted:#x} is no condition of a graph", lanes[place : place + 1])
    launch.settings.update(zip(numbers, values, strict=True))
