"""What a task waits for: a device, another task of the program, or something that cannot be known.

A mistake costs differently in the two directions, as hang.py says: whatever is not understood counts as the outside.
"""

import asyncio
from collections.abc import Container, Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any

from acl_py.sites import is_foreign

# Code in which a task waits for another task of the program; in `asyncio.tasks` it depends on what is waited for.
_MEETING_PLACES = frozenset({"asyncio.locks", "asyncio.queues", "asyncio.taskgroups"})
_ANYIO = "anyio._backends._asyncio"
_ANYIO_MEETINGS = frozenset(
    {"__aexit__", "acquire"}
)  # a task group's end, a lock, a semaphore; its events are asyncio's
_POLLING = ("acl_py.waiting.bridge", "breathe")

Future = asyncio.Future[Any]
Task = asyncio.Task[Any]


def waits_inside(task: asyncio.Task[Any], waits: Container[Future]) -> bool:
    """Does *task* wait for the device or for another task? False also if it can run, or if nobody knows."""
    waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
    if waiter is not None and (waiter.done() or _is_inside(waiter, waits)):
        return not waiter.done()
    frame = _innermost_frame(task)
    if frame is None:
        return False
    module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
    if waiter is None:  # it can run; in a poll that yields it does no more than look again
        return (module, function) == _POLLING
    if module in _MEETING_PLACES or (module == _ANYIO and function in _ANYIO_MEETINGS):
        return True
    if module != "asyncio.tasks":
        return False
    # asyncio.wait and asyncio.wait_for have a future of their own between us and what they wait for; sleep has neither.
    awaited = frame.f_locals.get("fs") or {frame.f_locals.get("fut")}
    return all(future is not None and _is_inside(future, waits) for future in awaited)


def meetings(waits: Container[Future]) -> Iterator[str]:
    """The tasks of the running loop that wait for one another, with the line where they do."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    for task in sorted(asyncio.all_tasks(loop), key=_natural):
        waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
        if waiter is None or waiter.done() or waiter in waits:
            continue
        frames = list(_frames(task))
        ours = next((each for each in reversed(frames) if not is_foreign(each.f_code)), None)
        if ours is not None:
            where = f"{Path(ours.f_code.co_filename).name}:{ours.f_lineno}"
            how = frames[-1].f_code.co_qualname
            yield f"task {task.get_name()}: in {how} at {where}, for {_whom(waiter, frames[-1])}"


def _natural(task: Task) -> tuple[int, str]:
    name = task.get_name()
    return len(name), name


def _whom(waiter: Future, frame: FrameType) -> str:
    """Whom a task waits for in *frame*, as far as one can tell: nobody knows who will set an event."""
    group = getattr(frame.f_locals.get("self"), "_tasks", None)
    tasks = group if isinstance(group, set) else getattr(waiter, "_children", [waiter])
    names = sorted(_natural(task) for task in tasks if hasattr(task, "get_name") and not task.done())
    return ", ".join(f"task {name}" for _, name in names) or "another task"


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
    """From the task's first frame to its innermost."""
    coroutine: object = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is not None:
            yield coroutine.cr_frame
        coroutine = coroutine.cr_await
