"""Streams through the verbs: who waits for whom, destruction, queries, misuse."""

import asyncio

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py
from acl_py import (
    LEGACY_STREAM,
    PER_THREAD_STREAM,
    CreateEvent,
    CreateStream,
    DestroyStream,
    Kind,
    LaunchKernel,
    RecordEvent,
    Status,
    StreamQuery,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeStream,
    current_simulation,
)

A, B, C, D = (busy(name, 10) for name in "ABCD")
TOGETHER = [("A", 1_000, 11_000), ("B", 2_000, 12_000)]
IN_TURN = [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


async def _made(kind):
    match kind:
        case "blocking":
            return await CreateStream()
        case "nonblocking":
            return await CreateStream(nonblocking=True)
        case "legacy":
            return LEGACY_STREAM
        case "per-thread":
            return PER_THREAD_STREAM
    return None


def _pair(first, second, rules):
    """The history of A in a *first* stream and B in a *second*."""

    async def program():
        sim = current_simulation()
        one, two = await _made(first), await _made(second)
        begin = sim.now_ns
        await LaunchKernel(A, 1, (), one)
        await LaunchKernel(B, 1, (), two)
        await SynchronizeDevice()
        return history(sim, begin)

    return acl_py.run(program, device="tiny", rules=rules)


LEGACY_RULE = {
    ("legacy", "legacy"), ("legacy", "blocking"), ("legacy", "per-thread"), ("blocking", "legacy"),
    ("per-thread", "legacy"), ("per-thread", "per-thread"),
}  # fmt: skip


@pytest.mark.parametrize("rules", ["cuda", "cuda_per_thread"])
@pytest.mark.parametrize("second", ["legacy", "blocking", "per-thread", "nonblocking"])
@pytest.mark.parametrize("first", ["legacy", "blocking", "per-thread", "nonblocking"])
def test_work_of_the_second_stream_waits_for_the_first_by_the_default_stream_rule_only(first, second, rules):
    assert _pair(first, second, rules) == (IN_TURN if (first, second) in LEGACY_RULE else TOGETHER)


@pytest.mark.parametrize("other", ["legacy", "blocking", "per-thread", "nonblocking"])
@pytest.mark.parametrize(("rules", "meaning"), [("cuda", "legacy"), ("cuda_per_thread", "per-thread")])
def test_none_means_what_the_rules_say(rules, meaning, other):
    assert _pair("none", other, rules) == _pair(meaning, other, rules)
    assert _pair(other, "none", rules) == _pair(other, meaning, rules)


@tiny
async def test_two_streams_before_and_behind_legacy_work_overlap_and_wait_for_it():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    begin = sim.now_ns
    for k, stream in ((A, a), (B, b), (C, None), (D, a), (A, b)):
        await LaunchKernel(k, 1, (), stream)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000),
        ("B", 2_000, 12_000),
        ("C", 12_000, 22_000),
        ("A", 22_000, 32_000),
        ("D", 22_000, 32_000),
    ]


@tiny
async def test_a_second_piece_of_legacy_work_waits_for_streams_that_worked_in_between_and_before():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    long = busy("long", 100)
    begin = sim.now_ns
    await LaunchKernel(long, 1, (), a)
    await LaunchKernel(A, 1)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(C, 1)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("long", 1_000, 101_000),
        ("A", 101_000, 111_000),
        ("B", 111_000, 121_000),
        ("C", 121_000, 131_000),
    ]


@pytest.mark.parametrize("verb", ["record", "wait"])
@tiny
async def test_a_record_or_a_wait_on_the_legacy_stream_is_a_barrier(verb):
    sim, a, b, n = (
        current_simulation(),
        await CreateStream(),
        await CreateStream(),
        await CreateStream(nonblocking=True),
    )
    other = await CreateEvent()
    await RecordEvent(other, n)
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    if verb == "record":
        await RecordEvent(await CreateEvent())
    else:
        await StreamWaitEvent(None, other)
        await StreamWaitEvent(None, other)
    await LaunchKernel(B, 1, (), b)
    await LaunchKernel(C, 1, (), n)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("C", 5_000, 15_000), ("B", 11_000, 21_000)]


@tiny
async def test_what_legacy_waits_for_all_blocking_streams_wait_for():
    sim, a, n = current_simulation(), await CreateStream(), await CreateStream(nonblocking=True)
    event = await CreateEvent()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), n)
    await RecordEvent(event, n)
    await StreamWaitEvent(None, event)
    await LaunchKernel(B, 1, (), a)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_query_of_the_legacy_stream_asks_about_blocking_streams_and_not_about_others():
    a, n = await CreateStream(), await CreateStream(nonblocking=True)
    await LaunchKernel(A, 1, (), n)
    assert await StreamQuery() is Status.COMPLETE
    await LaunchKernel(B, 1, (), a)
    assert [await StreamQuery(stream) for stream in (None, LEGACY_STREAM, PER_THREAD_STREAM, a, n)] == [
        Status.NOT_READY,
        Status.NOT_READY,
        Status.COMPLETE,
        Status.NOT_READY,
        Status.NOT_READY,
    ]
    await SynchronizeStream()
    assert [await StreamQuery(stream) for stream in (None, a, n)] == [Status.COMPLETE] * 3


@tiny
async def test_a_blocking_stream_without_work_of_its_own_is_idle_while_legacy_works():
    a = await CreateStream()
    await LaunchKernel(A, 1)
    assert [await StreamQuery(a), await StreamQuery(PER_THREAD_STREAM)] == [Status.COMPLETE] * 2


@tiny
async def test_sync_of_the_legacy_stream_waits_for_blocking_streams_and_not_for_others():
    sim, a, n = current_simulation(), await CreateStream(), await CreateStream(nonblocking=True)
    begin = sim.now_ns
    await LaunchKernel(busy("long", 50), 1, (), n)
    await LaunchKernel(A, 1, (), a)
    await LaunchKernel(B, 1, (), PER_THREAD_STREAM)
    await SynchronizeStream()
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 3_000, 15_000)
    await SynchronizeStream()
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 15_000, 15_300)
    await SynchronizeStream(n)
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 15_300, 53_000)


@tiny
async def test_sync_of_one_stream_leaves_another_busy():
    sim, a, b = current_simulation(), await CreateStream(), await CreateStream()
    await LaunchKernel(A, 1, (), a)
    await LaunchKernel(busy("long", 40), 1, (), b)
    await SynchronizeStream(a)
    assert [await StreamQuery(a), await StreamQuery(b), await StreamQuery()] == [
        Status.COMPLETE,
        Status.NOT_READY,
        Status.NOT_READY,
    ]
    assert history(sim)[0][0] == "A"


@tiny
async def test_a_destroyed_stream_takes_no_more_work_and_its_work_completes():
    sim, a = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await LaunchKernel(B, 1, (), a)
    await DestroyStream(a)
    assert sim.now_ns - begin == 3_000
    event = await CreateEvent()
    for verb in (
        lambda: LaunchKernel(A, 1, (), a),
        lambda: SynchronizeStream(a),
        lambda: StreamQuery(a),
        lambda: DestroyStream(a),
        lambda: StreamWaitEvent(a, event),
        lambda: RecordEvent(event, a),
        lambda: acl_py.LaunchHostFunc(a, print),
        lambda: acl_py.MallocAsync(64, a),
    ):
        with refused(Kind.INVALID_HANDLE, "stream 1", a.made, f"destroyed at {a.destroyed}", "CreateStream()"):
            await verb()
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_legacy_work_waits_for_what_is_left_in_a_destroyed_stream():
    sim, a = current_simulation(), await CreateStream()
    begin = sim.now_ns
    await LaunchKernel(A, 1, (), a)
    await DestroyStream(a)
    await LaunchKernel(B, 1)
    await SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("stream", [None, LEGACY_STREAM, PER_THREAD_STREAM])
@tiny
async def test_default_streams_cannot_be_destroyed(stream):
    with refused(Kind.DEFAULT_STREAM, "is a default stream", "CreateStream()"):
        await DestroyStream(stream)


@pytest.mark.parametrize("wrong", [7, "stream", object, Status.COMPLETE])
@tiny
async def test_what_is_no_stream_is_a_type_error(wrong):
    event = await CreateEvent()
    for verb in (
        lambda: LaunchKernel(A, 1, (), wrong),
        lambda: SynchronizeStream(wrong),
        lambda: StreamQuery(wrong),
        lambda: StreamWaitEvent(wrong, event),
        lambda: RecordEvent(event, wrong),
        lambda: DestroyStream(wrong),
        lambda: acl_py.MallocAsync(64, wrong),
    ):
        with misused(TypeError, "a stream must be what CreateStream"):
            await verb()


@tiny
async def test_priority_must_be_an_int():
    with misused(TypeError, "priority must be an int, not 'high'"):
        await CreateStream(priority="high")


@tiny
async def test_a_more_urgent_stream_gets_the_cores_first():
    sim, low, high = current_simulation(), await CreateStream(), await CreateStream(priority=-1)
    fills = acl_py.kernel(cost=acl_py.Cost(us=10), exclusive=True)
    first, later, urgent = (fills(_named(name)) for name in ("first", "later", "urgent"))
    begin = sim.now_ns
    await LaunchKernel(first, 4, (), await CreateStream())
    await LaunchKernel(later, 4, (), low)
    await LaunchKernel(urgent, 4, (), high)
    await SynchronizeDevice()
    assert history(sim, begin) == [
        ("first", 2_000, 12_000),
        ("urgent", 12_000, 22_000),
        ("later", 22_000, 32_000),
    ]


def _named(name):
    def work():
        pass

    work.__name__ = name
    return work


@tiny
async def test_a_stream_of_another_simulation_is_refused_by_every_verb():
    async with acl_py.simulate(device="tiny"):
        foreign, event = await CreateStream(), await CreateEvent()
        async with acl_py.simulate(device="tiny"):
            mine, host = await acl_py.Malloc(64), await acl_py.MallocHost(64)
            own = await CreateEvent()
            for verb in (
                lambda: LaunchKernel(A, 1, (), foreign),
                lambda: acl_py.MemcpyAsync(mine, 64, host, 64, 1, foreign),
                lambda: acl_py.MemsetAsync(mine, 64, 0, 64, foreign),
                lambda: SynchronizeStream(foreign),
                lambda: StreamQuery(foreign),
                lambda: DestroyStream(foreign),
                lambda: RecordEvent(own, foreign),
                lambda: RecordEvent(event, None),
                lambda: StreamWaitEvent(foreign, own),
                lambda: StreamWaitEvent(None, event),
                lambda: acl_py.SynchronizeEvent(event),
                lambda: acl_py.QueryEventStatus(event),
                lambda: acl_py.EventElapsedTime(event, own),
                lambda: acl_py.DestroyEvent(event),
                lambda: acl_py.LaunchHostFunc(foreign, print),
                lambda: acl_py.MallocAsync(64, foreign),
                lambda: acl_py.FreeAsync(mine, foreign),
            ):
                with refused(Kind.INVALID_HANDLE, "another simulation", "in the simulation that uses them"):
                    await verb()
        assert await StreamQuery(foreign) is Status.COMPLETE


@tiny
async def test_tasks_that_submit_to_streams_of_their_own_overlap_on_the_device():
    sim, streams = current_simulation(), [await CreateStream() for _ in range(3)]
    begin = sim.now_ns

    async def work(stream):
        await LaunchKernel(A, 1, (), stream)
        await SynchronizeStream(stream)
        return sim.now_ns - begin

    assert await asyncio.gather(*map(work, streams)) == [13_000, 15_000, 17_000]
    assert history(sim, begin) == [("A", 1_000, 11_000), ("A", 2_300, 12_300), ("A", 3_600, 13_600)]
