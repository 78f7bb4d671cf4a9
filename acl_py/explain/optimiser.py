"""The overlap optimiser: which edits let the copies and kernels of a program overlap best.

It tries pinned memory, operations in parts, and several streams, together and alone, each time by running the edited
program. Edits without which the program is as fast are left out. What it proposes has no conflict, as far as the
declared bytes say, and is a program that can be written and replayed.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeGuard

from acl_py.calls.steps import OPS
from acl_py.causes.lines import us
from acl_py.explain.asking import Worth, asking_of
from acl_py.explain.edits import Edit, parse
from acl_py.explain.whatif import Answer, Asker
from acl_py.many.crew import Crew
from acl_py.programs.format import Program, Step
from acl_py.whole_files import write_text

CHUNKS, STREAMS = (2, 4, 8), (2, 3, 4)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the optimiser proposes: the *edits*, in their order, what each is worth *alone* (None if it cannot be made
    alone), and what all of them are worth *together* (None if there is nothing to propose).
    """

    edits: tuple[Edit, ...]
    alone: tuple[Worth | None, ...]
    together: Answer | None

    @property
    def text(self) -> str:
        """The proposal as plain text."""
        if self.together is None:
            return "proposal: none: no pinned memory, parts or streams make this program faster"
        lines = [f"proposal: {self.together.text}"]
        for edit, answer in zip(self.edits, self.alone, strict=True):
            gain = "cannot be made" if answer is None else f"worth {us(answer.gain_ns)}"
            lines.append(f"  {edit} alone: {gain}")
        return "\n".join(lines)


def optimise(asker: Asker, crew: Crew | None = None, advance: Callable[[], object] = lambda: None) -> Proposal:
    """Return the best of the edits for the case of *asker*. The edited programs run on *crew*, or else in this process;
    the proposal does not depend on it. *advance* is called behind each of them.
    """
    ask = partial((crew or Crew(workers=1)).in_order, asking_of(asker).worth)

    def worths(edits: Iterable[tuple[Edit, ...]]) -> Generator[Worth | None, None, None]:
        with closing(ask(edits)) as answers:
            for worth in answers:
                advance()
                yield worth

    best: Worth | None = None
    for worth in worths(_candidates()):
        if _is_safe(worth) and worth.gain_ns > (0 if best is None else best.gain_ns):
            best = worth
    if best is None:
        return Proposal((), (), None)
    shorter: Worth | None = best
    while shorter is not None:
        best = shorter
        with closing(worths(_without_one(best.edits))) as all_shorter:
            shorter = next((each for each in all_shorter if _is_safe(each) and each.gain_ns >= best.gain_ns), None)
    alone = tuple(worth if _is_safe(worth) else None for worth in worths([(edit,) for edit in best.edits]))
    return Proposal(best.edits, alone, asker.ask(best.edits))


def write_program(program: Program, path: Path) -> None:
    """Write *program* to the JSON file *path*, in the form that `acl-py replay` reads."""
    write_text(path, json.dumps(document(program)) + "\n")


def document(program: Program) -> dict[str, object]:
    """Return *program* as JSON; values that are the default are left out."""
    return {
        "id": program.id,
        **({} if program.gap_ns is None else {"gap_us": program.gap_ns / 1000}),
        **({} if program.values else {"values": False}),
        "notes": list(program.notes),
        "buffers": program.buffers,
        "streams": program.streams,
        "events": program.events,
        "steps": [_step(step) for step in program.steps],
    }


def _step(step: Step) -> dict[str, object]:
    entry: dict[str, object] = {"op": step.op}
    entry |= {
        name: value
        for name in ("id", "thread", "task", "after")
        if (value := getattr(step, name)) is not None
    }  # fmt: skip
    entry |= {"site": step.site} if step.site else {}
    return entry | {name: value for name, value in step.fields.items() if value != OPS[step.op][name].default}


def _candidates() -> Iterator[tuple[Edit, ...]]:
    """Yield the edits to try together. Of those that are equally fast the first one wins."""
    for pinned in ((), (parse("pinned"),)):
        if pinned:
            yield pinned
        for streams in STREAMS:
            spread = parse(f"streams={streams}")
            yield (*pinned, spread)
            for chunks in CHUNKS:
                yield (*pinned, parse(f"chunks={chunks}"), spread)


def _without_one(edits: Sequence[Edit]) -> Iterator[tuple[Edit, ...]]:
    if len(edits) > 1:
        for left_out in range(len(edits)):
            yield tuple(edit for place, edit in enumerate(edits) if place != left_out)


def _is_safe(worth: Worth | None) -> TypeGuard[Worth]:
    """Whether edits can be made, and leave no work without order."""
    return worth is not None and not worth.has_conflicts
