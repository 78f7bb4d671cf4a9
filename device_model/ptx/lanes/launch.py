"""One launch, as its lanes see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from device_model.ptx.lanes.group import Array
from device_model.ptx.lanes.regions import Region
from device_model.ptx.lanes.watching import Watch

if TYPE_CHECKING:
    from device_model.ptx.lanes.clocks import Clock
    from device_model.ptx.lanes.fragments import Fragments

Dim3 = tuple[int, int, int]


class GlobalMemory(Protocol):
    """The memory of the device, as one launch sees it."""

    def find(self, address: int) -> Region | None:
        """Return what holds *address*."""

    def describe(self, address: int, nbytes: int) -> str:
        """Say where *address* is, for the message about an access that is refused."""


@dataclass(slots=True)
class Launch:
    """What all groups of a launch share.

    Attributes:
        grid: The blocks in each direction.
        block: The threads of a block in each direction.
        parameters: The bytes of the parameters.
        memory: The memory of the device.
        dynamic_shared: The bytes of dynamic shared memory of a block.
        grid_id: The number of the launch.
        environment: What the driver has put into `%envreg` registers.
        sms: The SMs of the card.
        warps_of_sm: The warps that an SM can hold.
        places: How many of its blocks the card holds at the same time.
        clock: The times of its warps; None if they do not matter.
        watches: Who looks at it.
        looking: Groups with lanes that poll a word.
        line: The line of PTX that runs, where something could be said about it.
        messages: What lanes have printed, each with its block and thread.
        conditions: The conditions of graphs, by number.
        settings: What lanes have set them to.
    """

    grid: Dim3
    block: Dim3
    parameters: Array
    memory: GlobalMemory
    dynamic_shared: int = 0
    grid_id: int = 1
    environment: Mapping[int, int] = field(default_factory=dict)
    sms: int = 1
    warps_of_sm: int = 64
    places: int = 1 << 31
    clock: "Clock | None" = None
    watches: Sequence[Watch] = ()
    looking: dict["Fragments", None] = field(default_factory=dict)
    line: int = 0
    messages: list[tuple[int, int, str]] = field(default_factory=list)
    conditions: Mapping[int, object] = field(default_factory=dict)
    settings: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        """Let lanes that poll a word look at once if it has changed: later, it may have changed once more."""
        looking, self.looking = self.looking, {}
        for fragments in looking:
            fragments.look()
        self.looking |= {fragments: None for fragments in looking if fragments.spinning}

    @property
    def threads(self) -> int:
        """The threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def blocks(self) -> int:
        """The blocks of the grid."""
        x, y, z = self.grid
        return x * y * z


def indices(number: int, sizes: Dim3) -> str:
    """Return the place of a block or a thread for a message: one number, if the launch has one direction."""
    x, y, _ = sizes
    place = (number % x, number // x % y, number // (x * y))
    return str(place[0]) if sizes[1:] == (1, 1) else str(place)
