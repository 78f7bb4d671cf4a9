"""Strands: parts of a kernel that run one after the other, and wait for one another in the middle of any function.

A block of AI cores is a strand, and so is a role of a block of threads. A strand is a greenlet. It runs until it ends
or waits; then the next one runs. So the order is the same in each run, whatever the times are.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from device_model.kernel.greenlets import greenlet


class Strand(greenlet):
    """A part of a kernel, and the wait in which it is; *where* names the wait in messages."""

    def __init__(self, program: Callable[[], object]) -> None:
        super().__init__(program)
        self.where = "its start"
        self._ready: Callable[[], bool] | None = None

    def may_run(self) -> bool:
        """Whether it waits for nothing, or its wait is over."""
        return self._ready is None or self._ready()

    def park(self, where: str, ready: Callable[[], bool]) -> None:
        """Let other strands run until *ready()* is true; the caller runs in this one."""
        self.where, self._ready = where, ready
        assert self.parent is not None, "a strand has a parent"
        self.parent.switch()
        self._ready = None


S = TypeVar("S", bound=Strand)


def run(strands: Sequence[S], unblock: Callable[[Sequence[S]], object]) -> None:
    """Run each of *strands* until it ends or waits, in their order, until all have ended.

    *unblock* is called with those that are left if none of them can go on; it ends a wait, or throws an error into one.
    """
    alive = strands
    try:
        while alive:
            moved = False
            for strand in alive:
                if strand.may_run():
                    moved = True
                    strand.switch()
            alive = [strand for strand in alive if not strand.dead]
            if not moved:
                unblock(alive)
    finally:
        for strand in strands:
            if strand and not strand.dead:
                strand.throw()
