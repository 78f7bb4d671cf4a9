"""Public test suites under the sanitizer: what it finds in each file.

Findings of one kind at the same lines are one row, with how often it was found. A leak is told by its kind alone:
pytest keeps objects, and processes end with what they have.
"""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.cuda import suites
from tests.cuda.suites import Suite

_SANITIZED = ("-m", "acl_py", "run", "--sanitize", "--findings-format", "json", "--findings")
_CUT = 160  # columns of a text


class Row(NamedTuple):
    """Findings of one *kind* at the same *places*, with the *text* of one of them."""

    kind: str
    places: tuple[str, ...]
    text: str


def run(name: str, *arguments: str) -> None:
    """Run the suite *name*, and print a line by file and each row of findings."""
    what = suites.chosen(name, *arguments)
    results = {}
    for file, path in what.files():
        results[file] = found = _findings(path, what.suite)
        print(f"{file:<60} {found.total():5} {dict(sorted(_by_kind(found).items()))}", flush=True)
    for file, found in results.items():
        for row, count in found.items():
            print(f"{file}: {count} {row.kind} at {', '.join(row.places)}: {row.text[:_CUT]}")
    what.write({file: [[*row, count] for row, count in found.items()] for file, found in results.items()})


def _by_kind(found: Counter[Row]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for row, count in found.items():
        kinds[row.kind] += count
    return kinds


def _findings(path: Path, suite: Suite) -> Counter[Row]:
    """Run a file in a process of its own, and return what was found; a row of the kind "lost" if it has not ended."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "findings.json"
        tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *suite.arguments(path))
        ended = suites.run_python([*_SANITIZED, str(report), *tests], place, suites.LIMIT_S)
        if not report.exists():
            return Counter([Row("lost", (), ended)])
        return read(json.loads(report.read_text(encoding="utf-8")))


def read(report: dict) -> Counter[Row]:
    """Return the rows of a report."""
    rows: Counter[Row] = Counter()
    for each in report["findings"]:
        places = () if each["kind"] == "leak" else tuple(access["site"] for access in each["accesses"])
        rows[Row(each["kind"], places, "" if each["kind"] == "leak" else each["text"])] += each["count"]
    return rows
