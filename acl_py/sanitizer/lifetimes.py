"""Lifetimes: memory and handles that are used after their end, and waits of the host that can never end.

The calls fail all the same, and say so; here they become findings, with the line of the end and the line of the use.
Accesses through a view of memory that was freed do not fail: only this module sees them.
"""

import sys
from collections.abc import Sequence
from types import FrameType

from acl_py.callers import current_caller
from acl_py.findings import Access, Finding, Kind, Span, access_at, line_text
from acl_py.ranges import Ranges
from acl_py.sanitizer.check import Check, guarded
from acl_py.sanitizer.finding_texts import buffer_text, end_later, handle_text, subject_of, take_out
from acl_py.sites import PACKAGE, called_function, path_to, site_of
from acl_py.wording import reword
from device_model.chains import Link
from device_model.memory import Allocation, Origin

_MODEL = "device_model."
_ENDS = ("free", "destroy", "unregister")  # in the names of calls that end a life: FreeHost, cuMemFree_v2


class Lifetimes(Check):
    """Adds uses of what is gone to the findings."""

    def __repr__(self) -> str:
        return "<Lifetimes>"

    @guarded
    def refused(self, dead: object) -> None:
        """Add a call that names something which is gone."""
        name, site = _call(sys._getframe(2))
        use = self._access_by_host(name, site)
        if isinstance(dead, Allocation):
            self._add(Kind.DOUBLE_FREE if _is_end(name) else Kind.USE_AFTER_FREE, dead, use)
        else:
            handle, end = handle_text(dead), getattr(dead, "destroyed", None)
            ended = access_at(end, f"the end of {handle}", writes=True)
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
        use = self._access_by_host("host write" if writes else "host read", site, writes=writes)
        self._add(Kind.USE_AFTER_FREE, allocation, use, ranges)

    @guarded
    def hung(self, what: str, site: object, links: Sequence[Link]) -> None:
        """Add a wait that can never end."""
        who = self._runtime.callers.name(current_caller())
        waits = [access_at(site, "wait", caller=who, stack=path_to(site))]
        for link in links:
            place = getattr(link.subject, "site", None)
            if place is not None and waits[-1].site != line_text(place):
                waits.append(access_at(place, "what it waits for"))
        chain = "".join(f"; it waits for {access.site}" for access in waits[1:])
        if function := called_function(site, ""):
            what = reword(what, function)
        self._findings.add(Finding(Kind.DEADLOCK, f"{what} can never end{chain}", tuple(waits)))

    def _add(self, kind: Kind, dead: Allocation, use: Access, ranges: Ranges = ()) -> None:
        buffer = buffer_text(dead)
        word = "unregistered" if dead.origin is Origin.REGISTERED else "freed"
        what = {Kind.DOUBLE_FREE: "frees"}.get(kind, "writes" if use.writes else "uses")
        again = " already" if kind is Kind.DOUBLE_FREE else ""
        stack = self._stacks.paths.get(dead.freed, ())
        ended = access_at(dead.freed, called_function(dead.freed, dead.origin.ender), writes=True, stack=stack)
        text = f"{subject_of(use)} {what} {buffer}, which was {word}{_at(dead.freed)}{again}"
        spans = tuple(Span(buffer, start, stop) for start, stop in ranges or ((0, dead.nbytes),))
        fix = take_out(use) if kind is Kind.DOUBLE_FREE else end_later(ended, use)
        self._findings.add(Finding(kind, text, (ended, use), spans, fix=fix))


def _is_end(name: str) -> bool:
    return any(end in name.lower() for end in _ENDS)


def _at(site: object) -> str:
    return f" at {line_text(site)}" if line_text(site) else ""


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
