"""A watch: sanitizes all simulations of a process that begin while it is in force, and keeps what they found.

`acl-py run`, the pytest plugin and the tests of samples use it. So a program needs no change to be sanitized.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import ref

from acl_py.findings import Finding, Findings
from acl_py.parts import SanitizerPart

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime
    from acl_py.simulation import Simulation
    from acl_py.trace import Trace


class Watch:
    """The *parts* that simulations are sanitized with, unless they say otherwise, and the findings of all of them.

    Findings are not told at once then; without parts, those of core kernels are.
    """

    __slots__ = ("_kept", "_taken", "instructions", "parts", "traces")

    def __init__(self, parts: frozenset[SanitizerPart], *, keeps_traces: bool = False) -> None:
        self.parts = parts
        self.instructions = 0  # of each launch of a core kernel in a trace, unless the simulation says how many
        self.traces: list[Trace] | None = [] if keeps_traces else None  # the recordings of all simulations
        self._kept: list[tuple[Findings, ref[Runtime]]] = []
        self._taken: set[tuple[str, ...]] = set()  # by `take`, as keys

    def __repr__(self) -> str:
        return f"<Watch for {', '.join(sorted(self.parts)) or 'nothing'}>"

    def keep_traces(self, instructions: int) -> None:
        """Keep the recordings of the simulations that begin from now on, with *instructions* of each launch."""
        self.traces, self.instructions = [], instructions

    def keep(self, runtime: "Runtime", trace: "Trace | None") -> None:
        """Keep the findings of a simulation that begins and, if they are wanted, its *trace*."""
        if self.traces is not None and trace is not None:
            self.traces.append(trace)
        findings = runtime.state(Findings)
        findings.is_quiet = bool(self.parts)
        self._kept.append((findings, ref(runtime)))

    def finish(self) -> None:
        """Let the sanitizers of all simulations look for what is only known at the end, such as leaks."""
        for _, kept in self._kept:
            runtime = kept()
            if runtime is not None and runtime.sanitizer is not None:
                runtime.sanitizer.finish()

    @property
    def findings(self) -> list[Finding]:
        """The findings so far. Several simulations may make the same one; it is there once, with their counts."""
        merged = Findings(is_quiet=True)
        for findings, _ in self._kept:
            for finding in findings:
                merged.add(finding)
        return list(merged)

    @property
    def notes(self) -> list[str]:
        """What the sanitizer did not see or took for granted, each once."""
        return list(dict.fromkeys(note for findings, _ in self._kept for note in findings.notes))

    def take(self) -> list[Finding]:
        """Return the findings that no earlier call has returned. Simulations that have ended are forgotten then."""
        new = [finding for finding in self.findings if finding.key not in self._taken]
        self._kept = [(findings, kept) for findings, kept in self._kept if _is_alive(kept)]
        self._taken = {finding.key for findings, _ in self._kept for finding in findings}
        return new


def _is_alive(kept: "ref[Runtime]") -> bool:
    runtime = kept()
    return runtime is not None and runtime.closed is None


_watches: list[Watch] = []  # in force, the latest last
followers: "list[Callable[[Runtime, Trace | None], object]]" = []  # each gets every simulation that begins
of_verbs: "list[Callable[[Simulation], object]]" = []  # each gets those that a program of verbs begins


def note_begin(runtime: "Runtime", trace: "Trace | None") -> None:
    """Tell the watch in force and all followers that a simulation begins."""
    watch = current_watch()
    if watch is not None:
        watch.keep(runtime, trace)
    for follow in followers:
        follow(runtime, trace)


def current_watch() -> Watch | None:
    """Return the watch in force that began last."""
    return _watches[-1] if _watches else None


def begin(parts: frozenset[SanitizerPart], *, keeps_traces: bool = False) -> Watch:
    """Sanitize with *parts* all simulations that begin from now on; the watch that is returned keeps their findings."""
    watch = Watch(parts, keeps_traces=keeps_traces)
    _watches.append(watch)
    return watch


def end(watch: Watch) -> None:
    """End *watch*: later simulations are not its own. It still has what it has kept."""
    _watches.remove(watch)


@contextmanager
def watching(parts: frozenset[SanitizerPart], *, keeps_traces: bool = False) -> Iterator[Watch]:
    """Sanitize with *parts* all simulations that begin in the block, and yield the watch that keeps their findings."""
    watch = begin(parts, keeps_traces=keeps_traces)
    try:
        yield watch
    finally:
        end(watch)


def forget_all() -> None:
    """End all watches: in a forked process, which has no report, findings are told at once."""
    _watches.clear()
    followers.clear()
    of_verbs.clear()
