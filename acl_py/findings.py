"""Findings: what is wrong with a program although it ran, and perhaps ran well.

A finding is kept once for each kind, its lines and its names; when the same lines do it again, its `count` grows. Its
`id` is made of the same, so it is the same on every machine, event loop and number of workers.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from acl_py.late_imports import import_late
from device_model.frozen import Frozen

if TYPE_CHECKING:  # most programs have no core kernel, and the package takes as long to import as all the rest
    from device_model.kernel.findings import KernelRule

_held: "list[Finding] | None" = None  # None: each is written at once
FAILURE = "the sanitizer failed"  # how the note begins that says that it watches no more


class Kind(StrEnum):
    """What a finding is about; the values are how messages say it."""

    RACE = "race"  # two accesses to the same bytes, in no order
    RELIES = "relies"  # two accesses in an order that the API permits but does not promise
    USE_AFTER_FREE = "use after free"
    DOUBLE_FREE = "double free"
    AFTER_DESTROY = "after destroy"  # a stream, an event, a notify or a context is used that was destroyed
    BEFORE_ALLOCATION = "before allocation"  # a use before an asynchronous allocation has had its turn
    FREE_IN_USE = "free in use"
    UNINITIALISED = "uninitialised"  # a read of bytes that were not written before
    LEAK = "leak"
    PORTABILITY = (
        "portability"  # a finding about order or bytes, under some rules of synchronisation and not under others
    )
    WAIT = "wait"  # a signal that is stale, lost or never set
    DEADLOCK = "deadlock"
    KERNEL = "kernel"  # a mistake in a core kernel; it has a rule

    @property
    def word(self) -> str:
        """The kind in ids and rules, such as "free-in-use"."""
        return self.value.replace(" ", "-")


class Access(Frozen):
    """One access to memory, or one use of a stream, an event or another object.

    Attributes:
        what: What made it: "kernel 'add'", "h2d 'weights'", "host read".
        writes: Whether it writes.
        caller: The task or thread that made the call, as views name it.
        stream: The stream, as messages name it; "" for the host.
        site: The line, as "file.py:12".
        stack: The lines that led there, the outermost first, as "file.py:12 in main"; () if there are none, or if they
            were not kept. In the earlier access they are the path by which its line was called first. In a launch on AI
            cores that has run, the last is the line of an instruction that makes the access.
        at_ns: When the host made the call, in nanoseconds of simulated time.
        file: The path of the file of `site`, as Python knows it; "" if there is none.
    """

    what: str
    writes: bool
    caller: str
    stream: str
    site: str
    stack: tuple[str, ...] = ()
    at_ns: int = 0
    file: str = ""


def access_at(
    site: object,
    what: str,
    *,
    writes: bool = False,
    caller: str = "",
    stream: str = "",
    stack: tuple[str, ...] = (),
    at_ns: int = 0,
) -> Access:
    """Return the access that *site*, a line of the program, makes; its line is "" if *site* is no line."""
    return Access(what, writes, caller, stream, line_text(site), stack, at_ns, getattr(site, "file", ""))


def line_text(site: object) -> str:
    """Return *site* as messages name it; "" if it is None, or True, because it is not known."""
    return "" if site is None or site is True else str(site)


class Span(Frozen):
    """A range of bytes of a buffer: from *start* to *stop*, without *stop*, counted from its begin.

    *buffer* is the name that the program gave it, as "'weights'", or the line that made it, as "the memory made at
    demo.py:12". It has no number and no address, because a finding is the same on every machine.
    """

    buffer: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.buffer}[{self.start:,}:{self.stop:,}]"


class Trial(Frozen):
    """What came of a fix when it was tried.

    Attributes:
        text: The result, as a sentence.
        is_gone: Whether the program with the fix comes to its end, and the sanitizer does not find this any more.
        cost_us: How much longer it takes, in microseconds of simulated time; negative if it is shorter.
    """

    text: str
    is_gone: bool = False
    cost_us: float = 0


class Finding(Frozen):
    """One finding.

    Attributes:
        kind: What it is about.
        text: What is wrong, in one sentence.
        accesses: Those that are involved, in program order: the earlier one first.
        spans: The bytes in question, as ranges of the program's buffers.
        missing: The edge that would have ordered the accesses, in words; "" if none is missing.
        fix: What to do, as code; "" if there is no such line.
        count: How often these lines did it.
        rule: The rule that a core kernel broke; None for all other kinds.
        kernel: The name of the core kernel, or "".
        where: The core that made the mistake first, as "block 0 (AIV)", or "".
        tried: What came of the fix; None if it was not tried.
    """

    kind: Kind
    text: str
    accesses: tuple[Access, ...] = ()
    spans: tuple[Span, ...] = ()
    missing: str = ""
    fix: str = ""
    count: int = 1
    rule: "KernelRule | None" = None
    kernel: str = ""
    where: str = ""
    tried: Trial | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        """The lines that are involved, one for each access."""
        return tuple(access.site for access in self.accesses)

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two findings the same one: kind, rule, lines and names."""
        broken = () if self.rule is None else (self.rule.name, self.kernel, self.missing)
        uses = (part for access in self.accesses for part in (access.site, access.what))
        return (self.kind.value, *broken, *uses, *dict.fromkeys(span.buffer for span in self.spans))

    @property
    def id(self) -> str:
        """A name such as "free-in-use-1f09ab34", by which it can be suppressed."""
        digest: str = import_late("hashlib").sha256(repr(self.key).encode()).hexdigest()
        return f"{self.kind.word}-{digest[:8]}"

    def __str__(self) -> str:
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        if self.rule is not None:
            return f"kernel {self.kernel}: {self.rule.name} in {self.where}: {self.text}{times}"
        return f"{self.kind.value}: {self.text}{times}"


class Findings:
    """The findings of one simulation, each once, and notes about what the sanitizer cannot see or has assumed.

    A new finding is told at once: to the log if there is one, otherwise to the standard error. Where all are shown at
    the end, as by `acl-py run`, *is_quiet* is set.
    """

    __slots__ = ("_by_key", "is_quiet", "notes")

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._by_key: dict[tuple[str, ...], Finding] = {}
        self.notes: dict[str, None] = {}  # each once, in order
        self.is_quiet = is_quiet

    def __repr__(self) -> str:
        return f"<Findings: {len(self)}>"

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Finding]:
        return iter(list(self._by_key.values()))

    def add(self, finding: Finding) -> None:
        """Keep *finding*, or count it to the one that is the same."""
        key = finding.key
        known = self._by_key.get(key)
        if known is not None:
            self._by_key[key] = replace(known, count=known.count + finding.count)
            return
        self._by_key[key] = finding
        if not self.is_quiet:
            tell(finding)

    def lead(self, key: tuple[str, ...], place: int, line: str) -> None:
        """Add *line* of a kernel, which has run by now, to the access at *place* in the finding with *key*."""
        known = self._by_key.get(key)
        if known is None or line in known.accesses[place].stack:
            return
        accesses = list(known.accesses)
        accesses[place] = replace(accesses[place], stack=(*accesses[place].stack, line))
        self._by_key[key] = replace(known, accesses=tuple(accesses))

    def note(self, text: str) -> None:
        """Keep *text*, a sentence about what the sanitizer does not see or takes for granted, once."""
        self.notes[text] = None


def tell(finding: Finding) -> None:
    """Write *finding* to the log, or to the standard error if logging is not enabled; see `hold`."""
    from acl_py import log  # imported here: it knows calls, and a script that makes none has no findings

    about = {"kind": finding.kind.value}
    if finding.rule is not None:
        about = {"kernel": finding.kernel, "rule": finding.rule.name, "where": finding.where}
    if log.warn("finding", **about, text=finding.text):
        return
    if _held is None:
        print(finding, file=sys.stderr)
    else:
        _held.append(finding)


def hold() -> None:
    """Write findings to the standard error only when `release` is called: a notebook does it behind each cell."""
    global _held
    if _held is None:
        _held = []


def release() -> None:
    """Write the findings that are held to the standard error."""
    while _held:
        print(_held.pop(0), file=sys.stderr)


def drop(shown: Iterable[Finding]) -> None:
    """Do not write those of *shown* that are held, because the program has printed them itself."""
    if _held:
        keys = {finding.key for finding in shown}
        _held[:] = [finding for finding in _held if finding.key not in keys]
