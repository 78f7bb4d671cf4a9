"""The player of stream programs: it makes the calls of one program, through the ordinary verbs, without an event loop.

The calls are in operations.py, and the objects that they are about in objects.py. Whose turn it is, if a program has
several tasks, is decided in tasks.py. The costs of the device and the runtime are in the profile; the constants here
belong to the script that made the measured programs.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from acl_py.errors import AclError, Kind
from acl_py.programs.collective_operations import CollectiveOperations
from acl_py.programs.format import Program, Step
from acl_py.programs.graph_operations import AbsentError
from acl_py.programs.objects import model_name, space_of
from acl_py.programs.operations import Code
from acl_py.programs.tasks import Tasks, inside
from acl_py.runtime.blocking import finish
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import SUCCESS, last_error
from acl_py.trace import Operation, Trace
from acl_py.verbs import devices
from acl_py.verbs.waits import Status
from device_model.completions import Completion
from device_model.graphs.graph import Node
from device_model.graphs.groups import NewWork
from device_model.graphs.streaks import NodeOp
from device_model.memory import Space
from device_model.observe import Observer
from device_model.ops import Op
from device_model.rules import KernelFailure

TOUCH_NS_PER_MIB = (
    409_000  # the script's host_register allocates and fills before the call (measured: 1,636 us for 4 MiB)
)
HANDOFF_NS = 12_000  # to another host thread, and back (measured: graphs, 10 to 24 us and 10 to 16 us)
AWAKENED_NS = 4_000  # how much longer a call takes in a thread that has slept (measured: graphs, 4 to 6 us)

_Verb: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


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
    """Plays one program: it makes the calls of all steps, and knows when each was made and what it queued."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        self.program = program
        self.runtime = runtime
        self._gap_ns = runtime.profile.host.gap if program.gap_ns is None else program.gap_ns
        self.not_ready = runtime.rules.codes[Kind.NOT_READY].value
        self._threads: defaultdict[str, _Thread] = defaultdict(_Thread)  # besides the main one
        self._tasks = Tasks(runtime, program.steps)
        runtime.bridge = self._tasks
        self._queuers = _Queuers(self._tasks)
        runtime.hooks.add(self._queuers)
        sanitizer = runtime.sanitizer
        self._races = None if sanitizer is None else sanitizer.races
        if sanitizer is not None and self._races is not None:
            tasks = len({step.task for step in program.steps})
            self._races.hosts.play(tasks, recorded=program.is_recorded)
            sanitizer.tell()
        self._points: dict[int, Any] = {step.after: () for step in program.steps if step.after is not None}
        self.runs: dict[int, list[tuple[int, int]]] = {}  # of the operations of each step; a node has several
        self.calls: dict[int, Played] = {}  # those that have returned, by the index of the step
        self.operations = CollectiveOperations(program, runtime, self._tasks)

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
        runtime.pay(self._gap_ns)
        if step.fields.get("fill"):
            runtime.pay(TOUCH_NS_PER_MIB * step.fields["bytes"] >> 20)
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        enter, ret = runtime.host_ns, 0
        if step.thread is not None:
            runtime.pay(AWAKENED_NS)
        answer: Any = None
        try:
            answer = await self._call(step)
        except (AclError, AbsentError) as error:
            ret = error.code
        exit_ns = runtime.host_ns
        if step.thread is not None:
            runtime.pay(HANDOFF_NS)
        if answer is Status.NOT_READY:
            ret = self.not_ready
        elif isinstance(answer, Code):
            ret = int(answer)
        if step.id is not None and isinstance(answer, Completion):
            self.operations.queued[step.id] = answer
        if self._races is not None and step.index in self._points:
            self._points[step.index] = self._races.hosts.give()
        self.calls[step.index] = Played(step, enter, exit_ns, ret, answer)

    async def _call(self, step: Step) -> Any:
        verb = self.operations.call(step.op)
        at_line = _caller_at(step.line)
        if step.thread is None:
            return await at_line(verb, step.fields)
        thread, fields = self._threads[step.thread], dict(step.fields)
        if fields.get("stream") == "per_thread":
            fields["stream"] = self._per_thread(thread, step.thread)
        self.runtime.captures.acting = thread
        try:
            return await inside(thread.context, at_line(verb, fields))
        finally:
            self.runtime.captures.acting = None

    def _per_thread(self, thread: "_Thread", name: str) -> Hashable:
        """Return the name of the per-thread default stream of a host thread: an ordinary blocking stream of its own.

        Under rules without per-thread streams it is the one that the verbs refuse.
        """
        context = self.runtime.device(0).primary
        if context.per_thread is None:
            return "per_thread"
        if thread not in self.operations.streams:
            own = model_name(f"per_thread of {name}")
            self.operations.streams[thread] = context.create_stream(
                nonblocking=False, priority=0, made=self.program.id, name=own
            )
        return thread

    def end(self) -> float:
        """Synchronise the device once more, and return the makespan in microseconds."""
        with self._within_time():
            return self._end()

    def _end(self) -> float:
        host = self.runtime.profile.host
        self.runtime.pay(host.gap + host.gap_last if self.program.gap_ns is None else self.program.gap_ns)
        try:
            finish(devices.SynchronizeDevice())
        except AclError as error:
            if error.kind is Kind.CAPTURE_UNSUPPORTED:  # the program has left a capture open
                return self.runtime.host_ns / 1000
            # The program's work has failed, and this call reports it.
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
            if call.step.work in ("", "function") or call.ret:
                continue
            own = (
                queued[call.step.index] or staged[bisect_left(times, call.enter_ns) : bisect_right(times, call.exit_ns)]
            )
            if own:
                self.runs[call.step.index] = [(op.start_ns, op.end_ns) for op in own]
                spans[call.step.index] = min(op.start_ns for op in own), max(op.end_ns for op in own), own[0].engine
            elif self._is_by_host(call.step):  # the card's trace shows one operation of the length of the call
                spans[call.step.index] = call.enter_ns, call.exit_ns, "host"
        return spans

    def _is_by_host(self, step: Step) -> bool:
        if step.work != "copy":
            return False
        nbytes = step.fields["bytes"] if "bytes" in step.fields else step.fields["width"] * step.fields["height"]
        if not nbytes:
            return False
        return all(space_of(self.operations.memory[step.fields[end]]) is not Space.DEVICE for end in ("dst", "src"))

    @contextmanager
    def _within_time(self) -> Iterator[None]:
        try:
            yield
        except OverflowError as error:
            raise self.operations.unplayable(str(error)) from error


class _Thread:
    """A host thread other than the main one. It begins without a last error. Its per-thread default stream has it as
    its name.
    """

    __slots__ = ("__weakref__", "context")

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(last_error.set, SUCCESS)


class _Queuers(Observer):
    """Notes which step has queued each operation: `ended` has its index in the order of ends, as the trace does."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._steps: dict[Op, int] = {}
        self._captured: list[int] = []  # by the number that the trace gives to a captured node
        self.ended: list[int | None] = []

    def op_queued(self, op: Op) -> None:
        if isinstance(op, NodeOp):  # of a launch: the step that captured it counts
            self._steps[op] = self._captured[op.capture]
            return
        task = self._tasks.running
        if task is not None and task.step is not None:
            self._steps[op] = task.step.index

    def captured(self, op: Op, taken: Node | NewWork) -> None:  # noqa: ARG002 - their order is what counts
        task = self._tasks.running
        assert task is not None, "a step captures"
        assert task.step is not None, "a step captures"
        self._captured.append(task.step.index)

    def op_ended(self, op: Op) -> None:
        self.ended.append(self._steps.pop(op, None))
