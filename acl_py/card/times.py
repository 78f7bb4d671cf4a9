"""When the card has done an operation: a pair of events around each, if the run is recorded.

Events cost calls and time on the card: two records for an operation. The first origin is an event that the host has
waited for, so times of the card and of the host agree within the time of that wait. A difference of two events is a
number of 24 bits; so an end becomes the next origin when the last one is a second old.
"""

from typing import TYPE_CHECKING, Any

from acl_py.card.driver import give_back
from device_model.completions import Nanoseconds
from device_model.errors import DeviceError
from device_model.ops import Op

if TYPE_CHECKING:
    from acl_py.card.contexts import CardContext
    from acl_py.card.streams import CardStream

_OLD_NS = 10**9
_DEFAULT = 0  # the handle of the default stream, whatever the vendor


class EventTimes:
    """The times of the operations of one card."""

    def __init__(self, context: "CardContext") -> None:
        self._context = context
        self._driver = context.driver
        self._clock = context.device.scheduler
        self._spare: list[Any] = []
        self._pairs: dict[Op, tuple[Any, Any]] = {}
        self._began: Any = None
        self._origin = self._take()
        self._driver.record(self._origin, _DEFAULT)
        self._driver.synchronize_event(self._origin)
        self._origin_ns: Nanoseconds = self._clock.now

    def begin(self, stream: "CardStream", mark: object) -> None:  # noqa: ARG002 - any is timed
        """Note the time in *stream*, before an operation."""
        self._began = self._take()
        self._driver.record(self._began, stream.handle)

    def end(self, stream: "CardStream", op: Op, mark: object) -> None:  # noqa: ARG002
        """Note the time in *stream*, behind *op*."""
        ended = self._take()
        self._driver.record(ended, stream.handle)
        self._pairs[op] = self._began, ended

    def has(self, op: Op) -> bool:
        """Whether it times *op*."""
        return op in self._pairs

    def finish(self, op: Op) -> None:
        """Set the times of *op*, which is done, and tell of it."""
        self.measure(op)
        self._context.tell(op)

    def measure(self, op: Op) -> None:
        """Set the times of *op*, which is done."""
        if self._context.error is None:
            try:
                self._set(op, *self._pairs.pop(op))
            except DeviceError as error:
                self._context.fail(self._driver.standing.lost or error)

    def settle(self) -> None:
        """Do nothing: what is done has its times."""

    def _set(self, op: Op, began: Any, ended: Any) -> None:
        op.start_ns, op.end_ns = self._time_of(began), self._time_of(ended)
        self._spare.append(began)
        if op.end_ns - self._origin_ns > _OLD_NS:
            self._spare.append(self._origin)
            self._origin, self._origin_ns = ended, op.end_ns
        else:
            self._spare.append(ended)

    def _time_of(self, event: Any) -> Nanoseconds:
        return self._origin_ns + round(self._driver.elapsed_ms(self._origin, event) * 1e6)

    def _take(self) -> Any:
        return self._spare.pop() if self._spare else self._context.new_event(timing=True)

    def close(self) -> None:
        """Destroy the events."""
        for event in (*self._spare, *[each for pair in self._pairs.values() for each in pair], self._origin):
            give_back(self._driver.destroy_event, event)
