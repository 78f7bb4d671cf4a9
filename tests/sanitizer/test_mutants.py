"""The relation with one rule switched off: a named case or a random program notices each."""

import inspect
import sys
import textwrap

import pytest

from acl_py.sanitizer.hosts import Hosts
from acl_py.sanitizer.order import Order
from acl_py.sanitizer.races import Races
from acl_py.sanitizer.signals import Signals
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
WOKEN = """
    else:
        self._order.learn(host, points)
"""
# What is switched off: the class, the lines with the rule, and what stands there without it.
MUTANTS = {
    "legacy work is behind blocking streams": (Order, BEHIND_BLOCKING, "pass"),
    "blocking streams are behind legacy work": (Order, "line.join(rule.barrier)", "pass"),
    "non-blocking streams take no part": (Order, "(stream.order is None and stream is not context.legacy)", "False"),
    "legacy operations are a barrier": (Order, "line.count += 1" + BARRIER, "line.count += 1"),
    "legacy waits are a barrier": (Order, "line.join(points)" + BARRIER, "line.join(points)"),
    "a record has its turn": (Order, "self.turn(stream, host).point()", "self.line(stream).point()"),
    "a wait is behind the record": (Order, "line.join(points)", "pass"),
    "a host that waits for the legacy stream waits for blocking ones": (Order, COVERED, "yield from ()"),
    "a device synchronisation covers one device": (Order, "stream.context.device is device and ", ""),
    "under ACL it covers one context": (Order, "stream.context is context and not", "not"),
    "work of a destroyed stream is waited for": (Order, "if home.device is device:", "if False:"),
    "a host that has waited knows": (Order, "if joined is host.clock:", "if True:"),
    "an operation is behind what its task knows": (Order, KNOWN, "pass"),
    "a call that happens to wait promises nothing": (Races, "if wait.promised else self._order.suspect", ""),
    "memory of a pool has a first turn": (Races, BORN, "if False:"),
    "memory of a pool has a last turn": (Races, "if not self._pairs.is_plainly_known(use, end):", "if False:"),
    "a host function has its place in the stream": (Races, "if stamp is not None:", "if False:"),
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
    "a task that wakes another one hands on what it knows": (Hosts, WOKEN, "else: pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_switched_off_is_noticed(name, monkeypatch):
    class_, rule, instead = MUTANTS[name]
    _switch_off(class_, rule, instead, monkeypatch)
    assert _notices()


def test_nothing_is_noticed_without_a_change():
    assert not _notices(60)


def _notices(programs=150):
    """Whether a case or one of the first random *programs* has other findings than the documents say."""
    for case in CASES:
        if run(case.program, case.rules).triples != {*case.pairs}:
            return case.name
    return next((seed for seed in range(programs) if compare_random(seed)), None)


def _switch_off(class_, rule, instead, monkeypatch):
    """Replace *class_*, wherever it has been imported, by one that has *instead* where it has *rule*."""
    module = sys.modules[class_.__module__]
    text = inspect.getsource(class_)
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line.strip() for line in rule.strip().splitlines()]
    names = dict(vars(module))
    exec(_replaced(text, lines, wanted, instead), names)
    for user in [each for name, each in sys.modules.items() if name.startswith("acl_py.sanitizer.")]:
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
