"""What a host can ask a device to do: copies, fills, kernels and host functions.

An operation is its own completion. It is queued when the host submits it, starts when an engine takes it, and ends when its bytes
have moved: `effect` runs at the simulated end. `blockers` counts the completions it still waits for: the operation before it in its
stream, and what events and the default-stream rule add. Event records and waits are no operations: they only say which completions
count (events.py), take no time on any engine and no room in any queue.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

from device_model import memory
from device_model.errors import DeviceError, Kind
from device_model.memory import Allocation, Space
from device_model.scheduler import Completion, Nanoseconds

if TYPE_CHECKING:
    from device_model.streams import Stream

# A half-open range of bytes, *start* to *stop*, of one allocation.
Extent = tuple[Allocation, int, int]


class Lane(IntEnum):
    """Where the device takes an operation: each stream has one queue per lane."""

    COMPUTE = 0  # kernels, copies inside the device, fills
    H2D = 1
    D2H = 2
    HOST = 3  # host functions


class Door(Protocol):
    """Where a stream hands over the operations of one lane; `after_same` and `after_other` are what it takes to start one behind a
    completion of each lane, in its own stream and in another, in nanoseconds.
    """

    after_same: tuple[Nanoseconds, ...]
    after_other: tuple[Nanoseconds, ...]

    def append(self, op: "Op") -> None:
        """Take *op*, behind all that came before."""

    def unblocked(self, op: "Op") -> None:
        """*op*, which was appended, waits for nothing more."""


class Op(Completion):
    """Something queued in a stream. Times are nanoseconds of simulated time, -1 while unknown."""

    __slots__ = ("blockers", "door", "error", "queued_ns", "ready_ns", "site", "start_ns", "stream")

    kind: ClassVar[str]  # as the trace calls it
    name: str
    nbytes: int
    stream: "Stream"
    door: Door
    blockers: int
    queued_ns: Nanoseconds
    ready_ns: Nanoseconds  # no engine may start it earlier
    start_ns: Nanoseconds
    error: DeviceError | None
    site: object  # the host's line that submitted it; str() gives "file.py:12"

    def __init__(self, site: object) -> None:
        self.done = False
        self.waiters = None
        self.end_ns = -1
        self.blockers = 0
        self.start_ns = -1
        self.error = None
        self.site = site

    def __repr__(self) -> str:
        where = f" on {self.stream.name}" if hasattr(self, "stream") else ""
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<{self.name}{where}{at}>"

    def release(self, by: Completion) -> None:
        """One of the completions this waits for is there; what crosses engines or streams takes a while to be noticed."""
        door = self.door
        ready = by.end_ns + (door.after_same if by.stream is self.stream else door.after_other)[by.lane]
        if ready > self.ready_ns:
            self.ready_ns = ready
        self.blockers -= 1
        if not self.blockers:
            door.unblocked(self)

    def effect(self) -> None:
        """Do what was asked for, in real memory; called once, at the simulated end."""
        raise NotImplementedError  # pragma: no cover - every kind of operation has its own

    def reads(self) -> Sequence[Extent]:
        """The bytes that `effect` reads."""
        return ()

    def writes(self) -> Sequence[Extent]:
        """The bytes that `effect` writes."""
        return ()


def _alive(op: Op, role: str, allocation: Allocation) -> None:
    if allocation.is_dropped:
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"{op!r} found its {role} {allocation!r} freed at {allocation.freed} before it ran",
            "free memory only after the work that uses it: synchronise first, or use FreeAsync in the same stream",
        )


class Copy(Op):
    """Copy *nbytes* from *src* to *dst*; `pitched` makes it `(dst_pitch, src_pitch, width, height)` rows instead."""

    __slots__ = ("dst", "dst_offset", "nbytes", "pitched", "src", "src_offset")

    def __init__(
        self, dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int, site: object
    ) -> None:
        # Not super().__init__(): one call less, a million times.
        self.done = False
        self.waiters = None
        self.end_ns = -1
        self.blockers = 0
        self.start_ns = -1
        self.error = None
        self.site = site
        self.dst = dst
        self.dst_offset = dst_offset
        self.src = src
        self.src_offset = src_offset
        self.nbytes = nbytes
        self.pitched: tuple[int, int, int, int] | None = None

    def effect(self) -> None:
        """Move the bytes."""
        dst, src = self.dst, self.src
        if dst.cold is not None or src.cold is not None:  # only then can they be gone
            _alive(self, "destination", dst)
            _alive(self, "source", src)
        if self.pitched is None:
            memory.copy(dst, self.dst_offset, src, self.src_offset, self.nbytes)
        else:
            dst_pitch, src_pitch, width, height = self.pitched
            memory.copy2d(dst, self.dst_offset, dst_pitch, src, self.src_offset, src_pitch, width, height)

    def reads(self) -> Sequence[Extent]:
        """The source; of a pitched copy everything from its first to its last byte."""
        return ((self.src, self.src_offset, self.src_offset + self._span(1)),)

    def writes(self) -> Sequence[Extent]:
        """The destination, likewise."""
        return ((self.dst, self.dst_offset, self.dst_offset + self._span(0)),)

    def _span(self, side: int) -> int:
        if self.pitched is None:
            return self.nbytes
        width, height = self.pitched[2:]
        return self.pitched[side] * (height - 1) + width if height else 0


class CopyH2D(Copy):
    """Host to device, through the host-to-device copy engine."""

    __slots__ = ()
    kind = name = "h2d"
    lane = Lane.H2D


class CopyD2H(Copy):
    """Device to host, through the device-to-host copy engine."""

    __slots__ = ()
    kind = name = "d2h"
    lane = Lane.D2H


class CopyD2D(Copy):
    """Inside the device; runs like a kernel."""

    __slots__ = ()
    kind = name = "d2d"
    lane = Lane.COMPUTE


class Fill(Op):
    """Set *nbytes* of *dst* to the byte *value*; runs like a kernel."""

    __slots__ = ("dst", "nbytes", "offset", "pinned", "value")
    kind = name = "fill"
    lane = Lane.COMPUTE

    def __init__(self, dst: Allocation, offset: int, value: int, nbytes: int, site: object) -> None:
        super().__init__(site)
        self.dst = dst
        self.offset = offset
        self.value = value
        self.nbytes = nbytes
        self.pinned = dst.space is not Space.DEVICE  # over the bus, and slower

    def effect(self) -> None:
        """Write the bytes."""
        _alive(self, "destination", self.dst)
        memory.fill(self.dst, self.offset, self.value, self.nbytes)

    def writes(self) -> Sequence[Extent]:
        """The filled range."""
        return ((self.dst, self.offset, self.offset + self.nbytes),)


class Kernel(Op):
    """Run *blocks* blocks, each busy for *block_ns*; an *exclusive* block has an AI core (SM) to itself.

    *body* does the real work, at the end; *read* and *written* tell which of the *nbytes* bytes it touches how. A *serial* body
    touches more than simulated memory, so it runs with no other body beside it.
    """

    __slots__ = (
        "block_ns",
        "blocks",
        "body",
        "exclusive",
        "left",
        "name",
        "nbytes",
        "read",
        "running",
        "serial",
        "written",
    )
    kind = "kernel"
    lane = Lane.COMPUTE

    def __init__(
        self,
        name: str,
        blocks: int,
        block_ns: Nanoseconds,
        body: Callable[[], None] | None,
        read: Sequence[Extent],
        written: Sequence[Extent],
        site: object,
        nbytes: int = 0,
        exclusive: bool = False,
        serial: bool = False,
    ) -> None:
        self.done = False
        self.waiters = None
        self.end_ns = -1
        self.blockers = 0
        self.start_ns = -1
        self.error = None
        self.site = site
        self.name = name
        self.blocks = blocks
        self.block_ns = block_ns
        self.body = body
        self.read = read
        self.written = written
        self.nbytes = nbytes
        self.exclusive = exclusive
        self.serial = serial
        self.left = blocks  # not yet placed on a core
        self.running = 0  # placed, not yet ended

    def effect(self) -> None:
        """Run the body; an exception in it is a failure of the kernel, not of the process."""
        if self.body is None:
            return
        for extents in (self.read, self.written):
            for allocation, _, _ in extents:
                if allocation.cold is not None:
                    _alive(self, "argument", allocation)
        try:
            self.body()
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(
                Kind.LAUNCH_FAILURE,
                f"kernel {self.name} raised {type(error).__name__}: {error}",
                "the exception is the cause of this error: mend the kernel",
            ) from error

    def reads(self) -> Sequence[Extent]:
        """What the arguments declare as read."""
        return self.read

    def writes(self) -> Sequence[Extent]:
        """What the arguments declare as written."""
        return self.written


class HostFunction(Op):
    """Call *function* on the host-function thread, which is busy for *duration_ns*."""

    __slots__ = ("args", "duration_ns", "function", "name")
    kind = "host_function"
    lane = Lane.HOST
    nbytes = 0

    def __init__(
        self, function: Callable[..., object], args: Sequence[object], duration_ns: Nanoseconds, site: object
    ) -> None:
        super().__init__(site)
        self.name = getattr(function, "__name__", "host function")
        self.function = function
        self.args = args
        self.duration_ns = duration_ns

    def effect(self) -> None:
        """Call it."""
        try:
            self.function(*self.args)
        except Exception as error:
            raise DeviceError(
                Kind.HOST_FUNCTION_FAILURE,
                f"host function {self.name} raised {type(error).__name__}: {error}",
                "the exception is the cause of this error: mend the function",
            ) from error
