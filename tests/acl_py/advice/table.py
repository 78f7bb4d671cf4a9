"""What advice says about the programs of this repository: the samples, those of the notebooks, and those of a card.

`python -m tests.acl_py.advice.table [samples] [notebooks] [card]` prints each piece of advice with the reason why it is
right, which is in reasons.toml; and for each program how many waits are needed and not known.
"""

import contextlib
import io
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import acl_py
from acl_py.advice.choosing import Chooser, missing
from acl_py.advice.pairs import RacesError
from acl_py.causes.findings import BARRIERS, Pitfall, findings
from acl_py.errors import DeadlockError
from acl_py.explain.cases import EditError
from acl_py.explain.recordings import asker_of
from acl_py.parts import parts_of
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.sanitizer.watch import begin, current_watch, end, watching
from acl_py.trace.rows.timeline import Timeline
from tests.conformance.criteria import measured

ROOT = Path(acl_py.__file__).parent.parent
REASONS = Path(__file__).parent / "reasons.toml"
CARD = ("waits", "semantics", "staging", "pageable", "gaps", "timelines")  # files of tests/conformance/data
_PARTS = parts_of("host,device")


@dataclass(frozen=True)
class Row:
    """What advice says about one run of a *program*: its *pieces* as (line, call, form), or *why* there is none; how
    many waits are *needed*, and the doubts about others.
    """

    program: str
    pieces: tuple[tuple[str, str, str], ...] = ()
    needed: int = 0
    doubts: tuple[str, ...] = ()
    why: str = ""


def row(program: str, timeline: Timeline) -> Row:
    """What advice says about the run in *timeline*."""
    if why := missing(timeline):
        return Row(program, why=why)
    found = findings(timeline)
    barriers = {index for each in found if each.pitfall in BARRIERS for index in each.calls}
    has_legacy = any(each.pitfall is Pitfall.LEGACY for each in found)
    try:
        chosen = Chooser(asker_of(timeline, program), timeline, barriers, has_legacy=has_legacy).choose()
    except (EditError, RacesError) as error:
        return Row(program, why=str(error))
    return Row(
        program,
        tuple((each.way.line.site, each.way.line.called, each.way.form.value) for each in chosen.advice),
        sum(each.pair is not None for each in chosen.verdicts),
        tuple(str(each.doubt) for each in chosen.verdicts if each.doubt is not None),
    )


def samples() -> Iterator[Row]:
    """The rows of all samples that run as they are: each run of each."""
    # Here, because only these need them.
    import pytest

    sys.path.append(str(ROOT / "tests" / "conformance"))
    from tests.conformance.test_recorded_samples import SAMPLES, timelines

    for path in SAMPLES:
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
            watch = begin(_PARTS)
            runs = timelines(path, patch)
        if current_watch() is watch:  # a sample may have ended all of them
            end(watch)
        name = f"{path.parent.name}/{path.stem}".removeprefix("samples/")
        for number, (timeline, _) in enumerate(runs, 1):
            yield row(f"{name} {number}" if len(runs) > 1 else name, timeline)


def notebooks() -> Iterator[Row]:
    """The rows of the measured programs that notebooks replay."""
    from tests.samples.notebooks import DATA

    found = json.loads(DATA.read_text()).values()
    yield from _replayed(each for each in found if isinstance(each, dict))


def card() -> Iterator[Row]:
    """The rows of the programs that a card ran."""
    for name in CARD:
        yield from _replayed(measured(name))


def _replayed(documents) -> Iterator[Row]:
    for document in documents:
        try:
            with watching(_PARTS):
                ran = replay(parse({name: document[name] for name in document if name != "observed"}))
        except DeadlockError:
            yield Row(document["id"], why="it ends in a deadlock")
            continue
        yield row(document["id"], ran.trace.timeline())


def reasons() -> dict[str, str]:
    """Why each piece of advice is right, by its program and its line."""
    return tomllib.loads(REASONS.read_text())


def key(row: Row, piece: tuple[str, str, str]) -> str:
    """What names a piece of advice in reasons.toml."""
    return f"{row.program} {piece[0].rpartition('/')[2]} {piece[1]}"


def unexplained(rows: list[Row]) -> list[str]:
    """The pieces that have no reason."""
    known = reasons()
    return [key(each, piece) for each in rows for piece in each.pieces if key(each, piece) not in known]


def main(*wanted: str) -> None:
    """Print the table."""
    known, doubts = reasons(), Counter()
    print("| program | needed | not known | advice | why it is right |\n| --- | --- | --- | --- | --- |")
    for kind in wanted or ("samples", "notebooks", "card"):
        for each in {"samples": samples, "notebooks": notebooks, "card": card}[kind]():
            doubts.update(each.doubts)
            start = f"| {each.program} | {each.needed} | {len(each.doubts)} |"
            for piece in each.pieces:
                print(f"{start} {piece[0]} {piece[1]}: {piece[2]} | {known.get(key(each, piece), '**none**')} |")
            if not each.pieces:
                print(f"{start} {each.why and f'({each.why})'} | |", flush=True)
    print("\nNot known:\n")
    for doubt, count in doubts.most_common():
        print(f"* {count:,}: {doubt}")


if __name__ == "__main__":
    main(*sys.argv[1:])
