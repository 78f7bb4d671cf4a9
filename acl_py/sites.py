"""Call sites: the line of the user's program that made a call, cheap to take and readable later.

A verb takes the frame that awaits it. Where that frame is not the user's (the verb is a task of its own, made by
gather or create_task), the site is where the task was made: a task factory notes it, for tasks whose coroutine is not
the user's own.
"""

import asyncio
import os
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

_PACKAGE = str(Path(__file__).parent) + os.sep
_FOREIGN = (_PACKAGE, str(Path(asyncio.__file__).parent) + os.sep, "<frozen")
_FOREIGN_PARTS = ("/anyio/", "/uvloop/", "/concurrent/futures/", "/pytest_asyncio/", "/contextlib.py")


@cache
def _is_foreign(file: str) -> bool:
    return file.startswith(_FOREIGN) or any(part in file for part in _FOREIGN_PARTS)


class Site:
    """One place in the code; str() gives "file.py:12". Equal places are one object."""

    __slots__ = ("code", "foreign", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        name = code.co_filename
        self.foreign = _is_foreign(name)

    @property
    def file(self) -> str:
        """The path of the file, as Python knows it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line in it."""
        for start, stop, line in self.code.co_lines():
            if start <= self.lasti < stop and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    def __repr__(self) -> str:
        return f"<Site {self}>"


# By the identity of the code object, for hashing one reads all of it; a site keeps its code alive.
_sites: dict[tuple[int, int], Site] = {}
_own: dict[tuple[int, int], Site] = {}  # those of the user's own code
_ours: dict[int, CodeType] = {}  # code of this package, by its identity
_made: WeakKeyDictionary["asyncio.Task[Any]", Site] = WeakKeyDictionary()


def site_of(frame: FrameType) -> Site:
    """The site that *frame* stands at; if that is not the user's code, the nearest that is."""
    site = _own.get((id(frame.f_code), frame.f_lasti))
    if site is not None:
        return site
    inside: FrameType | None = frame
    while inside is not None and id(inside.f_code) in _ours:  # the blocking faces have some frames of their own
        inside = inside.f_back
    if inside is not None and inside is not frame:
        site = _own.get((id(inside.f_code), inside.f_lasti))
        if site is not None:
            return site
    site = _at(frame)
    return _users_own(frame, site) if site.foreign else site


def _users_own(frame: FrameType, found: Site) -> Site:
    inside: FrameType | None = frame
    while inside is not None and inside.f_code.co_filename.startswith(_PACKAGE):
        _ours[id(inside.f_code)] = inside.f_code
        inside = inside.f_back
    if inside is not None:
        site = _at(inside)
        if not site.foreign:
            return site
    task = _current_task()
    if task is not None and task in _made:
        return _made[task]
    return found


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None  # no loop: the blocking faces


def _at(frame: FrameType) -> Site:
    key = (id(frame.f_code), frame.f_lasti)
    site = _sites.get(key)
    if site is None:
        site = _sites[key] = Site(frame.f_code, frame.f_lasti)
        if not site.foreign:
            _own[key] = site
    return site


def note_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on remember where the tasks of *loop* were made that are nothing but a verb."""
    previous = loop.get_task_factory()
    if isinstance(previous, _Factory):
        previous.users += 1
    else:
        loop.set_task_factory(_Factory(previous))


class _Factory:
    """A task factory that notes where a task was made and lets *previous* make it; several simulations share one."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous
        self.users = 1

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        code = getattr(coro, "cr_code", None)
        if code is None or not _is_foreign(code.co_filename):
            return self._make(loop, coro, options)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and _at(frame).foreign:
            frame = frame.f_back
        task: asyncio.Task[Any] = self._make(loop, coro, options)
        if frame is not None:
            _made[task] = _at(frame)
        return task

    def _make(self, loop: asyncio.AbstractEventLoop, coro: Any, options: dict[str, Any]) -> Any:
        if self.previous is None:
            return asyncio.Task(coro, loop=loop, **options)
        return self.previous(loop, coro, **options)


def forget_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Give *loop* back the task factory that it had, unless somebody has set another."""
    factory: object = loop.get_task_factory()
    if isinstance(factory, _Factory):
        factory.users -= 1
        if not factory.users:
            loop.set_task_factory(factory.previous)
