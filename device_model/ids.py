"""Ids: what a device has a limited number of, such as streams, events and notifies.

The caller asks first, then takes:

    while not ids.free:
        await ...ids.until_free()
    ids.take()

An id that is given back wakes all that wait for one, the longest waiting first. It is reserved for none of them: each
asks again, and the first to do so gets it.
"""

from collections import deque

from device_model.completions import Completion, Nanoseconds, Need


class Ids:
    """The ids of one kind that a device has: *limit* in all, of which `free` are not taken."""

    __slots__ = ("_waiting", "free", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = limit
        self._waiting: deque[Completion] = deque()

    def __repr__(self) -> str:
        return f"<Ids {self.free} of {self.limit} free>"

    def take(self) -> None:
        """Take one id; the caller has made sure that one is free."""
        assert self.free > 0, f"{self!r}: the caller has to ask first"
        self.free -= 1

    def give(self, now: Nanoseconds) -> None:
        """Give one id back, and complete every wait for one; waits that were cancelled are among them."""
        self.free += 1
        waiting = self._waiting
        for _ in range(len(waiting)):
            waiting.popleft().complete(now)

    def until_free(self) -> Completion:
        """Return a completion that is done when an id is given back; another host may take that id first."""
        need = Need(
            f"one of {self.limit} ids is free again",
            lambda: self,
            "destroy what is no longer needed, or let the work that holds ids end",
        )
        self._waiting.append(need)
        return need

    def release(self, by: Completion) -> None:
        """Give one id back at the end of the work that held it."""
        self.give(by.end_ns)
