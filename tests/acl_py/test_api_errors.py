"""Failed work: found at a later call, sticky, with its cause; the last error of each task."""

import asyncio
import traceback

import pytest
from histories import busy, history, refused, tiny

import acl_py as acl

A = busy("A", 10)


@acl.kernel(cost=acl.Cost(us=10))
def broken():
    raise ZeroDivisionError("by hand")


async def _failed(stream=None):
    await acl.LaunchKernel(broken, 1, (), stream)
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(stream)
    return caught.value


@tiny
async def test_the_error_names_the_operation_its_stream_and_line_and_keeps_the_cause():
    stream = await acl.CreateStream()
    launch = await acl.LaunchKernel(broken, 1, (), stream)
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(stream)
    error = caught.value
    assert (error.kind, error.code, error.name) == (acl.Kind.LAUNCH_FAILURE, 719, "cudaErrorLaunchFailure")
    assert str(error).startswith(
        f"cudaErrorLaunchFailure (719): <broken on stream 1 submitted at {launch.site}> failed: "
        "kernel broken raised ZeroDivisionError: by hand; the exception is the cause of this error: fix the kernel"
    )
    assert "ResetDevice()" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)][-1] == "broken"


@tiny
async def test_calls_before_the_failure_succeed_and_all_later_ones_that_touch_the_device_fail():
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    x, host = await acl.Malloc(8), await acl.MallocHost(8)
    await acl.LaunchKernel(broken, 1, (), stream)
    await acl.LaunchKernel(A, 1, (), stream)  # not yet known
    await acl.HostWork(100)
    story = "<broken on stream 1 submitted at"
    for verb in (
        lambda: acl.LaunchKernel(A, 1),
        lambda: acl.MemcpyAsync(x, 8, host, 8, acl.MemcpyKind.HOST_TO_DEVICE),
        lambda: acl.Memcpy(x, 8, host, 8, acl.MemcpyKind.HOST_TO_DEVICE),
        lambda: acl.Memset(x, 8, 0, 8),
        lambda: acl.SynchronizeStream(stream),
        acl.SynchronizeStream,
        acl.SynchronizeDevice,
        lambda: acl.StreamQuery(stream),
        lambda: acl.RecordEvent(event, stream),
        lambda: acl.StreamWaitEvent(stream, event),
        lambda: acl.SynchronizeEvent(event),
        lambda: acl.QueryEventStatus(event),
        lambda: acl.DestroyEvent(event),
        lambda: acl.DestroyStream(stream),
        lambda: acl.LaunchHostFunc(stream, print),
        acl.CreateStream,
        acl.CreateEvent,
        lambda: acl.Malloc(8),
        lambda: acl.Free(x),
        lambda: acl.MallocHost(8),
        lambda: acl.FreeHost(host),
        lambda: acl.MallocAsync(8),
        lambda: acl.FreeAsync(x),
        acl.GetMemInfo,
    ):
        with refused(acl.Kind.LAUNCH_FAILURE, story, "by hand"):
            await verb()
    assert await acl.GetDevice() == 0
    await acl.SetDevice(0)
    assert [name for name, *_ in history(sim)] == ["broken", "A"]


@tiny
async def test_what_starts_after_a_failure_has_no_effect_and_what_ran_beside_it_has():
    a, b, c = [await acl.CreateStream() for _ in range(3)]
    host = await acl.MallocHost(3)
    host.numpy()[:] = 0
    fill = acl.kernel(cost=acl.Cost(us=15))(lambda x: x.fill(1))
    await acl.LaunchKernel(broken, 1, (), a)
    await acl.LaunchKernel(fill, 1, (host[0:1],), b)  # begins before it failed
    await acl.LaunchKernel(fill, 1, (host[1:2],), a)  # behind it
    await acl.HostWork(2)
    await acl.MemsetAsync(host + 2, 1, 1, 1, c)  # done before it
    with pytest.raises(acl.AclError):
        await acl.SynchronizeDevice()
    assert host.numpy().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "how", ["free", "free host", "sync copy", "device", "query", "event", "await", "pageable", "other stream"]
)
@tiny
async def test_any_later_call_finds_it(how):
    a, b, x, host = await acl.CreateStream(), await acl.CreateStream(), await acl.Malloc(8), await acl.MallocHost(8)
    event = await acl.CreateEvent()
    launch = await acl.LaunchKernel(broken, 1, (), a)
    await acl.RecordEvent(event, a)

    async def later():
        match how:
            case "free":
                await acl.Free(x)
            case "free host":
                await acl.FreeHost(host)
            case "sync copy":
                await acl.Memcpy(bytearray(8), 8, x, 8, acl.MemcpyKind.DEVICE_TO_HOST)
            case "device":
                await acl.SynchronizeDevice()
            case "query":
                while await acl.StreamQuery(a) is acl.Status.NOT_READY:
                    pass
            case "event":
                await acl.SynchronizeEvent(event)
            case "await":
                await launch
            case "pageable":
                await acl.MemcpyAsync(bytearray(8), 8, x, 8, acl.MemcpyKind.DEVICE_TO_HOST, a)
            case "other stream":
                await acl.LaunchKernel(busy("long", 30), 1, (), b)
                await acl.SynchronizeStream(b)

    with pytest.raises(acl.AclError) as caught:
        await later()
    assert caught.value.kind is acl.Kind.LAUNCH_FAILURE
    assert x.allocation.freed is host.allocation.freed is None


@tiny
async def test_the_first_failure_stays():
    a, b = await acl.CreateStream(), await acl.CreateStream()

    @acl.kernel(cost=acl.Cost(us=5))
    def sooner():
        raise KeyError("sooner")

    await acl.LaunchKernel(broken, 1, (), a)
    await acl.LaunchKernel(sooner, 1, (), b)
    for _ in range(2):
        with pytest.raises(acl.AclError, match="sooner"):
            await acl.SynchronizeDevice()


@tiny
async def test_reset_mends():
    sim = acl.current_simulation()
    await _failed()
    await acl.ResetDevice(0)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000)]


@tiny
async def test_another_device_and_another_simulation_are_not_touched():
    await _failed()
    await acl.SetDevice(1)
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    async with acl.simulate(device="tiny"):
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
    await acl.SetDevice(0)
    with refused(acl.Kind.LAUNCH_FAILURE, "by hand"):
        await acl.SynchronizeDevice()


@tiny
async def test_work_of_a_failed_context_of_another_device_is_refused_too():
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    launch = await acl.LaunchKernel(broken, 1, (), stream)
    await acl.RecordEvent(event, stream)
    await acl.SetDevice(1)
    with pytest.raises(acl.AclError, match="by hand"):
        await launch
    for verb in (
        lambda: acl.SynchronizeStream(stream),
        lambda: acl.SynchronizeEvent(event),
        lambda: acl.StreamWaitEvent(None, event),
    ):
        with refused(acl.Kind.LAUNCH_FAILURE, "by hand"):
            await verb()
    await acl.SynchronizeDevice()


@tiny
async def test_the_last_error_is_forgotten_when_it_is_asked_for_and_not_when_it_is_looked_at():
    assert (await acl.PeekAtLastError(), await acl.GetLastError()) == (0, 0)
    for verb, code in (
        (lambda: acl.Malloc(0), 1),
        (lambda: acl.LaunchKernel(A, 0), 9),
        (lambda: acl.SetDevice(9), 101),
    ):
        with pytest.raises(acl.AclError):
            await verb()
        assert [await acl.PeekAtLastError(), await acl.PeekAtLastError(), await acl.GetLastError()] == [code] * 3
        assert [await acl.PeekAtLastError(), await acl.GetLastError()] == [0, 0]
    await _failed()
    assert [await acl.GetLastError(), await acl.GetLastError()] == [719, 0]
    with pytest.raises(acl.AclError):
        await acl.SynchronizeDevice()
    assert await acl.GetLastError() == 719


@tiny
async def test_a_query_that_says_not_ready_is_no_error():
    event = await acl.CreateEvent()
    await acl.LaunchKernel(A, 1)
    await acl.RecordEvent(event)
    assert await acl.QueryEventStatus(event) is acl.Status.NOT_READY
    assert await acl.StreamQuery() is acl.Status.NOT_READY
    assert await acl.PeekAtLastError() == 0


@tiny
async def test_each_task_has_its_own_last_error_and_inherits_that_of_its_maker():
    with pytest.raises(acl.AclError):
        await acl.Malloc(-1)
    inherited = []

    async def child():
        inherited.append(await acl.GetLastError())
        with pytest.raises(acl.AclError):
            await acl.LaunchKernel(A, 0)
        await asyncio.sleep(0)
        return await acl.GetLastError()

    assert await asyncio.gather(child(), child()) == [9, 9]
    assert (inherited, await acl.GetLastError()) == ([1, 1], 1)


@tiny
async def test_each_simulation_begins_without_an_error_and_leaves_none():
    with pytest.raises(acl.AclError):
        await acl.Malloc(-1)
    async with acl.simulate(device="tiny"):
        assert await acl.PeekAtLastError() == 0
        with pytest.raises(acl.AclError):
            await acl.SetDevice(9)
    assert await acl.PeekAtLastError() == 1


async def test_verbs_without_a_simulation_say_what_to_do():
    for verb in (
        acl.SynchronizeDevice,
        acl.GetLastError,
        lambda: acl.Malloc(8),
        lambda: acl.LaunchKernel(A, 1),
        lambda: acl.SetDevice(0),
    ):
        with pytest.raises(acl.AclError) as caught:
            await verb()
        assert caught.value.kind is acl.Kind.NOT_INITIALIZED
        assert str(caught.value) == (
            "cudaErrorInitializationError (3): no simulation is running here; call verbs inside acl_py.run(main), "
            "`async with acl_py.simulate()`, or after sim = acl_py.open()"
        )
    with pytest.raises(acl.AclError):
        acl.current_simulation()
