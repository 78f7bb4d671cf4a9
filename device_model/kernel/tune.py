"""A tuner: runs a kernel with each choice of its parameters, such as tile sizes and depths, and compares the times."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from device_model.grids import combinations, table
from device_model.kernel.results import Result

BLOCK_DIM = "block_dim"  # the choice that is not an argument of the kernel
Kernel = Callable[..., object]
Blocks = int | tuple[int, int, int]  # of a launch; thread blocks have up to three directions
Run = Callable[[Kernel, Any, Sequence[Any]], Result]  # runs blocks of a kernel with its arguments
Check = Callable[..., object]
Lost = Callable[[Mapping[str, Any], str], "Trial"]  # makes the row of a choice that no worker could run
Each = Callable[[Callable[[Mapping[str, Any]], "Trial"], Sequence[Mapping[str, Any]], Lost], "Iterable[Trial]"]


class Binding(NamedTuple):
    """How fast a launch moved its bytes, in MB/s and as a part of the memory's rate, and what binds it."""

    mb_per_s: float
    peak: float
    binds: str


Judge = Callable[[Any], Binding]  # says what binds a launch, of its result
Bound = Callable[[Kernel, Any, Sequence[Any]], float]  # the least time in us; it may run the kernel without times


@dataclass(frozen=True)
class Trial:
    """One choice of parameters, and the time of its launch.

    Attributes:
        choice: The value of each parameter.
        us: The time of the launch in us; None if the choice does not count.
        busy_us: How long each kind of pipe was busy, in us, as a mean over the cores.
        failure: Why the choice does not count; empty if it does.
        findings: All findings of the run as text, also if an error ended it.
        binding: What binds the launch; None if the choice does not count, or the kind of kernel cannot tell.
    """

    choice: Mapping[str, Any]
    us: float | None
    busy_us: Mapping[str, float]
    failure: str = ""
    findings: tuple[str, ...] = ()
    binding: Binding | None = None

    def __str__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.choice.items())
        return f"{chosen}: {self.failure or f'{self.us:.2f} us'}"


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`; str() is a table.

    Attributes:
        rows: A row for each choice, in the order of the choices.
    """

    rows: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The fastest row that counts, the first of equal ones. Raises ValueError if no row counts."""
        return min(self._counting(), key=lambda row: row.us or 0.0)

    @property
    def worst(self) -> Trial:
        """The slowest row that counts. Raises ValueError if no row counts."""
        return max(self._counting(), key=lambda row: row.us or 0.0)

    def _counting(self) -> list[Trial]:
        rows = [row for row in self.rows if row.us is not None]
        if not rows:
            raise ValueError("no choice of the tuning counts:\n" + "\n".join(f"  {row}" for row in self.rows))
        return rows

    def __str__(self) -> str:
        best = self.best if any(row.us is not None for row in self.rows) else None
        names = list(self.rows[0].choice)
        pipes = list(dict.fromkeys(name for row in self.rows for name in row.busy_us if not name.endswith("_time")))
        judged = any(row.binding is not None for row in self.rows)
        lines = [[*names, "us", *pipes, *(("MB/s", "peak", "binds") if judged else ()), ""]]
        for row in self.rows:
            cells = [str(row.choice[name]) for name in names]
            if row.us is None:
                lines.append([*cells, "-", *("-" for _ in range(len(pipes) + 3 * judged)), row.failure])
                continue
            whole = max((us for name, us in row.busy_us.items() if name.endswith("_time")), default=row.us)
            shares = [f"{100 * row.busy_us.get(name, 0.0) / whole:.0f} %" for name in pipes]
            if row.binding is not None:
                rate, peak, binds = row.binding
                shares += [f"{rate:,.0f}", f"{100 * peak:.0f} %", binds]
            lines.append([*cells, f"{row.us:.2f}", *shares, "best" if row is best else ""])
        return table(lines)


def tune(
    kernel: Kernel,
    block_dim: Blocks,
    args: Sequence[Any],
    choices: Mapping[str, Sequence[Any]],
    run: Run,
    *,
    check: Check | None = None,
    each: Each | None = None,
    judge: Judge | None = None,
    bound: Bound | None = None,
) -> Tuning:
    """Run a kernel with every combination of *choices*, and compare the times.

    A run does not count if the kernel raises an error, if there are findings, or if *check* returns False. Its row says
    why.

    Args:
        kernel: The kernel: a function, or what a decorator such as `asc.kernel` has made of it.
        block_dim: The number of blocks; of thread blocks also one for each direction.
        args: The arguments that are not in *choices*, in their order. Each run gets copies of the arrays.
        choices: The values to try for each parameter of the kernel; the name `block_dim` stands for the number of
            blocks.
        run: Runs the kernel on cores of its kind, and times it.
        check: Called with *args* after each run; it returns whether their contents are right.
        each: Calls a function with each of the choices, in this or other processes, and yields the rows in their order;
            by default one after the other in the caller. Other processes need a kernel, arguments, *run* and a check
            that can be pickled.
        judge: Says what binds a launch.
        bound: Gives the least time of a choice. Choices that take more than another one has taken are not run.

    Returns:
        A row for each combination.

    Raises:
        TypeError: *choices* names a parameter that the kernel does not have, or *args* has the wrong length.
        ValueError: There is nothing to try for a parameter.
    """
    parameters = inspect.signature(_function(kernel)).parameters
    names = [name for name in parameters if name not in choices]
    unknown = [name for name in choices if name not in parameters and name != BLOCK_DIM]
    if unknown:
        raise TypeError(f"{kernel!r} has no parameter {', '.join(unknown)}; choices are for parameters or {BLOCK_DIM}")
    if len(names) != len(args):
        raise TypeError(f"{kernel!r} takes ({', '.join(names)}) beside the choices, not {len(args)} arguments")
    tried = combinations(choices)
    job = _Job(kernel, block_dim, dict(zip(names, args, strict=True)), run, check, judge)

    def rows(of: Callable[[Mapping[str, Any]], Trial], some: Sequence[Mapping[str, Any]]) -> list[Trial]:
        return list(each(of, some, _lost) if each else map(of, some))

    if bound is None:
        return Tuning(tuple(rows(job, tried)))
    return Tuning(tuple(_pruned(job, tried, rows, bound)))


def _pruned(
    job: "_Job", tried: Sequence[Mapping[str, Any]], rows: Callable[..., list[Trial]], bound: Bound
) -> list[Trial]:
    """Run the choice with the smallest bound, then those whose bound is no larger than the time of this one.

    A choice that is as fast as the best one is among these, so the winner is that of all choices.
    """
    least = [row.us or 0.0 for row in rows(_Least(job, bound), tried)]
    order = sorted(range(len(tried)), key=least.__getitem__)
    done: dict[int, Trial] = {}
    limit: float | None = None
    for place in order:  # until one of them counts
        (done[place],) = rows(job, [tried[place]])
        limit = done[place].us
        if limit is not None:
            break
    left = [place for place in order if place not in done and (limit is None or least[place] <= limit)]
    done.update(zip(left, rows(job, [tried[place] for place in left]), strict=True))
    return [
        done.get(place) or Trial(choice, None, {}, f"not run: it takes {least[place]:.2f} us or more")
        for place, choice in enumerate(tried)
    ]


def _lost(choice: Mapping[str, Any], why: str) -> Trial:
    return Trial(choice, None, {}, why)


@dataclass(frozen=True)
class _Job:
    """The inputs that all rows share. Call it with a choice, in this or another process, to make its row."""

    kernel: Kernel
    block_dim: Blocks
    given: Mapping[str, Any]
    run: Run
    check: Check | None
    judge: Judge | None = None

    def arguments(self, choice: Mapping[str, Any]) -> tuple[Kernel, Any, list[Any], dict[str, Any]]:
        """Return the function, the blocks and the arguments with *choice*, and copies of what is given."""
        given = {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in self.given.items()}
        function, values = _function(self.kernel), {**given, **choice}
        args = [values[name] for name in inspect.signature(function).parameters]
        return function, choice.get(BLOCK_DIM, self.block_dim), args, given

    def __call__(self, choice: Mapping[str, Any]) -> Trial:
        """Run the kernel with *choice*. An error of the kernel makes the row a failure: tiles may be too large."""
        function, blocks, args, given = self.arguments(choice)
        try:
            result = self.run(function, blocks, args)
        except Exception as error:
            so_far: Result | None = getattr(error, "result", None)
            return Trial(choice, None, {}, f"{type(error).__name__}: {error}", _texts(so_far))
        findings = _texts(result)
        if findings:
            more = f"; and {len(findings) - 1} more" if len(findings) > 1 else ""
            return Trial(choice, None, {}, findings[0] + more, findings)
        if self.check is not None and not self.check(*given.values()):
            return Trial(choice, None, {}, "the check says that the result is wrong")
        timeline = result.timeline
        assert timeline is not None, "the launch is timed"
        binding = self.judge(result) if self.judge is not None else None
        return Trial(choice, timeline.duration_ns / 1000, dict(timeline.busy_us), binding=binding)


@dataclass(frozen=True)
class _Least:
    """Gives the least time of each choice, as a row; 0 where the kernel ends with an error, which its own row shows."""

    job: _Job
    bound: Bound

    def __call__(self, choice: Mapping[str, Any]) -> Trial:
        function, blocks, args, _ = self.job.arguments(choice)
        try:
            return Trial(choice, self.bound(function, blocks, args), {})
        except Exception:  # it is run, and says why
            return Trial(choice, 0.0, {})


def _texts(result: Result | None) -> tuple[str, ...]:
    return tuple(map(str, result.findings)) if result is not None else ()


def _function(kernel: Kernel) -> Kernel:
    """Return the plain function of a kernel, which can be called; the result of `asc.kernel` can only be launched."""
    function: Kernel = inspect.unwrap(kernel, stop=inspect.isfunction)
    return function
