"""Why an operation did not start earlier: each reason, in the smallest program that has it."""

import gc

import pytest
from rig import Rig, tiny

from acl_py.trace import Trace
from device_model.completions import Why
from device_model.faults import Faults, Rule, Verdict
from device_model.ops import Op
from device_model.work import Kernel, Label, Lane


class Reasons(Trace):
    """The operations by name: when each started, why not earlier, and what it had waited for."""

    @property
    def rows(self):
        ops = self.ops
        return {op.name: (op.start_ns, op.why, None if op.after is None else ops[op.after].name) for op in ops}


def watch(rig):
    reasons = Reasons()
    rig.hooks.add(reasons)
    return reasons


@pytest.fixture
def rig():
    return Rig()


@pytest.fixture
def reasons(rig):
    return watch(rig)


def test_the_host_was_late(rig, reasons):
    rig.kernel(rig.stream(), 100, name="late")
    rig.run()
    assert reasons.rows == {"late": (0, Why.HOST, None)}


def test_a_host_that_comes_after_the_end_of_the_work_ahead_is_what_was_late(rig, reasons):
    stream = rig.stream()
    rig.kernel(stream, 100, name="ahead")
    rig.h2d(stream, 10, at=500)
    rig.run()
    assert reasons.rows == {"ahead": (0, Why.HOST, None), "h2d": (500, Why.HOST, None)}


def test_stream_order(rig, reasons):
    stream = rig.stream()
    rig.kernel(stream, 100, name="first")
    rig.kernel(stream, 100, name="second")
    rig.run()
    assert reasons.rows["second"] == (100, Why.ORDER, "first")


def test_an_event_of_another_stream(rig, reasons):
    one, two = rig.stream(), rig.stream()
    event = rig.event()
    rig.kernel(one, 100, name="recorded")
    rig.kernel(two, 50, name="ahead")
    event.record(one)
    event.hold_back(two, None, 0)
    rig.kernel(two, 100, name="waits")
    rig.run()
    assert reasons.rows["waits"] == (100, Why.EVENT, "recorded")


def test_of_an_event_and_the_work_ahead_the_later_counts(rig, reasons):
    one, two = rig.stream(), rig.stream()
    event = rig.event()
    rig.kernel(one, 100, name="recorded")
    event.record(one)
    rig.kernel(two, 150, name="ahead")
    event.hold_back(two, None, 0)
    rig.kernel(two, 100, name="waits")
    rig.run()
    assert reasons.rows["waits"] == (150, Why.ORDER, "ahead")


def test_a_stream_that_was_synchronised_with_still_knows_that_it_waited_for_an_event(rig, reasons):
    one, two = rig.stream(), rig.stream()
    event = rig.event()
    rig.kernel(one, 100, name="recorded")
    event.record(one)
    event.hold_back(two, None, 0)
    two.backlog()  # as a host asks for it
    rig.kernel(two, 100, name="waits")
    rig.run()
    assert reasons.rows["waits"] == (100, Why.EVENT, "recorded")


def test_the_default_stream_rule_in_both_directions(rig, reasons):
    blocking = rig.stream()
    rig.kernel(blocking, 100, name="before")
    rig.kernel(rig.legacy, 100, name="legacy")
    rig.kernel(blocking, 100, name="after")
    rig.run()
    assert reasons.rows["legacy"] == (100, Why.LEGACY, "before")
    assert reasons.rows["after"] == (200, Why.LEGACY, "legacy")


def test_a_copy_engine_that_was_busy(rig, reasons):
    rig.h2d(rig.stream(), 100)
    rig.h2d(rig.stream(), 10)
    rig.run()
    assert [(op.start_ns, op.why, op.after) for op in reasons.ops] == [(0, Why.HOST, None), (100, Why.ENGINE, 0)]


def test_the_pause_between_two_copies():
    rig = Rig(tiny(latency={"copy_gap": 20}))
    reasons = watch(rig)
    rig.h2d(rig.stream(), 100)
    rig.h2d(rig.stream(), 10, at=110)
    rig.run()
    assert reasons.rows["h2d"] == (120, Why.GAP, "h2d")


def test_full_cores(rig, reasons):
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True, name="all")
    rig.kernel(rig.stream(), 100, blocks=1, exclusive=True, name="one")
    rig.run()
    assert reasons.rows["one"] == (100, Why.CORES, "all")


def test_a_copy_inside_the_device_has_the_cores_to_itself(rig, reasons):
    rig.d2d(rig.stream(), 100)
    rig.kernel(rig.stream(), 10, name="kernel")
    rig.run()
    assert reasons.rows["kernel"] == (100, Why.CORES, "d2d")


@pytest.mark.parametrize("submit", [Rig.h2d, Rig.d2h])
def test_a_shared_queue_of_copies_whose_head_waits(submit):
    rig = Rig(tiny(queues={"copy": 1}))
    reasons = watch(rig)
    waits, ready = rig.stream(), rig.stream()
    rig.kernel(waits, 100)
    submit(rig, waits, 30)
    submit(rig, ready, 10)
    rig.run()
    assert [(op.bytes, op.start_ns, op.why, op.after) for op in reasons.ops] == [
        (0, 0, Why.HOST, None),
        (30, 100, Why.ORDER, 0),
        (10, 130, Why.QUEUE, 1),
    ]


def test_a_shared_queue_of_kernels_whose_head_waits():
    rig = Rig(tiny(queues={"compute": 1}))
    reasons = watch(rig)
    waits, ready = rig.stream(), rig.stream()
    rig.h2d(waits, 100)
    rig.kernel(waits, 50, name="head")
    rig.kernel(ready, 10, name="ready")
    rig.run()
    assert reasons.rows["head"] == (100, Why.ORDER, "h2d")
    assert reasons.rows["ready"] == (100, Why.QUEUE, "head")


def test_a_head_that_is_dropped_lets_the_next_one_start():
    rig = Rig(tiny(queues={"compute": 1}))
    reasons = watch(rig)
    waits, ready = rig.stream(), rig.stream()
    rig.h2d(waits, 100)
    rig.kernel(waits, 50, name="head")
    rig.kernel(ready, 10, name="ready")
    rig.advance(40)
    rig.device.abort(waits, None)
    rig.run()
    assert reasons.rows["ready"] == (40, Why.QUEUE, None)  # the head has no row: it never started


def test_a_fault_rule_that_delays(rig, reasons):
    faults = Faults(rig.scheduler, rig.hooks)
    faults.rules.append(Rule(Verdict.DELAY, "delay", None, op="kernel", delay_ns=70))
    work = Kernel(Label("kernel", Lane.COMPUTE, "late"), 1, 10, lambda: None, (), (), 0, exclusive=False, serial=False)
    late = Op(work, Lane.COMPUTE, 0, None)
    other = rig.stream()
    other.enqueue(late, rig.now + faults.strike(late, other, rig.now))
    rig.run()
    assert reasons.rows["late"] == (70, Why.FAULT, None)


def test_nothing_keeps_the_history_of_a_stream():
    """An operation that kept what it waited for would keep all that ran before it."""
    assert kept(rounds=50) == kept(rounds=5)


def kept(rounds):
    rig = Rig()
    streams = rig.stream(), rig.stream()
    event = rig.event()
    for _ in range(rounds):
        for one, two in (streams, reversed(streams)):
            rig.kernel(one, 10)
            event.record(one)
            event.hold_back(two, None, 0)
            two.backlog()
    rig.run()
    gc.collect()
    return sum(isinstance(each, Op) and each.stream in streams for each in gc.get_objects())
