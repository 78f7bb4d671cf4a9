"""What launches in both languages of kernels share: arguments as the device model takes them, and fitting profiles."""

from collections.abc import Sequence
from typing import Any

from acl_py.late_imports import import_late
from acl_py.verbs.arrays import Access, Array
from device_model.kernel.images import Argument


def arguments_of(names: Sequence[str], values: Sequence[Any], accesses: Sequence[Access]) -> list[Any]:
    """Return *values* with each array, and those in lists, as the device model takes it."""
    return [_taken(name, value, access) for name, value, access in zip(names, values, accesses, strict=True)]


def _taken(name: str, value: Any, access: Access) -> Any:
    if isinstance(value, Array):
        return _argument_of(name, value, access)
    if isinstance(value, list | tuple) and any(isinstance(each, Array) for each in value):
        return [_taken(f"{name}[{place}]", each, access) for place, each in enumerate(value)]
    return value


def profiles_with(cores: str) -> str:
    """Return the names of the profiles that describe *cores*: "aicore" or "sm"."""
    profiles = import_late("device_model.profile")
    return ", ".join(name for name in profiles.names() if getattr(profiles.load(name), cores) is not None)


def _argument_of(name: str, array: Array, access: Access) -> Argument:
    """Return *array* as the device model takes it: the bytes, and what the kernel does with them."""
    buffer = array.buffer
    return Argument(
        name,
        buffer.allocation,
        buffer.offset,
        buffer.offset + array.nbytes,
        array.dtype,
        is_read=access is not Access.OUT,
        is_written=access is not Access.IN,
        shape=array.shape,
    )
