"""structlog events of calls, operations, waits and faults, off by default."""

import asyncio
import gc
import io
import json

import pytest
import structlog
from histories import busy

import acl_py as acl
from acl_py import faults, log
from acl_py.options import Options
from acl_py.running import build
from device_model.completions import Completion
from tests import forks

A = busy("A", 10)


@pytest.fixture
def _quiet_again():
    yield
    log.disable()


async def _program():
    x, host = await acl.Malloc(8), await acl.MallocHost(8)
    await acl.MemcpyAsync(x, 8, host, 8, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    return [(call.name, call.enter_ns, call.exit_ns) for call in acl.current_simulation().trace.calls]


def _heard(program, **options):
    with structlog.testing.capture_logs() as events:
        calls = acl.run(program, device="tiny", **options)
    return calls, events


def test_off_by_default():
    calls, events = _heard(_program)
    assert (len(calls), events) == (5, [])


@pytest.mark.usefixtures("_quiet_again")
def test_a_run_is_a_history_of_calls_operations_and_waits():
    with structlog.testing.capture_logs() as events:
        log.enable()
        calls = acl.run(_program, device="tiny")
    assert {event["log_level"] for event in events} == {"debug"}
    assert {event["task"] for event in events} == {"task 1"}
    told = [(event["event"], event["sim_us"], event.get("op", event.get("cause"))) for event in events]
    assert sorted(told, key=lambda event: event[1]) == [
        ("Malloc", 1.0, None),
        ("MallocHost", 1.01, None),
        ("MemcpyAsync", 2.01, None),
        ("queued", 2.01, "h2d"),
        ("begun", 2.01, "h2d"),
        ("ended", 2.018, "h2d"),
        ("LaunchKernel", 3.01, None),
        ("queued", 3.01, "A"),
        ("begun", 3.01, "A"),
        ("ended", 13.01, "A"),
        ("waited", 13.01, "device 0"),
        ("SynchronizeDevice", 15.01, None),
    ]
    assert [(event["event"], round(event["sim_us"] * 1000)) for event in events if "took_us" in event] == [
        (name, exit_ns) for name, _, exit_ns in calls
    ]


@pytest.mark.usefixtures("_quiet_again")
def test_it_is_turned_on_and_off_while_simulations_run():
    heard = []

    class Mine:
        def debug(self, event, **values):
            heard.append(event)

    async def program():
        await acl.Malloc(8)
        log.enable(Mine())
        await acl.MallocHost(8)
        log.enable(Mine())  # in place of the first
        await acl.Malloc(8)
        log.disable()
        await acl.Malloc(8)

    acl.run(program, device="tiny")
    assert heard == ["MallocHost", "Malloc"]


@pytest.mark.usefixtures("_quiet_again")
def test_context_variables_are_those_of_the_task_that_queued_the_work():
    async def serve(number):
        structlog.contextvars.bind_contextvars(request=number)
        stream = await acl.CreateStream(name=f"of {number}")
        await acl.LaunchKernel(A, 1, stream=stream)
        await acl.SynchronizeStream(stream)

    async def program():
        async with asyncio.TaskGroup() as group:
            for number in (1, 2):
                group.create_task(serve(number), name=f"serve {number}")

    lines = io.StringIO()
    processors = [structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()]
    log.enable(structlog.wrap_logger(structlog.PrintLogger(lines), processors=processors).bind())
    acl.run(program, device="tiny")
    events = [json.loads(line) for line in lines.getvalue().splitlines()]
    kinds = ("queued", "begun", "ended", "waited")
    of_requests = [[event["event"] for event in events if event["request"] == number] for number in (1, 2)]
    assert [[each for each in of if each in kinds] for of in of_requests] == [[*kinds], [*kinds]]
    for event in events:
        number = event["request"]
        assert event["task"] == f"task 'serve {number}'"
        assert event.get("stream", event.get("cause")) == f"stream 'of {number}'"


@pytest.mark.usefixtures("_quiet_again")
def test_a_stream_that_was_done_is_no_cause_of_a_later_wait():
    """A thread that reports callbacks sleeps, and `host_waited` follows no `awaiting` of its own."""

    async def program():
        await acl.SynchronizeStream(await acl.CreateStream(name="done"))
        acl.current_simulation().runtime.end_wait(Completion(), 0)

    with structlog.testing.capture_logs() as events:
        log.enable()
        acl.run(program, device="tiny")
    (waited,) = [event for event in events if event["event"] == "waited"]
    assert waited["cause"] != "stream 'done'"


@pytest.mark.usefixtures("_quiet_again")
def test_failures_and_fault_rules_are_told():
    async def program():
        stream = await acl.CreateStream()
        with acl.current_simulation().fault(faults.fail(op="kernel")):
            await acl.LaunchKernel(A, 1, stream=stream)
            with pytest.raises(acl.AclError):
                await acl.SynchronizeStream(stream)

    with structlog.testing.capture_logs() as events:
        log.enable()
        acl.run(program, device="tiny")
    told = {event["event"]: event for event in events}
    assert told["fault"]["subject"] == told["failed"]["op"] == "A"
    assert told["failed"]["line"].startswith("test_api_log.py:")


@pytest.mark.usefixtures("_quiet_again")
def test_logging_changes_no_time():
    quiet, _ = _heard(_program)
    log.enable()
    assert _heard(_program)[0] == quiet


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_script_is_logged_by_an_option(tmp_path, form):
    (tmp_path / "script.py").write_text("import acl\nacl.rt.set_device(0)\nprint(acl.rt.malloc(64, 0)[1])\n")
    done = forks.run("-m", "acl_py", "run", "--log", form, "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n")
    line = next(line for line in done.stderr.splitlines() if "Malloc" in line)
    assert "script.py:3" in line
    if form == "json":
        assert json.loads(line)["event"] == "Malloc"


def test_logging_begins_where_an_earlier_simulation_is_collected_meanwhile():
    class Collecting:
        """A logger that makes the collector run when somebody asks how to log."""

        @property
        def debug(self):
            gc.collect()
            return print

    gc.collect()
    gc.disable()
    kept = [build(Options("tiny"))[0] for _ in range(3)]
    for _ in range(3):
        build(Options("tiny"))  # part of a circle: it stays until the collector runs
    try:
        log.enable(Collecting())
    finally:
        log.disable()
        gc.enable()
    assert len(kept) == 3
