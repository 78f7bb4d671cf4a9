"""Failed work: found at a later call, sticky, with its cause; the last error of each task."""

import asyncio
import traceback

import pytest
from histories import busy, history, refused, tiny

import acl_py
from acl_py import (
    CreateEvent,
    CreateStream,
    GetLastError,
    Kind,
    LaunchKernel,
    Malloc,
    MallocHost,
    Memcpy,
    MemcpyAsync,
    MemcpyKind,
    PeekAtLastError,
    ResetDevice,
    SetDevice,
    StreamQuery,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
    kernel,
)

A = busy("A", 10)


@kernel(cost=acl_py.Cost(us=10))
def broken():
    raise ZeroDivisionError("by hand")


async def _failed(stream=None):
    await LaunchKernel(broken, 1, (), stream)
    with pytest.raises(acl_py.AclError) as caught:
        await SynchronizeStream(stream)
    return caught.value


@tiny
async def test_the_error_names_the_operation_its_stream_and_line_and_keeps_the_cause():
    stream = await CreateStream()
    launch = await LaunchKernel(broken, 1, (), stream)
    with pytest.raises(acl_py.AclError) as caught:
        await SynchronizeStream(stream)
    error = caught.value
    assert (error.kind, error.code, error.name) == (Kind.LAUNCH_FAILURE, 719, "cudaErrorLaunchFailure")
    assert str(error).startswith(
        f"cudaErrorLaunchFailure (719): <broken on stream 1 submitted at {launch.site}> failed: "
        "kernel broken raised ZeroDivisionError: by hand; the exception is the cause of this error: mend the kernel"
    )
    assert "ResetDevice()" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)][-1] == "broken"


@tiny
async def test_calls_before_the_failure_succeed_and_all_later_ones_that_touch_the_device_fail():
    sim, stream, event = current_simulation(), await CreateStream(), await CreateEvent()
    x, host = await Malloc(8), await MallocHost(8)
    await LaunchKernel(broken, 1, (), stream)
    await LaunchKernel(A, 1, (), stream)  # not yet known
    await acl_py.HostWork(100)
    story = "<broken on stream 1 submitted at"
    for verb in (
        lambda: LaunchKernel(A, 1),
        lambda: MemcpyAsync(x, 8, host, 8, MemcpyKind.HOST_TO_DEVICE),
        lambda: Memcpy(x, 8, host, 8, MemcpyKind.HOST_TO_DEVICE),
        lambda: acl_py.Memset(x, 8, 0, 8),
        lambda: SynchronizeStream(stream),
        SynchronizeStream,
        SynchronizeDevice,
        lambda: StreamQuery(stream),
        lambda: acl_py.RecordEvent(event, stream),
        lambda: acl_py.StreamWaitEvent(stream, event),
        lambda: acl_py.SynchronizeEvent(event),
        lambda: acl_py.QueryEventStatus(event),
        lambda: acl_py.DestroyEvent(event),
        lambda: acl_py.DestroyStream(stream),
        lambda: acl_py.LaunchHostFunc(stream, print),
        CreateStream,
        CreateEvent,
        lambda: Malloc(8),
        lambda: acl_py.Free(x),
        lambda: MallocHost(8),
        lambda: acl_py.FreeHost(host),
        lambda: acl_py.MallocAsync(8),
        lambda: acl_py.FreeAsync(x),
        acl_py.GetMemInfo,
    ):
        with refused(Kind.LAUNCH_FAILURE, story, "by hand"):
            await verb()
    assert await acl_py.GetDevice() == 0
    await SetDevice(0)
    assert [name for name, *_ in history(sim)] == ["broken", "A"]


@tiny
async def test_what_starts_after_a_failure_has_no_effect_and_what_ran_beside_it_has():
    a, b, c = [await CreateStream() for _ in range(3)]
    host = await MallocHost(3)
    host.numpy()[:] = 0
    fill = kernel(cost=acl_py.Cost(us=15))(lambda x: x.fill(1))
    await LaunchKernel(broken, 1, (), a)
    await LaunchKernel(fill, 1, (host[0:1],), b)  # begins before it failed
    await LaunchKernel(fill, 1, (host[1:2],), a)  # behind it
    await acl_py.HostWork(2)
    await acl_py.MemsetAsync(host + 2, 1, 1, 1, c)  # done before it
    with pytest.raises(acl_py.AclError):
        await SynchronizeDevice()
    assert host.numpy().tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    "how", ["free", "free host", "sync copy", "device", "query", "event", "await", "pageable", "other stream"]
)
@tiny
async def test_any_later_call_finds_it(how):
    a, b, x, host = await CreateStream(), await CreateStream(), await Malloc(8), await MallocHost(8)
    event = await CreateEvent()
    launch = await LaunchKernel(broken, 1, (), a)
    await acl_py.RecordEvent(event, a)

    async def later():
        match how:
            case "free":
                await acl_py.Free(x)
            case "free host":
                await acl_py.FreeHost(host)
            case "sync copy":
                await Memcpy(bytearray(8), 8, x, 8, MemcpyKind.DEVICE_TO_HOST)
            case "device":
                await SynchronizeDevice()
            case "query":
                while await StreamQuery(a) is acl_py.Status.NOT_READY:
                    pass
            case "event":
                await acl_py.SynchronizeEvent(event)
            case "await":
                await launch
            case "pageable":
                await MemcpyAsync(bytearray(8), 8, x, 8, MemcpyKind.DEVICE_TO_HOST, a)
            case "other stream":
                await LaunchKernel(busy("long", 30), 1, (), b)
                await SynchronizeStream(b)

    with pytest.raises(acl_py.AclError) as caught:
        await later()
    assert caught.value.kind is Kind.LAUNCH_FAILURE
    assert x.allocation.freed is host.allocation.freed is None


@tiny
async def test_the_first_failure_stays():
    a, b = await CreateStream(), await CreateStream()

    @kernel(cost=acl_py.Cost(us=5))
    def sooner():
        raise KeyError("sooner")

    await LaunchKernel(broken, 1, (), a)
    await LaunchKernel(sooner, 1, (), b)
    for _ in range(2):
        with pytest.raises(acl_py.AclError, match="sooner"):
            await SynchronizeDevice()


@tiny
async def test_reset_mends():
    sim = current_simulation()
    await _failed()
    await ResetDevice(0)
    begin = sim.now_ns
    await LaunchKernel(A, 1)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000)]


@tiny
async def test_another_device_and_another_simulation_are_not_touched():
    await _failed()
    await SetDevice(1)
    await LaunchKernel(A, 1)
    await SynchronizeDevice()
    async with acl_py.simulate(device="tiny"):
        await LaunchKernel(A, 1)
        await SynchronizeDevice()
    await SetDevice(0)
    with refused(Kind.LAUNCH_FAILURE, "by hand"):
        await SynchronizeDevice()


@tiny
async def test_work_of_a_failed_context_of_another_device_is_refused_too():
    stream, event = await CreateStream(), await CreateEvent()
    launch = await LaunchKernel(broken, 1, (), stream)
    await acl_py.RecordEvent(event, stream)
    await SetDevice(1)
    with pytest.raises(acl_py.AclError, match="by hand"):
        await launch
    for verb in (
        lambda: SynchronizeStream(stream),
        lambda: acl_py.SynchronizeEvent(event),
        lambda: acl_py.StreamWaitEvent(None, event),
    ):
        with refused(Kind.LAUNCH_FAILURE, "by hand"):
            await verb()
    await SynchronizeDevice()


@tiny
async def test_the_last_error_is_forgotten_when_it_is_asked_for_and_not_when_it_is_looked_at():
    assert (await PeekAtLastError(), await GetLastError()) == (0, 0)
    for verb, code in ((lambda: Malloc(0), 1), (lambda: LaunchKernel(A, 0), 9), (lambda: SetDevice(9), 101)):
        with pytest.raises(acl_py.AclError):
            await verb()
        assert [await PeekAtLastError(), await PeekAtLastError(), await GetLastError()] == [code] * 3
        assert [await PeekAtLastError(), await GetLastError()] == [0, 0]
    await _failed()
    assert [await GetLastError(), await GetLastError()] == [719, 0]
    with pytest.raises(acl_py.AclError):
        await SynchronizeDevice()
    assert await GetLastError() == 719


@tiny
async def test_a_query_that_says_not_ready_is_no_error():
    event = await CreateEvent()
    await LaunchKernel(A, 1)
    await acl_py.RecordEvent(event)
    assert await acl_py.QueryEventStatus(event) is acl_py.Status.NOT_READY
    assert await StreamQuery() is acl_py.Status.NOT_READY
    assert await PeekAtLastError() == 0


@tiny
async def test_each_task_has_its_own_last_error_and_inherits_that_of_its_maker():
    with pytest.raises(acl_py.AclError):
        await Malloc(-1)
    inherited = []

    async def child():
        inherited.append(await GetLastError())
        with pytest.raises(acl_py.AclError):
            await LaunchKernel(A, 0)
        await asyncio.sleep(0)
        return await GetLastError()

    assert await asyncio.gather(child(), child()) == [9, 9]
    assert (inherited, await GetLastError()) == ([1, 1], 1)


@tiny
async def test_each_simulation_begins_without_an_error_and_leaves_none():
    with pytest.raises(acl_py.AclError):
        await Malloc(-1)
    async with acl_py.simulate(device="tiny"):
        assert await PeekAtLastError() == 0
        with pytest.raises(acl_py.AclError):
            await SetDevice(9)
    assert await PeekAtLastError() == 1


async def test_verbs_without_a_simulation_say_what_to_do():
    for verb in (SynchronizeDevice, GetLastError, lambda: Malloc(8), lambda: LaunchKernel(A, 1), lambda: SetDevice(0)):
        with pytest.raises(acl_py.AclError) as caught:
            await verb()
        assert caught.value.kind is Kind.NOT_INITIALIZED
        assert str(caught.value) == (
            "cudaErrorInitializationError (3): no simulation is running here; call verbs inside acl_py.run(main), "
            "`async with acl_py.simulate()`, or after sim = acl_py.open()"
        )
    with pytest.raises(acl_py.AclError):
        acl_py.current_simulation()
