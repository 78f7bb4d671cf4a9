"""Core kernels that wait: each goes on when its time has come, or when others have changed the memory that it looks at.

Memory changes where an operation ends, where another kernel that waits shows what it has written, where a stream
writes a word, and between two calls of the host, which may write to memory that it shares with the device. This is an
observer only while a kernel waits, so that programs without such kernels do not pay for it.
"""

from collections.abc import Callable

from device_model.completions import Nanoseconds
from device_model.core_kernels import CoreKernel
from device_model.observe import Hooks, Observer
from device_model.ops import Op
from device_model.scheduler import Scheduler


class Waiting(Observer):
    """The operations of kernels that wait. *resume* lets one go on."""

    def __init__(self, scheduler: Scheduler, hooks: Hooks, resume: Callable[[Op], None]) -> None:
        self._scheduler = scheduler
        self._hooks = hooks
        self._resume = resume
        self.ops: dict[Op, None] = {}

    def add(self, op: Op, until: Nanoseconds | None) -> None:
        """Let *op* wait, not longer than *until*."""
        if not self.ops:
            self._hooks.add(self)
        self.ops[op] = None
        if until is not None:
            self._scheduler.at(max(until, self._scheduler.now), self._wake, op)

    def remove(self, op: Op) -> None:
        """Forget *op*, which waits."""
        del self.ops[op]
        self._scheduler.forget(op)
        if not self.ops:
            self._hooks.remove(self)

    def look(self) -> None:
        """Let those go on whose memory has changed."""
        for op in list(self.ops):
            work, context = op.work, op.stream.context
            if not isinstance(work, CoreKernel) or context.error is not None or work.is_over():
                self._scheduler.forget(op)
                self._scheduler.at(self._scheduler.now, self._wake, op)

    def _wake(self, op: Op) -> None:
        if op in self.ops:
            self.remove(op)
            self._resume(op)

    def _look_again(self, *_: object, **__: object) -> None:
        self.look()

    # Behind each of these, memory may be another.
    op_ended = nodes_ran = shown = _look_again
    call = op_queued = step_queued = recorded = waited = awaiting = _look_again

    def node_queued(self, op: Op) -> None:
        """Do nothing: the launch of its graph is a call of the host."""
