"""structlog events: one per call, off by default."""

import pytest
import structlog
from histories import busy

import acl_py as acl
from acl_py import log

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
def test_each_call_is_an_event_at_debug_level_with_its_times_and_line():
    with structlog.testing.capture_logs() as events:
        log.enable()
        calls = acl.run(_program, device="tiny")
    assert [(event["event"], event["enter_ns"], event["exit_ns"]) for event in events] == calls
    assert {event["log_level"] for event in events} == {"debug"}
    assert all(event["site"].startswith("test_api_log.py:") for event in events)
    assert [name for name, *_ in calls] == ["Malloc", "MallocHost", "MemcpyAsync", "LaunchKernel", "SynchronizeDevice"]


@pytest.mark.usefixtures("_quiet_again")
def test_a_logger_of_ones_own_and_from_the_next_simulation_on():
    heard = []

    class Mine:
        def debug(self, event, **values):
            heard.append(event)

    async def program():
        await acl.Malloc(8)
        log.enable(Mine())
        await acl.Malloc(8)

    acl.run(program, device="tiny")
    assert heard == []
    calls = acl.run(_program, device="tiny", trace=True)
    assert heard == [name for name, *_ in calls]
    log.disable()
    acl.run(_program, device="tiny")
    assert len(heard) == 5


@pytest.mark.usefixtures("_quiet_again")
def test_logging_changes_no_time():
    quiet, _ = _heard(_program)
    log.enable()
    assert _heard(_program)[0] == quiet
