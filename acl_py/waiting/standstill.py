"""A standstill: the tasks of a loop wait for one another, and none of them for a device.

If nothing outside can act, that is a deadlock. Where it cannot be known (hang.py), one warning says who waits for what,
and the wait goes on: a server that waits for its next client stands still, too.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

from acl_py.callers import Callers
from acl_py.errors import DeadlockError
from acl_py.waiting import deadlocks
from acl_py.waiting.hang import LOOK_S, Vigil
from acl_py.waiting.tasks import Task, awaited_by
from acl_py.waiting.threads import GRACE_S


class Gate(Protocol):
    """What a standstill sees of the gate of its loop."""

    vigil: Vigil
    holders: dict[object, Task | None]
    on_deadlock: Callable[[DeadlockError], object]

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""

    @property
    def callers(self) -> Callers:
        """What messages call tasks."""

    @property
    def patience_s(self) -> float:
        """The real seconds that a standstill may last while only the outside can end it."""


class Standstill:
    """The watch over the tasks of the loop of *gate* while none of them waits for a device."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._waits: frozenset[tuple[int, int]] = frozenset()  # which task awaited which future at the last look
        self._is_told = False

    def keep(self, more_helpers: Collection[str]) -> None:
        """End the standstill if nothing outside and none of *more_helpers* can; otherwise look again later."""
        gate = self._gate
        tasks = asyncio.all_tasks(gate.loop)
        if not tasks:
            return
        waits = awaited_by(tasks)
        if waits != self._waits:  # the outside has woken a task since
            self._waits = waits
            gate.vigil.start_again()
        helpers = [*gate.vigil.helpers_of_tasks(gate.loop), *more_helpers]
        look_s = GRACE_S if more_helpers else LOOK_S
        gate.vigil.keep(gate.loop, [self], gate.holders.values(), helpers, look_s, gate.callers)

    @property
    def patience_s(self) -> float:
        """The real seconds that it may last while only the outside can end it."""
        return self._gate.patience_s

    def describe(self) -> str:
        """Say what each task waits for, once; "" if none of the user's waits."""
        if self._is_told:
            return ""
        self._is_told = True
        return deadlocks.describe_tasks(self._gate.callers)

    def give_up(self, circumstances: str) -> None:
        """Tell the loop's gate of the deadlock."""
        error = deadlocks.of_tasks(self._gate.callers)
        if circumstances:
            error.add_note(circumstances)
        self._gate.on_deadlock(error)
