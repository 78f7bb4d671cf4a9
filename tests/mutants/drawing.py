"""Mutants: one change of one file of a room each, drawn by chance.

cosmic-ray makes all of them: one operator, number, comparison, branch or decorator changed in each. Passed over are
those that are no Python, and those that change only the annotation of a name in a function, which Python does not
evaluate.
"""

import ast
import difflib
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[2]
# The files and folders of each room; those that are not there are passed over, for what is about to move has two names.
ROOMS: Mapping[str, tuple[str, ...]] = {
    # Time, streams, hardware queues, engines, operations, contexts, ids, events, signals, and the vendors' rules.
    "core": tuple(
        f"device_model/{name}.py"
        for name in (
            "scheduler", "completions", "streams", "queues", "steps", "engines/serial", "engines/dispatcher", "ops",
            "work", "core_kernels", "contexts", "device", "gaps", "ids", "events", "signals", "engines/staging",
            "engines/workers", "rules",
        )
    ),
    "graphs": ("device_model/graphs", "acl_py/verbs/graphs.py", "acl_py/verbs/captures.py"),
    "managed": ("device_model/memory/pages.py", "acl_py/verbs/managed.py"),
    "clock": ("acl_py/waiting/clock.py",),
    "order": ("acl_py/order",),
    "cta": ("device_model/cta", "device_model/sm"),
}  # fmt: skip


class Place(NamedTuple):
    """Where *operator* changes something in *file*, for the *occurrence*-th time."""

    room: str
    file: str
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """One change of *file*: its first line, what stood there and what stands there now; both texts of the file."""

    room: str
    file: str
    line: int
    before: str
    after: str
    original: str
    text: str

    @property
    def diff(self) -> str:
        """The change with two lines around it."""
        lines = difflib.unified_diff(self.original.splitlines(), self.text.splitlines(), lineterm="", n=2)
        return "\n".join(f"    {line}" for line in [*lines][3:])


def files_of(room: str) -> list[str]:
    """The files of *room* that are there.

    Raises:
        FileNotFoundError: None is.
    """
    found = []
    for name in ROOMS[room]:
        path = ROOT / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.is_file() else []
    if not found:
        raise FileNotFoundError(f"the room {room!r} has none of its files: {', '.join(ROOMS[room])}")
    return [path.relative_to(ROOT).as_posix() for path in found]


def places() -> Iterator[Place]:
    """All of them, in an order that is always the same; operators that want arguments are for certain variables."""
    names = sorted(name for name in operator_names() if not get_operator(name).arguments())
    operators = [(name, get_operator(name)().mutation_positions) for name in names]
    for room in ROOMS:
        for file in files_of(room):
            nodes = [*_nodes(get_ast((ROOT / file).read_text(encoding="utf-8")))]
            for name, positions in operators:
                count = sum(1 for node in nodes for _ in positions(node))
                yield from (Place(room, file, name, occurrence) for occurrence in range(count))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def mutant_of(place: Place) -> Mutant:
    """The mutant that has its change there."""
    original = (ROOT / place.file).read_text(encoding="utf-8")
    text = mutate_code(original, get_operator(place.operator)(), place.occurrence)
    assert text is not None, f"{place} does not exist"
    old, new = original.splitlines(), text.splitlines()
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    _, first, last, start, stop = next(each for each in changes if each[0] != "equal")
    before, after = (" ".join(" ".join(lines).split()) for lines in (old[first:last], new[start:stop]))
    return Mutant(place.room, place.file, first + 1, before, after, original, text)


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


def draw(everything: Sequence[Place], count: int, seed: int, least: int) -> list[Mutant]:
    """*count* of them by chance, *least* from each room, without those that are no Python or change nothing that runs.

    They are in the order of their files.
    """
    shuffled = random.Random(seed).sample(everything, len(everything))
    drawn: dict[Place, Mutant] = {}

    def take(candidates: Iterator[Place], number: int) -> None:
        while number > 0 and (place := next(candidates, None)) is not None:
            if place not in drawn and _changes_what_runs(mutant := mutant_of(place)):
                drawn[place] = mutant
                number -= 1

    for room in ROOMS:
        take((place for place in shuffled if place.room == room), min(least, count // len(ROOMS)))
    take(iter(shuffled), count - len(drawn))
    return [drawn[place] for place in everything if place in drawn]


def _changes_what_runs(mutant: Mutant) -> bool:
    try:
        return dumped(mutant.text) != dumped(mutant.original)
    except SyntaxError:
        return False
