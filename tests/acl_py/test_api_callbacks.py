"""Host functions: their turn in a stream, one thread for all, failures."""

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py
from acl_py import (
    CreateStream,
    Kind,
    LaunchHostFunc,
    LaunchKernel,
    Status,
    StreamQuery,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
)

A, B = busy("A", 10), busy("B", 10)


@tiny
async def test_a_host_function_takes_its_turn_in_its_stream():
    sim, a = current_simulation(), await CreateStream()
    begin, seen = sim.now_ns, []
    await LaunchKernel(A, 1, (), a)
    done = await LaunchHostFunc(a, lambda *args: seen.append((args, sim.runtime.scheduler.now - begin)), (1, "x"), us=5)
    await LaunchKernel(B, 1, (), a)
    assert (seen, done.done) == ([], False)
    await SynchronizeStream(a)
    assert seen == [((1, "x"), 16_000)]
    assert history(sim, begin) == [("A", 1_000, 11_000), ("<lambda>", 11_000, 16_000), ("B", 16_000, 26_000)]
    assert calls(sim, begin)[1] == ("LaunchHostFunc", 1_000, 2_000)
    assert [(op.kind, op.engine) for op in sim.trace.ops][1] == ("host_function", "host")


@tiny
async def test_a_hundred_functions_of_one_stream_come_in_order():
    a, out = await CreateStream(), []
    for i in range(100):
        await LaunchHostFunc(a, out.append, (i,))
    await SynchronizeStream(a)
    assert out == list(range(100))


@tiny
async def test_functions_of_all_streams_run_on_one_thread_in_the_order_in_which_they_become_ready():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    begin, out = sim.now_ns, []

    def note(name):
        out.append(name)

    await LaunchKernel(A, 1, (), a)
    await LaunchHostFunc(a, note, ("a",), us=10)
    await LaunchHostFunc(b, note, ("b",), us=10)
    await LaunchHostFunc(b, note, ("b2",), us=10)
    await SynchronizeDevice()
    assert out == ["b", "a", "b2"]
    assert [(start, end) for name, start, end in history(sim, begin) if name == "note"] == [
        (3_000, 13_000),
        (13_000, 23_000),
        (23_000, 33_000),
    ]


@tiny
async def test_a_host_function_sees_what_the_work_before_it_wrote():
    a, host = await CreateStream(), await acl_py.MallocHost(4)
    x, seen = await acl_py.Malloc(4), []
    for value in range(3):
        await acl_py.MemsetAsync(x, 4, value, 4, a)
        await acl_py.MemcpyAsync(host, 4, x, 4, acl_py.MemcpyKind.DEVICE_TO_HOST, a)
        await LaunchHostFunc(a, lambda: seen.append(host.numpy().tolist()))
    await SynchronizeStream(a)
    assert seen == [[0] * 4, [1] * 4, [2] * 4]


@tiny
async def test_the_default_stream_rule_holds_for_host_functions():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await LaunchHostFunc(None, lambda: None, us=5)
    await LaunchKernel(B, 1, (), b)
    assert await StreamQuery() is Status.NOT_READY
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("<lambda>", 11_000, 16_000), ("B", 16_000, 26_000)]


@tiny
async def test_a_function_that_raises_fails_the_context():
    a, out = await CreateStream(), []

    def broken():
        raise KeyError("lost")

    await LaunchHostFunc(a, broken)
    await LaunchHostFunc(a, out.append, ("never",))
    with pytest.raises(acl_py.AclError) as caught:
        await SynchronizeStream(a)
    assert (caught.value.kind, caught.value.code) == (Kind.HOST_FUNCTION_FAILURE, 999)
    assert "<broken on stream 1 submitted at test_api_callbacks.py:" in str(caught.value)
    assert "host function broken raised KeyError: 'lost'" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert out == []  # C5: not called after an error


@tiny
async def test_misuse():
    a = await CreateStream()
    with misused(TypeError, "a host function must be callable, not 5"):
        await LaunchHostFunc(a, 5)
    with misused(ValueError, "us of a host function must be 0 or more, not -1"):
        await LaunchHostFunc(a, print, us=-1)
    with misused(ValueError, "us of a host function must be 0 or more, not nan"):
        await LaunchHostFunc(a, print, us=float("nan"))
    await acl_py.DestroyStream(a)
    with refused(Kind.INVALID_HANDLE, "takes no more work"):
        await LaunchHostFunc(a, print)


@pytest.mark.parametrize("verb", [acl_py.GetDevice, lambda: acl_py.ResetDevice(0), lambda: acl_py.Malloc(8)])
@tiny
async def test_a_host_function_cannot_call_the_runtime(verb):
    a = await CreateStream()
    await LaunchHostFunc(a, lambda: verb().send(None))
    with pytest.raises(acl_py.AclError, match=r"\(\) inside host function <<lambda> on stream 1") as caught:
        await SynchronizeStream(a)
    assert caught.value.kind is Kind.NOT_PERMITTED


@tiny
async def test_a_host_function_may_ask_for_its_simulation():
    sim, seen = current_simulation(), []
    await LaunchHostFunc(None, lambda: seen.append(current_simulation()))
    await SynchronizeDevice()
    assert seen == [sim]


@tiny
async def test_a_host_function_cannot_wait():
    async def wait():
        await SynchronizeDevice()

    with misused(TypeError, "a host function cannot wait, and coroutine function wait does"):
        await LaunchHostFunc(None, wait)
