"""The programs that were measured on an H200, played through the verbs on a card: codes, answers and waits as recorded.

A kernel holds the card for its time (`bodies="time"`); those that change or touch bytes are in PTX. A host function
lasts as long as it is recorded with. Times are read from a clock: on a real card it is that of the host, and on the
simulated driver that of its session, so that waits show there, too.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from math import inf
from typing import Any, NamedTuple

import numpy as np

import acl_py
from acl_py.compat.acl.face.session import current_session
from acl_py.errors import AclError, Kind
from acl_py.programs import objects
from acl_py.programs.format import Program, Step, parse
from acl_py.programs.graph_operations import AbsentError, GraphOperations
from acl_py.runtime.scopes import SUCCESS, current_scope, last_error
from acl_py.verbs.waits import Status
from device_model.completions import Completion
from tests.conformance.criteria import LONG_US, measured
from tests.cuda.calling import PTX
from tests.forks import ROOT

FILES = ("semantics", "graphs", "waits", "managed", "staging", "pageable", "gaps", "timelines", "timelines2")
FATAL = "sticky_error"
POKE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry poke(.param .u64 at) { .reg .u64 %a; ld.param.u64 %a, [at]; st.global.u32 [%a], 1; ret; }
"""
_NOT_READY = 600
_EARLY = "memcpy-peer-self"  # its copy is shorter than the verbs are longer than the bare calls
_LATE = "capture-event-afterwards"  # that card noticed a record in an idle stream a few microseconds after the call
_ONE_LONG = 3  # a call that waited there for a millisecond waits here for a third of it at least


class Answer(NamedTuple):
    """What a step has come to."""

    code: int
    value: Any
    us: float
    end_us: float  # after the beginning of the first step


class _Turn:
    """Whose turn it is: always the only task, with its `step`."""

    def __init__(self) -> None:
        self.step: Step | None = None

    @property
    def running(self) -> "_Turn":
        return self


class OnCard(GraphOperations):
    """The calls of one program on a card; *sleeps* says whether host functions and work of the host take real time."""

    def __init__(self, program: Program, kernels: dict[str, Any], *, sleeps: bool) -> None:
        self.turn: Any = _Turn()
        self.kernels = kernels
        self.sleeps = sleeps
        super().__init__(program, current_scope().runtime, self.turn)

    def _make(self, where: str, space: str, bytes: int, device: int) -> Any:  # noqa: A002 - the format's name
        if space != "device":
            return super()._make(where, space, bytes, device)
        buffer = self.runtime.memory.malloc(device, bytes, None)
        driver: Any = self.runtime.driver  # type: ignore[attr-defined]
        driver(driver.cu.cuMemsetD8, buffer.address, 0, min(bytes, 4))
        return buffer

    def _rest(self, us: float) -> None:
        if self.sleeps:
            time.sleep(us / 1e6)

    async def inc(self, buf: str, by: int, stream: str) -> Completion:
        memory = self.memory[buf]
        if not objects.is_reached(memory, 4):
            return await self._poke(memory, stream)
        return await self.kernels["add"][1, 32, self.streams[stream]](memory, np.uint32(by & 0xFFFFFFFF), np.uint32(1))

    async def touch(self, buf: str, bytes: int, write: bool, stream: str) -> Completion:  # noqa: A002
        memory = self.memory[buf]
        if not objects.is_reached(memory, bytes):
            return await self._poke(memory, stream)
        count = bytes // 4
        return await self.kernels["add"][-(-count // 256), 256, self.streams[stream]](
            memory, np.uint32(0), np.uint32(count)
        )

    async def poke(self, addr: int, stream: str) -> Completion:
        return await self.kernels["poke"][1, 1, self.streams[stream]](np.uint64(addr))

    async def _poke(self, memory: Any, stream: str) -> Completion:
        return await self.poke(objects.address_of(memory), stream)

    async def host_func(self, stream: str, us: float, buf: str | None, by: int, **_: Any) -> Completion:
        counter = None if buf is None else self.counter(buf)

        def function() -> None:
            self._rest(us)
            if counter is not None:
                counter[0] += by

        return await acl_py.LaunchHostFunc(self.streams[stream], function)

    async def add_callback(self, stream: str, us: float) -> Completion:
        found = self.streams[stream]
        if getattr(found, "branch", None) is not None:
            self.runtime.captures.refuse_stream(self.runtime, found, "StreamAddCallback")
        return await acl_py.LaunchHostFunc(found, lambda: self._rest(us))

    async def host_work(self, us: float, name: str | None) -> None:
        self._rest(us)

    def _use_pages(self, *_: Any, **__: Any) -> None:
        """Do nothing: the pages are the driver's."""


class _Clock:
    """Microseconds of the host: real ones, or those of the session of the simulated driver."""

    def __init__(self, *, is_real: bool) -> None:
        self._is_real = is_real

    def us(self) -> float:
        if self._is_real:
            return time.perf_counter() * 1e6
        session = current_session()
        assert session is not None, "the simulated driver has a session"
        return session.runtime.host_ns / 1000


async def play(document: dict[str, Any], is_real: bool) -> dict[int, Answer]:
    """Make the calls of the program *document*; return what each has come to, by the number of its step."""
    program = parse(document)
    await acl_py.GetCurrentContext()
    kernels = {**await _loaded(PTX, "add"), **await _loaded(POKE, "poke")}
    operations, clock = OnCard(program, kernels, sleeps=is_real), _Clock(is_real=is_real)
    threads: dict[str, _Thread] = {}
    answers, origin = {}, clock.us()
    for step in program.steps:
        operations.turn.step = step
        begin = clock.us()
        code, value = await _code(operations, step, threads)
        end = clock.us()
        answers[step.index] = Answer(code, value, end - begin, end - origin)
        if step.id is not None and isinstance(value, Completion):
            operations.queued[step.id] = value
    try:
        await acl_py.SynchronizeDevice()
    except AclError as error:
        if error.kind is not Kind.CAPTURE_UNSUPPORTED and not document.get("fatal"):
            raise
    return answers


async def _loaded(text: str, name: str) -> dict[str, Any]:
    return {name: (await acl_py.ptx.load(text))[name]}


class _Thread:
    """A host thread other than the main one: what it would have of its own."""

    def __init__(self) -> None:
        self.context: Context = copy_context()
        self.context.run(last_error.set, SUCCESS)


async def _code(operations: OnCard, step: Step, threads: dict[str, _Thread]) -> tuple[int, Any]:
    try:
        value = await _call(operations, step, threads)
    except (AclError, AbsentError) as error:
        return int(error.code), None
    if value is Status.NOT_READY:
        return _NOT_READY, value
    return (int(value), None) if type(value).__name__ == "Code" else (0, value)


async def _call(operations: OnCard, step: Step, threads: dict[str, _Thread]) -> Any:
    if step.thread is None:
        return await operations.call(step.op)(**step.fields)
    thread, fields = threads.setdefault(step.thread, _Thread()), dict(step.fields)
    if fields.get("stream") == "per_thread":
        fields["stream"] = _per_thread(operations, step.thread)
    operations.runtime.captures.acting = thread
    try:
        return await asyncio.create_task(operations.call(step.op)(**fields), context=thread.context)
    finally:
        operations.runtime.captures.acting = None


def _per_thread(operations: OnCard, thread: str) -> str:
    """Return the name of the per-thread default stream of a host thread: a blocking stream of its own."""
    name = f"per_thread of {thread}"
    if name not in operations.streams:
        context = operations.runtime.device(0).primary
        operations.streams[name] = context.create_stream(nonblocking=False, priority=0, made=thread)
    return name


def wrong(document: dict[str, Any], answers: dict[int, Answer], *, is_real: bool) -> list[str]:
    """Return what differs from what was recorded, a line each."""
    lines = []
    for card in document["observed"]["host"]:
        step, ours = card["step"], answers[card["step"]]
        where = f"{document['id']}, step {step} ({document['steps'][step]['op']})"
        if ours.code not in card["ret"] and not _is_excused(document, step):
            lines.append(f"{where}: code {ours.code}, recorded {card['ret']}")
        elif (seen := _answer(document["steps"][step]["op"], card.get("extra"))) is not None:
            got = _own(document["steps"][step]["op"], ours.value)
            lines += [f"{where}: answer {got}, recorded {seen}"] * (got != seen)
        # A verb takes longer than a bare call, so a wait may begin later; but it ends no sooner than that one.
        is_short = ours.us < card["cost_us"] / _ONE_LONG and ours.end_us < card.get("exit_us", inf)
        if card["cost_us"] >= 2 * LONG_US and is_short and is_real:
            lines.append(f"{where}: {ours.us:.0f} us, and it waited for {card['cost_us']:.0f} us")
    return lines


def _is_excused(document: dict[str, Any], step: int) -> bool:
    """Whether a query may find less to do: the verb before it, Memcpy(), has waited for the last bytes, too."""
    op, before = (document["steps"][each]["op"] for each in (step, step - 1))
    found = document["id"], op
    return (op == "query_stream" and before == "memcpy") or found in (
        (_LATE, "query_event"), (_EARLY, "query_stream")
    )  # fmt: skip


_TOLD = ("is_capturing", "capture_info", "host_read", "pointer_attributes", "range_attribute", "get_priority")


def _answer(op: str, extra: Any) -> Any:
    """Return what was recorded, if it is not about time or addresses."""
    if op == "nodes" and isinstance(extra, dict):
        return [extra["nodes"], extra["edges"]]
    return extra if op in _TOLD else None


def _own(op: str, value: Any) -> Any:
    if op == "nodes":
        return [value["nodes"], value["edges"]]
    if op == "is_capturing":
        return int(value)
    return [*value] if op == "capture_info" else value


def documents(names: Iterable[str] = (*FILES, FATAL)) -> list[dict[str, Any]]:
    """Return the measured programs of the files, those that are in two files once; no card has conditional nodes."""
    found = {each["id"]: each for name in names for each in measured(name)}
    return [each for each in found.values() if not any(step["op"] == "add_if" for step in each["steps"])]


def check(document: dict[str, Any], *, is_real: bool) -> list[str]:
    """Play a program in a run of its own, and return what differs."""
    answers = acl_py.run(play, document, is_real, device="cuda:0", rules="cuda", bodies="time", trace=False)
    return wrong(document, answers, is_real=is_real)


def in_process(document: dict[str, Any], *, is_real: bool) -> list[str]:
    """Play a program that loses the card in a process of its own, and return what differs."""
    more = ["--on-card"] if is_real else []
    command = [sys.executable, "-m", "tests.card", "conformance", "--only", document["id"], *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


def conformance(*, is_real: bool, only: str | None = None, tell: Callable[[str], None] = print) -> int:
    """Play the programs, and return how many differ. Fatal ones have a process of their own."""
    count = differ = 0
    for document in documents():
        if only is not None and document["id"] != only:
            continue
        apart = document.get("fatal") and only is None
        lines = in_process(document, is_real=is_real) if apart else check(document, is_real=is_real)
        count += 1
        differ += bool(lines)
        for line in lines:
            tell(line)
    tell(f"{count} programs, {differ} differ")
    return differ
