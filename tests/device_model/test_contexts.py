"""Contexts and devices: their streams, how they end, and which work is unfinished."""

import pytest
from rig import Rig, tiny

from device_model.errors import Kind
from device_model.profile import load


def test_a_device_comes_with_a_primary_context_that_has_default_streams(rig):
    assert rig.device.contexts == [rig.device.primary]
    assert repr(rig.context) == "<primary context of device 0>"
    assert [stream.name for stream in rig.context.everything()] == ["legacy", "per_thread"]
    assert (rig.context.idle, rig.device.work().done, rig.device.unfinished()) == (True, True, [])
    assert repr(rig.device) == "<Device 0 tiny>"


def test_contexts_of_a_device_share_its_engines_and_count_their_streams_together(rig):
    other = rig.device.create_context("a.py:1")
    one, two = rig.stream(), rig.stream(context=other)
    assert (one.id, two.id, other.legacy.name) == (1, 2, "legacy of context 1")
    rig.h2d(one, 100)
    rig.h2d(two, 100)
    assert rig.run() == [("h2d", 1, 0, 100), ("h2d", 2, 100, 200)]


def test_work_is_everything_queued_on_the_device(rig):
    other = rig.device.create_context(None)
    waiting = rig.stream()
    rig.kernel(rig.stream(), 100)
    waiting.wait(rig.kernel(rig.stream(context=other), 300))
    rig.host_function(rig.legacy, 10)
    everything, here = rig.device.work(), rig.context.work()
    rig.kernel(other.per_thread, 1000)
    assert rig.run()[-1][2:] == (0, 1000)
    assert (everything.end_ns, here.end_ns) == (310, 310)
    assert rig.device.work().done


def test_devices_run_side_by_side_in_one_time():
    one = Rig()
    two = Rig(beside=one)
    one.h2d(one.stream(), 100)
    two.h2d(two.stream(), 50)
    assert (len(one.device.unfinished()), len(two.device.unfinished())) == (1, 1)
    assert one.run() == [("h2d", 1, 0, 50), ("h2d", 1, 0, 100)]
    assert (one.device.work().done, two.device.work().done) == (True, True)


# --- destroyed streams


def test_the_work_of_a_destroyed_stream_completes_and_is_waited_for(rig):
    stream = rig.stream()
    rig.kernel(stream, 100)
    rig.d2h(stream, 50)
    rig.context.destroy_stream(stream, "a.py:1")
    work = rig.device.work()
    assert (work.done, rig.context.idle, stream.home) == (False, False, None)
    assert rig.run() == [("kernel", 1, 0, 100), ("d2h", 1, 100, 150)]
    assert (work.end_ns, rig.context.idle) == (150, True)


def test_a_stream_that_only_waits_when_it_is_destroyed_is_waited_for(rig):
    stream = rig.stream(nonblocking=True)
    stream.wait(rig.kernel(rig.stream(), 100))
    rig.context.destroy_stream(stream, "a.py:1")
    assert stream in rig.context.everything()
    rig.run()
    assert stream not in rig.context.everything()


# --- destroyed contexts


def test_a_destroyed_context_finishes_its_work_and_takes_no_more(rig):
    context = rig.device.create_context("a.py:1")
    stream, notes = rig.stream(context=context), []
    rig.kernel(stream, 100, body=lambda: notes.append("ran"))
    rig.kernel(context.legacy, 100, body=lambda: notes.append("ran"))
    context.destroy("a.py:2")
    assert repr(context) == "<context 1 of device 0 destroyed at a.py:2>"
    assert stream.destroyed == "a.py:2"
    assert context.error.kind is Kind.INVALID_CONTEXT
    assert not rig.device.work().done
    rig.run()
    assert (notes, rig.device.work().end_ns) == (["ran", "ran"], 200)


def test_contexts_that_come_and_go_leave_nothing_behind(rig):
    for _ in range(100):
        context = rig.device.create_context(None)
        rig.kernel(context.legacy, 10)
        context.destroy("here")
    assert len(rig.device.contexts) == 101  # all have work
    rig.run()
    last = rig.device.create_context(None)
    assert rig.device.contexts == [rig.device.primary, last]


def test_a_context_is_on_alert_only_while_calls_have_something_to_ask(rig):
    seen = []
    rig.host_function(rig.stream(), 10, lambda: seen.append(rig.context.alert))
    rig.run()
    rig.device.check_calls(on=True)
    seen.append(rig.context.alert)
    rig.device.check_calls(on=False)
    assert seen == [True, True]
    assert not rig.context.alert


def test_a_failure_loses_one_context_and_not_the_other(rig):
    other, notes = rig.device.create_context(None), []

    def fail():
        raise ValueError("no")

    bad = rig.kernel(rig.stream(), 100, body=fail)
    rig.run()
    for context in (rig.context, other):
        rig.kernel(rig.stream(context=context), 10, body=lambda context=context: notes.append(context))
    rig.run()
    assert (notes, other.error, rig.context.failed_op) == ([other], None, bad)
    assert repr(rig.context) == "<primary context of device 0 failed>"


# --- reset


def test_a_reset_leaves_a_fresh_primary_context_and_no_memory(rig):
    buffer = rig.memory.malloc(0, 1000, "a.py:1")
    elsewhere = rig.memory.malloc(1, 1000, "a.py:1")
    old, other = rig.context, rig.device.create_context(None)
    rig.device.reset("a.py:2")
    assert rig.device.contexts == [rig.device.primary]
    assert rig.device.primary not in (old, other)
    for context in (old, other):
        assert context.error.kind is Kind.INVALID_CONTEXT
        assert "was reset at a.py:2" in str(context.error)
    assert (buffer.allocation.freed, elsewhere.allocation.freed) == ("a.py:2", None)
    assert rig.memory.free_bytes(0) == rig.memory.total_bytes(0)


def test_queued_or_running_work_has_no_effect_after_a_reset(rig):
    notes, stream, other = [], rig.stream(), rig.device.create_context(None)
    memory = rig.on_device(100)
    rig.kernel(stream, 100, body=lambda: notes.append("running"))
    rig.kernel(stream, 100, body=lambda: notes.append("queued"))
    rig.h2d(rig.stream(), 1000, dst=memory)
    rig.kernel(rig.stream(context=other), 100, body=lambda: notes.append("of a context destroyed before"))
    other.destroy("a.py:1")
    rig.advance(50)
    rig.device.reset("a.py:2")
    rig.kernel(rig.device.primary.create_stream(nonblocking=False, priority=0, made=None), 10,
               body=lambda: notes.append("new"))  # fmt: skip
    assert rig.device.work().waiters is None  # waits for new work only
    rig.run()
    assert (notes, rig.history.failures) == (["new"], [])


def test_a_reset_mends_a_device_that_failed(rig):
    rig.kernel(rig.stream(), 10, body=lambda: 1 / 0)
    rig.run()
    rig.device.reset("a.py:1")
    assert (rig.device.primary.error, rig.context.failed_op) == (None, None)


# --- what is unfinished


def test_unfinished_lists_the_operations_wherever_they_are(rig):
    ops = {}

    def step(name, op):
        ops[name] = op
        rig.advance(rig.now + 1)

    one, two, three, four = (rig.stream() for _ in range(4))
    step("placed", rig.kernel(one, 500, blocks=6, exclusive=True))
    step("listed", rig.kernel(two, 100))
    step("queued", rig.kernel(two, 100))
    step("copying", rig.h2d(three, 400))
    step("waiting", rig.d2h(two, 100))
    step("calling", rig.host_function(four, 300))
    step("ready", rig.host_function(rig.stream(), 300))
    step("behind", rig.host_function(four, 300))
    assert rig.device.unfinished() == list(ops.values())
    rig.context.destroy_stream(four, "here")
    assert rig.device.unfinished() == list(ops.values())
    rig.advance(405)
    assert rig.device.unfinished() == [ops[name] for name in ops if name not in ("copying", "calling")]
    rig.run()
    assert rig.device.unfinished() == []


def test_a_copy_outside_all_streams_is_unfinished_while_its_engine_is_busy(rig):
    running = rig.h2d(rig.stream(), 400)
    rig.advance(1)
    outside = rig.h2d(rig.context.outside, 100)
    assert rig.device.unfinished() == [running, outside]
    rig.run()
    assert rig.device.unfinished() == []


def test_a_kernel_is_unfinished_until_its_last_exclusive_block_has_ended(rig):
    placed = rig.kernel(rig.stream(), 500, blocks=2, exclusive=True)
    rig.advance(1)
    waves = rig.kernel(rig.stream(), 200, blocks=6, exclusive=True)
    rig.advance(100)
    assert rig.device.unfinished() == [placed, waves]
    rig.advance(450)  # the last of the second's three waves
    assert rig.device.unfinished() == [placed, waves]
    rig.advance(500)
    assert rig.device.unfinished() == [waves]
    rig.run()
    assert rig.device.unfinished() == []


def test_unfinished_is_in_the_order_of_queuing(rig):
    ops = []
    for index in range(12):
        ops.append((rig.h2d, rig.d2h, rig.d2d)[index % 3](rig.stream(), 100))
        rig.advance(rig.now + 1)
    assert rig.device.unfinished() == ops


@pytest.mark.parametrize("name", ["h200", "tiny"])
def test_every_shipped_profile_makes_a_device(name):
    rig = Rig(load(name))
    stream = rig.stream()
    rig.h2d(stream, 4096)
    rig.kernel(stream, 1000)
    rig.d2h(stream, 4096)
    assert [row[0] for row in rig.run()] == ["h2d", "kernel", "d2h"]


def test_an_operation_is_named_in_a_traceback():
    rig = Rig(tiny())
    op = rig.kernel(rig.stream(), 1, name="scale")
    assert repr(op) == "<scale on stream 1>"
    op.site = "a.py:7"
    assert repr(op) == "<scale on stream 1 submitted at a.py:7>"
    assert repr(rig.device.cores) == "<Dispatcher open_cores=4 resident=1 listed=0>"
    rig.h2d(rig.stream(), 1)
    assert repr(rig.device.h2d) == "<CopyEngine H2D running=<h2d on stream 2>>"
    rig.host_function(rig.stream(), 1)
    assert repr(rig.device.host_thread) == "<HostThread running=<<lambda> on stream 3> ready=0>"
