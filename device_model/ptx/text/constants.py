"""Numbers and constant expressions in PTX text."""

import struct
from collections.abc import Callable

from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.lexer import Mark
from device_model.ptx.text.syntax import Number

Constant = int | float
_WORD = 2**64
_ENDS = (",", ";", "]", "}", ")")  # what follows a number that is alone
_BINARY: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


def number(text: str) -> Number:
    """Return the number that *text* is."""
    start = text[:2].lower()
    if start == "0f":
        bits = int(text[2:], 16)
        return Number(struct.unpack("<f", struct.pack("<I", bits))[0], bits, 32)
    if start == "0d":
        bits = int(text[2:], 16)
        return Number(struct.unpack("<d", struct.pack("<Q", bits))[0], bits, 64)
    if start == "0x":
        return Number(int(text.rstrip("U"), 16) % _WORD)
    if start == "0b":
        return Number(int(text.rstrip("U"), 2) % _WORD)
    if any(mark in text for mark in ".eE"):
        value = float(text)
        return Number(value, struct.unpack("<Q", struct.pack("<d", value))[0], 64)
    digits = text.rstrip("U")
    return Number(int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10) % _WORD)


def constant(cursor: Cursor) -> Number:
    """Read a constant expression, which may be one number."""
    if cursor.ahead.mark is Mark.NUMBER and cursor.after.text in _ENDS:
        return _number(cursor)
    return _choice(cursor)


def count(cursor: Cursor, most: int) -> int:
    """Read one number up to *most*, behind which any sign may stand."""
    token = cursor.ahead
    value = _number(cursor).value if token.mark is Mark.NUMBER else None
    if not isinstance(value, int) or value > most:
        raise cursor.error(f"{token.text} is no whole number up to {most}", line=token.line)
    return value


def whole(cursor: Cursor, least: int = 0, most: int = 2**31 - 1) -> int:
    """Read a constant expression that is a whole number from *least* to *most*."""
    token = cursor.ahead
    value = constant(cursor).value
    if not isinstance(value, int) or not least <= value <= most:
        raise cursor.error(f"{value} is no whole number from {least} to {most}", line=token.line)
    return value


def _number(cursor: Cursor) -> Number:
    token = cursor.take()
    try:
        return number(token.text)
    except ValueError:
        raise cursor.error(f"{token.text} is no number", line=token.line) from None


def _choice(cursor: Cursor) -> Number:
    condition = _binary(cursor, 0)
    if not cursor.accepts("?"):
        return condition
    first = _choice(cursor)
    cursor.expect(":")
    second = _choice(cursor)
    return first if condition.value else second


def _binary(cursor: Cursor, level: int) -> Number:
    if level == len(_BINARY):
        return _unary(cursor)
    left = _binary(cursor, level + 1)
    while cursor.ahead.text in _BINARY[level] and cursor.ahead.mark is Mark.SIGN:
        sign = cursor.take()
        right = _binary(cursor, level + 1)
        left = _joined(cursor, sign.text, left.value, right.value)
    return left


def _unary(cursor: Cursor) -> Number:
    token = cursor.ahead
    with cursor.deeper():
        if cursor.accepts("-"):
            inner = _unary(cursor)
            if isinstance(inner.value, float):
                return Number(
                    -inner.value, None if inner.bits is None else inner.bits ^ 1 << inner.width - 1, inner.width
                )
            return Number(_signed(-inner.value))
        if cursor.accepts("+"):
            return _unary(cursor)
        if cursor.accepts("~"):
            return Number(_signed(~_whole(cursor, _unary(cursor).value)))
        if cursor.accepts("!"):
            return Number(int(not _unary(cursor).value))
        if cursor.accepts("("):
            if cursor.ahead.mark is Mark.DIRECTIVE:  # a cast, (.s64) or (.u64), which changes no bit of 64
                cursor.take()
                cursor.expect(")")
                return _unary(cursor)
            inner = _choice(cursor)
            cursor.expect(")")
            return inner
    if token.mark is Mark.WORD and token.text == "WARP_SZ":
        cursor.take()
        return Number(32)
    if token.mark is not Mark.NUMBER:
        raise cursor.error(f"a number is missing before {token.text!r}")
    return _number(cursor)


def _whole(cursor: Cursor, value: Constant) -> int:
    if isinstance(value, float):
        raise cursor.error("the operator takes whole numbers")
    return value


def _signed(value: int) -> int:
    value %= _WORD
    return value - _WORD if value >> 63 else value


def _joined(cursor: Cursor, sign: str, left: Constant, right: Constant) -> Number:
    if isinstance(left, float) or isinstance(right, float):
        by_float: dict[str, Callable[[float, float], Constant]] = {
            "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "<": lambda a, b: a < b,
            ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b,
            "!=": lambda a, b: a != b,
        }  # fmt: skip
        if sign == "/" and right:
            return _float(left / right)
        if sign not in by_float:
            raise cursor.error(f"{sign} of {left} and {right} has no value")
        value = by_float[sign](float(left), float(right))
        return _float(value) if isinstance(value, float) else Number(int(value))
    if sign in ("/", "%"):
        if not right:
            raise cursor.error(f"{left} {sign} 0 has no value")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return Number(_signed(quotient if sign == "/" else left - quotient * right))
    if sign in ("<<", ">>"):
        places = min(right % _WORD, 64)
        return Number(_signed(left << places) if sign == "<<" else left >> places)
    by_int: dict[str, Callable[[int, int], int]] = {
        "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "&": int.__and__, "|": int.__or__, "^": int.__xor__,
        "<": int.__lt__, ">": int.__gt__, "<=": int.__le__, ">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__,
        "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
    }  # fmt: skip
    return Number(_signed(int(by_int[sign](left, right))))


def _float(value: float) -> Number:
    return Number(value, struct.unpack("<Q", struct.pack("<d", value))[0], 64)
