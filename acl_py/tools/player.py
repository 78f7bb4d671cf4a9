"""The player of stream programs: it makes the calls of one program, through the ordinary verbs, without an event loop.

The costs of the device and the runtime are in the profile. The constants here belong to the script that made the
measured programs: the time between two calls, the time to hand a call to another thread, the time of accesses to its
own memory. What it launched is in kernels.py.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

import acl_py.verbs.memory as mem
from acl_py.errors import AclError, Kind
from acl_py.runtime.blocking import finish
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import SUCCESS, last_error
from acl_py.tools import kernels
from acl_py.tools.programs import Program, ProgramError, Step
from acl_py.trace import Trace
from acl_py.verbs import copies, devices, events, fills, host, streams
from acl_py.verbs.callbacks import LaunchHostFunc
from acl_py.verbs.kernels import Array, Cost, LaunchKernel
from device_model.completions import Completion
from device_model.errors import printable
from device_model.memory import Buffer, Space
from device_model.memory.backing import ROOM
from device_model.names import LONGEST_NAME
from device_model.rules import KernelFailure
from device_model.streams import Stream

GAP_NS = 380  # between two calls (measured: timelines, medians of 0.32 to 0.42 us for every pair of calls)
TOUCH_NS_PER_MIB = (
    409_000  # the script's host_register allocates and fills before the call (measured: 1,636 us for 4 MiB)
)
HANDOFF_NS = 12_000  # to another host thread, and back (measured: graphs, 10 to 24 us and 10 to 16 us)
# The script reads or writes its own memory (measured: graphs host_read and host_write, 0.8 to 1.4 us).
HOST_ACCESS_NS = 900
PAGE, PAGE_NS = 4096, 18  # a byte of each page (measured: managed host_touch of pages that are there)

_COPIES = ("memcpy_async", "memcpy", "memcpy2d_async", "memcpy_peer_async", "memcpy_peer")
_Memory = Buffer | npt.NDArray[Any] | int  # an int is the address 0, of memory that was never allocated
_ON_DEVICE = ("launch", "poke", "inc", "touch", *_COPIES, "memset_async", "memset")


@dataclass(frozen=True, slots=True)
class Played:
    """One step that was run; *answer* is the result of the verb."""

    step: Step
    enter_ns: int
    exit_ns: int
    ret: int
    answer: Any


class Player:
    """Makes the calls of one program. A coroutine per op has its name, and takes its fields as arguments."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        self.program = program
        self.runtime = runtime
        self.not_ready = runtime.rules.codes[Kind.NOT_READY].value
        # After a call that failed, its name stands for a null address or an invalid handle.
        self.memory: defaultdict[str, _Memory] = defaultdict(int)
        has_legacy = runtime.device(0).primary.legacy is not None
        # The stream that programs call "legacy".
        default = streams.LEGACY_STREAM if has_legacy else None
        self.streams: defaultdict[str, Any] = defaultdict(lambda: default)
        self.events: defaultdict[str, Any] = defaultdict(lambda: None)
        self.streams["per_thread"] = streams.PER_THREAD_STREAM
        self._threads: defaultdict[str, _Thread] = defaultdict(_Thread)  # besides the main one
        self._step: Step | None = None  # the step that is being played
        self._pageable_bytes = 0
        self._pool_base: int | None = None  # the address of the first stream-ordered allocation
        # Declared objects exist before the first call and cost no time: they are made in the model, not by calls.
        context = runtime.device(0).primary
        for name, buffer in program.buffers.items():
            made = self.memory[name] = self._make(f"buffers.{printable(name)}", **buffer)
            if isinstance(made, Buffer):
                made.allocation.given_name = _name(name)
        if len(program.streams) > (left := context.device.stream_ids.free):
            raise self._unplayable(f"streams: there are {len(program.streams):,}, and the device has {left:,} left")
        for name, options in program.streams.items():
            nonblocking = options["flags"] == "nonblocking"
            self.streams[name] = context.create_stream(
                nonblocking=nonblocking, priority=options["priority"], made=program.id, name=_name(name)
            )
        for name, options in program.events.items():
            event = context.create_event(timing=options["timing"], made=program.id, name=_name(name))
            event.blocking = options["blocking"]
            self.events[name] = event

    def play(self, step: Step) -> Played:
        """Make one call.

        Raises:
            ProgramError: the host would crash in this call, or simulated time would pass its end.
        """
        self._step = step
        with self._within_time():
            return self._play(step)

    def _play(self, step: Step) -> Played:
        runtime = self.runtime
        runtime.pay(GAP_NS)
        if step.op == "host_register":
            runtime.pay(TOUCH_NS_PER_MIB * step.fields["bytes"] >> 20)
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        enter, ret = runtime.host_ns, 0
        answer: Any = None
        try:
            answer = self._call(step)
        except AclError as error:
            ret = error.code
        exit_ns = runtime.host_ns
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        if answer is streams.Status.NOT_READY:
            ret = self.not_ready
        elif step.op in ("get_last_error", "peek_error"):
            ret = answer
        return Played(step, enter, exit_ns, ret, answer)

    def _call(self, step: Step) -> Any:
        verb: Callable[..., Coroutine[Any, Any, Any]] = getattr(self, step.op)
        if step.thread is None:
            return finish(verb(**step.fields))
        thread, shared = self._threads[step.thread], self.streams["per_thread"]
        if step.fields.get("stream") == "per_thread" and shared is streams.PER_THREAD_STREAM:
            self.streams["per_thread"] = self._per_thread(thread, step.thread)
        try:
            return thread.context.run(finish, verb(**step.fields))
        finally:
            self.streams["per_thread"] = shared

    def _per_thread(self, thread: "_Thread", name: str) -> Any:
        """Return the per-thread default stream of a host thread: an ordinary blocking stream of its own.

        Under rules without per-thread streams return PER_THREAD_STREAM, which the verbs refuse.
        """
        context = self.runtime.device(0).primary
        if context.per_thread is None:
            return streams.PER_THREAD_STREAM
        if thread.stream is None:
            own = _name(f"per_thread of {name}")
            thread.stream = context.create_stream(nonblocking=False, priority=0, made=self.program.id, name=own)
        return thread.stream

    def end(self) -> float:
        """Synchronise the device once more, and return the makespan in microseconds."""
        self._step = None
        with self._within_time():
            return self._end()

    def _end(self) -> float:
        self.runtime.pay(GAP_NS)
        try:
            finish(devices.SynchronizeDevice())
        except AclError as error:  # the program's work has failed, and this call reports it
            lost = self.runtime.device(0).primary.error is not None
            if not lost and self.runtime.rules.kernel_failure is KernelFailure.STICKY:
                raise AssertionError(f"a device without a failure refused to synchronise: {error}") from error
        return self.runtime.host_ns / 1000

    def spans(self, calls: list[Played], trace: Trace) -> dict[int, tuple[int, int, str]]:
        """Return start, end and engine of the operations of each step, on the device or by the host instead."""
        ops = sorted(trace.ops, key=lambda op: op.queued_ns)
        queued = [op.queued_ns for op in ops]
        spans: dict[int, tuple[int, int, str]] = {}
        for call in calls:
            if call.step.op not in _ON_DEVICE or call.ret:
                continue
            own = ops[bisect_left(queued, call.enter_ns) : bisect_right(queued, call.exit_ns)]
            if own:
                spans[call.step.index] = min(op.start_ns for op in own), max(op.end_ns for op in own), own[0].engine
            elif self._is_by_host(call.step):  # the card's trace shows one operation of the length of the call
                spans[call.step.index] = call.enter_ns, call.exit_ns, "host"
        return spans

    def _is_by_host(self, step: Step) -> bool:
        if step.op not in _COPIES:
            return False
        nbytes = step.fields["bytes"] if "bytes" in step.fields else step.fields["width"] * step.fields["height"]
        if not nbytes:
            return False
        return all(_space(self.memory[step.fields[end]]) is not Space.DEVICE for end in ("dst", "src"))

    # --- the ops

    async def launch(self, stream: str, us: float, blocks: int, exclusive: bool) -> Completion:
        return await LaunchKernel(kernels.spin(us, exclusive), blocks, (), self.streams[stream])

    async def poke(self, addr: int, stream: str) -> Completion:
        return await LaunchKernel(kernels.poke(addr), 1, (), self.streams[stream])

    async def memcpy_async(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str  # noqa: A002 - the format's name
    ) -> Completion:  # fmt: skip
        to, room, source = self._ends(dst, dst_off, src, src_off)
        return await copies.MemcpyAsync(to, room, source, bytes, copies.MemcpyKind.DEFAULT, self.streams[stream])

    async def memcpy(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str | None  # noqa: A002, ARG002
    ) -> None:  # fmt: skip
        to, room, source = self._ends(dst, dst_off, src, src_off)
        await copies.Memcpy(to, room, source, bytes, copies.MemcpyKind.DEFAULT)

    async def memcpy2d_async(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int, stream: str
    ) -> Completion:
        to, source = self.memory[dst], self.memory[src]
        return await copies.Memcpy2dAsync(
            to, dpitch, source, spitch, width, height, copies.MemcpyKind.DEFAULT, self.streams[stream]
        )

    # A peer copy from a device to itself is a copy inside the device (measured: memcpy-peer-self).

    async def memcpy_peer_async(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str  # noqa: A002
    ) -> Completion:  # fmt: skip
        to, room, source = self._ends(dst, dst_off, src, src_off)
        kind = copies.MemcpyKind.DEVICE_TO_DEVICE
        return await copies.MemcpyAsync(to, room, source, bytes, kind, self.streams[stream])

    async def memcpy_peer(self, dst: str, src: str, bytes: int, dst_off: int, src_off: int) -> None:  # noqa: A002
        to, room, source = self._ends(dst, dst_off, src, src_off)
        await copies.Memcpy(to, room, source, bytes, copies.MemcpyKind.DEVICE_TO_DEVICE)

    async def memset_async(self, dst: str, bytes: int, value: int, stream: str) -> Completion:  # noqa: A002
        return await fills.MemsetAsync(self.memory[dst], _size(self.memory[dst]), value, bytes, self.streams[stream])

    async def memset(self, dst: str, bytes: int, value: int, stream: str | None) -> None:  # noqa: A002, ARG002
        await fills.Memset(self.memory[dst], _size(self.memory[dst]), value, bytes)

    async def memcpy_async_bad(self, dst_addr: int, src_addr: int, bytes: int, kind: int, stream: str) -> Completion:  # noqa: A002
        return await copies.MemcpyAsync(dst_addr, bytes, src_addr, bytes, kind, self.streams[stream])

    async def record(self, event: str, stream: str) -> Completion:
        return await events.RecordEvent(self.events[event], self.streams[stream])

    async def wait(self, event: str, stream: str) -> None:
        await streams.StreamWaitEvent(self.streams[stream], self.events[event])

    async def sync_stream(self, stream: str) -> None:
        await streams.SynchronizeStream(self.streams[stream])

    async def sync_event(self, event: str) -> None:
        await events.SynchronizeEvent(self.events[event])

    async def sync_device(self) -> None:
        await devices.SynchronizeDevice()

    async def query_stream(self, stream: str) -> streams.Status:
        return await streams.StreamQuery(self.streams[stream])

    async def query_event(self, event: str) -> streams.Status:
        return await events.QueryEventStatus(self.events[event])

    async def elapsed(self, start: str, end: str) -> float:
        return await events.EventElapsedTime(self.events[start], self.events[end])

    async def host_work(self, us: float) -> None:
        await host.HostWork(us)

    async def malloc(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.Malloc(bytes, name=_name(name))

    async def free(self, name: str) -> None:
        await mem.Free(self.memory[name])

    async def malloc_host(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.MallocHost(bytes, name=_name(name))

    async def free_host(self, name: str) -> None:
        await mem.FreeHost(self.memory[name])

    async def host_register(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.HostRegister(self._pageable("bytes", bytes), name=_name(name))

    async def host_unregister(self, name: str) -> None:
        await mem.HostUnregister(self.memory[name])

    async def malloc_async(self, name: str, bytes: int, stream: str) -> int:  # noqa: A002
        buffer = self.memory[name] = await mem.MallocAsync(bytes, self.streams[stream], name=_name(name))
        if self._pool_base is None:
            self._pool_base = buffer.address
        return buffer.address - self._pool_base

    async def pool_threshold(self, bytes: int) -> None:  # noqa: A002
        await mem.SetMemPoolThreshold(bytes)

    async def free_async(self, name: str, stream: str) -> None:
        await mem.FreeAsync(self.memory[name], self.streams[stream])

    async def create_stream(self, name: str, flags: str, priority: int) -> None:
        nonblocking = flags == "nonblocking"
        self.streams[name] = await streams.CreateStream(nonblocking=nonblocking, priority=priority, name=_name(name))

    async def destroy_stream(self, name: str) -> None:
        await streams.DestroyStream(self.streams[name])

    async def get_priority(self, stream: str) -> int:
        return await streams.StreamGetPriority(self.streams[stream])

    async def priority_range(self) -> tuple[int, int]:
        return await streams.DeviceGetStreamPriorityRange()

    async def create_event(self, event: str, timing: bool, blocking: bool) -> None:
        self.events[event] = await events.CreateEvent(timing=timing, blocking=blocking, name=_name(event))

    async def destroy_event(self, event: str) -> None:
        await events.DestroyEvent(self.events[event])

    async def set_device(self) -> None:
        await devices.SetDevice(0)

    async def mem_get_info(self) -> None:
        await mem.GetMemInfo()

    async def host_func(self, stream: str, us: float, buf: str | None, by: int) -> Completion:
        if buf is None:
            return await LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)
        return await LaunchHostFunc(self.streams[stream], kernels.add, (self._counter(buf), by), us=us)

    async def add_callback(self, stream: str, us: float) -> Completion:
        return await LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)

    async def host_write(self, buf: str, value: int) -> None:
        self.runtime.pay(HOST_ACCESS_NS)
        self._counter(buf)[0] = value

    async def host_read(self, buf: str) -> int:
        self.runtime.pay(HOST_ACCESS_NS)
        return int(self._counter(buf)[0])

    async def host_touch(self, buf: str, bytes: int) -> None:  # noqa: A002
        self._of_host(buf, bytes)
        self.runtime.pay(HOST_ACCESS_NS + PAGE_NS * -(-bytes // PAGE))

    async def inc(self, buf: str, by: int, stream: str) -> Completion:
        memory = self.memory[buf]
        if not _is_reached(memory, 4):
            return await LaunchKernel(kernels.poke(_address(memory)), 1, (), self.streams[stream])
        return await LaunchKernel(kernels.increment, 1, (Array(memory[:4], np.int32), by), self.streams[stream])

    async def touch(self, buf: str, bytes: int, write: bool, stream: str) -> Completion:  # noqa: A002
        memory, profile = self.memory[buf], self.runtime.profile
        if not _is_reached(memory, bytes):
            return await LaunchKernel(kernels.poke(_address(memory)), 1, (), self.streams[stream])
        if _space(memory) is Space.DEVICE:
            cost = Cost(bytes=2 * bytes if write else bytes)
        else:  # over the bus, which carries both directions at once
            ways = (profile.copies.h2d, profile.copies.d2h) if write else (profile.copies.h2d,)
            cost = Cost(us=max(way[bytes] for way in ways) / 1000)
        return await LaunchKernel(kernels.touch(cost), profile.cores.count, (), self.streams[stream])

    async def get_last_error(self) -> int:
        return await host.GetLastError()

    async def peek_error(self) -> int:
        return await host.PeekAtLastError()

    def _ends(self, dst: str, dst_off: int, src: str, src_off: int) -> tuple[Any, int, Any]:
        to, source = self.memory[dst], self.memory[src]
        return _behind(to, dst_off), max(0, _size(to) - dst_off), _behind(source, src_off)

    def _counter(self, buf: str) -> Any:
        """Return the first int of *buf*, which is host memory, as an array."""
        memory = self._of_host(buf, 4)[:4]
        return memory.view(np.int32) if isinstance(memory, np.ndarray) else memory.numpy(np.int32)

    def _of_host(self, buf: str, nbytes: int) -> Any:
        """Return the memory *buf*; raise ProgramError if the host would crash when it touches *nbytes* of it."""
        memory = self.memory[buf]
        if isinstance(memory, int):
            problem = "was never allocated"
        elif not isinstance(memory, np.ndarray) and memory.allocation.freed is not None:
            problem = "was freed"
        elif _space(memory) is Space.DEVICE:
            problem = "is device memory"
        elif memory.nbytes < nbytes:
            problem = f"has {memory.nbytes} bytes, and the step touches {nbytes}"
        else:
            return memory
        raise self._unplayable(f"buf: {buf!r} {problem}; the host would crash here")

    def _make(self, where: str, space: str, bytes: int) -> _Memory:  # noqa: A002
        """Make memory that exists before the first call."""
        try:
            if space == "device":
                return self.runtime.memory.malloc(0, bytes, None)
            if space == "pinned":
                return self.runtime.memory.malloc_host(bytes, None)
        except AclError as error:
            raise self._unplayable(f"{where}: {space} memory: {error.what}") from error
        return self._pageable(where, bytes)

    def _pageable(self, where: str, nbytes: int) -> _Memory:
        """Make ordinary memory of the host. The system provides a page when it is first touched."""
        self._pageable_bytes += nbytes
        if self._pageable_bytes > ROOM:
            what = f"the program needs {self._pageable_bytes:,} bytes of pageable memory, and this host has {ROOM:,}"
            raise self._unplayable(f"{where}: {what}")
        return np.zeros(nbytes, np.uint8)

    @contextmanager
    def _within_time(self) -> Iterator[None]:
        try:
            yield
        except OverflowError as error:
            raise self._unplayable(str(error)) from error

    def _unplayable(self, problem: str) -> ProgramError:
        step = self._step
        where = "" if step is None else f"step {step.index} ({step.op}): "
        return ProgramError(f"program {self.program.id!r}: {where}{problem}")


def _behind(memory: _Memory, offset: int) -> Any:
    """Return *memory* from *offset* on. If that is outside, return an address, which the call refuses."""
    if isinstance(memory, int):
        return memory + offset
    return memory[offset:] if offset <= memory.nbytes or isinstance(memory, np.ndarray) else memory.address + offset


def _size(memory: _Memory) -> int:
    return 0 if isinstance(memory, int) else memory.nbytes


def _space(memory: _Memory) -> Space:
    return memory.allocation.space if isinstance(memory, Buffer) else Space.PAGEABLE


def _is_reached(memory: _Memory, nbytes: int) -> TypeGuard[Buffer]:
    """Whether a kernel can touch the first *nbytes* of *memory*."""
    if isinstance(memory, int | np.ndarray):
        return False
    return memory.allocation.freed is None and nbytes <= memory.nbytes


def _address(memory: _Memory) -> int:
    if isinstance(memory, int | np.ndarray):  # the address of an array differs from run to run
        return memory if isinstance(memory, int) else 0
    return memory.allocation.address + memory.offset


def _name(name: str) -> str:
    """Return a name of a program, which may have any characters, as objects take it."""
    return printable(name)[:LONGEST_NAME]


class _Thread:
    """A host thread other than the main one. It begins without a last error."""

    __slots__ = ("context", "stream")

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(last_error.set, SUCCESS)
        self.stream: Stream | None = None  # its per-thread default stream
