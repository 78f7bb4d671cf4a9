"""A tuner: runs a kernel with each choice of its parameters, such as tile sizes and depths, and compares the times."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Trial:
    """One choice of parameters, and the time of its launch.

    Attributes:
        choice: The value of each parameter.
        us: The time of the launch in us; None if the choice does not count.
        busy_us: How long each kind of pipe was busy, in us, as a mean over the cores.
        failure: Why the choice does not count; empty if it does.
        findings: All findings of the run as text, also if an error ended it.
    """

    choice: Mapping[str, Any]
    us: float | None
    busy_us: Mapping[str, float]
    failure: str = ""
    findings: tuple[str, ...] = ()

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
        lines = [[*names, "us", *pipes, ""]]
        for row in self.rows:
            cells = [str(row.choice[name]) for name in names]
            if row.us is None:
                lines.append([*cells, "-", *("-" for _ in pipes), row.failure])
                continue
            whole = max((us for name, us in row.busy_us.items() if name.endswith("_time")), default=row.us)
            shares = [f"{100 * row.busy_us.get(name, 0.0) / whole:.0f} %" for name in pipes]
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
    job = _Job(kernel, block_dim, dict(zip(names, args, strict=True)), run, check)
    return Tuning(tuple(each(job, tried, _lost) if each else map(job, tried)))


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

    def __call__(self, choice: Mapping[str, Any]) -> Trial:
        """Run the kernel with *choice*. An error of the kernel makes the row a failure: tiles may be too large."""
        given = {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in self.given.items()}
        function, values = _function(self.kernel), {**given, **choice}
        args = [values[name] for name in inspect.signature(function).parameters]
        blocks = choice.get(BLOCK_DIM, self.block_dim)
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
        return Trial(choice, timeline.duration_ns / 1000, dict(timeline.busy_us))


def _texts(result: Result | None) -> tuple[str, ...]:
    return tuple(map(str, result.findings)) if result is not None else ()


def _function(kernel: Kernel) -> Kernel:
    """Return the plain function of a kernel, which can be called; the result of `asc.kernel` can only be launched."""
    function: Kernel = inspect.unwrap(kernel, stop=inspect.isfunction)
    return function
