"""Host objects whose addresses a script took: how far each goes, so that a copy beyond its end is noticed.

An address says where memory begins but not where it ends, and a card's runtime does not check: a copy that is too long
reads or overwrites other memory. Known here are the `bytes`, `bytearray` and arrays that acl.util was given. A view of
an array reaches as far as the array or the bytes that own its memory. Scripts take the address of a row and mean all
rows that follow.

`bytes` cannot have weak references, so they are held here, and released when nothing else holds them. That is checked
each time the number of objects has doubled since the last check.
"""

import ctypes
import threading
import weakref
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from acl_py.sites import Site
from device_model.memory.host import address_of

# Many scripts take the address of a temporary, bytes_to_ptr(array.tobytes()), and copy from it in the next line. With
# the vendor's binding the freed memory is not used again in between; here Python uses it. So the last ones are kept.
_LATELY = 16
_SMALL = 32 << 20  # larger memory goes back to the system when it is freed: such a script crashes on a card too
_LARGEST = 256 << 20  # bytes of one object that may be held a little longer than the script holds it


def _is_array(thing: Any) -> bool:
    return isinstance(thing, np.ndarray)


def _size(thing: Any) -> int:
    return int(thing.nbytes) if isinstance(thing, np.ndarray) else len(thing)


def _owner(thing: Any) -> Any:
    """Return the array, bytes or bytearray that owns the memory of *thing*; None if something else owns it."""
    while isinstance(thing, np.ndarray):
        base = thing.base
        if base is None:
            return thing if thing.flags.owndata else None
        thing = base.obj if isinstance(base, memoryview) else base
    return thing if isinstance(thing, bytes | bytearray) else None


def _extent(thing: Any) -> tuple[int, int]:
    if isinstance(thing, bytes):
        begin = ctypes.cast(ctypes.c_char_p(thing), ctypes.c_void_p).value or 0
        return begin, begin + len(thing)
    array = thing if isinstance(thing, np.ndarray) else np.frombuffer(thing, np.uint8)
    begin = address_of(array)
    return begin, begin + array.nbytes


class HostObject:
    """One object: the owner of its memory, the function that took its address, and the line of the call."""

    __slots__ = ("_fixed", "made", "reference", "taker", "thing")

    def __init__(self, thing: Any, taker: str, made: Site) -> None:
        self.reference: Callable[[], Any] | None = weakref.ref(thing) if isinstance(thing, np.ndarray) else None
        self.thing: Any = thing if self.reference is None else None
        self._fixed = _extent(thing) if isinstance(thing, bytes) else None
        self.taker = taker
        self.made = made

    def extent(self) -> tuple[int, int]:
        """Return where its memory begins and ends; (0, 0) if the object is gone."""
        if self._fixed is not None:
            return self._fixed
        thing = self.held()
        return (0, 0) if thing is None else _extent(thing)

    def held(self) -> Any:
        """Return the object itself, which stays alive for as long as the caller holds it; None if it is gone."""
        return self.thing if self.reference is None else self.reference()

    @property
    def is_held(self) -> bool:
        """Whether the script still holds it."""
        return getrefcount(self.thing) > _ONLY_HERE if self.reference is None else self.reference() is not None


def _only_here() -> int:
    """Return the number of references to an object that only a HostObject holds."""
    alone = HostObject(bytes(bytearray(2)), "", Site(_only_here.__code__, 0))
    return getrefcount(alone.thing)


_ONLY_HERE = _only_here()


class HostObjects:
    """The objects whose addresses were taken, by the address at which they begin."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # re-entrant: releasing an object may run a script's finalizer
        self._begins: list[int] = []
        self._objects: dict[int, HostObject] = {}
        self._lately: deque[Any] = deque(maxlen=_LATELY)
        self._most = 64  # objects at which the next check is due; the next line: bytes
        self._most_bytes = _LARGEST
        self._held_bytes = 0

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._begins, self._objects, self._held_bytes = [], {}, 0
            self._lately.clear()

    def add(self, thing: Any, taker: str, made: Site, *, is_temporary: bool) -> None:
        """Note that the function *taker* was given *thing*, bytes or an array, at the line *made*."""
        owner = _owner(thing)
        nbytes = 0 if owner is None else _size(owner)
        with self._lock:
            if nbytes <= _SMALL:
                self._lately.append(thing)
            if not nbytes or (nbytes > _SMALL and is_temporary) or (nbytes > _LARGEST and not _is_array(owner)):
                return
            known = HostObject(owner, taker, made)
            begin = known.extent()[0]
            if begin not in self._objects:
                insort(self._begins, begin)
            self._objects[begin] = known
            self._held_bytes += 0 if _is_array(owner) else nbytes
            if len(self._objects) > self._most or self._held_bytes > self._most_bytes:
                self._let_go()

    def is_known(self, address: int, data: bytes) -> bool:
        """Whether *data*, which begins at *address*, was added."""
        known = self._objects.get(address)
        return known is not None and known.thing is data

    def holder(self, address: int) -> tuple[HostObject, int, int] | None:
        """Return the object in whose memory *address* lies, and where that memory begins and ends; None if there is no
        such object, or it is gone.
        """
        with self._lock:
            begins = self._begins
            place = bisect_right(begins, address) - 1
            while place >= 0:
                known = self._objects[begins[place]]
                begin, end = known.extent()
                if begin and (end - begin <= _SMALL or known.is_held):
                    return (known, begin, end) if begin <= address < end else None
                del self._objects[begins.pop(place)]  # gone: other memory may be there now
                place -= 1
        return None

    def _let_go(self) -> None:
        """Release the objects that nothing else holds."""
        self._objects = {begin: each for begin, each in self._objects.items() if each.is_held}
        self._begins = sorted(self._objects)
        self._held_bytes = sum(_size(each.thing) for each in self._objects.values() if each.reference is None)
        self._most = 2 * len(self._objects) + 64
        self._most_bytes = 2 * self._held_bytes + _LARGEST


objects = HostObjects()  # of the process, as its addresses are
