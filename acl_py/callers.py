"""Callers: the task or the thread that makes a call, and how messages and views name it."""

import asyncio
import re
import sys
import threading
from asyncio import _get_running_loop, current_task
from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from threading import current_thread
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from device_model.errors import printable


class Role(threading.Thread):
    """A caller that is neither a task nor a thread of its own: a task of a stream program. It is never started.

    Views and messages call it by its name as it is.
    """


role: ContextVar[Role | None] = ContextVar("acl_py_role", default=None)  # in which the calling code is, if any

Caller: TypeAlias = "asyncio.Task[Any] | threading.Thread"

task_of: "Callable[[Any], asyncio.Task[Any] | None]" = current_task  # the task that a loop runs
if sys.version_info < (3, 12):  # there current_task() is written in Python, and takes four times as long
    from asyncio.tasks import _current_tasks  # type: ignore[attr-defined]

    task_of = _current_tasks.get

# The first releases of Python 3.13 name each task that a task factory makes "None".
_GIVEN_BY_PYTHON = re.compile(r"None|Task-\d+|Thread-\d+( \(.*\))?")


def is_given_by_python(name: str) -> bool:
    """Whether *name* is that of a task or a thread which the program has not named."""
    return _GIVEN_BY_PYTHON.fullmatch(name) is not None


def current_caller() -> Caller:
    """Return the role of the calling code, the running task, or the thread if no task runs in it."""
    played = role.get()
    if played is not None:
        return played
    loop = _get_running_loop()  # does not raise: threads without a loop make calls, too
    return (None if loop is None else current_task(loop)) or current_thread()


def described(caller: Caller) -> str:
    """Return how messages name *caller*: "task 'producer'", "thread 'worker'" or, the main thread, "the program"."""
    if isinstance(caller, Role):
        return printable(caller.name)
    if isinstance(caller, threading.Thread):
        return "the program" if caller is threading.main_thread() else f"thread '{printable(caller.name)}'"
    return f"task '{printable(caller.get_name())}'{_host(caller)}"


def host_of(name: str) -> str:
    """Return what tells the hosts of a run apart in which ranks have hosts of their own, of a caller with this name."""
    return name.rpartition(" of ")[2].removeprefix("task ").strip("'")


def _host(task: "asyncio.Task[Any]") -> str:
    """Say of which rank a *task* is that a rank with a host of its own has made."""
    host = getattr(task.get_coro(), "own_host", None)  # of a `Hosted`; coroutines of others may have a `host`
    return "" if host is None or host.name == task.get_name() else f" of {printable(host.name)}"


class Callers:
    """What the views and findings of one simulation call its tasks and threads.

    Those that the program has named are called as messages call them. The others get numbers, "task 3", in the order of
    their first calls. Python numbers tasks and threads too, but through the whole process, so a second run would get
    other names.
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self) -> None:
        self._names: WeakKeyDictionary[Caller, str] = WeakKeyDictionary()
        self._numbers = count(1)

    def __repr__(self) -> str:
        return f"<Callers: {len(self._names)}>"

    def name(self, caller: Caller) -> str:
        """Return what *caller* is called."""
        name = self._names.get(caller)
        if name is None:
            name = self._names[caller] = _name(caller, next(self._numbers))
        return name


def _name(caller: Caller, number: int) -> str:
    if isinstance(caller, Role) or not is_given_by_python(_own_name(caller)):
        return described(caller)
    return f"thread {number}" if isinstance(caller, threading.Thread) else f"task {number}{_host(caller)}"


def _own_name(caller: Caller) -> str:
    return caller.name if isinstance(caller, threading.Thread) else caller.get_name()
