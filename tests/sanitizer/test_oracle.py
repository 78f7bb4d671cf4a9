"""The oracle itself: two judges that share no rule agree, and the tables of the documents hold."""

from functools import partial
from itertools import product

import pytest

from acl_py.programs.format import parse
from tests import campaigns
from tests.campaigns import many
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.promises import Promises, begin, end, enter, leave
from tests.sanitizer.oracle.reading import Run, read
from tests.sanitizer.oracle.schedules import Schedules, TooMany
from tests.sanitizer.oracle.table import Table
from tests.sanitizer.oracle.verdicts import Fault, pairs


def order(calls):
    """What the promises order: (kind, call, kind, call), each by its place."""
    promises = Promises(calls)
    moments = {"entry": (end, begin), "call": (leave, enter)}
    return {
        (kind, one.place, other_kind, other.place)
        for one, other in product(calls, calls)
        for kind, other_kind in product(moments, moments)
        if one is not other
        and (kind == "call" or one.entry is not None)
        and (other_kind == "call" or other.entry is not None)
        and promises.is_before(
            moments[kind][0](one if kind == "call" else one.entry),
            moments[other_kind][1](other if other_kind == "call" else other.entry),
        )
    }


def order_of_all(schedules, calls):
    """What all schedules order, in the same form."""
    sources = {
        ("entry", "entry"): schedules.ended_before,
        ("call", "entry"): schedules.left_before,
        ("entry", "call"): schedules.ended_at,
        ("call", "call"): schedules.left_at,
    }
    return {
        (kind, one.place, other_kind, place)
        for (kind, other_kind), masks in sources.items()
        for place, mask in masks.items()
        for one in calls
        if one.place != place and (kind == "call" or one.entry is not None) and mask >> one.place & 1
    }


def disagreements(seeds, most):
    """How many small programs have been compared, and those on which the two judges differ."""
    with campaigns.crew() as crew:
        compared = [each for each in crew.in_order(partial(disagreement, most=most), seeds) if each is not None]
    return len(compared), [each for each in compared if each]


def disagreement(seed, most):
    """On what the two judges of a program differ; () if they agree, None if it cannot be compared."""
    rules = programs.RULES[seed % 3]
    calls = read(parse(programs.program(seed, rules)), rules)
    try:
        schedules = Schedules(calls, most)
    except TooMany:
        return None
    if not schedules.can_end:
        return None
    difference = order(calls) ^ order_of_all(schedules, calls)
    return (seed, rules, sorted(difference)[:3]) if difference else ()


def test_reachability_is_what_all_schedules_have_in_common():
    compared, differ = disagreements(range(60), 600)
    assert differ == []
    assert compared > 10


@pytest.mark.slow
def test_reachability_is_what_all_schedules_of_more_programs_have_in_common():
    """1,200 agreed."""
    compared, differ = disagreements(range(1000, 1000 + many(400)), 3000)
    assert differ == []
    assert compared > many(160)


def calls_of(*steps, rules="cuda", events=("e",), run=None):
    document = {
        "id": "p",
        "buffers": {name: {"space": "device", "bytes": 64} for name in "xy"} | {"p": {"space": "pinned", "bytes": 64}},
        "streams": {"a": {}, "b": {}, "c": {}, "n": {"flags": "nonblocking"}},
        "events": {name: {} for name in events},
        "steps": list(steps),
    }
    return read(parse(document), rules, run)


def write(stream, name="x"):
    return {"op": "launch", "stream": stream, "us": 1, "writes": [[name, 0, 64]]}


def faults(*steps, **options):
    return [(pair.first, pair.second, pair.fault) for pair in pairs(calls_of(*steps, **options))]


STREAMS = ("legacy", "a", "per_thread", "n")
ORDERED = {("legacy", "a"), ("legacy", "per_thread"), ("a", "legacy"), ("per_thread", "legacy")}


@pytest.mark.parametrize(("one", "other"), list(product(STREAMS, STREAMS)))
def test_the_matrix_of_stream_kinds(one, other):
    is_ordered = one == other or (one, other) in ORDERED
    assert faults(write(one), write(other)) == ([] if is_ordered else [(0, 1, Fault.RACE)])


def test_a_wait_on_the_legacy_stream_is_a_barrier_once_its_event_is_recorded():
    """cudaEventRecord: "Before the first call to cudaEventRecord(), an event represents an empty set of work"."""
    record, wait = {"op": "record", "event": "e", "stream": "n"}, {"op": "wait", "event": "e", "stream": "legacy"}
    assert faults(write("a"), record, wait, write("b")) == []
    assert faults(write("a"), wait, write("b")) == [(0, 2, Fault.RACE)]
    assert faults(write("a"), wait, record, write("b")) == [(0, 3, Fault.RACE)]


def test_acl_orders_no_stream_with_its_default_one():
    assert faults(write("legacy"), write("a"), rules="acl") == [(0, 1, Fault.RACE)]
    assert faults(write("legacy"), write("legacy"), rules="acl") == []


def test_a_flag_that_an_older_set_may_have_satisfied_orders_nothing_behind_the_newer():
    record, wait = {"op": "record", "event": "f", "stream": "a"}, {"op": "wait", "event": "f", "stream": "b"}
    flag = {"op": "create_event", "event": "f", "kind": "flag"}
    one = faults(flag, write("a"), record, wait, write("b"), rules="acl")
    again = faults(flag, record, write("a"), record, wait, write("b"), rules="acl")
    cleared = faults(
        flag, record, wait, {"op": "reset", "event": "f", "stream": "b"}, {"op": "sync_stream", "stream": "b"},
        write("a"), record, wait, write("b"), rules="acl",
    )  # fmt: skip
    assert (one, again, cleared) == ([], [(2, 5, Fault.RACE)], [])


def test_each_notification_wakes_one_wait():
    record, wait = {"op": "record_notify", "notify": "n"}, {"op": "wait_notify", "notify": "n", "stream": "c"}
    program = [
        {"op": "create_notify", "notify": "n"}, write("a", "x"), record | {"stream": "a"},
        write("b", "y"), record | {"stream": "b"}, wait,
    ]  # fmt: skip
    touched = [write("c", "x"), write("c", "y")]
    assert faults(*program, *touched, rules="acl") == [(1, 6, Fault.RACE), (3, 7, Fault.RACE)]
    assert faults(*program, wait, *touched, rules="acl") == []


def test_a_query_orders_only_if_it_was_answered_complete():
    steps = [write("a"), {"op": "query_stream", "stream": "a"}, write("b")]
    assert faults(*steps, run=Run(range(3), complete={1})) == []
    assert faults(*steps, run=Run(range(3))) == [(0, 2, Fault.RACE)]


def test_pitched_copies_touch_rows():
    copy = {"op": "memcpy2d_async", "dst": "x", "src": "p", "dpitch": 8, "spitch": 8, "width": 4, "height": 8}
    even, odd = copy | {"stream": "a"}, copy | {"stream": "b", "dst_off": 4}
    assert faults(even, odd) == []
    assert faults(even, odd | {"dst_off": 3}) == [(0, 1, Fault.RACE)]


def test_memory_of_a_pool_is_used_between_its_allocation_and_its_free():
    allocate = {"op": "malloc_async", "name": "m", "bytes": 64, "stream": "a"}
    free = {"op": "free_async", "name": "m", "stream": "a"}
    assert faults(allocate, write("a", "m"), free) == []
    assert faults(allocate, write("b", "m"), free) == [(0, 1, Fault.BEFORE_ALLOCATION), (1, 2, Fault.FREE_IN_USE)]


def test_a_free_that_waits_by_habit_is_told_apart():
    free = {"op": "free", "name": "x"}
    found = {rules: pairs(calls_of(write("a"), free, rules=rules)) for rules in ("cuda", "acl")}
    assert {rules: [(pair.fault, pair.relies) for pair in of] for rules, of in found.items()} == {
        "cuda": [(Fault.FREE_IN_USE, True)],
        "acl": [(Fault.FREE_IN_USE, False)],
    }


@pytest.mark.slow
def test_simpler_detectors_get_random_programs_wrong():
    table = Table()
    for seed in range(60):
        table.add(seed)
    pointers, last_writer, _ = table.scores.values()
    assert 20 < table.faulty < 55
    assert pointers.misses
    assert pointers.false
    assert (last_writer.misses > 0, last_writer.false) == (True, 0)
