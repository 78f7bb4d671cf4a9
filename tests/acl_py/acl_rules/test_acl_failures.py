"""When failures show under ACL's rules (3.6)."""

import numpy as np
import pytest
from histories import busy, history, refused, tiny

import acl_py
from acl_py import (
    AclError,
    Array,
    CreateEvent,
    CreateEventWithFlag,
    CreateStream,
    EventFlag,
    FailureMode,
    GetLastError,
    InOut,
    Kind,
    LaunchKernel,
    Malloc,
    Memcpy,
    MemcpyKind,
    Memset,
    PeekAtLastError,
    RecordEvent,
    SetExceptionInfoCallback,
    SetOpExecuteTimeOut,
    SetOpWaitTimeOut,
    SetStreamFailureMode,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    current_simulation,
)

acl = tiny(rules="acl")


@acl_py.kernel(cost=acl_py.Cost(us=10))
def broken():
    raise ZeroDivisionError("a bug")


@acl_py.kernel(cost=acl_py.Cost(us=10))
def set_two(out: InOut):
    out[:] = 2


async def failure(verb, *args):
    with pytest.raises(AclError) as caught:
        await verb(*args)
    return caught.value


@acl
async def test_a_stream_goes_on_after_a_failure_and_tells_of_it_at_the_next_synchronisation():
    sim, stream = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(broken, 1, (), stream)
    await LaunchKernel(busy("A", 10), 1, (), stream)
    error = await failure(SynchronizeStream, stream)
    assert (error.kind, error.code) == (Kind.LAUNCH_FAILURE, 507035)
    assert ("broken on stream 1 submitted at" in str(error), "a bug" in str(error)) == (True, True)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert [name for name, *_ in history(sim, begin)] == ["broken", "A"]
    await SynchronizeStream(stream)  # told once
    await LaunchKernel(busy("A", 10), 1, (), stream)
    await SynchronizeStream(stream)


@pytest.mark.parametrize("how", ["device", "event"])
@acl
async def test_other_synchronisations_that_touch_the_stream_tell_of_it_too(how):
    stream, event = await CreateStream(), await CreateEvent()
    await LaunchKernel(broken, 1, (), stream)
    await RecordEvent(event, stream)
    error = await (failure(SynchronizeDevice) if how == "device" else failure(SynchronizeEvent, event))
    assert error.code == 507035
    await SynchronizeStream(stream)


@acl
async def test_another_stream_does_not_notice():
    a, b = await CreateStream(), await CreateStream()
    await LaunchKernel(broken, 1, (), a)
    await LaunchKernel(busy("A", 100), 1, (), b)
    await SynchronizeStream(b)
    assert (await failure(SynchronizeStream, a)).code == 507035


@acl
async def test_who_awaits_the_operation_itself_is_told_and_so_is_the_stream():
    stream = await CreateStream()
    work = await LaunchKernel(broken, 1, (), stream)

    async def wait():
        await work

    assert (await failure(wait)).code == 507035
    assert (await failure(SynchronizeStream, stream)).code == 507035


@pytest.mark.parametrize(("mode", "result"), [(FailureMode.CONTINUE, 2), (FailureMode.STOP, 1)])
@acl
async def test_the_vendors_example_of_failure_modes(mode, result):
    """A kernel fails between one that sets 1 and one that sets 2: 2 when the stream goes on, 1 when it stops."""
    stream, device, out = await CreateStream(), await Malloc(64), np.zeros(64, np.uint8)
    await Memset(device, 64, 1, 64)
    await SetStreamFailureMode(stream, mode)
    await LaunchKernel(broken, 1, (), stream)
    await LaunchKernel(set_two, 1, (Array(device, np.uint8),), stream)
    assert (await failure(SynchronizeStream, stream)).code == 507035
    if mode is FailureMode.CONTINUE:
        await Memcpy(out, 64, device, 64, MemcpyKind.DEVICE_TO_HOST)
        assert set(out) == {result}
    else:
        assert set(bytes(device.allocation.view)) == {result}


@acl
async def test_a_stream_that_stops_takes_its_whole_context_with_it():
    a, b = await CreateStream(), await CreateStream()
    await SetStreamFailureMode(a, FailureMode.STOP)
    await LaunchKernel(broken, 1, (), a)
    later = await LaunchKernel(busy("long", 100), 1, (), a)
    for verb, args in ((SynchronizeStream, (a,)), (SynchronizeStream, (a,)), (LaunchKernel, (set_two, 1, (), b))):
        assert (await failure(verb, *args)).code == 507035
    assert later.error is None or later.error.kind is Kind.LAUNCH_FAILURE


@acl
async def test_stopping_cannot_be_taken_back():
    stream = await CreateStream()
    await SetStreamFailureMode(stream, FailureMode.STOP)
    await SetStreamFailureMode(stream, FailureMode.STOP)
    with refused(Kind.NOT_SUPPORTED, "cannot be taken back") as caught:
        await SetStreamFailureMode(stream, FailureMode.CONTINUE)
    assert caught.value.code == 207000
    with refused(Kind.INVALID_VALUE, "failure mode 2"):
        await SetStreamFailureMode(stream, 2)


@acl
async def test_the_last_error_is_kept_until_it_is_read_and_the_last_one_counts():
    stream = await CreateStream()
    assert await PeekAtLastError() == 0
    await LaunchKernel(broken, 1, (), stream)
    assert await PeekAtLastError() == 0  # nobody knows yet
    await failure(SynchronizeStream, stream)
    assert [await PeekAtLastError(), await PeekAtLastError()] == [507035, 507035]
    await failure(StreamWaitEvent, stream, await CreateEvent())
    assert [await GetLastError(), await GetLastError()] == [107000, 0]


@acl
async def test_an_exception_callback_is_told_of_each_failed_task_and_the_last_one_set_counts():
    told, stream = [], await CreateStream()
    await SetExceptionInfoCallback(lambda info: told.append("first"))
    await SetExceptionInfoCallback(told.append)
    work = await LaunchKernel(broken, 1, (), stream)
    await failure(SynchronizeStream, stream)
    (info,) = told
    assert (info.op, info.stream, info.device, info.code) == (work, stream, 0, 507035)
    assert "a bug" in info.what
    await SetExceptionInfoCallback(None)
    await LaunchKernel(broken, 1, (), stream)
    await failure(SynchronizeStream, stream)
    assert len(told) == 1


@acl
async def test_a_wait_that_takes_too_long_shows_at_the_next_synchronisation():
    sim, stream = current_simulation(), await CreateStream()
    event = await CreateEventWithFlag(EventFlag.SYNC)
    await SetOpWaitTimeOut(2)
    begin = sim.now_ns
    await StreamWaitEvent(stream, event)
    work = await LaunchKernel(busy("A", 10), 1, (), stream)
    error = await failure(SynchronizeStream, stream)
    assert (error.kind, error.code) == (Kind.OP_WAIT_TIMEOUT, 107020)
    assert (f"waited 2 s for {event.name}" in str(error), work.done) == (True, True)
    assert sim.now_ns - begin == pytest.approx(2e9, abs=20_000)


@acl
async def test_the_limit_is_for_waits_queued_afterwards_and_starts_with_the_wait():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    event = await CreateEvent()
    await LaunchKernel(busy("long", 1_500_000), 1, (), a)
    await RecordEvent(event, a)
    await SetOpWaitTimeOut(1)
    await LaunchKernel(busy("before", 1_000_000), 1, (), b)  # the wait begins a second later
    await StreamWaitEvent(b, event)
    await SynchronizeStream(b)
    await SetOpWaitTimeOut(0)
    assert sim.now_ns == pytest.approx(1.5e9, abs=50_000)


@acl
async def test_a_kernel_that_runs_too_long_fails_after_that_time():
    sim, stream = current_simulation(), await CreateStream()
    await SetOpExecuteTimeOut(1)
    begin = sim.now_ns
    await LaunchKernel(busy("endless", 5_000_000), 1, (), stream)
    await LaunchKernel(busy("short", 10), 1, (), stream)
    error = await failure(SynchronizeStream, stream)
    assert (error.kind, error.code) == (Kind.OP_EXECUTE_TIMEOUT, 507034)
    ends = [(name, end) for name, _, end in history(sim, begin)]
    assert ends == [("endless", 1_000_001_000), ("short", 1_000_011_000)]


@tiny(rules="cuda")
async def test_cuda_has_no_such_switches():
    for verb, args in (
        (SetStreamFailureMode, (None, 1)), (SetOpWaitTimeOut, (1,)), (SetOpExecuteTimeOut, (1,)),
    ):  # fmt: skip
        with refused(Kind.NOT_SUPPORTED, "the whole context's"):
            await verb(*args)
