"""What a host can ask a device to do: copies, fills, kernels and host functions.

A `Work` says what is to be done, and which bytes that touches. It knows no time and no stream: when it runs is decided
by the engines, and an `Op` (ops.py) is one piece of work in one stream. `Work.perform` has the effect, at the simulated
end of the operation. So a program that changes a buffer too early, or reads it too early, sees what it would see on a
card. A core kernel runs at its simulated start, because only its run tells how long it takes (core_kernels.py).

`reads` and `writes` give the bytes as extents. By these, large bodies of operations that share no bytes may run in
threads side by side (engines/workers.py).
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from enum import IntEnum
from functools import cache
from typing import ClassVar

from device_model import memory
from device_model.compiled import IS_COMPILED
from device_model.completions import Nanoseconds
from device_model.errors import DeviceError, Kind, coroutine_text, text_of
from device_model.memory import LARGE, Allocation, Space

FIX_KERNEL = "the exception is the cause of this error: fix the kernel"

# A half-open range of bytes, *start* to *stop*, of one allocation.
Extent = tuple[Allocation, int, int]


class Lane(IntEnum):
    """The part of the device that takes an operation. Each stream has one hardware queue for each lane."""

    COMPUTE = 0  # kernels, copies inside the device, fills
    H2D = 1
    D2H = 2
    PEER = 3  # copies between two devices, if one has access to the other
    STAGED = 4  # copies between two devices without access, through the host
    HOST = 5  # host functions
    COLLECTIVE = 6  # parts of collectives, which wait for those of other devices


class Label:
    """The kind and name of a piece of work in the trace, and its lane.

    Each is made once, so that the trace can number them by identity.
    """

    __slots__ = ("kind", "lane", "name")

    def __init__(self, kind: str, lane: Lane, name: str = "") -> None:
        self.kind = kind
        self.lane = lane
        self.name = name or kind

    def __repr__(self) -> str:
        return self.name


H2D = Label("h2d", Lane.H2D)
D2H = Label("d2h", Lane.D2H)
H2H = Label("h2h", Lane.HOST)  # the host copies itself; never queued
D2D = Label("d2d", Lane.COMPUTE)  # a copy inside the device runs like a kernel, and so does a fill
FILL = Label("fill", Lane.COMPUTE)
PREFETCH_TO_DEVICE = Label("prefetch_h2d", Lane.H2D, "prefetch to the device")
PREFETCH_TO_HOST = Label("prefetch_d2h", Lane.D2H, "prefetch to the host")


class Work:
    """Something that a device can do, and the bytes that it touches."""

    __slots__ = ()

    label: Label
    nbytes: int  # how many bytes it moves or touches
    moves_pages: ClassVar[bool] = False  # touches managed memory, whose pages move when it starts
    alone: ClassVar[bool] = False  # touches more than simulated memory: no other body may run beside it
    joins: ClassVar[bool] = False  # a part of a collective (collectives.parts), which gets its number when it is queued

    def perform(self) -> None:
        """Do the work in real memory. If this raises, the work has failed: see `failure`."""
        raise NotImplementedError  # pragma: no cover - every kind of work has its own

    def failure(self, error: BaseException) -> DeviceError:
        """Return the failure of this work, in which *error* was raised.

        Work that calls a function of the user has a kind of failure for that. In other work an exception is a mistake
        of this package, or the host has no memory left.
        """
        return self._raised_in(Kind.UNKNOWN, error, "the exception is the cause of this error")

    def _raised_in(self, kind: Kind, error: BaseException, remedy: str) -> DeviceError:
        if isinstance(error, DeviceError):
            return error
        failure = DeviceError(kind, f"{self._what} raised {text_of(error)}", remedy)
        failure.__cause__ = error
        return failure

    @property
    def _what(self) -> str:
        return self.label.kind

    def reads(self) -> Sequence[Extent]:
        """Return the bytes that it reads."""
        return ()

    def writes(self) -> Sequence[Extent]:
        """Return the bytes that it writes."""
        return ()

    def read_rows(self) -> Sequence[Extent]:
        """Return the bytes that it reads, without the gaps between rows that `reads` may include."""
        return self.reads()

    def written_rows(self) -> Sequence[Extent]:
        """Return the bytes that it writes, without the gaps between rows that `writes` may include."""
        return self.writes()


def move(into: memoryview, start: int, out_of: memoryview, offset: int, nbytes: int) -> None:
    """Copy bytes from one view to another; the compiled core has it in C (work.pxd)."""
    into[start : start + nbytes] = out_of[offset : offset + nbytes]


class Copy(Work):
    """Copies *nbytes* from *src* to *dst*: H2D, D2H, D2D, H2H, or from one device to another."""

    __slots__ = ("dst", "dst_offset", "label", "nbytes", "src", "src_offset")

    def __init__(
        self, label: Label, dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int
    ) -> None:
        self.label = label
        self.dst = dst
        self.dst_offset = dst_offset
        self.src = src
        self.src_offset = src_offset
        self.nbytes = nbytes

    def perform(self) -> None:
        """Move the bytes."""
        dst, src = self.dst, self.src
        if dst.cold is not None or src.cold is not None:  # otherwise neither can be gone
            if dst.cold is src.cold is memory.VALUELESS:
                return
            self._check()
        elif self.nbytes < LARGE:
            # memory.copy(), written out: this is the hot path.
            start, offset, nbytes = self.dst_offset, self.src_offset, self.nbytes
            if IS_COMPILED:
                move(dst.view, start, src.view, offset, nbytes)
            else:
                dst.view[start : start + nbytes] = src.view[offset : offset + nbytes]
            return
        memory.copy(dst, self.dst_offset, src, self.src_offset, self.nbytes)

    def parts(self, nbytes: int) -> "Iterator[Copy]":
        """Yield this copy in parts of *nbytes* or fewer, in order."""
        for first in range(0, self.nbytes, nbytes):
            size = min(nbytes, self.nbytes - first)
            yield type(self)(self.label, self.dst, self.dst_offset + first, self.src, self.src_offset + first, size)

    def stage(self) -> None:
        """Read the source, which is host memory, now; the program may change it afterwards."""
        [(src, start, stop)] = self.reads()
        self.src, self.src_offset = memory.snapshot(src, start, stop - start), 0

    @property
    def is_in_place(self) -> bool:
        """Whether source and destination are the same bytes."""
        return self.dst is self.src and self.dst_offset == self.src_offset

    @property
    def is_pageable(self) -> bool:
        """Whether one end is pageable host memory, which the device cannot reach."""
        return Space.PAGEABLE in (self.dst.space, self.src.space)

    def reads(self) -> Sequence[Extent]:
        """Return the source."""
        return ((self.src, self.src_offset, self.src_offset + self.nbytes),)

    def writes(self) -> Sequence[Extent]:
        """Return the destination."""
        return ((self.dst, self.dst_offset, self.dst_offset + self.nbytes),)

    def _check(self) -> None:
        check_alive(self.label.kind, "destination", self.dst)
        check_alive(self.label.kind, "source", self.src)


class PitchedCopy(Copy):
    """Copies *height* rows of *width* bytes; rows begin *src_pitch* and *dst_pitch* bytes apart."""

    __slots__ = ("dst_pitch", "height", "src_pitch", "width")

    def __init__(
        self,
        label: Label,
        dst: Allocation,
        dst_offset: int,
        dst_pitch: int,
        src: Allocation,
        src_offset: int,
        src_pitch: int,
        width: int,
        height: int,
    ) -> None:
        super().__init__(label, dst, dst_offset, src, src_offset, width * height)
        self.dst_pitch = dst_pitch
        self.src_pitch = src_pitch
        self.width = width
        self.height = height

    def perform(self) -> None:
        """Move the rows."""
        self._check()
        memory.copy2d(
            self.dst,
            self.dst_offset,
            self.dst_pitch,
            self.src,
            self.src_offset,
            self.src_pitch,
            self.width,
            self.height,
        )

    def reads(self) -> Sequence[Extent]:
        """Return the source from its first to its last byte, gaps included."""
        span = memory.pitched_bytes(self.src_pitch, self.width, self.height)
        return ((self.src, self.src_offset, self.src_offset + span),)

    def writes(self) -> Sequence[Extent]:
        """Return the destination from its first to its last byte, gaps included."""
        span = memory.pitched_bytes(self.dst_pitch, self.width, self.height)
        return ((self.dst, self.dst_offset, self.dst_offset + span),)

    def parts(self, nbytes: int) -> "Iterator[PitchedCopy]":
        """Yield this copy in parts of *nbytes* or fewer, in order: as many whole rows as fit, or pieces of one row."""
        rows, width = max(1, nbytes // self.width), min(nbytes, self.width)
        for row in range(0, self.height, rows):
            for column in range(0, self.width, width):
                yield type(self)(
                    self.label,
                    self.dst,
                    self.dst_offset + row * self.dst_pitch + column,
                    self.dst_pitch,
                    self.src,
                    self.src_offset + row * self.src_pitch + column,
                    self.src_pitch,
                    min(width, self.width - column),
                    min(rows, self.height - row),
                )

    def read_rows(self) -> Sequence[Extent]:
        """Return the rows of the source."""
        return self._rows(self.src, self.src_offset, self.src_pitch)

    def written_rows(self) -> Sequence[Extent]:
        """Return the rows of the destination."""
        return self._rows(self.dst, self.dst_offset, self.dst_pitch)

    def _rows(self, allocation: Allocation, offset: int, pitch: int) -> Sequence[Extent]:
        if pitch == self.width:
            return ((allocation, offset, offset + self.nbytes),)
        starts = range(offset, offset + pitch * self.height, pitch)
        return tuple((allocation, start, start + self.width) for start in starts)


class Fill(Work):
    """Sets *nbytes* of *dst* to words of *unit* bytes with the *value*; runs like a kernel."""

    __slots__ = ("dst", "nbytes", "offset", "pinned", "unit", "value")
    label = FILL

    def __init__(self, dst: Allocation, offset: int, value: int, nbytes: int, unit: int = 1) -> None:
        self.dst = dst
        self.offset = offset
        self.value = value
        self.nbytes = nbytes
        self.unit = unit
        self.pinned = dst.space in (Space.PINNED, Space.PAGEABLE)  # then the fill goes over the bus, and is slower

    def perform(self) -> None:
        """Write the bytes."""
        check_alive("fill", "destination", self.dst)
        memory.fill(self.dst, self.offset, self.value, self.nbytes, self.unit)

    def writes(self) -> Sequence[Extent]:
        """Return the filled range."""
        return ((self.dst, self.offset, self.offset + self.nbytes),)


class PagedCopy(Copy):
    """A copy with an end in managed memory."""

    __slots__ = ()
    moves_pages = True


class PagedRows(PitchedCopy):
    """A copy of rows with an end in managed memory."""

    __slots__ = ()
    moves_pages = True


class PagedFill(Fill):
    """A fill of managed memory."""

    __slots__ = ()
    moves_pages = True


class Prefetch(Work):
    """Moves the pages of a range of managed memory to *location*: a device, or HOST.

    `by_driver` is whether a thread of the driver begins it, behind the work of its stream, and not the call itself.
    """

    __slots__ = ("allocation", "by_driver", "label", "location", "nbytes", "start", "stop")
    moves_pages = True

    def __init__(self, allocation: Allocation, start: int, stop: int, location: int) -> None:
        self.label = PREFETCH_TO_HOST if location == memory.HOST else PREFETCH_TO_DEVICE
        self.allocation = allocation
        self.start = start
        self.stop = stop
        self.location = location
        self.nbytes = stop - start
        self.by_driver = False

    def perform(self) -> None:
        """Change no bytes: the pages have moved since the start."""


class Kernel(Work):
    """Runs *blocks* blocks, each busy for *block_ns*; an *exclusive* block has an AI core (SM) to itself.

    *body* does the real work at the simulated end. *read* and *written* are the bytes that it touches, *nbytes* in all.
    A *serial* body touches more than simulated memory, so no other body may run beside it.

    A body that leaves gaps in what it writes can say so with `rows`, a function that gives the bytes without them.
    """

    __slots__ = ("alone", "block_ns", "blocks", "body", "exclusive", "label", "moves_pages", "nbytes", "number", "read",
                 "rows", "touched", "written")  # fmt: skip

    def __init__(
        self,
        label: Label,
        blocks: int,
        block_ns: Nanoseconds,
        body: Callable[[], None],
        read: Sequence[Extent],
        written: Sequence[Extent],
        nbytes: int,
        *,
        exclusive: bool,
        serial: bool,
    ) -> None:
        assert blocks > 0, f"kernel {label} has no blocks"
        self.label = label
        self.number = -1  # of its launches in a trace, once it has one
        self.blocks = blocks
        self.block_ns = block_ns
        self.body = body
        self.read = read
        self.written = written
        self.rows: Callable[[], Sequence[Extent]] | None = None
        self.touched = tuple(dict.fromkeys(extent[0] for extent in (*read, *written)))
        self.moves_pages = any(allocation.pages is not None for allocation in self.touched)  # type: ignore[misc]
        self.nbytes = nbytes
        self.exclusive = exclusive
        self.alone = serial  # type: ignore[misc]

    def perform(self) -> None:
        """Run the body."""
        for allocation in self.touched:
            if allocation.cold is not None:
                check_alive(self._what, "argument", allocation)
        self.body()

    def failure(self, error: BaseException) -> DeviceError:
        """Return the failure of the kernel, whose body raised *error*."""
        return self._raised_in(Kind.LAUNCH_FAILURE, error, FIX_KERNEL)

    @property
    def _what(self) -> str:
        return f"kernel {self.label}"

    def reads(self) -> Sequence[Extent]:
        """Return the bytes that the arguments declare as read."""
        return self.read

    def writes(self) -> Sequence[Extent]:
        """Return the bytes that the arguments declare as written."""
        return self.written

    def written_rows(self) -> Sequence[Extent]:
        """Return the bytes that it writes, without gaps if it knows them."""
        return self.written if self.rows is None else self.rows()


@cache
def _host_label(name: str) -> Label:
    return Label("host_function", Lane.HOST, name)


class HostFunction(Work):
    """Calls *function* on the host-function thread, which is busy for *duration_ns*."""

    __slots__ = ("args", "duration_ns", "function", "label")
    nbytes = 0
    alone = True

    def __init__(self, function: Callable[..., object], args: Sequence[object], duration_ns: Nanoseconds) -> None:
        self.label = _host_label(getattr(function, "__name__", "host function"))
        self.function = function
        self.args = args
        self.duration_ns = duration_ns

    def perform(self) -> None:
        """Call the function.

        Raises:
            TypeError: It returned a coroutine, as a lambda around a coroutine function does.
        """
        result = self.function(*self.args)
        if isinstance(result, Coroutine):
            result.close()  # it would only be reported a second time, as never awaited
            raise TypeError(f"it returned {coroutine_text(result)}, which nothing awaits: await it in a task instead")

    def failure(self, error: BaseException) -> DeviceError:
        """Return the failure of the host function, which raised *error*."""
        return self._raised_in(
            Kind.HOST_FUNCTION_FAILURE, error, "the exception is the cause of this error: fix the function"
        )

    @property
    def _what(self) -> str:
        return f"host function {self.label}"


class BlindCopy(Copy):
    """A copy with an end in pageable host memory, and a kind that says otherwise. The device cannot reach that end."""

    __slots__ = ()

    def perform(self) -> None:
        """Raise a DeviceError."""
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"a {self.label.kind} copy cannot reach pageable host memory: from {self.src!r} to {self.dst!r}",
            "give the copy its true kind or MemcpyKind.DEFAULT, or use pinned memory",
        )


class Dropped(Work):
    """Stands for aborted work: it looks the same in a trace, and has no effect."""

    __slots__ = ("label", "nbytes")

    def __init__(self, work: Work) -> None:
        self.label = work.label
        self.nbytes = work.nbytes

    def perform(self) -> None:
        """Do nothing."""


def dropped(work: Work) -> Work:
    """Return *work* without its effect. For the engine that runs it, nothing changes."""
    if isinstance(work, Kernel):
        return Kernel(
            work.label,
            work.blocks,
            work.block_ns,
            nothing,
            (),
            (),
            work.nbytes,
            exclusive=work.exclusive,
            serial=False,
        )
    return Dropped(work)


def nothing() -> None:
    """The body of a kernel that has no effect."""


def check_alive(what: str, role: str, allocation: Allocation) -> None:
    """Raise a DeviceError if *allocation*, the *role* of *what*, has been freed."""
    if allocation.is_dropped:
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"{what} found that its {role} {allocation!r} was gone before it ran",
            "free memory only after the work that uses it: synchronise first, or use FreeAsync in the same stream",
        )
