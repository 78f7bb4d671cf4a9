"""Host functions: their turn in a stream, one thread for all, failures."""

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py as acl

A, B = busy("A", 10), busy("B", 10)


@tiny
async def test_a_host_function_takes_its_turn_in_its_stream():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin, seen = sim.now_ns, []
    await acl.LaunchKernel(A, 1, (), a)
    done = await acl.LaunchHostFunc(
        a, lambda *args: seen.append((args, sim.runtime.scheduler.now - begin)), (1, "x"), us=5
    )
    await acl.LaunchKernel(B, 1, (), a)
    assert (seen, done.done) == ([], False)
    await acl.SynchronizeStream(a)
    assert seen == [((1, "x"), 16_000)]
    assert history(sim, begin) == [("A", 1_000, 11_000), ("<lambda>", 11_000, 16_000), ("B", 16_000, 26_000)]
    assert calls(sim, begin)[1] == ("LaunchHostFunc", 1_000, 2_000)
    assert [(op.kind, op.engine) for op in sim.trace.ops][1] == ("host_function", "host")


@tiny
async def test_a_hundred_functions_of_one_stream_come_in_order():
    a, out = await acl.CreateStream(), []
    for i in range(100):
        await acl.LaunchHostFunc(a, out.append, (i,))
    await acl.SynchronizeStream(a)
    assert out == list(range(100))


@tiny
async def test_functions_of_all_streams_run_on_one_thread_in_the_order_in_which_they_become_ready():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin, out = sim.now_ns, []

    def note(name):
        out.append(name)

    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchHostFunc(a, note, ("a",), us=10)
    await acl.LaunchHostFunc(b, note, ("b",), us=10)
    await acl.LaunchHostFunc(b, note, ("b2",), us=10)
    await acl.SynchronizeDevice()
    assert out == ["b", "a", "b2"]
    assert [(start, end) for name, start, end in history(sim, begin) if name == "note"] == [
        (3_000, 13_000),
        (13_000, 23_000),
        (23_000, 33_000),
    ]


@tiny
async def test_a_host_function_sees_what_the_work_before_it_wrote():
    a, host = await acl.CreateStream(), await acl.MallocHost(4)
    x, seen = await acl.Malloc(4), []
    for value in range(3):
        await acl.MemsetAsync(x, 4, value, 4, a)
        await acl.MemcpyAsync(host, 4, x, 4, acl.MemcpyKind.DEVICE_TO_HOST, a)
        await acl.LaunchHostFunc(a, lambda: seen.append(host.numpy().tolist()))
    await acl.SynchronizeStream(a)
    assert seen == [[0] * 4, [1] * 4, [2] * 4]


@tiny
async def test_the_default_stream_rule_holds_for_host_functions():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchHostFunc(None, lambda: None, us=5)
    await acl.LaunchKernel(B, 1, (), b)
    assert await acl.StreamQuery() is acl.Status.NOT_READY
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("<lambda>", 11_000, 16_000), ("B", 16_000, 26_000)]


@tiny
async def test_a_function_that_raises_fails_the_context():
    a, out = await acl.CreateStream(), []

    def broken():
        raise KeyError("lost")

    await acl.LaunchHostFunc(a, broken)
    await acl.LaunchHostFunc(a, out.append, ("never",))
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeStream(a)
    assert (caught.value.kind, caught.value.code) == (acl.Kind.HOST_FUNCTION_FAILURE, 999)
    assert "<broken on stream 1 submitted at test_api_callbacks.py:" in str(caught.value)
    assert "host function broken raised KeyError: 'lost'" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert out == []  # C5: not called after an error


@tiny
async def test_misuse():
    a = await acl.CreateStream()
    with misused(TypeError, "a host function must be callable, not 5"):
        await acl.LaunchHostFunc(a, 5)
    with misused(ValueError, "us of a host function must be 0 or more, not -1"):
        await acl.LaunchHostFunc(a, print, us=-1)
    with misused(ValueError, "us of a host function must be 0 or more, not nan"):
        await acl.LaunchHostFunc(a, print, us=float("nan"))
    await acl.DestroyStream(a)
    with refused(acl.Kind.INVALID_HANDLE, "takes no more work"):
        await acl.LaunchHostFunc(a, print)


@pytest.mark.parametrize("verb", [acl.GetDevice, lambda: acl.ResetDevice(0), lambda: acl.Malloc(8)])
@tiny
async def test_a_host_function_cannot_call_the_runtime(verb):
    a = await acl.CreateStream()
    await acl.LaunchHostFunc(a, lambda: verb().send(None))
    with pytest.raises(acl.AclError, match=r"\(\) inside host function <<lambda> on stream 1") as caught:
        await acl.SynchronizeStream(a)
    assert caught.value.kind is acl.Kind.NOT_PERMITTED


@tiny
async def test_a_host_function_may_ask_for_its_simulation():
    sim, seen = acl.current_simulation(), []
    await acl.LaunchHostFunc(None, lambda: seen.append(acl.current_simulation()))
    await acl.SynchronizeDevice()
    assert seen == [sim]


@tiny
async def test_a_host_function_cannot_wait():
    async def wait():
        await acl.SynchronizeDevice()

    with misused(TypeError, "a host function cannot wait, and coroutine function wait does"):
        await acl.LaunchHostFunc(None, wait)
