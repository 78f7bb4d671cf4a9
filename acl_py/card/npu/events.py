"""Events of an Ascend card: snapshots, snapshots that must be recorded first, and levels."""

from typing import TYPE_CHECKING, Any

from acl_py.card.events import CardEvent
from acl_py.verbs.events import EventFlag
from device_model.completions import Completion, Nanoseconds
from device_model.events import Event
from device_model.rules import EventClass

if TYPE_CHECKING:
    from acl_py.card.npu.contexts import NpuContext
    from device_model.streams import Stream


class NpuEvent(CardEvent):
    """A snapshot event."""

    __slots__ = ()
    context: "NpuContext"

    def hold_back(self, stream: "Stream", site: object, limit_ns: Nanoseconds) -> Completion:
        """Let work that is queued in *stream* from now on wait for this event, for at most *limit_ns*."""
        self.context.driver.limit_waits(limit_ns)
        return super().hold_back(stream, site, limit_ns)

    def timestamp_ns(self) -> Nanoseconds:
        """Return when the last record took place."""
        return self.context.driver.timestamp_ns(self.handle)


class NpuRecordedEvent(NpuEvent):
    """A snapshot event that must be recorded before it can be waited for; the verb refuses the wait."""

    __slots__ = ()
    class_ = EventClass.RECORDED

    def _new_handle(self) -> Any:
        return self.context.driver.create_recorded_event()

    @property
    def waits(self) -> int:
        """Whether a stream still waits for it; asks the card."""
        return int(self.context.driver.is_waited_for(self.handle))

    @waits.setter
    def waits(self, _: int) -> None:
        """The card counts."""


class NpuFlagEvent(Event):
    """An event that is a level. Records, resets and waits are calls of the card; none of them is a mark."""

    __slots__ = ("handle",)
    class_ = EventClass.FLAG
    context: "NpuContext"

    def __init__(self, context: "NpuContext", id_: int, *, timing: bool, made: object, waitable: bool = True) -> None:
        flag = (EventFlag.TIME_LINE if timing else 0) | (EventFlag.SYNC if waitable else 0)
        self.handle = context.driver.create_flag_event(flag or EventFlag.CAPTURE_STREAM_PROGRESS)
        super().__init__(context, id_, timing=timing, made=made, waitable=waitable)

    @property
    def waits(self) -> int:
        """Whether a stream still waits for it; asks the card."""
        return int(self.context.driver.is_waited_for(self.handle))

    @waits.setter
    def waits(self, _: int) -> None:
        """The card counts."""

    @property
    def done(self) -> bool:
        """Whether the last record has taken place; asks the card."""
        if self.work is None or self.work.done:
            return True
        if not self.context.driver.is_reached(self.handle):
            return False
        stream: Any = self.stream
        stream.reach(self.work)
        return True

    def destroy(self, site: object) -> None:
        """Destroy the event; streams that wait for it keep waiting."""
        super().destroy(site)
        del self.context.events[self]
        self.context.driver.destroy_event(self.handle)

    def record(self, stream: "Stream", site: object = None) -> Completion:  # noqa: ARG002 - the card needs no line
        """Queue the setting of the flag in *stream*, and return its completion."""
        card, driver = _of_card(stream), self.context.driver
        self.work = card.take(lambda: driver.record(self.handle, card.handle), may_last=False)
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        return self.work

    def reset(self, stream: "Stream", site: object) -> Completion:  # noqa: ARG002
        """Queue the clearing of the flag in *stream*, and return its completion."""
        card, driver = _of_card(stream), self.context.driver
        cleared: Completion = card.take(lambda: driver.reset_event(self.handle, card.handle), may_last=False)
        return cleared

    def hold_back(self, stream: "Stream", site: object, limit_ns: Nanoseconds) -> Completion:  # noqa: ARG002
        """Let later work of *stream* wait until the flag is set; return the completion of the wait."""
        card, driver = _of_card(stream), self.context.driver
        driver.limit_waits(limit_ns)
        waited: Completion = card.take(lambda: driver.wait(card.handle, self.handle))
        return waited

    def ms_since(self, start: Event) -> float:
        """Return the milliseconds from *start* to this event, as the card has measured them."""
        begun: Any = start
        return self.context.driver.elapsed_ms(begun.handle, self.handle)

    def timestamp_ns(self) -> Nanoseconds:
        """Return when the last record took place."""
        return self.context.driver.timestamp_ns(self.handle)


def _of_card(stream: Any) -> Any:
    return stream
