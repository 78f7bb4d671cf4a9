"""Public test suites under the sanitizer: what it finds in each file, and how its cases end.

Findings of one kind at the same lines are one row, with how often it was found. A leak is told by its kind alone:
pytest keeps objects, and processes end with what they have.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.cuda import suites
from tests.cuda.suites import Chosen, Outcomes

_SANITIZED = ("--sanitize", "--findings-format", "json", "--findings")
_CUT = 160  # columns of a text


class Row(NamedTuple):
    """Findings of one *kind* at the same *places*, with the *text* of one of them."""

    kind: str
    places: tuple[str, ...]
    text: str


def run(name: str, *arguments: str) -> None:
    """Run the suite *name*, and print for each file a line, its findings, and each case that has not passed."""
    what = suites.chosen(name, *arguments)
    results, ends = {}, {}
    for file, path in what.files():
        results[file], ends[file] = _run(path, what)
        kinds = dict(sorted(_by_kind(results[file]).items()))
        print(f"{file:<60} {results[file].total():5} {kinds}; {suites.in_words(ends[file])}")
        for row, count in results[file].items():
            print(f"{file}: {count} {row.kind} at {', '.join(row.places)}: {row.text[:_CUT]}")
        for case, outcome in ends[file].items():
            if not outcome.startswith(("pass", "skip")):
                print(f"{file}: {case}: {outcome[:_CUT]}")
        sys.stdout.flush()
    what.write({file: [[*row, count] for row, count in found.items()] for file, found in results.items()})


def _by_kind(found: Counter[Row]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for row, count in found.items():
        kinds[row.kind] += count
    return kinds


def _run(path: Path, what: Chosen) -> tuple[Counter[Row], Outcomes]:
    """Run a file in a process of its own. Return what was found, and how the cases ended; a row of the kind "lost" has
    what ended a process without a report.
    """
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "findings.json"
        command = ("-m", "acl_py", "run", *what.options, *_SANITIZED, str(report), "-m", "pytest")
        here = suites.outcomes(command, path, what.suite, what.limit_s)
        if not report.exists():
            return Counter([Row("lost", (), here.get("", ""))]), here
        return read(json.loads(report.read_text(encoding="utf-8"))), here


def read(report: dict) -> Counter[Row]:
    """Return the rows of a report."""
    rows: Counter[Row] = Counter()
    for each in report["findings"]:
        places = () if each["kind"] == "leak" else tuple(access["site"] for access in each["accesses"])
        rows[Row(each["kind"], places, "" if each["kind"] == "leak" else each["text"])] += each["count"]
    return rows
