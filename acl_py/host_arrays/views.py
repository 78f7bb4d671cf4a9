"""Views: NumPy arrays over host memory that report which bytes the program reads and writes through them.

With the sanitizer's part "host", `Buffer.numpy()`, `acl.util.ptr_to_numpy()` and all that is made of them give a
`HostView`. It computes what any array does. What shares memory with a view is a view; results with memory of their own
are plain arrays.

NumPy's `array`, `asarray` and their relatives ask no method of their argument. So while views are watched, the module
`numpy` has stand-ins for them. A program that imported one by name before that calls the original, unseen.

What is done through an address, or by C code that was given a view, is not seen. A view that hands out its buffer
counts as read, or as written if the buffer is asked for writing; Python 3.11 does not tell that memoryview() asks.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from acl_py.host_arrays.host_view import HostView, Source, carry_out, view_of
from acl_py.ranges import Ranges
from acl_py.sites import Site, site_of
from device_model.memory import Allocation

_Array = npt.NDArray[Any]
_STAND_INS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "frombuffer")

UNSEEN = (
    "host accesses are seen through views of pinned memory only: not what C code, memoryview() or a bare address reads "
    "and writes, and not ordinary arrays"
)


Report = Callable[[Allocation, Ranges, bool, Site], None]  # of bytes; True if they are written; the line
Export = Callable[[Allocation, Ranges, Site], None]  # the line at which the program got at the memory


class Views:
    """Gives out views, until it is closed.

    *report* is called with each access, *exported* when the program gets at the memory itself: from then on it may
    read and write these bytes unseen.
    """

    __slots__ = ("_exported", "_is_open", "_report")
    _open: ClassVar[list["Views"]] = []  # while there is one, numpy has stand-ins

    def __init__(self, report: Report, exported: Export) -> None:
        self._report = report
        self._exported = exported
        self._is_open = True
        if not Views._open:
            _replace_functions()
        Views._open.append(self)

    def close(self) -> None:
        """Watch no more: the views that the program holds are ordinary arrays from now on. A second call is allowed."""
        if not self._is_open:
            return
        self._is_open = False
        Views._open.remove(self)
        if not Views._open:
            _restore_functions()

    def watch(self, allocation: Allocation, array: _Array) -> _Array:
        """Return a view of *array*, which lies in *allocation*."""
        return view_of(array, Source(self, allocation))

    def access(self, allocation: Allocation, ranges: Ranges, *, writes: bool) -> None:
        """Report an access that the running code makes."""
        if self._is_open and ranges:
            self._report(allocation, ranges, writes, site_of(sys._getframe(1)))

    def exported(self, allocation: Allocation, ranges: Ranges) -> None:
        """Report that the program got at the memory itself."""
        if self._is_open and ranges:
            self._exported(allocation, ranges, site_of(sys._getframe(1)))


# --- stand-ins for functions of the module numpy

_originals: dict[str, Callable[..., Any]] = {}


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        if isinstance(first, HostView) or (
            isinstance(first, list | tuple) and any(isinstance(each, HostView) for each in first)
        ):
            return carry_out(function, args, kwargs)
        return function(*args, **kwargs)

    return stand_in


def _replace_functions() -> None:
    for name in _STAND_INS:
        _originals[name] = getattr(np, name)
        setattr(np, name, _stand_in(_originals[name]))


def _restore_functions() -> None:
    for name, function in _originals.items():
        setattr(np, name, function)
    _originals.clear()
