"""How blocks of code end: where their lanes go on."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from device_model.ptx.lanes.barriers import Arrival
from device_model.ptx.lanes.group import Array, Lanes

if TYPE_CHECKING:
    from device_model.ptx.lanes.fragments import Fragments


class StoppedError(Exception):
    """A lane has stopped the kernel: *what* happened, the places of the lanes, and the line of PTX, if it is known."""

    def __init__(self, what: str, lanes: Lanes, line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.lanes = lanes.flat.reshape(-1)


class AssertionFailedError(StoppedError):
    """An assertion of a lane does not hold."""


class Goto:
    """All lanes go on at one place."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:  # noqa: ARG002 - every end has it
        """Send the lanes on."""
        fragments.go(self.place, at)


class Branch:
    """Lanes go on at one of two places: the block returns for which lanes it is the first one."""

    __slots__ = ("place", "then")

    def __init__(self, place: int, then: int) -> None:
        self.place = place
        self.then = then

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:
        """Send the lanes on."""
        fragments.split(at, result, self.place, self.then)


class Exit:
    """Lanes end; if the block returns a mask, only those, and the others go on."""

    __slots__ = ("then",)

    def __init__(self, then: int) -> None:
        self.then = then

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:
        """End the lanes."""
        if result is None:
            fragments.end(at)
            return
        for lanes, is_ended in halves(at, result):
            if is_ended:
                fragments.end(lanes)
            else:
                fragments.go(self.then, lanes)


class Indexed:
    """Lanes go on at places[i], where i is what the block returns; others stop the kernel with *what*."""

    __slots__ = ("line", "places", "what")

    def __init__(self, places: Mapping[int, int], what: str, line: int) -> None:
        self.places = places
        self.what = what
        self.line = line

    def go(self, fragments: "Fragments", at: Lanes, result: Array) -> None:
        """Send the lanes on."""
        values = [int(value) for value in np.unique(result)]
        for value in values:
            lanes = at if len(values) == 1 else Lanes(at.group, at.some(result == value))
            if value not in self.places:
                raise StoppedError(self.what, lanes, self.line)
            fragments.go(self.places[value], lanes)


class Return:
    """Lanes go on behind the call: the block returns the place of each."""

    __slots__ = ()

    def go(self, fragments: "Fragments", at: Lanes, result: Array) -> None:
        """Send the lanes on."""
        places = [int(place) for place in np.unique(result)]
        for place in places:
            fragments.go(place, at if len(places) == 1 else Lanes(at.group, at.some(result == place)))


class Barrier:
    """Lanes wait at a barrier. The block returns its number, how many lanes it takes (None: all), and for a reduction
    the predicate of each lane and a function that sets the result.
    """

    __slots__ = ("arrives", "then")

    def __init__(self, then: int, *, arrives: bool = False) -> None:
        self.then = then
        self.arrives = arrives

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:
        """Let the lanes wait, or only count them."""
        number, needed, given, reduce = result
        launch = at.group.launch
        numbers = [int(each) for each in np.unique(number)]
        for each in numbers:
            lanes = at if len(numbers) == 1 else Lanes(at.group, at.some(number == each))
            count = None if needed is None else int(needed.reshape(-1)[0])
            if self.arrives:
                assert count is not None, "bar.arrive has a count"
                fragments.barriers.arrive(fragments.go, each, count, lanes)
            else:
                arrival = Arrival(lanes, self.then, launch.line, given, reduce)
                fragments.barriers.sync(fragments.go, each, count, arrival)
        if self.arrives:
            fragments.go(self.then, at)


class Sleep:
    """Lanes sleep, and go on when their time has come."""

    __slots__ = ("then",)

    def __init__(self, then: int) -> None:
        self.then = then

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:  # noqa: ARG002 - every end has it
        """Set the lanes aside."""
        fragments.sleep(self.then, at)


class Trap:
    """Lanes stop the kernel."""

    __slots__ = ("line", "then", "what")

    def __init__(self, then: int, what: str, line: int) -> None:
        self.then = then
        self.what = what
        self.line = line

    def go(self, fragments: "Fragments", at: Lanes, result: Any) -> None:
        """Stop the kernel, if the block returns a mask only for those lanes."""
        for lanes, is_stopped in halves(at, np.ones((1, 1), np.bool_) if result is None else result):
            if is_stopped:
                raise StoppedError(self.what, lanes, self.line)
            fragments.go(self.then, lanes)


def halves(at: Lanes, mask: Array) -> Sequence[tuple[Lanes, bool]]:
    """Return the lanes for which *mask* is true, and the others; none that are empty."""
    if mask.size == 1:
        return [(at, bool(mask[0, 0]))]
    first, second = at.some(mask), at.some(~mask)
    if not len(second):
        return [(at, True)]
    if not len(first):
        return [(at, False)]
    return [(Lanes(at.group, first), True), (Lanes(at.group, second), False)]
