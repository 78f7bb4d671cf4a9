"""Handles of the driver's objects, and the objects that only this face has."""

from itertools import count
from typing import Any

from acl_py.compat.cuda.face.codes import INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, RefusedError

_FIRST, _STEP = 0x20000000, 0x40
_CODES = {"context": INVALID_CONTEXT} | dict.fromkeys(("graph", "node", "exec", "object"), INVALID_VALUE)


class Handles:
    """Objects by handle. A handle is never used again, so one that has ended is always found out."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[str, Any]] = {}
        self._handles: dict[int, int] = {}  # by the identity of the object, which `_objects` keeps alive
        self._numbers = count(_FIRST, _STEP)

    def handle(self, kind: str, thing: Any) -> int:
        """Return the handle of *thing*, a new one if it has none."""
        known = self._handles.get(id(thing))
        if known is None:
            known = self._handles[id(thing)] = next(self._numbers)
            self._objects[known] = kind, thing
        return known

    def find(self, kind: str, handle: int) -> Any:
        """Return the object that *handle* stands for.

        Raises:
            RefusedError: It stands for none, or for one of another kind: with 201 for a context, with 1 for what
                graphs have, otherwise with 400.
        """
        known, thing = self._objects.get(handle, ("", None))
        if known != kind:
            code = _CODES.get(kind, INVALID_HANDLE)
            raise RefusedError(code, f"{handle:#x} is no handle of a {kind}" + (f", but of a {known}" if known else ""))
        return thing

    def of_kind(self, kind: str) -> list[Any]:
        """Return all objects of a *kind*."""
        return [thing for each, thing in self._objects.values() if each == kind]

    def kind_of(self, handle: int) -> str:
        """Return the kind of the object that *handle* stands for; "" if there is none."""
        return self._objects.get(handle, ("", None))[0]

    def renew(self, old: Any, new: Any) -> None:
        """Let the handle of *old* stand for *new* from now on."""
        handle = self._handles.pop(id(old), None)
        if handle is not None:
            self._handles[id(new)] = handle
            self._objects[handle] = self._objects[handle][0], new

    def forget(self, thing: Any) -> None:
        """End the handle of *thing*."""
        handle = self._handles.pop(id(thing), None)
        if handle is not None:
            del self._objects[handle]
