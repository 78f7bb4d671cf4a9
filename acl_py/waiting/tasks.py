"""What a task waits for: a device, another task of the program, or something unknown.

asyncio does not say what a task waits for, so this module looks at the future that the task awaits and at the code of
its innermost frame. A future that is not understood, a bare one, can only be completed from outside of all tasks;
hang.py looks whether anything there can act.
"""

import asyncio
import gc
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType
from typing import Any

from acl_py.callers import Callers, is_given_by_python
from acl_py.sites import coroutine_of, is_foreign, site_of_task
from acl_py.waiting.browser import hears_nothing

# Code in which a task waits for another task of the program. In `asyncio.tasks` it depends on the awaited future.
_MEETING_PLACES = frozenset({"asyncio.locks", "asyncio.queues", "asyncio.taskgroups"})
_ANYIO = "anyio._backends._asyncio"
# The end of a task group, a lock, a semaphore. Events of anyio are asyncio's.
_ANYIO_MEETINGS = frozenset({"__aexit__", "acquire"})
# What `async for` and a fixture's plugin await: only the garbage collector shows the generator of one.
_STEPS_OF_GENERATORS = frozenset({"async_generator_asend", "async_generator_athrow"})
_POLLING = ("acl_py.waiting.bridge", "breathe")

Future = asyncio.Future[Any]
Task = asyncio.Task[Any]


def waits_inside(task: asyncio.Task[Any], waits: Container[Future]) -> bool:
    """Whether *task* waits for the device or for another task. False if it can run, or if that is unknown."""
    waiter = _awaited(task)
    if waiter is not None and (waiter.done() or _is_inside(waiter, waits)):
        return not waiter.done()
    if waiter is not None and hears_nothing(task.get_loop()):
        return True
    frame = _innermost_frame(task)
    if frame is None:
        return False
    module = frame.f_globals.get("__name__")
    if waiter is None:  # the task can run; in a poll it only asks again
        return (module, frame.f_code.co_name) == _POLLING
    if _is_meeting(frame):
        return True
    if module != "asyncio.tasks":
        return False
    # asyncio.wait and wait_for await an inner future and have the real ones in a local variable; sleep has none.
    awaited = frame.f_locals.get("fs") or {frame.f_locals.get("fut")}
    return all(future is not None and _is_inside(future, waits) for future in awaited)


def _is_meeting(frame: FrameType) -> bool:
    """Whether a task waits for another one in *frame*, its innermost."""
    module = frame.f_globals.get("__name__")
    return module in _MEETING_PLACES or (module == _ANYIO and frame.f_code.co_name in _ANYIO_MEETINGS)


def awaited_by(tasks: Collection[Task]) -> frozenset[tuple[int, int]]:
    """Return which of *tasks* awaits which future, as identities: another answer if one of them has gone on."""
    return frozenset((id(task), id(_awaited(task))) for task in tasks)


def _awaited(task: Task) -> Future | None:
    """Return the future that *task* awaits: the one of its program, if it lies in a `Pause` of strands.py."""
    waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
    awaited: Future | None = getattr(waiter, "awaited", None)
    return waiter if awaited is None else awaited


def is_blocked(task: asyncio.Task[Any]) -> bool:
    """Whether *task* awaits a future that is not done: it goes on only if somebody completes that future."""
    waiter = _awaited(task)
    return waiter is not None and not waiter.done()


def meetings(waits: Container[Future], callers: Callers) -> Iterator[str]:
    """Describe the tasks of the running loop that wait for one another, with the line where each waits; then those
    that have failed, if no task has seen it. *callers* has their names.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    for task in sorted(asyncio.all_tasks(loop), key=_natural):
        waiter = _awaited(task)
        frames = list(_frames(task))
        if waiter in waits or not frames or task is asyncio.current_task(loop):
            continue
        user = next((each for each in reversed(frames) if not is_foreign(each.f_code)), None)
        # A task may be nothing but a `queue.get()`: then the line that made it.
        where = site_of_task(task) if user is None else f"{Path(user.f_code.co_filename).name}:{user.f_lineno}"
        if where is not None:
            how = frames[-1].f_code.co_qualname
            is_ready = waiter is None or waiter.done()
            waits_for = "which can run" if is_ready else f"for {_whom(waiter, frames[-1], callers)}"
            yield f"{callers.name(task)}: in {how} at {where}, {waits_for}"
    for task in sorted(_failed(loop), key=_natural):
        error = task._exception  # exception() would count as a look at it
        yield f"{callers.name(task)} has ended with {type(error).__name__}: {error}"


def _failed(loop: asyncio.AbstractEventLoop) -> Iterator[Task]:
    """Yield the tasks of *loop* that ended with an exception that was never retrieved: those that still exist.

    asyncio tells of the others, and lists none of them.
    """
    for each in gc.get_objects():
        if hasattr(type(each), "get_coro") and getattr(each, "_log_traceback", False) and each.get_loop() is loop:
            yield each


def _natural(task: Task) -> tuple[bool, int, str]:
    name = task.get_name()
    return is_given_by_python(name), len(name), name  # Python counts tasks through the whole process: those come last


def _whom(waiter: Future | None, frame: FrameType, callers: Callers) -> str:
    """Name the tasks that a task waits for in *frame*. Say "another task" where asyncio does not say, as for an Event,
    and "a bare future" where the program waits for one.
    """
    group = getattr(frame.f_locals.get("self"), "_tasks", None)
    tasks = group if isinstance(group, set) else getattr(waiter, "_children", [waiter])
    named = [task for task in tasks if hasattr(task, "get_name") and not task.done()]
    if named:
        return ", ".join(callers.name(task) for task in sorted(named, key=_natural))
    return "another task" if _is_meeting(frame) else "a bare future"


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
    awaited = coroutine_of(task)
    while awaited is not None:
        if isinstance(awaited, CoroutineType):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif isinstance(awaited, AsyncGeneratorType):
            frame, awaited = awaited.ag_frame, awaited.ag_await
        elif type(awaited).__name__ in _STEPS_OF_GENERATORS:
            frame, awaited = None, next(filter(_is_generator, gc.get_referents(awaited)), None)
        else:
            return
        if frame is not None:
            yield frame


def _is_generator(each: object) -> bool:
    return isinstance(each, AsyncGeneratorType)
