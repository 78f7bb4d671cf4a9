"""A reading of a stream program: which call puts which entry into which stream, and what its host waits for.

Nothing here is an order. An *entry* is all that takes a turn in a stream: an operation, a record, a wait, a signal that
is set or cleared, an allocation or a free of a pool. `promises` and `schedules` decide what comes before what.

The rules are "cuda", "cuda_per_thread" and "acl". Comments name rows of the tables that this was written from: M, S, E,
A, C and I are those of copies, streams, events, the allocator, host functions and implicit synchronisation of CUDA.
Callbacks are ACL's: a call in a stream that the host makes which has subscribed to it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acl_py.programs.format import Program, Step

Bytes = tuple[tuple[int, int], ...]  # ranges of bytes, [start, stop)
NO_EFFECT = (
    "host_work", "sleep", "resume", "give_way", "mem_get_info", "get_priority", "priority_range", "pool_threshold",
    "destroy_notify", "destroy_context",
)  # fmt: skip


@dataclass(eq=False)
class Stream:
    """A stream. *kind* is "legacy", "blocking" or "free": a free stream takes no part in the default-stream rule."""

    name: str
    device: int
    context: str
    kind: str

    def __repr__(self) -> str:
        return f"<stream {self.name}>"


@dataclass(eq=False)
class Life:
    """Memory from its allocation to its free. A name that is allocated again is another life."""

    name: str
    nbytes: int
    space: str
    device: int
    born: "Entry | None" = None  # the entry that allocates it, if a pool does
    freed: bool = False

    def __repr__(self) -> str:
        return f"<memory {self.name}>"


@dataclass(frozen=True)
class Access:
    """Bytes that an entry or a host call reads or writes."""

    life: Life
    bytes: Bytes
    writes: bool


@dataclass(eq=False)
class Signal:
    """A level: the flag of an event, a notify, a word of memory. If *consumed*, a wait that passes clears it."""

    name: str
    consumed: bool = False


@dataclass(eq=False)
class Entry:
    """Something that takes a turn in *stream* (None: outside all streams, when its call runs).

    *role* is "work", "record", "wait", "set", "clear", "await", "alloc", "free" or "callback". A "wait" holds its
    stream back until *behind*, a record, has ended. An "await" passes once its signal has a value that satisfies
    *need*. A "callback" that *blocks* ends once the call *until* has been entered, in which its function ends.
    """

    call: "Call"
    stream: Stream | None
    role: str
    accesses: tuple[Access, ...] = ()
    behind: "Entry | None" = None
    signal: Signal | None = None
    value: int = 0  # that a "set" gives the signal
    need: tuple[str, int] = ("geq", 1)
    life: Life | None = None  # that it allocates or frees
    blocks: bool = False
    until: "Call | None" = None


@dataclass(frozen=True)
class Target:
    """What a host waits for: all entries so far of a *stream*, a *device* or a *context*, or the end of one *entry*, or
    that it is the *turn* of one.
    """

    stream: Stream | None = None
    device: int | None = None
    context: str | None = None
    entry: Entry | None = None
    turn: Entry | None = None


@dataclass(eq=False)
class Call:
    """One call, in the order in which the host made them.

    The host waits for *first* before the call has its effect and its entry may begin, and for *last* before the call
    returns. *maybe* is what it may wait for first, by habit of a driver and without a promise.
    """

    place: int
    step: Step
    after: int | None
    entry: Entry | None = None
    accesses: tuple[Access, ...] = ()  # of the host itself, within the call
    first: tuple[Target, ...] = ()
    last: tuple[Target, ...] = ()
    maybe: tuple[Target, ...] = ()
    frees: Life | None = None  # at once, between *first* and the return

    @property
    def index(self) -> int:
        """The index of its step."""
        return self.step.index

    @property
    def task(self) -> str | None:
        """The task that makes it."""
        return self.step.task


@dataclass(frozen=True)
class Run:
    """What is known of a run: the order of the calls, those that failed, the queries that were answered "complete".

    `uncalled` are the host functions that touched nothing: their context had failed before their turn (C5). `taken` has
    the callback that each "process_report" calls: the index of the step that launched it.
    """

    order: Sequence[int]
    failed: Collection[int] = ()
    complete: Collection[int] = ()
    uncalled: Collection[int] = ()
    taken: Mapping[int, int] = field(default_factory=dict)


def unrun(program: Program) -> Run:
    """The run that is assumed without one: calls in the order of the file; a query that repeats ends as "complete";
    callbacks are called in the order in which they were launched.
    """
    complete = [step.index for step in program.steps if step.fields.get("until")]
    launched, taken = (
        [step.index for step in program.steps if step.op == op] for op in ("launch_callback", "process_report")
    )
    return Run(range(len(program.steps)), (), complete, taken=dict(zip(taken, launched, strict=False)))


def read(program: Program, rules: str, run: Run | None = None) -> list[Call]:
    """The calls of *program* that have an effect, in their order."""
    run = unrun(program) if run is None else run
    return _Reader(program, rules, run).calls


def satisfies(value: int, need: tuple[str, int]) -> bool:
    """Whether a word of *value* satisfies a wait."""
    compare, wanted = need
    match compare:
        case "geq":
            return value >= wanted
        case "eq":
            return value == wanted
        case "and":
            return bool(value & wanted)
    return (value | wanted) != 2**64 - 1  # "nor"


def overlap(one: Bytes, other: Bytes) -> Bytes:
    """The bytes that both have."""
    return tuple((max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) < min(b, d))


class _Failed(Exception):
    """The call fails, and has no effect."""


@dataclass(eq=False)
class _Event:
    """An event object: its class, and its last record."""

    class_: str
    signal: Signal
    record: Entry | None = None
    waits: list[Entry] = field(default_factory=list)


class _Reader:
    """Goes through the calls once, and knows what each name means at that moment."""

    def __init__(self, program: Program, rules: str, run: Run) -> None:
        self.rules, self.run = rules, run
        self.acl = rules == "acl"
        self.calls: list[Call] = []
        self.by_index: dict[int, Call] = {}
        self.where: dict[str | None, tuple[int, str]] = {}  # the current device and context of each task
        self.contexts = {"primary": 0}
        self.streams = {
            name: self._stream(name, options["flags"], options["device"], "primary" + str(options["device"]))
            for name, options in program.streams.items()
        }
        self.lives = {
            name: Life(name, options["bytes"], options["space"], options["device"])
            for name, options in program.buffers.items()
        }
        self.events = {name: self._event("default") for name in program.events}
        self.notifies: dict[str, Signal] = {}
        self.words: dict[tuple[Life, int], Signal] = {}
        self.called: Entry | None = None  # the callback that is being called
        for place, index in enumerate(run.order):
            step = program.steps[index]
            self.call = Call(place, step, step.after)
            if index not in run.failed:
                try:
                    if step.op not in NO_EFFECT:
                        getattr(self, step.op)(**step.fields)
                except _Failed:
                    self.call = Call(place, step, step.after)
            self.calls.append(self.call)
            self.by_index[index] = self.call

    # --- names

    def _stream(self, name: str, flags: str, device: int, context: str) -> Stream:
        return Stream(name, device, context, "blocking" if flags == "blocking" and not self.acl else "free")

    def _event(self, kind: str) -> _Event:
        """Under CUDA, and of ACL's class "snapshot", an event is what its last record captured. "default" is ACL's
        class A, which must be recorded before a wait; "flag" is its class B, a level.
        """
        return _Event(kind if self.acl else "snapshot", Signal("event"))

    @property
    def here(self) -> tuple[int, str]:
        """The device and the context of the calling task."""
        return self.where.get(self.call.task, (0, "primary0"))

    def _named(self, name: str) -> Stream:
        """The stream that *name* means here. The default streams are one for each context (S3), the per-thread one for
        each thread too (S6).
        """
        if name not in ("legacy", "per_thread"):
            return self.streams[name]
        device, context = self.here
        thread = self.call.step.thread if name == "per_thread" else None
        if name == "per_thread" and self.acl:
            raise _Failed
        key = f"{name} of {context}" + (f" and {thread}" if thread else "")
        if key not in self.streams:
            kind = "free" if self.acl else "legacy" if name == "legacy" else "blocking"
            self.streams[key] = Stream(key, device, context, kind)
        return self.streams[key]

    @property
    def default(self) -> Stream:
        """The stream of the synchronous copies and fills of CUDA."""
        return self._named("per_thread" if self.rules == "cuda_per_thread" else "legacy")

    def _put(self, stream: Stream | None, role: str, accesses: Iterable[Access] = (), **more: Any) -> Entry:
        self.call.entry = Entry(self.call, stream, role, tuple(accesses), **more)
        return self.call.entry

    def _space(self, name: str) -> str:
        return self.lives[name].space

    def _at(self, name: str, start: int, nbytes: int, *, writes: bool) -> Access:
        return Access(self.lives[name], ((start, start + nbytes),) if nbytes else (), writes)

    # --- work

    def launch(self, stream: str, reads: Any, writes: Any, **_: Any) -> None:
        accesses = [
            Access(self.lives[name], ((start, stop),), is_write)
            for extents, is_write in ((reads, False), (writes, True))
            for name, start, stop in extents
            if not self.lives[name].freed and start < stop
        ]
        self._put(self._named(stream), "work", accesses)

    launch_cores = launch

    def inc(self, buf: str, stream: str, **_: Any) -> None:
        self._put(self._named(stream), "work", [self._at(buf, 0, 4, writes=is_write) for is_write in (False, True)])

    def host_func(self, stream: str, buf: str | None, **_: Any) -> None:
        is_called = buf is not None and self.call.index not in self.run.uncalled
        accesses = () if not is_called else [self._at(buf, 0, 4, writes=is_write) for is_write in (False, True)]
        self._put(self._named(stream), "work", accesses)

    def subscribe(self, stream: str) -> None:
        self._named(stream)  # it may make the default stream

    def launch_callback(self, stream: str, block: bool, **_: Any) -> None:
        self._put(self._named(stream), "callback", blocks=block)

    def process_report(self, **_: Any) -> None:
        """The host calls a callback whose turn it is. It goes on within the callback."""
        self.called = self.by_index[self.run.taken[self.call.index]].entry
        self.call.last = (Target(turn=self.called),)

    def end_report(self) -> None:
        """The callback is over: a stream that waits for that goes on."""
        if self.called is not None:
            self.called.until, self.called = self.call, None

    def memcpy_async(self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str, **_: Any) -> None:  # noqa: A002
        self._copy_async(self._named(stream), *self._flat(dst, src, bytes, dst_off, src_off), dst=dst, src=src)

    def memcpy2d_async(self, dst: str, src: str, stream: str, **rows: Any) -> None:
        self._copy_async(self._named(stream), *self._rows(dst, src, **rows), dst=dst, src=src)

    def memcpy(self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, **_: Any) -> None:  # noqa: A002
        self._copy(*self._flat(dst, src, bytes, dst_off, src_off), dst=dst, src=src)

    def memcpy2d(self, dst: str, src: str, **rows: Any) -> None:
        self._copy(*self._rows(dst, src, **rows), dst=dst, src=src)

    def _flat(self, dst: str, src: str, nbytes: int, dst_off: int, src_off: int) -> tuple[Access, Access]:
        return self._at(src, src_off, nbytes, writes=False), self._at(dst, dst_off, nbytes, writes=True)

    def _rows(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int, dst_off: int, src_off: int,
        **_: Any,
    ) -> tuple[Access, Access]:  # fmt: skip
        """A pitched copy touches rows; the bytes between them are nobody's."""

        def rows(start: int, pitch: int) -> Bytes:
            return tuple((start + row * pitch, start + row * pitch + width) for row in range(height if width else 0))

        return Access(self.lives[src], rows(src_off, spitch), False), Access(
            self.lives[dst], rows(dst_off, dpitch), True
        )

    def _copy_async(self, stream: Stream, source: Access, result: Access, *, dst: str, src: str) -> None:
        pageable = [self._space(name) == "pageable" for name in (src, dst)]
        on_host = [self._space(name) != "device" for name in (src, dst)]
        if self.acl and all(on_host):
            raise _Failed  # H2H is not supported
        accesses = [access for access, is_plain in zip((source, result), pageable, strict=True) if not is_plain]
        at_once = self.acl and any(pageable)  # ACL: synchronises with the stream, and copies outside all streams
        own = (Target(entry=self._put(None if at_once else stream, "work", accesses)),)
        if at_once:
            self.call.first = (Target(stream=stream),)
        if all(on_host) or at_once:
            self.call.last = own  # M12
        elif pageable[1]:
            self.call.maybe = own  # M10: older manuals say "complete", the new one "might be synchronous"

    def _copy(self, source: Access, result: Access, *, dst: str, src: str) -> None:
        """A synchronous copy. Under ACL it runs at once, outside all streams. CUDA's is in the default stream."""
        pageable = [self._space(name) == "pageable" for name in (src, dst)]
        on_host = [self._space(name) != "device" for name in (src, dst)]
        accesses = [access for access, is_plain in zip((source, result), pageable, strict=True) if not is_plain]
        entry = self._put(None if self.acl else self.default, "work", accesses)
        if not self.acl and not any(on_host):
            return  # M4: between two places of the device the host does not wait
        if not self.acl and pageable[0] and not on_host[1]:
            self.call.first = (Target(stream=self.default),)  # M1: waits for earlier work, returns when staged
            return
        self.call.last = (Target(entry=entry),)  # M2, M3, M5

    def memset_async(self, dst: str, bytes: int, dst_off: int, stream: str, **_: Any) -> None:  # noqa: A002
        self._put(self._named(stream), "work", [self._at(dst, dst_off, bytes, writes=True)])  # M15

    def memset(self, dst: str, bytes: int, dst_off: int, **_: Any) -> None:  # noqa: A002
        entry = self._put(
            None if self.acl else self.default, "work", [self._at(dst, dst_off, bytes, writes=True)]
        )  # M13: memory of the device, at once
        if self.acl or self._space(dst) != "device":
            self.call.last = (Target(entry=entry),)  # M14: memory of the host

    # --- events

    def create_event(self, event: str, kind: str, **_: Any) -> None:
        if kind != "default" and not self.acl:
            raise _Failed
        self.events[event] = self._event(kind)

    def destroy_event(self, event: str) -> None:
        del self.events[event]  # E2, I11: waits that were queued keep what they wait for

    def _known(self, event: str) -> _Event:
        if event not in self.events:
            raise _Failed
        return self.events[event]

    def record(self, event: str, stream: str, external: bool = False) -> None:
        known = self._known(event)
        role = "set" if known.class_ == "flag" else "record"
        known.record = self._put(self._named(stream), role, signal=known.signal, value=1)  # E1

    def wait(self, event: str, stream: str, external: bool = False) -> None:
        known = self._known(event)
        if known.class_ == "flag":
            known.waits.append(self._put(self._named(stream), "await", signal=known.signal))
            return
        if known.record is not None:
            known.waits.append(self._put(self._named(stream), "wait", behind=known.record))  # E2
        elif known.class_ == "default":
            raise _Failed
        # Otherwise E3: the wait has no effect, and is no action of a default stream.

    def reset(self, event: str, stream: str) -> None:
        known = self._known(event)
        if known.class_ == "flag":
            self._put(self._named(stream), "clear", signal=known.signal)

    def sync_event(self, event: str, **_: Any) -> None:
        record = self._known(event).record
        if record is not None:
            self.call.last = (Target(entry=record),)

    def query_event(self, event: str, **_: Any) -> None:
        if self.call.index in self.run.complete:
            self.sync_event(event)  # S17

    def query_waits(self, event: str, **_: Any) -> None:
        if self.call.index in self.run.complete:
            self.call.last = tuple(Target(entry=entry) for entry in self._known(event).waits)

    def elapsed(self, start: str, end: str) -> None:
        records = [self._known(name).record for name in (start, end)]
        self.call.last = tuple(Target(entry=record) for record in records if record is not None)  # E6

    def timestamp(self, event: str) -> None:
        self.sync_event(event)

    # --- the host waits

    def sync_stream(self, stream: str, **_: Any) -> None:
        self.call.last = (Target(stream=self._named(stream)),)

    def query_stream(self, stream: str, **_: Any) -> None:
        if self.call.index in self.run.complete:
            self.sync_stream(stream)  # S17

    def sync_device(self, **_: Any) -> None:
        self.call.last = (self._all,)

    @property
    def _all(self) -> Target:
        """What a device synchronisation covers (I12): under ACL the current context only."""
        device, context = self.here
        return Target(context=context) if self.acl else Target(device=device)

    def sync_op(self, of: str) -> None:
        for call in self.calls:
            if call.step.id == of and call.entry is not None:
                self.call.last = (Target(entry=call.entry),)

    # --- memory

    def malloc(self, name: str, bytes: int) -> None:  # noqa: A002
        self.lives[name] = Life(name, bytes, "device", self.here[0])  # I2: it may wait, and gives no edge

    def malloc_host(self, name: str, bytes: int) -> None:  # noqa: A002
        self.lives[name] = Life(name, bytes, "pinned", self.here[0])  # I1: the same

    def host_register(self, name: str, bytes: int, **_: Any) -> None:  # noqa: A002
        self.malloc_host(name, bytes)

    def malloc_async(self, name: str, bytes: int, stream: str) -> None:  # noqa: A002
        life = self.lives[name] = Life(name, bytes, "device", self._named(stream).device)
        life.born = self._put(self._named(stream), "alloc", life=life)  # A1

    def free_async(self, name: str, stream: str) -> None:
        life = self.lives[name]
        self._put(self._named(stream), "free", life=life)  # A3
        life.freed = True

    def free(self, name: str, sync: bool) -> None:
        life = self.lives[name]
        life.freed = True
        self.call.frees = life
        if sync:
            self.call.first = (self._all,)
        elif not self.acl and life.born is None:  # A4: no wait for memory of a pool
            self.call.maybe = (Target(device=life.device),)  # I7

    def free_host(self, name: str, sync: bool) -> None:
        self.free(name, sync)  # I8

    def host_unregister(self, name: str) -> None:
        self.free(name, sync=False)

    def host_write(self, buf: str, **_: Any) -> None:
        if self._space(buf) != "pageable":
            self.call.accesses = (self._at(buf, 0, 4, writes=True),)

    def host_read(self, buf: str) -> None:
        if self._space(buf) != "pageable":
            self.call.accesses = (self._at(buf, 0, 4, writes=False),)

    def host_access(self, reads: Any, writes: Any) -> None:
        self.call.accesses = tuple(
            Access(self.lives[name], tuple((start, stop) for other, start, stop in extents if other == name), is_write)
            for extents, is_write in ((reads, False), (writes, True))
            for name in dict.fromkeys(name for name, _, _ in extents)
        )

    # --- streams, contexts, devices

    def create_stream(self, name: str, flags: str, **_: Any) -> None:
        self.streams[name] = self._stream(name, flags, *self.here)

    def destroy_stream(self, name: str) -> None:
        if self.acl:
            self.call.last = (Target(stream=self.streams[name]),)  # ACL waits; CUDA returns at once (S12)

    def set_device(self, device: int) -> None:
        self.where[self.call.task] = device, f"primary{device}"  # I9: no synchronisation

    def create_context(self, context: str, device: int) -> None:
        self.contexts[context] = device
        self.set_context(context)

    def set_context(self, context: str) -> None:
        device = self.contexts[context]
        self.where[self.call.task] = device, "primary0" if context == "primary" else context

    # --- ACL's signals

    def create_notify(self, notify: str) -> None:
        self.notifies[notify] = Signal(notify, consumed=True)

    def record_notify(self, notify: str, stream: str) -> None:
        self._put(self._named(stream), "set", signal=self.notifies[notify], value=1)

    def wait_notify(self, notify: str, stream: str, **_: Any) -> None:
        self._put(self._named(stream), "await", signal=self.notifies[notify])

    def _word(self, buf: str, off: int) -> Signal:
        return self.words.setdefault((self.lives[buf], off), Signal(f"{buf}+{off}"))

    def value_write(self, buf: str, value: int, stream: str, off: int) -> None:
        self._put(self._named(stream), "set", signal=self._word(buf, off), value=value)

    def value_wait(self, buf: str, value: int, stream: str, off: int, compare: str) -> None:
        self._put(self._named(stream), "await", signal=self._word(buf, off), need=(compare, value))
