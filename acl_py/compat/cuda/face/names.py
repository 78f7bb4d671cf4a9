"""Names of streams and memory: those of the variables to which the program assigns them, where that can be known.

The call of the driver is part of a statement of the program, which has not stored its result yet. What the instruction
behind the call stores to is the name. So `stream = device.create_stream()` makes the stream 'stream', and so does
`error, stream = cuStreamCreate(0)`. A call in the middle of an expression has no name. Nor has one that a program makes
by ctypes alone: what it assigns is the code.
"""

import dis
import sys
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType, FrameType

from acl_py.sites import is_foreign

_SILENT = ("CACHE", "PRECALL", "CALL", "CALL_KW", "COPY", "NOT_TAKEN", "EXTENDED_ARG")
_PACKAGE = "cuda.bindings"  # it gives out objects, and all other packages use it
_LONGEST = 200  # characters of a name


class Names:
    """The names that were given to objects; an object gets a number if its name was given before."""

    def __init__(self) -> None:
        self._given: Counter[tuple[str, str]] = Counter()

    def name(self, kind: str) -> str | None:
        """Return a name for the *kind* of object that the running call makes; None if it is not known."""
        if _PACKAGE not in sys.modules:
            return None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and is_foreign(frame.f_code):
            frame = frame.f_back
        name = None if frame is None else stored(frame.f_code, frame.f_lasti)
        if name is None:
            return None
        self._given[kind, name] += 1
        number = self._given[kind, name]
        return (name if number == 1 else f"{name} ({number})")[:_LONGEST]


@lru_cache(1024)
def stored(code: CodeType, lasti: int) -> str | None:
    """Return the name of the variable that the call at the instruction *lasti* is assigned to; None if there is none.

    A call around it, such as a check of its code, hands the result on.
    """
    instructions = [each for each in dis.get_instructions(code) if each.offset > lasti]
    behind = [each for each in instructions[:24] if each.opname not in _SILENT]
    if not behind:
        return None
    if behind[0].opname == "UNPACK_SEQUENCE":
        return _last(behind[1:], behind[0].arg or 0)
    return _name(behind)


def _last(stores: Sequence[dis.Instruction], count: int) -> str | None:
    """Return the name behind *count* - 1 others; an instruction may store two."""
    names = [name for each in stores[:count] if each.opname.startswith("STORE_") for name in _names(each)]
    return names[count - 1] if 0 < count <= len(names) else None


def _name(behind: Sequence[dis.Instruction]) -> str | None:
    """Return what the first of the instructions *behind* a call stores to: a variable, or an attribute of one."""
    first = behind[0]
    if first.opname.startswith("STORE_") and first.opname not in ("STORE_SUBSCR", "STORE_ATTR", "STORE_SLICE"):
        return _names(first)[0]
    is_attribute = first.opname.startswith("LOAD_") and len(behind) > 1 and behind[1].opname == "STORE_ATTR"
    return str(behind[1].argval) if is_attribute else None


def _names(store: dis.Instruction) -> list[str]:
    return [str(each) for each in (store.argval if isinstance(store.argval, tuple) else (store.argval,))]
