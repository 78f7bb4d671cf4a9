"""Fixes: the order that a program lacks is put into it, and the program is run again.

A finding of the sanitizer names two accesses that nothing puts in order; its fix is an edge between them (edges.py).
Reads of unwritten bytes, uses of freed memory and second frees have other fixes (rewrites.py). The program of the run
is replayed with the fix, under the sanitizer. So it is known whether the finding is gone, whether the program still
comes to its end, and what the fix costs.

A line of the program may make an access many times. Its fix is made each time, as it would be in the source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from acl_py.calls.steps import HOST_ACCESS
from acl_py.causes.lines import us
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edges import Edge, with_edges
from acl_py.explain.launched import Launched
from acl_py.explain.records import Move, misplaced, moved
from acl_py.explain.rewrites import REWRITTEN, rewritten
from acl_py.explain.whatif import Answer, Asker
from acl_py.findings import Access, Finding, Kind, Trial
from acl_py.package_words import package_of
from acl_py.programs.format import STEP, Program, ProgramError
from acl_py.programs.replay import Replay
from acl_py.wording import reword

FIXED = (Kind.RACE, Kind.RELIES, Kind.BEFORE_ALLOCATION, Kind.FREE_IN_USE)  # the kinds that an edge can mend
MOST_TRIED = 20  # findings: each needs a run of the whole program, or several
_HOW = ("", "with SynchronizeEvent(), for a record behind the first access: ")

Lines = tuple[str, str]  # of the two accesses of a finding
Missing = dict[Lines, list[Edge]]


@dataclass(frozen=True, slots=True)
class Mended:
    """The *program* with the edges that mend its findings.

    *edges* has the lines of each, *cost_ns* is what they cost together, and *left* has the lines of the findings that
    are still there. *moved* says of a record that is in another stream which one that is.
    """

    program: Program
    edges: tuple[Lines, ...]
    cost_ns: int
    left: tuple[Lines, ...]
    moved: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What mends the program, as plain text."""
        fixes = [*self.moved, *(f"{other} behind {one}" for one, other in self.edges)]
        if not fixes:
            return "no fix helps"
        behind = ", ".join(fixes)
        them = "1 fix is" if len(fixes) == 1 else f"{len(fixes)} fixes are"
        all_ = f"all findings about order but {len(self.left)}" if self.left else "all findings about order"
        return f"{them} enough for {all_}: {behind}; {cost_text(self.cost_ns / 1000)}"


class Fixer:
    """Tries fixes on one case, which is run once as it is.

    Raises what `replay` raises.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._lines = [step.line for step in case.program.steps]
        self._sites = [step.site for step in case.program.steps]
        # The line of each step is its number, which it keeps in all runs. So findings tell which steps they are about.
        steps = tuple(replace(step, site=f"{STEP}{step.index}") for step in case.program.steps)
        self._asker = Asker(case.with_program(steps=steps))
        if len({step.task for step in steps}) > 1:
            self._asker = Asker(_in_order_of_calls(self._asker.case, self._asker.before))
        self._places = {_number(step.site): step.index for step in self._asker.case.program.steps}
        self._launched = Launched(self._asker.case.program.steps)
        self.missing = self._missing(self._asker.findings)
        self._rewritten = self._to_rewrite(self._asker.findings)

    @property
    def lacks_host(self) -> bool:
        """Whether the program was recorded, and has no access of the host: perhaps its host was not watched."""
        program = self._asker.case.program
        return any(self._sites) and not any(step.act == HOST_ACCESS for step in program.steps)

    def has(self, finding: Finding) -> bool:
        """Whether the run of the case has what *finding* is about."""
        if finding.kind in FIXED:
            return _lines_of(finding) in self.missing
        return (finding.kind, finding.sites) in self._rewritten or self._has_without(finding)

    def _has_without(self, finding: Finding) -> bool:
        """Whether the program is that of the run without the second free: a recording has no call that has failed."""
        return finding.kind is Kind.DOUBLE_FREE and any(self._sites) and finding.sites[0] in self._lines

    def try_fix(self, finding: Finding) -> Trial:
        """Return the outcome of the fix of *finding*, which this case has."""
        if finding.kind in REWRITTEN:
            return self._try_rewrite(finding)
        by_edge, move = self._try_edge(finding), self._moved_record(_lines_of(finding))
        if move is None:
            return by_edge
        cost_us = move.cost_ns / 1000
        if by_edge.is_gone and by_edge.cost_us < cost_us:
            return by_edge
        return Trial(f"{move.move.text}: the finding is gone, {cost_text(cost_us)}", is_gone=True, cost_us=cost_us)

    def _try_edge(self, finding: Finding) -> Trial:
        lines, problems = _lines_of(finding), []
        for edges, how in zip(_ways(self.missing[lines]), _HOW, strict=False):
            try:
                answer = self._ask(edges)
            except EditError as error:
                problems.append(str(error))
                continue
            left = self._missing(answer.run.findings)
            if lines not in left:
                return self._gone(answer, left, reword(how, words) if (words := _words_of(finding)) else how)
            problems.append("the finding is still there")
        return Trial(problems[0])

    def misplaced_records(self) -> list[Move]:
        """Return the moves of records that mend findings of the case and bring no others: of each line the one that
        mends most.
        """
        found = [each for lines in sorted(self.missing) if (each := self._moved_record(lines)) is not None]
        found.sort(key=lambda each: (len(each.fixer.missing), each.cost_ns), reverse=True)
        return [*{(each.move.line, each.move.task): each.move for each in found}.values()]

    def _moved_record(self, lines: Lines) -> "_Moved | None":
        """Return what becomes of the case if a record in the wrong stream is the reason why *lines* are in no order.
        None if that is not so, or if there would be other findings then.
        """
        steps = self._asker.case.program
        move = misplaced(steps, self.missing[lines], lambda step: self._lines[_number(step.site)])
        if move is None:
            return None
        try:
            fixer = Fixer(moved(self._case, move))
        except (ProgramError, DeadlockError):  # the program does not come to its end with it
            return None
        if lines in fixer.missing or fixer.missing.keys() - self.missing.keys():
            return None
        return _Moved(move, fixer, fixer._asker.before_ns - self._asker.before_ns)

    def _try_rewrite(self, finding: Finding) -> Trial:
        key = finding.kind, finding.sites
        if key not in self._rewritten:
            return Trial(f"the finding is gone, {cost_text(0)}", is_gone=True)
        places = {f"{STEP}{number}": place for number, place in self._places.items()}
        try:
            answer = self._asker.compare(rewritten(self._asker.case, self._rewritten[key], places), "the fix")
        except EditError as error:
            return Trial(str(error))
        if key in self._to_rewrite(answer.run.findings):
            return Trial("the finding is still there")
        return self._gone(answer, self._missing(answer.run.findings))

    def _gone(self, answer: Answer, left: Missing, how: str = "") -> Trial:
        """Return the trial of a fix that works; in the program with it the edges *left* are missing."""
        cost_us = -answer.gain_ns / 1000
        others = _others_text(left.keys() - self.missing.keys())
        return Trial(f"{how}the finding is gone, {cost_text(cost_us)}{others}", is_gone=True, cost_us=cost_us)

    def mend(self, findings: Iterable[Finding] | None = None) -> Mended:
        """Return the program with few fixes that mend all *findings* together; None stands for all of the case."""
        wanted = {*self.missing} if findings is None else {_lines_of(each) for each in findings if each.kind in FIXED}
        best, tried = self._with_edges(wanted), set[str]()
        for lines in sorted(wanted & self.missing.keys()):
            move = self._moved_record(lines)
            if move is None or move.move.text in tried:
                continue
            tried.add(move.move.text)
            rest = move.fixer._with_edges(wanted)
            cost_ns = move.cost_ns + rest.cost_ns
            if (len(rest.left), cost_ns) <= (len(best.left), best.cost_ns):
                best = replace(rest, cost_ns=cost_ns, moved=(move.move.text,))
        return best

    def _with_edges(self, wanted: AbstractSet[Lines]) -> Mended:
        """Return the program with few edges that put the lines *wanted* in order.

        The next edge is the one for the earliest step that is out of order, and begins as late as it can. In the end,
        edges that others make needless are left out.
        """
        given_up = self.missing.keys() - wanted
        chosen: Missing = {}
        left = self.missing
        while (open_ := left.keys() - given_up) and len(chosen) < MOST_TRIED:
            lines = min(open_, key=lambda lines: (min(edge.behind for edge in left[lines]), lines))
            for edges in _ways([_latest(edge, left) for edge in left[lines]]):
                others = self._left_with([*chain(*chosen.values()), *edges])
                if others is not None and lines not in others:
                    chosen[self._lines_between(edges[0])] = edges
                    left = others
                    break
            else:
                given_up.add(lines)
        for lines in [*chosen]:
            fewer = {name: edges for name, edges in chosen.items() if name != lines}
            others = self._left_with([*chain(*fewer.values())])
            if others is not None and others.keys() - given_up <= left.keys():
                chosen = fewer
        answer = self._ask([*chain(*chosen.values())])
        still = tuple(sorted(self._missing(answer.run.findings)))
        return Mended(self._unmarked(answer.run.program), tuple(chosen), -answer.gain_ns, still)

    def _ask(self, edges: Sequence[Edge]) -> Answer:
        return self._asker.compare(with_edges(self._asker.case, edges), "the fix")

    def _left_with(self, edges: Sequence[Edge]) -> Missing | None:
        """Return what is missing in the program with *edges*; None if it does not run."""
        try:
            return self._missing(self._ask(edges).run.findings)
        except EditError:
            return None

    def _missing(self, findings: Iterable[Finding]) -> Missing:
        """Return the edges that are missing, by the lines of the case, as *findings* of a run say."""
        missing: Missing = {}
        for finding in findings:
            if finding.kind in FIXED:
                one, other = (self._lines[_number(access.site)] for access in finding.accesses)
                missing.setdefault((one, other), []).append(self._edge(*finding.accesses))
        return missing

    def _to_rewrite(self, findings: Iterable[Finding]) -> dict[tuple[Kind, tuple[str, ...]], list[Finding]]:
        """Return those of *findings* that a rewrite can mend, by kind and by the lines of the case."""
        found: dict[tuple[Kind, tuple[str, ...]], list[Finding]] = {}
        for finding in findings:
            if finding.kind in REWRITTEN and all(site.startswith(STEP) for site in finding.sites):
                lines = tuple(self._lines[_number(site)] for site in finding.sites)
                found.setdefault((finding.kind, lines), []).append(finding)
        return found

    def _edge(self, first: Access, second: Access) -> Edge:
        before, behind = (self._places[_number(access.site)] for access in (first, second))
        before, behind = self._launched.outside(before, behind)
        return Edge(before, behind, self._stream(before, first), self._stream(behind, second))

    def _stream(self, place: int, access: Access) -> str | None:
        """Return the stream of an access that a step makes; synchronous copies and fills are in the default stream."""
        return self._asker.case.program.steps[place].fields.get("stream") or "legacy" if access.stream else None

    def _lines_between(self, edge: Edge) -> Lines:
        steps = self._asker.case.program.steps
        before, behind = (_number(steps[place].site) for place in (edge.before, edge.behind))
        return self._lines[before], self._lines[behind]

    def _unmarked(self, program: Program) -> Program:
        """Return *program* with the lines that its steps had."""
        steps = tuple(replace(step, site=self._sites[_number(step.site)]) for step in program.steps)
        return replace(program, steps=steps)


class _Moved(NamedTuple):
    """A record is in another stream by *move*; *fixer* is of the case with it, and it costs *cost_ns*."""

    move: Move
    fixer: Fixer
    cost_ns: int


def try_fixes(fixers: Sequence[Fixer], findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings*; those of kinds that can be mended have their trials, each by the first of *fixers* that has
    it.
    """
    tried, count = [], 0
    for finding in findings:
        if finding.kind is Kind.AFTER_DESTROY:
            tried.append(replace(finding, tried=Trial("not tried: a call that fails is not recorded")))
            continue
        if finding.kind not in (*FIXED, *REWRITTEN):
            tried.append(finding)
            continue
        fixer = next((fixer for fixer in fixers if fixer.has(finding)), None)
        if fixer is None:
            trial = Trial("not tried: a program of the calls of this run does not have these accesses")
        elif count == MOST_TRIED:
            trial = Trial(f"not tried: only the first {MOST_TRIED} are")
        else:
            count += 1
            trial = fixer.try_fix(finding)
        tried.append(replace(finding, tried=trial))
    return tried


def cost_text(cost_us: float) -> str:
    """Return what a fix costs, in words."""
    ns = round(cost_us * 1000)
    return f"it costs {us(ns)}" if ns > 0 else "it costs nothing" if not ns else f"the run is {us(-ns)} shorter"


def _others_text(lines: Iterable[Lines]) -> str:
    """Return what to say of findings that a fix has brought: the tasks of the program may take other turns with it."""
    others = ", ".join(f"{one} and {other}" for one, other in sorted(lines))
    return f"; with it, there is another one: {others}" if others else ""


def _ways(edges: Sequence[Edge]) -> Iterator[list[Edge]]:
    """Yield the ways to make *edges*: the host waits for a stream; if that is not possible, for an event in it."""
    yield [*edges]
    if any(edge.from_stream is not None and edge.to_stream is None for edge in edges):
        yield [edge._replace(by_event=True) for edge in edges]


def _latest(edge: Edge, left: Mapping[Lines, Sequence[Edge]]) -> Edge:
    """Return *edge* from the latest step at which one between the same streams begins, and that is before its end."""
    befores = [
        other.before
        for other in chain(*left.values())
        if (other.from_stream, other.to_stream) == (edge.from_stream, edge.to_stream) and other.before < edge.behind
    ]
    return edge._replace(before=max(befores, default=edge.before))


def _in_order_of_calls(case: Case, run: Replay) -> Case:
    """Return *case* with its steps in the order in which *run* made them: an edge goes forward then."""
    old = case.program.steps
    order = [call.step for call in sorted(run.host, key=lambda call: (call.enter_us, call.step))]
    places = {index: place for place, index in enumerate(order)}
    steps = tuple(
        replace(old[index], index=place, after=None if (after := old[index].after) is None else places[after])
        for place, index in enumerate(order)
    )
    return case.with_program(steps=steps)


def _lines_of(finding: Finding) -> Lines:
    first, second = finding.sites
    return first, second


def _words_of(finding: Finding) -> str:
    """Return the words of the script that *finding* is about, for `reword`; "" for a program of verbs."""
    if finding.fix.startswith(("acl.", "cuda")):
        return finding.fix
    return "" if finding.fix.startswith("record on ") else package_of(finding.accesses[0].file)


def _number(line: str) -> int:
    return int(line.removeprefix(STEP))
