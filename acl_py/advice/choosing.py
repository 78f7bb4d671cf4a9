"""The choice of advice: which waits of a program go together, and what all of it is worth.

Waits that order the same hide each other: each of them can go, but not all. So advice is chosen one after the other, by
price, the dearest first. What was chosen is left out when the next is judged, and the program of all that was chosen is
run again after each choice. A choice stays only if that run is not longer, and has no work without order.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from acl_py.advice.bounds import Bound, OnPath, awake_ns, peak_bytes
from acl_py.advice.exchanges import Exchanges
from acl_py.advice.lines import Doubtful, WaitLine, wait_lines, waits_of
from acl_py.advice.needs import Edit, Judge, Loss
from acl_py.advice.pairs import Pair
from acl_py.advice.parts import Part, part_of
from acl_py.advice.pieces import Advice, Form, SoFar, Tried, Verdict, Way, edit_of
from acl_py.advice.steps import Edited, Steps
from acl_py.explain.cases import EditError
from acl_py.explain.whatif import Answer, Asker, settled
from acl_py.schedules import Effects, having
from acl_py.trace.rows.timeline import Timeline

MOST_STEPS = 400_000  # of all programs that are run again: each run takes as long as a replay
FEWEST_TRIED, MOST_TRIED = 4, 400  # programs that are run again, whatever their steps


@dataclass(slots=True)
class Chosen:
    """All advice about a run, and the *verdicts* on the lines that stay; *together* is the answer of all advice.

    *peaks* says how many bytes of device memory were in use at once, without the advice and with it. If the run is
    long, single pieces were priced in the part that has the *first_ops*; all of them together have run as a whole.
    """

    advice: list[Advice]
    verdicts: list[Verdict]
    together: Answer | None
    peaks: tuple[int, int] = (0, 0)
    first_ops: int | None = None


class Chooser:
    """Chooses advice for the run in *timeline*, of which *asker* has the program.

    *barriers* and *has_legacy* are those of `Judge`.

    Raises:
        RacesError: accesses of the run are in no order.
    """

    def __init__(
        self, asker: Asker, timeline: Timeline, barriers: Collection[int] = (), *, has_legacy: bool = False
    ) -> None:
        self._asker = asker
        self._timeline = timeline
        with settled():
            self._judge = Judge(timeline, barriers, has_legacy=has_legacy)
            self._doubtful = Doubtful(timeline)
            self._whole = Choice(asker, timeline, timeline, self._judge, self._doubtful)

    def choose(self) -> Chosen:
        """Return the advice that can be followed together."""
        with settled():
            return self._choose()

    def _choose(self) -> Chosen:
        lines = [line.without_last(*self._doubtful.last) for line in wait_lines(self._timeline)]
        part = part_of(self._asker, self._timeline, lines)
        chosen = self._whole.choose(lines) if part is None else self._by_part(lines, part)
        after = [chosen.together.run.trace.timeline()] if chosen.together else []
        peaks = [peak_bytes(each) for each in (self._asker.before.trace.timeline(), *after)]
        return replace(chosen, peaks=(peaks[0], peaks[-1]))

    def _by_part(self, lines: Sequence[WaitLine], part: Part) -> Chosen:
        """Return the advice that is chosen in *part*, as far as it holds in the whole run; lines that wait only later
        are judged there.
        """
        own = {line.key: part.of(line, self._timeline) for line in lines}
        judge = self._judge.until(part.until_ns)
        choice = Choice(part.asker, self._timeline, part.asker.timeline, judge, self._doubtful)
        chosen = choice.choose([*own.values()])
        later = [line for line in lines if line.count and not own[line.key].count]
        by_key = {line.key: line for line in lines}
        wanted = [(each, by_key[each.way.line.key]) for each in chosen.advice]
        ways = self._whole.again(wanted, later)
        answer = self._whole.joint(ways)
        while ways and answer is None:
            ways = ways[:-1]
            answer = self._whole.joint(ways)
        advice = [] if answer is None else _scaled(chosen, ways, answer)
        kept = {each.way.line.key for each in advice}
        dropped = [Verdict(line) for each, line in wanted if line.key not in kept]
        verdicts = [replace(each, line=by_key[each.line.key]) for each in chosen.verdicts]
        return Chosen(advice, [*verdicts, *dropped], answer, first_ops=part.ops)


class Choice:
    """Chooses among the waits of a run, or of its first part: *asker* has the program of that, and *before* is how it
    ran. *timeline* is the whole run.
    """

    def __init__(self, asker: Asker, timeline: Timeline, before: Timeline, judge: Judge, doubtful: Doubtful) -> None:
        self._asker = asker
        self._timeline = timeline
        self._before = before
        self._judge = judge
        self._doubtful = doubtful
        self.steps = Steps(asker, timeline)
        self._tried = 0
        self._most_tried = max(FEWEST_TRIED, min(MOST_TRIED, MOST_STEPS // max(len(self.steps.steps), 1)))
        self._least_ns = asker.worked_ns // 100  # what a weaker wait is worth at least
        self.needless: set[tuple[str, str]] = set()  # the keys of lines that can go
        self.alone: dict[tuple[str, str], Tried] = {}  # by line: what makes the run shorter alone, and how much
        self._weaker_ways: dict[tuple[str, str], Way] = {}  # the last one of each other line, by its key
        self._known_beside: dict[tuple[str, str], tuple[Edit, Way | Verdict]] = {}  # by line, and what was chosen

    @cached_property
    def _bound(self) -> Bound:
        return Bound(self._judge.base, self._least_ns)

    def choose(self, lines: Sequence[WaitLine]) -> Chosen:
        """Return the advice about *lines* that can be followed together."""
        first = [self.way(line, Edit(), one=True) if line.count else Verdict(line) for line in lines]
        self.needless = {way.line.key for way in first if isinstance(way, Way)}
        so_far = self._together([each.line for each in first if isinstance(each, Way) or each.pair])
        advice, chosen = so_far.advice, so_far.keys
        left = [each for each in first if each.line.key not in chosen]
        verdicts = [self._verdict(each, so_far.edit) for each in left]
        self._hide([each for each in left if isinstance(each, Way)], advice)
        return Chosen(advice, verdicts, so_far.answer)

    def _verdict(self, alone: Way | Verdict, chosen: Edit) -> Verdict:
        """Return what is known of a line that stays beside what is *chosen*; *alone* is what is known without that.

        What goes makes no line needless, except for an event that nothing waits for then. What comes in its place can:
        a line that was needed may only be cheap now.
        """
        if isinstance(alone, Verdict) and (alone.pair is None or not (chosen.behind or alone.pair.event is not None)):
            return alone
        beside = self._beside(alone.line, chosen)
        if isinstance(beside, Way) or (isinstance(alone, Way) and beside.pair is None):
            return Verdict(alone.line)
        return beside

    def again(self, wanted: Iterable[tuple[Advice, WaitLine]], later: Iterable[WaitLine]) -> list[Way]:
        """Return the ways to do with whole lines what was chosen in a part, and to do without those of *later* that
        can go.
        """
        edit, ways = Edit(), []
        forms = [(each.way.form, line, any(one.reuse for one in each.way.edit.behind)) for each, line in wanted]
        way: Way | Verdict | None
        for form, line, reuses in (*forms, *((Form.REMOVE, line, False) for line in later)):
            way = self.way(line, edit, one=form is Form.REMOVE)
            if form is Form.REMOVE and isinstance(way, Verdict) and way.pair is not None:
                way = self._last_only(line, edit)  # the end of the run needs its last wait
            if isinstance(way, Way) and (way.form is form or form is Form.REMOVE):
                way = self._reusing(way, edit) if reuses else way
                edit += way.edit
                ways.append(way)
        return ways

    def joint(self, ways: Sequence[Way]) -> Answer | None:
        """Return the answer of all *ways* together; None if they leave work without order, make the run longer, or are
        none.
        """
        if not ways or self._judge.loss(edit_of(ways), one=True):
            return None
        return self.run(self.beside(ways[-1], edit_of(ways[:-1])), 0)

    # --- one line

    def way(self, line: WaitLine, chosen: Edit, *, one: bool = False) -> Way | Verdict:
        """Return what can be done with *line* behind what is *chosen*, or why it stays. If it cannot go, *one* reason
        may be enough.
        """
        doubt = self._doubtful.of(line)
        loss = self._loss(line, chosen, one=one)
        if not loss and doubt is None:
            return self._made(line, Form.LAST if line.last else Form.REMOVE, Edit((line,)), chosen)
        if doubt is not None:
            return Verdict(line, doubt=doubt) if not loss.known else Verdict(line, loss.known[0])
        if one and loss.known:
            return Verdict(line, loss.known[0])
        if (way := self._last_only(line, chosen)) is not None:
            return way
        if loss.known and not loss.doubtful and (way := self._weaker(line, loss, chosen)) is not None:
            return way
        if loss.known:
            return Verdict(line, loss.known[0])
        doubtful = (*loss.doubtful, *loss.at_barrier)[0]
        return Verdict(line, None if doubtful.doubt else doubtful, doubtful.doubt)

    def _loss(self, line: WaitLine, chosen: Edit, *, one: bool) -> Loss:
        """Return what the program loses without *line*, too."""
        told = self._doubtful.told(line, *waits_of((*chosen.lines, line)))
        return self._judge.loss(chosen + Edit((line,)), one=one, told=told)

    def _beside(self, line: WaitLine, chosen: Edit) -> Way | Verdict:
        """Return what `_way` says for one reason, and remember it until something else is chosen."""
        known, answer = self._known_beside.get(line.key, (None, None))
        if answer is None or known is not chosen:
            answer = self.way(line, chosen, one=True)
            self._known_beside[line.key] = chosen, answer
        return answer

    def _made(
        self, line: WaitLine, form: Form, edit: Edit, chosen: Edit, pairs: tuple[Pair, ...] = ()
    ) -> Way | Verdict:
        try:
            return Way(line, form, edit, self.steps.edited(chosen + edit), pairs)
        except EditError:
            return Verdict(line)

    def _last_only(self, line: WaitLine, chosen: Edit) -> Way | None:
        """Return the way to keep only the last wait of *line*; None if others of it are needed."""
        if not line.by_host or line.count < 2:
            return None
        last = ({line.calls[-1]}, ()) if line.calls else ((), {line.awaits[-1]})
        others = line.without_last(*last)
        edit = Edit((others,))
        if self._loss(others, chosen, one=True):
            return None
        way = self._made(others, Form.LAST, edit, chosen)
        return way if isinstance(way, Way) else None

    def _weaker(self, line: WaitLine, loss: Loss, chosen: Edit) -> Way | None:
        """Return the way to wait only for what *line* is needed for; None if a program cannot do so. Whether that is
        enough is for `_is_enough` to say.
        """
        edit = Edit((line,), tuple(self._judge.edges(loss.known)))
        way = self._made(line, Form.WEAKER, edit, chosen, loss.known)
        if isinstance(way, Verdict) or self.steps.changes_nothing(edit, way.edited.edges[len(chosen.behind) :]):
            return None
        return way

    # --- several lines

    def _together(self, lines: Sequence[WaitLine]) -> SoFar:
        """Return what is chosen of *lines*."""
        so_far = Exchanges(self).best(lines, self.greedy(lines, SoFar()))
        while so_far.advice and not self._is_in_order(self.steps.edited(so_far.edit)):
            advice = so_far.advice[:-1]
            edit = edit_of(each.way for each in advice)
            case = self.steps.edited(edit).case
            answer = self._asker.compare(case, "all of this", order_only=True) if advice else None
            so_far = SoFar(advice, edit, answer)
        return so_far

    def greedy(self, lines: Sequence[WaitLine], so_far: SoFar) -> SoFar:
        """Return what is chosen of *lines* beside what is chosen *so_far*.

        In each round the dearest is chosen, and the others are judged and tried again beside what is chosen. Then come
        those that cost no more than their calls.
        """
        tries = self._tries(lines, so_far)
        if not so_far.advice:
            self.alone = {tried[0].line.key: tried for tried in tries}
        goes_on = True
        while goes_on:
            while tries:
                way, _ = dearest = self._dearest(tries)
                answer = self.run(way, so_far.gain_ns + 1)
                if answer is None:
                    tries.remove(dearest)
                    continue
                so_far = so_far.with_(way, answer, self.alone_ns(way))
                tries = self._tries(lines, so_far)
            before, so_far = so_far, self._with_cheap(lines, so_far)
            goes_on = so_far is not before
            tries = self._tries(lines, so_far) if goes_on else []
        return so_far

    def alone_ns(self, way: Way) -> int | None:
        """Return how much shorter the run is with *way* alone; None if that is not known to be advice."""
        tried = self.alone.get(way.line.key)
        return None if tried is None or tried[0].form is not way.form else tried[1]

    def _tries(self, lines: Iterable[WaitLine], so_far: SoFar) -> list[Tried]:
        """Return what makes the run shorter beside what is chosen so far, with those of *lines* that are not."""
        path = OnPath(self._before if so_far.answer is None else so_far.answer.after)
        tries = []
        for line in lines:
            if line.key in so_far.keys or not self._can_gain(line, path):
                continue
            way = self.way(line, so_far.edit)
            if not isinstance(way, Way):
                continue
            self._weaker_ways.pop(line.key, None)
            if way.form is Form.WEAKER:
                self._weaker_ways[line.key] = way
            if self._can_gain(line, path) and self.is_enough(way, so_far.edit):
                tried = self._try(way, so_far)
                tries += [] if tried is None else [tried]
        return tries

    def _can_gain(self, line: WaitLine, path: OnPath) -> bool:
        """Whether a way to edit *line* can make the run with this *path* shorter: one that keeps all links of the path
        cannot. What its last weaker way kept, the line needs as well when others are chosen.
        """
        if line.site not in path.lines:
            return False
        if line.key in self.needless:
            return True
        way = self._weaker_ways.get(line.key)
        edges = None if way is None else [each[:2] for each in way.edit.behind]
        return self._bound.is_open(line, edges, path)

    def is_enough(self, way: Way, chosen: Edit) -> bool:
        """Whether *way*, which stands beside what is *chosen*, leaves all that must be in order so."""
        return way.form is not Form.WEAKER or not self._judge.loss(chosen + way.edit, one=True)

    def _try(self, way: Way, so_far: SoFar) -> Tried | None:
        """Return *way* with what its program takes, if it gains something.

        Events that the program has are used if these are as good.
        """
        own_ns = awake_ns(self._timeline, way.line.calls) if way.form is Form.REMOVE else self._least_ns
        least_ns = so_far.gain_ns + own_ns + 1
        gain_ns = self.gain_ns(way, least_ns)
        if gain_ns is None or way.form is not Form.WEAKER:
            return None if gain_ns is None else (way, gain_ns)
        simple = self._reusing(way, so_far.edit)
        own = simple.edited.edges[len(so_far.edit.behind) :]
        is_same = simple.edited.edges == way.edited.edges or self.steps.changes_nothing(simple.edit, own)
        other_ns = None if is_same else self.gain_ns(simple, max(least_ns, gain_ns - self._least_ns))
        return (way, gain_ns) if other_ns is None else (simple, other_ns)

    def _reusing(self, way: Way, chosen: Edit) -> Way:
        """Return *way* with events that the program has and records later."""
        edit = replace(way.edit, behind=tuple(each._replace(reuse=True) for each in way.edit.behind))
        return replace(way, edit=edit, edited=self.steps.edited(chosen + edit))

    def _with_cheap(self, lines: Iterable[WaitLine], so_far: SoFar) -> SoFar:
        """Return what was chosen with those of *lines*, too, that can go without making the run longer, the strongest
        first. They are tried together, and one by one if that fails. What stands in the place of waits that were chosen
        may do the work of others that were needed.
        """
        together, are_replaced = so_far, bool(so_far.edit.behind)
        left = (line for line in lines if (are_replaced or line.key in self.needless) and line.key not in so_far.keys)
        for line in sorted(left, key=lambda line: line.strength):
            way = self._beside(line, together.edit)
            if isinstance(way, Way) and way.form is Form.REMOVE:
                together = SoFar([*together.advice, Advice(way, None, 0)], together.edit + way.edit)
        cheap = [each.way for each in together.advice[len(so_far.advice) :]]
        if cheap and (all_ := self.with_all(cheap, so_far)) is not None:
            return all_
        for way in cheap if len(cheap) > 1 else ():
            one = self._beside(way.line, so_far.edit)
            answer = self.run(one, so_far.gain_ns) if isinstance(one, Way) and one.form is Form.REMOVE else None
            if isinstance(one, Way) and answer is not None:
                so_far = so_far.with_(one, answer, None)
        return so_far

    def with_all(self, ways: Sequence[Way], so_far: SoFar) -> SoFar | None:
        """Return what was chosen with all *ways*, which are tried together; None if that makes the run longer."""
        advice, edit = [], so_far.edit
        for way in ways:
            advice.append(Advice(self.beside(way, edit), None, 0))
            edit += way.edit
        answer = self.run(advice[-1].way, so_far.gain_ns)
        if answer is None:
            return None
        advice[0].added_ns, advice[0].below = answer.gain_ns - so_far.gain_ns, len(ways) - 1
        return SoFar([*so_far.advice, *advice], edit, answer)

    def beside(self, way: Way, chosen: Edit) -> Way:
        """Return *way* in the program with what is *chosen*."""
        return replace(way, edited=self.steps.edited(chosen + way.edit))

    def gain_ns(self, way: Way, least_ns: int) -> int | None:
        """Return how much shorter the run of *way* is; None if that is less than *least_ns*, or it does not run."""
        self._tried += 1
        if self._tried > self._most_tried:
            return None
        try:
            gain_ns = self._asker.gain_ns(way.edited.case)
        except EditError:
            return None
        return None if gain_ns < least_ns else gain_ns

    def run(self, way: Way, least_ns: int) -> Answer | None:
        """Return what the program of *way* takes, and who it leaves without order; None if it is no advice."""
        try:
            answer = self._asker.compare(way.edited.case, f"{way.form.value}: {way.line.site}", order_only=True)
        except EditError:
            return None
        return None if answer.conflicts or answer.gain_ns < least_ns else answer

    def _dearest(self, tries: Sequence[Tried]) -> Tried:
        """Return the strongest wait of those that are worth the most: small differences count for nothing."""
        most_ns = max(gain_ns for _, gain_ns in tries)
        dear = [each for each in tries if each[1] >= most_ns - self._least_ns]
        return min(dear, key=lambda each: (each[0].line.strength, -each[1]))

    def _is_in_order(self, edited: Edited) -> bool:
        """Whether the program is in order also if its operations have their effects in the weakest order."""
        with having(Effects.WEAK):
            return not self._asker.compare(edited.case, "all of this", order_only=True).conflicts

    def _hide(self, ways: Sequence[Way], advice: Sequence[Advice]) -> None:
        """Note under each piece of advice the lines that could go without it, and cannot go with it."""
        for way in ways:
            under = next((each for each in advice if self._judge.loss(each.way.edit + way.edit, one=True)), None)
            if under is not None:
                under.hidden.append(way.line)


def _scaled(chosen: Chosen, ways: Sequence[Way], answer: Answer) -> list[Advice]:
    """Return the advice to go *ways*: what they gain together, divided as in *chosen*, which is about a part."""
    pieces = {each.way.line.key: each for each in chosen.advice}
    own = [pieces.get(way.line.key) for way in ways]
    whole_ns = sum(each.added_ns for each in own if each is not None)
    factor = answer.gain_ns / whole_ns if whole_ns else 0.0
    advice = [
        Advice(way, None, 0)
        if each is None
        else replace(
            each,
            way=way,
            alone_ns=None if each.alone_ns is None else round(each.alone_ns * factor),
            added_ns=round(each.added_ns * factor),
        )
        for way, each in zip(ways, own, strict=True)
    ]
    advice[0].added_ns += answer.gain_ns - sum(each.added_ns for each in advice)
    return advice


def missing(timeline: Timeline) -> str:
    """Return what advice about the run in *timeline* needs and the recording does not have; "" if it has all."""
    several = len({(call.caller, call.by) for call in timeline.calls}) > 1
    if not timeline.host_watched or (several and not timeline.handovers_watched):
        return (
            "advice needs accesses of the host, and the sanitizer's part host was off: run or record the program with "
            "--sanitize"
        )
    return ""
