"""The runtime of a run on a card: verbs and their checks are the model's, and calls of the driver do the work. What
only one vendor has is in a class of its own, in cuda and npu.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter_ns

from acl_py.card.clock import CardClock
from acl_py.card.contexts import CardContext, CardDevice
from acl_py.card.driver import Driver
from acl_py.card.ending import give_back
from acl_py.card.host_functions import running
from acl_py.card.memory import CardMemory
from acl_py.card.streams import CardStream
from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs import copies, devices, host
from device_model.completions import Nanoseconds
from device_model.contexts import Context
from device_model.errors import code_of
from device_model.faults import Rule, Verdict
from device_model.memory import Space
from device_model.ops import Op
from device_model.profile import DeviceProfile
from device_model.rules import SyncRules
from device_model.streams import Stream
from device_model.work import Copy, HostFunction, Work

# What a program does itself, with any card.
ANYWHERE = (devices.Init, devices.Finalize, host.HostThread, host.HostWork, host.Sleep)


# The modules of the verbs that are for the model only, and what to do in their place on a card.
ON_THE_MODEL = ("communicators", "collective_groups", "collectives")
ONE_BY_ONE = f"call {copies.MemcpyAsync.__name__}() for each copy, or run the program on the model"
USE_A_LIBRARY = "collectives run on the model only: on cards call the vendor's library, NCCL or HCCL"


class CardRuntime(Runtime):
    """A run on cards, of which number *first* is current at the beginning. *bodies* says what launches of array kernels
    do: "refuse", "host" or "time".
    """

    memory: CardMemory
    scheduler: CardClock
    driver: Driver
    moves_pages = False  # the driver does
    takes_guests = False  # the driver that it calls may be ours: its calls would call it again without end

    def __init__(
        self,
        profile: DeviceProfile,
        rules: SyncRules,
        first: int,
        *,
        bodies: str,
        seed: int,
        hang_after: float | None,
        is_recorded: bool,
    ) -> None:
        self.first = first
        self.bodies = bodies
        self.is_recorded = is_recorded
        self.driver = self.make_driver()
        self._here: tuple[int, CardContext] | None = None  # the thread that called last, and its context
        self._inside: CardContext | None = None  # that of the present block of `on`
        self._began_ns = perf_counter_ns()
        self._ended_ns = 0
        self._refused = self.refused()
        self.driver.standing.runs.add(self)
        super().__init__(profile, rules, workers=1, seed=seed, hang_after=hang_after)

    def make_driver(self) -> Driver:
        """Return the driver, whose errors are those of the run."""
        raise NotImplementedError

    def refused(self) -> Mapping[str, str]:
        """Return what to do in place of each verb that the card does not do."""
        raise NotImplementedError

    # --- what the model is asked for elsewhere

    def make_clock(self) -> CardClock:
        """Return the clock: real time."""
        return CardClock(self._began_ns)

    def begin(self) -> None:
        """Let the time of the run begin now: the driver has made the context, which takes it a third of a second."""
        self._began_ns = self.scheduler.began_ns = perf_counter_ns()

    def make_device(self, number: int) -> CardDevice:
        """Return card *number*; the present call goes on in the context that it has."""
        made = self.make_card(number)
        self.go_back()
        return made

    def make_card(self, number: int) -> CardDevice:
        """Return card *number*, which is current then."""
        raise NotImplementedError

    @contextmanager
    def on(self, context: CardContext) -> Iterator[None]:
        """Let calls inside be about *context*, and then about the present one again."""
        device = context.device
        is_made = self._devices.get(device.ordinal) is device and context in device.contexts
        if not is_made or (len(self._devices) < 2 and len(device.contexts) < 2):  # what is being made is current
            yield
            return
        before, self._inside = self._inside, context
        context.make_current()
        try:
            yield
        finally:
            self._inside = before
            self.go_back()

    def go_back(self) -> None:
        """Make the context of the present block, or of the present call, current again."""
        here = self._inside or (self._here and self._here[1])
        if here is not None and here.destroyed is None:
            here.make_current()

    @property
    def host_ns(self) -> Nanoseconds:
        """The time since the run began; that of its end, once it has ended."""
        return (self._ended_ns or perf_counter_ns()) - self._began_ns

    @host_ns.setter
    def host_ns(self, _: Nanoseconds) -> None:
        """Real time is not set."""

    def pay(self, cost: Nanoseconds) -> None:  # noqa: ARG002 - a call takes what it takes
        """Let what is due happen."""
        self.scheduler.advance(0)

    def work(self, cost: Nanoseconds) -> None:
        """Keep the host busy for *cost* nanoseconds."""
        until_ns = perf_counter_ns() + cost
        while perf_counter_ns() < until_ns:
            pass

    def submit(self, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds) -> None:  # noqa: ARG002
        """Make the call that queues *op* in *stream*, or let a capture have it."""
        if stream.home is None and self._take(stream, op, 0):
            return
        if self.sanitizer is not None:
            self._submit_observed(stream, op)
            return
        stream.enqueue(op, 0)
        told = self.hooks.op_queued
        if told is not None:
            told(op)

    def _submit_observed(self, stream: Stream, op: Op) -> None:
        """Make the call that queues *op* in *stream*, and let the sanitizer know what it may."""
        told = self.hooks.op_queued
        self.note_unseen(op.work)
        if isinstance(op.work, HostFunction) and told is not None:
            op.stream, op.queued_ns, op.queue = stream, self.host_ns, stream.queues[op.lane]
            told(op)  # before the function runs, in its thread
            told = None
        stream.enqueue(op, 0)
        if told is not None:
            told(op)
        if isinstance(op.work, Copy) and op.work.dst.space is Space.PAGEABLE:
            self._tell_of_wait(stream, op)

    def _tell_of_wait(self, stream: Stream, op: Op) -> None:
        """Tell the observers that the call of *op*, a copy to pageable memory, has waited, although it need not."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        awaiting, synchronized = self.hooks.awaiting, self.hooks.synchronized
        if awaiting is not None and synchronized is not None:
            awaiting((stream,), op, False)
            stream.look(all_of_it=True)
            synchronized(op)

    def note_unseen(self, work: Work) -> None:
        """Note that the sanitizer sees nothing of *work*, if it is so."""

    @property
    def calling(self) -> Op | None:
        """The host function that runs in this thread of the driver, or of which the sanitizer is told."""
        return running.op

    def defers(self, access: Callable[[], None]) -> bool:
        """Keep *access* until its operation has ended, if this is a thread of the driver that runs a host function."""
        if running.accesses is None:
            return False
        running.accesses.append(access)
        return True

    def admit(self, rule: Rule) -> None:
        """Raise ValueError for a *rule* that is not about calls that fail: the card does its work as it can."""
        if rule.verdict is not Verdict.FAIL or rule.call is None:
            why = "only calls can be made to fail, as with fail(call='Malloc')"
            raise ValueError(f"{rule.text} on a card, where {why}")

    @property
    def cards(self) -> list[CardDevice]:
        """The cards in use so far."""
        return [device for device in self._devices.values() if isinstance(device, CardDevice)]

    @property
    def contexts(self) -> list[CardContext]:
        """The contexts of these cards."""
        return [context for card in self.cards for context in card.contexts]

    def look(self) -> bool:
        """Ask the cards about what hosts wait for; return whether anything is done that was not before."""
        is_new, contexts = False, self.contexts if self.closed is None else ()
        for context in contexts:
            if context.asked:
                if len(contexts) == 1:  # this is the hot path
                    return context.look()
                with self.on(context):
                    is_new |= context.look()
        return is_new

    # --- checks

    def check_call(self, context: Context, name: str, *, needs_context: bool = True) -> None:
        """Check what every verb checks, and that a card can do a call of *name*; make the context current."""
        is_watched = self.faults.rules or self.captures.running
        if is_watched or not isinstance(context, CardContext) or context.error is not None:
            super().check_call(context, name, needs_context=needs_context)
        if name in self._refused:
            raise self.error(Kind.NOT_SUPPORTED, f"{name}() on a card", self._refused[name])
        here = self._here
        if here is None or here[1] is not context or here[0] != get_ident():
            self._go_to(context)

    def _go_to(self, context: Context) -> None:
        """Make *context* current in this thread, unless it is gone."""
        if isinstance(context, CardContext) and context.destroyed is None:
            context.make_current()
            self._here = get_ident(), context

    def drop_work(self) -> bool:
        """Drop the work that does not end; return whether that is possible."""
        return False

    def close(self, why: str) -> None:
        """End the run, and free all that it has got from the driver."""
        try:
            if self.closed is None:
                give_back(self)
        finally:
            super().close(why)

    def note_end(self) -> None:
        """Let the time of the run end, and tell the observers what it knows, before memory is freed."""
        self._ended_ns = perf_counter_ns()
        self.unfinished()  # for its effect: what has ended gets its times
        if self.sanitizer is not None:
            self.sanitizer.finish()  # before what the program has not freed is freed

    def context_error(self, context: Context) -> AclError:
        """Return the error that *context* has failed with, for one more call that touches it."""
        cause = context.error
        if self.closed is not None or cause is None:
            return super().context_error(context)
        return self.error(cause.kind, cause.what, self.driver.new_process, code=code_of(cause))
