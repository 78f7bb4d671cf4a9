"""Runs of a script under a schedule, each in a process of its own, so that no run finds traces of another.

The process runs the script as `acl-py run` does, and tells its parent of each deviation as it happens. A run that hangs
on a card ends its process at once, and one that takes too long is stopped. It then has some seconds to tell what the
sanitizer has found.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import monotonic
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from acl_py.causes.path import makespan_ns
from acl_py.compat.acl import hanging
from acl_py.errors import full_text
from acl_py.explore.functions import found_by
from acl_py.explore.outcomes import Outcome
from acl_py.findings import Finding
from acl_py.parts import SanitizerPart
from acl_py.sanitizer.watch import Watch, watching
from acl_py.schedules import Decide, Deviation, Point, Schedule, effects_of, following, having
from acl_py.tools import scripts
from acl_py.trace.rows.timeline import Timeline

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LINES = 12  # of a failed script's output
_GRACE_S = 5.0  # of real time, for the findings of a run that took too long


@dataclass(frozen=True, slots=True)
class Job:
    """What runs again and again.

    Attributes:
        program: The path of the script.
        arguments: Its arguments.
        check: The name of a function of the script, which is called without arguments after it; "" for none.
        limit_s: How long a run may take, in seconds of real time.
        is_shown: Whether its output is shown; otherwise it is kept for the report of a failure.
        register: Python files that register operators, models or kernels.
        options: Those of `acl_py.compat.acl.install`.
        parts: What the sanitizer looks for. If there is nothing, what core kernels find is a failure.
        is_timed: Whether outcomes have the time that the simulations took.
    """

    program: str
    arguments: tuple[str, ...] = ()
    check: str = ""
    limit_s: float = 60.0
    is_shown: bool = False
    register: tuple[Path, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    parts: frozenset[SanitizerPart] = frozenset()
    is_timed: bool = False


def run(job: Job, decide: Decide) -> Outcome:
    """Run the script of *job* in a process of its own, with the decisions of *decide*.

    Raises:
        ScriptError: The script cannot be read, or has no function of the name that is to be called after it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["acl_py.explore.preloaded"])
    here, there = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="acl-py-") as output:
        process = context.Process(target=_run, args=(there, job, decide, output.name))
        _start(process)
        there.close()
        told = list(_told(here, job.limit_s))
        if told and told[-1] is _TOO_LATE:
            process.terminate()  # at this signal a script prints its findings, as `acl-py run` does, and ends
            told += _told(here, _GRACE_S)
            process.kill()
        process.join()
        here.close()
        deviations, texts = [], []
        findings: tuple[Finding, ...] = ()
        ns = 0
        end = _End(_ended(process.exitcode or 0))
        for each in told:
            if isinstance(each, _End):
                end = each
            elif isinstance(each, _Found):
                findings = each.findings
            elif isinstance(each, _Took):
                ns = each.ns
            elif each is _TOO_LATE:
                end = _End(f"it did not end within {job.limit_s:g} s of real time")
            else:
                deviations.append(each[0])
                texts.append(each[1])
        if end.is_unusable:
            raise scripts.ScriptError(end.failure)
        shown = _last_lines(Path(output.name)) if end.failure and not job.is_shown else []
    return Outcome("\n".join([end.failure, *shown]), tuple(deviations), tuple(texts), end.points, findings, ns)


def _start(process: ForkServerProcess) -> None:
    """Start *process*, also in a worker of Dask. Such a worker is a daemon, and Python lets daemons have no children
    because nobody ends them; here they end with their run.
    """
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    daemon, config["daemon"] = config.get("daemon"), False
    try:
        process.start()
    finally:
        config["daemon"] = daemon


class _End(NamedTuple):
    """The last thing that a process tells: how the run failed, or "", and its choice points."""

    failure: str
    points: tuple[Point, ...] = ()
    is_unusable: bool = False  # the script cannot be run at all


class _Found(NamedTuple):
    """What the sanitizer has found, however the run ends."""

    findings: tuple[Finding, ...]


class _Took(NamedTuple):
    """How long all simulations took, in simulated time."""

    ns: int


_Note = tuple[Deviation, str]
_TOO_LATE = object()


def _told(here: "Connection[Any, Any]", limit_s: float) -> Iterator[Any]:
    """Yield what a process tells, up to its end; then `_TOO_LATE` if it takes longer than *limit_s*."""
    deadline = monotonic() + limit_s
    while here.poll(max(0.0, deadline - monotonic())):
        try:
            yield here.recv()
        except EOFError:
            return
    yield _TOO_LATE


def _ended(code: int) -> str:
    if code == hanging.HUNG:
        return "it hangs"
    return f"its process ended with exit code {code}" if code >= 0 else f"its process was ended by signal {-code}"


def _last_lines(output: Path) -> list[str]:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"  | {line}" for line in lines[-_LINES:]]


def _run(there: "Connection[Any, Any]", job: Job, decide: Decide, output: str) -> None:
    """Run the script in this process, and tell the parent about it."""
    if not job.is_shown:
        with open(output, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
    errors: list[str] = []

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        errors.append(full_text(error))
        if not _is_of_check(trace):
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = note
    schedule = Schedule(decide, lambda deviation, text: there.send((deviation, text)))
    try:
        effects = effects_of(job.options.get("effects"))
        with following(schedule), having(effects), watching(job.parts, keeps_traces=job.is_timed) as watch:
            views = [partial(_tell_findings, there, watch)] if job.parts else []
            if job.is_timed:
                views.append(partial(_tell_time, there, watch))
            code = scripts.run(
                job.program,
                job.arguments,
                job.register,
                views,
                check=partial(_check, job.check),
                **job.options,
            )
    except scripts.ScriptError as error:
        there.send(_End(str(error), is_unusable=True))
        return
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    there.send(_End(_failure(code, errors, None if job.parts else watch), tuple(schedule.points)))


def _tell_findings(there: "Connection[Any, Any]", watch: Watch, _: Sequence[Timeline]) -> bool:
    watch.finish()
    there.send(_Found(tuple(watch.findings)))
    return True


def _tell_time(there: "Connection[Any, Any]", watch: Watch, _: Sequence[Timeline]) -> bool:
    there.send(_Took(sum(makespan_ns(trace.timeline()) for trace in watch.traces or ())))
    return True


def _failure(code: int, errors: Sequence[str], watch: Watch | None) -> str:
    if code:
        return errors[0] if errors else f"it ended with exit code {code}"
    return "" if watch is None else found_by(watch)


def _is_of_check(trace: TracebackType | None) -> bool:
    """Whether `_check` itself has raised the error of *trace*: that the function returned False says it all."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is _check.__code__


def _check(name: str, main: ModuleType) -> None:
    """Call the function *name* of the script, if it has a name; False is a failure, as an exception is."""
    if not name:
        return
    function = getattr(main, name, None)
    if not callable(function):
        raise scripts.ScriptError(f"--check {name}: the script has no function of that name")
    answer = function()
    if answer is False:
        raise AssertionError(f"{name}() returned False")
