"""The kernels and host functions of stream programs: those of the script that ran the measured programs on a card."""

from functools import cache
from typing import Any

import numpy as np

from acl_py.errors import DeviceError, Kind
from acl_py.verbs.kernels import Cost, InOut, KernelFunction, kernel

FAULT_US = 151_000.0  # from a bad address to the error (measured: sticky_error, the wait after the poke)


def host_function() -> None:
    """Do nothing: the function only takes time."""


def add(counter: Any, by: int) -> None:
    """Add *by* to *counter*, an array of one int, which wraps around."""
    counter += np.int32(by)


@cache
def spin(us: float, exclusive: bool) -> KernelFunction[...]:
    """Return a kernel that only keeps each block busy for *us* microseconds."""

    def spin() -> None:
        """Touch nothing."""

    return kernel(cost=Cost(us=us), exclusive=exclusive)(spin)


@kernel(cost=Cost(us=0))
def increment(counter: InOut, by: int) -> None:
    """Add *by* to one int, as one thread of one block."""
    add(counter, by)


@cache
def touch(cost: Cost) -> KernelFunction[...]:
    """Return a kernel that reads and writes as many bytes as *cost* says, and changes none."""

    def touch() -> None:
        """Change nothing."""

    return kernel(cost=cost)(touch)


@cache
def poke(address: int) -> KernelFunction[...]:
    """Return a kernel that writes to *address*: always a bad one, as programs know no address of simulated memory."""

    def poke() -> None:
        """Fault."""
        raise DeviceError(Kind.ILLEGAL_ADDRESS, f"a kernel wrote to {address:#x}, where the device has no memory")

    return kernel(cost=Cost(us=FAULT_US))(poke)
