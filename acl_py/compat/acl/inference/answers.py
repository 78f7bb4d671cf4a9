"""Answers of functions of `acl`: a code that is no success becomes a RuntimeError, as in the vendor's sessions."""

from typing import Any

from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.functions.base.setup import get_recent_err_msg


def done(ret: int, what: str) -> None:
    """Raise RuntimeError unless *ret* is 0; *what* says what was tried."""
    if ret:
        raise RuntimeError(f"{what} failed with {ret}: {get_recent_err_msg() or 'no reason is known'}")


def made(answer: tuple[Any, ...], what: str) -> Any:
    """Return what a function gave besides its code; raise RuntimeError if the code is none of success."""
    *values, ret = answer
    done(ret, what)
    return values[0] if len(values) == 1 else tuple(values)


def now_ns() -> int:
    """Return the host clock in nanoseconds."""
    return session().runtime.host_ns


def ms_since(begin_ns: int) -> float:
    """Return how many milliseconds of simulated time have passed since then."""
    return (now_ns() - begin_ns) / 1e6
