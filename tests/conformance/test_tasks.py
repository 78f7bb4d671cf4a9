"""Programs with several tasks: a wait holds back its task alone, and the order of calls is that of the program."""

import pytest

from acl_py.errors import DeadlockError
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay

LAUNCH = {"op": "launch", "us": 100}
WORK = {"op": "host_work", "us": 10}
SYNC = {"op": "sync_stream"}


def document(*steps, **changes):
    buffers = {"d": {"space": "device", "bytes": 1 << 20}, "p": {"space": "pinned", "bytes": 1 << 20}}
    base = {"id": "p", "gap_us": 0, "buffers": buffers, "streams": {"A": {}, "B": {}}, "events": {"e": {}}}
    return base | {"steps": list(steps)} | changes


def run(*steps, **options):
    """The calls, as (op, enter, exit) in microseconds."""
    replayed = replay(parse(document(*steps)), device="tiny", **options)
    return [(steps[call.step]["op"], call.enter_us, call.exit_us) for call in replayed.host]


def of(task, *steps):
    return [step | {"task": task} for step in steps]


def test_a_wait_holds_back_its_task_alone():
    calls = run(LAUNCH | {"stream": "A"}, SYNC | {"stream": "A"}, *of("b", WORK, LAUNCH | {"stream": "B"}), WORK)
    assert calls == [
        ("launch", 0.0, 1.0),
        ("sync_stream", 1.0, 103.0),
        ("host_work", 1.3, 11.3),
        ("launch", 11.3, 12.3),
        ("host_work", 103.0, 113.0),
    ]


def test_of_the_tasks_that_can_run_the_one_with_the_earlier_step_goes_on():
    b = of("b", LAUNCH | {"stream": "B"}, SYNC | {"stream": "B"}, WORK)
    a = [LAUNCH | {"stream": "A"}, SYNC | {"stream": "A"}, WORK]
    long = {"op": "host_work", "us": 300, "task": "c"}  # both waits are over when it ends
    first = run(*a[:2], *b[:2], long, b[2], a[2])
    assert first[1:4:2] == [("sync_stream", 1.0, 316.6), ("sync_stream", 2.3, 304.6)]
    assert first[5:] == [("host_work", 304.6, 314.6), ("host_work", 316.6, 326.6)]
    other = run(*a[:2], *b[:2], long, a[2], b[2])
    assert other[1:4:2] == [("sync_stream", 1.0, 304.6), ("sync_stream", 2.3, 316.6)]


def test_a_task_goes_on_at_the_place_of_resume():
    a = [LAUNCH | {"stream": "A"}, SYNC | {"stream": "A"}]
    long = {"op": "host_work", "us": 300, "task": "c"}
    work = WORK | {"task": "c"}
    turn = {"op": "give_way", "task": "c"}
    assert run(*a, long, turn, work)[1] == ("sync_stream", 1.0, 313.3)  # a task that has nothing more to do comes last
    assert run(*a, long, turn, {"op": "resume"}, work)[1] == ("sync_stream", 1.0, 303.3)


def test_a_task_that_does_not_wait_keeps_its_turn():
    steps = [WORK, *of("b", WORK), WORK]
    assert [enter for _, enter, _ in run(*steps)] == [0.0, 20.0, 10.0]
    assert [enter for _, enter, _ in run(WORK, {"op": "give_way"}, *steps[1:])] == [0.0, 10.0, 10.0, 20.0]


def test_a_step_comes_after_the_end_of_another():
    steps = [LAUNCH | {"stream": "A"}, SYNC | {"stream": "A"}, *of("b", WORK)]
    assert run(*steps)[2] == ("host_work", 1.3, 11.3)
    steps[2]["after"] = 1
    assert run(*steps)[1:] == [("sync_stream", 1.0, 103.0), ("host_work", 103.0, 113.0)]


def test_sleeps_of_tasks_run_side_by_side():
    sleep = {"op": "sleep", "us": 100}
    calls = run(sleep, *of("b", sleep, WORK), *of("c", {"op": "sleep", "us": 30}), WORK)
    assert calls[:2] == [("sleep", 0.0, 110.0), ("sleep", 0.0, 100.0)]  # b has the next step, and makes it first
    assert calls[2:] == [("host_work", 100.0, 110.0), ("sleep", 0.0, 30.0), ("host_work", 110.0, 120.0)]


def test_copies_of_tasks_are_told_apart():
    copy = {"op": "memcpy", "dst": "d", "src": "p", "bytes": 1 << 20}
    steps = [copy | {"id": "in"}, *of("b", LAUNCH | {"stream": "B", "id": "k"}, copy | {"id": "too"})]
    device = replay(parse(document(*steps)), device="tiny").device
    assert {name: (time.engine, time.start_us < time.end_us) for name, time in device.items()} == {
        "in": ("H2D", True),
        "k": ("cores", True),
        "too": ("H2D", True),
    }
    assert device["in"].end_us <= device["too"].start_us


def test_each_task_has_a_last_error_and_a_context():
    bad = {"op": "memcpy_async_bad", "dst_addr": 16, "src_addr": 16, "bytes": 4, "kind": 1, "stream": "A"}
    steps = [bad, *of("b", {"op": "peek_error"}), {"op": "peek_error"}]
    first, other, again = replay(parse(document(*steps)), device="tiny").host
    assert (first.ret, other.ret, again.ret) == (first.ret, 0, first.ret)
    assert first.ret


def test_tasks_that_wait_without_end_are_a_deadlock():
    steps = [
        {"op": "create_event", "event": "f", "kind": "flag", "timing": False},
        {"op": "wait", "event": "f", "stream": "A"},
        LAUNCH | {"stream": "A"},
        SYNC | {"stream": "A"},
        *of("b", {"op": "sync_device"}),
    ]
    with pytest.raises(DeadlockError, match=r"SynchronizeStream\(stream 'A'\)"):
        replay(parse(document(*steps)), device="tiny", rules="acl")


def test_a_wait_that_another_task_ends_is_no_deadlock():
    steps = [
        {"op": "create_event", "event": "f", "kind": "flag", "timing": False},
        {"op": "wait", "event": "f", "stream": "A"},
        LAUNCH | {"stream": "A"},
        SYNC | {"stream": "A"},
        *of("b", {"op": "record", "event": "f", "stream": "B"}),
    ]
    assert [call.ret for call in replay(parse(document(*steps)), device="tiny", rules="acl").host] == [0] * 5


def test_threads_of_tasks_wait_side_by_side():
    steps = [LAUNCH | {"stream": "per_thread", "thread": "T"}, SYNC | {"stream": "per_thread", "thread": "T"}]
    steps += of("b", LAUNCH | {"stream": "per_thread", "thread": "U"}, SYNC | {"stream": "per_thread", "thread": "U"})
    calls = replay(parse(document(*steps)), device="tiny").trace.ops
    assert {op.stream for op in calls} == {"stream 'per_thread of T'", "stream 'per_thread of U'"}
    assert calls[1].start_ns < calls[0].end_ns


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after": 1}, "step 1 (host_work): after: must be the index of an earlier step, 0 to 0, not 1"),
        ({"after": -1}, "step 1 (host_work): after: must be the index of an earlier step, 0 to 0, not -1"),
        ({"after": True}, "after: must be the index of an earlier step, 0 to 0, not true"),
        ({"task": ""}, "task: must be a name of 1 to 200 characters"),
        ({"task": 7}, "task: must be a name of 1 to 200 characters"),
    ],
)
def test_a_task_that_is_none_is_refused(changes, message):
    with pytest.raises(ProgramError) as caught:
        parse(document(WORK, WORK | changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gap_us": -1}, "gap_us: must be microseconds"),
        ({"notes": "all of it"}, 'notes: must be a list of strings, not "all of it"'),
        ({"notes": [1]}, "notes: must be a list of strings, not [1]"),
        ({"streams": {"A": {"device": -1}}}, "streams.A: device: must be the number of a device"),
    ],
)
def test_what_is_said_of_the_whole_program_is_checked(changes, message):
    with pytest.raises(ProgramError) as caught:
        parse(document(WORK, **changes))
    assert message in str(caught.value)


@pytest.mark.parametrize("section", ["buffers", "streams", "events"])
def test_things_of_a_device_that_is_not_there_are_refused(section):
    thing = {"space": "device", "bytes": 1, "device": 9} if section == "buffers" else {"device": 9}
    with pytest.raises(
        ProgramError, match=rf"{section}.x: device: there is no device 9; profile tiny has devices 0 to"
    ):
        replay(parse(document(WORK, **{section: {"x": thing}})), device="tiny")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"cores": 5}, "cores: the kernel takes 5 AI cores at once, and the device has 4"),
        ({"cores": 2, "released": [[5, 1]]}, "released: must give back 2 cores, and within 10 us"),
        ({"cores": 1, "released": [[11, 1]]}, "released: must give back 1 cores, and within 10 us"),
    ],
)
def test_cores_that_are_not_there_are_refused(step, problem):
    launch = {"op": "launch_cores", "stream": "A", "us": 10}
    with pytest.raises(ProgramError) as caught:
        replay(parse(document(launch | step)), device="tiny")
    assert problem in str(caught.value)


def test_a_kernel_has_its_name_its_time_and_its_bytes():
    us = (2**51 - 1) / 1000  # the longest that is exact to the nanosecond: 26 days
    launch = {
        "op": "launch",
        "stream": "A",
        "us": us,
        "name": "add",
        "reads": [["d", 0, 64]],
        "writes": [["p", 64, 96]],
    }
    [op] = replay(parse(document(launch)), device="tiny").trace.ops
    assert (op.name, op.bytes, op.end_ns - op.start_ns) == ("add", 96, 2**51 - 1)
