"""Events of a card."""

from typing import TYPE_CHECKING, Any

from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.events import Event

if TYPE_CHECKING:
    from acl_py.card.contexts import CardContext
    from acl_py.card.streams import CardStream, Mark
    from device_model.streams import Stream


class Reached(Completion):
    """The record that a launch of a graph in *stream* makes in *event* when it reaches the node."""

    __slots__ = ("_event",)

    def __init__(self, event: "CardEvent", stream: "CardStream") -> None:
        super().__init__()
        self._event = event
        event.stand_for(self, stream)
        event.context.reached[self] = None

    @property
    def is_asked(self) -> bool:
        """Whether it is not known to be done."""
        return not self.done

    def ask(self) -> None:
        """Note that a host waits for it."""
        self._event.context.asked[self] = None

    def look(self) -> bool:
        """Ask the card whether it is done; return whether it is, and was not before."""
        if self.done or not self._event.context.driver.is_reached(self._event.handle):
            return False
        self.lose()
        return True

    def lose(self) -> None:
        """Complete it: the launch is there, or the card has failed."""
        context = self._event.context
        del context.reached[self]
        self.complete(context.device.scheduler.now)


class CardEvent(Event):
    """An event that the card records. Its last record is also a mark in its stream (streams.py)."""

    __slots__ = ("handle", "is_fixed", "mark")
    context: "CardContext"
    mark: "Mark"  # of the last record

    def __init__(self, context: "CardContext", id_: int, *, timing: bool, made: object) -> None:
        super().__init__(context, id_, timing=timing, made=made)
        self.is_fixed = False  # graphs have its handle
        self.handle = self._new_handle()

    def _new_handle(self) -> Any:
        return self.context.new_event(timing=True) if self.timing else self.context.take_event()

    @property
    def done(self) -> bool:
        """Whether all work that was recorded has completed; asks the card."""
        if self.work is None or self.work.done:
            return True
        asked = self.work if isinstance(self.work, Reached) else self.recorded_in
        asked.look()
        return self.work.done

    @property
    def _is_mark(self) -> bool:
        """Whether its stream may still ask for the last record."""
        return not self.is_fixed and self.work is not None and not self.work.done

    @property
    def recorded_in(self) -> "CardStream":
        """The stream of the last record."""
        stream: Any = self.stream
        return stream  # type: ignore[no-any-return]

    def fix(self) -> None:
        """Keep the handle from now on, as nodes of graphs have it: marks are other events."""
        if self._is_mark:
            self.mark.event, self.mark.is_ours = self.recorded_in.new_mark(), True
        self.is_fixed = True

    def destroy(self, site: object) -> None:
        """Destroy the event; later if its stream may still ask for the last record, or graphs have it."""
        super().destroy(site)
        if self.is_fixed:
            return  # at the end of the run
        del self.context.events[self]
        if self._is_mark:
            self.mark.is_ours = True
        else:
            self.context.driver.destroy_event(self.handle)

    def record(self, stream: "Stream", site: object = None) -> Completion:  # noqa: ARG002 - the card needs no line
        """Record all work that *stream* has been given so far, and return its completion."""
        card: Any = stream
        if self._is_mark:
            self.mark.is_ours = True
            self.handle = self._new_handle()
        self.mark = card.record(self.handle)
        if self.is_fixed:
            self.mark.event, self.mark.is_ours = card.new_mark(), True
        self.work = stream.tail
        self.stream = stream
        self.recorded_ns = stream.scheduler.now
        return self.work

    def hold_back(self, stream: "Stream", site: object, limit_ns: Nanoseconds) -> Completion:  # noqa: ARG002
        """Let work that is queued in *stream* from now on wait for this event. Return what it waits for."""
        if self.work is None:
            return NOTHING
        card: Any = stream
        card.wait_for(self.handle, self.work)
        return self.work

    def ms_since(self, start: Event) -> float:
        """Return the milliseconds from *start* to this event, as the card has measured them."""
        assert isinstance(start, CardEvent), f"{start!r} is of another device"
        return self.context.driver.elapsed_ms(start.handle, self.handle)
