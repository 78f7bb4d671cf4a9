"""When failures show under ACL's rules (3.6)."""

import numpy as np
import pytest
from histories import busy, history, refused, tiny, tiny_acl

import acl_py as acl


@acl.kernel(cost=acl.Cost(us=10))
def broken():
    raise ZeroDivisionError("a bug")


@acl.kernel(cost=acl.Cost(us=10))
def set_two(out: acl.InOut):
    out[:] = 2


async def failure(verb, *args):
    with pytest.raises(acl.AclError) as caught:
        await verb(*args)
    return caught.value


@tiny_acl
async def test_a_stream_goes_on_after_a_failure_and_tells_of_it_at_the_next_synchronisation():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(broken, 1, (), stream)
    await acl.LaunchKernel(busy("A", 10), 1, (), stream)
    error = await failure(acl.SynchronizeStream, stream)
    assert (error.kind, error.code) == (acl.Kind.LAUNCH_FAILURE, 507035)
    assert ("broken on stream 1 submitted at" in str(error), "a bug" in str(error)) == (True, True)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert [name for name, *_ in history(sim, begin)] == ["broken", "A"]
    await acl.SynchronizeStream(stream)  # told once
    await acl.LaunchKernel(busy("A", 10), 1, (), stream)
    await acl.SynchronizeStream(stream)


@pytest.mark.parametrize("how", ["device", "event"])
@tiny_acl
async def test_other_synchronisations_that_touch_the_stream_tell_of_it_too(how):
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    await acl.LaunchKernel(broken, 1, (), stream)
    await acl.RecordEvent(event, stream)
    error = await (failure(acl.SynchronizeDevice) if how == "device" else failure(acl.SynchronizeEvent, event))
    assert error.code == 507035
    await acl.SynchronizeStream(stream)


@tiny_acl
async def test_another_stream_does_not_notice():
    a, b = await acl.CreateStream(), await acl.CreateStream()
    await acl.LaunchKernel(broken, 1, (), a)
    await acl.LaunchKernel(busy("A", 100), 1, (), b)
    await acl.SynchronizeStream(b)
    assert (await failure(acl.SynchronizeStream, a)).code == 507035


@tiny_acl
async def test_who_awaits_the_operation_itself_is_told_and_so_is_the_stream():
    stream = await acl.CreateStream()
    work = await acl.LaunchKernel(broken, 1, (), stream)

    async def wait():
        await work

    assert (await failure(wait)).code == 507035
    assert (await failure(acl.SynchronizeStream, stream)).code == 507035


@pytest.mark.parametrize(("mode", "result"), [(acl.FailureMode.CONTINUE, 2), (acl.FailureMode.STOP, 1)])
@tiny_acl
async def test_the_vendors_example_of_failure_modes(mode, result):
    """A kernel fails between one that sets 1 and one that sets 2: 2 when the stream goes on, 1 when it stops."""
    stream, device, out = await acl.CreateStream(), await acl.Malloc(64), np.zeros(64, np.uint8)
    await acl.Memset(device, 64, 1, 64)
    await acl.SetStreamFailureMode(stream, mode)
    await acl.LaunchKernel(broken, 1, (), stream)
    await acl.LaunchKernel(set_two, 1, (acl.Array(device, np.uint8),), stream)
    assert (await failure(acl.SynchronizeStream, stream)).code == 507035
    if mode is acl.FailureMode.CONTINUE:
        await acl.Memcpy(out, 64, device, 64, acl.MemcpyKind.DEVICE_TO_HOST)
        assert set(out) == {result}
    else:
        assert set(bytes(device.allocation.view)) == {result}


@tiny_acl
async def test_a_stream_that_stops_takes_its_whole_context_with_it():
    a, b = await acl.CreateStream(), await acl.CreateStream()
    await acl.SetStreamFailureMode(a, acl.FailureMode.STOP)
    await acl.LaunchKernel(broken, 1, (), a)
    later = await acl.LaunchKernel(busy("long", 100), 1, (), a)
    for verb, args in (
        (acl.SynchronizeStream, (a,)),
        (acl.SynchronizeStream, (a,)),
        (acl.LaunchKernel, (set_two, 1, (), b)),
    ):
        assert (await failure(verb, *args)).code == 507035
    assert later.error is None or later.error.kind is acl.Kind.LAUNCH_FAILURE


@tiny_acl
async def test_stopping_cannot_be_taken_back():
    stream = await acl.CreateStream()
    await acl.SetStreamFailureMode(stream, acl.FailureMode.STOP)
    await acl.SetStreamFailureMode(stream, acl.FailureMode.STOP)
    with refused(acl.Kind.NOT_SUPPORTED, "cannot be taken back") as caught:
        await acl.SetStreamFailureMode(stream, acl.FailureMode.CONTINUE)
    assert caught.value.code == 207000
    with refused(acl.Kind.INVALID_VALUE, "failure mode 2"):
        await acl.SetStreamFailureMode(stream, 2)


@tiny_acl
async def test_the_last_error_is_kept_until_it_is_read_and_the_last_one_counts():
    stream = await acl.CreateStream()
    assert await acl.PeekAtLastError() == 0
    await acl.LaunchKernel(broken, 1, (), stream)
    assert await acl.PeekAtLastError() == 0  # nobody knows yet
    await failure(acl.SynchronizeStream, stream)
    assert [await acl.PeekAtLastError(), await acl.PeekAtLastError()] == [507035, 507035]
    await failure(acl.StreamWaitEvent, stream, await acl.CreateEvent())
    assert [await acl.GetLastError(), await acl.GetLastError()] == [107000, 0]


@tiny_acl
async def test_an_exception_callback_is_told_of_each_failed_task_and_the_last_one_set_counts():
    told, stream = [], await acl.CreateStream()
    await acl.SetExceptionInfoCallback(lambda info: told.append("first"))
    await acl.SetExceptionInfoCallback(told.append)
    work = await acl.LaunchKernel(broken, 1, (), stream)
    await failure(acl.SynchronizeStream, stream)
    (info,) = told
    assert (info.op, info.stream, info.device, info.code) == (work, stream, 0, 507035)
    assert "a bug" in info.what
    await acl.SetExceptionInfoCallback(None)
    await acl.LaunchKernel(broken, 1, (), stream)
    await failure(acl.SynchronizeStream, stream)
    assert len(told) == 1


@tiny_acl
async def test_a_wait_that_takes_too_long_shows_at_the_next_synchronisation():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    event = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    await acl.SetOpWaitTimeOut(2)
    begin = sim.now_ns
    await acl.StreamWaitEvent(stream, event)
    work = await acl.LaunchKernel(busy("A", 10), 1, (), stream)
    error = await failure(acl.SynchronizeStream, stream)
    assert (error.kind, error.code) == (acl.Kind.OP_WAIT_TIMEOUT, 107020)
    assert (f"waited 2 s for <{event.name} made at" in str(error), work.done) == (True, True)
    assert sim.now_ns - begin == pytest.approx(2e9, abs=20_000)


@tiny_acl
async def test_the_limit_is_for_waits_queued_afterwards_and_starts_with_the_wait():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    event = await acl.CreateEvent()
    await acl.LaunchKernel(busy("long", 1_500_000), 1, (), a)
    await acl.RecordEvent(event, a)
    await acl.SetOpWaitTimeOut(1)
    await acl.LaunchKernel(busy("before", 1_000_000), 1, (), b)  # the wait begins a second later
    await acl.StreamWaitEvent(b, event)
    await acl.SynchronizeStream(b)
    await acl.SetOpWaitTimeOut(0)
    assert sim.now_ns == pytest.approx(1.5e9, abs=50_000)


@tiny_acl
async def test_a_kernel_that_runs_too_long_fails_after_that_time():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    await acl.SetOpExecuteTimeOut(1)
    begin = sim.now_ns
    await acl.LaunchKernel(busy("endless", 5_000_000), 1, (), stream)
    await acl.LaunchKernel(busy("short", 10), 1, (), stream)
    error = await failure(acl.SynchronizeStream, stream)
    assert (error.kind, error.code) == (acl.Kind.OP_EXECUTE_TIMEOUT, 507034)
    ends = [(name, end) for name, _, end in history(sim, begin)]
    assert ends == [("endless", 1_000_001_000), ("short", 1_000_011_000)]


@tiny(rules="cuda")
async def test_cuda_has_no_such_switches():
    for verb, args in (
        (acl.SetStreamFailureMode, (None, 1)), (acl.SetOpWaitTimeOut, (1,)), (acl.SetOpExecuteTimeOut, (1,)),
    ):  # fmt: skip
        with refused(acl.Kind.NOT_SUPPORTED, "the whole context's"):
            await verb(*args)
