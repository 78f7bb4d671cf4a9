"""Streams of an Ascend card, and what takes place outside all of them.

A callback of the program runs in the task that has subscribed, so it is a step of the model. It begins when the host
learns that all earlier work of the stream is done. Until it is over, the stream waits for a notify (holds.py).
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from acl_py.card.streams import CardStream
from acl_py.errors import AclError, DeviceError
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.ops import Op
from device_model.steps import Step, StepKind

if TYPE_CHECKING:
    from acl_py.card.npu.contexts import NpuContext


class NpuStream(CardStream):
    """A stream of an Ascend card."""

    __slots__ = ()
    context: "NpuContext"

    def stop_on_failure(self) -> None:
        """Let a failure of its work stop the whole context."""
        self.context.driver.stop_on_failure(self.handle)
        super().stop_on_failure()

    def step(
        self,
        kind: StepKind,
        name: str,
        what: str,
        site: object,
        generator: Iterator[Completion],
        hope: Callable[[], Completion | None] | None = None,
        remedy: str = "",
    ) -> Step:
        """Queue a step, which is over when *generator* is; later work of the stream waits for it."""
        step = Step(self, kind, name, what, site, generator, hope, remedy)
        if not step.done:
            self.steps[step] = None
            self.context.holds.hold(self, step)
        queued = self.context.device.hooks.step_queued
        if queued is not None:
            queued(step)
        return step

    def drop(self, error: DeviceError) -> None:
        """Forget all work, which was dropped: each operation ends with *error*. The card tells the next wait itself."""
        self.context.holds.forget(self)
        for step in reversed(list(self.steps)):
            step.stop()
        for entry in self.entries:
            if isinstance(entry, Op):
                entry.error = error
        self.lose()


class Outside(NpuStream):
    """Takes copies and fills that belong to no stream: each is made in its call."""

    __slots__ = ()

    def turn(self) -> Completion:
        """Return NOTHING: an operation here waits for no other."""
        return NOTHING

    def enqueue(self, op: Op, ready_ns: Nanoseconds, now: bool = True) -> None:  # noqa: ARG002 - it is made now
        """Make the copy or the fill of *op*. A failure is that of the operation."""
        op.stream, op.queue = self, self.queues[op.lane]
        op.queued_ns = op.ready_ns = op.start_ns = self.scheduler.now
        told = self.context.device.hooks.op_queued
        if told is not None:
            told(op)
        try:
            self.context.driver.at_once(op.work)  # type: ignore[arg-type]
        except AclError as error:
            op.error = error
        op.end_ns, op.done = self.scheduler.now, True
        self.context.tell(op)
