"""What-if: a program is run again with edits, and the two runs are compared.

The worth of an edit is the makespan of the program as it is minus that of the edited one, both replayed; it is never a
sum of waits. Both runs are sanitized. If the edited program has accesses to the same bytes without order that were in
order before, the answer says so: such an edit is no fix.
"""

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from acl_py.causes.lines import us
from acl_py.errors import DeadlockError
from acl_py.explain.cases import PINNED, Case, EditError, Queuing
from acl_py.explain.edits import Edit, apply
from acl_py.findings import Finding, Kind
from acl_py.parts import SanitizerPart, parts_of
from acl_py.programs.format import STEP, ProgramError
from acl_py.programs.replay import Replay, replay
from acl_py.recorded import not_known
from acl_py.recorded.names import PAGEABLE
from acl_py.sanitizer.watch import watching
from acl_py.trace.rows.timeline import Operation, Timeline
from acl_py.trace.rows.windows import worked
from acl_py.trace.views.shown import shown
from acl_py.verbs.host import Sleep
from device_model.errors import listed

_PARTS = parts_of("host,device,uninitialised")
_PARTS_OF_ORDER = parts_of("host,device")
_SELDOM = 50_000  # new objects between two looks of the garbage collector
_SHOWN = 3  # conflicts of an answer
_CONFLICTS = (Kind.RACE, Kind.BEFORE_ALLOCATION, Kind.FREE_IN_USE)
_ARRAYS = {repr(PAGEABLE), repr(PINNED + PAGEABLE)}  # memory that may be of several arrays


@dataclass(frozen=True, slots=True)
class Answer:
    """What edits would change. Times are makespans: until the last step has returned and all operations are done
    (of a habit whose edit moves calls in front of the first work, they are *worked_ns*).
    *worked_ns* are those of the windows from the first work to the last wait, before and after, which texts tell; or of
    another *part*, in words (windowed.py).

    *conflicts* name pairs of accesses that the edits leave without order although they touch the same bytes; if there
    are any, the edits are no fix. *notes* say what the times do not contain. *reordered* names the engines that run
    their operations in another order, and the host, if its tasks take turns in another order. A wait that is left out
    can make a run longer in this way. *run* is the edited run.
    """

    edits: str
    before_ns: int
    after_ns: int
    conflicts: tuple[str, ...]
    notes: tuple[str, ...]
    reordered: tuple[str, ...]
    worked_ns: tuple[int, int]
    run: Replay = field(repr=False)
    case: Case = field(repr=False)
    part: str = ""

    @property
    def after(self) -> Timeline:
        """The timeline of the edited run, by lines: see `by_line`."""
        return by_line(self.run)

    @property
    def gain_ns(self) -> int:
        """How much shorter the edited run is; negative if it is longer."""
        return self.before_ns - self.after_ns

    @property
    def is_in_order(self) -> bool:
        """Whether all work of the edited run is in order, also what was not before."""
        return not _conflicts(self.run.findings)

    @property
    def text(self) -> str:
        """The answer as plain text."""
        before_ns, after_ns = self.worked_ns
        name = f"{self.edits}, {self.part}" if self.part else self.edits
        lines = [f"{name}: {us(after_ns)} instead of {us(before_ns)}: {_gain(before_ns, after_ns)}"]
        if self.conflicts:
            lines.append(f"  no fix: it leaves work on the same bytes without order: {listed(self.conflicts[:_SHOWN])}")
            if len(self.conflicts) > _SHOWN:
                lines.append(f"  and {len(self.conflicts) - _SHOWN:,} more pairs")
        if self.gain_ns < 0:
            lines += [f"  in another order: {each}" for each in self.reordered]
        return "\n".join([*lines, *not_known(self.notes)])


class _Frozen:
    """Whether the objects of this process are frozen: by `settled`, or by the parent of a forked process. This is kept
    because gc.get_freeze_count() walks all frozen objects.
    """

    here = False


@contextmanager
def settled() -> Iterator[None]:
    """Let the garbage collector look only at what is made meanwhile, and seldom. A long recording has millions of
    objects, which stay; to look at them again and again takes a third of the time.
    """
    if _Frozen.here:
        yield
        return
    _Frozen.here = True
    if gc.get_freeze_count():
        yield
        return
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(max(usual[0], _SELDOM) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
        _Frozen.here = False


class Asker:
    """Answers questions about one case, whose own run is made once.

    The steps of the case keep their lines through all edits, and the sanitizer looks at the runs that are compared.
    """

    def __init__(self, case: Case) -> None:
        steps = tuple(replace(step, site=step.line) for step in case.program.steps)
        self.case = case.with_program(steps=steps)
        self.before = self._run(self.case, None)
        self.plain_timeline = self.before.trace.timeline()
        self.before_ns = round(self.before.done_us * 1000)
        self.worked_ns = _worked_ns(self.plain_timeline, self.before_ns)

    @cached_property
    def timeline(self) -> Timeline:
        """The timeline of the program as it is, by lines: see `by_line`."""
        return by_line(self.before)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the sanitizer finds in the program as it is. It is run again for that: few answers need it."""
        return self._run(self.case, _PARTS).findings

    def ask(self, edits: Sequence[Edit]) -> Answer:
        """Return what *edits* would change, made one after the other.

        Raises:
            EditError: an edit cannot be made, or the edited program cannot run.
        """
        case = self.case
        for edit in edits:
            case = apply(edit, case)
        return self.compare(case, ", ".join(map(str, edits)))

    def gain_ns(self, case: Case) -> int:
        """Return how much shorter the run of *case* is. The sanitizer is off: it would take half of the time.

        Raises:
            EditError: the program cannot run.
        """
        try:
            run_ = self._run(case, None)
        except (ProgramError, DeadlockError) as error:
            raise EditError(f"the edited program does not run: {error}") from error
        self._check(run_, case.program.id)
        return self.before_ns - round(run_.done_us * 1000)

    def _check(self, run_: Replay, what: str) -> None:
        """Refuse a run with failures that the run of the case does not have."""
        failure = next((_failures(run_) - _failures(self.before)).elements(), None)
        if failure is not None:
            raise EditError(f"{what}: the edited program does not run: {failure[0]} fails with {failure[1]}")

    def compare(self, case: Case, what: str, *, order_only: bool = False) -> Answer:
        """Return how the run of *case* differs; *what* says what was edited. With *order_only* reads of unwritten
        bytes are not looked for: no answer is about them. Then conflicts are also pairs that only a wait in a call
        puts in order that need not wait.
        """
        try:
            run_ = self._run(case, _PARTS_OF_ORDER if order_only else _PARTS)
        except (ProgramError, DeadlockError) as error:
            raise EditError(f"{what}: the edited program does not run: {error}") from error
        self._check(run_, what)
        after = run_.trace.timeline()
        kinds = (*_CONFLICTS, Kind.RELIES) if order_only else _CONFLICTS
        after_it = _conflicts(run_.findings, kinds)
        before_it = _conflicts(self.findings, kinds) if after_it else {}
        found = [(pair, text) for pair, text in after_it.items() if pair not in before_it]
        conflicts = [text for (_, buffers), text in found if not buffers <= _ARRAYS]
        of_arrays = [text for (_, buffers), text in found if buffers <= _ARRAYS]
        notes = (*case.program.notes, *case.notes, *_notes_of_arrays(of_arrays))
        after_ns = round(run_.done_us * 1000)
        reordered = tuple(_reordered(self.plain_timeline, after))
        steps = tuple(replace(step, site="") if step.site.startswith(STEP) else step for step in case.program.steps)
        unmarked = case.with_program(steps=steps)
        times = self.worked_ns, _worked_ns(after, after_ns)
        return Answer(what, self.before_ns, after_ns, tuple(conflicts), notes, reordered, times, run_, unmarked)

    def _run(self, case: Case, parts: frozenset[SanitizerPart] | None) -> Replay:
        """Run the program of *case*, in which the sanitizer looks at *parts*; with None it is off. Raises what `replay`
        raises.
        """
        with settled(), nullcontext() if parts is None else watching(parts):
            return replay(case.program, device=case.device, rules=case.rules, sanitize=None if parts else False)


def by_line(run_: Replay) -> Timeline:
    """Return the timeline of *run_*, in which each step has its line: that of the recorded program, or else "step:12".

    The synchronisation that ends a replay is no step, and is left out.
    """
    timeline, steps = run_.trace.timeline(), run_.program.steps
    times = {(round(call.enter_us * 1000), round(call.exit_us * 1000)): call.step for call in reversed(run_.host)}
    calls = []
    for call in timeline.calls:
        index = times.get((call.enter_ns, call.exit_ns))
        if index is not None:
            file, _, line = steps[index].line.rpartition(":")
            calls.append(call._replace(file=file, line=int(line)))
    queuing = Queuing((enter, exit_, steps[index]) for (enter, exit_), index in times.items())

    def line_at(at_ns: int) -> str:
        """Return the line that queued something at *at_ns*."""
        step = queuing.at(at_ns)
        return "" if step is None else step.line

    ops = [op if op.launch is not None else op._replace(site=line_at(op.queued_ns)) for op in timeline.ops]
    rows = [row._replace(site=line_at(row.queued_ns)) for row in timeline.steps]
    end = max((call.exit_ns for call in calls), default=0)
    return replace(timeline, calls=calls, ops=ops, steps=rows, end_ns=end)


def _failures(run_: Replay) -> Counter[tuple[str, int]]:
    """Return how many calls failed, by op and code. A query that is answered "not yet" is no failure."""
    steps = run_.program.steps
    return Counter((steps[call.step].op, call.ret) for call in run_.host if call.ret and not steps[call.step].is_query)


def answers_text(answers: Iterable[Answer]) -> str:
    """Return *answers* as plain text, those with the largest gain first."""
    return "\n".join(answer.text for answer in sorted(answers, key=lambda answer: -answer.gain_ns))


def _notes_of_arrays(pairs: Sequence[str]) -> Iterator[str]:
    """Yield what is not known of *pairs* of copies, which are in order if each has an array of its own."""
    if pairs:
        more = f" and {len(pairs) - _SHOWN:,} more pairs" if len(pairs) > _SHOWN else ""
        shown = listed(pairs[:_SHOWN])
        yield f"nothing orders these copies; if they use one array of the host, they race: {shown}{more}"


def _conflicts(
    found: Iterable[Finding], kinds: Collection[Kind] = _CONFLICTS
) -> dict[tuple[frozenset[str], frozenset[str]], str]:
    """Return the pairs of accesses that *found* says are in no order, by their lines and buffers, as text; they are of
    these *kinds*.

    Lines and buffers are the same in another run of the same operations, whatever their streams and times are.
    """
    return {
        (frozenset(finding.sites), frozenset(span.buffer for span in finding.spans)): _pair(finding)
        for finding in found
        if finding.kind in kinds
    }


def _pair(finding: Finding) -> str:
    accesses = " and ".join(f"{access.what} ({access.site})" for access in finding.accesses)
    return f"{accesses} on {listed(map(str, finding.spans))}"


def _reordered(before: Timeline, after: Timeline) -> Iterator[str]:
    """Yield for each engine the first two operations that run in another order, if there are any; and so for the host,
    if it makes no other calls than before.
    """
    calls, fewer = _host_order(before), _host_order(after)
    rest = iter(calls)
    if Counter(fewer) <= Counter(calls) and not all(call in rest for call in fewer):
        yield "the host makes the calls of its tasks in another order"
    orders = _engine_orders(before)
    for (device, engine), order in _engine_orders(after).items():
        changed = next(
            ((one, two) for one, two in zip(orders.get((device, engine), ()), order, strict=False) if one != two), None
        )
        if changed is not None:
            one, two = changed
            yield f"{shown(engine, before.device, before.rules)} runs {two} where it ran {one}"


def _host_order(timeline: Timeline) -> list[tuple[str, str]]:
    """Return the calls of all tasks, except their sleeps, in the order in which they began."""
    calls = sorted(timeline.calls, key=lambda call: call.enter_ns)
    return [(call.caller, call.name) for call in calls if call.name != Sleep.__name__]


def _engine_orders(timeline: Timeline) -> dict[tuple[int, str], list[str]]:
    """Return the operations of each engine, in the order in which they started."""
    ops, names = timeline.ops, _numbered(timeline.ops)
    orders: dict[tuple[int, str], list[str]] = {}
    for index in sorted(range(len(ops)), key=lambda index: (ops[index].start_ns, ops[index].queued_ns, index)):
        orders.setdefault((ops[index].device, ops[index].engine), []).append(names[index])
    return orders


def _numbered(ops: Sequence[Operation]) -> dict[int, str]:
    """Return a name for each operation: operations of one name have numbers, in the order in which they are queued."""
    counts: Counter[str] = Counter()
    names: dict[int, str] = {}
    for index in sorted(range(len(ops)), key=lambda index: (ops[index].queued_ns, index)):
        counts[ops[index].name] += 1
        names[index] = f"{ops[index].name} {counts[ops[index].name]}"
    return names


def _worked_ns(timeline: Timeline, done_ns: int) -> int:
    """Return how long the replay in *timeline*, which was done at *done_ns*, worked: a synchronisation ends it."""
    return worked(timeline, done_ns).ns


def _gain(before_ns: int, after_ns: int) -> str:
    gain = before_ns - after_ns
    if not gain:
        return "no difference"
    share = f"{100 * abs(gain) / before_ns:.1f} %"
    return f"{us(gain)} less ({share})" if gain > 0 else f"{us(-gain)} more ({share})"
