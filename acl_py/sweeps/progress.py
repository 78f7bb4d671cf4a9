"""How far a sweep is: a bar on a terminal, and elsewhere a line each second."""

import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self

from acl_py.sweeps.rows import Row

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_EACH_S = 1.0  # between two lines


class Progress:
    """Shows on the standard error how many points have ended and failed, how many a second, and how long it takes yet.

    Call it with each row that ends, as `sweep` calls *tell*.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._begin_s = self._said_s = clock()
        self._failed = self._ran = 0
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # late: most runs show nothing
            from rich.progress import BarColumn, Progress, TextColumn

            columns = BarColumn(), TextColumn("{task.description}")
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task("points", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, row: Row, ended: int, total: int) -> None:
        """Count *row*; *ended* of *total* points have ended, with those that were known before."""
        self._ran += 1
        self._failed += bool(row.error)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=ended, total=total, description=self.text(ended, total))
        elif self._clock() - self._said_s >= _EACH_S:
            self._said_s = self._clock()
            print(self.text(ended, total), file=sys.stderr, flush=True)

    def text(self, ended: int, total: int) -> str:
        """Return it as a line."""
        rate = self._ran / max(self._clock() - self._begin_s, 1e-9)
        left_s = (total - ended) / rate if rate else 0.0
        failed = f", {self._failed:,} failed" if self._failed else ""
        return f"{ended:,} of {total:,} points{failed}, {rate:,.1f} a second, {_seconds(left_s)} left"


def _seconds(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
