"""The player of stream programs: it makes the calls of one program, through the ordinary verbs, without an event loop.

The costs of the device and the runtime are in the profile. The constants here belong to the script that made the
measured programs: the time to hand a call to another thread, the time of accesses to its own memory. What it launched
is in kernels.py. Whose turn it is, if a program has several tasks, is decided in tasks.py.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial
from sys import _getframe
from types import CodeType, FunctionType
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

import acl_py.verbs.memory as mem
from acl_py.errors import AclError, Kind
from acl_py.recorded.translations import NUMBERED
from acl_py.runtime.blocking import finish
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import SUCCESS, last_error
from acl_py.sanitizer.ranges import union
from acl_py.sites import site_of
from acl_py.tools import kernels
from acl_py.tools.programs import Program, ProgramError, Step
from acl_py.tools.tasks import Tasks, inside
from acl_py.trace import Operation, Trace
from acl_py.verbs import callbacks, copies, devices, events, fills, host, signals, streams
from acl_py.verbs.kernels import Array, Cost, LaunchKernel
from device_model import handles
from device_model.completions import NOTHING, Completion
from device_model.contexts import Context
from device_model.errors import printable
from device_model.memory import Allocation, Buffer, Space
from device_model.memory.backing import ROOM
from device_model.names import LONGEST_NAME
from device_model.observe import Observer
from device_model.ops import Op
from device_model.rules import KernelFailure
from device_model.scheduler import nanoseconds
from device_model.streams import Stream
from device_model.work import Extent, Label, Lane, Occupation

TOUCH_NS_PER_MIB = (
    409_000  # the script's host_register allocates and fills before the call (measured: 1,636 us for 4 MiB)
)
HANDOFF_NS = 12_000  # to another host thread, and back (measured: graphs, 10 to 24 us and 10 to 16 us)
# The script reads or writes its own memory (measured: graphs host_read and host_write, 0.8 to 1.4 us).
HOST_ACCESS_NS = 900
PAGE, PAGE_NS = 4096, 18  # a byte of each page (measured: managed host_touch of pages that are there)

T = TypeVar("T")
_Verb: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
_KINDS = {
    "h2h": copies.MemcpyKind.HOST_TO_HOST,
    "h2d": copies.MemcpyKind.HOST_TO_DEVICE,
    "d2h": copies.MemcpyKind.DEVICE_TO_HOST,
    "d2d": copies.MemcpyKind.DEVICE_TO_DEVICE,
    "default": copies.MemcpyKind.DEFAULT,
}
_COPIES = ("memcpy_async", "memcpy", "memcpy2d_async", "memcpy2d", "memcpy_peer_async", "memcpy_peer")
_Memory = Buffer | npt.NDArray[Any] | int  # an int is the address 0, of memory that was never allocated
_ON_DEVICE = ("launch", "launch_cores", "poke", "inc", "touch", *_COPIES, "memset_async", "memset")


@dataclass(frozen=True, slots=True)
class Played:
    """One step that was run; *answer* is the result of the verb."""

    step: Step
    enter_ns: int
    exit_ns: int
    ret: int
    answer: Any


async def _await(verb: _Verb, fields: Mapping[str, Any]) -> Any: return await verb(**fields)  # fmt: skip


@cache
def _caller_at(line: str) -> Callable[[_Verb, Mapping[str, Any]], Coroutine[Any, Any, Any]]:
    """Return a function that awaits a verb, and whose code lies at *line*, "file.py:12": the call has that site."""
    file, _, number = line.rpartition(":")
    code: CodeType = _await.__code__.replace(co_filename=file, co_firstlineno=int(number))
    return FunctionType(code, globals())


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
        self.streams: defaultdict[Hashable, Any] = defaultdict(lambda: default)
        self.events: dict[str, handles.Event] = {}
        self.notifies: dict[str, signals.Notify] = {}
        self.contexts: dict[str, Context] = {"primary": runtime.device(0).primary}
        self._queued: dict[str, Completion] = {}  # the operations of steps with an id
        self._labels: dict[str, Label] = {}  # of kernels, by their names
        self._reports: dict[str | None, Any] = {}  # the callback that each task has taken and not ended
        self.streams["per_thread"] = streams.PER_THREAD_STREAM
        self._threads: defaultdict[str, _Thread] = defaultdict(_Thread)  # besides the main one
        self._tasks = Tasks(runtime, program.steps)
        runtime.bridge = self._tasks
        self._queuers = _Queuers(self._tasks)
        runtime.hooks.add(self._queuers)
        self._races = None if runtime.sanitizer is None else runtime.sanitizer.races
        if self._races is not None:
            tasks = len({step.task for step in program.steps})
            self._races.hosts.play(tasks, recorded=program.is_recorded)
        self._points: dict[int, Any] = {step.after: () for step in program.steps if step.after is not None}
        self.calls: dict[int, Played] = {}  # those that have returned, by the index of the step
        self._pageable_bytes = 0
        self._pool_base: int | None = None  # the address of the first stream-ordered allocation
        # Declared objects exist before the first call and cost no time: they are made in the model, not by calls.
        for name, buffer in program.buffers.items():
            made = self.memory[name] = self._make(f"buffers.{printable(name)}", **buffer)
            if isinstance(made, Buffer):
                made.allocation.given_name = _given(name)
                if runtime.hooks.allocated is not None:
                    runtime.hooks.allocated(made.allocation, NOTHING)
        for name, options in program.streams.items():
            self.streams[name] = self._stream(name, **options)
        for name, options in program.events.items():
            context = self._context(f"events.{printable(name)}", options["device"])
            event = context.create_event(timing=options["timing"], made=program.id, name=_name(name))
            event.blocking = options["blocking"]
            self.events[name] = event

    def _stream(self, name: str, flags: str, priority: int, device: int) -> Stream:
        """Make a stream that exists before the first call."""
        context = self._context(f"streams.{printable(name)}", device)
        if not context.device.stream_ids.free:
            wanted = sum(options["device"] == device for options in self.program.streams.values())
            left = wanted - sum(isinstance(stream, Stream) for stream in self.streams.values())
            raise self._unplayable(f"streams: there are {wanted:,}, and the device has {wanted - left:,} left")
        return context.create_stream(
            nonblocking=flags == "nonblocking", priority=priority, made=self.program.id, name=_name(name)
        )

    def _context(self, where: str, device: int) -> Context:
        try:
            return self.runtime.device(device).primary
        except AclError as error:
            raise self._unplayable(f"{where}: device: {error.what}; {error.remedy}") from error

    def run(self) -> None:
        """Make all calls; `calls` has them then, or those up to a deadlock.

        Raises:
            ProgramError: the host would crash in a call, or simulated time would pass its end.
            DeadlockError: a call waits for work that never ends.
        """
        with self._within_time():
            self._tasks.run(self.play, self._resumed)

    def _resumed(self, step: Step) -> None:
        now = self.runtime.host_ns
        self.calls[step.index] = Played(step, now, now, 0, None)

    async def play(self, step: Step) -> None:
        """Make one call."""
        runtime = self.runtime
        if self._races is not None and step.after is not None:
            self._races.hosts.take(self._points[step.after])
        runtime.pay(self.program.gap_ns)
        if step.op == "host_register" and step.fields["fill"]:
            runtime.pay(TOUCH_NS_PER_MIB * step.fields["bytes"] >> 20)
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        enter, ret = runtime.host_ns, 0
        answer: Any = None
        try:
            answer = await self._call(step)
        except AclError as error:
            ret = error.code
        exit_ns = runtime.host_ns
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        if answer is streams.Status.NOT_READY:
            ret = self.not_ready
        elif step.op in ("get_last_error", "peek_error"):
            ret = answer
        if step.id is not None and isinstance(answer, Completion):
            self._queued[step.id] = answer
        if self._races is not None and step.index in self._points:
            self._points[step.index] = self._races.hosts.give()
        self.calls[step.index] = Played(step, enter, exit_ns, ret, answer)

    async def _call(self, step: Step) -> Any:
        verb: _Verb = getattr(self, step.op)
        at_line = _caller_at(step.line)
        if step.thread is None:
            return await at_line(verb, step.fields)
        thread, fields = self._threads[step.thread], dict(step.fields)
        if fields.get("stream") == "per_thread":
            fields["stream"] = self._per_thread(thread, step.thread)
        return await inside(thread.context, at_line(verb, fields))

    def _per_thread(self, thread: "_Thread", name: str) -> Hashable:
        """Return the name of the per-thread default stream of a host thread: an ordinary blocking stream of its own.

        Under rules without per-thread streams it is the one that the verbs refuse.
        """
        context = self.runtime.device(0).primary
        if context.per_thread is None:
            return "per_thread"
        if thread not in self.streams:
            own = _name(f"per_thread of {name}")
            self.streams[thread] = context.create_stream(nonblocking=False, priority=0, made=self.program.id, name=own)
        return thread

    def end(self) -> float:
        """Synchronise the device once more, and return the makespan in microseconds."""
        with self._within_time():
            return self._end()

    def _end(self) -> float:
        self.runtime.pay(self.program.gap_ns)
        try:
            finish(devices.SynchronizeDevice())
        except AclError as error:  # the program's work has failed, and this call reports it
            lost = self.runtime.device(0).primary.error is not None
            if not lost and self.runtime.rules.kernel_failure is KernelFailure.STICKY:
                raise AssertionError(f"a device without a failure refused to synchronise: {error}") from error
        return self.runtime.host_ns / 1000

    def spans(self, trace: Trace) -> dict[int, tuple[int, int, str]]:
        """Return start, end and engine of the operations of each step, on the device or by the host instead."""
        queued: defaultdict[int, list[Operation]] = defaultdict(list)
        staged = []  # parts of copies of pageable memory, which the device queues itself
        for op, step in zip(trace.ops, self._queuers.ended, strict=True):
            if step is None:
                staged.append(op)
            else:
                queued[step].append(op)
        staged.sort(key=lambda op: op.queued_ns)
        times = [op.queued_ns for op in staged]
        spans: dict[int, tuple[int, int, str]] = {}
        for call in self.calls.values():
            if call.step.op not in _ON_DEVICE or call.ret:
                continue
            own = (
                queued[call.step.index] or staged[bisect_left(times, call.enter_ns) : bisect_right(times, call.exit_ns)]
            )
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

    async def launch(
        self, stream: str, us: float, blocks: int, exclusive: bool, name: str | None, reads: Any, writes: Any
    ) -> Completion:
        if name is None and not reads and not writes:
            return await LaunchKernel(kernels.spin(us, exclusive), blocks, (), self.streams[stream])
        block_ns = nanoseconds("us", us, 1000)
        kernel = kernels.Recorded(self._label(name), self._extents(reads), self._extents(writes), block_ns, exclusive)
        return await LaunchKernel(kernel, blocks, (), self.streams[stream])

    async def launch_cores(
        self, stream: str, us: float, cores: int, blocks: int, released: Any, name: str | None, reads: Any, writes: Any
    ) -> Completion:
        duration = nanoseconds("us", us, 1000)
        ends = [(nanoseconds("released", at, 1000), count) for at, count in released] or [(duration, cores)]
        if sum(count for _, count in ends) != cores or any(at > duration for at, _ in ends):
            raise self._unplayable(f"released: must give back {cores} cores, and within {us:g} us")
        have = self.runtime.profile.cores.count
        if cores > have:
            raise self._unplayable(f"cores: the kernel takes {cores} AI cores at once, and the device has {have}")
        kernel = kernels.RecordedOnCores(
            self._label(name), self._extents(reads), self._extents(writes), Occupation(duration, ends), cores
        )
        return await LaunchKernel(kernel, blocks, (), self.streams[stream])

    def _label(self, name: str | None) -> Label:
        name = "kernel" if name is None else _name(name)
        return self._labels.setdefault(name, Label("kernel", Lane.COMPUTE, name))

    def _extents(self, extents: Iterable[tuple[str, int, int]]) -> tuple[Extent, ...]:
        """Return the bytes that a kernel declares; memory that is gone or of the host only is left out."""
        found = []
        for name, start, stop in extents:
            memory = self.memory[name]
            if _is_reached(memory, stop):
                found.append((memory.allocation, memory.offset + start, memory.offset + stop))
        return tuple(found)

    async def poke(self, addr: int, stream: str) -> Completion:
        return await LaunchKernel(kernels.poke(addr), 1, (), self.streams[stream])

    async def memcpy_async(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str, kind: str  # noqa: A002 - the format's name
    ) -> Completion:  # fmt: skip
        to, room, source = self._ends(dst, dst_off, src, src_off)
        return await copies.MemcpyAsync(to, room, source, bytes, _KINDS[kind], self.streams[stream])

    async def memcpy(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str | None  # noqa: A002, ARG002
    ) -> None:  # fmt: skip
        to, room, source = self._ends(dst, dst_off, src, src_off)
        await copies.Memcpy(to, room, source, bytes, copies.MemcpyKind.DEFAULT)

    async def memcpy2d_async(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int, stream: str,
        dst_off: int, src_off: int, kind: str,
    ) -> Completion:  # fmt: skip
        to, _, source = self._ends(dst, dst_off, src, src_off)
        return await copies.Memcpy2dAsync(to, dpitch, source, spitch, width, height, _KINDS[kind], self.streams[stream])

    async def memcpy2d(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int,
        dst_off: int, src_off: int, kind: str,
    ) -> None:  # fmt: skip
        to, _, source = self._ends(dst, dst_off, src, src_off)
        await copies.Memcpy2d(to, dpitch, source, spitch, width, height, _KINDS[kind])

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

    async def memset_async(self, dst: str, bytes: int, value: int, stream: str, dst_off: int) -> Completion:  # noqa: A002
        to, room, _ = self._ends(dst, dst_off, dst, 0)
        return await fills.MemsetAsync(to, room, value, bytes, self.streams[stream])

    async def memset(self, dst: str, bytes: int, value: int, stream: str | None, dst_off: int) -> None:  # noqa: A002, ARG002
        to, room, _ = self._ends(dst, dst_off, dst, 0)
        await fills.Memset(to, room, value, bytes)

    async def memcpy_async_bad(self, dst_addr: int, src_addr: int, bytes: int, kind: int, stream: str) -> Completion:  # noqa: A002
        return await copies.MemcpyAsync(dst_addr, bytes, src_addr, bytes, kind, self.streams[stream])

    async def record(self, event: str, stream: str) -> Completion:
        return await events.RecordEvent(self._made(self.events, event), self.streams[stream])

    async def wait(self, event: str, stream: str) -> None:
        await streams.StreamWaitEvent(self.streams[stream], self._made(self.events, event))

    async def reset(self, event: str, stream: str) -> Completion:
        return await events.ResetEvent(self._made(self.events, event), self.streams[stream])

    async def sync_stream(self, stream: str, limit_ms: int | None, name: str | None) -> None:
        if name is not None:
            await streams.synchronize(begin("SynchronizeStream"), _name(name), self.streams[stream], None)
        elif limit_ms is None:
            await streams.SynchronizeStream(self.streams[stream])
        else:
            await streams.SynchronizeStreamWithTimeout(self.streams[stream], limit_ms)

    async def sync_event(self, event: str, limit_ms: int | None) -> None:
        if limit_ms is None:
            await events.SynchronizeEvent(self._made(self.events, event))
        else:
            await events.SynchronizeEventWithTimeout(self._made(self.events, event), limit_ms)

    async def sync_device(self, limit_ms: int | None) -> None:
        if limit_ms is None:
            await devices.SynchronizeDevice()
        else:
            await devices.SynchronizeDeviceWithTimeout(limit_ms)

    async def sync_op(self, of: str) -> None:
        if of in self._queued:  # its call may have failed
            await self._queued[of]

    async def query_stream(self, stream: str, **repeated: Any) -> streams.Status:
        return await self._query(lambda: streams.StreamQuery(self.streams[stream]), **repeated)

    async def query_event(self, event: str, **repeated: Any) -> streams.Status:
        return await self._query(lambda: events.QueryEventStatus(self._made(self.events, event)), **repeated)

    async def query_waits(self, event: str, **repeated: Any) -> streams.Status:
        return await self._query(lambda: events.QueryEventWaitStatus(self._made(self.events, event)), **repeated)

    async def _query(
        self, query: Callable[[], Coroutine[Any, Any, streams.Status]], until: bool, work_us: float, sleep_us: float
    ) -> streams.Status:
        """Make a query, or repeat it *until* the answer is "complete"; between two queries the host works or sleeps."""
        while (answer := await query()) is streams.Status.NOT_READY and until:
            if work_us:
                await host.HostWork(work_us)
            if sleep_us:
                await host.Sleep(sleep_us)
        return answer

    async def timestamp(self, event: str) -> int:
        return await events.GetEventTimestamp(self._made(self.events, event))

    async def elapsed(self, start: str, end: str) -> float:
        return await events.EventElapsedTime(self._made(self.events, start), self._made(self.events, end))

    async def host_work(self, us: float, name: str | None) -> None:
        if name is None:
            await host.HostWork(us)
            return
        enter = self.runtime.host_ns
        self.runtime.pay(nanoseconds("us", us, 1000))
        self.runtime.called(_name(name), enter, site_of(_getframe()))

    async def sleep(self, us: float) -> None:
        await host.Sleep(us)

    async def resume(self) -> None:
        pass

    async def give_way(self) -> None:
        pass

    async def malloc(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.Malloc(bytes, name=_given(name))

    async def free(self, name: str, sync: bool) -> None:
        await (mem.FreeWithDevSync if sync else mem.Free)(self.memory[name])

    async def malloc_host(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.MallocHost(bytes, name=_given(name))

    async def free_host(self, name: str, sync: bool) -> None:
        await (mem.FreeHostWithDevSync if sync else mem.FreeHost)(self.memory[name])

    async def host_register(self, name: str, bytes: int, fill: bool) -> None:  # noqa: A002, ARG002
        self.memory[name] = await mem.HostRegister(self._pageable("bytes", bytes), name=_given(name))

    async def host_unregister(self, name: str) -> None:
        await mem.HostUnregister(self.memory[name])

    async def malloc_async(self, name: str, bytes: int, stream: str) -> int:  # noqa: A002
        buffer = self.memory[name] = await mem.MallocAsync(bytes, self.streams[stream], name=_given(name))
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

    async def create_event(self, event: str, timing: bool, blocking: bool, kind: str) -> None:
        if kind == "default":
            self.events[event] = await events.CreateEvent(timing=timing, blocking=blocking, name=_name(event))
            return
        create = events.CreateEventWithFlag if kind == "flag" else events.CreateEventExWithFlag
        flag = events.EventFlag.SYNC | (events.EventFlag.TIME_LINE if timing else 0)
        self.events[event] = await create(flag, name=_name(event))

    async def destroy_event(self, event: str) -> None:
        await events.DestroyEvent(self._made(self.events, event))

    async def create_notify(self, notify: str) -> None:
        self.notifies[notify] = await signals.CreateNotify(name=_name(notify))

    async def destroy_notify(self, notify: str) -> None:
        await signals.DestroyNotify(self._made(self.notifies, notify))

    async def record_notify(self, notify: str, stream: str) -> Completion:
        return await signals.RecordNotify(self._made(self.notifies, notify), self.streams[stream])

    async def wait_notify(self, notify: str, stream: str, limit_s: int) -> Completion:
        return await signals.WaitAndResetNotify(self._made(self.notifies, notify), self.streams[stream], limit_s)

    async def reset_notify(self, notify: str) -> None:
        await signals.ResetNotifies([self._made(self.notifies, notify)])

    async def value_write(self, buf: str, value: int, stream: str, off: int) -> Completion:
        return await signals.ValueWrite(_behind(self.memory[buf], off), value, 0, self.streams[stream])

    async def value_wait(self, buf: str, value: int, stream: str, off: int, compare: str) -> Completion:
        flag = signals.Compare[compare.upper()]
        return await signals.ValueWait(_behind(self.memory[buf], off), value, flag, self.streams[stream])

    async def subscribe(self, stream: str) -> None:
        await callbacks.SubscribeReport(None, self.streams[stream])

    async def unsubscribe(self, stream: str) -> None:
        await callbacks.UnsubscribeReport(None, self.streams[stream])

    async def launch_callback(self, stream: str, block: bool, name: str | None) -> Completion:
        function = kernels.callback("callback" if name is None else _name(name))
        return await callbacks.LaunchCallback(function, None, int(block), self.streams[stream])

    async def process_report(self, limit_ms: int | None) -> None:
        await self.end_report()
        self._reports[self._task] = await callbacks.take_report(-1 if limit_ms is None else limit_ms)

    async def end_report(self) -> None:
        report = self._reports.pop(self._task, None)
        if report is not None:
            await callbacks.end_report(report)

    @property
    def _task(self) -> str | None:
        """The name of the task whose turn it is."""
        task = self._tasks.running
        return None if task is None or task.step is None else task.step.task

    async def create_context(self, context: str, device: int) -> None:
        self.contexts[context] = await devices.CreateContext(device)

    async def set_context(self, context: str) -> None:
        await devices.SetCurrentContext(self._made(self.contexts, context))

    async def destroy_context(self, context: str) -> None:
        await devices.DestroyContext(self._made(self.contexts, context))

    async def set_device(self, device: int) -> None:
        await devices.SetDevice(device)

    async def mem_get_info(self) -> None:
        await mem.GetMemInfo()

    async def host_func(
        self, stream: str, us: float, buf: str | None, by: int, name: str | None, reads: Any, writes: Any
    ) -> Completion:
        if name is not None or reads or writes:
            function = kernels.callback("host_function" if name is None else _name(name))
            return await callbacks.LaunchHostFunc(
                self.streams[stream], function, (partial(self._touch, reads, writes),), us=us
            )
        if buf is None:
            return await callbacks.LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)
        return await callbacks.LaunchHostFunc(self.streams[stream], kernels.add, (self._counter(buf), by), us=us)

    async def add_callback(self, stream: str, us: float) -> Completion:
        return await callbacks.LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)

    async def host_write(self, buf: str, value: int) -> None:
        self.runtime.pay(HOST_ACCESS_NS)
        self._counter(buf)[0] = value

    async def host_read(self, buf: str) -> int:
        self.runtime.pay(HOST_ACCESS_NS)
        return int(self._counter(buf)[0])

    async def host_access(self, reads: Any, writes: Any) -> None:
        self._touch(reads, writes)

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

    def _made(self, things: Mapping[str, T], name: str) -> T:
        """Return the one of *things* called *name*; AclError if the call that was to make it has failed."""
        if name not in things:
            what = f"{name!r} was never made: the call that makes it has failed"
            raise self.runtime.error(Kind.INVALID_HANDLE, what, "see that call")
        return things[name]

    def _ends(self, dst: str, dst_off: int, src: str, src_off: int) -> tuple[Any, int, Any]:
        to, source = self.memory[dst], self.memory[src]
        return _behind(to, dst_off), max(0, _size(to) - dst_off), _behind(source, src_off)

    def _counter(self, buf: str) -> Any:
        """Return the first int of *buf*, which is host memory, as an array."""
        memory = self._of_host(buf, 4)[:4]
        return memory.view(np.int32) if isinstance(memory, np.ndarray) else memory.numpy(np.int32)

    def _touch(self, reads: Iterable[tuple[str, int, int]], writes: Iterable[tuple[str, int, int]]) -> None:
        """Let the host read and write bytes through views of its memory. Nothing changes: only the sanitizer sees it.

        A view outlives its memory, so that may be freed.
        """
        views = None if self.runtime.sanitizer is None else self.runtime.sanitizer.views
        for extents, is_written in ((reads, False), (writes, True)):
            touched: defaultdict[Allocation, list[tuple[int, int]]] = defaultdict(list)
            for name, start, stop in extents:
                memory = self.memory[name]
                if not isinstance(memory, Buffer) or memory.allocation.freed is None:
                    memory = self._of_host(name, stop)
                if isinstance(memory, Buffer):
                    touched[memory.allocation].append((memory.offset + start, memory.offset + stop))
            if views is not None:
                for allocation, ranges in touched.items():
                    views.access(allocation, union(ranges), writes=is_written)

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

    def _make(self, where: str, space: str, bytes: int, device: int) -> _Memory:  # noqa: A002
        """Make memory that exists before the first call."""
        self._context(where, device)
        try:
            if space == "device":
                return self.runtime.memory.malloc(device, bytes, None)
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
        task = self._tasks.running
        step = None if task is None else task.step
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


def _given(name: str) -> str | None:
    """Return the name of memory; None if it only has a number: then messages name the line that made it."""
    return None if NUMBERED.fullmatch(name) else _name(name)


class _Thread:
    """A host thread other than the main one. It begins without a last error. Its per-thread default stream has it as
    its name.
    """

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(last_error.set, SUCCESS)


class _Queuers(Observer):
    """Notes which step has queued each operation: `ended` has its index in the order of ends, as the trace does."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._steps: dict[Op, int] = {}
        self.ended: list[int | None] = []

    def op_queued(self, op: Op) -> None:
        task = self._tasks.running
        if task is not None and task.step is not None:
            self._steps[op] = task.step.index

    def op_ended(self, op: Op) -> None:
        self.ended.append(self._steps.pop(op, None))
