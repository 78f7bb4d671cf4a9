"""The context of an Ascend card, and the card as verbs see it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acl_py.card.contexts import CardContext, CardDevice
from acl_py.card.driver import give_back
from acl_py.card.npu.callbacks import Callbacks
from acl_py.card.npu.driver import AclDriver
from acl_py.card.npu.events import NpuEvent, NpuFlagEvent, NpuRecordedEvent
from acl_py.card.npu.holds import Holds
from acl_py.card.npu.notifies import NpuNotify
from acl_py.card.npu.streams import NpuStream, Outside
from acl_py.card.npu.words import NpuWords
from acl_py.card.streams import CardStream
from acl_py.card.work import Works
from device_model.contexts import Context
from device_model.device import Device
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.ids import Ids
from device_model.rules import EventClass
from device_model.signals import Notify
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.card.npu.runtime import NpuRuntime

_DEFAULT = 0  # the handle of the default stream


class NpuWorks(Works):
    """The makers of each kind of work, for one Ascend card."""

    makes_instead = "run the program on the model: pyACL runs kernels that were compiled for the card"
    functions: Callbacks


class NpuContext(CardContext):
    """A context of a card: the default one, or one that the program has made.

    Work that is queued when it is destroyed takes place. So pyACL destroys it when that is done: at once, when another
    context is made, or at the end of the run.
    """

    __slots__ = ("_ended_streams", "holds", "is_ending")
    device: "NpuDevice"
    driver: AclDriver
    works: NpuWorks
    stream_type = NpuStream
    event_type = Event  # none is of this type itself: each call asks the classes of events

    def __init__(self, device: "NpuDevice", id_: int, *, primary: bool, made: object, handle: Any) -> None:
        self.is_ending = False
        self._ended_streams: list[NpuStream] = []  # that were destroyed with it
        super().__init__(device, id_, primary=primary, made=made, handle=handle)
        self.holds = Holds(self)
        names = self.default.name, self.outside.name
        self.default = NpuStream(self, 0, names[0], device.queues(-1), None, 0, made, _DEFAULT)
        self.outside = Outside(self, 0, names[1], device.outside, None, 0, made, _DEFAULT)

    def make_works(self) -> NpuWorks:
        """Return the makers of each kind of work."""
        return NpuWorks(self.device, Callbacks(self.device, self.handle))

    def make_current(self) -> None:
        """Let calls of this thread be about this context, unless it is gone."""
        if self.handle is not None:
            super().make_current()

    @property
    def idle(self) -> bool:
        """Whether all work of all its streams has completed; asks the card."""
        with self.device.runtime.on(self):
            return super().idle

    def end_stream(self, stream: CardStream) -> None:
        """Let pyACL destroy *stream*, whose work is done; with its context, if that is destroyed."""
        assert isinstance(stream, NpuStream), f"{stream!r} is not of a card"
        if self.is_ending:
            self._ended_streams.append(stream)
        else:
            self.works.functions.leave(stream)
            super().end_stream(stream)

    def destroy(self, site: object) -> None:
        """Destroy the context: work queued in it completes, every later use of it or its streams is refused."""
        self.is_ending = True
        with self.device.runtime.on(self):
            super().destroy(site)
        self.end()

    def end(self) -> None:
        """Give the context back if it is destroyed and its work is done."""
        if self.is_ending and self.idle:
            with self.device.runtime.on(self):
                self.give_back()

    def give_back(self) -> None:
        """Destroy the streams and events, what was made for the work and for callbacks, and a context of the program.
        The work is done.
        """
        if self.handle is None:
            return
        self.works.close()  # its threads end in their streams
        self.holds.close()
        for stream in self._ended_streams:
            give_back(self.driver.destroy_stream, stream.handle)
        super().give_back()
        if not self.primary:
            give_back(self.driver.destroy_context, self.handle)
            self.handle = None

    def create_event(
        self,
        class_: EventClass | None = None,
        *,
        timing: bool,
        made: object,
        waitable: bool = True,
        name: str | None = None,
    ) -> Event:
        """Create an event of the card; the arguments are those of the model's."""
        number = self.device.next_event()
        event: NpuEvent | NpuFlagEvent
        if class_ is EventClass.FLAG:
            event = NpuFlagEvent(self, number, timing=timing, made=made, waitable=waitable)
        else:
            kind = NpuEvent if class_ is EventClass.SNAPSHOT else NpuRecordedEvent
            event = kind(self, number, timing=timing, made=made)
            event.waitable = waitable
        event.given_name = name
        self.events[event] = None
        return event


class AskedIds(Ids):
    """Ids that the card counts, because other users of the process have some, too; *ask* returns how many are free."""

    __slots__ = ("_ask",)

    def __init__(self, limit: int, ask: Callable[[], int]) -> None:
        self._ask = ask
        super().__init__(limit)

    @property
    def free(self) -> int:
        """How many are free; asks the card."""
        return self._ask()

    @free.setter
    def free(self, _: int) -> None:
        """The card counts."""


class NpuDevice(CardDevice):
    """An Ascend card, by its number among those of pyACL."""

    primary: NpuContext
    contexts: list[NpuContext]  # type: ignore[assignment]
    runtime: "NpuRuntime"
    driver: AclDriver

    def __init__(self, runtime: "NpuRuntime", ordinal: int) -> None:
        self.driver = driver = runtime.driver
        rt = driver.rt
        driver(rt.set_device, ordinal)
        self.context_handle = driver(rt.get_context)
        self.notifies: dict[NpuNotify, None] = {}  # that the program has made and not destroyed
        super().__init__(runtime, ordinal)
        self.words = NpuWords(driver)
        limits = self.profile.limits
        self.stream_ids = AskedIds(limits.streams, lambda: int(driver(rt.get_stream_available_num)))
        self.event_ids = AskedIds(limits.events, lambda: int(driver(rt.get_event_avail_num)))

    def _context(self, *, primary: bool, made: object) -> Context:
        handle = self.context_handle if primary else self.driver(self.driver.rt.create_context, self.ordinal)
        self._contexts += 1
        return NpuContext(self, self._contexts - 1, primary=primary, made=made, handle=handle)

    def create_context(self, made: object) -> Context:
        """Create a context beside the default one; the present call goes on in the context that it has."""
        for each in self.contexts:
            each.end()
        context = super().create_context(made)
        self.runtime.go_back()
        return context

    def create_notify(self, made: object, name: str | None = None) -> Notify:
        """Create a notify, which the program calls *name*."""
        self.notify_ids.take()
        self._notifies += 1
        notify = NpuNotify(self, self._notifies, made, name)
        self.notifies[notify] = None
        return notify

    def abort(self, stream: Stream, error: DeviceError) -> None:
        """Drop the work of *stream*; its next synchronisation fails with *error*."""
        assert isinstance(stream, NpuStream), f"{stream!r} is not of a card"
        if not stream.idle:
            self.driver.abort(stream.handle)
            stream.drop(error)

    def can_reach(self, peer: Device) -> bool:
        """Return what pyACL says."""
        return self is not peer and bool(self.driver(self.driver.rt.device_can_access_peer, self.ordinal, peer.ordinal))

    def reach(self, peer: Device) -> None:
        """Give this card access to the memory of *peer*."""
        self.driver(self.driver.rt.device_enable_peer_access, peer.ordinal, 0)
        super().reach(peer)

    def leave(self, peer: Device) -> None:
        """Take the access back."""
        self.driver(self.driver.rt.device_disable_peer_access, peer.ordinal)
        super().leave(peer)

    def give_back(self, *, is_lost: bool) -> None:
        """Give back what pyACL has made; nothing of a card that is lost. The device is not reset: torch_npu lives in
        the same context.
        """
        if not is_lost:
            self.make_current()
            for peer in self.reaches:
                give_back(self.driver, self.driver.rt.device_disable_peer_access, peer)
            for notify in self.notifies:
                give_back(self.driver.destroy_notify, notify.handle)
            give_back(self.driver.limit_waits, 0)
        super().give_back(is_lost=is_lost)
