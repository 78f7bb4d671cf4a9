"""The memory of a device as one launch sees it: what it stores is published at its end, and when it waits.

A launch whose blocks wait for one another has a workspace, which no other launch sees: the word at its byte 4 counts
the blocks that have come. `%envreg1` and `%envreg2` have the upper and the lower half of its address.
"""

from collections.abc import Collection, Sequence

import numpy as np

from device_model import memory
from device_model.memory import Allocation, Buffer, Memory, Space
from device_model.ptx.lanes.group import Array
from device_model.ptx.lanes.regions import Region
from device_model.touches import NOTHING, Touches

_WORKSPACE = 0x7B << 56  # below the windows of generic addresses, and far above all allocations
_WORKSPACE_BYTES = 16
ENVIRONMENT = {1: _WORKSPACE >> 32, 2: _WORKSPACE & 0xFFFFFFFF}  # of the registers of a launch with a workspace


class DeviceMemory:
    """All memory that kernels of device *ordinal* can reach.

    Args:
        registry: The living allocations.
        given: Those that the arguments of the launch point to. They may have been freed since the call, in the order
            of a stream, and the launch may use them all the same.
        ordinal: The device.
        peers: The devices that it has access to.
        has_workspace: Whether the launch has a workspace.
    """

    __slots__ = ("_given", "_of_allocation", "_ordinal", "_peers", "_recent", "_registry", "_workspace")

    def __init__(
        self, registry: Memory, given: Sequence[Allocation], ordinal: int, peers: Collection[int], *,
        has_workspace: bool = False,
    ) -> None:  # fmt: skip
        self._workspace = _workspace() if has_workspace else None
        self._registry = registry
        self._given = given
        self._ordinal = ordinal
        self._peers = peers
        self._of_allocation: dict[Allocation, Region] = {}
        self._recent: Region | None = None

    def find(self, address: int) -> Region | None:
        """Return what holds *address*; None if the device cannot reach it."""
        recent = self._recent
        if recent is not None and recent.start <= address < recent.stop:
            return recent
        if self._workspace is not None and _WORKSPACE <= address < self._workspace.stop:
            return self._workspace
        allocation = self._holder(address)
        if allocation is None or allocation.is_dropped or not self._reaches(allocation):
            return None
        region = self._of_allocation.get(allocation)
        if region is None:
            region = self._of_allocation[allocation] = Region(_contents(allocation), allocation.address)
        self._recent = region
        return region

    def describe(self, address: int, nbytes: int) -> str:
        """Say where *address* is, for the message about an access that is refused."""
        allocation = self._holder(address)
        if allocation is None:
            return f"an access of {nbytes} bytes at {self._registry.whereabouts(address)}"
        whole = Buffer(allocation, 0, allocation.nbytes)
        if allocation.is_dropped:
            return f"an access of {nbytes} bytes in {whole!r}, which is no longer there"
        if not self._reaches(allocation):
            return f"an access of {nbytes} bytes in {whole!r}, which device {self._ordinal} cannot reach"
        past = address + nbytes - allocation.address - allocation.nbytes
        return f"an access of {nbytes} bytes, of which {past} are past the end of {whole!r}"

    def _holder(self, address: int) -> Allocation | None:
        for each in self._given:
            if each.address <= address < each.address + each.nbytes:
                return each
        return self._registry.holder(address)

    def _reaches(self, allocation: Allocation) -> bool:
        if allocation.space is Space.DEVICE:
            return allocation.device == self._ordinal or allocation.device in self._peers
        return allocation.space in (Space.PINNED, Space.MANAGED)

    def read(self) -> Touches:
        """Return the bytes that lanes have read before they wrote them."""
        if not self._of_allocation:
            return NOTHING
        return Touches([(each, region.read()) for each, region in self._of_allocation.items()])

    def written(self) -> Touches:
        """Return the bytes that lanes have written."""
        if not self._of_allocation:
            return NOTHING
        return Touches([(each, region.written()) for each, region in self._of_allocation.items()])

    def publish(self) -> None:
        """Copy what lanes have written to where it belongs, and let them see what others have written."""
        self._recent = None
        for allocation, region in self._of_allocation.items():
            if not allocation.is_dropped:
                region.show(_contents(allocation))


def _contents(allocation: Allocation) -> Array:
    """Return the bytes of *allocation*; zeros, which a kernel must not look at, in a run without values."""
    if not allocation.has_values:
        return np.frombuffer(memory.create_mapping(max(1, allocation.nbytes)), np.uint8)[: allocation.nbytes]
    return memory.array(allocation, 0, np.uint8, allocation.nbytes)


def _workspace() -> Region:
    return Region(np.zeros(_WORKSPACE_BYTES, np.uint8), _WORKSPACE, in_place=True)
