"""Streams through the verbs: who waits for whom, destruction, queries, misuse."""

import asyncio
import pickle
from unittest.mock import ANY

import pytest
from histories import busy, calls, history, misused, refused, tiny

import acl_py as acl

A, B, C, D = (busy(name, 10) for name in "ABCD")
TOGETHER = [("A", 1_000, 11_000), ("B", 2_000, 12_000)]
IN_TURN = [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


async def _made(kind):
    match kind:
        case "blocking":
            return await acl.CreateStream()
        case "nonblocking":
            return await acl.CreateStream(nonblocking=True)
        case "legacy":
            return acl.LEGACY_STREAM
        case "per-thread":
            return acl.PER_THREAD_STREAM
    return None


def _pair(first, second, rules):
    """The history of A in a *first* stream and B in a *second*."""

    async def program():
        sim = acl.current_simulation()
        one, two = await _made(first), await _made(second)
        begin = sim.now_ns
        await acl.LaunchKernel(A, 1, (), one)
        await acl.LaunchKernel(B, 1, (), two)
        await acl.SynchronizeDevice()
        return history(sim, begin)

    return acl.run(program, device="tiny", rules=rules)


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
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin = sim.now_ns
    for k, stream in ((A, a), (B, b), (C, None), (D, a), (A, b)):
        await acl.LaunchKernel(k, 1, (), stream)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("A", 1_000, 11_000),
        ("B", 2_000, 12_000),
        ("C", 12_000, 22_000),
        ("A", 22_000, 32_000),
        ("D", 22_000, 32_000),
    ]


@tiny
async def test_a_second_piece_of_legacy_work_waits_for_streams_that_worked_in_between_and_before():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    long = busy("long", 100)
    begin = sim.now_ns
    await acl.LaunchKernel(long, 1, (), a)
    await acl.LaunchKernel(A, 1)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(C, 1)
    await acl.SynchronizeDevice()
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
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.CreateStream(),
        await acl.CreateStream(nonblocking=True),
    )
    other = await acl.CreateEvent()
    await acl.RecordEvent(other, n)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    if verb == "record":
        await acl.RecordEvent(await acl.CreateEvent())
    else:
        await acl.StreamWaitEvent(None, other)
        await acl.StreamWaitEvent(None, other)
    await acl.LaunchKernel(B, 1, (), b)
    await acl.LaunchKernel(C, 1, (), n)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("C", 5_000, 15_000), ("B", 11_000, 21_000)]


@tiny
async def test_a_wait_on_the_legacy_stream_for_an_event_without_a_record_is_no_barrier():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.StreamWaitEvent(None, await acl.CreateEvent())
    await acl.LaunchKernel(B, 1, (), b)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 4_000, 14_000)]


@tiny
async def test_what_legacy_waits_for_all_blocking_streams_wait_for():
    sim, a, n = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    event = await acl.CreateEvent()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), n)
    await acl.RecordEvent(event, n)
    await acl.StreamWaitEvent(None, event)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_query_of_the_legacy_stream_asks_about_blocking_streams_and_not_about_others():
    a, n = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    await acl.LaunchKernel(A, 1, (), n)
    assert await acl.StreamQuery() is acl.Status.COMPLETE
    await acl.LaunchKernel(B, 1, (), a)
    assert [await acl.StreamQuery(stream) for stream in (None, acl.LEGACY_STREAM, acl.PER_THREAD_STREAM, a, n)] == [
        acl.Status.NOT_READY,
        acl.Status.NOT_READY,
        acl.Status.COMPLETE,
        acl.Status.NOT_READY,
        acl.Status.NOT_READY,
    ]
    await acl.SynchronizeStream()
    assert [await acl.StreamQuery(stream) for stream in (None, a, n)] == [acl.Status.COMPLETE] * 3


@tiny
async def test_a_blocking_stream_without_work_of_its_own_is_idle_while_legacy_works():
    a = await acl.CreateStream()
    await acl.LaunchKernel(A, 1)
    assert [await acl.StreamQuery(a), await acl.StreamQuery(acl.PER_THREAD_STREAM)] == [acl.Status.COMPLETE] * 2


@tiny
async def test_sync_of_the_legacy_stream_waits_for_blocking_streams_and_not_for_others():
    sim, a, n = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    begin = sim.now_ns
    await acl.LaunchKernel(busy("long", 50), 1, (), n)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchKernel(B, 1, (), acl.PER_THREAD_STREAM)
    await acl.SynchronizeStream()
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 3_000, 15_000)
    await acl.SynchronizeStream()
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 15_000, 15_300)
    await acl.SynchronizeStream(n)
    assert calls(sim, begin)[-1] == ("SynchronizeStream", 15_300, 53_000)


@tiny
async def test_sync_of_one_stream_leaves_another_busy():
    sim, a, b = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchKernel(busy("long", 40), 1, (), b)
    await acl.SynchronizeStream(a)
    assert [await acl.StreamQuery(a), await acl.StreamQuery(b), await acl.StreamQuery()] == [
        acl.Status.COMPLETE,
        acl.Status.NOT_READY,
        acl.Status.NOT_READY,
    ]
    assert history(sim)[0][0] == "A"


def test_an_answer_is_equal_to_itself_and_to_what_says_so():
    complete, other = acl.Status
    assert [complete == each for each in (complete, other, "complete", None)] == [True, False, False, False]
    assert complete == ANY
    assert {complete: 1, other: 2}[pickle.loads(pickle.dumps(complete))] == 1
    with pytest.raises(TypeError, match=r"^Status.COMPLETE is not a number to compare with 0: "):
        assert complete != 0


@tiny
async def test_a_destroyed_stream_takes_no_more_work_and_its_work_completes():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.LaunchKernel(B, 1, (), a)
    await acl.DestroyStream(a)
    assert sim.now_ns - begin == 3_000
    event = await acl.CreateEvent()
    for verb in (
        lambda: acl.LaunchKernel(A, 1, (), a),
        lambda: acl.SynchronizeStream(a),
        lambda: acl.StreamQuery(a),
        lambda: acl.DestroyStream(a),
        lambda: acl.StreamWaitEvent(a, event),
        lambda: acl.RecordEvent(event, a),
        lambda: acl.LaunchHostFunc(a, print),
        lambda: acl.MallocAsync(64, a),
    ):
        with refused(acl.Kind.INVALID_HANDLE, "stream 1", a.made, f"destroyed at {a.destroyed}", "CreateStream()"):
            await verb()
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_legacy_work_waits_for_what_is_left_in_a_destroyed_stream():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.DestroyStream(a)
    await acl.LaunchKernel(B, 1)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@pytest.mark.parametrize("stream", [None, acl.LEGACY_STREAM, acl.PER_THREAD_STREAM])
@tiny
async def test_default_streams_cannot_be_destroyed(stream):
    with refused(acl.Kind.DEFAULT_STREAM, "is a default stream", "CreateStream()"):
        await acl.DestroyStream(stream)


@pytest.mark.parametrize("wrong", [7, "stream", object, acl.Status.COMPLETE])
@tiny
async def test_what_is_no_stream_is_a_type_error(wrong):
    event = await acl.CreateEvent()
    for verb in (
        lambda: acl.LaunchKernel(A, 1, (), wrong),
        lambda: acl.SynchronizeStream(wrong),
        lambda: acl.StreamQuery(wrong),
        lambda: acl.StreamWaitEvent(wrong, event),
        lambda: acl.RecordEvent(event, wrong),
        lambda: acl.DestroyStream(wrong),
        lambda: acl.MallocAsync(64, wrong),
    ):
        with misused(TypeError, "a stream must be what CreateStream"):
            await verb()


@tiny
async def test_priority_must_be_an_int():
    with misused(TypeError, "priority must be an int, not 'high'"):
        await acl.CreateStream(priority="high")


@tiny
async def test_a_more_urgent_stream_gets_the_cores_first():
    sim, low, high = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream(priority=-1)
    fills = acl.kernel(cost=acl.Cost(us=10), exclusive=True)
    first, later, urgent = (fills(_named(name)) for name in ("first", "later", "urgent"))
    begin = sim.now_ns
    await acl.LaunchKernel(first, 4, (), await acl.CreateStream())
    await acl.LaunchKernel(later, 4, (), low)
    await acl.LaunchKernel(urgent, 4, (), high)
    await acl.SynchronizeDevice()
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
    async with acl.simulate(device="tiny"):
        foreign, event = await acl.CreateStream(), await acl.CreateEvent()
        async with acl.simulate(device="tiny"):
            mine, host = await acl.Malloc(64), await acl.MallocHost(64)
            own = await acl.CreateEvent()
            for verb in (
                lambda: acl.LaunchKernel(A, 1, (), foreign),
                lambda: acl.MemcpyAsync(mine, 64, host, 64, 1, foreign),
                lambda: acl.MemsetAsync(mine, 64, 0, 64, foreign),
                lambda: acl.SynchronizeStream(foreign),
                lambda: acl.StreamQuery(foreign),
                lambda: acl.DestroyStream(foreign),
                lambda: acl.RecordEvent(own, foreign),
                lambda: acl.RecordEvent(event, None),
                lambda: acl.StreamWaitEvent(foreign, own),
                lambda: acl.StreamWaitEvent(None, event),
                lambda: acl.SynchronizeEvent(event),
                lambda: acl.QueryEventStatus(event),
                lambda: acl.EventElapsedTime(event, own),
                lambda: acl.DestroyEvent(event),
                lambda: acl.LaunchHostFunc(foreign, print),
                lambda: acl.MallocAsync(64, foreign),
                lambda: acl.FreeAsync(mine, foreign),
            ):
                with refused(acl.Kind.INVALID_HANDLE, "another simulation", "in the simulation that uses them"):
                    await verb()
        assert await acl.StreamQuery(foreign) is acl.Status.COMPLETE


@tiny
async def test_tasks_that_submit_to_streams_of_their_own_overlap_on_the_device():
    sim, streams = acl.current_simulation(), [await acl.CreateStream() for _ in range(3)]
    begin = sim.now_ns

    async def work(stream):
        await acl.LaunchKernel(A, 1, (), stream)
        await acl.SynchronizeStream(stream)
        return sim.now_ns - begin

    assert await asyncio.gather(*map(work, streams)) == [13_000, 15_000, 17_000]
    assert history(sim, begin) == [("A", 1_000, 11_000), ("A", 2_300, 12_300), ("A", 3_600, 13_600)]
