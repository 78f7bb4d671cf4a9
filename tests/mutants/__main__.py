"""Do the tests notice a change of the core? `python -m tests.mutants [mutants] [seed]`, or `make mutants`.

cosmic-ray makes all mutants of the files in `CORE`: one operator, number, comparison, branch or decorator
changed in each. 40 of them are drawn with seed 1. Passed over are those that are no Python, and those that change only
the annotation of a name in a function, which Python does not evaluate. The tests run on each in a
copy of the working tree, so nothing here is changed, and stop at the first failure; two run at a time. A mutant that
passes all of them survives and is shown with its file, line and change. One that changes nothing that a program could
see is listed in `EQUIVALENT`, with the reason. The exit code is 1 if any other survives, or if the tests fail without a
change.

The files: time and its order (scheduler, completions), streams, hardware queues and steps, engines and the dispatcher,
operations and their work, contexts, the device and its ids, events, signals, pageable memory (staging), bodies in
threads (workers), and the vendors' rules.
"""

import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cosmic_ray.ast import Visitor, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[2]
CORE = tuple(
    f"device_model/{name}.py"
    for name in (
        "scheduler", "completions", "streams", "queues", "steps", "engines/serial", "engines/dispatcher", "ops", "work",
        "contexts", "device", "ids", "events", "signals", "engines/staging", "engines/workers", "rules",
    )
)  # fmt: skip
# In this order, for most mutants fail early.
TESTS = ("tests/device_model", "tests/acl_py", "tests/conformance", "tests/faults")
LIMIT_S = 1200  # of one run; a mutant that takes longer is noticed, too
AT_ONCE = 2
# Survivors that no test can notice: (file, line before, line after), and why.
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "device_model/streams.py",
        "if not op.blockers and fifo[0] is op:",
        "if not op.blockers and fifo[0] == op:",
    ): "operations are equal only to themselves",
}


class Place(NamedTuple):
    """Where *operator* changes something in *file*, for the *occurrence*-th time."""

    file: str
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """One change of *file*: its first line, what stood there and what stands there now; both texts of the file."""

    file: str
    line: int
    before: str
    after: str
    original: str
    text: str


class _Counter(Visitor):
    """Counts where an operator could change something."""

    def __init__(self, operator: object) -> None:
        self._operator = operator
        self.count = 0

    def visit(self, node: object) -> object:
        self.count += sum(1 for _ in self._operator.mutation_positions(node))  # type: ignore[attr-defined]
        return node


def places() -> Iterator[Place]:
    """All of them, in an order that is always the same; operators that want arguments are for certain variables."""
    operators = sorted(name for name in operator_names() if not get_operator(name).arguments())
    for file in CORE:
        tree = get_ast((ROOT / file).read_text(encoding="utf-8"))
        for operator in operators:
            counter = _Counter(get_operator(operator)())
            counter.walk(tree)
            yield from (Place(file, operator, occurrence) for occurrence in range(counter.count))


def mutant_of(place: Place) -> Mutant:
    """The mutant that has its change there."""
    original = (ROOT / place.file).read_text(encoding="utf-8")
    text = mutate_code(original, get_operator(place.operator)(), place.occurrence)
    assert text is not None, f"{place} does not exist"
    old, new = original.splitlines(), text.splitlines()
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    _, first, last, start, stop = next(each for each in changes if each[0] != "equal")
    before, after = (" ".join(" ".join(lines).split()) for lines in (old[first:last], new[start:stop]))
    return Mutant(place.file, first + 1, before, after, original, text)


class _Unannotated(ast.NodeTransformer):
    """Takes the annotations out of assignments in functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for each in ast.walk(node):
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Constant(None)
        return node


def dumped(text: str) -> str:
    """What *text* runs, as text."""
    return ast.dump(_Unannotated().visit(ast.parse(text)))


def draw(everything: Sequence[Place], count: int, seed: int) -> list[Mutant]:
    """*count* of them by chance, without those that are no Python or change nothing that runs."""
    drawn: list[Mutant] = []
    for place in random.Random(seed).sample(everything, len(everything)):
        if len(drawn) == count:
            break
        mutant = mutant_of(place)
        try:
            changes_what_runs = dumped(mutant.text) != dumped(mutant.original)
        except SyntaxError:
            continue
        if changes_what_runs:
            drawn.append(mutant)
    return drawn


def copy_tree(into: Path) -> None:
    """The files of the working tree that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, encoding="utf-8",
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


def notices(tree: Path) -> str | None:
    """The first test that fails in *tree*, in words; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--hypothesis-seed=1", *TESTS]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT_S} s"
    if not done.returncode:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (done.stdout + done.stderr).strip().splitlines()[-1]


def check(mutant: Mutant, trees: "Queue[Path]") -> str | None:
    """What notices *mutant*, in a free one of *trees*, which is put right again."""
    tree = trees.get()
    file = tree / mutant.file
    try:
        file.write_text(mutant.text, encoding="utf-8")
        return notices(tree)
    finally:
        file.write_text(mutant.original, encoding="utf-8")
        trees.put(tree)


def main(count: int = 40, seed: int = 1) -> int:
    """Draw, run and report: the exit code."""
    everything = list(places())
    drawn = draw(everything, count, seed)
    print(f"{count} of {len(everything)} mutants of {len(CORE)} files, drawn with seed {seed}", flush=True)
    trees: Queue[Path] = Queue()
    survivors = unexplained = 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(AT_ONCE):
            copy_tree(Path(folder) / str(number))
            trees.put(Path(folder) / str(number))
        failure = notices(Path(folder) / "0")
        if failure is not None:
            print(f"without any change: {failure}")
            return 1
        for mutant, by in zip(drawn, pool.map(lambda each: check(each, trees), drawn), strict=True):
            print(f"{mutant.file}:{mutant.line}: {by or 'SURVIVES'}", flush=True)
            print(f"  - {mutant.before}\n  + {mutant.after}", flush=True)
            if by is None:
                survivors += 1
                reason = EQUIVALENT.get((mutant.file, mutant.before, mutant.after))
                unexplained += reason is None
                print(f"  {reason or 'no test notices it'}", flush=True)
    print(f"{survivors} of {count} survive, {unexplained} of them without a reason in EQUIVALENT")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
