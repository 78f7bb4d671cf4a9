"""The library of the driver in this process: it is loaded once, and its functions come here while the driver lives."""

import os
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from acl_py.compat.acl.face.current import current_session
from acl_py.compat.cuda.face.codes import NOT_INITIALIZED, UNKNOWN
from acl_py.compat.cuda.library.callbacks import Answer, Late, address_of, callback_of
from acl_py.compat.cuda.library.loading import Library
from acl_py.compat.cuda.library.signatures import Signature, exported
from acl_py.late_imports import import_late

SONAMES = ("libcuda.so.1", "libcuda.so")
EARLY = (  # what programs may call before cuInit()
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
)
_EARLY = "acl_py.compat.cuda.driver.early"  # the module that answers them
_is_ended = False
_callbacks: dict[str, Any] = {}  # they live as long as the process: C may hold them anywhere
_late: list[Any] = []  # those that have made others, too: calls may be in them


@cache
def library() -> Library:
    """Return the library, which the first call loads.

    Raises:
        RuntimeError: It cannot be loaded.
    """
    loaded = Library(SONAMES, [name for name, *_ in exported()], NOT_INITIALIZED)
    os.register_at_fork(after_in_child=_end_in_child)
    return loaded


def _end_in_child() -> None:
    """Let a child of fork have no driver, as in CUDA, if its parent has begun to use it."""
    global _is_ended
    if current_session() is not None:
        _is_ended = True
        clear(NOT_INITIALIZED)


def is_ended() -> bool:
    """Whether this process can have no driver, because it is a child of one that used it."""
    return _is_ended


def is_loaded() -> bool:
    """Whether the library is in this process."""
    return bool(library.cache_info().currsize)


def put(names: Iterable[str]) -> None:
    """Let calls of the functions *names* come here from now on."""
    wanted = set(names)
    for name, signature, is_twin in exported():
        if name in wanted:
            if name not in _callbacks:
                late = Late(partial(_answer_of, name, signature, is_twin=is_twin), UNKNOWN)
                _callbacks[name] = callback_of(signature, late.answer)
            library().put(name, address_of(_callbacks[name]))


def _answer_of(name: str, signature: Signature, *, is_twin: bool) -> Answer:
    """Return what answers the first call of the function *name*, and let it answer all later ones."""
    import_late(_EARLY)
    answer: Answer = import_late(f"{__package__}.calls").answer_of(signature.name, is_twin=is_twin)
    _late.append(_callbacks[name])
    _callbacks[name] = callback_of(signature, answer)
    if library().has(name):
        library().put(name, address_of(_callbacks[name]))
    return answer


def has(name: str) -> bool:
    """Whether calls of the function *name* come here."""
    return library().has(name)


def clear(answer: int) -> None:
    """Let all functions answer *answer* from now on; no Python runs then."""
    library().clear(answer)


def address(name: str) -> int:
    """Return the address of the exported function *name*."""
    return library().address(name)
