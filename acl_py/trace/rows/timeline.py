"""The rows of a recording: plain data, which every view, export and explanation reads.

A `Timeline` has all of them. It is taken from a live trace (`Trace.timeline`) or read from a file (files.py), and knows
nothing of the program that ran. Times are nanoseconds of simulated time; an index is a place in a list of the same
timeline; a *site* is a line of the program, as "file.py:12".
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acl_py.calls.acts import PLAIN, Act
from acl_py.trace.rows.hosts import Handover, Host
from acl_py.trace.rows.source import SourceLine
from device_model.completions import Why
from device_model.frozen import Frozen

_UNITS = ("ISSUE", "LSU", "MEM", "TENSOR", "FMA", "ALU", "SFU")  # of SMs
PIPE_ORDER = ("S", "MTE2", "MTE1", "M", "FIX", "V", "MTE3", *_UNITS)  # those of AI cores as data passes them
# Which engine runs each kind of operation.
ENGINES = {
    "h2d": "H2D",
    "d2h": "D2H",
    "prefetch_h2d": "H2D",
    "prefetch_d2h": "D2H",
    "d2d": "cores",
    "h2h": "host",
    "p2p": "P2P",
    "fill": "cores",
    "kernel": "cores",
    "host_function": "host",
    "collective": "links",
    "graph": "cores",  # a whole launch, on a card
}


class Extent(NamedTuple):
    """The bytes *start* to *stop* of `Timeline.buffers[buffer]`; -1 stands for an array of the program."""

    buffer: int
    start: int
    stop: int


class Copied(NamedTuple):
    """What a call that copies was about: *bytes* from *src*, at an offset, to *dst*; both are as in Extent.

    Of a copy by rows it has also *height* rows of *width* bytes, which begin so many bytes apart.
    """

    kind: str
    dst: int
    dst_offset: int
    src: int
    src_offset: int
    bytes: int
    width: int = 0
    height: int = 0
    dst_pitch: int = 0
    src_pitch: int = 0


class Filled(NamedTuple):
    """What a call that fills was about: *bytes* from *offset* of *buffer* on, with words of *unit* bytes."""

    buffer: int
    offset: int
    value: int
    bytes: int
    unit: int = 1


class Prefetched(NamedTuple):
    """What a call was about that moves pages: *bytes* of *buffer*, from *start* on, to *location*: a device, or -1."""

    buffer: int
    start: int
    bytes: int
    location: int


class Joint(NamedTuple):
    """What a call of one rank was about that takes part in a collective: so many elements of a *type*.

    *reduction* is "" and *root* and *peer* are -1 where there is none; *peer* is the other rank of a Send or a Recv.
    """

    kind: str
    elements: int
    type: str
    reduction: str
    root: int
    peer: int
    reads: tuple[Extent, ...]
    writes: tuple[Extent, ...]


class Ref(NamedTuple):
    """What a call was about: `Timeline.handles[handle]`."""

    handle: int


class Launched(NamedTuple):
    """What a call was about that launched a kernel in a capture, or a host function. It has its name, and as in
    `Operation` its blocks, their time, whether they are exclusive, and the bytes that it touches.

    A core kernel takes so many *cores* (0: another kernel). Its time is known from its runs: `CoreRun.number` is
    *number* for these.
    """

    name: str
    blocks: int
    block_ns: int
    exclusive: bool
    reads: tuple[Extent, ...]
    writes: tuple[Extent, ...]
    cores: int = 0
    number: int = -1


Record = Extent | Copied | Filled | Launched | Prefetched | Joint | Ref
Thing = Record | int | str  # what the act of a call names


class CoreRun(NamedTuple):
    """The run of a core kernel on its cores, in *blocks* blocks.

    *busy_us* has microseconds by the profiler's names (aiv_time, vec, scalar, mte2, ...), the mean over the cores in
    use. *findings* describe mistakes in the kernel. *left_out* is the number of instructions beyond the limit of
    the trace. *released* says when it gave back how many AI cores: (nanoseconds after its start, cores) each. *number*
    says which call captured it, if it is part of a launch of a graph: that about the `Launched` of this number.
    """

    blocks: int
    busy_us: Mapping[str, float]
    findings: tuple[str, ...]
    left_out: int
    released: tuple[tuple[int, int], ...] = ()
    number: int = -1


class Operation(NamedTuple):
    """One operation on a device; *site* is the line that submitted it.

    *cores* has more about a core kernel, and is None for other operations. *why* is the reason why the operation did
    not start earlier, and *after* the index, in `Trace.ops`, of the operation that it waited for; None if it was none.
    Its call began at *called_ns*; -1 if a larger call queued it. It was ready at *ready_ns*: no engine could have
    started it earlier. *in_stream* is the index of its stream in `Timeline.handles`; *by* is that of `Call`.

    A kernel has *blocks*, each busy for *block_ns* (0: a core kernel, whose time is known from its run); an *exclusive*
    block has a core to itself. *reads* and *writes* are the bytes that it touches: of a copy by rows from the first to
    the last; of a host function those that a sanitizer has seen. Of a kernel in PTX that uses more than 4,096 ranges of
    an allocation, the smallest gaps between them are closed.

    An operation that is part of a launch of a graph has the index of that in `Timeline.launches`; its *site* is the
    line that captured it.
    """

    name: str
    kind: str
    stream: str
    engine: str
    queued_ns: int
    start_ns: int
    end_ns: int
    bytes: int
    site: str
    device: int
    cores: CoreRun | None = None
    why: Why = Why.HOST
    after: int | None = None
    caller: str = ""
    called_ns: int = -1
    ready_ns: int = -1
    in_stream: int = -1
    blocks: int = 0
    block_ns: int = 0
    exclusive: bool = False
    reads: tuple[Extent, ...] = ()
    writes: tuple[Extent, ...] = ()
    by: int = 0
    launch: int | None = None


class GraphLaunch(NamedTuple):
    """One launch of the executable *name*, submitted at *site*, and queued at *queued_ns*.

    It lasts from the start of the first of its operations to the end of its last node; both are -1 if it never ended.
    A launch without operations starts at its end. *taken* says what each conditional node has run. The rest is as
    in `Operation`.
    """

    name: str
    stream: str
    device: int
    queued_ns: int
    start_ns: int
    end_ns: int
    site: str
    caller: str
    in_stream: int
    taken: tuple[bool | int, ...]
    by: int

    @property
    def label(self) -> str:
        """What charts call it: its graph."""
        return self.name.removeprefix("executable of ")


class Sleep(NamedTuple):
    """A time in which a caller slept in a call; it woke because the operation with index *after* ended, if one did.

    A caller whose pageable memory is copied in parts takes turns with the device: it copies, or waits for an operation.
    *waits* are these waits, which are sleeps, too, and *after* is that of the last one; *number* counts such copies of
    a device in the order in which they began. They are None and -1 for other sleeps.
    """

    begin_ns: int
    end_ns: int
    after: int | None = None
    waits: "tuple[Sleep, ...] | None" = None
    number: int = -1

    @property
    def waited_ns(self) -> int:
        """How long the caller waited, without the time in which it copied."""
        if self.waits is None:
            return self.end_ns - self.begin_ns
        return sum(wait.waited_ns for wait in self.waits)


class Call(NamedTuple):
    """One call of the host, from *enter_ns* to *exit_ns*, made in *file* at *line*.

    *caller* is the task or thread that made it. It is "task 'producer'" if the program has named it, otherwise "task
    1", with a number in the order of first calls. *by* tells callers of one name apart. *act* is what the call did. The
    caller waited in it for *waited_ns*, and woke when the operation with index *after* ended; None if it waited for no
    operation. *sleeps* has each of its sleeps. In one that stages pageable memory it copies, too. *name* is the verb.
    If the program called a function of the module acl, *function* is its name.

    ProcessReport() has two rows: one until it has taken a callback, and "EndReport", when the callback is over.
    """

    name: str
    enter_ns: int
    exit_ns: int
    file: str
    line: int
    caller: str
    act: Act[Thing] = PLAIN
    waited_ns: int = 0
    after: int | None = None
    sleeps: tuple[Sleep, ...] = ()
    by: int = 0
    function: str = ""

    @property
    def called(self) -> str:
        """What the program called: "Memcpy" or "acl.rt.memcpy"."""
        return self.function or self.name


class Access(NamedTuple):
    """What the host did *at_ns* in *file* at *line*, between two calls and in no time.

    It read, or wrote, the bytes *extents* through views: a recording has this if the sanitizer has watched the host.
    What one line does between two calls is one row. Without extents, the host awaited the operation with index *after*,
    which was done already; or, if that is None, it read the clock.

    Of the calls that had returned by then, the one with index *behind* is the last; None if there was none. *caller*
    and *by* are as in `Call`.
    """

    at_ns: int
    extents: tuple[Extent, ...]
    writes: bool
    file: str
    line: int
    caller: str
    behind: int | None
    by: int = 0
    after: int | None = None


class Export(NamedTuple):
    """From *at_ns* on, code may read and write the bytes *extents* unseen: *file* got at the memory itself at *line*.

    C code, memoryview() and bare addresses do so. Each byte of a life of memory has one row, the first. The rest is as
    in `Access`.
    """

    at_ns: int
    extents: tuple[Extent, ...]
    file: str
    line: int
    caller: str
    behind: int | None
    by: int = 0


class StreamStep(NamedTuple):
    """An entry in a stream that takes no engine.

    *kind* is "record", "wait", "reset", "notify", "notify_wait", "value", "value_wait", "callback" or "update"; *name*
    is that of its event, notify, memory, function or task group, *in_stream* the index of its stream in
    `Timeline.handles`. It was queued at *queued_ns*, and over at *end_ns*: -1 if it never was. A wait for an event has
    the index of the *record* that it waits for, if there was one. *after* is the index of the last operation that a
    record, or a wait for a record, stands for.
    """

    kind: str
    name: str
    stream: str
    device: int
    queued_ns: int
    end_ns: int
    site: str
    caller: str
    in_stream: int = -1
    record: int | None = None
    after: int | None = None


ASKING = {"record": "RecordEvent", "wait": "StreamWaitEvent"}  # the calls that queue steps of these kinds


class Mark(NamedTuple):
    """What the program marked: the time from *begin_ns* to *end_ns* as *name*; a single instant if they are equal.

    *caller* is the task or the thread that marked it, or the stream whose work the time is that of.
    """

    name: str
    begin_ns: int
    end_ns: int
    site: str
    caller: str


class Migration(NamedTuple):
    """Pages of managed memory that moved, or were mapped, for the operation *name* of *stream*, or for the host.

    *to_device*, *to_host* and *mapped* are numbers of pages of 4 KB, *remote* the bytes that a device reached over the
    bus. From *begin_ns* to *end_ns* the operation, or the host, waited for them. *stream* is "" for the host, and
    *device* -1.
    """

    name: str
    stream: str
    device: int
    begin_ns: int
    end_ns: int
    to_device: int
    to_host: int
    mapped: int
    remote: int
    site: str


class Memory(NamedTuple):
    """Memory with one life: *space* is "device", "pinned", "pageable" or "managed".

    *made* is the line that made it, *freed* the one that freed it or reset its device; "" if none did. It was in use
    from *begin_ns* to *end_ns*: -1 for a time that did not come. Memory of FreeAsync is in use until that has its turn
    in its stream, and what MallocAsync makes of the same block is so from then on.

    From *viewed_ns* on the host had an array over it, and may have read it unseen, as `plain[:] = array` does; -1 if it
    had none, or if no sanitizer has watched the host.

    *again* is of memory that HostRegister pinned: the place of the first row of the same bytes of the same object, if
    it was pinned before; else -1. At a bare address the object is not known, so it is -1.
    """

    name: str
    space: str
    bytes: int
    device: int
    made: str
    freed: str = ""
    begin_ns: int = -1
    end_ns: int = -1
    viewed_ns: int = -1
    again: int = -1


class Handle(NamedTuple):
    """A stream, event, notify, context, device, graph, executable or task group in use; *kind* is one of these words.
    *made* is the line that made it, *number* the place of a stream in the order in which those of its device were made,
    from 1, and of a context the same, from 0. A graph is of no device: -1.

    *options* has what its maker was asked for, where that is not the usual: "nonblocking" and "priority" of a stream,
    "timing", "blocking" and "class" of an event. A stream that is not in a primary context has "context", the number of
    its context.
    """

    kind: str
    name: str
    device: int
    made: str
    options: Mapping[str, bool | int | str]
    number: int = 0


class Strike(NamedTuple):
    """A fault rule struck a call or an operation called *name*, or the engine of this name, at *at_ns*.

    *site* is the line that queues the operation. *rule* is the text of the rule, and *made* the line that made it.
    """

    at_ns: int
    rule: str
    made: str
    name: str
    site: str


class Failure(NamedTuple):
    """The operation called *name*, which the line *site* queued, failed at *at_ns*."""

    at_ns: int
    name: str
    site: str


class CoreInstruction(NamedTuple):
    """One instruction of a core kernel, on a *core* ("AIV 3") for a *block*, in a *pipe*; *kind* is "work", "set",
    "wait", "barrier" ...

    *operation* is the index of the launch in `Trace.ops`, *waited_for* that of another instruction in
    `Trace.instructions`: the set of a wait, or the last one that used the bytes of a vector instruction; None if
    there is none or it was left out. Times in nanoseconds of simulated time, with fractions; *bytes* are those moved
    to or from GM; *site* is the line of the kernel.
    """

    operation: int
    core: str
    block: int
    pipe: str
    kind: str
    name: str
    start_ns: float
    end_ns: float
    bytes: int
    site: str
    waited_for: int | None


OWN_HOSTS = "own hosts"  # the `host_time` of a run in which several hosts made calls at the same time


class Timeline(Frozen):
    """One recording: operations and calls in the order of their ends, everything else in the order in which it came.

    *device* is the name of the profile, *rules* that of the rules. *overlay* is the name or the path of the overlay of
    the profile; "" if there was none. The host's time was *end_ns* when it was taken. *error* says with what a run has
    ended that did not come to its end; "" for others. *accesses* are those of the host, in their order, and *exports*
    are the bytes whose accesses are not seen; both are complete if a sanitizer has *host_watched*: all accesses to
    memory of a life, through views. If it has *handovers_watched*, *hosts* and *handovers* say which tasks and threads
    know what of one another. Otherwise they say nothing: all tasks and threads count as one host, which knows what any
    of them knows. *host_time* is "measured" if the real time between two calls counted, too: see `acl_py.simulate`; it
    is "own hosts" if ranks had hosts of their own. *source* has the texts of the lines that the other rows name, as far
    as there were files of them.
    """

    ops: Sequence[Operation] = ()
    calls: Sequence[Call] = ()
    steps: Sequence[StreamStep] = ()
    marks: Sequence[Mark] = ()
    buffers: Sequence[Memory] = ()
    handles: Sequence[Handle] = ()
    strikes: Sequence[Strike] = ()
    instructions: Sequence[CoreInstruction] = ()
    device: str = ""
    rules: str = ""
    end_ns: int = 0
    error: str = ""
    accesses: Sequence[Access] = ()
    host_time: str = "modelled"
    failures: Sequence[Failure] = ()
    migrations: Sequence[Migration] = ()
    launches: Sequence[GraphLaunch] = ()
    overlay: str = ""
    exports: Sequence[Export] = ()
    host_watched: bool = False
    hosts: Sequence[Host] = ()
    handovers: Sequence[Handover] = ()
    handovers_watched: bool = False
    source: Sequence[SourceLine] = ()


# The list in which a field of this name is a place, in all rows and records.
PLACES = {
    "after": "ops",
    "again": "buffers",
    "behind": "calls",
    "buffer": "buffers",
    "dst": "buffers",
    "given_behind": "calls",
    "given_since": "accesses",
    "given_taken": "handovers",
    "giver": "hosts",
    "handle": "handles",
    "in_stream": "handles",
    "launch": "launches",
    "operation": "ops",
    "record": "steps",
    "since": "accesses",
    "src": "buffers",
    "taker": "hosts",
    "waited_for": "instructions",
}
