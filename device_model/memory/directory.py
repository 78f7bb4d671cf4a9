"""The directory: the living allocations, and the look-up that finds one of them from an argument of a call.

A call takes memory as a Buffer, an address, an array or an object with the buffer protocol. `locate` turns each into an
allocation and an offset, or raises an error that describes the memory that was probably meant. It is on the hot path of
every copy: a Buffer and an address at the start of an allocation take the shortest way.
"""

import operator
import weakref
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from device_model.errors import DeviceError, Fail, Kind
from device_model.memory import host
from device_model.memory.addresses import AddressMap, Graveyard, whole
from device_model.memory.allocation import DEVICE_BASE, Allocation, Buffer, Origin, Space
from device_model.memory.backing import NOTHING, VALUELESS, Cold
from device_model.memory.pages import Pages
from device_model.memory.stories import Stories, address_text, array_text

WatchView = Callable[[Allocation, npt.NDArray[Any]], npt.NDArray[Any]]


class Directory:
    """The allocations of one simulation. *fail* makes the exception for a failure. Without *values* there are no
    bytes, neither in memory that begins here nor in that of the program.
    """

    def __init__(self, fail: Fail, *, values: bool = True) -> None:
        self.fail = fail
        self.has_values = values
        self._device = AddressMap()
        self._host = AddressMap()
        # Memory that was freed while arrays over it exist: still mapped, but such an array is a use after free.
        self._outlived = AddressMap()
        self._graveyard = Graveyard()
        self._stories = Stories(fail, self._device, self._host, self._graveyard)
        self._serial = 0
        # What callers know of living allocations, so that they need not look again: emptied whenever one ends.
        self.known: dict[tuple[int, ...], Any] = {}
        # Makes of each array that the program gets over an allocation the one that it gets; None: it gets that array.
        self.watch_view: WatchView | None = None
        self.watch_managed: WatchView | None = None  # the same for managed memory, whose pages the views move

    def locate(self, thing: object, nbytes: int, role: str, *, write: bool = False) -> tuple[Allocation, int]:
        """Return the allocation that holds the first *nbytes* of *thing*, and their offset in it.

        Args:
            thing: A Buffer, an address, an array or an object with the buffer protocol. An array in pinned memory is
                that memory. Any other array becomes a pageable allocation, which lives as long as there is a reference
                to it.
            nbytes: How many bytes the call uses.
            role: The name of the argument, for messages; "dst" is written.
            write: It is written, whatever its role.

        Raises:
            DeviceError: (AclError in acl_py) *thing* is not alive, too small, not contiguous, read-only or not memory.
        """
        if type(thing) is Buffer:
            allocation = thing.allocation
            if allocation.fail is not self.fail:
                raise self._foreign(thing, role)
            if allocation.freed is None and 0 <= nbytes <= thing.nbytes:
                return allocation, thing.offset
            raise self._stories.of_buffer(thing, nbytes, role)
        if type(thing) is int:
            space = self._device if thing >= DEVICE_BASE else self._host
            holder = space.by_base.get(thing) or space.floor(thing)
            if holder is not None and 0 <= nbytes <= holder.nbytes - (offset := thing - holder.address):
                return holder, offset
            raise self._stories.of_address(thing, nbytes, role)
        if isinstance(thing, np.ndarray):
            return self._locate_array(host.plain(thing), nbytes, role, write or role == "dst")
        address = host.as_address(thing)
        if address is not None:
            return self.locate(address, nbytes, role, write=write)
        array = self._array(thing, role)
        if array is not None:
            return self._locate_array(array, nbytes, role, write or role == "dst")
        if isinstance(thing, SupportsIndex):
            return self.locate(operator.index(thing), nbytes, role, write=write)
        raise self._stories.of_type(thing, role)

    def whereabouts(self, address: int) -> str:
        """Say where *address* is, which no living allocation holds."""
        return f"{address_text(address)}, {self._stories.whereabouts(address)}"

    def _foreign(self, buffer: Buffer, role: str) -> DeviceError:
        return self.fail(
            Kind.INVALID_ADDRESS,
            f"{role} is {buffer!r}, which belongs to another simulation",
            "allocate memory in the simulation that uses it",
        )

    def _locate_array(self, array: npt.NDArray[Any], nbytes: int, role: str, write: bool) -> tuple[Allocation, int]:
        self._check_array(array, role, write)
        if not 0 <= nbytes <= array.nbytes:
            raise self._stories.of_size(f"{role} is {array_text(array)}, which has", array.nbytes, nbytes)
        address = host.address_of(array)
        if self._host:
            holder = self._host.floor(address)
            if holder is not None and address < holder.address + holder.nbytes >= address + nbytes:
                return holder, address - holder.address
        if self._outlived:
            self._check_outlived(address, f"{role} is an array")
        return self._transient(array, address), 0

    def _check_outlived(self, address: int, subject: str) -> None:
        """Raise an error if *address* lies in memory that was freed, and that arrays over it keep mapped."""
        freed = self._outlived.floor(address)
        if freed is None or address >= freed.address + freed.nbytes:
            return
        assert isinstance(freed.owner, weakref.ref)
        if freed.owner() is None:  # unmapped in the meantime, so the range may belong to something else now
            self._outlived.remove(freed)
            return
        raise self._stories.of_dead(freed, f"{subject} inside {whole(freed)!r}")

    def _array(self, thing: object, role: str) -> npt.NDArray[Any] | None:
        try:
            return host.as_array(thing)
        except BufferError as error:
            raise self._stories.of_strided(f"a {type(thing).__name__}", role) from error

    def _check_array(self, array: npt.NDArray[Any], role: str, write: bool) -> None:
        if not array.flags.c_contiguous:
            raise self._stories.of_strided(array_text(array), role)
        if array.dtype.hasobject:
            what = f"{role} is {array_text(array)}: its bytes are references, not values"
            raise self.fail(Kind.INVALID_VALUE, what, "use a numeric dtype")
        if write and not array.flags.writeable:
            what = f"{role} is {array_text(array)}, which is read-only"
            raise self.fail(Kind.INVALID_VALUE, what, "pass memory that may be written")

    def _transient(self, array: npt.NDArray[Any], address: int) -> Allocation:
        return self.backed(
            Allocation(
                address, array.nbytes, Space.PAGEABLE, Origin.PAGEABLE, host.bytes_of(array), self.fail,
                owner=array,
            )
        )  # fmt: skip

    def backed(self, allocation: Allocation) -> Allocation:
        """Return *allocation*, which is new; in a run without values it gives up its bytes."""
        if not self.has_values:
            allocation.view, allocation.cold = NOTHING, VALUELESS
        return allocation

    def begin_life(
        self,
        address: int,
        nbytes: int,
        device: int,
        origin: Origin,
        view: memoryview,
        cold: Cold | None,
        made: object,
        owner: object = None,
        pages: Pages | None = None,
    ) -> Buffer:
        """Begin an allocation, of host memory if *device* is -1, and return the buffer over it."""
        self._serial += 1
        place = Space.PINNED if device < 0 else Space.DEVICE
        space = Space.MANAGED if pages is not None else place
        allocation = Allocation(
            address, nbytes, space, origin, view, self.fail,
            device=device, cold=cold, made=made, owner=owner, serial=self._serial,
        )  # fmt: skip
        allocation.pages = pages
        return self.enter(self.backed(allocation))

    def enter(self, allocation: Allocation) -> Buffer:
        """Note that *allocation* lives from now on, and return the buffer over it."""
        allocation.home = self
        self._space(allocation.address).add(allocation)
        return whole(allocation)

    def end_life(self, allocation: Allocation, site: object, *, drop: bool) -> None:
        """End an allocation, and remember it for messages; with *drop* its bytes are dropped at once."""
        self._space(allocation.address).remove(allocation)
        allocation.freed = True if site is None else site
        allocation.home = None
        self.known.clear()
        if drop:
            allocation.drop()
        self._graveyard.bury(allocation)

    def _space(self, address: int) -> AddressMap:
        """Return the map that has *address*: device memory that the host cannot see has addresses of its own."""
        return self._device if address >= DEVICE_BASE else self._host

    def root(self, thing: object, verb: str, *origins: Origin) -> Allocation:
        """Return the living allocation that *verb* releases, which must have one of the *origins*.

        *thing* must name all of it, not a part.
        """
        kind = Kind.NOT_REGISTERED if verb == Origin.REGISTERED.ender else Kind.INVALID_ADDRESS
        allocation, offset = self._named(thing, verb, kind)
        buffer = whole(allocation)
        if allocation.freed is not None:
            raise self._released(verb, kind, buffer, origins)
        if allocation.origin not in origins:
            remedy = f"release it with {allocation.origin.ender}()"
            raise self.fail(kind, f"{verb}() does not release {buffer!r}", remedy)
        if offset:
            what = f"{verb} of an address {offset} bytes inside {buffer!r}"
            raise self.fail(Kind.INVALID_ADDRESS, what, f"pass the buffer that {allocation.origin.maker}() returned")
        return allocation

    def _released(self, verb: str, kind: Kind, buffer: Buffer, origins: tuple[Origin, ...]) -> DeviceError:
        """Return the error for a call of *verb*, which releases memory of *origins*, on memory that is released."""
        origin = buffer.allocation.origin
        release, released = ("unregister", "unregistered") if origin is Origin.REGISTERED else ("free", "freed")
        if origin in origins:
            remedy = f"{release} it once"
        else:
            remedy = f"leave out {verb}(): memory of {origin.maker}() is released by {origin.ender}() alone"
        what = f"{verb} of {buffer!r}, which was {released} already"
        return self.fail(kind, what, remedy, dead=buffer.allocation)

    def _named(self, thing: object, verb: str, kind: Kind) -> tuple[Allocation, int]:
        """Return the allocation that the caller of *verb* means, living or freed not long ago, and the offset in it."""
        if isinstance(thing, Buffer):
            if thing.allocation.fail is not self.fail:
                raise self._foreign(thing, f"the argument of {verb}")
            return thing.allocation, thing.offset
        address = host.as_address(thing)
        if address is None:
            array = self._array(thing, f"the argument of {verb}")
            if array is not None:
                address = host.address_of(array)
            elif isinstance(thing, SupportsIndex):
                address = operator.index(thing)
            else:
                raise self._stories.of_type(thing, f"the argument of {verb}")
        allocation = self._space(address).floor(address)
        if allocation is None or address >= allocation.address + allocation.nbytes:
            allocation = self._graveyard.find(address)
        if allocation is None:
            what = f"{verb} of {address_text(address)}, {self._stories.whereabouts(address)}"
            raise self.fail(kind, what, "pass the buffer itself, or the address that it has")
        return allocation, address - allocation.address
