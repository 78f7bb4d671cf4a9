"""The objects of a stream program by their names: memory, streams, events, notifies and contexts.

Those that the program declares exist before its first call; the others are made by its calls.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from acl_py.calls.fields import device_of_primary
from acl_py.errors import AclError, Kind
from acl_py.programs.format import Program, ProgramError
from acl_py.programs.tasks import Tasks
from acl_py.recorded.names import NUMBERED
from acl_py.runtime.runtime import Runtime
from acl_py.verbs import signals
from acl_py.verbs.managed import make_managed
from acl_py.verbs.streams import LEGACY_STREAM, PER_THREAD_STREAM
from device_model import handles
from device_model.completions import NOTHING
from device_model.contexts import Context
from device_model.errors import printable
from device_model.memory import Buffer, Space, fill
from device_model.memory.backing import ROOM
from device_model.memory.pages import Pages
from device_model.names import LONGEST_NAME
from device_model.streams import Stream
from device_model.work import Extent

_COUNTER = 4  # bytes

T = TypeVar("T")
Memory: TypeAlias = Buffer | npt.NDArray[Any] | int  # an int is the address 0, of memory that was never allocated


class Objects:
    """The objects of one program, whose turns are decided by *tasks*."""

    def __init__(self, program: Program, runtime: Runtime, tasks: Tasks) -> None:
        self.program = program
        self.runtime = runtime
        # After a call that failed, its name stands for a null address or an invalid handle.
        self.memory: defaultdict[str, Memory] = defaultdict(int)
        has_legacy = runtime.device(0).primary.legacy is not None
        # The stream that programs call "legacy".
        default = LEGACY_STREAM if has_legacy else None
        self.streams: defaultdict[Hashable, Any] = defaultdict(lambda: default)
        self.events: dict[str, handles.Event] = {}
        self.notifies: dict[str, signals.Notify] = {}
        self.contexts: dict[str, Context] = {}  # that the program has made
        self.streams["per_thread"] = PER_THREAD_STREAM
        self._tasks = tasks
        self._pageable_bytes = 0
        self._make_declared()

    def _make_declared(self) -> None:
        """Make the declared objects, which exist before the first call and cost no time: in the model, not by calls."""
        program, runtime = self.program, self.runtime
        for name, buffer in program.buffers.items():
            made = self.memory[name] = self._make(f"buffers.{printable(name)}", **buffer)
            if isinstance(made, Buffer):
                made.allocation.given_name = given_name(name)
                if runtime.hooks.allocated is not None:
                    runtime.hooks.allocated(made.allocation, NOTHING)
        for name, options in program.streams.items():
            self.streams[name] = self._stream(name, **options)
        for name, options in program.events.items():
            context = self._context(f"events.{printable(name)}", options["device"])
            event = context.create_event(timing=options["timing"], made=program.id, name=model_name(name))
            event.blocking = options["blocking"]
            self.events[name] = event

    def pages(self) -> dict[str, Pages]:
        """Return the pages of the managed buffers that exist before the first call, by name."""
        buffers = ((name, self.memory[name]) for name in self.program.buffers)
        return {
            name: buffer.allocation.pages
            for name, buffer in buffers
            if isinstance(buffer, Buffer) and buffer.allocation.pages is not None
        }

    def _stream(self, name: str, flags: str, priority: int, device: int) -> Stream:
        """Make a stream that exists before the first call."""
        context = self._context(f"streams.{printable(name)}", device)
        if not context.device.stream_ids.free:
            wanted = sum(options["device"] == device for options in self.program.streams.values())
            left = wanted - sum(isinstance(stream, Stream) for stream in self.streams.values())
            raise self.unplayable(f"streams: there are {wanted:,}, and the device has {wanted - left:,} left")
        return context.create_stream(
            nonblocking=flags == "nonblocking", priority=priority, made=self.program.id, name=model_name(name)
        )

    def _context(self, where: str, device: int) -> Context:
        try:
            return self.runtime.device(device).primary
        except AclError as error:
            raise self.unplayable(f"{where}: device: {error.what}; {error.remedy}") from error

    def _make(self, where: str, space: str, bytes: int, device: int) -> Memory:  # noqa: A002
        """Make memory that exists before the first call. The counter at its start is 0, as on the card."""
        self._context(where, device)
        if space == "pageable":
            return self.pageable(where, bytes)
        memory = self.runtime.memory
        try:
            if space == "managed":
                buffer = make_managed(self.runtime, device, bytes, None)
            else:
                buffer = memory.malloc(device, bytes, None) if space == "device" else memory.malloc_host(bytes, None)
        except AclError as error:
            raise self.unplayable(f"{where}: {space} memory: {error.what}") from error
        fill(buffer.allocation, 0, 0, min(bytes, _COUNTER))
        return buffer

    def pageable(self, where: str, nbytes: int) -> Memory:
        """Make ordinary memory of the host. The system provides a page when it is first touched."""
        self._pageable_bytes += nbytes
        if self._pageable_bytes > ROOM:
            what = f"the program needs {self._pageable_bytes:,} bytes of pageable memory, and this host has {ROOM:,}"
            raise self.unplayable(f"{where}: {what}")
        return np.zeros(nbytes, np.uint8)

    def context(self, name: str) -> Context:
        """Return the context called *name*: one that the program has made, or the primary one of a device."""
        device = device_of_primary(name)
        if device is None or name in self.contexts:
            return self.made(self.contexts, name)
        return self._context(f"context {name!r}", device)

    def made(self, things: Mapping[str, T], name: str) -> T:
        """Return the one of *things* called *name*; AclError if the call that was to make it has failed."""
        if name not in things:
            what = f"{name!r} was never made: the call that makes it has failed"
            raise self.runtime.error(Kind.INVALID_HANDLE, what, "see that call")
        return things[name]

    def ends(self, dst: str, dst_off: int, src: str, src_off: int) -> tuple[Any, int, Any]:
        """Return the destination of a copy, the bytes that it has room for, and the source."""
        to, source = self.memory[dst], self.memory[src]
        return behind(to, dst_off), max(0, size_of(to) - dst_off), behind(source, src_off)

    def counter(self, buf: str) -> Any:
        """Return the first int of *buf*, which is host memory, as an array."""
        memory = self.of_host(buf, 4)[:4]
        return memory.view(np.int32) if isinstance(memory, np.ndarray) else memory.numpy(np.int32)

    def extents(self, extents: Iterable[tuple[str, int, int]]) -> tuple[Extent, ...]:
        """Return the bytes that a kernel declares; memory that is gone or of the host only is left out."""
        found = []
        for name, start, stop in extents:
            memory = self.memory[name]
            if is_reached(memory, stop):
                found.append((memory.allocation, memory.offset + start, memory.offset + stop))
        return tuple(found)

    def of_host(self, buf: str, nbytes: int) -> Any:
        """Return the memory *buf*; raise ProgramError if the host would crash when it touches *nbytes* of it."""
        memory = self.memory[buf]
        if isinstance(memory, int):
            problem = "was never allocated"
        elif not isinstance(memory, np.ndarray) and memory.allocation.freed is not None:
            problem = "was freed"
        elif space_of(memory) is Space.DEVICE:
            problem = "is device memory"
        elif memory.nbytes < nbytes:
            problem = f"has {memory.nbytes} bytes, and the step touches {nbytes}"
        else:
            return memory
        raise self.unplayable(f"buf: {buf!r} {problem}; the host would crash here")

    def unplayable(self, problem: str) -> ProgramError:
        """Return the error for a *problem* of the step that is being made, or of a declaration."""
        task = self._tasks.running
        step = None if task is None else task.step
        where = "" if step is None else f"step {step.index} ({step.op}): "
        return ProgramError(f"program {self.program.id!r}: {where}{problem}")


def behind(memory: Memory, offset: int) -> Any:
    """Return *memory* from *offset* on. If that is outside, return an address, which the call refuses."""
    if isinstance(memory, int):
        return memory + offset
    return memory[offset:] if offset <= memory.nbytes or isinstance(memory, np.ndarray) else memory.address + offset


def size_of(memory: Memory) -> int:
    """Return how many bytes *memory* has."""
    return 0 if isinstance(memory, int) else memory.nbytes


def space_of(memory: Memory) -> Space:
    """Return where *memory* lies."""
    return memory.allocation.space if isinstance(memory, Buffer) else Space.PAGEABLE


def is_reached(memory: Memory, nbytes: int) -> TypeGuard[Buffer]:
    """Whether a kernel can touch the first *nbytes* of *memory*."""
    if isinstance(memory, int | np.ndarray):
        return False
    return memory.allocation.freed is None and nbytes <= memory.nbytes


def address_of(memory: Memory) -> int:
    """Return the address of *memory*; 0 for an array, whose address differs from run to run."""
    if isinstance(memory, int | np.ndarray):
        return memory if isinstance(memory, int) else 0
    return memory.allocation.address + memory.offset


def model_name(name: str) -> str:
    """Return a name of a program, which may have any characters, as objects take it."""
    return printable(name)[:LONGEST_NAME]


def given_name(name: str) -> str | None:
    """Return the name of memory; None if it only has a number: then messages name the line that made it."""
    return None if NUMBERED.fullmatch(name) else model_name(name)
