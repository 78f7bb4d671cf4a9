"""A pytest plugin: fixtures for simulated devices, and the sanitizer for all simulations of a test run.

The fixture `acl` is the module as a script imports it, with a new session for each test:

    def test_copies(acl):
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)

    @pytest.mark.acl(device="ascend310p3", devices=2)       # options of acl_py.compat.acl.install
    def test_two_cards(acl, acl_session):
        ...
        assert not acl_session.leaks()

With `--cuda` the driver of CUDA is in place before the first test file is imported: cuda.core, cuda.bindings and numba
find a simulated card. The fixture `cuda_driver` puts fault rules in force, reads what failed, and has assertions about
what happened since the test began. All tests of a process share the session of the driver.

Until the test ends, `import acl` in the code under test finds the same module; afterwards the module is removed. With
`--acl-leaks` a test that does not give back its memory and handles fails, with a line for each leak.

The fixture `acl_sim` is a simulation of the native API, with assertions about what happened in it:

    @pytest.mark.acl(device="tiny")                         # options of acl_py.simulate
    async def test_overlap(acl_sim):                        # with pytest-asyncio or the plugin of anyio
        await pipeline()
        acl_sim.assert_overlaps("h2d", "square")

    def test_result(acl_sim):
        assert acl_sim.run(pipeline) == 9

With `device="cuda:0"` it runs on a card, and with ACL_PY_DEVICE=cuda:0 each one does (docs/card.md).

It begins in the fixture, so fixtures that depend on it are inside, with the tasks that they start. `simulation` is the
same for a fixture of your own, which several tests may share. A test, or an async fixture, whose tasks can never go on
fails with DeadlockError.

With `--acl-sanitize` a test fails if the sanitizer finds something in a simulation that began in it, whoever began it.
`--acl-trace DIR` writes the recording of each simulation, for `acl-py report`. `--acl-explore N` runs each test that
passes and has simulations again under N other legal schedules (docs/explore.md), with all its fixtures; it fails if it
fails under one of them. `--acl-schedule TEXT` runs tests under that one.

PYTEST_DONT_REWRITE: there is no assertion to rewrite here, and this file may be imported before pytest could do so.
"""

import asyncio
import re
import sys
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields, replace
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, ismethod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import pytest
from _pytest.outcomes import Failed
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from acl_py import Simulation
    from acl_py.compat.acl.face.session import Session
    from acl_py.compat.cuda.testing import CudaDriver
    from acl_py.explore.outcomes import Outcome
    from acl_py.explore.strategies import Strategy
    from acl_py.faults import Fault
    from acl_py.runtime.runtime import Runtime
    from acl_py.sanitizer import Finding
    from acl_py.sanitizer.reports import Report
    from acl_py.schedules import Decide
    from acl_py.trace import Trace
    from acl_py.trace.rows.timeline import Timeline
    from device_model.ops import Op

# pytest loads this file in every run where acl_py is installed, so acl_py is imported only when a test needs it.

_T = TypeVar("_T")
_SHOWN = 2  # findings below a traceback
_OUTPUT = "acl_py_sanitizer"  # what a worker of xdist hands to the process that prints the summary


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("acl_py")
    group.addoption(
        "--acl-leaks", action="store_true", help="Fail tests with the fixture acl that leak memory or handles."
    )
    group.addoption(
        "--cuda", action="store_true", help="Let packages for CUDA find a simulated card, without a driver."
    )
    group.addoption(
        "--acl-sanitize",
        action="store_true",
        help="Fail tests in whose simulations there are races, errors in the lives of objects, reads of unwritten "
        "bytes, or leaks.",
    )
    group.addoption(
        "--acl-trace", metavar="DIR", type=Path, help="Write the recording of each simulation to this folder."
    )
    group.addoption(
        "--acl-update-golden",
        action="store_true",
        help="Let acl_sim.assert_like() write its recordings again instead of comparing runs with them.",
    )
    group.addoption(
        "--acl-explore", metavar="N", type=int, default=0, help="Run each test with simulations under N more schedules."
    )
    group.addoption(
        "--acl-schedule", metavar="TEXT", help="Run tests under this schedule, such as 'delay@3=1', and no other."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `acl`; begin to watch simulations if an option asks for it."""
    config.addinivalue_line(
        "markers",
        "acl(**options): options of acl_py.compat.acl.install for the fixture acl, of acl_py.simulate for acl_sim; "
        "faults=[...] are fault rules for both.",
    )
    if config.getoption("--cuda"):
        _put_cuda_in_place()
        config.pluginmanager.register(_Cuda(), "acl_py_cuda")
    config.pluginmanager.register(_Explaining(config), "acl_py_explaining")
    if config.getoption("--acl-sanitize") or config.getoption("--acl-trace") is not None:
        config.pluginmanager.register(_Watching(config), "acl_py_watching")
    if config.pluginmanager.has_plugin("asyncio"):
        config.pluginmanager.register(_loop_fixtures(), "acl_py_loop_fixtures")
    if config.getoption("--acl-explore") or config.getoption("--acl-schedule") is not None:
        config.pluginmanager.register(_Exploring(config), "acl_py_exploring")


class _Exploring:
    """Runs each test under several schedules, and reports the run under the one that counts."""

    def __init__(self, config: pytest.Config) -> None:
        from acl_py.schedules import Deviation, parse

        self._runs: int = config.getoption("--acl-explore")
        self._given: list[Deviation] | None = None
        text = config.getoption("--acl-schedule")
        if self._runs < 0:
            raise pytest.UsageError(f"--acl-explore must be 0 or more, not {self._runs}")
        if text is not None:
            try:
                self._given = parse(text)
            except ValueError as error:
                raise pytest.UsageError(f"--acl-schedule: {error}") from error

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run *item* under schedules, in place of pytest's own single run."""
        from acl_py.explore.explorer import DefaultFailsError, explore
        from acl_py.explore.outcomes import Outcome
        from acl_py.explore.strategies import strategy
        from acl_py.schedules import Decide, Replay, Schedule, following

        all_reports: list[list[pytest.TestReport]] = []  # of each run

        def run(decide: Decide) -> Outcome:
            texts: list[str] = []
            item._initrequest()  # type: ignore[attr-defined]  # new fixtures for each run
            schedule = Schedule(decide, lambda _, text: texts.append(text))
            with following(schedule):
                all_reports.append(runtestprotocol(item, log=False, nextitem=nextitem))
            failure = next((report.longreprtext for report in all_reports[-1] if report.failed), "")
            return Outcome(failure, tuple(schedule.deviations), tuple(texts), tuple(schedule.points))

        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        try:
            if self._given is not None:
                failing: Outcome | None = run(Replay(self._given))
            else:
                failing = explore(run, _IfItHasPoints(strategy("random")), self._runs).failing
        except DefaultFailsError:
            failing = None
        reports = all_reports[0]
        if failing is not None and self._given is None:
            failing = run(Replay(failing.deviations))
            reports = all_reports[-1]
        for report in reports:
            if failing is not None and report.failed:
                report.sections.append(("schedule", _schedule_text(failing)))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


class _IfItHasPoints:
    """A *strategy* for tests: one that has no choice points is not run again."""

    def __init__(self, strategy: "Strategy") -> None:
        self._strategy = strategy
        self._points = 0

    def next(self) -> "Decide | None":
        return self._strategy.next() if self._points else None

    def saw(self, outcome: "Outcome") -> None:
        self._points = max(self._points, len(outcome.points))
        self._strategy.saw(outcome)


def _schedule_text(failing: "Outcome") -> str:
    lines = ["what differs from the default schedule:"]
    lines += [f"  {each}  {text}" for each, text in zip(failing.deviations, failing.texts, strict=True)]
    schedule = " ".join(map(str, failing.deviations))
    return "\n".join([*lines, f"run it again with --acl-schedule {schedule!r}"])


class Found(Failed):
    """A test fails because of findings, which are its message."""

    __module__ = "builtins"  # as that of pytest's own: pytest then shows the name alone


class _Explaining:
    """Adds to the report of a test that fails what happened in the simulation that began last.

    One that began before the test, such as the session of the driver of CUDA, counts from the begin of the test on.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._sanitizes = bool(config.getoption("--acl-sanitize"))
        self._latest: tuple[Runtime, Trace] | None = None
        self._earlier: Callable[[], tuple[Runtime, Trace] | None] = _nothing  # it goes on, but is not kept alive
        self._count = 0  # of the simulations of the test
        self._since_ns = 0
        self._known = 0  # findings of the simulation when the test began
        config.add_cleanup(self._end)
        self._begin()

    def _begin(self) -> None:
        """Follow the simulations from here on, if anything has imported acl_py."""
        if "acl_py" in sys.modules:
            from acl_py.sanitizer.watch import followers

            if self._follow not in followers:
                followers.append(self._follow)

    def _end(self) -> None:
        watch = sys.modules.get("acl_py.sanitizer.watch")
        if watch is not None and self._follow in watch.followers:
            watch.followers.remove(self._follow)

    def _follow(self, runtime: "Runtime", trace: "Trace | None") -> None:
        self._latest = None if trace is None else (runtime, trace)
        self._count, self._since_ns, self._known = self._count + 1, 0, 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Let what has happened so far not count."""
        self._begin()
        self._latest, self._count = self._latest or self._earlier(), 0
        self._since_ns, self._known = 0, 0
        if self._latest is not None:
            from acl_py.findings import Findings

            runtime, _ = self._latest
            self._since_ns, self._known = runtime.host_ns, len(runtime.state(Findings))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: "pytest.CallInfo[None]"
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the section, unless the error is a message about the waits or the findings itself."""
        report = yield
        if report.when == "call" and report.failed and self._latest is not None and not _says_all(call.excinfo):
            is_told = any("sanitizer" in name for name, _ in report.sections)
            try:
                text = self._text(*self._latest, is_told=is_told)
            except Exception:  # the report of the test matters more
                text = f"acl_py could not say what it waited for last:\n{traceback.format_exc()}"
            if text:
                report.sections.append(("acl_py", text))
        if report.when == "teardown":
            self._earlier = _weak(self._latest)
            self._latest = None
        return report

    def _text(self, runtime: "Runtime", trace: "Trace", *, is_told: bool) -> str:
        from acl_py.explain.last_waits import last_waits
        from acl_py.findings import Findings

        text = last_waits(trace, runtime.unfinished(), self._since_ns)
        lost = [
            f"lost context: {context.failed_op!r} failed: {context.error}"
            for device in runtime.devices
            for context in device.contexts
            if context.failed_op is not None
        ]
        if not text and not lost:
            return ""
        lines = [*lost, text] if self._count <= 1 else [*lost, f"the last of {self._count:,} simulations:", text]
        found = () if self._sanitizes else tuple(runtime.state(Findings))[self._known :]
        for finding in found[:_SHOWN]:
            lines += [f"finding: {finding}", *([f"  fix: {finding.fix}"] if finding.fix else ())]
        if len(found) > _SHOWN:
            lines.append(f"and {len(found) - _SHOWN:,} more findings")
        if runtime.sanitizer is None:
            lines.append("the sanitizer was off: pytest --acl-sanitize looks for races")
        elif not found and not is_told:
            lines.append("no findings of the sanitizer")
        return "\n".join(lines)


def _nothing() -> None:
    """Return None."""


def _weak(latest: "tuple[Runtime, Trace] | None") -> "Callable[[], tuple[Runtime, Trace] | None]":
    """Return a function that gives *latest*, as long as it goes on and something else keeps it alive."""
    if latest is None:
        return _nothing
    runtime_ref, trace_ref = ref(latest[0]), ref(latest[1])

    def given() -> "tuple[Runtime, Trace] | None":
        runtime, trace = runtime_ref(), trace_ref()
        if runtime is None or trace is None or runtime.closed is not None:
            return None
        return runtime, trace

    return given


def _says_all(excinfo: "pytest.ExceptionInfo[BaseException] | None") -> bool:
    """Whether the message has it all: that of findings, of a hang, or of an assertion about the run."""
    if excinfo is None:  # a test that should fail has passed
        return True
    errors, module = sys.modules.get("acl_py.errors"), excinfo.traceback[-1].frame.f_globals.get("__name__", "")
    if module in ("acl_py.explain.assertions", "acl_py.explain.golden"):
        return True
    return isinstance(excinfo.value, (Found, *(() if errors is None else (errors.DeadlockError,))))


class _Watching:
    """Watches the simulations of all tests: fails tests that have findings, and writes recordings."""

    def __init__(self, config: pytest.Config) -> None:
        from acl_py.parts import parts_of
        from acl_py.sanitizer import watch
        from acl_py.sanitizer.suppressions import SuppressionError, find

        self._config = config
        self._sanitizes = bool(config.getoption("--acl-sanitize"))
        self._folder: Path | None = config.getoption("--acl-trace")
        try:
            self._suppressions = find(config.rootpath) if self._sanitizes else ()
        except SuppressionError as error:
            raise pytest.UsageError(str(error)) from error
        self._accepted = [0] * len(self._suppressions)  # how many findings each accepted
        self._notes: dict[str, None] = {}
        self._watch = watch.begin(parts_of(self._sanitizes), keeps_traces=self._folder is not None)
        config.add_cleanup(lambda: watch.end(self._watch))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test that has findings and no other failure; add them to the report of a test that has one."""
        try:
            result = yield
        except BaseException:
            report = self._report()
            if report.findings:
                item.add_report_section("call", "sanitizer", report.text())
            raise
        self._check()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Write the recordings of the test. Findings at the end of a simulation of a fixture, such as leaks, are an
        error of the test.
        """
        result = yield
        if self._folder is not None:
            self._write(item.nodeid, self._folder)
        self._check()
        return result

    def _report(self) -> "Report":
        """Return what was found since the last report, if the sanitizer is on."""
        from acl_py.sanitizer.reports import judge

        notes = self._watch.notes  # before `take`, which forgets the simulations that have ended
        found = self._watch.take()
        report = judge(found if self._sanitizes else (), self._suppressions)
        for _, suppression in report.suppressed:
            self._accepted[self._suppressions.index(suppression)] += 1
        self._notes.update(dict.fromkeys(notes))
        return replace(report, unused=())

    def _check(self) -> None:
        report = self._report()
        if report.findings:
            raise Found(report.text(), pytrace=False)

    def _write(self, test: str, folder: Path) -> None:
        traces: list[Trace] = self._watch.traces or []
        folder.mkdir(parents=True, exist_ok=True)
        for number, trace in enumerate(traces, 1):
            several = f"-{number}" if len(traces) > 1 else ""
            trace.save(folder / f"{re.sub(r'[^A-Za-z0-9_.]+', '-', test)}{several}.acl")
        traces.clear()

    # --- the summary; with xdist each worker hands its part to the process that prints it

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand on what the summary needs, if this is a worker."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = self._accepted, list(self._notes)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker hands on; one that crashed hands on nothing."""
        accepted, notes = getattr(node, "workeroutput", {}).get(_OUTPUT, ([0] * len(self._accepted), []))
        self._accepted = [sum(pair) for pair in zip(self._accepted, accepted, strict=True)]
        self._notes.update(dict.fromkeys(notes))

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print what was suppressed and why, which suppressions accepted nothing, and what was not seen."""
        lines = [
            f"suppressed: {count} by {each}: {each.reason}" if count else f"unused: {each} in {each.where}"
            for each, count in zip(self._suppressions, self._accepted, strict=True)
        ]
        lines += [f"note: {note}" for note in self._notes]
        if lines:
            terminalreporter.section("sanitizer")
            terminalreporter.write("".join(f"{line}\n" for line in lines))


class Assertions:
    """Assertions about what happened in the simulation of a test since the test began, or, in one of its own, about
    the whole simulation.

    An operation is named by its kernel ("add"), its kind ("h2d", "kernel"), its stream ("stream 'copies'"), or the
    completion that its verb returned.
    """

    @property
    def _run(self) -> "tuple[Timeline, int]":
        """The recording, and since when it is that of the test, in ns."""
        raise NotImplementedError

    def assert_overlaps(self, a: "str | Op", b: "str | Op", share: float = 0.0) -> None:
        """Assert that some operation *a* and some operation *b* ran at the same time; with *share*, 0 to 1, for at
        least this share of the time in which operations *a* ran.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_overlaps(timeline, a, b, share, since_ns=since_ns)

    def assert_ordered(self, a: "str | Op", b: "str | Op") -> None:
        """Assert that streams, events or synchronisations put each operation *b* behind all operations *a* that were
        queued before it.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_ordered(timeline, a, b, since_ns=since_ns)

    def assert_no_implicit_sync(self) -> None:
        """Assert that nothing waited without being asked to: copies of pageable memory, frees, full queues, ..."""
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_no_implicit_sync(timeline, since_ns=since_ns)

    def assert_time(
        self,
        us: float,
        of: "str | Op | None" = None,
        *,
        tolerance: float = 0.0,
        since_us: float | None = None,
    ) -> None:
        """Assert that the run took *us* microseconds of simulated time, or the operations *of*, from the first start to
        the last end; more or less by *tolerance*, a share of *us*. With *since_us* the run counts from this time on.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_time(timeline, us, of, tolerance, since_us, since_ns=since_ns)

    def assert_held(self, limit_us: float, by: str | None = None) -> None:
        """Assert that tasks and threads slept in calls for at most *limit_us* microseconds of simulated time, all
        together; with *by*, in the calls of a verb ("SynchronizeStream"), of a function ("acl.rt.memcpy") or of a line
        ("serve.py:12").
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_held(timeline, limit_us, by, since_ns=since_ns)

    def assert_peak_memory(self, limit: int, device: int = 0) -> None:
        """Assert that at no time more than *limit* bytes of memory of *device* were in use."""
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_peak_memory(timeline, limit, device, since_ns=since_ns)

    def assert_within_us(self, limit_us: float, of: "str | Op | None" = None, *, since_us: float | None = None) -> None:
        """Assert that the run took at most *limit_us* microseconds of simulated time; with *of*, that these operations
        did, from the first start to the last end; with *since_us*, that it did from this time on. A test that makes
        ready first takes `now_us` for it.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        timeline, since_ns = self._run
        assertions.assert_within_us(timeline, limit_us, of, since_us, since_ns=since_ns)


class AclSession(Assertions):
    """The session of a test: what its `acl` has done so far.

    def test_pipeline(acl, acl_session):
        run_pipeline()
        assert not acl_session.leaks()
        assert acl_session.now_us < 5_000
    """

    @property
    def session(self) -> "Session":
        """The session itself; it begins with the first call, or here."""
        from acl_py.compat.acl.face.session import own_session

        return own_session()

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time."""
        return self.session.runtime.host_ns / 1000

    @property
    def _run(self) -> "tuple[Timeline, int]":
        trace = self.session.trace
        assert trace is not None, "a session has a trace"
        return trace.timeline(), 0

    def report(self) -> str:
        """Return the summary that `acl-py run` prints at the end."""
        from acl_py.compat.acl.report import report

        return report(self.session)

    def leaks(self) -> list[str]:
        """Return a line for each leak so far: memory that was not freed, handles that were not destroyed."""
        from acl_py.compat.acl.report import leaks

        return leaks(self.session)


@pytest.fixture
def acl(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module `acl` on a simulated device of the test's own; `@pytest.mark.acl(...)` gives the options."""
    from acl_py.compat.acl import install, uninstall

    module = install(replace=True, **_marked(request.node))
    try:
        yield module
        leaks = AclSession().leaks() if request.config.getoption("--acl-leaks") else []
    finally:
        uninstall()
    if leaks:
        pytest.fail("never given back:\n" + "\n".join(f"  {leak}" for leak in leaks), pytrace=False)


@pytest.fixture
def acl_session(acl: ModuleType) -> AclSession:  # noqa: ARG001 - it is installed first
    """The session of the fixture `acl`: `.report()`, `.leaks()`, `.now_us`."""
    return AclSession()


def _put_cuda_in_place() -> None:
    from acl_py.compat.cuda.testing import put_in_place

    try:
        put_in_place()
    except RuntimeError as error:
        raise pytest.UsageError(f"--cuda: {error}") from error


class _Cuda:
    """Prints the summary of the driver at the end of a run with `--cuda`."""

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print what the card did, and which calls failed."""
        from acl_py.compat.cuda.testing import summary

        if text := summary():
            terminalreporter.section("the driver of CUDA")
            terminalreporter.write(f"{text}\n")


@pytest.fixture
def cuda_driver() -> "CudaDriver":
    """The driver of CUDA, with `.fault()`, `.failures()`, `.leaks()`, `.report()`, `.timeline()` and `.now_us`. Without
    the option `--cuda`, no package for CUDA may have been imported before.
    """
    from acl_py.compat.cuda.testing import CudaDriver

    try:
        return CudaDriver()
    except RuntimeError as error:
        pytest.fail(f"{error}; or run pytest --cuda", pytrace=False)


class AclSim(Assertions):
    """A simulation of the native API for a test. A test that is a coroutine runs in it; another one calls `run`."""

    def __init__(self, options: dict[str, Any], request: pytest.FixtureRequest | None = None) -> None:
        from acl_py.options import placed_on_card

        options = dict(options)
        self._faults = _faults_of(options.pop("faults", ()))
        is_real = placed_on_card(options.get("device"))
        self._options = options if is_real else {"clock": "simulated", **options}
        self.folder = Path.cwd() if request is None else request.path.parent  # where golden recordings are
        self.updates_golden = request is not None and bool(request.config.getoption("--acl-update-golden"))
        self._simulation: Simulation | None = None
        self.scope = "function"  # of the fixture in which it began
        self.fixture = "acl_sim"

    @property
    def simulation(self) -> "Simulation":
        """The simulation: that of the test, or of the last `run`. It may have ended.

        Raises:
            RuntimeError: none has begun.
        """
        if self._simulation is None:
            raise RuntimeError(
                "no simulation has begun: write the test as `async def`, or call acl_sim.run(main) in it"
            )
        return self._simulation

    def run(self, main: Callable[..., Coroutine[Any, Any, _T]], *args: Any) -> _T:
        """Run the coroutine function *main* in a new simulation, as `acl_py.run` does, and return its result."""
        import acl_py
        from acl_py.running import called

        async def whole() -> _T:
            self._simulation = acl_py.current_simulation()
            self._strike()
            return await called(main, *args)

        return acl_py.run(whole, **self._options)

    def _strike(self) -> None:
        """Put the fault rules of the mark in force, for the whole simulation."""
        if self._faults:
            self.simulation.fault(*self._faults)

    def fail(self, error: BaseException) -> None:
        """Note that the test has failed with *error*: what it did not give back is no leak of its own."""
        from acl_py.simulation import recorder_of

        runtime = self.simulation.runtime
        if runtime.sanitizer is not None:
            runtime.sanitizer.end_with_error()
        if (recorder := recorder_of(self.simulation)) is not None:
            recorder.error = f"{type(error).__name__}: {error}"

    @asynccontextmanager
    async def begin(self) -> "AsyncIterator[AclSim]":
        """Begin the simulation in the running event loop, and end it behind the block."""
        import acl_py
        from acl_py.waiting.loops import CLOCK

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            pytest.fail("acl_sim needs an event loop of asyncio: let anyio_backend be 'asyncio'", pytrace=False)
        if _fixtures:
            self.scope, self.fixture = _fixtures[-1]
        async with acl_py.simulate(**self._options) as self._simulation:
            self._strike()
            if hasattr(loop, CLOCK):
                getattr(loop, CLOCK).on_deadlock = _end_running
            _begun.append(self)
            try:
                yield self
            finally:
                _begun.remove(self)

    @property
    def findings(self) -> "list[Finding]":
        """What was found so far."""
        return self.simulation.findings

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time; on a card, of real time since the run began."""
        return self.simulation.now_ns / 1000

    @property
    def _run(self) -> "tuple[Timeline, int]":
        return self.simulation.trace.timeline(), 0

    def assert_like(self, golden: str | Path, *, tolerance: float = 0.0) -> None:
        """Assert that the run so far is like the recording in the file *golden*, a path from the folder of the test on.

        The device, the rules and the operations of each stream must be the same. Times may differ by *tolerance*, a
        share of the saved run; with 0 they are the same to the nanosecond. `pytest --acl-update-golden` writes the
        file instead.
        """
        from acl_py.explain.golden import assert_like, save_golden

        __tracebackhide__ = True
        timeline, path = self.simulation.trace.timeline(), self.folder / golden
        if self.updates_golden:
            save_golden(timeline, path)
        else:
            assert_like(timeline, path, tolerance)


@asynccontextmanager
async def simulation(**options: Any) -> "AsyncIterator[AclSim]":
    """Begin a simulation in the running event loop: for an async fixture of your own name and scope.

        @pytest_asyncio.fixture(scope="module", loop_scope="module")     # with anyio: @pytest.fixture(scope="module")
        async def server_sim():
            async with acl_py_pytest.simulation(device="tiny") as sim:
                yield sim

    All fixtures and tests that depend on the fixture, on the loop of that scope, share the simulation.

    Args:
        options: Those of `acl_py.simulate`; clock="simulated", if they do not say otherwise and it is on no card.

    Raises:
        What `acl_py.simulate` raises for its options.
    """
    async with AclSim(options).begin() as sim:
        yield sim


@pytest.fixture
def acl_sim(request: pytest.FixtureRequest) -> AclSim:
    """A simulation of the native API. For an `async def` test it begins here, so all that depends on it is inside;
    another test calls `acl_sim.run(main)`. `@pytest.mark.acl(...)` gives the options.
    """
    loop_fixture = _loop_fixture(request)
    if loop_fixture is not None:
        sim: AclSim = request.getfixturevalue(loop_fixture)
        return sim
    return AclSim(_of_simulation(request.node), request)


def _faults_of(rules: Sequence[Any]) -> "list[Fault]":
    """Return the fault *rules* of a mark, which are fault rules or their texts."""
    from acl_py.faults import Fault, FaultError, parse

    try:
        return [rule if isinstance(rule, Fault) else parse(rule, "@pytest.mark.acl") for rule in rules]
    except FaultError as error:
        pytest.fail(f"faults of @pytest.mark.acl: {error}", pytrace=False)


def _marked(item: pytest.Item) -> dict[str, Any]:
    marker = item.get_closest_marker("acl")
    if marker is not None and marker.args:
        pytest.fail(
            f"@pytest.mark.acl takes options by their names, as device='tiny', not {marker.args[0]!r}", pytrace=False
        )
    return dict(marker.kwargs) if marker else {}


def _of_simulation(item: pytest.Item) -> dict[str, Any]:
    """Return the options of a mark, which are those of `simulate`, and `faults`."""
    from acl_py.options import Options

    known = ["faults", *(each.name for each in fields(Options))]
    marked = _marked(item)
    for name in marked:
        if name not in known:
            there = ", ".join(known)
            pytest.fail(f"@pytest.mark.acl has no option {name!r}; for acl_sim there are {there}", pytrace=False)
    return marked


def _loop_fixture(request: pytest.FixtureRequest) -> str | None:
    """Return the fixture that begins a simulation on the loop of the test; None if the test is no coroutine."""
    item = request.node
    if not iscoroutinefunction(getattr(*_body_of(item))):
        return None
    if "anyio_backend" in request.fixturenames:
        return "_acl_sim_of_anyio"
    if not request.config.pluginmanager.has_plugin("asyncio"):
        return None
    marker = item.get_closest_marker("asyncio")
    scope = (marker.kwargs if marker else {}).get("loop_scope") or request.config.getini(
        "asyncio_default_test_loop_scope"
    )
    return f"_acl_sim_of_{scope}_loop"


@pytest.fixture(name="_acl_sim_of_anyio")
async def _acl_sim_of_anyio(request: pytest.FixtureRequest, anyio_backend: Any) -> "AsyncIterator[AclSim]":  # noqa: ARG001
    async with AclSim(_of_simulation(request.node), request).begin() as sim:
        yield sim


def _loop_fixtures() -> ModuleType:
    """Return a plugin of fixtures that begin a simulation on a loop of pytest-asyncio: one for each scope of a loop."""
    import pytest_asyncio

    fixtures = ModuleType("acl_py_loop_fixtures")
    for scope in ("function", "class", "module", "package", "session"):
        name = f"_acl_sim_of_{scope}_loop"
        setattr(fixtures, name, pytest_asyncio.fixture(loop_scope=scope, name=name)(_begin_on(scope)))
    return fixtures


def _begin_on(scope: str) -> Callable[..., Any]:
    """Return a generator function of its own for *scope*: pytest-asyncio notes the scope in it."""

    async def begin(request: pytest.FixtureRequest) -> "AsyncIterator[AclSim]":
        async with AclSim(_of_simulation(request.node), request).begin() as sim:
            yield sim

    begin.__name__ = f"_acl_sim_of_{scope}_loop"
    return begin


# --- the simulations that have begun, and what pytest runs in them

_fixtures: list[tuple[str, str]] = []  # scope and name of those that are being set up
_begun: list[AclSim] = []
_ends: list[Callable[[Any], None]] = []  # what ends the coroutines that pytest runs, the innermost last


def _end_running(error: Exception) -> None:
    """Let the coroutine that pytest runs raise *error*; warn if it runs none."""
    if _ends:
        _ends[-1](error)
    else:
        warnings.warn(str(error), RuntimeWarning, stacklevel=1)


@contextmanager
def _ending_deadlocks() -> Iterator[None]:
    """Cancel the calling task when all tasks of its loop wait for one another, and raise DeadlockError then."""
    task, found = asyncio.current_task(), []
    assert task is not None, "a coroutine runs in a task"

    def end(error: Exception) -> None:
        found.append(error)
        task.cancel()

    _ends.append(end)
    try:
        yield
    except asyncio.CancelledError:
        if found:
            task.uncancel()
            raise found[-1] from None
        raise
    finally:
        _ends.remove(end)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, of a test or a fixture, with `_ending_deadlocks` around what runs of it."""
    if isasyncgenfunction(function):

        @wraps(function)
        async def generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            steps = function(*args, **kwargs)
            with _ending_deadlocks():
                value = await anext(steps)
            yield value
            with _ending_deadlocks():
                async for _ in steps:
                    yield _  # pytest says that a fixture yields once

        return generator

    @wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with _ending_deadlocks():
            return await function(*args, **kwargs)

    return coroutine


def _body_of(item: Any) -> tuple[Any, str]:
    """Return the object and the attribute that have the function of a test; Hypothesis keeps it inside its own."""
    inner = getattr(item.obj, "hypothesis", None)
    return (item, "obj") if inner is None else (inner, "inner_test")


_OUTSIDE = (
    "in pytest: let the test, or the fixture that makes this call, depend on the fixture acl_sim, and write the test "
    "as `async def`; a plain test calls acl_sim.run(main)"
)


def _explain(error: BaseException) -> None:
    """Say in pytest's words what to do about a verb that was called in no simulation."""
    if "acl_py.errors" in sys.modules:
        from acl_py.errors import AclError, Kind

        if isinstance(error, AclError) and error.kind is Kind.NOT_INITIALIZED and _OUTSIDE not in _notes_of(error):
            error.add_note(_OUTSIDE)


def _notes_of(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """Guard async fixtures against hangs; note in which fixture a simulation begins."""
    function = fixturedef.func
    is_async = iscoroutinefunction(function) or isasyncgenfunction(function)
    if is_async and "acl_py" in sys.modules and not ismethod(function):
        fixturedef.func = _guarded(function)
    _fixtures.append((fixturedef.scope, fixturedef.argname))
    try:
        return (yield)
    except BaseException as error:
        _explain(error)
        raise
    finally:
        _fixtures.pop()
        fixturedef.func = function


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard an async test against hangs, and refuse what a shared simulation cannot do."""
    sims = [sim for sim in _begun if sim.fixture in getattr(item, "fixturenames", ())]
    for sim in sims:
        if sim.scope != "function":
            _refuse_own_ways(item, sim)
    owner, name = _body_of(item) if isinstance(item, pytest.Function) else (None, "")
    test = getattr(owner, name, None)
    is_guarded = bool(_begun) and iscoroutinefunction(test)
    if is_guarded:
        setattr(owner, name, _guarded(test))  # type: ignore[arg-type]
    try:
        return (yield)
    except BaseException as error:
        _explain(error)
        for sim in _begun:
            sim.fail(error)
        raise
    finally:
        if is_guarded:
            setattr(owner, name, test)


def _refuse_own_ways(item: pytest.Item, sim: AclSim) -> None:
    """Fail *item* if it asks for what only a simulation of its own could do."""
    shared = f"the simulation of the fixture {sim.fixture!r} is shared by the tests of a {sim.scope}"
    if item.get_closest_marker("acl") is not None:
        pytest.fail(f"{shared}, so @pytest.mark.acl cannot give this test options: give them there", pytrace=False)
    if item.config.getoption("--acl-explore") or item.config.getoption("--acl-schedule") is not None:
        pytest.fail(
            f"{shared}, so no test can run again under another schedule: leave out --acl-explore, or use acl_sim",
            pytrace=False,
        )
