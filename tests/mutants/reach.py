"""Which test files run which functions of the rooms, and how long each of them takes.

This module is a plugin of pytest, too: `pytest -p tests.mutants.reach` notes with coverage.py which lines of the files
in `MUTANTS_FILES` each test file runs, and leaves it in the folder `MUTANTS_NOTES`. Processes that tests start are not
seen; so each test file that starts some counts as one that may run everything.
"""

import ast
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

FILES, NOTES = "MUTANTS_FILES", "MUTANTS_NOTES"
_STARTS_PROCESSES = re.compile(r"\b(forks|subprocess|pytester)\b")


class Reach(NamedTuple):
    """What a run of all tests has shown.

    Attributes:
        lines: By file of a room and by line, as a text: the test files that ran it, in the order of their names. An
            empty name says that it ran for none of them.
        seconds: By test file: how long its tests take.
        starters: The test files that start processes.
    """

    lines: dict[str, dict[str, list[str]]]
    seconds: dict[str, float]
    starters: list[str]

    def tests_of(self, file: str, line: int, text: str) -> tuple[list[str], list[str]]:
        """Return the test files that run the function around *line* of *file*, and others that may, the fastest first.

        A line outside functions runs when the module is imported, and a function whose results are kept runs for the
        first test that asks: each test file may see what they do.
        """
        lines, of_file = _lines_of_function(text, line), self.lines.get(file, {})
        ran = {test for number, tests in of_file.items() if lines is None or int(number) in lines for test in tests}
        may = self.seconds if lines is None or "" in ran else self.starters
        near, others = ran & set(self.seconds), set(may) - ran
        return self._by_time(near), self._by_time(others)

    def _by_time(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0), test))


def _lines_of_function(text: str, line: int) -> range | None:
    """Return the lines of the body of the innermost function around *line*; None if it keeps its results."""
    functions = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and min(each.lineno for each in (node, *node.decorator_list)) <= line <= (node.end_lineno or 0)
    ]
    if not functions:
        return None
    innermost = max(functions, key=lambda node: node.lineno)
    if any("cache" in ast.unparse(each) for each in innermost.decorator_list):
        return None
    return range(innermost.body[0].lineno, (innermost.end_lineno or 0) + 1)


def merged(folder: Path, root: Path) -> Reach:
    """Return what the processes of a run have left in *folder*; *root* has the test files."""
    lines: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for note in sorted(folder.glob("*.json")):
        ran, took = json.loads(note.read_text(encoding="utf-8"))
        for file, of_file in ran.items():
            for line, tests in of_file.items():
                lines[file][line].update(tests)
        for test, duration in took.items():
            seconds[test] = seconds.get(test, 0) + duration
    starters = [test for test in seconds if _STARTS_PROCESSES.search((root / test).read_text(encoding="utf-8"))]
    return Reach({f: {n: sorted(t) for n, t in each.items()} for f, each in lines.items()}, seconds, starters)


class _Watch:
    """Notes what the tests of one process run."""

    def __init__(self, root: Path, files: list[str], note: Path) -> None:
        self._root, self._files, self._note = root, files, note
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(root / file) for file in files],
            concurrency=["thread", "greenlet"], messages=False,
        )  # fmt: skip
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        test = item.nodeid.partition("::")[0]
        if sys.gettrace() is None:  # a test with a trace function of its own has put an end to it
            self._coverage.stop()
            self._coverage.start()
        self._coverage.switch_context(test)
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[test] += time.monotonic() - begin
            self._coverage.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        """A test file also runs what its import runs."""
        self._coverage.switch_context(collector.nodeid.partition("::")[0] if _is_in_file(collector) else "")
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        ran = {file: data.contexts_by_lineno(str(self._root / file)) for file in self._files}
        self._note.write_text(json.dumps([ran, self._seconds]), encoding="utf-8")


def _is_in_file(collector: pytest.Collector) -> bool:
    return collector.getparent(pytest.Module) is not None


def pytest_configure(config: pytest.Config) -> None:
    """Watch, unless this process only hands out tests to others."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    name = getattr(config, "workerinput", {}).get("workerid", "main")
    files = json.loads(os.environ[FILES])
    config.pluginmanager.register(_Watch(config.rootpath, files, Path(os.environ[NOTES]) / f"{name}.json"))
