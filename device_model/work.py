"""What a host can ask a device to do: copies, fills, kernels and host functions.

Work says what is to be done and which bytes that touches; `Work.perform` does it, at the simulated end. A core kernel
runs at its simulated start, and publishes what it wrote at its end. When work runs is decided elsewhere: an `Op`
(ops.py) is one piece of work in a stream.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from device_model import memory
from device_model.completions import Nanoseconds
from device_model.errors import DeviceError, Kind, text_of
from device_model.memory import Allocation, Space

if TYPE_CHECKING:
    from device_model.aicore.runner import Result

_MEND_KERNEL = "the exception is the cause of this error: mend the kernel"

# A half-open range of bytes, *start* to *stop*, of one allocation.
Extent = tuple[Allocation, int, int]


class Lane(IntEnum):
    """Where the device takes an operation: each stream has one queue per lane."""

    COMPUTE = 0  # kernels, copies inside the device, fills
    H2D = 1
    D2H = 2
    PEER = 3  # copies to a device that this one reaches, or that reaches it
    STAGED = 4  # copies to others, through the host
    HOST = 5  # host functions


class Label:
    """What the trace calls a piece of work, and where it goes; made once, so that a row of the trace can be found by
    it.
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
H2H = Label("h2h", Lane.HOST)  # the host's own doing: never queued
D2D = Label("d2d", Lane.COMPUTE)  # a copy inside the device runs like a kernel, and so does a fill
FILL = Label("fill", Lane.COMPUTE)


class Work:
    """What is to be done, and what it touches."""

    __slots__ = ()

    label: Label
    nbytes: int  # how much it moves or touches
    alone: ClassVar[bool] = False  # touches more than simulated memory, so nothing may run beside it

    def perform(self) -> None:
        """Do it, in real memory. Whatever it raises is its failure: see `failure`."""
        raise NotImplementedError  # pragma: no cover - every kind of work has its own

    def failure(self, error: BaseException) -> DeviceError:
        """The failure of this work, in which *error* was raised. Kinds of work that call a function of the user have a
        kind of failure for that; in others an exception is a mistake of ours, or the host's memory is full.
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
        """The bytes that it reads."""
        return ()

    def writes(self) -> Sequence[Extent]:
        """The bytes that it writes."""
        return ()


class Copy(Work):
    """Copy *nbytes* from *src* to *dst*: H2D, D2H, D2D, H2H, or from device to device."""

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
        if dst.cold is not None or src.cold is not None:  # only then can they be gone
            self._check()
        elif self.nbytes < memory.LARGE:
            # memory.copy(), written out: this is the hot path.
            start, offset, nbytes = self.dst_offset, self.src_offset, self.nbytes
            dst.view[start : start + nbytes] = src.view[offset : offset + nbytes]
            return
        memory.copy(dst, self.dst_offset, src, self.src_offset, self.nbytes)

    def part(self, first: int, nbytes: int) -> "Copy":
        """The copy of *nbytes* of these bytes, from number *first* on."""
        return Copy(self.label, self.dst, self.dst_offset + first, self.src, self.src_offset + first, nbytes)

    def stage(self) -> None:
        """Read the source, which is the host's, now: from here on it may change."""
        [(src, start, stop)] = self.reads()
        self.src, self.src_offset = memory.snapshot(src, start, stop - start), 0

    @property
    def is_in_place(self) -> bool:
        """Is the source where the destination is?"""
        return self.dst is self.src and self.dst_offset == self.src_offset

    @property
    def is_pageable(self) -> bool:
        """Is one end memory that the device cannot reach?"""
        return Space.PAGEABLE in (self.dst.space, self.src.space)

    def reads(self) -> Sequence[Extent]:
        """The source."""
        return ((self.src, self.src_offset, self.src_offset + self.nbytes),)

    def writes(self) -> Sequence[Extent]:
        """The destination."""
        return ((self.dst, self.dst_offset, self.dst_offset + self.nbytes),)

    def _check(self) -> None:
        check_alive(self.label.kind, "destination", self.dst)
        check_alive(self.label.kind, "source", self.src)


class PitchedCopy(Copy):
    """Copy *height* rows of *width* bytes whose beginnings lie a pitch apart."""

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
        """The source, everything from its first to its last byte."""
        span = memory.pitched_bytes(self.src_pitch, self.width, self.height)
        return ((self.src, self.src_offset, self.src_offset + span),)

    def writes(self) -> Sequence[Extent]:
        """The destination, likewise."""
        span = memory.pitched_bytes(self.dst_pitch, self.width, self.height)
        return ((self.dst, self.dst_offset, self.dst_offset + span),)


class Fill(Work):
    """Set *nbytes* of *dst* to the byte *value*; runs like a kernel."""

    __slots__ = ("dst", "nbytes", "offset", "pinned", "value")
    label = FILL

    def __init__(self, dst: Allocation, offset: int, value: int, nbytes: int) -> None:
        self.dst = dst
        self.offset = offset
        self.value = value
        self.nbytes = nbytes
        self.pinned = dst.space is not Space.DEVICE  # over the bus, and slower

    def perform(self) -> None:
        """Write the bytes."""
        check_alive("fill", "destination", self.dst)
        memory.fill(self.dst, self.offset, self.value, self.nbytes)

    def writes(self) -> Sequence[Extent]:
        """The filled range."""
        return ((self.dst, self.offset, self.offset + self.nbytes),)


class Kernel(Work):
    """Run *blocks* blocks, each busy for *block_ns*; an *exclusive* block has an AI core (SM) to itself.

    *body* does the real work, at the end, on the *nbytes* bytes that *read* and *written* tell of. A *serial* body
    touches more than simulated memory.
    """

    __slots__ = ("alone", "block_ns", "blocks", "body", "exclusive", "label", "nbytes", "read", "touched", "written")

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
        self.blocks = blocks
        self.block_ns = block_ns
        self.body = body
        self.read = read
        self.written = written
        self.touched = tuple(dict.fromkeys(extent[0] for extent in (*read, *written)))
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
        """The failure of the kernel, whose body raised *error*."""
        return self._raised_in(Kind.LAUNCH_FAILURE, error, _MEND_KERNEL)

    @property
    def _what(self) -> str:
        return f"kernel {self.label}"

    def reads(self) -> Sequence[Extent]:
        """What the arguments declare as read."""
        return self.read

    def writes(self) -> Sequence[Extent]:
        """What the arguments declare as written."""
        return self.written


class Occupation(NamedTuple):
    """How long a core kernel takes, and when it gives back its AI cores: times from its start, each with how many."""

    duration_ns: Nanoseconds
    released: Sequence[tuple[Nanoseconds, int]]


class CoreKernel(Work):
    """A kernel whose time is known only from running it: see aicore/launch.py.

    It is run at its simulated start, on private copies of what it may write; at its end `perform` publishes what it
    wrote, or raises what stopped it. It takes its AI *cores* all at once. It has run for one operation only.
    """

    __slots__ = ()

    blocks: int
    cores: int
    failure_kind: Kind = Kind.LAUNCH_FAILURE
    result: "Result | None"  # what its cores did, once it has run

    def failure(self, error: BaseException) -> DeviceError:
        """The failure of the kernel, a block of which raised *error*."""
        return self._raised_in(self.failure_kind, error, _MEND_KERNEL)

    @property
    def _what(self) -> str:
        return f"kernel {self.label}"

    def run(self) -> Occupation:
        """Run all blocks; a failure is kept for `perform`."""
        raise NotImplementedError  # pragma: no cover - core kernels are made in one place


@cache
def _host_label(name: str) -> Label:
    return Label("host_function", Lane.HOST, name)


class HostFunction(Work):
    """Call *function* on the host-function thread, which is busy for *duration_ns*."""

    __slots__ = ("args", "duration_ns", "function", "label")
    nbytes = 0
    alone = True

    def __init__(self, function: Callable[..., object], args: Sequence[object], duration_ns: Nanoseconds) -> None:
        self.label = _host_label(getattr(function, "__name__", "host function"))
        self.function = function
        self.args = args
        self.duration_ns = duration_ns

    def perform(self) -> None:
        """Call it."""
        self.function(*self.args)

    def failure(self, error: BaseException) -> DeviceError:
        """The failure of the host function, which raised *error*."""
        return self._raised_in(
            Kind.HOST_FUNCTION_FAILURE, error, "the exception is the cause of this error: mend the function"
        )

    @property
    def _what(self) -> str:
        return f"host function {self.label}"


class BlindCopy(Copy):
    """A copy whose kind hides that one of its ends is pageable host memory, which the device cannot reach."""

    __slots__ = ()

    def perform(self) -> None:
        """Fail."""
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"{self.label.kind} reached for pageable host memory: from {self.src!r} to {self.dst!r}",
            "tell the true kind of the copy, or MemcpyKind.DEFAULT, or use pinned memory",
        )


class Dropped(Work):
    """What was aborted: as it looks in a trace, without effect."""

    __slots__ = ("label", "nbytes")

    def __init__(self, work: Work) -> None:
        self.label = work.label
        self.nbytes = work.nbytes

    def perform(self) -> None:
        """Do nothing."""


def dropped(work: Work) -> Work:
    """*work* without its effect; to the engine that has begun it, the same."""
    if isinstance(work, Kernel):
        return Kernel(
            work.label,
            work.blocks,
            work.block_ns,
            _nothing,
            (),
            (),
            work.nbytes,
            exclusive=work.exclusive,
            serial=False,
        )
    return Dropped(work)


def _nothing() -> None:
    pass


def check_alive(what: str, role: str, allocation: Allocation) -> None:
    """Refuse dropped memory, the *role* of *what*, in words that tell its story."""
    if allocation.is_dropped:
        raise DeviceError(
            Kind.ILLEGAL_ADDRESS,
            f"{what} found that its {role} {allocation!r} was gone before it ran",
            "free memory only after the work that uses it: synchronise first, or use FreeAsync in the same stream",
        )
