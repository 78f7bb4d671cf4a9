"""Failed calls: which functions returned a code, at which lines, how often. Most scripts ignore the codes.

A call that returns a code has failed. Work that fails in a stream, an operation or a wait that reaches its time limit,
is listed too, with the line that submitted it, even if no later call reports it. So is an exception that a thread of
`acl.util.start_thread` did not catch.

Some codes are answers and not failures. `process_report` returns them when no callback came within its time limit, and
when its thread has no stream yet, or no longer. `get_input_index_by_name` returns one when a program asks whether a
model has gears.
"""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from sys import _getframe

from acl_py.codes import named_code
from acl_py.compat.acl.face import current
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site, called_function, site_of
from acl_py.wording import reword
from device_model.errors import DeviceError, code_of, text_of
from device_model.observe import Observer
from device_model.ops import Op
from device_model.steps import Step

_SHOWN = 10  # groups that are listed
_RAISED = -1  # in the place of a code


@dataclass(slots=True)
class _Group:
    """The failures of one function, one kind of operation or one kind of thread, at one line with one code."""

    what: str  # acl.rt.free() at script.py:12
    text: str  # of the first one: name and number of the code, what was wrong, what to do
    count: int = 1

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"

    @property
    def place(self) -> str:
        """What failed, and how often."""
        return self.what if self.count == 1 else f"{self.what}, {self.count:,} times"


class Failures:
    """The failures of a session in groups, in the order of the first of each; any thread may add to them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, int], _Group] = {}  # by what failed, the line, and the code
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many calls, operations and threads have failed."""
        return sum(group.count for group in list(self._groups.values()))

    def clear(self) -> None:
        """Forget all of them. The lock is new, because a process may be forked while another thread holds it."""
        self._groups, self._lock = {}, threading.Lock()

    def add_call(self, code: int, text: str) -> None:
        """Note that the function that the script is calling returns *code*; *text* says why."""
        site = site_of(_getframe(1))
        self._add(f"{called_function(site)}() at ", site, code, text)

    def add_work(self, name: str, site: object, code: int, text: str) -> None:
        """Note that work of a stream, *name*, which the line *site* submitted, failed with *code*; *text* says why."""
        self._add(f"{name}, submitted at ", site, code, text)

    def add_thread(self, site: object, error: BaseException) -> None:
        """Note that a thread that was started at the line *site* ended with *error*."""
        self._add("a thread of acl.util.start_thread() at ", site, _RAISED, text_of(error))

    def _add(self, what: str, site: object, code: int, text: str) -> None:
        key = what, f"{site.file}:{site.line}" if isinstance(site, Site) else f"{site}", code
        with self._lock:
            group = self._groups.get(key)
            if group is not None:
                group.count += 1
                return
            group = self._groups[key] = _Group(
                printable(f"{what}{site}"), printable(reword(text, called_function(site)))
            )
            is_shown = len(self._groups) <= _SHOWN
        if current.are_failures_told_at_once and is_shown:
            print(f"acl-py: failed: {group}\n", end="", file=sys.stderr)  # in one piece: other processes print, too

    def lines(self) -> Iterator[str]:
        """Yield a line for each of the first answers, with those that got it too, and the number of other failures."""
        answers: dict[str, list[_Group]] = {}
        for group in list(self._groups.values()):
            answers.setdefault(group.text, []).append(group)
        alike = list(answers.values())
        for first, *others in alike[:_SHOWN]:
            yield f"  failed: {first}"
            if others:
                yield f"    the same answer: {_places(others)}"
        more = [group for groups in alike[_SHOWN:] for group in groups]
        if more:
            count = sum(group.count for group in more)
            kinds = "another combination" if len(more) == 1 else f"{len(more):,} other combinations"
            yield f"  and {count:,} more failures, in {kinds} of function, line and code"


def _places(groups: list[_Group]) -> str:
    places = [group.place for group in groups[:_SHOWN]]
    return "; ".join(places) + (f"; and {len(groups) - _SHOWN:,} more" if len(groups) > _SHOWN else "")


class WorkFailures(Observer):
    """Adds the operations and waits of *runtime* that fail in a stream to *failures*."""

    def __init__(self, runtime: Runtime, failures: Failures) -> None:
        self._runtime = runtime
        self._failures = failures

    def failed(self, op: Op, error: DeviceError) -> None:
        """Note that *op* failed with *error*."""
        label = op.work.label
        self._add(label.kind if label.name == label.kind else f"{label.kind} {label.name}", op.site, error)

    def wait_timed_out(self, step: Step, error: DeviceError) -> None:
        """Note that the wait *step* reached its limit."""
        self._add(step.what, step.site, error)

    def _add(self, name: str, site: object, error: DeviceError) -> None:
        own = code_of(error)
        named = self._runtime.rules.codes[error.kind] if own is None else named_code(own)
        self._failures.add_work(name, site, named.value, f"{named.name} ({named.value}): {sentence(error)}")


def sentence(error: DeviceError) -> str:
    """Return what was wrong and, if that fits in a line, what to do."""
    remedy = f"; {error.remedy}" if error.remedy and "\n" not in error.remedy else ""
    return f"{error.what}{remedy}"


def printable(text: str) -> str:
    """Return the first line of *text* with control characters escaped; names may come from a file."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text.partition("\n")[0])
