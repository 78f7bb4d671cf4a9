"""The arguments of a launch as the bytes that a kernel gets."""

from collections.abc import Sequence
from struct import Struct, error
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.errors import shown
from device_model.ptx.text.syntax import Function, Variable
from device_model.ptx.text.types import Family

Bytes = npt.NDArray[np.uint8]
_UNIT = 16  # bytes, of which parameter memory is a multiple
NOTHING = np.zeros(_UNIT, np.uint8)  # the parameter memory of a kernel without parameters
NOTHING.flags.writeable = False


def layout(kernel: Function) -> Struct | None:
    """Return how numbers of Python are laid out in the parameter memory of *kernel*; None if it takes something else.

    What it packs, it packs as `pack` would; what it refuses may still be allowed.
    """
    parts, at = ["<"], 0
    for parameter in kernel.parameters:
        letter = _LETTERS.get((parameter.type.family, parameter.type.bits))
        if parameter.shape or parameter.vector > 1 or letter is None:
            return None
        parts += [f"{-at % parameter.align}x", letter]
        at += -at % parameter.align + parameter.type.nbytes
    return Struct("".join((*parts, f"{-at % _UNIT}x")))


_LETTERS = {
    (family, bits): letter
    for family, letters in ((Family.UNSIGNED, "BHIQ"), (Family.BITS, "BHIQ"), (Family.SIGNED, "bhiq"))
    for bits, letter in zip((8, 16, 32, 64), letters, strict=True)
} | {(Family.FLOAT, 32): "f", (Family.FLOAT, 64): "d"}
_NUMBERS = {int, float}


def pack(kernel: Function, values: Sequence[Any], fast: Struct | None = None) -> Bytes:
    """Return the parameter memory of a launch of *kernel* with *values*; *fast* is its `layout`, if it has one.

    Each parameter takes a value of its own kind:

    * a pointer or an integer of 64 bits: an address, or any whole number of that width
    * an integer: a whole number that its width can hold, with a sign or without, or a NumPy scalar of that size
    * a float: a real number, which is rounded to it
    * bits without a type (.b8 to .b64): a whole number, a real number for 32 and 64 bits, or a NumPy scalar of that
      size
    * a structure: bytes, an array or a NumPy record of exactly its size

    Raises:
        TypeError: The number of values is wrong, or one is of another kind; the message names the parameter.
        ValueError: A number does not fit, or a structure has another size.
    """
    if len(values) != len(kernel.parameters):
        count = len(kernel.parameters)
        raise TypeError(f"kernel {kernel.name} takes {count} argument{'' if count == 1 else 's'}, not {len(values)}")
    if not values:
        return NOTHING
    if fast is not None and _NUMBERS.issuperset(map(type, values)):
        try:
            return np.frombuffer(fast.pack(*values), np.uint8)
        except (error, OverflowError):
            pass  # the way below knows more kinds of values, and has a sentence for what does not fit
    packed = bytearray()
    for number, (parameter, value) in enumerate(zip(kernel.parameters, values, strict=True)):
        packed += bytes(-len(packed) % parameter.align)
        packed += _bytes_of(f"argument {number} of kernel {kernel.name}", parameter, value)
    packed += bytes(-len(packed) % _UNIT)
    return np.frombuffer(packed, np.uint8)


def text_of(parameter: Variable) -> str:
    """Return a parameter as PTX declares it: ".u32", or ".align 8 .b8[24]"."""
    type_ = f".{parameter.type.name}"
    return f".align {parameter.align} {type_}[{parameter.nbytes}]" if parameter.shape else type_


def _bytes_of(what: str, parameter: Variable, value: Any) -> bytes:
    if parameter.shape or parameter.vector > 1:
        return _structure(what, parameter, value)
    type_ = parameter.type
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 and value.dtype.itemsize == type_.nbytes:
        kind = value.dtype.kind
        if kind in _KINDS[type_.family]:
            return value.tobytes()
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float) and (
        type_.family is Family.FLOAT or (type_.family is Family.BITS and type_.bits >= 32)
    ):
        return _float(value, type_.nbytes)
    if not isinstance(value, int):
        raise TypeError(f"{what} is {shown(value)}, and the parameter is {text_of(parameter)}")
    if type_.family is Family.FLOAT:
        return _float(float(value), type_.nbytes)
    least = -(1 << type_.bits - 1)  # compilers write .u32 for int, too
    most = (1 << type_.bits - (type_.family is Family.SIGNED)) - 1
    if not least <= value <= most:
        raise ValueError(f"{what} is {value}, and {text_of(parameter)} holds {least} to {most}")
    return (value % (1 << type_.bits)).to_bytes(type_.nbytes, "little")


def _float(value: float, nbytes: int) -> bytes:
    with np.errstate(over="ignore"):  # it becomes infinite, as in C
        return np.array(value).astype(f"f{nbytes}").tobytes()


_KINDS = {
    Family.BITS: "iufb", Family.UNSIGNED: "iub", Family.SIGNED: "iub", Family.FLOAT: "f", Family.BRAIN: "u",
    Family.PREDICATE: "b",
}  # fmt: skip


def _structure(what: str, parameter: Variable, value: Any) -> bytes:
    try:
        held = bytes(memoryview(value).cast("B")) if not isinstance(value, np.generic) else value.tobytes()
    except TypeError:
        raise TypeError(f"{what} is {shown(value)}, and the parameter is {text_of(parameter)}: give bytes") from None
    if len(held) != parameter.nbytes:
        raise ValueError(f"{what} has {len(held)} bytes, and the parameter is {text_of(parameter)}")
    return held
