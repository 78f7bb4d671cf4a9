"""Cancel a coroutine at one of the points where it suspends, by each of the means that programs have."""

import asyncio
from collections.abc import Generator
from types import coroutine

import anyio


class Cut:
    """`await cut(verb)` awaits *verb* and calls *strike* where it suspends for the *point*-th time: as it suspends, or,
    *late*, when its wait is over and it has not been told so yet. `points` counts how often it suspended.
    """

    def __init__(self, point=None, *, late=False):
        self.point = point
        self.late = late
        self.points = 0

    @coroutine
    def __call__(self, verb, strike) -> Generator:
        step = lambda: verb.send(None)  # noqa: E731
        while True:
            try:
                waits = step()
            except StopIteration as end:
                return end.value
            if self.points == self.point:
                if waits is None or not self.late:
                    strike()
                else:
                    waits.add_done_callback(lambda _: strike())
            self.points += 1
            try:
                yield waits
                step = lambda: verb.send(None)  # noqa: E731
            except BaseException as error:
                step = lambda error=error: verb.throw(error)  # noqa: E731


class Fault(Exception):
    """What a sibling in a task group fails with."""


async def by_task(cut, verb):
    """task.cancel(), from outside."""
    task = asyncio.current_task()
    return await cut(verb, task.cancel)


async def by_timeout(cut, verb):
    """asyncio.timeout."""
    async with asyncio.timeout(None) as limit:
        return await cut(verb, lambda: limit.reschedule(0))


async def by_anyio(cut, verb):
    """A cancel scope of anyio."""
    with anyio.CancelScope() as scope:
        return await cut(verb, scope.cancel)
    raise asyncio.CancelledError


async def by_fail_after(cut, verb):
    """anyio.fail_after, whose time is over."""
    with anyio.fail_after(None) as scope:
        return await cut(verb, lambda: setattr(scope, "deadline", -1.0))


async def by_group(cut, verb):
    """A sibling in the task group fails."""
    go = asyncio.Event()

    async def sibling():
        await go.wait()
        raise Fault

    try:
        async with asyncio.TaskGroup() as group:
            other = group.create_task(sibling())
            result = await cut(verb, go.set)
            other.cancel()
            return result
    except* Fault:
        pass
    raise asyncio.CancelledError


MEANS = (by_task, by_timeout, by_anyio, by_fail_after, by_group)
CANCELLED = (asyncio.CancelledError, TimeoutError)
