"""Checks: observers that look for one kind of mistake each. An exception in one of them never reaches the program."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from acl_py.callers import current_caller
from acl_py.findings import Access, Findings, access_at
from acl_py.runtime.runtime import Runtime
from acl_py.sites import path_to
from device_model.observe import Observer

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


class Stacks:
    """The stacks of one simulation: *paths* has, for each line that makes accesses, the path of its first call.

    To keep the path of every call would cost each call a walk over its frames. So the stack of an earlier access is the
    path by which its line was called first in this simulation. It may differ from the path of the very call.
    """

    __slots__ = ("paths",)

    def __init__(self) -> None:
        self.paths: dict[object, tuple[str, ...]] = {}

    def __repr__(self) -> str:
        return f"<Stacks: {len(self.paths)} lines>"

    def note(self, site: object) -> tuple[str, ...]:
        """Return the path of the first call of *site*, which is the running one if none was noted before."""
        path = self.paths.get(site)
        if path is None:
            path = self.paths[site] = path_to(site)
        return path

    def now(self, site: object) -> tuple[str, ...]:
        """Return the path of the running call of *site*; that of its first call if the running code is elsewhere."""
        return path_to(site) or self.note(site)


class Check(Observer):
    """Observes *runtime* and adds to its findings. If it fails itself, it calls *fail*."""

    def __init__(self, runtime: Runtime, fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self._runtime = runtime
        self._findings = runtime.state(Findings)
        self._stacks = runtime.state(Stacks)

    def _access_by_host(self, what: str, site: object, *, writes: bool = False, stream: str = "") -> Access:
        """Return what the running task or thread does at *site*, as findings have it."""
        caller, now = self._runtime.callers.name(current_caller()), self._runtime.host_ns
        return access_at(site, what, writes=writes, caller=caller, stream=stream, stack=path_to(site), at_ns=now)
