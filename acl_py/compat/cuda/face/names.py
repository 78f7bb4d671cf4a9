"""Names of streams and memory: those of the variables to which the program assigns them, where that can be known.

The call of the driver is part of a statement of the program, which has not stored its result yet. What the instruction
behind the call stores to is the name. So `stream = device.create_stream()` makes the stream 'stream', and so does
`error, stream = cuStreamCreate(0)`. `first, second = cuda.stream(), cuda.stream()` makes 'first' and 'second'. A call
in the middle of another expression has no name. Nor has one that a program makes by ctypes alone: what it assigns is
the code.
"""

import dis
import sys
from collections import Counter
from functools import lru_cache
from types import CodeType, FrameType
from typing import TypeAlias

from acl_py.sites import is_foreign

_SILENT = ("CACHE", "PRECALL", "KW_NAMES", "NOT_TAKEN", "EXTENDED_ARG")
_UNNAMED = ("STORE_SUBSCR", "STORE_SLICE")  # what they store to is not one variable
_COMPUTES = ("BINARY_", "BUILD_", "COMPARE_", "LOAD_SUPER_", "UNARY_")
_BELOW = 64  # values on the stack below the result of a call
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


# A value on the stack: whether it is the result of the call; or a tuple, of such values.
_Value: TypeAlias = "bool | tuple[_Value, ...]"


@lru_cache(1024)
def stored(code: CodeType, lasti: int) -> str | None:
    """Return the name of the variable that the call at the instruction *lasti* is assigned to; None if there is none.

    A call around it, such as a check of its code, hands the result on.
    """
    stack: list[_Value] = [*[False] * _BELOW, True]
    for each in dis.get_instructions(code):
        if each.offset <= lasti or each.opname in _SILENT:
            continue
        count = each.arg or 0
        match each.opname:
            case "STORE_ATTR":
                if stack.pop() is not True and stack.pop() is True:
                    return str(each.argval)
            case name if name.startswith("STORE_") and name not in _UNNAMED:
                variables = _names(each)
                for variable in variables[:1] if "LOAD" in name else variables:
                    if stack.pop() is True:
                        return variable
                stack += [False] * ("LOAD" in name)
            case "UNPACK_SEQUENCE":
                values = stack.pop()
                stack += values[::-1] if isinstance(values, tuple) else (values, *[False] * (count - 1))
            case "BUILD_TUPLE" if count:
                stack[-count:] = [tuple(stack[-count:])]
            case "SWAP":
                stack[-1], stack[-count] = stack[-count], stack[-1]
            case "COPY":
                stack.append(stack[-count])
            case "CALL" | "CALL_KW":
                if each.opname == "CALL_KW":
                    stack.pop()  # the names of arguments
                is_handed_on = count > 0 and stack[-1] is True
                stack[-count - 2 :] = [is_handed_on]
            case "LOAD_ATTR" | "LOAD_METHOD":
                stack[-1:] = [False] * (1 + dis.stack_effect(each.opcode, count))
            case name if name.startswith(_COMPUTES):  # one value from several, or from none
                stack[len(stack) - 1 + dis.stack_effect(each.opcode, each.arg) :] = [False]
            case name if name.startswith("LOAD_") or name == "PUSH_NULL":
                stack += [False] * dis.stack_effect(each.opcode, each.arg)
            case _:
                return None
    return None


def _names(store: dis.Instruction) -> list[str]:
    return [str(each) for each in (store.argval if isinstance(store.argval, tuple) else (store.argval,))]
