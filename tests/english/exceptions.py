"""Places where a form stays, with reasons: exceptions.toml."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.english.rules import Finding


class Place(NamedTuple):
    """A place: the *file*, *words* around the form, and the *reason*."""

    file: str
    words: str
    reason: str


def listed() -> list[Place]:
    """Return the exceptions."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Place(**each) for each in table["exceptions"]]


def covers(exception: Place, finding: Finding) -> bool:
    """Whether *exception* is about *finding*."""
    return exception.file == finding.text.file and exception.words in finding.words


def left(findings: Iterable[Finding]) -> list[Finding]:
    """Return the *findings* that no exception covers."""
    known = listed()
    return [finding for finding in findings if not any(covers(each, finding) for each in known)]
