"""The memory of graphs: how much of it devices hold for them."""

from collections.abc import Iterable

from device_model.memory import Allocation

_CHUNK = 2 << 20  # a device holds memory for graphs in pieces of this size


class GraphMemory:
    """What the launches of graphs have allocated, by device. Memory that is freed stays held until a trim."""

    def __init__(self) -> None:
        self._held: dict[int, dict[Allocation, int]] = {}
        self._highest: dict[int, int] = {}

    def take(self, ordinal: int, allocations: Iterable[Allocation]) -> None:
        """Note memory of a graph that is launched for the first time."""
        held = self._held.setdefault(ordinal, {})
        held.update({each: -(-each.nbytes // _CHUNK) * _CHUNK for each in allocations})
        self._highest[ordinal] = max(self.highest(ordinal), self.bytes(ordinal))

    def trim(self, ordinal: int) -> None:
        """Let go of what is freed."""
        held = self._held.get(ordinal, {})
        self._held[ordinal] = {each: nbytes for each, nbytes in held.items() if each.freed is None}

    def bytes(self, ordinal: int) -> int:
        """Return how much device *ordinal* holds."""
        return sum(self._held.get(ordinal, {}).values())

    def highest(self, ordinal: int) -> int:
        """Return how much it has held at most."""
        return self._highest.get(ordinal, 0)

    def reset_highest(self, ordinal: int) -> None:
        """Begin again with what it holds now."""
        self._highest[ordinal] = self.bytes(ordinal)
