"""Edits of a program as edits of its source: which lines go, move and change, where their text is known.

The steps of a recorded program have lines. So from the steps before and after an edit follows what becomes of a line:
it goes, it moves, its call gets another stream, or another call comes to it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from acl_py.calls.table import all_verbs
from acl_py.explain.source import Source
from acl_py.programs.format import Program, Step

_ASYNC = "_async"
_NEW_STREAM = "own_stream"  # the variable for a stream that an edit makes
_ARGUMENTS = {
    "record": "event, {stream}",
    "wait": "{stream}, event",
    "instantiate": "graph",
    "graph_launch": "executable, {stream}",
}
_MOST = 10  # lines of a diff


def source_edits(source: Source, before: Program, after: Program) -> list[str]:
    """Return a diff of the lines of *source* that the edit of a program changes: "- file.py:12: ..." for what goes, and
    "+ behind file.py:12: ..." for what comes. What it leaves out, the words of the edit say.
    """
    edits = _Edits(source, before, after)
    lines = list(chain.from_iterable(map(edits.of, edits.old)))
    return [*lines[:_MOST], *([f"... {len(lines) - _MOST} more lines"] if len(lines) > _MOST else [])]


class _Edits:
    """The steps of a program before and after an edit, by their lines."""

    def __init__(self, source: Source, before: Program, after: Program) -> None:
        self._source = source
        self._steps = after.steps
        self._made = after.streams.keys() - before.streams.keys()
        self.old, self._new = _by_line(before.steps), _by_line(after.steps)
        self._times_old, self._times_new = _times(before.steps), _times(after.steps)

    def of(self, line: str) -> Iterator[str]:
        """Yield the diff of *line*; nothing if its text is not known or it stays as it is."""
        text, old, new = self._source.text(line), self.old[line], self._new.get(line, [])
        ops = {_plain(step) for step in old}
        kept = [step for step in new if _plain(step) in ops]
        if not text:
            return
        if not kept:
            yield f"- {line}: {text}"
        elif self._is_moved(line):
            yield f"- {line}: {text}"
            yield f"+ {self._place(kept[0])}: {text}"
        elif len(kept) < len(old):
            is_captured = any(step.op == "begin_capture" for step in new)
            yield f"- {line}: {text}"
            instead = "the same, captured once" if is_captured else f"one call for {len(old) // len(kept):,} of these"
            yield f"+ {line}: {instead}"
        elif self._is_changed(line, kept[0], old[0]):
            stream = self._stream(kept[0])
            changed = self._source.in_stream(line, stream or "stream", asynchronous=kept[0].op != old[0].op)
            yield f"- {line}: {text}"
            yield f"+ {line}: {changed or 'the same call in ' + (stream or 'a stream')}"
        added: dict[str, Step] = {}
        for step in new:
            if _plain(step) not in ops:
                added.setdefault(step.op, step)
        for step in added.values():
            behind = step.index > 0 and self._steps[step.index - 1].line == line
            yield f"+ {'behind' if behind else 'before'} {line}: {self._written(step)}"

    def _is_changed(self, line: str, step: Step, other: Step) -> bool:
        """Whether the call of *line* is another one: not if the same expression stands for another stream now."""
        if step.op == other.op and self._source.stream(line) == self._stream(step):
            return False
        return (step.op, step.fields.get("stream")) != (other.op, other.fields.get("stream"))

    def _is_moved(self, line: str) -> bool:
        """Whether the calls of *line* come together that were apart before."""
        return self._times_new[line] < self._times_old[line]

    def _place(self, step: Step) -> str:
        """Return where *step* is now, by a line that has not moved; a line outside of loops is preferred."""
        own = [other for other in self._steps if other.task == step.task and not self._is_moved(other.line)]
        later = next((other for other in own if other.index > step.index), None)
        earlier = next((other for other in reversed(own) if other.index < step.index), None)
        if earlier is not None and (later is None or (self._is_in_loop(later) and not self._is_in_loop(earlier))):
            return f"behind {self._around(earlier)}"
        return "at the end" if later is None else f"before {self._around(later)}"

    def _around(self, step: Step) -> str:
        """Return the line of *step*, or the loop that it is in."""
        return f"the loop of {step.line}" if self._is_in_loop(step) else step.line

    def _is_in_loop(self, step: Step) -> bool:
        """Whether the line of *step* has its turn several times."""
        return self._times_new[step.line] > 1

    def _written(self, step: Step) -> str:
        """Return the call of a *step* that an edit has made, as a program could have it."""
        verb = next((verb.name for verb in all_verbs().values() if verb.step == step.op), step.op)
        stream = (self._stream(step) or "stream") if "stream" in step.fields else ""
        return self._source.written(f"{verb}({_ARGUMENTS.get(step.op, '{stream}').format(stream=stream)})")

    def _stream(self, step: Step) -> str:
        """Return an expression for the stream of *step*: that of a line which had it before; "" if none has one."""
        name = step.fields.get("stream")
        if name in self._made:
            return _NEW_STREAM
        lines = (line for line, steps in self.old.items() if steps[0].fields.get("stream") == name)
        return next((found for line in lines if (found := self._source.stream(line))), "")


def _by_line(steps: Sequence[Step]) -> dict[str, list[Step]]:
    lines: dict[str, list[Step]] = {}
    for step in steps:
        lines.setdefault(step.line, []).append(step)
    return lines


def _times(steps: Sequence[Step]) -> Counter[str]:
    """Return how often each line has its turn."""
    return Counter(line for line, _ in groupby(step.line for step in steps))


def _plain(step: Step) -> str:
    return step.op.removesuffix(_ASYNC).replace("memcpy2d", "memcpy")
