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


# By the identity of the code object, for hashing one reads all of it, and by the place in it. A site keeps its code
# alive.
_sites: dict[int, dict[int, Site]] = {}
_known: dict[int, dict[int, Site] | None] = {}  # those in the user's own code; None: it is ours, so who called it?
_NOWHERE: dict[int, Site] = {}
_made: WeakKeyDictionary["asyncio.Task[Any]", Site] = WeakKeyDictionary()


def site_of(frame: FrameType) -> Site:
    """The site that *frame* stands at; if that is not the user's code, the nearest that is."""
    inside: FrameType | None = frame
    while inside is not None:
        places = _known.get(id(inside.f_code), _NOWHERE)
        if places is not None:
            site = places.get(inside.f_lasti)
            if site is not None:
                return site
            break
        inside = inside.f_back  # the blocking faces have frames of their own
    site = _at(frame)
    return _users_own(frame, site) if site.foreign else site


def _users_own(frame: FrameType, found: Site) -> Site:
    inside: FrameType | None = frame
    while inside is not None and inside.f_code.co_filename.startswith(_PACKAGE):
        _at(inside)  # keeps its code alive
        _known[id(inside.f_code)] = None
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
    places = _sites.setdefault(id(frame.f_code), {})
    site = places.get(frame.f_lasti)
    if site is None:
        site = places[frame.f_lasti] = Site(frame.f_code, frame.f_lasti)
        if not site.foreign:
            _known[id(frame.f_code)] = places
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
