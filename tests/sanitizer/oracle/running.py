"""Runs a stream program as an ordinary asyncio program, in which every step has lines of its own.

`source` writes it: a coroutine for each task, a call for each step. `run` runs it with the sanitizer and says which
steps each finding is about.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import acl_py as acl
from acl_py.findings import Finding, Kind
from acl_py.parts import parts_of
from acl_py.programs import kernels
from acl_py.programs.format import Program, Step
from acl_py.sanitizer.watch import watching
from acl_py.trace import Trace
from acl_py.verbs import callbacks
from acl_py.verbs.kernels import Array
from device_model.work import Label, Lane
from tests.sanitizer.oracle.reading import Run

FILE = "program.py"
ABOUT_ORDER = (Kind.RACE, Kind.RELIES, Kind.BEFORE_ALLOCATION, Kind.FREE_IN_USE)

Triple = tuple[int | None, int | None, str]  # two steps, and the kind of finding


@dataclass(frozen=True)
class Outcome:
    """A run: the order and the answers of its calls, the findings with the steps that each is about, its recording."""

    run: Run
    findings: Sequence[tuple[Finding, tuple[int | None, ...]]]
    notes: Sequence[str]
    trace: Trace

    @property
    def triples(self) -> set[Triple]:
        """The findings about order: two steps in the order of their calls, and the kind. None is a line of no step."""
        places = {index: place for place, index in enumerate(self.run.order)}
        return {
            (*sorted((steps[0], steps[-1]), key=lambda step: places.get(step, -1)), finding.kind.value)
            for finding, steps in self.findings
            if finding.kind in ABOUT_ORDER
        }


def run(
    program: Program, rules: str, *, device: str = "tiny", sanitize: str = "host,device", bodies: str | None = None
) -> Outcome:
    """Run *program* on *device* under *rules*; on a card, *bodies* says what kernels do."""
    text, steps_of_lines = source(program, rules)
    world = World(program.steps)
    scope: dict[str, Any] = {
        "kernel": World.kernel,
        "suppress": suppress,
        "acl": acl,
        "asyncio": asyncio,
        "np": np,
        "Array": Array,
        "increment": kernels.increment,
        "w": world,
    }
    exec(compile(text, FILE, "exec"), scope)
    with watching(parts_of(sanitize), keeps_traces=True) as watch:
        acl.run(scope["main"], device=device, rules=rules, bodies=bodies)
    assert watch.traces is not None
    [trace] = watch.traces
    findings = [(finding, tuple(_step(site, steps_of_lines) for site in finding.sites)) for finding in watch.findings]
    return Outcome(world.made, findings, watch.notes, trace)


def _step(site: str, steps_of_lines: dict[int, int]) -> int | None:
    file, _, line = site.rpartition(":")
    return steps_of_lines.get(int(line)) if file == FILE else None


class World:
    """What a program writes down while it runs: the order of its calls, and their answers."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.order: list[int] = []
        self.failed: list[int] = []
        self.complete: list[int] = []
        self.called: list[int] = []
        self.taken: dict[int, int] = {}
        self.reports: list[callbacks.Callback] = []  # that have been taken and not ended
        self.ended: dict[int, asyncio.Event] = {}

    @property
    def made(self) -> Run:
        """What is known of the run."""
        functions = {step.index for step in self.steps if step.op == "host_func"}
        return Run(
            self.order, frozenset(self.failed), frozenset(self.complete), frozenset(functions - {*self.called}),
            self.taken,
        )  # fmt: skip

    @contextmanager
    def call(self, index: int) -> Iterator[None]:
        """Make the call of step *index*. A wait that reports the failure of an operation has waited all the same."""
        self.order.append(index)
        try:
            yield
        except acl.AclError:
            if not self.steps[index].op.startswith("sync_"):
                self.failed.append(index)
        self.over(index).set()

    def over(self, index: int) -> asyncio.Event:
        """The event that step *index* sets when it has returned."""
        return self.ended.setdefault(index, asyncio.Event())

    def answer(self, index: int, status: acl.Status) -> bool:
        """Write down the answer of a query. Return whether it is "complete".

        Of a query that is repeated, the last call counts: other tasks may have queued work meanwhile.
        """
        if status is not acl.Status.NOT_READY:
            self.complete.append(index)
            self.order.remove(index)
            self.order.append(index)
        return status is not acl.Status.NOT_READY

    async def take_report(self, index: int) -> None:
        """Wait for a callback. The steps up to the one that ends it are what its function does."""
        report = await callbacks.take_report(-1)
        self.reports.append(report)
        self.taken[index] = report.user_data

    async def end_report(self) -> None:
        """End the callback that was taken last."""
        await callbacks.end_report(self.reports.pop())

    @staticmethod
    def kernel(name: str, us: float, reads: Sequence[Any], writes: Sequence[Any]) -> kernels.Recorded:
        """A kernel that takes *us* and declares these parts of buffers."""
        declared = [
            [(part.allocation, part.offset, part.offset + part.nbytes) for part in parts] for parts in (reads, writes)
        ]
        return kernels.Recorded(Label("kernel", Lane.COMPUTE, name), *declared, int(us * 1000), exclusive=False)


def source(program: Program, rules: str) -> tuple[str, dict[int, int]]:
    """The text of *program*, and the step that each of its lines belongs to."""
    return _Writer(program, rules).write()


class _Writer:
    def __init__(self, program: Program, rules: str) -> None:
        self.program, self.acl = program, rules == "acl"
        self.lines: list[str] = []
        self.steps: dict[int, int] = {}

    def write(self) -> tuple[str, dict[int, int]]:
        tasks = list(dict.fromkeys(step.task for step in self.program.steps))
        self.lines.append("async def main():")
        self.lines.append("    global b, s, e, n, c, ops")
        self.lines.append("    b, s, e, n, c, ops = {}, {}, {}, {}, {}, {}")
        self.lines.append("    c['primary'] = await acl.GetCurrentContext()")
        self._declare()
        self.lines.append("    await asyncio.gather(" + ", ".join(f"task_{i}()" for i in range(len(tasks))) + ")")
        self._finish()
        for number, task in enumerate(tasks):
            self.lines += ["", f"async def task_{number}():"]
            for step in self.program.steps:
                if step.task == task:
                    self._step(step)
        return "\n".join(self.lines) + "\n", self.steps

    def _declare(self) -> None:
        here = 0
        for name, options in self.program.buffers.items():
            here = self._go_to(options["device"], here)
            nbytes = options["bytes"]
            made = {
                "device": f"await acl.Malloc({nbytes}, name={name!r})",
                "pinned": f"await acl.MallocHost({nbytes}, name={name!r})",
                "pageable": f"np.zeros({nbytes}, np.uint8)",
            }[options["space"]]
            self.lines.append(f"    b[{name!r}] = {made}")
        for name, options in self.program.streams.items():
            here = self._go_to(options["device"], here)
            nonblocking = options["flags"] == "nonblocking"
            self.lines.append(f"    s[{name!r}] = await acl.CreateStream(nonblocking={nonblocking}, name={name!r})")
        for name, options in self.program.events.items():
            here = self._go_to(options["device"], here)
            self.lines.append(f"    e[{name!r}] = await acl.CreateEvent(name={name!r})")
        self._go_to(0, here)

    def _finish(self) -> None:
        """Let all work end, or a host function would not run. What has failed has been reported before."""
        used = {options["device"] for options in self.program.streams.values()}
        devices = sorted({0, *used, *(step.fields["device"] for step in self.program.steps if step.op == "set_device")})
        contexts = [step.fields["context"] for step in self.program.steps if step.op == "create_context"]
        for go_to in (
            *(f"acl.SetDevice({device})" for device in devices),
            *(f"acl.SetCurrentContext(c[{context!r}])" for context in contexts),
        ):
            self.lines += [
                "    with suppress(acl.AclError):", f"        await {go_to}", "        await acl.SynchronizeDevice()",
            ]  # fmt: skip

    def _go_to(self, device: int, here: int) -> int:
        if device != here:
            self.lines.append(f"    await acl.SetDevice({device})")
        return device

    def _step(self, step: Step) -> None:
        first = len(self.lines)
        if step.after is not None:
            self.lines.append(f"    await w.over({step.after}).wait()")
        self.lines.append(f"    with w.call({step.index}):")
        text = getattr(self, step.op)(step, **step.fields)
        lines = text.split("\n")
        if step.id is not None and lines[-1].startswith("await ") and step.op not in ("memcpy", "memset", "memcpy2d"):
            lines[-1] = f"ops[{step.id!r}] = {lines[-1]}"
        self.lines += [f"        {line}" for line in lines]
        self.steps.update(dict.fromkeys(range(first + 1, len(self.lines) + 1), step.index))

    def _stream(self, name: str) -> str:
        if name == "legacy":
            return "None" if self.acl else "acl.LEGACY_STREAM"
        return "acl.PER_THREAD_STREAM" if name == "per_thread" else f"s[{name!r}]"

    # --- ops

    def launch(self, step: Step, stream: str, us: float, reads: Any, writes: Any, **_: Any) -> str:
        parts = [
            "[" + ", ".join(f"b[{name!r}][{start}:{stop}]" for name, start, stop in extents) + "]"
            for extents in (reads, writes)
        ]
        kernel = f"kernel('k{step.index}', {us}, {parts[0]}, {parts[1]})"
        return f"await acl.LaunchKernel({kernel}, 1, (), {self._stream(stream)})"

    def launch_cores(self, step: Step, **fields: Any) -> str:
        return self.launch(step, **fields)  # the bytes count here, not the cores

    def inc(self, step: Step, buf: str, by: int, stream: str) -> str:
        args = f"(Array(b[{buf!r}][:4], np.int32), {by})"
        return f"await acl.LaunchKernel(increment, 1, {args}, {self._stream(stream)})"

    def host_func(self, step: Step, stream: str, us: float, buf: str | None, **_: Any) -> str:
        if buf is None:
            return f"await acl.LaunchHostFunc({self._stream(stream)}, lambda: None, us={us})"
        view = f"b[{buf!r}].numpy(np.int32)[:1]"
        # On a line of the step, as its access belongs to it.
        add = f"def add(view): w.called.append({step.index}); view += 1\n"
        return f"{add}await acl.LaunchHostFunc({self._stream(stream)}, add, ({view},), us={us})"

    def subscribe(self, step: Step, stream: str) -> str:
        return f"await acl.SubscribeReport(None, {self._stream(stream)})"

    def launch_callback(self, step: Step, stream: str, block: bool, **_: Any) -> str:
        return f"await acl.LaunchCallback(print, {step.index}, {int(block)}, {self._stream(stream)})"

    def process_report(self, step: Step, **_: Any) -> str:
        return f"await w.take_report({step.index})"

    def end_report(self, step: Step) -> str:
        return "await w.end_report()"

    def memcpy_async(
        self, step: Step, dst: str, src: str, bytes: int, dst_off: int, src_off: int, stream: str, **_: Any  # noqa: A002
    ) -> str:  # fmt: skip
        copy = self._flat(dst, src, bytes, dst_off, src_off)
        return f"await acl.MemcpyAsync({copy}, acl.MemcpyKind.DEFAULT, {self._stream(stream)})"

    def memcpy(self, step: Step, dst: str, src: str, bytes: int, dst_off: int, src_off: int, **_: Any) -> str:  # noqa: A002
        return f"await acl.Memcpy({self._flat(dst, src, bytes, dst_off, src_off)}, acl.MemcpyKind.DEFAULT)"

    def _flat(self, dst: str, src: str, nbytes: int, dst_off: int, src_off: int) -> str:
        room = self._size(dst) - dst_off
        return f"b[{dst!r}][{dst_off}:], {room}, b[{src!r}][{src_off}:], {nbytes}"

    def _size(self, name: str) -> int:
        if name in self.program.buffers:
            return self.program.buffers[name]["bytes"]
        return next(step.fields["bytes"] for step in self.program.steps if step.fields.get("name") == name)

    def memcpy2d_async(self, step: Step, stream: str, **rows: Any) -> str:
        return f"await acl.Memcpy2dAsync({self._rows(**rows)}, acl.MemcpyKind.DEFAULT, {self._stream(stream)})"

    def memcpy2d(self, step: Step, **rows: Any) -> str:
        return f"await acl.Memcpy2d({self._rows(**rows)}, acl.MemcpyKind.DEFAULT)"

    def _rows(
        self, dst: str, src: str, dpitch: int, spitch: int, width: int, height: int, dst_off: int, src_off: int,
        **_: Any,
    ) -> str:  # fmt: skip
        return f"b[{dst!r}][{dst_off}:], {dpitch}, b[{src!r}][{src_off}:], {spitch}, {width}, {height}"

    def memset_async(self, step: Step, dst: str, stream: str, dst_off: int, **fill: int) -> str:
        return f"await acl.MemsetAsync({self._filled(dst, dst_off, **fill)}, stream={self._stream(stream)})"

    def memset(self, step: Step, dst: str, stream: str | None, dst_off: int, **fill: int) -> str:
        return f"await acl.Memset({self._filled(dst, dst_off, **fill)})"

    def _filled(self, dst: str, dst_off: int, *, bytes: int, value: int, unit: int) -> str:  # noqa: A002
        return f"b[{dst!r}][{dst_off}:], {self._size(dst) - dst_off}, {value}, {bytes}, unit={unit}"

    def record(self, step: Step, event: str, stream: str, external: bool) -> str:
        return f"await acl.RecordEvent(e[{event!r}], {self._stream(stream)})"

    def wait(self, step: Step, event: str, stream: str, external: bool) -> str:
        return f"await acl.StreamWaitEvent({self._stream(stream)}, e[{event!r}])"

    def reset(self, step: Step, event: str, stream: str) -> str:
        return f"await acl.ResetEvent(e[{event!r}], {self._stream(stream)})"

    def create_event(self, step: Step, event: str, kind: str, **_: Any) -> str:
        if kind == "default":
            return f"e[{event!r}] = await acl.CreateEvent(name={event!r})"
        verb = "CreateEventWithFlag" if kind == "flag" else "CreateEventExWithFlag"
        return f"e[{event!r}] = await acl.{verb}(acl.EventFlag.SYNC, name={event!r})"

    def destroy_event(self, step: Step, event: str) -> str:
        return f"await acl.DestroyEvent(e[{event!r}])"

    def elapsed(self, step: Step, start: str, end: str) -> str:
        return f"await acl.EventElapsedTime(e[{start!r}], e[{end!r}])"

    def sync_stream(self, step: Step, stream: str, **_: Any) -> str:
        return f"await acl.SynchronizeStream({self._stream(stream)})"

    def sync_event(self, step: Step, event: str, **_: Any) -> str:
        return f"await acl.SynchronizeEvent(e[{event!r}])"

    def sync_device(self, step: Step, **_: Any) -> str:
        return "await acl.SynchronizeDevice()"

    def sync_op(self, step: Step, of: str) -> str:
        return f"if {of!r} in ops: await ops[{of!r}]"

    def query_stream(self, step: Step, stream: str, **repeated: Any) -> str:
        return self._query(step, f"acl.StreamQuery({self._stream(stream)})", **repeated)

    def query_event(self, step: Step, event: str, **repeated: Any) -> str:
        return self._query(step, f"acl.QueryEventStatus(e[{event!r}])", **repeated)

    def _query(self, step: Step, call: str, until: bool, work_us: float, sleep_us: float) -> str:
        if until:
            return f"while not w.answer({step.index}, await {call}):\n    await acl.HostWork({work_us or 1})"
        return f"w.answer({step.index}, await {call})"

    def host_read(self, step: Step, buf: str) -> str:
        return f"int(b[{buf!r}].numpy(np.int32)[0])"

    def host_write(self, step: Step, buf: str, value: int) -> str:
        return f"b[{buf!r}].numpy(np.int32)[0] = {value}"

    def host_access(self, step: Step, reads: Any, writes: Any) -> str:
        lines = []
        for extents, ending in ((reads, ""), (writes, " = 1")):
            for name in dict.fromkeys(name for name, _, _ in extents):
                items = ", ".join(f"{start}:{stop}" for other, start, stop in extents if other == name)
                lines.append(f"b[{name!r}].numpy(np.uint8)[np.r_[{items}]]{ending}")
        return "\n".join(lines)

    def malloc(self, step: Step, name: str, bytes: int) -> str:  # noqa: A002
        return f"b[{name!r}] = await acl.Malloc({bytes}, name={name!r})"

    def malloc_host(self, step: Step, name: str, bytes: int) -> str:  # noqa: A002
        return f"b[{name!r}] = await acl.MallocHost({bytes}, name={name!r})"

    def malloc_async(self, step: Step, name: str, bytes: int, stream: str) -> str:  # noqa: A002
        return f"b[{name!r}] = await acl.MallocAsync({bytes}, {self._stream(stream)}, name={name!r})"

    def free_async(self, step: Step, name: str, stream: str) -> str:
        return f"await acl.FreeAsync(b[{name!r}], {self._stream(stream)})"

    def free(self, step: Step, name: str, sync: bool) -> str:
        return f"await acl.{'FreeWithDevSync' if sync else 'Free'}(b[{name!r}])"

    def free_host(self, step: Step, name: str, sync: bool) -> str:
        return f"await acl.{'FreeHostWithDevSync' if sync else 'FreeHost'}(b[{name!r}])"

    def create_stream(self, step: Step, name: str, flags: str, **_: Any) -> str:
        return f"s[{name!r}] = await acl.CreateStream(nonblocking={flags == 'nonblocking'}, name={name!r})"

    def destroy_stream(self, step: Step, name: str) -> str:
        return f"await acl.DestroyStream(s[{name!r}])"

    def set_device(self, step: Step, device: int) -> str:
        return f"await acl.SetDevice({device})"

    def create_context(self, step: Step, context: str, device: int) -> str:
        return f"c[{context!r}] = await acl.CreateContext({device})"

    def set_context(self, step: Step, context: str) -> str:
        return f"await acl.SetCurrentContext(c[{context!r}])"

    def create_notify(self, step: Step, notify: str) -> str:
        return f"n[{notify!r}] = await acl.CreateNotify(name={notify!r})"

    def record_notify(self, step: Step, notify: str, stream: str) -> str:
        return f"await acl.RecordNotify(n[{notify!r}], {self._stream(stream)})"

    def wait_notify(self, step: Step, notify: str, stream: str, limit_s: int) -> str:
        return f"await acl.WaitAndResetNotify(n[{notify!r}], {self._stream(stream)}, {limit_s})"

    def value_write(self, step: Step, buf: str, value: int, stream: str, off: int) -> str:
        return f"await acl.ValueWrite(b[{buf!r}][{off}:], {value}, 0, {self._stream(stream)})"

    def value_wait(self, step: Step, buf: str, value: int, stream: str, off: int, compare: str) -> str:
        flag = f"acl.Compare.{compare.upper()}"
        return f"await acl.ValueWait(b[{buf!r}][{off}:], {value}, {flag}, {self._stream(stream)})"

    def destroy_notify(self, step: Step, notify: str) -> str:
        return f"await acl.DestroyNotify(n[{notify!r}])"

    def destroy_context(self, step: Step, context: str) -> str:
        return f"await acl.DestroyContext(c[{context!r}])"

    def host_register(self, step: Step, name: str, bytes: int, **_: Any) -> str:  # noqa: A002
        return f"b[{name!r}] = await acl.HostRegister(np.zeros({bytes}, np.uint8), name={name!r})"

    def host_unregister(self, step: Step, name: str) -> str:
        return f"await acl.HostUnregister(b[{name!r}])"

    def host_work(self, step: Step, us: float, **_: Any) -> str:
        return f"await acl.HostWork({us})"

    def sleep(self, step: Step, us: float) -> str:
        return f"await acl.Sleep({us})"

    def resume(self, step: Step) -> str:
        return "pass"

    def give_way(self, step: Step) -> str:
        return "pass"
