"""The queue of what can run in an event loop, under a schedule that says which of the tasks in it goes first.

asyncio lets tasks run in the order in which they became ready. Programs must not rely on that: a task becomes ready
earlier or later if it does one step more. Callbacks that are not steps of tasks keep their turns.
"""

import asyncio
from collections import deque

from acl_py.schedules import Schedule
from device_model.choices import Choice


class ReadyTasks(deque[asyncio.Handle]):
    """The queue of a loop of asyncio; *schedule* chooses among the tasks in it."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def popleft(self) -> asyncio.Handle:
        """Return the next callback of the loop: if that is a step of a task, the one of the task that is chosen."""
        if len(self) > 1 and _task_of(self[0]) is not None:
            tasks = [(place, task) for place, handle in enumerate(self) if (task := _task_of(handle)) is not None]
            if len(tasks) > 1:
                taken = self._schedule.choose(Choice.TASK, [task for _, task in tasks], None)
                place = tasks[taken][0]
                handle = self[place]
                del self[place]
                return handle
        return super().popleft()


def _task_of(handle: asyncio.Handle) -> "asyncio.Task[object] | None":
    """Return the task of which *handle* runs a step; None if it runs something else, or nothing any more."""
    owner = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return owner if isinstance(owner, asyncio.Task) else None
