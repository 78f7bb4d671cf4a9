"""Who looks at a launch while it runs: checks for mistakes, and what its time is worked out from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from device_model.ptx.lanes.group import Array, Group, Lanes

if TYPE_CHECKING:
    from device_model.ptx.lanes.program import Code


class Watch:
    """What a launch tells; each method is called before what it is about, and does nothing here.

    The line of PTX is `launch.line`. Addresses are those of the state space: "global", "shared", "local" or "param". A
    vector is one access of all its bytes.
    """

    __slots__ = ()

    def begin(self, group: Group) -> None:
        """The lanes of *group* begin."""

    def step(self, at: Lanes, code: "Code") -> None:
        """The lanes *at* run a block of code."""

    def load(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Each lane loads so many bytes."""

    def store(self, at: Lanes, space: str, address: Array, nbytes: int, values: Sequence[Array]) -> None:
        """Each lane stores *values*, the parts of a vector."""

    def change(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Each lane does an atomic operation."""

    def fence(self, at: Lanes) -> None:
        """The lanes run a fence."""

    def arrive(self, at: Lanes, number: int) -> None:
        """The lanes arrive at a barrier of their blocks."""

    def release(self, group: Group, number: int, blocks: Array) -> None:
        """A barrier is complete in the blocks for which the mask *blocks* is true."""

    def meet(self, at: Lanes, members: Array) -> None:
        """The lanes have met those of their warp that *members* names, as bits."""

    def end(self, group: Group) -> None:
        """All lanes of *group* have ended."""
