"""acl.op: attributes of operators."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from acl_py.compat.acl.face.binding import WrongContainerError, check_ints, does, fits, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session

_MOST_OF_A_BYTE = 255
_READ_AS = {bool: np.dtype(np.uint8), int: np.dtype(np.int64), float: np.dtype(np.float32)}  # by the binding


class WrongTextError(RuntimeError, ValueError):
    """Something else than a text in a list of texts: the binding raises a RuntimeError there, and nowhere else."""


@dataclass(eq=False, slots=True)
class AttributeSet:
    """Values by name."""

    values: dict[str, Any] = field(default_factory=dict)


def attributes_of(here: Session, handle: int) -> dict[str, Any] | None:
    """The values behind *handle*; 0 stands for none at all."""
    if not handle:
        return {}
    attributes = here.find(handle, AttributeSet)
    return None if attributes is None else dict(attributes.values)


@takes("")
def create_attr() -> int:
    """Make an empty set of attributes."""
    return session().handle(AttributeSet())


@takes("k")
def destroy_attr(handle: int) -> None:
    """End a set of attributes."""
    here = session()
    if here.find(handle, AttributeSet) is not None:
        here.forget(handle)


def _values(here: Session, handle: int) -> dict[str, Any]:
    attributes = here.find(handle, AttributeSet)
    if attributes is None:
        raise here.error(INVALID_PARAM, f"{handle:#x} is no set of attributes: see acl.op.create_attr()")
    return attributes.values


@does("ksi")
def set_attr_bool(here: Session, handle: int, name: str, value: int) -> None:
    """Set a truth value."""
    _values(here, handle)[name] = bool(value)


@does("ksq")
def set_attr_int(here: Session, handle: int, name: str, value: int) -> None:
    """Set an int."""
    _values(here, handle)[name] = value


def _rounded(value: float) -> float:
    """As a float32 has it; infinite if that cannot."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@does("ksf")
def set_attr_float(here: Session, handle: int, name: str, value: float) -> None:
    """Set a number, which the device has as float32."""
    _values(here, handle)[name] = _rounded(value)


@does("kss")
def set_attr_string(here: Session, handle: int, name: str, value: str) -> None:
    """Set a text."""
    _values(here, handle)[name] = value


def _list(function: str, values: Any, kind: type) -> list[Any]:
    """A list of *kind*, or an array, which the binding warns of. TypeError or ValueError if it is something else."""
    if isinstance(values, np.ndarray):
        if values.dtype != _READ_AS[kind]:
            what = f"acl.op.{function} got an array of {values.dtype}: a card reads its bytes as {_READ_AS[kind]}"
            session().warn_once(f"{what}, which gives other values")
        warnings.warn(f"acl.op.{function}: pass a list; a later version will not take arrays", Warning, stacklevel=4)
        return values.ravel().tolist()
    if not isinstance(values, list):
        raise WrongContainerError(f"acl.op.{function}: argument 3 is not list or numpy array")
    if not all(isinstance(each, int if kind is bool else kind) for each in values):
        raise ValueError(f"acl.op.{function}: argument 3 has something of another kind in it")
    if kind in (bool, int) and not all(fits(each, 64) for each in values):
        raise ValueError(f"acl.op.{function}: a number of argument 3 has more than 64 bits")
    return list(values)


@does("ksO")
def set_attr_list_bool(here: Session, handle: int, name: str, values: Any) -> None:
    """Set truth values."""
    given = _list("set_attr_list_bool", values, bool)
    if not all(0 <= each <= _MOST_OF_A_BYTE for each in given):
        raise ValueError("acl.op.set_attr_list_bool: the truth values of argument 3 are 0 to 255")
    _values(here, handle)[name] = [bool(each) for each in given]


@does("ksO")
def set_attr_list_int(here: Session, handle: int, name: str, values: Any) -> None:
    """Set ints."""
    _values(here, handle)[name] = _list("set_attr_list_int", values, int)


@does("ksO")
def set_attr_list_float(here: Session, handle: int, name: str, values: Any) -> None:
    """Set numbers, which the device has as float32. The binding takes no ints among them."""
    _values(here, handle)[name] = [_rounded(each) for each in _list("set_attr_list_float", values, float)]


@does("ksl")
def set_attr_list_string(here: Session, handle: int, name: str, values: list[str]) -> None:
    """Set texts. RuntimeError if one is something else."""
    for each in values:
        if not isinstance(each, str):
            what = f"argument 3 has {type(each).__name__} in it, not only str"
            raise WrongTextError(f"acl.op.set_attr_list_string: {what}")
    _values(here, handle)[name] = list(values)


@does("ksl")
def set_attr_list_list_int(here: Session, handle: int, name: str, values: list[Any]) -> None:
    """Set lists of ints."""
    _values(here, handle)[name] = [_list("set_attr_list_list_int", each, int) for each in values]


@does("ksi", echoes=True)
def set_attr_data_type(here: Session, handle: int, name: str, dtype: int) -> None:
    """Set an aclDataType."""
    _values(here, handle)[name] = dtype


@does("ksl", echoes=True)
def set_attr_list_data_type(here: Session, handle: int, name: str, dtypes: list[int]) -> None:
    """Set several aclDataTypes."""
    check_ints(dtypes)
    _values(here, handle)[name] = list(dtypes)
