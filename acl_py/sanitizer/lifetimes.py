"""Lifetimes: memory and handles that are used after their end, and waits of the host that can never end.

The calls fail all the same, and say so; here they become findings, with the line of the end and the line of the use.
Accesses through a view of memory that was freed do not fail: only this module sees them.
"""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from acl_py.callers import current_caller
from acl_py.sanitizer.findings import Access, Finding, Findings, Kind, Span
from acl_py.sanitizer.guards import guarded
from acl_py.sanitizer.shadow import Ranges
from acl_py.sanitizer.stacks import Stacks
from acl_py.sanitizer.wording import buffer_text, end_later, handle_text, subject_of, take_out
from acl_py.sites import PACKAGE, called_function, path_to, site_of
from acl_py.wording import reword
from device_model.chains import Link
from device_model.memory import Allocation, Origin
from device_model.observe import Observer

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

_MODEL = "device_model."
_ENDS = ("free", "destroy", "hostunregister", "host_unregister")  # how names of calls begin that end a life


class Lifetimes(Observer):
    """Observes *runtime* and adds uses of what is gone to its findings. If it fails itself, it calls *fail*."""

    def __init__(self, runtime: "Runtime", fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self._runtime = runtime
        self._findings = runtime.state(Findings)
        self._stacks = runtime.state(Stacks)

    def __repr__(self) -> str:
        return "<Lifetimes>"

    @guarded
    def refused(self, dead: object) -> None:
        """Add a call that names something which is gone."""
        name, site = _call(sys._getframe(2))
        use = self._access(name, site, writes=False)
        if isinstance(dead, Allocation):
            self._add(Kind.DOUBLE_FREE if _is_end(name) else Kind.USE_AFTER_FREE, dead, use)
        else:
            handle, end = handle_text(dead), getattr(dead, "destroyed", None)
            ended = Access(f"the end of {handle}", True, "", "", _line(end), file=_file(end))
            what, again = ("destroys", " already") if _is_end(name) else ("uses", "")
            text = f"{subject_of(use)} {what} {handle}, which was destroyed{_at(end)}{again}"
            fix = take_out(use) if again else end_later(ended, use)
            self._findings.add(Finding(Kind.AFTER_DESTROY, text, (ended, use), fix=fix))

    @guarded
    def touched(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """Add an access of the host, at *site*, to memory that was freed. An array that is no longer registered is an
        ordinary array.
        """
        if allocation.origin is Origin.REGISTERED:
            return
        use = self._access("host write" if writes else "host read", site, writes=writes)
        self._add(Kind.USE_AFTER_FREE, allocation, use, ranges)

    @guarded
    def hung(self, what: str, site: object, links: Sequence[Link]) -> None:
        """Add a wait that can never end."""
        who = self._runtime.callers.name(current_caller())
        waits = [Access("wait", False, who, "", _line(site), path_to(site), file=_file(site))]
        for link in links:
            place = getattr(link.subject, "site", None)
            if place is not None and (not waits or waits[-1].site != _line(place)):
                waits.append(Access("what it waits for", False, "", "", _line(place), file=_file(place)))
        chain = "".join(f"; it waits for {access.site}" for access in waits[1:])
        what = reword(what) if called_function(site, "") else what
        self._findings.add(Finding(Kind.DEADLOCK, f"{what} can never end{chain}", tuple(waits)))

    def _access(self, what: str, site: object, *, writes: bool) -> Access:
        who, now = self._runtime.callers.name(current_caller()), self._runtime.host_ns
        return Access(what, writes, who, "", _line(site), path_to(site), now, _file(site))

    def _add(self, kind: Kind, dead: Allocation, use: Access, ranges: Ranges = ()) -> None:
        buffer = buffer_text(dead)
        word = "unregistered" if dead.origin is Origin.REGISTERED else "freed"
        what = {Kind.DOUBLE_FREE: "frees"}.get(kind, "writes" if use.writes else "uses")
        again = " already" if kind is Kind.DOUBLE_FREE else ""
        stack = self._stacks.paths.get(dead.freed, ())
        ended = Access(
            called_function(dead.freed, dead.origin.ender),
            True,
            "",
            "",
            _line(dead.freed),
            stack,
            file=_file(dead.freed),
        )
        text = f"{subject_of(use)} {what} {buffer}, which was {word}{_at(dead.freed)}{again}"
        spans = tuple(Span(buffer, start, stop) for start, stop in ranges or ((0, dead.nbytes),))
        fix = take_out(use) if kind is Kind.DOUBLE_FREE else end_later(ended, use)
        self._findings.add(Finding(kind, text, (ended, use), spans, fix=fix))


def _is_end(name: str) -> bool:
    return name.rpartition(".")[2].lower().startswith(_ENDS)


def _line(site: object) -> str:
    return "" if site is None or site is True else str(site)


def _at(site: object) -> str:
    return f" at {_line(site)}" if _line(site) else ""


def _file(site: object) -> str:
    file: str = getattr(site, "file", "")
    return file


def _call(frame: FrameType | None) -> tuple[str, object]:
    """Return the name of the call that *frame* is part of, as the program made it, and its line."""
    inner = frame
    while frame is not None and (
        frame.f_code.co_filename.startswith(PACKAGE) or frame.f_globals.get("__name__", "").startswith(_MODEL)
    ):
        inner, frame = frame, frame.f_back
    assert inner is not None, "a call has a frame"
    is_in_model = inner.f_globals.get("__name__", "").startswith(_MODEL)  # a method of a buffer
    site = site_of(frame if is_in_model and frame is not None else inner)
    return called_function(site, inner.f_code.co_name), site
