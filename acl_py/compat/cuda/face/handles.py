"""Handles of the driver's objects, and the objects that only this face has."""

from collections import defaultdict
from itertools import count
from typing import Any

from acl_py.compat.cuda.face.codes import INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, RefusedError

_FIRST, _STEP = 0x20000000, 0x40
_WORDS = {
    "exec": "executable graph",
    "object": "user object",
    "physical": "piece of memory",
}  # of kinds that are no words
_CODES = {"context": INVALID_CONTEXT} | dict.fromkeys(("graph", "node", "exec", "object"), INVALID_VALUE)


class Handles:
    """Objects by handle. A handle is never used again, so one that has ended is always found out."""

    def __init__(self) -> None:
        self.tables: defaultdict[str, dict[int, Any]] = defaultdict(dict)  # the objects of each kind, by handle
        self._kinds: dict[int, str] = {}  # by handle
        self._handles: dict[int, int] = {}  # by the identity of the object, which its table keeps alive
        self._numbers = count(_FIRST, _STEP)

    def handle(self, kind: str, thing: Any) -> int:
        """Return the handle of *thing*, a new one if it has none."""
        known = self._handles.get(id(thing))
        if known is None:
            known = self._handles[id(thing)] = next(self._numbers)
            self.tables[kind][known] = thing
            self._kinds[known] = kind
        return known

    def find(self, kind: str, handle: int) -> Any:
        """Return the object that *handle* stands for.

        Raises:
            RefusedError: It stands for none, or for one of another kind: with 201 for a context, with 1 for what
                graphs have, otherwise with 400.
        """
        thing = self.tables[kind].get(handle)
        if thing is None:
            known = self.kind_of(handle)
            what = f"{handle:#x} is no handle of {_named(kind)}" + (f", but of {_named(known)}" if known else "")
            raise RefusedError(_CODES.get(kind, INVALID_HANDLE), what)
        return thing

    def of_kind(self, kind: str) -> list[Any]:
        """Return all objects of a *kind*."""
        return list(self.tables[kind].values())

    def kind_of(self, handle: int) -> str:
        """Return the kind of the object that *handle* stands for; "" if there is none."""
        return self._kinds.get(handle, "")

    def renew(self, old: Any, new: Any) -> None:
        """Let the handle of *old* stand for *new* from now on."""
        handle = self._handles.pop(id(old), None)
        if handle is not None:
            self._handles[id(new)] = handle
            self.tables[self._kinds[handle]][handle] = new

    def forget(self, thing: Any) -> None:
        """End the handle of *thing*."""
        handle = self._handles.pop(id(thing), None)
        if handle is not None:
            del self.tables[self._kinds.pop(handle)][handle]


def _named(kind: str) -> str:
    """Return *kind* with its article."""
    words = _WORDS.get(kind, kind)
    return f"{'an' if words[:1] in tuple('aeo') else 'a'} {words}"
