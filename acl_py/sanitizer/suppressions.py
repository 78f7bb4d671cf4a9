"""Suppressions: findings that a project has looked at and accepts, each with its reason.

    [tool.acl_py.sanitizer]
    suppress = [
        { id = "race-1e00ec15", reason = "both kernels write the same zeros" },
        { site = "vendor/*.py:*", reason = "their bug 123, fixed in version 2" },
    ]

They are in a pyproject.toml: the nearest one with this table, in a folder or in those above it.
"""

from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from acl_py.findings import Finding, Kind
from acl_py.projects import ProjectError, table_of
from device_model.frozen import Frozen

_TABLE = "[tool.acl_py.sanitizer]"
_EXAMPLE = '{ id = "race-1e00ec15", reason = "..." } or { site = "demo.py:41", reason = "..." }'
_HEX = 8  # digits of an id


class SuppressionError(ValueError):
    """A table of suppressions that cannot be used; the message says where, what is wrong with it, and what to write."""


class Suppression(Frozen):
    """Accepts the finding with this *id*, or all with an access at a line that matches the pattern *site*.

    The pattern is that of a shell: `demo.py:41`, `demo.py:*`, or with folders `vendor/*.py:*`. *where* is the file that
    the suppression is in.
    """

    reason: str
    id: str = ""
    site: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"id {self.id!r}" if self.id else f"site {self.site!r}"

    def matches(self, finding: Finding) -> bool:
        """Whether it accepts *finding*."""
        if self.id:
            return finding.id == self.id
        return any(self._matches_site(access.site, access.file) for access in finding.accesses)

    def _matches_site(self, site: str, file: str) -> bool:
        if "/" not in self.site:
            return fnmatchcase(site, self.site)
        path = f"{PurePath(file).parent.as_posix()}/{site}"
        return fnmatchcase(path, self.site) or fnmatchcase(path, f"*/{self.site}")


def find(folder: Path) -> tuple[Suppression, ...]:
    """Return the suppressions of the project that *folder* is in; none if there is no table of them.

    Raises:
        SuppressionError: the table, or its file, cannot be used.
    """
    try:
        found = table_of(folder, "sanitizer")
    except ProjectError as error:
        raise SuppressionError(f"{error}; so its suppressions are not known") from error
    return () if found is None else read(found[0], str(found[1]))


def read(table: Any, where: str) -> tuple[Suppression, ...]:
    """Return the suppressions in *table*, which is that of the file *where*.

    Raises:
        SuppressionError: the table is not as it must be.
    """
    entries = table.get("suppress", []) if isinstance(table, dict) else None
    unknown = sorted(set(table) - {"suppress"}) if isinstance(table, dict) else []
    if unknown:
        raise SuppressionError(f"{where}: {_TABLE} has the key {unknown[0]!r}, but there is only suppress")
    if not isinstance(entries, list):
        raise SuppressionError(f"{where}: suppress in {_TABLE} must be a list of tables, each {_EXAMPLE}")
    return tuple(
        _suppression(entry, f"{where}: suppression {number}", where) for number, entry in enumerate(entries, 1)
    )


def _suppression(entry: Any, place: str, where: str) -> Suppression:
    texts = isinstance(entry, dict) and all(isinstance(value, str) and value for value in entry.values())
    if not texts or set(entry) not in ({"id", "reason"}, {"site", "reason"}):
        raise SuppressionError(f"{place} is {entry!r}; write {_EXAMPLE}, with a reason in both")
    if "id" in entry and not _is_id(entry["id"]):
        kinds = ", ".join(kind.word for kind in Kind)
        raise SuppressionError(
            f"{place}: no finding has the id {entry['id']!r}; an id is a kind and {_HEX} hexadecimal digits, such as "
            f"'race-1e00ec15', and reports print it; the kinds are {kinds}"
        )
    return Suppression(**entry, where=where)


def _is_id(text: str) -> bool:
    prefix, _, digits = text.rpartition("-")
    return prefix in {kind.word for kind in Kind} and len(digits) == _HEX and set(digits) <= set("0123456789abcdef")
