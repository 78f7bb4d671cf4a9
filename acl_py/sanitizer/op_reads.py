"""Reads of an operation's fields: who reads when it began or ended, or whether it is done, has asked for it.

The model reads these fields all the time, so they are plain slots. Only while the host is watched, operations that are
over become objects of a class in which they are properties. A read before that finds nothing that a wait has brought
about. Reads by the model and by this package are no reads of the program. On the compiled core no read is seen, because
objects with C fields keep their class.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from acl_py.runtime.runtime import Runtime
from acl_py.sites import site_of
from device_model.compiled import IS_COMPILED
from device_model.completions import Completion
from device_model.observe import Observer
from device_model.ops import Op

_OWN = ("acl_py", "device_model")  # packages
_FIELDS = {"start_ns": Op, "end_ns": Completion, "done": Completion}  # with the class whose slots they are


class OpReads(Observer):
    """Tells observers of *runtime* when the program reads fields of operations that are over, until it is closed."""

    def __init__(self, runtime: Runtime) -> None:
        self._hooks = runtime.hooks
        self._is_open = True
        fields = {name: _field(vars(owner)[name], self._read) for name, owner in _FIELDS.items()}
        self._class: type[Op] = type("Op", (Op,), {"__slots__": (), "__module__": Op.__module__, **fields})

    def close(self) -> None:
        """Tell of no more reads: the simulation has ended."""
        self._is_open = False

    def op_ended(self, op: Op) -> None:
        """Let reads of the fields of *op* be seen."""
        if type(op) is Op and not IS_COMPILED:
            op.__class__ = self._class

    def _read(self, frame: FrameType) -> None:
        if self._is_open and self._hooks.timed is not None:
            self._hooks.timed(site_of(frame))


def _field(slot: Any, read: Callable[[FrameType], None]) -> property:
    """Return a property with the value of *slot*; *read* is called with the frame of each reader."""
    get = slot.__get__

    def value(op: Op) -> Any:
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _OWN:
            read(frame)
        return get(op)

    return property(value, slot.__set__)
