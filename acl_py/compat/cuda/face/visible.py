"""Which devices a program may see, by the variable CUDA_VISIBLE_DEVICES; all are alike, so only their number counts."""

import os
from collections.abc import Sequence

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_UUID = b"acl_py simulated"[:15]  # and the number of the device


def uuid(ordinal: int) -> bytes:
    """Return 16 bytes that differ from device to device."""
    return _UUID + bytes([ordinal % 256])


def visible(count: int) -> int:
    """Return how many of *count* devices the program sees: those that are named before one that is not there."""
    text = os.environ.get(_VARIABLE)
    if text is None:
        return count
    numbers: list[int] = []
    for name in text.split(","):
        number = _number(name.strip(), range(count))
        if number is None or number in numbers:
            break
        numbers.append(number)
    return len(numbers)


def _number(name: str, numbers: Sequence[int]) -> int | None:
    """Return the number of a device that is named by its number, or by the start of its UUID."""
    if name.startswith("GPU-"):
        start = name[4:].replace("-", "").lower()
        fitting = [number for number in numbers if uuid(number).hex().startswith(start)]
        return fitting[0] if len(fitting) == 1 else None
    return int(name) if name.isdecimal() and int(name) in numbers else None
