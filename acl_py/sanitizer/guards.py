"""Guards: an exception in the sanitizer itself never reaches the program."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

_Hook = TypeVar("_Hook", bound=Callable[..., None])


def guarded(hook: _Hook) -> _Hook:
    """Let *hook*, a method, do its work; if it raises, call `fail` of its object: the program goes on."""

    @wraps(hook)
    def guarded(self: Any, *args: Any) -> None:
        try:
            hook(self, *args)
        except Exception as error:
            self.fail(error)

    return cast("_Hook", guarded)
