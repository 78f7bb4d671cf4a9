"""Public test suites of packages for CUDA on the simulated card, compared with what a card answers.

Each file runs in a process of its own under `acl-py run`, because a kernel that fails takes the context of its process
with it. A case counts if it passes on the card and fails without any driver. rows/suites.json has the outcomes of a
card; where it has none for a file, every case counts that was not skipped here.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

Outcomes = dict[str, str]  # by case: "pass", or "skip", "failure" or "error" with a reason
_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_LIMIT_S = 900  # of a file
_CUT = 100  # columns of a reason
# What is not simulated. A second card needs no rule: the cases that want one were skipped on the card.
_EXCLUDED_FILES = re.compile(
    r"/(memory_ipc|system|cython|example_tests|nvml|cudla|legacy_api|cudasim|benchmarks)/"
    r"|test_(tensor_map|texture_surface|green_context|checkpoint|device_launch|graphics\w*|cufile|ipc|examples)\.py$"
)
_EXCLUDED_WORDS = frozenset({"texture", "surface", "tensormap", "ipc", "green", "checkpoint", "nvml", "graphics"})


class Suite(NamedTuple):
    """A suite: where its files are, the *package* of a suite that is installed, and options of pytest.

    What a card answers is known of the others.
    """

    folder: str
    package: str = ""
    options: tuple[str, ...] = ()

    def arguments(self, path: Path) -> tuple[str, ...]:
        """Return what pytest runs *path* with."""
        if not self.package:
            return str(path), *self.options
        module = path.with_suffix("").as_posix().rpartition(f"/{self.folder}/")[2].replace("/", ".")
        return "--pyargs", f"{self.package}.{self.folder}.{module}", *self.options


SUITES = {
    "core": Suite("cuda_core/tests"),
    "bindings": Suite("cuda_bindings/tests"),
    "numba": Suite("tests", "numba.cuda", ("--import-mode=importlib", "-p", "numba_fixtures")),
}


class Case(NamedTuple):
    """A case that counts: its outcomes on the card ("" if not known) and here."""

    name: str
    on_card: str
    here: str


def run(name: str, *arguments: str) -> None:
    """Run the suite *name*, and print a table by file and each case that differs."""
    options, only = _parsed(arguments)
    suite = SUITES[name]
    folder = Path(options["--suites"]).resolve() if "--suites" in options else _numba_folder()
    results = {}
    for path in _files(folder, suite, only):
        file = path.relative_to(folder).as_posix()
        results[file] = list(_counted({} if suite.package else _card(file), path, suite))
        _print_row(file, results[file])
    _print_row("all", [case for cases in results.values() for case in cases])
    _print_differences(results)
    if "--json" in options:
        rows = {file: {case.name: case[1:] for case in cases} for file, cases in results.items()}
        Path(options["--json"]).write_text(json.dumps(rows, indent=1))


def _parsed(arguments: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Return the options with their values, and the parts of names of files that are wanted."""
    options, only = {}, []
    rest = iter(arguments)
    for each in rest:
        if each in ("--suites", "--json"):
            options[each] = next(rest)
        else:
            only.append(each)
    return options, only


def _numba_folder() -> Path:
    spec = find_spec("numba_cuda")
    assert spec is not None, "numba-cuda is not installed"
    return Path(spec.submodule_search_locations[0]) / "numba/cuda"


def _files(folder: Path, suite: Suite, only: list[str]) -> Iterator[Path]:
    for path in sorted((folder / suite.folder).glob("**/test_*.py")):
        name = path.as_posix()
        if not _EXCLUDED_FILES.search(name) and (not only or any(part in name for part in only)):
            yield path


def _card(file: str) -> Outcomes:
    known: dict[str, Outcomes] = json.loads((_HERE / "rows/suites.json").read_text())["files"]
    stem = Path(file).stem
    return {_short(case.partition(stem)[2]): outcome for case, outcome in known.get(file, {}).items()}


def _short(case: str) -> str:
    return case.lstrip(".").removeprefix("::")


def _counted(card: Outcomes, path: Path, suite: Suite) -> Iterator[Case]:
    """Yield the cases of a file that count."""
    here = outcomes(_UNDER_ACL_PY, path, suite)
    alone = {} if suite.package else outcomes(_WITHOUT_DRIVER, path, suite)
    lost = here.get("", "")  # why the file has no outcomes
    if "" in card or not card:  # the card could not collect the file, or has not seen it
        card = dict.fromkeys(here, "")
    for name, on_card in card.items():
        result = here.get(name) or lost or "missing"
        is_wanted = on_card == "pass" or (not on_card and not result.startswith("skip"))
        if is_wanted and alone.get(name) != "pass" and _EXCLUDED_WORDS.isdisjoint(re.split(r"[\W_]+", name.lower())):
            yield Case(name, on_card, result)


# --- processes


_UNDER_ACL_PY = ("-m", "acl_py", "run", "-m", "pytest")
_WITHOUT_DRIVER = ("-m", "pytest", "-p", "without_driver")


def outcomes(command: tuple[str, ...], path: Path, suite: Suite) -> Outcomes:
    """Run the file *path* of tests in a process of its own. The name "" has what ended it, if that is all there is."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        ended = _run([*command, "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *suite.arguments(path)], place)
        return _read(report, path.stem) if report.exists() else {"": ended}


def _run(arguments: list[str], folder: str) -> str:
    """Run Python, and say how it ended."""
    path = os.pathsep.join([str(_ROOT), str(_HERE / "plugins"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has begun
        process.communicate()
        return f"hang: no end within {_LIMIT_S} s"
    last = (output.strip().splitlines() or [""])[-1]
    return f"crash: {signal.Signals(-process.returncode).name}" if process.returncode < 0 else f"ended: {last}"


def _read(report: Path, stem: str) -> Outcomes:
    return dict(_outcome(case, stem) for case in ET.parse(report).iter("testcase"))


def _outcome(case: ET.Element, stem: str) -> tuple[str, str]:
    name = _short(f"{case.get('classname', '').partition(stem)[2]}::{case.get('name')}")
    for kind, said in (("failure", "failure"), ("error", "error"), ("skipped", "skip")):
        if (found := case.find(kind)) is not None:
            return name, f"{said}: {_reason(found)}"
    return name, "pass"


def _reason(found: ET.Element) -> str:
    message = found.get("message", "")
    if message == "collection failure":
        message = (found.text or "").strip().splitlines()[-1]
    return " ".join(message.split())


# --- tables


def _print_row(name: str, cases: list[Case]) -> None:
    passed = sum(case.here == "pass" for case in cases)
    share = f"{passed / len(cases):7.1%}" if cases else "      -"
    print(f"{name:<60} {len(cases):5} {passed:5} {share}", flush=True)


def _print_differences(results: dict[str, list[Case]]) -> None:
    for file, cases in results.items():
        for case in cases:
            if case.here != "pass":
                print(f"{file}: {case.name}: {case.here[:_CUT]}")
