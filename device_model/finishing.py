"""The end of an operation: its work takes effect, and everything that waits for it is released."""

from collections.abc import Sized
from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.engines.workers import Workers


class Finisher:
    """Ends the operations of one device."""

    __slots__ = ("_flying", "_inline_bytes", "hooks", "scheduler", "workers")

    def __init__(self, scheduler: Scheduler, workers: "Workers", hooks: Hooks) -> None:
        self.scheduler = scheduler
        self.workers = workers
        self.hooks = hooks
        self._flying: Sized = workers.flying  # bodies in threads
        self._inline_bytes = workers.inline_bytes

    def finish(self, op: Op, now: Nanoseconds) -> None:
        """End *op* at *now*: let its work take effect, then release everything that waits for it.

        The work has no effect if the context was lost before it started. If its function raises, the operation has
        failed. Work on many bytes runs in a worker thread, which is joined before anything else needs the bytes.
        """
        op.end_ns = now
        context = op.stream.context
        if context.error is not None and op.start_ns >= context.failed_ns:
            op.error = context.error
        else:
            try:
                if op.nbytes < self._inline_bytes and not self._flying:
                    op.work.perform()
                else:
                    self.workers.run(op)
            except BaseException as error:  # whatever the work raises, the operation ends
                context.mark_failed(op, op.work.failure(error))
        op.done = True
        waiters = op.waiters
        if waiters is not None:
            op.waiters = None
            for waiter in waiters:
                waiter.release(op)
        ended = self.hooks.op_ended
        if ended is not None:
            try:
                ended(op)
            except BaseException as error:  # the engine must go on
                self.scheduler.raise_later(error)
        op.by = op.reasons = None  # or each operation would keep all those before it
