"""What a task waits for: a device, another task of the program, or something unknown.

asyncio does not say what a task waits for, so this module looks at the future that the task awaits and at the code of
its innermost frame. A wait that is not understood counts as a wait for the outside world; hang.py says why.
"""

import asyncio
from collections.abc import Container, Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any

from acl_py.callers import Callers, is_given_by_python
from acl_py.sites import is_foreign, site_of_task
from acl_py.waiting.browser import hears_nothing

# Code in which a task waits for another task of the program. In `asyncio.tasks` it depends on the awaited future.
_MEETING_PLACES = frozenset({"asyncio.locks", "asyncio.queues", "asyncio.taskgroups"})
_ANYIO = "anyio._backends._asyncio"
# The end of a task group, a lock, a semaphore. Events of anyio are asyncio's.
_ANYIO_MEETINGS = frozenset({"__aexit__", "acquire"})
_POLLING = ("acl_py.waiting.bridge", "breathe")

Future = asyncio.Future[Any]
Task = asyncio.Task[Any]


def waits_inside(task: asyncio.Task[Any], waits: Container[Future]) -> bool:
    """Whether *task* waits for the device or for another task. False if it can run, or if that is unknown."""
    waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
    if waiter is not None and (waiter.done() or _is_inside(waiter, waits)):
        return not waiter.done()
    if waiter is not None and hears_nothing(task.get_loop()):
        return True
    frame = _innermost_frame(task)
    if frame is None:
        return False
    module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
    if waiter is None:  # the task can run; in a poll it only asks again
        return (module, function) == _POLLING
    if module in _MEETING_PLACES or (module == _ANYIO and function in _ANYIO_MEETINGS):
        return True
    if module != "asyncio.tasks":
        return False
    # asyncio.wait and wait_for await an inner future and have the real ones in a local variable; sleep has none.
    awaited = frame.f_locals.get("fs") or {frame.f_locals.get("fut")}
    return all(future is not None and _is_inside(future, waits) for future in awaited)


def meetings(waits: Container[Future], callers: Callers) -> Iterator[str]:
    """Describe the tasks of the running loop that wait for one another, with the line where each waits. *callers* has
    their names.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    for task in sorted(asyncio.all_tasks(loop), key=_natural):
        waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
        if waiter is None or waiter.done() or waiter in waits:
            continue
        frames = list(_frames(task))
        user = next((each for each in reversed(frames) if not is_foreign(each.f_code)), None)
        # A task may be nothing but a `queue.get()`: then the line that made it.
        where = site_of_task(task) if user is None else f"{Path(user.f_code.co_filename).name}:{user.f_lineno}"
        if where is not None:
            how = frames[-1].f_code.co_qualname
            yield f"{callers.name(task)}: in {how} at {where}, for {_whom(waiter, frames[-1], callers)}"


def _natural(task: Task) -> tuple[bool, int, str]:
    name = task.get_name()
    return is_given_by_python(name), len(name), name  # Python counts tasks through the whole process: those come last


def _whom(waiter: Future, frame: FrameType, callers: Callers) -> str:
    """Name the tasks that a task waits for in *frame*; "another task" where asyncio does not say, as for an Event."""
    group = getattr(frame.f_locals.get("self"), "_tasks", None)
    tasks = group if isinstance(group, set) else getattr(waiter, "_children", [waiter])
    named = [task for task in tasks if hasattr(task, "get_name") and not task.done()]
    return ", ".join(callers.name(task) for task in sorted(named, key=_natural)) or "another task"


def _is_inside(future: Future, waits: Container[Future]) -> bool:
    if future in waits or hasattr(future, "get_coro"):  # a task; isinstance would miss the pure-Python ones
        return True
    children = getattr(future, "_children", None)  # gather
    return children is not None and all(child.done() or _is_inside(child, waits) for child in children)


def _innermost_frame(task: asyncio.Task[Any]) -> FrameType | None:
    frame: FrameType | None = None
    for frame in _frames(task):  # noqa: B007 - the last one
        pass
    return frame


def _frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """Yield the frames of *task*, from the outermost to the innermost."""
    coroutine: object = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is not None:
            yield coroutine.cr_frame
        coroutine = coroutine.cr_await
