"""A pytest plugin: fixtures for simulated devices, and the sanitizer for all simulations of a test run.

The fixture `acl` is the module as a script imports it, with a new session for each test:

    def test_copies(acl):
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)

    @pytest.mark.acl(device="ascend310p3", devices=2)       # options of acl_py.compat.acl.install
    def test_two_cards(acl, acl_session):
        ...
        assert not acl_session.leaks()

Until the test ends, `import acl` in the code under test finds the same module; afterwards the module is removed. With
`--acl-leaks` a test that does not give back its memory and handles fails, with a line for each leak.

The fixture `acl_sim` is a simulation of the native API, with assertions about what happened in it:

    @pytest.mark.acl(device="tiny")                         # options of acl_py.simulate
    async def test_overlap(acl_sim):                        # with pytest-asyncio or the plugin of anyio
        await pipeline()
        acl_sim.assert_overlaps("h2d", "square")

    def test_result(acl_sim):
        assert acl_sim.run(pipeline) == 9

With `--acl-sanitize` a test fails if the sanitizer finds something in a simulation that began in it, whoever began it.
`--acl-trace DIR` writes the recording of each simulation, for `acl-py report`. `--acl-explore N` runs each test that
passes and has simulations again under N other legal schedules (docs/explore.md), with all its fixtures; it fails if it
fails under one of them. `--acl-schedule TEXT` runs tests under that one.

PYTEST_DONT_REWRITE: there is no assertion to rewrite here, and this file may be imported before pytest could do so.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import replace
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from acl_py import Simulation
    from acl_py.compat.acl.face.session import Session
    from acl_py.explore.outcomes import Outcome
    from acl_py.explore.strategies import Strategy
    from acl_py.sanitizer import Finding
    from acl_py.sanitizer.reports import Report
    from acl_py.schedules import Decide
    from acl_py.trace import Trace
    from device_model.ops import Op

# pytest loads this file in every run where acl_py is installed, so acl_py is imported only when a test needs it.

_T = TypeVar("_T")
_OUTPUT = "acl_py_sanitizer"  # what a worker of xdist hands to the process that prints the summary


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("acl_py")
    group.addoption(
        "--acl-leaks", action="store_true", help="Fail tests with the fixture acl that leak memory or handles."
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
        "--acl-explore", metavar="N", type=int, default=0, help="Run each test with simulations under N more schedules."
    )
    group.addoption(
        "--acl-schedule", metavar="TEXT", help="Run tests under this schedule, such as 'delay@3=1', and no other."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `acl`; begin to watch simulations if an option asks for it."""
    config.addinivalue_line(
        "markers",
        "acl(**options): options of acl_py.compat.acl.install for the fixture acl, of acl_py.simulate for acl_sim.",
    )
    if config.getoption("--acl-sanitize") or config.getoption("--acl-trace") is not None:
        config.pluginmanager.register(_Watching(config), "acl_py_watching")
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
    lines = ["what is otherwise than under the default schedule:"]
    lines += [f"  {each}  {text}" for each, text in zip(failing.deviations, failing.texts, strict=True)]
    schedule = " ".join(map(str, failing.deviations))
    return "\n".join([*lines, f"run it again with --acl-schedule {schedule!r}"])


class _Watching:
    """Watches the simulations of all tests: fails tests that have findings, and writes recordings."""

    def __init__(self, config: pytest.Config) -> None:
        from acl_py.sanitizer import watch
        from acl_py.sanitizer.parts import parts_of
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
            pytest.fail(report.text(), pytrace=False)

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


class AclSession:
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

    marker = request.node.get_closest_marker("acl")
    module = install(replace=True, **(marker.kwargs if marker else {}))
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


class AclSim:
    """A simulation of the native API for a test. A test that is a coroutine runs in it; another one calls `run`."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = {"clock": "simulated", **options}
        self._simulation: Simulation | None = None

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

        async def whole() -> _T:
            self._simulation = acl_py.current_simulation()
            return await main(*args)

        return acl_py.run(whole, **self._options)

    async def hold(self, test: Callable[..., Coroutine[Any, Any, Any]], arguments: dict[str, Any]) -> None:
        """Run *test* in a new simulation in the running event loop."""
        import acl_py

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pytest.fail("acl_sim needs an event loop of asyncio: let anyio_backend be 'asyncio'", pytrace=False)
        async with acl_py.simulate(**self._options) as self._simulation:
            await test(**arguments)

    @property
    def findings(self) -> "list[Finding]":
        """What was found so far."""
        return self.simulation.findings

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time."""
        return self.simulation.now_ns / 1000

    def assert_overlaps(self, a: "str | Op", b: "str | Op") -> None:
        """Assert that some operation *a* and some operation *b* ran at the same time.

        An operation is named by its kernel ("add"), its kind ("h2d", "kernel"), its stream ("stream 'copies'"), or the
        completion that its verb returned.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        assertions.assert_overlaps(self.simulation.trace.timeline(), a, b)

    def assert_ordered(self, a: "str | Op", b: "str | Op") -> None:
        """Assert that streams, events or synchronisations put each operation *b* behind all operations *a* that were
        queued before it.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        assertions.assert_ordered(self.simulation.trace.timeline(), a, b)

    def assert_no_implicit_sync(self) -> None:
        """Assert that nothing waited without being asked to: copies of pageable memory, frees, full queues, ..."""
        from acl_py.explain import assertions

        __tracebackhide__ = True
        assertions.assert_no_implicit_sync(self.simulation.trace.timeline())

    def assert_within_us(self, limit_us: float, of: "str | Op | None" = None) -> None:
        """Assert that the run took at most *limit_us* microseconds of simulated time; with *of*, that these operations
        did, from the first start to the last end.
        """
        from acl_py.explain import assertions

        __tracebackhide__ = True
        assertions.assert_within_us(self.simulation.trace.timeline(), limit_us, of)


@pytest.fixture
def acl_sim(request: pytest.FixtureRequest) -> Iterator[AclSim]:
    """A simulation of the native API: an `async def` test runs in it; `@pytest.mark.acl(...)` gives the options.

    Verbs in other fixtures are not in it: it begins with the test itself.
    """
    item, marker = request.node, request.node.get_closest_marker("acl")
    sim, test = AclSim(marker.kwargs if marker else {}), item.obj
    if iscoroutinefunction(test):

        @wraps(test)
        async def in_simulation(**arguments: Any) -> None:
            await sim.hold(test, arguments)

        item.obj = in_simulation
    try:
        yield sim
    finally:
        item.obj = test
