"""Where a thread is: its index, its block, and which threads are active."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from device_model.cta.block import running
from device_model.cta.language.registers import Register, check_known, check_set, register, values_of
from device_model.sm.names import WARP, Dim3


def tid() -> Register:
    """Return the index of each thread in its block (threadIdx.x)."""
    return register(running().tids.astype(np.int32))


def warp() -> Register:
    """Return the warp of each thread."""
    return register((running().tids // WARP).astype(np.int32))


def lane() -> Register:
    """Return the lane of each thread in its warp."""
    return register((running().tids % WARP).astype(np.int32))


def block() -> Dim3:
    """Return the index of the block in the grid, (x, y, z) (blockIdx)."""
    return running().index


def grid() -> Dim3:
    """Return the number of blocks in each direction (gridDim)."""
    return running().grid


def threads() -> int:
    """Return the number of threads of a block (blockDim.x)."""
    return running().threads


def where(condition: Any) -> AbstractContextManager[None]:
    """Let only threads for which *condition* is true take part in what follows.

    A warp with no such thread issues nothing. Loads, stores, copies, arrivals and assignments to a register
    (`r[...] = v`, `r += v`) are done for active threads only; a new name for a result is no assignment to a register.

        with cta.where(i < n):
            y[i] = x[i] * 2
    """
    this = running()
    check_set(condition)
    check_known(condition, "where()")
    return this.only(values_of(this, condition))
