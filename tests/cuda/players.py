"""The two players of random programs: one makes calls in C, the other runs verbs.

A driver has no call costs of its own here, so both come to the same times, to the nanosecond.
"""

import asyncio
import ctypes
import struct
import threading
from typing import Any

import numpy as np

import acl_py
from acl_py.compat.acl.face.session import current_session
from acl_py.compat.cuda.face.codes import code_of
from acl_py.errors import AclError
from acl_py.verbs.streams import LEGACY_STREAM, PER_THREAD_STREAM
from tests.cuda.calling import OUT, PTX, Cuda, pointers
from tests.cuda.conftest import driver
from tests.cuda.programs import Outcome, Step

_ALLOCATE = {"device": "cuMemAlloc_v2", "pinned": "cuMemAllocHost_v2", "managed": "cuMemAllocManaged"}
_FILLS = {1: "D8", 2: "D16", 4: "D32"}
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_ANY = acl_py.MemcpyKind.DEFAULT
_NOWHERE = np.empty(0, np.uint8)  # the driver does not look at the addresses of a copy of no bytes; the verb does
NOTHING = -1  # no code: the step is about a thing that could not be made


class Player:
    """What both players share: results, and memory that neither has to allocate."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.ends_ns: list[int] = []
        self.told: list[Any] = []
        self.streams: dict[int, Any] = {}
        self.events: dict[int, Any] = {}
        self.memory: dict[int, tuple[int, int]] = {}  # address and bytes
        self.kept: dict[int, Any] = {}  # what keeps memory of the host
        self.pageable: dict[int, Any] = {}
        self.managed: list[int] = []

    def own(self, number: int, nbytes: int) -> None:
        """Take pageable memory."""
        array = np.full(nbytes, number, np.uint8)
        self.pageable[number] = array
        self.memory[number] = array.ctypes.data, nbytes

    def let_go(self, number: int) -> None:
        """Forget memory of the host that was freed: it is the system's again, with whatever comes there."""
        del self.memory[number]

    def address(self, place: tuple[int, int]) -> int:
        number, offset = place
        return self.memory[number][0] + offset

    def outcome(self, timeline: Any, begin_ns: int, content: dict[int, bytes]) -> Outcome:
        """Return what has happened since *begin_ns*."""
        rows = [(each.name, each.stream, each.start_ns - begin_ns, each.end_ns - begin_ns) for each in timeline.ops]
        return Outcome(self.codes, [each - begin_ns for each in self.ends_ns], self.told, content, rows)


class InC(Player):
    """Plays a program through the library."""

    def play(self, steps: list[Step]) -> Outcome:
        with driver("h200") as cuda:
            self.cuda = cuda
            _, self.context = cuda.get("cuCtxGetCurrent", OUT)
            self.function = cuda.function(PTX)
            runtime = current_session().runtime
            begin_ns = runtime.host_ns
            for step in steps:
                self.codes.append(self._code(step))
                self.ends_ns.append(runtime.host_ns)
            return self.outcome(current_session().trace.timeline(), begin_ns, self._content(cuda))

    def _code(self, step: Step) -> int:
        try:
            return getattr(self, step[0])(*step[1:])
        except KeyError:
            return NOTHING

    def _content(self, cuda: Cuda) -> dict[int, bytes]:
        content = {}
        for number, (address, nbytes) in self.memory.items():
            data = (ctypes.c_uint8 * nbytes)()
            if number in self.pageable:
                content[number] = self.pageable[number].tobytes()
            elif cuda("cuMemcpy", data, address, nbytes) == 0:
                content[number] = bytes(data)
        return content

    def _call(self, name: str, *args: Any, stream: Any = None) -> int:
        """Make a call whose last argument is a *stream*, if there is one."""
        if stream is None:
            return self.cuda(name, *args)
        if stream == "thread":
            twin = "_ptds" if hasattr(self.cuda.library, f"{name}_ptds") else "_ptsz"
            return self.cuda(name + twin, *args, 0)
        return self.cuda(name, *args, self._handle(stream))

    def _handle(self, stream: Any) -> int:
        return self.streams[stream[1]] if isinstance(stream, tuple) else stream

    def stream(self, number: int, flags: int, priority: int) -> int:
        code, handle = self.cuda.get("cuStreamCreateWithPriority", OUT, flags, priority & 0xFFFFFFFF)
        self.streams.update({number: handle} if code == 0 else {})
        return code

    def event(self, number: int, flags: int) -> int:
        code, handle = self.cuda.get("cuEventCreate", OUT, flags)
        self.events.update({number: handle} if code == 0 else {})
        return code

    def end_stream(self, number: int) -> int:
        return self.cuda("cuStreamDestroy_v2", self.streams[number])

    def end_event(self, number: int) -> int:
        return self.cuda("cuEventDestroy_v2", self.events[number])

    def allocate(self, number: int, kind: str, nbytes: int, stream: Any) -> int:
        if kind == "pageable":
            self.own(number, nbytes)
            return 0
        place = ctypes.c_uint64()
        if kind == "pool":
            code = self._call("cuMemAllocAsync", ctypes.byref(place), nbytes, stream=stream)
        else:
            code = self.cuda(_ALLOCATE[kind], ctypes.byref(place), nbytes, 1)
        self.memory.update({number: (place.value, nbytes)} if code == 0 else {})
        self.managed += [number] * (kind == "managed")
        return code

    def free(self, number: int, _: Any) -> int:
        code = self.cuda("cuMemFree_v2", self.memory[number][0])
        if code == 0 and number in self.managed:
            self.let_go(number)
        return code

    def free_host(self, number: int, _: Any) -> int:
        code = self.cuda("cuMemFreeHost", self.memory[number][0])
        if code == 0:
            self.let_go(number)
        return code

    def free_async(self, number: int, stream: Any) -> int:
        return self._call("cuMemFreeAsync", self.memory[number][0], stream=stream)

    def copy(self, dst: Any, src: Any, nbytes: int, _: Any) -> int:
        return self.cuda("cuMemcpy", self.address(dst), self.address(src), nbytes)

    def copy_async(self, dst: Any, src: Any, nbytes: int, stream: Any) -> int:
        return self._call("cuMemcpyAsync", self.address(dst), self.address(src), nbytes, stream=stream)

    def peer(self, dst: Any, src: Any, nbytes: int, _: Any) -> int:
        return self.cuda("cuMemcpyPeer", self.address(dst), self.context, self.address(src), self.context, nbytes)

    def peer_async(self, dst: Any, src: Any, nbytes: int, stream: Any) -> int:
        ends = self.address(dst), self.context, self.address(src), self.context
        return self._call("cuMemcpyPeerAsync", *ends, nbytes, stream=stream)

    def _box(self, dst: Any, src: Any, pitches: tuple[int, int], width: int, height: int) -> Any:
        unified = 4
        ends = [struct.pack("<QQI4xQQQQ", 0, 0, unified, 0, self.address(place), 0, pitch)
                for place, pitch in zip((src, dst), reversed(pitches), strict=True)]  # fmt: skip
        return ctypes.create_string_buffer(b"".join(ends) + struct.pack("<QQ", width, height))

    def rows(self, dst: Any, src: Any, pitches: tuple[int, int], width: int, height: int, _: Any) -> int:
        return self.cuda("cuMemcpy2D_v2", self._box(dst, src, pitches, width, height))

    def rows_async(self, dst: Any, src: Any, pitches: tuple[int, int], width: int, height: int, stream: Any) -> int:
        return self._call("cuMemcpy2DAsync_v2", self._box(dst, src, pitches, width, height), stream=stream)

    def fill(self, place: Any, value: int, unit: int, count: int, _: Any) -> int:
        word = int.from_bytes(bytes([value]) * unit, "little")
        return self.cuda(f"cuMemset{_FILLS[unit]}_v2", self.address(place), word, count)

    def fill_async(self, place: Any, value: int, unit: int, count: int, stream: Any) -> int:
        word = int.from_bytes(bytes([value]) * unit, "little")
        return self._call(f"cuMemset{_FILLS[unit]}Async", self.address(place), word, count, stream=stream)

    def launch(self, place: Any, value: int, count: int, threads: int, stream: Any) -> int:
        values = ctypes.c_uint64(self.address(place)), ctypes.c_uint32(value), ctypes.c_uint32(count)
        shape = -(-count // threads), 1, 1, threads, 1, 1, 0
        name, handle = ("cuLaunchKernel_ptsz", 0) if stream == "thread" else ("cuLaunchKernel", self._handle(stream))
        return self.cuda(name, self.function, *shape, handle, pointers(*values), None)

    def host(self, tag: int, stream: Any) -> int:
        function = _HOST_FUNCTION(self.told.append)
        self.kept[len(self.kept)] = function
        name, handle = (
            ("cuLaunchHostFunc_ptsz", 0) if stream == "thread" else ("cuLaunchHostFunc", self._handle(stream))
        )
        return self.cuda(name, handle, ctypes.cast(function, ctypes.c_void_p), tag)

    def record(self, event: int, stream: Any) -> int:
        return self._call("cuEventRecord", self.events[event], stream=stream)

    def wait(self, stream: Any, event: int) -> int:
        name, handle = (
            ("cuStreamWaitEvent_ptsz", 0) if stream == "thread" else ("cuStreamWaitEvent", self._handle(stream))
        )
        return self.cuda(name, handle, self.events[event], 0)

    def query_stream(self, stream: Any) -> int:
        return self._call("cuStreamQuery", stream=stream)

    def query_event(self, event: int) -> int:
        return self.cuda("cuEventQuery", self.events[event])

    def elapsed(self, first: int, second: int) -> int:
        place = ctypes.c_float(-1)
        code = self.cuda("cuEventElapsedTime_v2", ctypes.byref(place), self.events[first], self.events[second])
        self.told += [place.value] if code == 0 else []
        return code

    def memory_info(self) -> int:
        code, *told = self.cuda.get("cuMemGetInfo_v2", OUT, OUT)
        self.told += [told] if code == 0 else []
        return code

    def sync_stream(self, stream: Any) -> int:
        return self._call("cuStreamSynchronize", stream=stream)

    def sync_event(self, event: int) -> int:
        return self.cuda("cuEventSynchronize", self.events[event])

    def sync(self) -> int:
        return self.cuda("cuCtxSynchronize")

    def in_thread(self, step: Step) -> int:
        """Make a call in a thread of its own, in the same context."""
        codes = []

        def run() -> None:
            codes.append(self.cuda("cuCtxSetCurrent", self.context))
            codes.append(self._code(step))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert codes[0] == 0
        return codes[1]


class InVerbs(Player):
    """Plays a program with verbs, in a simulation of its own."""

    def play(self, steps: list[Step]) -> Outcome:
        return asyncio.run(self._play(steps))

    async def _play(self, steps: list[Step]) -> Outcome:
        async with acl_py.simulate(device="h200", rules="cuda", workers=1) as sim:
            await acl_py.SetDevice(0)
            self.context = await acl_py.GetCurrentContext()
            self.kernel = (await acl_py.ptx.load(PTX))["add"]
            begin_ns = sim.now_ns
            for step in steps:
                self.codes.append(await self._code(step))
                self.ends_ns.append(sim.now_ns)
            return self.outcome(sim.trace.timeline(), begin_ns, await self._content())

    async def _code(self, step: Step) -> int:
        try:
            return await getattr(self, step[0])(*step[1:]) or 0
        except KeyError:
            return NOTHING
        except AclError as error:
            return code_of(error)

    async def _content(self) -> dict[int, bytes]:
        content = {}
        for number, (address, nbytes) in self.memory.items():
            data = np.zeros(nbytes, np.uint8)
            if number in self.pageable:
                content[number] = self.pageable[number].tobytes()
            else:
                try:
                    await acl_py.Memcpy(data, nbytes, address, nbytes, _ANY)
                    content[number] = data.tobytes()
                except AclError:
                    pass
        return content

    def _stream(self, stream: Any) -> Any:
        if isinstance(stream, tuple):
            return self.streams[stream[1]]
        return PER_THREAD_STREAM if stream in ("thread", 2) else LEGACY_STREAM if stream == 1 else None

    def _place(self, place: tuple[int, int]) -> Any:
        number, offset = place
        return self.pageable[number][offset:] if number in self.pageable else self.address(place)

    async def stream(self, number: int, flags: int, priority: int) -> None:
        self.streams[number] = await acl_py.CreateStream(nonblocking=bool(flags), priority=priority)

    async def event(self, number: int, flags: int) -> None:
        self.events[number] = await acl_py.CreateEvent(timing=not flags & 2, blocking=bool(flags & 1))

    async def end_stream(self, number: int) -> None:
        await acl_py.DestroyStream(self.streams[number])

    async def end_event(self, number: int) -> None:
        await acl_py.DestroyEvent(self.events[number])

    async def allocate(self, number: int, kind: str, nbytes: int, stream: Any) -> None:
        if kind == "pageable":
            self.own(number, nbytes)
            return
        if kind == "pool":
            buffer = await acl_py.MallocAsync(nbytes, self._stream(stream))
        else:
            verbs = {"device": acl_py.Malloc, "pinned": acl_py.MallocHost, "managed": acl_py.MallocManaged}
            buffer = await verbs[kind](nbytes)
        self.memory[number] = buffer.address, nbytes
        self.managed += [number] * (kind == "managed")

    async def free(self, number: int, _: Any) -> None:
        await acl_py.Free(self.memory[number][0])
        if number in self.managed:
            self.let_go(number)

    async def free_host(self, number: int, _: Any) -> None:
        await acl_py.FreeHost(self.memory[number][0])
        self.let_go(number)

    async def free_async(self, number: int, stream: Any) -> None:
        await acl_py.FreeAsync(self.memory[number][0], self._stream(stream))

    def _ends(self, dst: Any, src: Any, nbytes: int) -> tuple[Any, Any]:
        self.address(dst), self.address(src)  # were made: also those of a copy of no bytes, which are not looked at
        return (self._place(dst), self._place(src)) if nbytes else (_NOWHERE, _NOWHERE)

    async def copy(self, dst: Any, src: Any, nbytes: int, _: Any) -> None:
        to, source = self._ends(dst, src, nbytes)
        await acl_py.Memcpy(to, nbytes, source, nbytes, _ANY)

    async def copy_async(self, dst: Any, src: Any, nbytes: int, stream: Any) -> None:
        to, source = self._ends(dst, src, nbytes)
        await acl_py.MemcpyAsync(to, nbytes, source, nbytes, _ANY, self._stream(stream))

    peer, peer_async = copy, copy_async

    async def rows(self, dst: Any, src: Any, pitches: tuple[int, int], width: int, height: int, _: Any) -> None:
        ends = self._place(dst), pitches[0], self._place(src), pitches[1]
        await acl_py.Memcpy2d(*ends, width, height, _ANY)

    async def rows_async(self, dst: Any, src: Any, pitches: tuple[int, int], width: int, height: int, on: Any) -> None:
        ends = self._place(dst), pitches[0], self._place(src), pitches[1]
        await acl_py.Memcpy2dAsync(*ends, width, height, _ANY, self._stream(on))

    async def fill(self, place: Any, value: int, unit: int, count: int, _: Any) -> None:
        await acl_py.Memset(self._place(place), unit * count, value, unit * count)

    async def fill_async(self, place: Any, value: int, unit: int, count: int, stream: Any) -> None:
        await acl_py.MemsetAsync(self._place(place), unit * count, value, unit * count, self._stream(stream))

    async def launch(self, place: Any, value: int, count: int, threads: int, stream: Any) -> None:
        values = np.uint64(self.address(place)), np.uint32(value), np.uint32(count)
        await self.kernel[-(-count // threads), threads, self._stream(stream)](*values)

    async def host(self, tag: int, stream: Any) -> None:
        await acl_py.LaunchHostFunc(self._stream(stream), _HOST_FUNCTION(self.told.append), (tag,))

    async def record(self, event: int, stream: Any) -> None:
        await acl_py.RecordEvent(self.events[event], self._stream(stream))

    async def wait(self, stream: Any, event: int) -> None:
        await acl_py.StreamWaitEvent(self._stream(stream), self.events[event])

    async def query_stream(self, stream: Any) -> int:
        return 600 if await acl_py.StreamQuery(self._stream(stream)) is acl_py.Status.NOT_READY else 0

    async def query_event(self, event: int) -> int:
        return 600 if await acl_py.EventQuery(self.events[event]) is acl_py.Status.NOT_READY else 0

    async def elapsed(self, first: int, second: int) -> None:
        elapsed_ms = await acl_py.EventElapsedTime(self.events[first], self.events[second])
        self.told.append(ctypes.c_float(elapsed_ms).value)

    async def memory_info(self) -> None:
        self.told.append(list(await acl_py.GetMemInfo()))

    async def sync_stream(self, stream: Any) -> None:
        await acl_py.SynchronizeStream(self._stream(stream))

    async def sync_event(self, event: int) -> None:
        await acl_py.SynchronizeEvent(self.events[event])

    async def sync(self) -> None:
        await acl_py.SynchronizeDevice()

    async def in_thread(self, step: Step) -> int:
        await acl_py.SetCurrentContext(self.context)
        return await self._code(step)
