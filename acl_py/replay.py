"""Replay: a stream program runs on a simulated device, through the same verbs as everybody's, without an event loop.

What the device and the runtime cost is in the profile. Three numbers are not theirs but belong to the script that made
the measured programs, so they stand here: the time between two of its calls, what it hid before registering memory, and
how long it took until a fault was seen.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import acl_py.memory as mem
from acl_py import copies, devices, events, fills, host, streams
from acl_py.blocking import BlockingBridge, finish
from acl_py.callbacks import LaunchHostFunc
from acl_py.errors import AclError, DeviceError, Kind
from acl_py.faults import Fault, Guard, Rule
from acl_py.kernels import Cost, KernelFunction, LaunchKernel, kernel
from acl_py.programs import Program, Step
from acl_py.runtime import Runtime
from acl_py.scopes import SUCCESS, Scope, last_error, scope_var
from acl_py.simulation import build
from acl_py.trace import Trace
from device_model.memory import Space
from device_model.ops import Copy, Fill, HostFunction, Op
from device_model.profile import DeviceProfile
from device_model.rules import KernelFailure, SyncRules
from device_model.scheduler import Completion
from device_model.workers import Workers

GAP_NS = 380  # between two calls (measured: timelines, medians of 0.32 to 0.42 us for every pair of calls)
TOUCH_NS_PER_MIB = (
    409_000  # the script's host_register allocates and fills before the call (measured: 1,636 us for 4 MiB)
)
FAULT_US = 151_000.0  # from a bad address to the error (measured: sticky_error, the wait after the poke)

_ON_DEVICE = ("launch", "poke", "memcpy_async", "memcpy", "memset_async", "memset")


@dataclass(frozen=True, slots=True)
class HostCall:
    """What one step did to the host.

    *ret* is the code under the rules; *extra* is milliseconds for `elapsed`, [[start, end]] for a host function.
    """

    step: int
    enter_us: float
    exit_us: float
    ret: int
    extra: Any


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """When an operation ran, from the start of the program's first operation on."""

    start_us: float
    end_us: float
    engine: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A program that ran; `makespan_us` is the return of a device sync that follows its last step. `rules` are the
    fault rules that were in force: they say what they saw and struck.
    """

    program: Program
    host: list[HostCall]
    device: dict[str, DeviceTime]
    makespan_us: float
    trace: Trace = field(repr=False)
    rules: tuple[Rule, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `acl-py replay --json` writes."""
        calls = [
            {name: getattr(call, name) for name in ("step", "enter_us", "exit_us", "ret", "extra")}
            for call in self.host
        ]
        device = {
            id_: {"start_us": time.start_us, "end_us": time.end_us, "engine": time.engine}
            for id_, time in self.device.items()
        }
        return {"id": self.program.id, "host": calls, "device": device, "makespan_us": self.makespan_us}


def replay(
    program: Program,
    *,
    device: str | Path | DeviceProfile = "h200",
    rules: str | SyncRules | None = None,
    faults: Sequence[Fault] = (),
) -> Replay:
    """Run *program* on a fresh simulation of *device* under *rules* (by default the device's own), with *faults*.

    Raises:
        DeadlockError: a step waits for what never ends, or what a fault rule lets hang.
    """
    # In a context of its own: the current device and the last error of the caller are not the program's.
    return copy_context().run(_replay, program, device, rules, faults)


def _replay(
    program: Program, device: str | Path | DeviceProfile, rules: str | SyncRules | None, faults: Sequence[Fault]
) -> Replay:
    runtime, trace = build(device, rules)
    assert trace is not None, "build() records unless told otherwise"
    runtime.bridge = BlockingBridge(runtime, alone=True)
    runtime.workers = _LightWorkers(runtime.scheduler, 1)
    scope_var.set(Scope(runtime, runtime.device(0).primary))
    last_error.set(SUCCESS)
    try:
        player = Player(program, runtime)
        guards = [Guard(runtime, [fault]) for fault in faults]
        calls = [player.play(step) for step in program.steps]
        for guard in guards:
            guard.remove()  # the last synchronisation is not the program's
        injected = tuple(rule for guard in guards for rule in guard.rules)
        end = player.end()
        return Replay(program, player.host_calls(calls), player.device_times(calls, trace), end, trace, injected)
    finally:
        runtime.close("the replay is over")


@dataclass(frozen=True, slots=True)
class Played:
    """One step as it was run; *answer* is what the verb gave."""

    step: Step
    enter_ns: int
    exit_ns: int
    ret: int
    answer: Any


class _LightWorkers(Workers):
    """Nobody looks at the bytes of a replay, so large ones stay where they are: moving them is 9 tenths of its time."""

    def run(self, op: Op) -> None:
        """Let *op* take effect: all its checks, on no bytes."""
        work = op.work
        assert isinstance(work, Copy | Fill), f"{op!r} is no copy and no fill"
        nbytes, work.nbytes = work.nbytes, 0
        super().run(op)
        work.nbytes = nbytes


class Player:
    """Makes the calls of one program. Its coroutines are named after the ops and take their fields."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        self.runtime = runtime
        self.not_ready = runtime.rules.codes[Kind.NOT_READY].value
        # A call that failed has made nothing: its name stands for a null address, or for a handle that is none.
        self.memory: defaultdict[str, mem.Memory] = defaultdict(int)
        has_legacy = runtime.device(0).primary.legacy is not None
        default = (
            streams.LEGACY_STREAM if has_legacy else None
        )  # of programs: what their language calls the default one
        self.streams: defaultdict[str, Any] = defaultdict(lambda: default)
        self.events: defaultdict[str, Any] = defaultdict(lambda: None)
        self.streams["per_thread"] = streams.PER_THREAD_STREAM
        # What is there before the first call has cost no time: it is made in the model, not by calls.
        context = runtime.device(0).primary
        for name, buffer in program.buffers.items():
            self.memory[name] = _make(runtime, **buffer)
        for name, options in program.streams.items():
            nonblocking = options["flags"] == "nonblocking"
            stream = context.create_stream(nonblocking=nonblocking, priority=options["priority"], made=program.id)
            stream.name = name  # as traces and messages call it
            self.streams[name] = stream
        for name, options in program.events.items():
            self.events[name] = context.create_event(timing=options["timing"], made=program.id)

    def play(self, step: Step) -> Played:
        """Make one call."""
        runtime = self.runtime
        runtime.pay(GAP_NS)
        if step.op == "host_register":
            runtime.pay(TOUCH_NS_PER_MIB * step.fields["bytes"] >> 20)
        verb: Callable[..., Coroutine[Any, Any, Any]] = getattr(self, step.op)
        enter, ret = runtime.host_ns, 0
        answer: Any = None
        try:
            answer = finish(verb(**step.fields))
        except AclError as error:
            ret = error.code
        if answer is streams.Status.NOT_READY:
            ret = self.not_ready
        elif step.op in ("get_last_error", "peek_error"):
            ret = answer
        return Played(step, enter, runtime.host_ns, ret, answer)

    def end(self) -> float:
        """Synchronise the device once more: the makespan."""
        self.runtime.pay(GAP_NS)
        try:
            finish(devices.SynchronizeDevice())
        except AclError as error:  # the program's work has failed, and this call is one that says so
            lost = self.runtime.device(0).primary.error is not None
            if not lost and self.runtime.rules.kernel_failure is KernelFailure.STICKY:
                raise AssertionError(f"a device that is well refused to synchronise: {error}") from error
        return _us(self.runtime.host_ns)

    def host_calls(self, calls: list[Played]) -> list[HostCall]:
        """The host's side, when all is over."""
        return [
            HostCall(call.step.index, _us(call.enter_ns), _us(call.exit_ns), call.ret, _extra(call.answer))
            for call in calls
        ]

    def device_times(self, calls: list[Played], trace: Trace) -> dict[str, DeviceTime]:
        """The device's side: each named step with the operations that were queued during its call."""
        spans = self.spans(calls, trace)
        first = min((start for start, _, _ in spans.values()), default=0)
        return {
            id_: DeviceTime((start - first) / 1000, (end - first) / 1000, engine)
            for id_, (start, end, engine) in (
                (call.step.id, spans[call.step.index]) for call in calls if call.step.index in spans
            )
            if id_ is not None
        }

    def spans(self, calls: list[Played], trace: Trace) -> dict[int, tuple[int, int, str]]:
        """Start, end and engine of what each step had done on the device, or on the host in its stead."""
        ops = sorted(trace.ops, key=lambda op: op.queued_ns)
        queued = [op.queued_ns for op in ops]
        spans: dict[int, tuple[int, int, str]] = {}
        for call in calls:
            if call.step.op not in _ON_DEVICE or call.ret:
                continue
            own = ops[bisect_left(queued, call.enter_ns) : bisect_right(queued, call.exit_ns)]
            if own:
                spans[call.step.index] = min(op.start_ns for op in own), max(op.end_ns for op in own), own[0].engine
            elif self._is_by_host(call.step):  # the card's trace shows it as one operation as long as the call
                spans[call.step.index] = call.enter_ns, call.exit_ns, "host"
        return spans

    def _is_by_host(self, step: Step) -> bool:
        if step.op not in ("memcpy", "memcpy_async") or not step.fields["bytes"]:
            return False
        return all(_space(self.memory[step.fields[end]]) is not Space.DEVICE for end in ("dst", "src"))

    # --- the ops

    async def launch(self, stream: str, us: float, blocks: int, exclusive: bool) -> Completion:
        return await LaunchKernel(_spin(us, exclusive), blocks, (), self.streams[stream])

    async def poke(self, addr: int, stream: str) -> Completion:
        return await LaunchKernel(_poke(addr), 1, (), self.streams[stream])

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
        self.memory[name] = await mem.Malloc(bytes)

    async def free(self, name: str) -> None:
        await mem.Free(self.memory[name])

    async def malloc_host(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.MallocHost(bytes)

    async def free_host(self, name: str) -> None:
        await mem.FreeHost(self.memory[name])

    async def host_register(self, name: str, bytes: int) -> None:  # noqa: A002
        self.memory[name] = await mem.HostRegister(np.zeros(bytes, np.uint8))

    async def host_unregister(self, name: str) -> None:
        await mem.HostUnregister(self.memory[name])

    async def malloc_async(self, name: str, bytes: int, stream: str) -> None:  # noqa: A002
        self.memory[name] = await mem.MallocAsync(bytes, self.streams[stream])

    async def free_async(self, name: str, stream: str) -> None:
        await mem.FreeAsync(self.memory[name], self.streams[stream])

    async def create_stream(self, name: str, flags: str, priority: int) -> None:
        stream = await streams.CreateStream(nonblocking=flags == "nonblocking", priority=priority)
        stream.name = name
        self.streams[name] = stream

    async def destroy_stream(self, name: str) -> None:
        await streams.DestroyStream(self.streams[name])

    async def create_event(self, event: str, timing: bool) -> None:
        self.events[event] = await events.CreateEvent(timing=timing)

    async def destroy_event(self, event: str) -> None:
        await events.DestroyEvent(self.events[event])

    async def set_device(self) -> None:
        await devices.SetDevice(0)

    async def mem_get_info(self) -> None:
        await mem.GetMemInfo()

    async def host_func(self, stream: str, us: float) -> Completion:
        return await LaunchHostFunc(self.streams[stream], host_function, us=us)

    async def get_last_error(self) -> int:
        return await host.GetLastError()

    async def peek_error(self) -> int:
        return await host.PeekAtLastError()

    def _ends(self, dst: str, dst_off: int, src: str, src_off: int) -> tuple[Any, int, Any]:
        to, source = self.memory[dst], self.memory[src]
        return _behind(to, dst_off), max(0, _size(to) - dst_off), _behind(source, src_off)


def _make(runtime: Runtime, space: str, bytes: int) -> mem.Memory:  # noqa: A002
    if space == "device":
        return runtime.memory.malloc(0, bytes, None)
    if space == "pinned":
        return runtime.memory.malloc_host(bytes, None)
    return np.zeros(bytes, np.uint8)


def _extra(answer: Any) -> Any:
    if isinstance(answer, Op) and isinstance(answer.work, HostFunction) and answer.done:
        return [[_us(answer.start_ns), _us(answer.end_ns)]]
    return answer if isinstance(answer, float) else None


def _us(time_ns: int) -> float:
    return time_ns / 1000


def _behind(memory: mem.Memory, offset: int) -> Any:
    """*memory* from *offset* on; where that is outside, an address, which the call refuses."""
    if isinstance(memory, int):
        return memory + offset
    return memory[offset:] if offset <= memory.nbytes or isinstance(memory, np.ndarray) else memory.address + offset


def _size(memory: mem.Memory) -> int:
    size: int = 0 if isinstance(memory, int) else memory.nbytes
    return size


def _space(memory: mem.Memory) -> Space:
    return Space.PAGEABLE if isinstance(memory, np.ndarray) else memory.allocation.space


def host_function() -> None:
    """Take time, and nothing else."""


@cache
def _spin(us: float, exclusive: bool) -> KernelFunction:
    """A kernel that keeps each block busy for *us* and does nothing else."""

    def spin() -> None:
        """Touch nothing."""

    return kernel(cost=Cost(us=us), exclusive=exclusive)(spin)


@cache
def _poke(address: int) -> KernelFunction:
    """A kernel that writes to *address*. No program knows an address of simulated memory, so it is always a bad one."""

    def poke() -> None:
        """Fault."""
        raise DeviceError(Kind.ILLEGAL_ADDRESS, f"a kernel wrote to {address:#x}, where the device has no memory")

    return kernel(cost=Cost(us=FAULT_US))(poke)
