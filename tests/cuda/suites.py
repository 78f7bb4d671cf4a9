"""Public test suites of packages for CUDA on the simulated card, compared with what a card answers.

Each file runs in a process of its own under `acl-py run`, because a kernel that fails takes the context of its process
with it. A case counts if it passes on the card and fails without any driver. rows/suites.json has the outcomes of a
card; where it has none for a file, every case counts that was not skipped here, unless it fails in the same way without
any driver.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

Outcomes = dict[str, str]  # by case: "pass", or "skip", "failure" or "error" with a reason
_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_LIMIT_S, _LIMIT_WITHOUT_S = 900, 200  # of a file; without a driver some never end
_CUT = 100  # columns of a reason
# What is not simulated. A second card needs no rule: the cases that want one were skipped on the card.
_EXCLUDED_FILES = re.compile(
    r"/(memory_ipc|system|cython|example_tests|nvml|cudla|legacy_api|cudasim|benchmarks)/"
    r"|test_(tensor_map|texture_surface|green_context|checkpoint|device_launch|graphics\w*|cufile|ipc|examples)\.py$"
    r"|test_multiprocessing_warning\.py$"
)
_EXCLUDED_WORDS = re.compile(
    r"(?<![^\W_])(texture|surface|tensormap|ipc|green|checkpoint|nvml|graphics|device_launch|cupy|pytorch|torch)(?![^\W_])",
    re.IGNORECASE,
)


# Cases of numba-cuda that do not run, because they end the process or the context of the cases behind them.
_APART = {
    "test_localmem": {"TestCudaLocalMem::test_struct_model_type_arr": "writes behind its array, unnoticed by a card"},
    "test_dispatcher": {
        "TestDispatcher::test_dispatcher_cpointer_arguments": "reads behind its arrays, unnoticed by a card"
    },
    "test_managed_alloc": {
        "TestManagedAlloc::test_managed_alloc_driver_undersubscribe": "needs a host with 28 GB for its tenth of a card"
    },
}


# Cases that no card can pass, because they are newer than the packages in the wheels, or older. They do not count.
_NEWER = {
    "test_graph_builder": dict.fromkeys(
        ("test_graph_complete_after_close_forked", "test_graph_update_after_source_close"), "words of another message"
    ),
    "test_module": dict.fromkeys(
        (
            "test_object_code_load_ltoir",
            "test_object_code_load_rdc[object-from_object]",
            "test_object_code_load_rdc[library-from_library]",
        ),
        "code that is only for the linker is refused by the package",
    ),
    "test_object_protocols": {
        "test_repr_format[sample_launch_config-pattern5]": "words of another text",
        "test_repr_format[sample_object_code_ltoir-<ObjectCode handle=0x[0-9a-f]+ code_type='ltoir'>]": (
            "code that is only for the linker is refused by the package"
        ),
    },
    "test_program_cache": {
        "test_filestream_touch_atime_swallows_fstat_failure": "a pytest that makes no call of os.fstat() of its own",
    },
    "test_caching": dict.fromkeys(
        ("CUDAAndCPUCachingTest::test_cpu_and_cuda_reuse", "CUDAAndCPUCachingTest::test_cpu_and_cuda_targets"),
        "a numba that notes the times of source files, as its own cache does; numba 0.68 notes their contents",
    ),
    "test_cudart": dict.fromkeys(
        (
            "test_cudart_cudaGraphGetEdges_edgeData_outlives_call",
            "test_cudart_cudaGraphNodeGetDependencies_edgeData_outlives_call",
        ),
        "a field of a structure",
    ),
    "test_cuda": dict.fromkeys(
        (
            "test_cuda_repr",
            "test_char_range",
            "test_cuGraphGetEdges_edgeData_outlives_call",
            "test_cuGraphNodeGetDependencies_edgeData_outlives_call",
        ),
        "a field of a structure",
    ),
}


class Suite(NamedTuple):
    """A suite: where its files are, the *package* of a suite that is installed, and options of pytest.

    *pattern* are its files. Without a driver, none of the cases of those with *needs_driver* passes, and what a card
    answers is not known.
    """

    folder: str
    package: str = ""
    options: tuple[str, ...] = ()
    pattern: str = "**/test_*.py"
    needs_driver: bool = False

    def arguments(self, path: Path) -> tuple[str, ...]:
        """Return what pytest runs *path* with."""
        if not self.package:
            return str(path), *self.options
        apart = " or ".join(case.rpartition(":")[2] for case in _APART.get(path.stem, {}))
        module = path.with_suffix("").as_posix().rpartition(f"/{self.folder}/")[2].replace("/", ".")
        return "--pyargs", f"{self.package}.{self.folder}.{module}", *self.options, "-k", apart and f"not ({apart})"


# numba is a namespace in its wheel. pytest would import it a second time, as the package `cuda`.
_AS_NAMED = ("--import-mode=importlib", "-o", "consider_namespace_packages=true")
SUITES = {
    "core": Suite("cuda_core/tests"),
    "bindings": Suite("cuda_bindings/tests", options=("-p", "bindings_helpers")),
    "numba": Suite("tests", "numba.cuda", (*_AS_NAMED, "-p", "numba_fixtures"), needs_driver=True),
    "stumpy": Suite("tests", options=("-W", "ignore::UserWarning"), pattern="test_gpu*.py", needs_driver=True),
}


class Case(NamedTuple):
    """A case that counts: its outcomes on the card ("" if not known) and here."""

    name: str
    on_card: str
    here: str


class Chosen(NamedTuple):
    """What a command names: a *suite*, its *folder*, parts of the *names* of files, where results go, *options* of
    `acl-py run`, and how long a file may take.
    """

    suite: Suite
    folder: Path
    names: list[str]
    out: Path | None
    options: tuple[str, ...]
    limit_s: int

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the files to run, each with its name in the folder."""
        for path in sorted((self.folder / self.suite.folder).glob(self.suite.pattern)):
            name = path.as_posix()
            if not _EXCLUDED_FILES.search(name) and (not self.names or any(part in name for part in self.names)):
                yield path.relative_to(self.folder).as_posix(), path

    def write(self, results: object) -> None:
        """Write *results* if the command says where."""
        if self.out is not None:
            self.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def chosen(name: str, *arguments: str) -> Chosen:
    """Return what the *arguments* of a command name: options with their values, and parts of names of files."""
    options, names = {}, []
    rest = iter(arguments)
    for each in rest:
        if each in ("--suites", "--json", "--device", "--limit"):
            options[each] = next(rest)
        else:
            names.append(each)
    folder = Path(options["--suites"]).resolve() if "--suites" in options else _numba_folder()
    out = Path(options["--json"]) if "--json" in options else None
    device = options.get("--device", "")
    device = str(Path(device).resolve()) if Path(device).is_file() else device  # the tests run in other folders
    limit_s = int(options.get("--limit", _LIMIT_S))
    return Chosen(SUITES[name], folder, names, out, ("--device", device) if device else (), limit_s)


def run(name: str, *arguments: str) -> None:
    """Run the suite *name*, and print a table by file and each case that differs."""
    what = chosen(name, *arguments)
    results, whole = {}, dict[str, str]()
    for file, path in what.files():
        here = outcomes(("-m", "acl_py", "run", *what.options, "-m", "pytest"), path, what.suite, what.limit_s)
        results[file] = list(_counted(here, {} if what.suite.needs_driver else _card(file), path, what.suite))
        whole |= {f"{file}: {case}": outcome for case, outcome in here.items()}
        _print_row(file, results[file], here)
        _print_differences(file, results[file])
    _print_row("all", [case for cases in results.values() for case in cases], whole)
    _print_newer(results)
    what.write({file: {case.name: case[1:] for case in cases} for file, cases in results.items()})


def _numba_folder() -> Path:
    spec = find_spec("numba_cuda")
    assert spec is not None, "numba-cuda is not installed"
    return Path(spec.submodule_search_locations[0]) / "numba/cuda"


def _card(file: str) -> Outcomes:
    known: dict[str, Outcomes] = json.loads((_HERE / "rows/suites.json").read_text())["files"]
    stem = Path(file).stem
    return {_short(case.partition(stem)[2]): outcome for case, outcome in known.get(file, {}).items()}


def _short(case: str) -> str:
    return case.lstrip(".").removeprefix("::")


def _counted(here: Outcomes, card: Outcomes, path: Path, suite: Suite) -> Iterator[Case]:
    """Yield the cases of a file that count, of those which ended as *here*."""
    alone = {} if suite.needs_driver else outcomes(_WITHOUT_DRIVER, path, suite, _LIMIT_WITHOUT_S)
    lost = here.get("", "")  # why the file has no outcomes
    if "" in card or not card:  # the card could not collect the file, or has not seen it
        card = dict.fromkeys(here, "")
    names = renamed(card, here)
    for name, on_card in card.items():
        result = here.get(names.get(name, name)) or lost or "missing"
        if name in _NEWER.get(path.stem, ()):
            continue
        alike = alone.get(name) == result  # it fails for reasons of its own
        is_wanted = on_card == "pass" or (not on_card and not result.startswith("skip") and not alike)
        if is_wanted and alone.get(name) != "pass" and not _is_excluded(name, result):
            yield Case(name, on_card, result)
    if suite.package:
        yield from (Case(name, "", f"not run: it {reason}") for name, reason in _APART.get(path.stem, {}).items())


def renamed(card: Iterable[str], here: Iterable[str]) -> dict[str, str]:
    """Return the names that cases of the card have here, where they differ: versions of pytest name some parameters
    otherwise. The cases of a function are in the same order.
    """
    old, new = ([each for each in names if each not in others] for names, others in ((card, here), (here, card)))
    of = {name: [each for each in new if _function(each) == name] for name in {_function(each) for each in old}}
    return {
        one: other
        for name, others in of.items()
        if len(lost := [each for each in old if _function(each) == name]) == len(others)
        for one, other in zip(lost, others, strict=True)
    }


def _function(case: str) -> str:
    return case.partition("[")[0]


def _is_excluded(name: str, result: str) -> bool:
    """Whether the name of a case, or the reason why it was skipped or found no library, says that it is about what is
    excluded.
    """
    is_reason = result.startswith("skip") or "DynamicLibNotFoundError" in result
    text = f"{name} {result if is_reason else ''}"
    return _EXCLUDED_WORDS.search(text) is not None


# --- processes


_WITHOUT_DRIVER = ("-m", "pytest", "-p", "without_driver")


def outcomes(command: tuple[str, ...], path: Path, suite: Suite, limit_s: int = _LIMIT_S) -> Outcomes:
    """Run the file *path* of tests in a process of its own. The name "" has what ended it, if that is all there is."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        ended = run_python(
            [*command, "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *suite.arguments(path)], place, limit_s
        )
        return _read(report, path.stem) if report.exists() else {"": ended}


def run_python(arguments: list[str], folder: str, limit_s: int) -> str:
    """Run Python, and say how it ended."""
    path = os.pathsep.join([str(_ROOT), str(_HERE / "plugins"), os.environ.get("PYTHONPATH", "")])
    # Sets in messages have one order, or the same failure would have other words with and without a driver.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has begun
        process.communicate()
        return f"hang: no end within {limit_s} s"
    last = (output.strip().splitlines() or [""])[-1]
    return f"crash: {signal.Signals(-process.returncode).name}" if process.returncode < 0 else f"ended: {last}"


def _read(report: Path, stem: str) -> Outcomes:
    return dict(_outcome(case, stem) for case in ET.parse(report).iter("testcase"))


def _outcome(case: ET.Element, stem: str) -> tuple[str, str]:
    group, name = case.get("classname", ""), case.get("name", "")
    is_file = not group and name.endswith(stem)  # pytest could not collect it
    name = "" if is_file else _short(f"{group.partition(stem)[2]}::{name}")
    for kind, said in (("failure", "failure"), ("error", "error"), ("skipped", "skip")):
        if (found := case.find(kind)) is not None:
            return name, f"{said}: {_reason(found)}"
    return name, "pass"


def _reason(found: ET.Element) -> str:
    message = found.get("message", "")
    if message == "collection failure":
        lines = (found.text or "").strip().splitlines()
        message = next((line[1:] for line in lines if line.startswith("E ")), lines[-1])  # variables may stand behind
    return " ".join(message.split())


# --- tables


def in_words(cases: Outcomes) -> str:
    """Say how many cases ended in which way."""
    kinds = Counter(outcome.partition(":")[0] for outcome in cases.values())
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _print_row(name: str, cases: list[Case], here: Outcomes) -> None:
    passed = sum(case.here == "pass" for case in cases)
    share = f"{passed / len(cases):7.1%}" if cases else "      -"
    print(f"{name:<60} {len(cases):5} {passed:5} {share}  {in_words(here)}", flush=True)


def _print_differences(file: str, cases: list[Case]) -> None:
    for line in differences(cases):
        print(f"{file}: {line}", flush=True)


def differences(cases: list[Case]) -> Iterator[str]:
    """Yield a line for each case that does not pass; one for all if each ended in the same way, as in a file that
    pytest does not collect.
    """
    ends = {case.here for case in cases}
    if len(cases) > 1 and len(ends) == 1 and ends != {"pass"}:
        yield f"each of {len(cases)} cases: {cases[0].here[:_CUT]}"
        return
    yield from (f"{case.name}: {case.here[:_CUT]}" for case in cases if case.here != "pass")


def _print_newer(files: Iterable[str]) -> None:
    for file in files:
        for name, reason in _NEWER.get(Path(file).stem, {}).items():
            print(f"{file}: {name}: no card passes it with these wheels: it needs {reason}")
