"""The initial values of variables."""

import struct
from math import prod

from device_model.ptx.text.constants import constant, whole
from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.lexer import Mark
from device_model.ptx.text.syntax import Number, Relocation, Symbol, Variable
from device_model.ptx.text.types import Family

_MOST = 1 << 28  # bytes that a text may give


def initial(at: Cursor, variable: Variable) -> tuple[tuple[int, ...], bytes, tuple[Relocation, ...]]:
    """Read the values behind the equals sign.

    Returns:
        The shape, whose first length may follow from the values; the bytes; the addresses in them.
    """
    return _Values(at, variable).read()


class _Values:
    """Reads the values of one variable."""

    def __init__(self, at: Cursor, variable: Variable) -> None:
        self.at = at
        self.variable = variable
        self.shape = (*variable.shape, *((variable.vector,) if variable.vector > 1 else ()))
        self.data = bytearray()
        self.relocations: list[Relocation] = []
        self.width = variable.type.nbytes

    def read(self) -> tuple[tuple[int, ...], bytes, tuple[Relocation, ...]]:
        """Read all of them."""
        if not self.shape:
            self._value(0, 1)
            return (), bytes(self.data), tuple(self.relocations)
        length = self._list(0, 0)
        shape = self.variable.shape
        if shape and not shape[0]:
            shape = (length, *shape[1:])
        return shape, bytes(self.data), tuple(self.relocations)

    def _list(self, level: int, first: int) -> int:
        """Read the values between two braces, of dimension *level*, from element *first* on; return how many."""
        at = self.at
        line = at.expect("{").line
        inner = prod(self.shape[level + 1 :])
        most = self.shape[level] or _MOST
        count = 0
        with at.deeper():
            while not at.accepts("}"):
                if count:
                    at.expect(",")
                if at.ahead.text == "{" and level + 1 < len(self.shape):
                    self._list(level + 1, first + count * inner)
                    count += 1
                elif level + 1 < len(self.shape):  # all elements of the inner dimensions one after the other
                    self._value(first + count, most * inner)
                    count += 1
                else:
                    self._value(first + count, first + most)
                    count += 1
                if count > most * inner:
                    raise PtxError(line, f"{self.variable.name} has more values than elements")
        return count

    def _value(self, index: int, stop: int) -> None:
        at = self.at
        if index >= stop or index * self.width >= _MOST:
            raise at.error(f"{self.variable.name} has more values than elements")
        start = index * self.width
        self.data.extend(bytes(max(0, start + self.width - len(self.data))))
        token = at.ahead
        if token.mark is Mark.WORD and token.text != "WARP_SZ":
            self._symbol(start, 0)
        elif token.mark is Mark.NUMBER and at.after.text == "(":
            self._masked(start)
        else:
            self.data[start : start + self.width] = self._bytes(constant(at))

    def _masked(self, start: int) -> None:
        mask = whole(self.at, 0, 2**64 - 1)
        shift = (mask & -mask).bit_length() - 1
        if not mask or mask != 0xFF << shift or shift % 8:
            raise self.at.error(f"{mask:#x} is no mask of one byte")
        self.at.expect("(")
        self._symbol(start, shift)
        self.at.expect(")")

    def _symbol(self, start: int, shift: int) -> None:
        at = self.at
        is_generic = at.ahead.text == "generic" and at.after.text == "("
        if is_generic:
            at.take()
            at.take()
        name = at.word("the name of a variable").text
        if is_generic:
            at.expect(")")
        offset = 0
        if at.ahead.text in ("+", "-"):
            sign = -1 if at.take().text == "-" else 1
            offset = sign * whole(at, -(2**63), 2**63 - 1)
        self.relocations.append(Relocation(start, self.width, Symbol(name, offset), is_generic, shift))

    def _bytes(self, value: Number) -> bytes:
        type_ = self.variable.type
        if type_.family is Family.FLOAT and type_.bits in (16, 32, 64):
            if value.bits is not None and value.width == type_.bits:
                return value.bits.to_bytes(self.width, "little")
            if not isinstance(value.value, float):
                raise self.at.error(
                    f"{value.value} is no value of type .{type_.name}: write it with a point, or as 0f.."
                )
            return struct.pack({16: "<e", 32: "<f", 64: "<d"}[type_.bits], value.value)
        if isinstance(value.value, float):
            if value.bits is None or value.width != type_.bits:
                raise self.at.error(f"{value.value} is no value of type .{type_.name}")
            return value.bits.to_bytes(self.width, "little")
        return (value.value % (1 << type_.bits)).to_bytes(self.width, "little")
