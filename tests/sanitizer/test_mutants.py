"""The relation with one rule switched off: a named case or a random program notices each."""

import inspect
import sys
import textwrap

import pytest

from acl_py.order.order import Order
from acl_py.order.relate import Relate
from acl_py.order.signals import Signals
from acl_py.sanitizer.accesses import Accesses
from acl_py.sanitizer.hosts import Hosts
from acl_py.sanitizer.races import Races
from tests.sanitizer import test_order
from tests.sanitizer.cases import CASES
from tests.sanitizer.oracle.comparing import compare_random
from tests.sanitizer.oracle.running import run

BARRIER = """
    rule = line.rule
    if rule is not None and rule.legacy is stream:
        rule.barrier = (line.point(),)
"""
COVERED = """
        yield from rule.barrier
        for other in rule.lines:
            yield other.point()
"""
BEHIND_BLOCKING = "line.join([*rule.barrier, *(each.point() for each in rule.lines)])"
BORN = "if not self._pairs.is_plainly_known(shadow.birth, use):"
KNOWN = """
            line.hosts[host.number] = host.version
            line.join((host.point(),))
"""
PASSED = "passed = [other for other in signal.waits if other is not wait and over.get(other.number, 0) >= other.epoch]"
# What is switched off: the class, the lines with the rule, and what stands there without it.
# Rules of relate.py, which recordings read, too: the lines with the rule. Nothing stands there without it.
RELATES = {
    "a record of a flag sets it": "self._set(event, 1, stream, host, access)",
    "a record stands for what the stream was given": "event.stamp = self.order.record(stream, host)",
    "a wait for an event is behind its record": "self.order.wait(stream, host, (event.stamp,))",
    "a wait for a flag is behind its set": (
        "self.signals.wait(event, self.order.make_ready_for_signal(stream, host), access=_of(access, stream))"
    ),
    "a wait for a notify is behind its record": "self.signals.wait(signal, line, is_consumed=True, access=access)",
    "a wait for a word is behind its write": (
        "self.signals.wait(self._key_of(signal), line, partial(satisfies, Compare(compare), value))"
    ),
    "a reset clears a flag": (
        "self.signals.clear(signal, self._epoch(stream, host), host.past.clock, _of(access, stream))"
    ),
    "memory begins and ends in its stream": "return None if stream is None else self.order.queue(stream, host)",
}
OF_WORDS = "a wait for a word is behind its write"  # which no case and no early random program has
MUTANTS = {
    **{name: (Relate, rule, "pass") for name, rule in RELATES.items() if name != OF_WORDS},
    "legacy work is behind blocking streams": (Order, BEHIND_BLOCKING, "pass"),
    "blocking streams are behind legacy work": (Order, "line.join(rule.barrier)", "pass"),
    "non-blocking streams take no part": (Order, "not (stream.is_blocking or stream is context.legacy)", "False"),
    "legacy operations are a barrier": (Order, "line.count += 1" + BARRIER, "line.count += 1"),
    "legacy waits are a barrier": (Order, "line.join(points)" + BARRIER, "line.join(points)"),
    "a record has its turn": (Order, "self.make_ready(stream, host).point()", "self.line(stream).point()"),
    "a wait is behind the record": (Order, "line.join(points)", "pass"),
    "a host that waits for the legacy stream waits for blocking ones": (Order, COVERED, "yield from ()"),
    "a device synchronisation covers one device": (Order, "each.device is device", "True"),
    "under ACL it covers one context": (Order, "each is context", "True"),
    "work of a destroyed stream is waited for": (Order, "if covers(context):", "if False:"),
    "a host that has waited knows": (Order, "if joined is known:", "if True:"),
    "an operation is behind what its task knows": (Order, KNOWN, "pass"),
    "a call that happens to wait promises nothing": (Races, "if wait.promised else self._order.learn_unpromised", ""),
    "memory of a pool has a first turn": (Accesses, BORN, "if False:"),
    "memory of a pool has a last turn": (Accesses, "if not self._pairs.is_plainly_known(use, end):", "if False:"),
    "a host function has its place in the stream": (Races, "if calling is not None:", "if False:"),
    "a wait is behind what all sets have in common": (Signals, "self._pasts(enough), 0", "self._pasts(enough[-1:]), 0"),
    "a wait is behind a set": (Signals, "past = _common(self._pasts(enough), 0)", "past = {}"),
    "a notification wakes one wait": (Signals, PASSED, "passed = []"),
    "a reset clears": (Signals, "*(clear.point for clear in signal.clears),", ""),
    "a reset clears what is behind it in no case": (Signals, " and self._is_behind(clear, point)", ""),
    "a later set may be the one": (Signals, "self.solve()", "pass"),
    "a set behind the wait is not the one": (
        Signals,
        "for each in signal.sets if not self._is_after(each, wait)",
        "for each in signal.sets",
    ),
    "each task is a host": (Hosts, "self._tasks.get(caller) or self._task(caller, None)", "self._main"),
    "a task that wakes another one hands on what it knows": (Hosts, "return (self._of(self.current()),)", "return ()"),
}

RESET = "NPU02 reset behind the wait, and the host waits before the next round"
# Who notices it first: a case, or a random program. It is asked before all others.
NOTICED_BY = {
    "legacy work is behind blocking streams": "DS05 per-thread, then legacy",
    "blocking streams are behind legacy work": "DS06 a legacy kernel between two streams blocking",
    "non-blocking streams take no part": "DS01 n1 and legacy",
    "legacy operations are a barrier": "DS08 legacy, then a stream that is synchronised blocking",
    "legacy waits are a barrier": "EV09 wait of the legacy stream: blocking",
    "a record has its turn": "TK03 a record on the legacy stream hands it on to blocking streams",
    "a wait is behind the record": "CS04 simple_sync",
    "a host that waits for the legacy stream waits for blocking ones": "DS01 s1 and legacy",
    "a device synchronisation covers one device": "EV10 a device sync covers one device",
    "under ACL it covers one context": 53,
    "work of a destroyed stream is waited for": "DS04 a stream that was destroyed is waited for too",
    "a host that has waited knows": "CS16 device_synchronize",
    "an operation is behind what its task knows": "TK03 a stream that both tasks use hands on what one of them did",
    "a call that happens to wait promises nothing": "DS13 a copy to pageable memory promises nothing",
    "memory begins and ends in its stream": "MP01 the same stream",
    "memory of a pool has a first turn": "MP01 used by a stream that knows nothing of the allocation",
    "memory of a pool has a last turn": "MP06 freed on another stream without an event",
    "a host function has its place in the stream": 4,
    "a wait is behind what all sets have in common": "NPU02 a flag that was not reset lets the next round pass",
    "a wait is behind a set": RESET,
    "a notification wakes one wait": "NPU02 a notify in place of the flag: each round waits for its own",
    "a reset clears": RESET,
    "a reset clears what is behind it in no case": RESET,
    "a later set may be the one": "NPU02 another stream sets the flag too, so the wait may end early",
    "a set behind the wait is not the one": "NPU02 a wait is not ended by the set behind it",
    "each task is a host": "TK02 without a wait",
    "a task that wakes another one hands on what it knows": "TK01 a task waits for another one that has synchronised",
}
NAMED = {case.name: case for case in CASES}
EVERYBODY = [*NAMED, *range(150)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_switched_off_is_noticed(name, monkeypatch):
    class_, rule, instead = MUTANTS[name]
    switch_off(class_, rule, instead, monkeypatch)
    assert _notices(sorted(EVERYBODY, key=lambda witness: witness != NOTICED_BY.get(name)))


def test_without_the_rule_of_words_what_waits_for_one_is_a_race(monkeypatch):
    switch_off(Relate, RELATES[OF_WORDS], "pass", monkeypatch)
    with pytest.raises(AssertionError):
        test_order.test_a_wait_for_a_signal_is_behind_the_set_also_if_it_is_queued_first(test_order.by_a_word, False)


def test_nothing_is_noticed_without_a_change():
    assert not _notices([*NOTICED_BY.values(), *range(30)])


def _notices(witnesses):
    """Whether a case or a random program among *witnesses* has other findings than the documents say."""
    return any(_differs(each) for each in witnesses)


def _differs(witness):
    if isinstance(witness, int):
        return compare_random(witness)
    case = NAMED[witness]
    return run(case.program, case.rules).triples != {*case.pairs}


def switch_off(class_, rule, instead, monkeypatch, room="acl_py.sanitizer."):
    """Replace *class_*, wherever the *room* has imported it, by one that has *instead* where it has *rule*."""
    module = sys.modules[class_.__module__]
    text = inspect.getsource(class_)
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line.strip() for line in rule.strip().splitlines()]
    names = dict(vars(module))
    exec(_replaced(text, lines, wanted, instead), names)
    for user in [each for name, each in sys.modules.items() if name.startswith(room)]:
        if vars(user).get(class_.__name__) is class_:
            monkeypatch.setattr(user, class_.__name__, names[class_.__name__])


def _replaced(text, lines, wanted, instead):
    """*text* with *instead* for the one place that has the lines *wanted*; the first of these may be part of a line."""
    places = [
        place
        for place in range(len(lines))
        if wanted[0] in lines[place] and lines[place + 1 : place + len(wanted)] == wanted[1:]
    ]
    assert len(places) == 1, f"the rule {wanted[0]!r} must stand in one place, not in {len(places)}"
    old = text.splitlines()
    place = places[0]
    new = old[place].replace(wanted[0], instead)
    return textwrap.dedent("\n".join([*old[:place], new, *old[place + len(wanted) :]]))
