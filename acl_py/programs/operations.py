"""The operations of stream programs: a coroutine for each op, which calls the ordinary verbs.

The constants belong to the script that made the measured programs. What it launched is in kernels.py.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from functools import cache, partial
from importlib import import_module
from sys import _getframe
from typing import Any

import numpy as np

import acl_py.verbs.memory as mem
from acl_py.calls.steps import OPS
from acl_py.calls.table import all_verbs
from acl_py.errors import Kind
from acl_py.programs import kernels
from acl_py.programs.format import Program
from acl_py.programs.objects import Objects, address_of, behind, given_name, is_reached, model_name, space_of
from acl_py.programs.tasks import Tasks
from acl_py.ranges import union
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.sites import site_of
from acl_py.trace.views.shown import shown
from acl_py.verbs import callbacks, copies, devices, events, fills, host, managed, pools, records, signals, streams
from acl_py.verbs.kernels import Array, Cost, LaunchKernel
from acl_py.verbs.waits import Status, limit_of
from device_model.completions import Completion
from device_model.core_kernels import Occupation
from device_model.memory import Allocation, Buffer, Space
from device_model.scheduler import nanoseconds
from device_model.streams import Stream
from device_model.work import Label, Lane

# The script reads or writes its own memory (measured: graphs host_read and host_write, 0.8 to 1.4 us).
HOST_ACCESS_NS = 900
# The script touches a byte of each page (measured: managed host_touch of pages that are there, 12 us for 1 MB and 18 to
# 22 us for 4 MB).
HOST_TOUCH_NS, PAGE, PAGE_NS = 9_000, 4096, 11

_KINDS = {
    "h2h": copies.MemcpyKind.HOST_TO_HOST,
    "h2d": copies.MemcpyKind.HOST_TO_DEVICE,
    "d2h": copies.MemcpyKind.DEVICE_TO_HOST,
    "d2d": copies.MemcpyKind.DEVICE_TO_DEVICE,
    "default": copies.MemcpyKind.DEFAULT,
}


class Code(int):
    """A code as the answer of a call, and not as its failure."""


class Operations(Objects):
    """The calls of one program.

    A coroutine that has the name of an op takes its fields as arguments. An op without one is a verb that takes what
    the fields name, in their order.
    """

    def __init__(self, program: Program, runtime: Runtime, tasks: Tasks) -> None:
        super().__init__(program, runtime, tasks)
        self.queued: dict[str, Completion] = {}  # the operations of steps with an id
        self._labels: dict[str, Label] = {}  # of kernels, by their names
        self._reports: dict[str | None, Any] = {}  # the callback that each task has taken and not ended
        self._pool_base: int | None = None  # the address of the first stream-ordered allocation
        self._registered: dict[str, Any] = {}  # ordinary memory, by the names with which it was registered

    def call(self, op: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return the coroutine function that makes the call of *op*."""
        own: Callable[..., Coroutine[Any, Any, Any]] | None = getattr(self, op, None)
        return partial(self._by_verb, op) if own is None else own

    async def _by_verb(self, op: str, **fields: Any) -> Any:
        return await _verb(op)(*(self.thing(field.refers, fields[name]) for name, field in OPS[op].items()))

    def thing(self, kind: str | None, value: Any) -> Any:
        """Return the thing of a *kind* that a field names; its *value* if it names nothing."""
        match kind:
            case "stream":
                return self.streams[value]
            case "buffer":
                return self.memory[value]
            case "event":
                return self.made(self.events, value)
            case "notify":
                return self.made(self.notifies, value)
            case "context":
                return self.context(value)
        return value

    async def launch(
        self, stream: str, us: float, blocks: int, exclusive: bool, name: str | None, reads: Any, writes: Any
    ) -> Completion:
        if name is None and not reads and not writes:
            return await LaunchKernel(kernels.spin(us, exclusive), blocks, (), self.streams[stream])
        block_ns = nanoseconds("us", us, 1000)
        kernel = kernels.Recorded(self._label(name), self.extents(reads), self.extents(writes), block_ns, exclusive)
        return await LaunchKernel(kernel, blocks, (), self.streams[stream])

    async def launch_cores(
        self,
        stream: str,
        us: float,
        cores: int,
        blocks: int,
        released: Any,
        more: Any,
        name: str | None,
        reads: Any,
        writes: Any,
    ) -> Completion:
        runs = [self._occupation(run_us, ends, cores) for run_us, ends in ((us, released), *more)]
        have = self.runtime.profile.cores.count
        if cores > have:
            called = shown("AI cores", self.runtime.profile.name, self.runtime.rules.name)
            raise self.unplayable(f"cores: the kernel takes {cores} {called} at once, and the device has {have}")
        kernel = kernels.RecordedOnCores(self._label(name), self.extents(reads), self.extents(writes), runs, cores)
        return await LaunchKernel(kernel, blocks, (), self.streams[stream])

    def _occupation(self, us: float, released: Any, cores: int) -> Occupation:
        """Return when a run of *us* gives its *cores* back."""
        duration = nanoseconds("us", us, 1000)
        ends = [(nanoseconds("released", at, 1000), count) for at, count in released] or [(duration, cores)]
        if sum(count for _, count in ends) != cores or any(at > duration for at, _ in ends):
            raise self.unplayable(f"released: must give back {cores} cores, and within {us:g} us")
        return Occupation(duration, ends)

    def _label(self, name: str | None) -> Label:
        name = "kernel" if name is None else model_name(name)
        return self._labels.setdefault(name, Label("kernel", Lane.COMPUTE, name))

    async def poke(self, addr: int, stream: str) -> Completion:
        return await LaunchKernel(kernels.poke(addr), 1, (), self.streams[stream])

    async def memcpy_async(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str, kind: str  # noqa: A002 - the format's name
    ) -> Completion:  # fmt: skip
        to, room, source = self.ends(dst, dst_off, src, src_off)
        return await copies.MemcpyAsync(to, room, source, bytes, _KINDS[kind], self.streams[stream])

    async def memcpy(
        self, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str | None, kind: str = "default"  # noqa: A002, ARG002
    ) -> None:  # fmt: skip
        to, room, source = self.ends(dst, dst_off, src, src_off)
        await copies.Memcpy(to, room, source, bytes, _KINDS[kind])

    async def memcpy2d_async(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int, stream: str,
        dst_off: int, src_off: int, kind: str,
    ) -> Completion:  # fmt: skip
        to, _, source = self.ends(dst, dst_off, src, src_off)
        return await copies.Memcpy2dAsync(to, dpitch, source, spitch, width, height, _KINDS[kind], self.streams[stream])

    async def memcpy2d(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int,
        dst_off: int, src_off: int, kind: str,
    ) -> None:  # fmt: skip
        to, _, source = self.ends(dst, dst_off, src, src_off)
        await copies.Memcpy2d(to, dpitch, source, spitch, width, height, _KINDS[kind])

    # A peer copy from a device to itself is a copy inside the device (measured: memcpy-peer-self).

    async def memcpy_peer_async(self, **copy: Any) -> Completion:
        return await self.memcpy_async(kind="d2d", **copy)

    async def memcpy_peer(self, **copy: Any) -> None:
        await self.memcpy(stream=None, kind="d2d", **copy)

    async def memset_async(self, dst: str, bytes: int, value: int, stream: str, dst_off: int, unit: int) -> Completion:  # noqa: A002
        to, room, _ = self.ends(dst, dst_off, dst, 0)
        return await fills.MemsetAsync(to, room, value, bytes, self.streams[stream], unit=unit)

    async def memset(self, dst: str, bytes: int, value: int, stream: str | None, dst_off: int, unit: int) -> None:  # noqa: A002, ARG002
        to, room, _ = self.ends(dst, dst_off, dst, 0)
        await fills.Memset(to, room, value, bytes, unit=unit)

    async def memcpy_async_bad(self, dst_addr: int, src_addr: int, bytes: int, kind: int, stream: str) -> Completion:  # noqa: A002
        return await copies.MemcpyAsync(dst_addr, bytes, src_addr, bytes, kind, self.streams[stream])

    async def record(self, event: str, stream: str, external: bool) -> Completion:
        return await records.RecordEvent(self.made(self.events, event), self.streams[stream], external=external)

    async def wait(self, event: str, stream: str, external: bool) -> None:
        await records.StreamWaitEvent(self.streams[stream], self.made(self.events, event), external=external)

    async def sync_stream(self, stream: str, limit_ms: int | None, name: str | None) -> None:
        if name is not None:
            limit = limit_of(self.runtime, -1 if limit_ms is None else limit_ms, Kind.STREAM_TIMEOUT)
            await streams.synchronize(begin("SynchronizeStream"), model_name(name), self.streams[stream], limit)
        elif limit_ms is None:
            await streams.SynchronizeStream(self.streams[stream])
        else:
            await streams.SynchronizeStreamWithTimeout(self.streams[stream], limit_ms)

    async def sync_event(self, event: str, limit_ms: int | None) -> None:
        if limit_ms is None:
            await events.SynchronizeEvent(self.made(self.events, event))
        else:
            await events.SynchronizeEventWithTimeout(self.made(self.events, event), limit_ms)

    async def sync_device(self, limit_ms: int | None) -> None:
        if limit_ms is None:
            await devices.SynchronizeDevice()
        else:
            await devices.SynchronizeDeviceWithTimeout(limit_ms)

    async def sync_op(self, of: str) -> None:
        if of in self.queued:  # its call may have failed
            await self.queued[of]

    async def query_stream(self, stream: str, **repeated: Any) -> Status:
        return await self._query(lambda: streams.StreamQuery(self.streams[stream]), **repeated)

    async def query_event(self, event: str, **repeated: Any) -> Status:
        return await self._query(lambda: events.QueryEventStatus(self.made(self.events, event)), **repeated)

    async def query_waits(self, event: str, **repeated: Any) -> Status:
        return await self._query(lambda: events.QueryEventWaitStatus(self.made(self.events, event)), **repeated)

    async def _query(
        self, query: Callable[[], Coroutine[Any, Any, Status]], until: bool, work_us: float, sleep_us: float
    ) -> Status:
        """Make a query, or repeat it *until* the answer is "complete"; between two queries the host works or sleeps."""
        while (answer := await query()) is Status.NOT_READY and until:
            if work_us:
                await host.HostWork(work_us)
            if sleep_us:
                await host.Sleep(sleep_us)
        return answer

    async def timestamp(self, event: str) -> None:
        await events.GetEventTimestamp(self.made(self.events, event))

    async def host_work(self, us: float, name: str | None) -> None:
        if name is None:
            await host.HostWork(us)
            return
        enter = self.runtime.host_ns
        self.runtime.pay(nanoseconds("us", us, 1000))
        self.runtime.called(model_name(name), enter, site_of(_getframe()))

    async def resume(self) -> None:
        pass

    async def give_way(self) -> None:
        pass

    async def malloc(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.Malloc(bytes, name=given_name(name))

    async def free(self, name: str, sync: bool) -> None:
        await (mem.FreeWithDevSync if sync else mem.Free)(self.memory[name])

    async def malloc_host(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.MallocHost(bytes, name=given_name(name))

    async def free_host(self, name: str, sync: bool) -> None:
        await (mem.FreeHostWithDevSync if sync else mem.FreeHost)(self.memory[name])

    async def host_register(self, name: str, bytes: int, fill: bool, again: str | None) -> None:  # noqa: A002, ARG002
        memory = self.pageable("bytes", bytes) if again is None else self.made(self._registered, again)
        self._registered[name] = memory
        self.memory[name] = await mem.HostRegister(memory, bytes, name=given_name(name))

    async def malloc_async(self, name: str, bytes: int, stream: str) -> int:  # noqa: A002
        buffer = self.memory[name] = await pools.MallocAsync(bytes, self.streams[stream], name=given_name(name))
        if self._pool_base is None:
            self._pool_base = buffer.address
        return buffer.address - self._pool_base

    async def free_async(self, name: str, stream: str) -> None:
        await pools.FreeAsync(self.memory[name], self.streams[stream])

    async def create_stream(self, name: str, flags: str, priority: int) -> None:
        nonblocking = flags == "nonblocking"
        self.streams[name] = await streams.CreateStream(
            nonblocking=nonblocking, priority=priority, name=model_name(name)
        )

    async def get_priority(self, stream: str) -> int:
        return await streams.StreamGetPriority(self.streams[stream])

    async def priority_range(self) -> tuple[int, int]:
        return await streams.DeviceGetStreamPriorityRange()

    async def create_event(self, event: str, timing: bool, blocking: bool, kind: str) -> None:
        if kind == "default":
            self.events[event] = await events.CreateEvent(timing=timing, blocking=blocking, name=model_name(event))
            return
        create = events.CreateEventWithFlag if kind == "flag" else events.CreateEventExWithFlag
        flag = events.EventFlag.SYNC | (events.EventFlag.TIME_LINE if timing else 0)
        self.events[event] = await create(flag, name=model_name(event))

    async def create_notify(self, notify: str) -> None:
        self.notifies[notify] = await signals.CreateNotify(name=model_name(notify))

    async def reset_notify(self, notify: str) -> None:
        await signals.ResetNotifies([self.made(self.notifies, notify)])

    async def value_write(self, buf: str, value: int, stream: str, off: int) -> Completion:
        return await signals.ValueWrite(behind(self.memory[buf], off), value, 0, self.streams[stream])

    async def value_wait(self, buf: str, value: int, stream: str, off: int, compare: str) -> Completion:
        flag = signals.Compare[compare.upper()]
        return await signals.ValueWait(behind(self.memory[buf], off), value, flag, self.streams[stream])

    async def subscribe(self, stream: str) -> None:
        await callbacks.SubscribeReport(None, self.streams[stream])

    async def unsubscribe(self, stream: str) -> None:
        await callbacks.UnsubscribeReport(None, self.streams[stream])

    async def launch_callback(self, stream: str, block: bool, name: str | None) -> Completion:
        function = kernels.callback("callback" if name is None else model_name(name))
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

    async def mem_get_info(self) -> None:
        await mem.GetMemInfo()

    async def host_func(
        self, stream: str, us: float, buf: str | None, by: int, name: str | None, reads: Any, writes: Any
    ) -> Completion:
        if name is not None or reads or writes:
            function = kernels.callback("host_function" if name is None else model_name(name))
            return await callbacks.LaunchHostFunc(
                self.streams[stream], function, (partial(self._touch, reads, writes),), us=us
            )
        if buf is None:
            return await callbacks.LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)
        return await callbacks.LaunchHostFunc(self.streams[stream], kernels.add, (self.counter(buf), by), us=us)

    async def add_callback(self, stream: str, us: float) -> Completion:
        found = self.streams[stream]
        if isinstance(found, Stream) and found.branch is not None:
            self.runtime.captures.refuse_stream(self.runtime, found, "StreamAddCallback")
        return await callbacks.LaunchHostFunc(self.streams[stream], kernels.host_function, us=us)

    async def host_write(self, buf: str, value: int) -> None:
        self.runtime.pay(HOST_ACCESS_NS)
        self.counter(buf)[0] = value

    async def host_read(self, buf: str) -> int:
        self.runtime.pay(HOST_ACCESS_NS)
        return int(self.counter(buf)[0])

    async def host_access(self, reads: Any, writes: Any) -> None:
        self._touch(reads, writes)

    async def host_touch(self, buf: str, bytes: int) -> None:  # noqa: A002
        memory = self.of_host(buf, bytes)
        self.runtime.pay(HOST_TOUCH_NS + PAGE_NS * -(-bytes // PAGE))
        if isinstance(memory, np.ndarray):
            memory[:bytes:PAGE] = 1
            return
        allocation, start = memory.allocation, memory.offset
        allocation.warm(start, bytes)
        np.ndarray(bytes, np.uint8, allocation.view, start)[::PAGE] = 1
        self._use_pages(allocation, [(start, start + bytes)], is_written=True)

    async def inc(self, buf: str, by: int, stream: str) -> Completion:
        memory = self.memory[buf]
        if not is_reached(memory, 4):
            return await LaunchKernel(kernels.poke(address_of(memory)), 1, (), self.streams[stream])
        return await LaunchKernel(kernels.increment, 1, (Array(memory[:4], np.int32), by), self.streams[stream])

    async def touch(self, buf: str, bytes: int, write: bool, stream: str) -> Completion:  # noqa: A002
        memory, profile = self.memory[buf], self.runtime.profile
        if not is_reached(memory, bytes):
            return await LaunchKernel(kernels.poke(address_of(memory)), 1, (), self.streams[stream])
        if space_of(memory) is Space.MANAGED:
            return await self._touch_managed(memory, bytes, write, stream)
        if space_of(memory) is Space.DEVICE:
            cost = Cost(bytes=2 * bytes if write else bytes)
        else:  # over the bus, which carries both directions at once
            ways = (profile.copies.h2d, profile.copies.d2h) if write else (profile.copies.h2d,)
            cost = Cost(us=max(way[bytes] for way in ways) / 1000)
        return await LaunchKernel(kernels.touch(cost), profile.cores.count, (), self.streams[stream])

    async def _touch_managed(self, memory: Buffer, nbytes: int, write: bool, stream: str) -> Completion:
        profile = self.runtime.profile
        blocks, cost = profile.cores.count, Cost(bytes=2 * nbytes if write else nbytes)
        extent = (memory.allocation, memory.offset, memory.offset + nbytes)
        block_ns = cost.block_ns(profile, blocks, (), nbytes, exclusive=True)
        kernel = kernels.Recorded(self._label("touch"), (extent,), (extent,) if write else (), block_ns, exclusive=True)
        return await LaunchKernel(kernel, blocks, (), self.streams[stream])

    async def malloc_managed(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await managed.MallocManaged(bytes, name=given_name(name))

    async def prefetch(self, buf: str, bytes: int, to: str | int, stream: str, off: int) -> Completion:  # noqa: A002
        memory = behind(self.memory[buf], off)
        return await managed.MemPrefetchAsync(memory, bytes, _location(to), self.streams[stream])

    async def advise(self, buf: str, bytes: int, advice: str, to: str | int, off: int) -> None:  # noqa: A002
        memory = behind(self.memory[buf], off)
        await managed.MemAdvise(memory, bytes, managed.Advice[_constant(advice)], _location(to))

    async def attach(self, buf: str, stream: str, to: str) -> Completion:
        flags = managed.MemAttach[to.upper()]
        return await managed.StreamAttachMemAsync(self.streams[stream], self.memory[buf], 0, flags)

    async def pointer_attributes(self, buf: str) -> int:
        return int((await managed.PointerGetAttributes(self.memory[buf])).type)

    async def range_attribute(self, buf: str, bytes: int, attribute: str) -> str:  # noqa: A002
        known = managed.RangeAttribute[_constant(attribute)]
        return str(await managed.MemRangeGetAttribute(self.memory[buf], bytes, known))

    async def get_last_error(self) -> Code:
        return Code(await host.GetLastError())

    async def peek_error(self) -> Code:
        return Code(await host.PeekAtLastError())

    def _touch(self, reads: Iterable[tuple[str, int, int]], writes: Iterable[tuple[str, int, int]]) -> None:
        """Let the host read and write bytes through views of its memory, which moves pages of managed memory.

        No byte changes; the sanitizer sees the accesses.

        A view outlives its memory, so that may be freed.
        """
        views = None if self.runtime.sanitizer is None else self.runtime.sanitizer.views
        for extents, is_written in ((reads, False), (writes, True)):
            touched: defaultdict[Allocation, list[tuple[int, int]]] = defaultdict(list)
            for name, start, stop in extents:
                memory = self.memory[name]
                if not isinstance(memory, Buffer) or memory.allocation.freed is None:
                    memory = self.of_host(name, stop)
                if isinstance(memory, Buffer):
                    touched[memory.allocation].append((memory.offset + start, memory.offset + stop))
            for allocation, ranges in touched.items():
                self._use_pages(allocation, union(ranges), is_written=is_written)
                if views is not None:
                    views.access(allocation, union(ranges), writes=is_written)

    def _use_pages(self, allocation: Allocation, ranges: list[tuple[int, int]], *, is_written: bool) -> None:
        """Let the host use managed memory, and wait for its pages; other memory has none."""
        if allocation.pages is not None and allocation.freed is None:
            host_pages = self.runtime.state(managed.HostPages)
            host_pages.use(allocation, ranges, site_of(_getframe()), writes=is_written)


@cache
def _verb(op: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the verb that the step *op* makes."""
    verb = next(verb for verb in all_verbs().values() if verb.step == op)
    function: Callable[..., Coroutine[Any, Any, Any]] = getattr(import_module(f"acl_py.verbs.{verb.noun}"), verb.name)
    return function


def _location(to: str | int) -> int:
    """Return the place *to* of a program as a location."""
    return managed.CPU_DEVICE_ID if to == "host" else 0 if isinstance(to, str) else to


def _constant(name: str) -> str:
    """Return the name of a constant of CUDA, such as "SetReadMostly", as our enums write it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
