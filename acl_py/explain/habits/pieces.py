"""Copies and fills in pieces: neighbours that one call could move.

Pieces are copies, or fills, that one line queues in a stream one after the other, with nothing but other copies and
fills between them there. If each begins where the last one ended, on both sides, one call does the same. Pieces of one
size at equal distances are the rows of a copy by rows.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from acl_py.calls.acts import Completed, Made, Plain, Queued, Slept
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, by_rows, with_fields
from acl_py.explain.habits.habit import Habit, Way, place_of
from acl_py.explain.relisting import conflict, touches
from acl_py.programs.format import Program, Step

_FEWEST_ROWS = 3  # two pieces of one size are always at equal distances
_HAVE_ROWS = ("memcpy_async", "memcpy")
_Run = list[Step]
_Queue = tuple[str | None, str]  # the task, and the stream; "" for calls that wait


def copies_in_pieces(program: Program) -> Iterator[Habit]:
    """Yield a habit for each line of *program* that copies or fills in pieces."""
    lines: dict[tuple[str, str], list[_Run]] = {}
    for between in _segments(program):
        for run in _runs(between):
            lines.setdefault((place_of(run[0]), run[0].op), []).append(run)
    for runs in lines.values():
        pieces = [step for run in runs for step in run]
        first, most = runs[0][0], max(map(len, runs))
        done = "fills" if first.work == "fill" else "copies"
        if all(map(_is_whole, runs)):
            what = f"{done} in pieces that are neighbours"
            edit = f"Make one call of each {most:,}: all of them are one range of bytes"
        else:
            what = f"{done} row by row"
            call = "Memcpy2dAsync()" if first.op.endswith("async") else "Memcpy2d()"
            edit = f"Make one copy by rows of each {most:,}, with {call}"
        yield Habit(Pitfall.PIECES, pieces, what, [Way(edit, partial(_joined, runs=runs))])


def _segments(program: Program) -> Iterator[list[Step]]:
    """Yield the copies and fills that follow one another in a stream, without other work, records and waits there, and
    without a wait of the host.
    """
    open_: dict[_Queue, list[Step]] = {}
    for step in program.steps:
        match step.act:
            case Queued(Name("copy" | "fill"), Name(_, stream)) if "bytes" in step.fields:
                open_.setdefault((step.task, stream), []).append(step)
                ended = [each for each in open_ if each[1] == stream and each[0] != step.task]
            case Completed(Name("copy" | "fill")) if "bytes" in step.fields:
                open_.setdefault((step.task, ""), []).append(step)
                ended = [each for each in open_ if each[0] == step.task and each[1]]
            case Slept() | Made():
                continue
            case Plain():  # what the host reads must be there already
                ended = [(step.task, "")] if step.fields.get("reads", True) else []
            case _ if "stream" in step.fields and not isinstance(step.act, Completed):
                ended = [each for each in open_ if each[1] in ("", step.fields["stream"])]
            case _:
                ended = [each for each in open_ if each[0] == step.task]
        yield from (open_.pop(each) for each in ended if each in open_)
    yield from open_.values()


def _runs(segment: Sequence[Step]) -> Iterator[_Run]:
    """Yield the runs of pieces of *segment* that one call can do."""
    alike: dict[object, list[_Run]] = {}
    for step in segment:
        fields = step.fields
        same = place_of(step), step.op, fields["dst"], fields.get("src"), fields.get("value"), fields.get("unit")
        runs = alike.setdefault(same, [[]])
        if not runs[-1] or (runs[-1][-1].id is None and _fits(runs[-1], step)):
            runs[-1].append(step)
        else:
            runs.append([step])
    for runs in alike.values():
        for run in runs:
            if len(run) > 1 and (_is_whole(run) or len(run) >= _FEWEST_ROWS) and _can_move(run, segment):
                yield run


def _fits(run: Sequence[Step], step: Step) -> bool:
    """Whether *step* goes on where *run* ends: its next bytes, or its next row."""
    if _is_whole([run[-1], step]) and _is_whole(run[:2]):
        return True
    if step.op not in _HAVE_ROWS or run[-1].fields["bytes"] != step.fields["bytes"]:
        return False
    away = _away(run[-1], step)
    return min(away) >= step.fields["bytes"] and (len(run) == 1 or away == _away(run[0], run[1]))


def _away(one: Step, other: Step) -> tuple[int, int]:
    """Return how many bytes *other* begins behind *one*, at both ends."""
    dst, src = (other.fields.get(end, 0) - one.fields.get(end, 0) for end in ("dst_off", "src_off"))
    return dst, src


def _is_whole(run: Sequence[Step]) -> bool:
    """Whether the bytes of *run* are one range, at both ends."""
    return all(
        _away(one, other) == (one.fields["bytes"], one.fields["bytes"] if "src" in one.fields else 0)
        for one, other in pairwise(run)
    )


def _can_move(run: Sequence[Step], segment: Sequence[Step]) -> bool:
    """Whether the pieces of *run* can be made where the last one is: nothing else of *segment* touches their bytes."""
    indices = {step.index for step in run}
    bytes_ = [each for step in run for each in touches(step) or ()]
    between = (step for step in segment if run[0].index < step.index < run[-1].index and step.index not in indices)
    return not any(conflict(bytes_, each) for step in between for each in touches(step) or ())


def _joined(case: Case, runs: Sequence[_Run]) -> Case:
    """Return *case* with one call in place of each of *runs*, where its last piece was."""
    whole = {run[-1].index: _one(run) for run in runs}
    gone = {step.index for run in runs for step in run}

    def change(step: Step) -> list[Step]:
        return [whole[step.index]] if step.index in whole else [] if step.index in gone else [step]

    return case.with_steps(change)


def _one(run: Sequence[Step]) -> Step:
    first, last = run[0], run[-1]
    begins = {end: first.fields[end] for end in ("dst_off", "src_off") if end in first.fields}
    if _is_whole(run):
        return with_fields(last, **begins, bytes=sum(step.fields["bytes"] for step in run))
    dpitch, spitch = _away(first, run[1])
    return by_rows(with_fields(last, **begins), dpitch, spitch, len(run))
