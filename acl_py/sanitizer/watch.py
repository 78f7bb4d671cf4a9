"""A watch: sanitizes all simulations of a process that begin while it is in force, and keeps what they found.

`acl-py run`, the pytest plugin and the tests of samples use it. So a program needs no change to be sanitized.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from acl_py.sanitizer.findings import Finding, Findings
from acl_py.sanitizer.parts import Part


class Watch:
    """The *parts* that simulations are sanitized with, unless they say otherwise, and the findings of all of them."""

    __slots__ = ("_kept", "parts")

    def __init__(self, parts: frozenset[Part]) -> None:
        self.parts = parts
        self._kept: list[Findings] = []

    def __repr__(self) -> str:
        return f"<Watch for {', '.join(sorted(self.parts)) or 'nothing'}>"

    def keep(self, findings: Findings) -> None:
        """Keep the *findings* of a simulation that begins."""
        findings.is_quiet = True
        self._kept.append(findings)

    @property
    def findings(self) -> list[Finding]:
        """The findings so far. Several simulations may make the same one; it is there once, with their counts."""
        merged = Findings()
        merged.is_quiet = True
        for findings in self._kept:
            for finding in findings:
                merged.add(finding)
        return list(merged)

    @property
    def notes(self) -> list[str]:
        """What the sanitizer did not see or took for granted, each once."""
        return list(dict.fromkeys(note for findings in self._kept for note in findings.notes))


_watches: list[Watch] = []  # in force, the latest last


def current_watch() -> Watch | None:
    """Return the watch in force that began last."""
    return _watches[-1] if _watches else None


@contextmanager
def watching(parts: frozenset[Part]) -> Iterator[Watch]:
    """Sanitize with *parts* all simulations that begin in the block, and yield the watch that keeps their findings."""
    watch = Watch(parts)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)
