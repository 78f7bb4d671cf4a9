"""Prices: what the edit of each finding is worth, found by running the program again with that one edit.

A finding says which calls and operations it is about. The steps of the program that make them are found by their times,
which a replay of an unchanged program repeats to the nanosecond.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from acl_py.calls.acts import Completed, Queued
from acl_py.calls.steps import Name
from acl_py.causes.findings import Finding, Pitfall, findings, is_legacy
from acl_py.causes.lines import us
from acl_py.explain.beside import DEFAULT_STREAM, work_beside
from acl_py.explain.cases import (
    NOTES_OF_PINNED,
    PINNED,
    Case,
    EditError,
    Queuing,
    in_stream,
    made_like,
    queues,
    with_fields,
)
from acl_py.explain.early_sends import early_sends, goes_on, grouped
from acl_py.explain.fixes import FIXED, Fixer
from acl_py.explain.habits.default_stream import in_own_stream, ways_out
from acl_py.explain.habits.found import habits
from acl_py.explain.habits.habit import Habit, best, line_of
from acl_py.explain.habits.sync_copies import fetched_later
from acl_py.explain.late_ranks import in_time
from acl_py.explain.records import moved
from acl_py.explain.source import Source
from acl_py.explain.source_edits import source_edits
from acl_py.explain.whatif import Answer, Asker
from acl_py.programs.format import STEP, Program, Step
from acl_py.recorded import not_known
from acl_py.trace.rows.reading import site_of_call
from acl_py.trace.rows.timeline import Operation, StreamStep, Timeline
from acl_py.wording import reword, words_at
from device_model.kernel.ranges import MOST

MOST_PRICED = 20  # findings: each needs a run of the whole program
_SITES = 5  # lines of the program that the last line of a text names
_IN_WORDS = (Pitfall.EARLY_SEND, Pitfall.LARGE_COPY)  # findings whose edits are no diff of lines
_MOST_QUEUES = 4096  # the model makes an object for each


@dataclass(frozen=True, slots=True)
class Priced:
    """A finding with the *answer* of its edit; None if the edit cannot be made, and then *problem* says why.

    *source* is the edit as a diff of the lines of the program, where their text is known. If it *is_of_part*, a report
    of a part of the run tells it; its price is that of the whole run.
    """

    finding: Finding
    answer: Answer | None
    problem: str = ""
    source: tuple[str, ...] = ()
    is_of_part: bool = False

    @property
    def text(self) -> str:
        """The finding and its price as plain text."""
        return f"{self.finding.text}. {self.worth}"

    def with_source(self, source: Source, before: Program) -> "Priced":
        """Return this with the edit of *source*, whose program *before* the edit is given."""
        if self.answer is None or self.is_minor or self.finding.pitfall in _IN_WORDS:  # words say it better
            return self
        return replace(self, source=tuple(source_edits(source, before, self.answer.run.program)))

    @property
    def diff(self) -> list[str]:
        """The edit of the source as lines of text below that of the finding."""
        return [f"      {line}" for line in self.source]

    @property
    def mends(self) -> bool:
        """Whether its edit mends a program that is wrong: its work is without order, or it hangs with larger messages.
        These come first, whatever they cost.
        """
        return self.finding.pitfall in (Pitfall.WRONG_RECORD, Pitfall.EARLY_SEND)

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Its place: edits that mend come first, those that leave work without order last; before others what is worth
        more.
        """
        answer = self.answer
        return not self.mends, answer is not None and bool(answer.conflicts), 0 if answer is None else -answer.gain_ns

    @property
    def is_minor(self) -> bool:
        """Whether its edit is worth less than 1 % of the run, or cannot be tried; not if it mends the program, or is
        about a late rank.
        """
        if self.finding.pitfall is Pitfall.LATE_RANK:  # its worth is per step, and the making of ranks takes long
            return False
        return not self.mends and (self.answer is None or 100 * self.answer.gain_ns < self.answer.worked_ns[0])

    def is_worse_than(self, other: Answer) -> bool:
        """Whether *other* is the better answer: it keeps the order, or it is worth more."""
        return self.answer is None or bool(self.answer.conflicts) or self.answer.gain_ns < other.gain_ns

    @property
    def worth(self) -> str:
        """What the edit of the finding is worth, as plain text."""
        if self.finding.pitfall is Pitfall.LATE_RANK and self.answer is None:
            return f"Worth {us(self.finding.held_ns)} at most{' in the whole run' if self.is_of_part else ''}."
        if self.answer is None:
            return f"No price: {self.problem}"
        gain = self.answer.gain_ns
        worth = f"Worth {us(gain)}" if gain > 0 else "Worth nothing" if not gain else f"It costs {us(-gain)} more"
        run = us(self.answer.worked_ns[0])
        text = f"{worth} of {f'the {run} of the whole run' if self.is_of_part else run}."
        if gain < 0 and self.answer.reordered:
            text = f"{text.removesuffix('.')}, because of another order: {self.answer.reordered[0]}."
        if self.answer.conflicts:
            text += f" Not as it is: it leaves work without order: {self.answer.conflicts[0]}."
        return text


def prices(asker: Asker, timeline: Timeline) -> list[Priced]:
    """Return the findings of *timeline*, each with its price: in the order of their `rank`.

    *timeline* is the recording of the program of *asker*, or the one of its replay.
    """
    steps, of_device = _Steps(asker, timeline), dict[Pitfall, Priced]()
    priced = []
    for place, finding in enumerate(findings(timeline)):
        if finding.pitfall in of_device:  # an edit of the device is the same for all lines
            priced.append(replace(of_device[finding.pitfall], finding=finding))
        elif place >= MOST_PRICED:
            priced.append(Priced(finding, None, f"only the {MOST_PRICED} longest waits are priced"))
        else:
            priced += _priced(asker, finding, steps)
            if finding.pitfall in (Pitfall.FULL_QUEUE, Pitfall.SHARED_QUEUE):
                of_device[finding.pitfall] = priced[-1]
    priced += _priced_habits(asker, steps)
    priced += _misplaced_records(asker, steps)
    priced += _early_sends(asker, steps)
    source = Source(timeline)
    priced = [each.with_source(source, asker.case.program) for each in priced]
    return sorted(priced, key=lambda each: each.rank)


def notes_of_prices(asker: Asker, priced: Iterable[Priced]) -> list[str]:
    """Return what the times of *priced* do not contain: the notes of the case of *asker*, and those of the answers."""
    answers = [each.answer for each in priced if each.answer is not None]
    case = asker.case
    return list(dict.fromkeys((*case.program.notes, *case.notes, *(note for each in answers for note in each.notes))))


def prices_text(priced: Sequence[Priced], notes: Iterable[str], most: int = MOST_PRICED) -> str:
    """Return *priced* as plain text, with the *notes*: what their times do not contain.

    A line for each that is worth following, *most* of them, and a last one for all others.
    """
    minor = [each for each in priced if each.is_minor]
    major = [each for each in priced if not each.is_minor]
    lines = [f"findings: {len(priced):,}"]
    for each in major[:most]:
        lines += [f"  {each.text}", *each.diff]
    if len(major) > most:
        lines.append(f"  {len(major) - most:,} more that are worth following")
    if minor:
        sites = [*dict.fromkeys(f"{each.finding.site} ({each.finding.pitfall.value})" for each in minor)]
        more = f" and {len(sites) - _SITES} other lines" if len(sites) > _SITES else ""
        what = f"{len(minor):,} of them worth less than 1 % of the run, or without a price"
        lines.append(f"  {what}: {', '.join(sites[:_SITES])}{more}")
    if not priced:
        lines = ["findings: none: no call and no operation waited without being asked to (races: see the sanitizer)"]
    return "\n".join([*lines, *not_known(notes)])


def _priced(asker: Asker, finding: Finding, steps: "_Steps") -> list[Priced]:
    """Return *finding* with its price; if there are several ways to edit its line, once with the best of each kind."""
    chosen = steps.of(finding)
    try:
        if finding.pitfall is Pitfall.LATE_RANK:
            case = in_time(asker.case, steps.timeline, finding, steps.at)
            return [Priced(finding, asker.compare(case, finding.edit))]
        if not chosen:
            raise EditError("the program has no step for it")
        alike = steps.alike(chosen)
        is_of_device = finding.pitfall is Pitfall.SYNC_COPY and _is_within_device(asker.case.program, alike)
        if finding.pitfall is Pitfall.LEGACY or is_of_device:
            if steps.is_known(finding.pitfall, alike):
                return []
            own = f"{finding.edit} of its own" if is_of_device else finding.edit
            found = [*filter(None, (best(asker, ways) for ways in ways_out(asker.case, alike, own)))]
            mends = any(answer.is_in_order for _, answer in found)
            ways = [(way, answer) for way, answer in found if answer.is_in_order or not mends]
            if ways:
                return [Priced(replace(finding, edit=way.edit), answer) for way, answer in ways]
        as_it_is = Priced(finding, asker.compare(_EDITS[finding.pitfall](asker.case, chosen), finding.edit))
        if finding.pitfall is Pitfall.SYNC_COPY:
            way, answer = best(asker, fetched_later(asker.case.program, alike)) or (None, None)
            if way is not None and steps.is_known(finding.pitfall, alike):
                return []
            if way is not None and answer is not None and as_it_is.is_worse_than(answer):
                return [Priced(replace(finding, edit=steps.worded(way.edit)), answer)]
        return [as_it_is]
    except EditError as error:
        return [Priced(finding, None, str(error))]


def _priced_habits(asker: Asker, steps: "_Steps") -> Iterator[Priced]:
    """Yield the habits of the program that cost something, each with the best way to do without."""
    for habit in habits(asker.case, asker.plain_timeline):
        found, rival = best(asker, habit.ways), best(asker, habit.rivals)
        if found is None:
            continue
        way, answer = found
        if rival is not None and 100 * (answer.gain_ns - rival[1].gain_ns) < asker.worked_ns:
            continue
        priced = Priced(steps.finding(habit, way.text(answer)), answer)
        if not priced.is_minor:
            yield priced


def _misplaced_records(asker: Asker, steps: "_Steps") -> Iterator[Priced]:
    """Yield the records whose move to another stream mends work that is without order."""
    if not any(each.kind in FIXED for each in asker.findings):
        return
    for move in Fixer(asker.case).misplaced_records():
        records = [step for step in asker.case.program.steps if move.moves(step)]
        what = f"the event that others wait for is not recorded behind the work of {move.work}"
        habit = Habit(Pitfall.WRONG_RECORD, records, what, [])
        edit = f"Record it in the stream of {move.work}"
        yield Priced(steps.finding(habit, edit), asker.compare(moved(asker.case, move), edit))


_IN_A_GROUP = (
    "Put them into a group with the Recvs that follow: async with acl.group(). Or let one of the ranks call Recv first"
)


def _early_sends(asker: Asker, steps: "_Steps") -> Iterator[Priced]:
    """Yield the Sends without whose buffers the program would hang."""
    found = early_sends(asker.case)
    if found is None:
        return
    lines = {send.line for send in found.sends}
    sends = [step for step in asker.case.program.steps if step.line in lines]
    finding = steps.finding(Habit(Pitfall.EARLY_SEND, sends, found.what, []), found.edit)
    try:
        case = grouped(asker.case, found.sends)
        if not goes_on(case):
            raise EditError("it hangs with a group, too")
        yield Priced(replace(finding, edit=_IN_A_GROUP), asker.compare(case, _IN_A_GROUP))
    except EditError as error:
        yield Priced(finding, None, str(error))


class _Steps:
    """The steps of a program by the times of their calls in a recording."""

    def __init__(self, asker: Asker, timeline: Timeline) -> None:
        self.timeline = timeline
        self.program = asker.case.program
        self._known: list[tuple[Pitfall, set[int]]] = []
        steps = asker.case.program.steps
        calls = [(round(call.enter_us * 1000), round(call.exit_us * 1000), call.step) for call in asker.before.host]
        self.by_times: dict[tuple[int, int], list[Step]] = {}
        for enter, exit_, index in calls:
            self.by_times.setdefault((enter, exit_), []).append(steps[index])
        self._queuing = Queuing((enter, exit_, steps[index]) for enter, exit_, index in calls)
        self._by_exit = {exit_: steps[index] for _, exit_, index in sorted(calls) if queues(steps[index])}

    def of(self, finding: Finding) -> list[Step]:
        """Return the steps that make the calls of the line of *finding*, or that queue its work in the legacy stream.

        A person's edit of a line changes all of them, also those that did not have to wait.
        """
        timeline = self.timeline
        named = {timeline.calls[index].name for index in finding.calls}
        found = [
            step
            for call in timeline.calls
            if call.name in named and site_of_call(call) == finding.site
            for step in self.by_times.get((call.enter_ns, call.exit_ns), ())
        ]
        if finding.ops:
            rows: list[Operation | StreamStep] = [*timeline.ops, *timeline.steps]
            for row in rows:
                if row.site == finding.site and (finding.pitfall is not Pitfall.LEGACY or is_legacy(row)):
                    found += self.at(row.queued_ns)
        return [*{step.index: step for step in sorted(found, key=lambda step: step.index)}.values()]

    def alike(self, chosen: Sequence[Step]) -> list[Step]:
        """Return *chosen*, and in a program without lines all steps that do the same."""
        lines, indices = {line_of(step) for step in chosen if step.line.startswith(STEP)}, _indices(chosen)
        return [step for step in self.program.steps if step.index in indices or line_of(step) in lines]

    def is_known(self, pitfall: Pitfall, chosen: Sequence[Step]) -> bool:
        """Whether *chosen* was asked about before: the work of a line may wait, and others may wait for it."""
        if (asked := (pitfall, _indices(chosen))) in self._known:
            return True
        self._known.append(asked)
        return False

    def finding(self, habit: Habit, edit: str) -> Finding:
        """Return *habit* as a finding."""
        chosen = _indices(habit.steps)
        times = [times for times, steps in self.by_times.items() if any(step.index in chosen for step in steps)]
        places = {(call.enter_ns, call.exit_ns): index for index, call in enumerate(self.timeline.calls)}
        return Finding(
            habit.pitfall,
            habit.steps[0].line,
            habit.what,
            self.worded(edit),
            held_ns=sum(exit_ - enter for enter, exit_ in times),
            begin_ns=min(enter for enter, _ in times),
            end_ns=max(exit_ for _, exit_ in times),
            calls=sorted(places[each] for each in times if each in places),
        )

    def worded(self, edit: str) -> str:
        """Return *edit* in the words of the script."""
        first = next((call for call in self.timeline.calls if call.function), None)
        return edit if first is None else reword(edit, words_at(first.file, first.function))

    def at(self, at_ns: int) -> list[Step]:
        """Return the steps whose calls queued something at *at_ns*: at their ends, or while they lasted."""
        step = self._by_exit.get(at_ns) or self._queuing.at(at_ns)
        return [] if step is None else [step]


# --- the edit for each pitfall


def _in_pinned_memory(case: Case, steps: Sequence[Step]) -> Case:
    """Give the chosen copies pinned memory in place of pageable memory."""
    program, chosen = case.program, _indices(steps)
    ends = {step.fields[end] for step in steps for end in ("dst", "src") if end in step.fields}
    pageable = {name for name in ends if program.buffers.get(name, {}).get("space") == "pageable"}
    if not pageable:
        raise EditError("the memory is made by the program itself, by other means")
    pinned = {PINNED + name: {**program.buffers[name], "space": "pinned"} for name in sorted(pageable)}
    case = case.with_program(buffers={**program.buffers, **pinned})

    def change(step: Step) -> list[Step]:
        if step.index not in chosen:
            return [step]
        moved = {end: PINNED + step.fields[end] for end in ("dst", "src") if step.fields.get(end) in pageable}
        return [with_fields(step, **moved)]

    return case.with_steps(change).noting(*NOTES_OF_PINNED)


def _at_the_end(case: Case, steps: Sequence[Step]) -> Case:
    """Make the chosen calls behind all others, in the task that makes the last one of these."""
    chosen = _indices(steps)
    task = next((step.task for step in reversed(case.program.steps) if step.index not in chosen), None)
    last = [replace(step, task=task) for step in steps]
    return case.with_steps(lambda step: [] if step.index in chosen else [step], last=last)


def _asynchronous(case: Case, steps: Sequence[Step]) -> Case:
    """Let the chosen copies and fills be asynchronous, with pinned memory, in the stream of the work on their bytes."""
    if not all(isinstance(step.act, Completed) and _is_on_device(case.program, step) for step in steps):
        raise EditError("the host makes this copy, not the device")
    beside = {index: each.usual for index, each in work_beside(case.program, steps).items()}
    streams = {index: DEFAULT_STREAM if step is None else step.fields["stream"] for index, step in beside.items()}

    def change(step: Step) -> list[Step]:
        return [in_stream(step, streams[step.index]) if step.index in streams else step]

    case = case.with_steps(change).noting(
        "the host must synchronise before it reads or changes the bytes of a copy that is now asynchronous"
    )
    changed = [case.program.steps[index] for index in sorted(streams)]
    ends = {step.fields.get(end) for step in changed for end in ("dst", "src")}
    if any(case.program.buffers.get(str(name), {}).get("space") == "pageable" for name in ends):
        case = _in_pinned_memory(case, changed)
    return case


def _is_on_device(program: Program, step: Step) -> bool:
    """Whether one end of a copy, or what is filled, is memory of the device."""
    host = program.buffers_in("pinned", "pageable")
    return any(step.fields[end] not in host for end in ("dst", "src") if end in step.fields)


def _is_within_device(program: Program, steps: Sequence[Step]) -> bool:
    """Whether *steps* only copy from device to device or fill memory there, and each waits for that."""
    host = program.buffers_in("pinned", "pageable", "managed")
    return all(
        isinstance(step.act, Completed)
        and not any(step.fields[end] in host for end in ("dst", "src", "buf") if end in step.fields)
        for step in steps
    )


def _deep_queues(case: Case, _: Sequence[Step]) -> Case:
    return case.on_device(queues={"depth": MOST})


def _many_queues(case: Case, _: Sequence[Step]) -> Case:
    return case.on_device(queues={"compute": _MOST_QUEUES, "copy": _MOST_QUEUES})


def _prefetched(case: Case, steps: Sequence[Step]) -> Case:
    """Prefetch the managed memory of the chosen operations, in their streams and just before them."""
    chosen, managed = _indices(steps), case.program.buffers_in("managed")
    prefetches = {step.index: _prefetches(step, managed) for step in steps}
    if not any(prefetches.values()):
        raise EditError("a prefetch to the host belongs behind the work that writes the pages, which is not known")
    return case.with_steps(lambda step: [*prefetches[step.index], step] if step.index in chosen else [step]).noting(
        "the prefetch is just before the work; an earlier one, beside other work, is worth more"
    )


def _prefetches(step: Step, managed: set[str]) -> list[Step]:
    """Return a prefetch for each range of *managed* memory that *step* declares."""
    if "stream" not in step.fields:
        return []
    ranges = {
        (buffer, start, stop): None for name in ("reads", "writes") for buffer, start, stop in step.fields.get(name, ())
    }
    if "write" in step.fields:
        ranges[step.fields["buf"], 0, step.fields["bytes"]] = None
    act = Queued(Name("prefetch"), Name("stream", step.fields["stream"]))
    return [
        made_like(step, act, buf=buffer, off=start, bytes=stop - start, to="device")
        for buffer, start, stop in ranges
        if buffer in managed and start < stop
    ]


_EDITS: Mapping[Pitfall, Callable[[Case, Sequence[Step]], Case]] = {
    Pitfall.LEGACY: in_own_stream,
    Pitfall.PAGEABLE: _in_pinned_memory,
    Pitfall.FREE: _at_the_end,
    Pitfall.DESTROY: _at_the_end,
    Pitfall.FULL_QUEUE: _deep_queues,
    Pitfall.SHARED_QUEUE: _many_queues,
    Pitfall.SYNC_COPY: _asynchronous,
    Pitfall.PAGE_FAULTS: _prefetched,
}


def _indices(steps: Iterable[Step]) -> set[int]:
    return {step.index for step in steps}
