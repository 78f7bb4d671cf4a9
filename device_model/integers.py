"""Numbers that a caller gives. First integers: a size, a count, a number of blocks, of milliseconds or of a device.

Every type of integers is accepted, as a program that computes sizes with NumPy has np.int64. An address is another
thing: a buffer has one (`__index__`), and would pass for a huge count. So it is not enough that `operator.index` takes
a value; it must be a number as well. A bool is refused, because it is nearly always a mistake.
"""

import operator
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from device_model.errors import shown

Integer: TypeAlias = int | np.integer[Any]


def is_integer(value: object) -> TypeGuard[Integer]:
    """Whether *value* is an integer of Python or NumPy."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def integer(name: str, value: object, what: str = "an int", within: range | None = None) -> int:
    """Return *value* as an int.

    Raises:
        TypeError: It is not an integer, or not one of *within*. The message says that *name* must be *what*.
    """
    if is_integer(value) and (within is None or operator.index(value) in within):
        return operator.index(value)
    raise TypeError(f"{name} must be {what}, not {shown(value)}")


def number(name: str, value: object, what: str) -> float:
    """Return *value*, a real number of Python or NumPy; an integer of Python stays one.

    Raises:
        TypeError: It is something else. The message says that *name* must be *what*.
    """
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, Integral) and not isinstance(value, bool):
        return operator.index(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"{name} must be {what}, not {shown(value)}")


def lengths(shape: Integer | Sequence[Integer]) -> tuple[int, ...]:
    """Return *shape*, as NumPy takes it, as a tuple of ints."""
    each = shape if isinstance(shape, Iterable) else (shape,)
    return tuple(integer("a length in a shape", length) for length in each)
