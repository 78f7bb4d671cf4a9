"""The arguments of fault rules: what is wrong with them, and how a rule shows them."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from acl_py.calls.table import all_verbs
from acl_py.errors import Kind
from device_model.errors import listed
from device_model.integers import is_integer
from device_model.scheduler import END_NS, nanoseconds

OPS = ("h2d", "d2h", "d2d", "p2p", "collective", "fill", "prefetch_h2d", "prefetch_d2h", "kernel", "host_function")


class FaultError(ValueError):
    """A fault rule with wrong arguments; the message says which and why."""


def bounds_of(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return from when to when a rule strikes, in nanoseconds, as a Rule takes it.

    Raises:
        FaultError: They are none, or the second is not behind the first.
    """
    since, until = where.get("since_us", 0), where.get("until_us")
    since_ns = duration_of("since_us", since)
    until_ns = None if until is None else duration_of("until_us", until)
    if until_ns is not None and until_ns <= since_ns:
        raise FaultError(f"until_us must be more than since_us, which is {since!r}, and not {until!r}")
    return {"since_ns": since_ns, "until_ns": until_ns}


def times_said(since_us: float, until_us: float | None) -> dict[str, float]:
    """Return what a text shows of these times: those that are not the default."""
    return ({} if not since_us else {"since_us": since_us}) | ({} if until_us is None else {"until_us": until_us})


def check_factor(text: str, factor: object) -> None:
    """Refuse a *factor* that is no number above 0 and up to 2**62.

    Raises:
        FaultError: It is none.
    """
    if not (isinstance(factor, int | float) and 0 < factor <= END_NS):
        raise FaultError(f"{text}: factor must be more than 0 and at most 2**62, not {factor!r}")


def check_device(text: str, name: str, number: Any) -> None:
    """Refuse a *number* that is none of a device.

    Raises:
        FaultError: It is none.
    """
    if not is_integer(number) or number < 0:
        raise FaultError(f"{text}: {name} must be the number of a device, from 0 on, not {number!r}")


def duration_of(name: str, us: object) -> int:
    """Return so many microseconds in nanoseconds.

    Raises:
        FaultError: It is below 0, or beyond the end of time.
    """
    if not isinstance(us, int | float):
        raise FaultError(f"{name} must be 0 or more, not {us!r}")
    try:
        return nanoseconds(name, us, 1000)
    except ValueError as error:
        raise FaultError(str(error)) from None


_NOUNS = {"call": "verb", "op": "operation"}


def check_pattern(text: str, where: Mapping[str, Any]) -> None:
    """Refuse a pattern that nothing can match. A misspelt rule never strikes, and the program would look robust.

    Raises:
        FaultError: There is one.
    """
    for key, known in (("call", tuple(all_verbs())), ("op", OPS)):
        pattern = where.get(key)
        if pattern is not None and not (isinstance(pattern, str) and any(fnmatchcase(each, pattern) for each in known)):
            raise FaultError(f"{text}: there is no {_NOUNS[key]} {pattern!r}; {_nearest(pattern, known)}")


def _nearest(name: object, known: Collection[str]) -> str:
    """Name those of *known* that are like *name*; if none is, the first of them."""
    from difflib import get_close_matches  # only messages need it

    near = get_close_matches(str(name), known, 3, 0.5)
    return f"similar: {', '.join(near)}" if near else f"there are {listed(known)}"


def ops_only(name: str, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a rule that can strike operations only.

    Raises:
        FaultError: They look at calls.
    """
    if "call" in where:
        raise FaultError(f"{name}: it strikes operations, not calls; give op=..., one of {', '.join(OPS)} or *")
    return dict(where)


def kind_named(kind: Kind | str) -> Kind:
    """Return the kind of a failure from its name, or as it is.

    Raises:
        FaultError: There is none of this name.
    """
    if isinstance(kind, Kind):
        return kind
    if kind not in Kind.__members__:
        raise FaultError(f"fail: acl_py.Kind has no {kind!r}; {_nearest(str(kind).upper(), Kind.__members__)}")
    return Kind[kind]


def text_of(name: str, where: Mapping[str, Any]) -> str:
    """Return how a rule is shown: as the call of its function."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in where.items())})"
