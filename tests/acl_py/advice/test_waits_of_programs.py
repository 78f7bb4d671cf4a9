"""Which waits of small programs are needed, needless or not known, and why."""

import asyncio

import numpy as np
import pytest
from small import D2H, H2D, SIZE, read, recorded, said, two_streams, write

import acl_py
from acl_py.advice.choosing import Chooser
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Asker


def test_waits_that_order_nothing_go():
    async def program():
        one, two, event = await two_streams()
        x = await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(one, event)
        await acl_py.StreamWaitEvent(two, event)
        await read[1, two](x)
        await acl_py.SynchronizeEvent(event)
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "StreamWaitEvent(one, event)": "REMOVE",
        "StreamWaitEvent(two, event)": "needed",
        "SynchronizeEvent(event)": "REMOVE",
        "SynchronizeDevice()": "stays",
    }


def test_a_wait_for_what_the_host_reads_is_needed():
    async def program():
        stream = await acl_py.CreateStream()
        x, host = await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE)
        await write[1, stream](x)
        await acl_py.MemcpyAsync(host, SIZE, x, SIZE, D2H, stream)
        await acl_py.SynchronizeStream(stream)
        assert host.numpy()[0] == 1
        await write[1, stream](x)
        await acl_py.SynchronizeDevice()

    assert said(program) == {"SynchronizeStream(stream)": "needed", "SynchronizeDevice()": "stays"}


def test_a_wait_before_a_free_is_needed():
    """The free would wait itself, but nothing promises that."""

    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        await acl_py.SynchronizeStream(stream)
        await acl_py.Free(x)
        await acl_py.SynchronizeDevice()

    assert said(program) == {"SynchronizeStream(stream)": "needed", "SynchronizeDevice()": "stays"}


def test_only_the_last_wait_of_a_loop_may_be_needed():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        host = await acl_py.MallocHost(3 * SIZE)
        await write[1, stream](x)
        for place in range(3):
            await acl_py.MemcpyAsync(host + place * SIZE, SIZE, x, SIZE, D2H, stream)
            await acl_py.SynchronizeStream(stream)
        assert (host.numpy() == 1).all()
        await acl_py.SynchronizeDevice()

    assert said(program) == {"SynchronizeStream(stream)": "LAST", "SynchronizeDevice()": "stays"}


def test_a_kernel_whose_bytes_are_not_declared_may_touch_all_of_them():
    @acl_py.kernel(cost=acl_py.Cost(us=20))
    def unknown():
        pass

    async def program():
        one, two, event = await two_streams()
        await write[1, one](await acl_py.Malloc(SIZE))
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await unknown[1, two]()
        await acl_py.SynchronizeDevice()

    assert said(program) == {"StreamWaitEvent(two, event)": "KERNEL", "SynchronizeDevice()": "stays"}


def test_an_array_may_be_read_unseen():
    """Also one that is registered. The second wait tells the host nothing."""

    async def program():
        stream, x, array = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), np.zeros(SIZE, np.uint8)
        await acl_py.HostRegister(array)
        await acl_py.MemcpyAsync(array, SIZE, x, SIZE, D2H, stream)
        await acl_py.SynchronizeStream(stream)
        await acl_py.SynchronizeDevice()
        await write[1, stream](x)
        await acl_py.SynchronizeStream(stream)  # the last one

    assert said(program) == {
        "SynchronizeStream(stream)": "HOST",
        "SynchronizeDevice()": "REMOVE",
        "SynchronizeStream(stream)  # the last one": "stays",
    }


def test_an_address_may_be_used_unseen():
    async def program():
        stream, x, host = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE)
        view = host.numpy().data  # a memoryview
        await acl_py.MemcpyAsync(x, SIZE, host, SIZE, H2D, stream)
        await acl_py.SynchronizeStream(stream)
        view[0] = 1
        await acl_py.MemcpyAsync(x, SIZE, host, SIZE, H2D, stream)
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeStream(stream)"] == "HOST"


def test_a_host_function_may_tell_the_program_something():
    async def program():
        stream, ran = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(stream, lambda: ran.append(1))
        await acl_py.SynchronizeStream(stream)
        assert ran
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeStream(stream)"] == "FUNCTION"


def test_a_query_behind_a_wait_may_depend_on_it():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        await acl_py.SynchronizeStream(stream)
        assert await acl_py.StreamQuery(stream) is acl_py.Status.COMPLETE
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeStream(stream)"] == "TOLD"


def test_a_look_at_the_clock_may_depend_on_a_wait():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        await acl_py.SynchronizeStream(stream)
        assert acl_py.current_simulation().now_ns > 20_000
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeStream(stream)"] == "TOLD"


def test_a_query_about_other_work_does_not_depend_on_a_wait():
    async def program():
        one, two, _ = await two_streams(nonblocking=True)
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await write[1, two](y)
        await acl_py.SynchronizeStream(one)
        await acl_py.StreamQuery(two)
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeStream(one)"] == "REMOVE"


def test_a_look_at_the_clock_does_not_depend_on_a_wait_for_what_is_known():
    async def program():
        one, two, _ = await two_streams(nonblocking=True)
        x = await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.SynchronizeStream(one)
        await acl_py.SynchronizeStream(two)
        assert acl_py.current_simulation().now_ns > 20_000
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "SynchronizeStream(one)": "TOLD",
        "SynchronizeStream(two)": "REMOVE",
        "SynchronizeDevice()": "stays",
    }


def test_a_time_between_events_may_depend_on_a_wait_for_one_that_is_behind_nothing():
    async def program():
        stream = await acl_py.CreateStream()
        start, end = [await acl_py.CreateEvent() for _ in range(2)]
        await acl_py.RecordEvent(start, stream)
        await acl_py.RecordEvent(end, stream)
        await acl_py.SynchronizeEvent(end)
        assert await acl_py.EventElapsedTime(start, end) >= 0
        await acl_py.SynchronizeDevice()

    assert said(program)["SynchronizeEvent(end)"] == "TOLD"


def test_a_query_does_not_depend_on_a_wait_if_an_earlier_one_knows_its_answer():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        await acl_py.SynchronizeStream(stream)
        await acl_py.SynchronizeDevice()
        assert await acl_py.StreamQuery(stream) is acl_py.Status.COMPLETE
        await acl_py.SynchronizeDevice()

    assert list(said(program).values()).count("REMOVE") == 1


def test_what_a_task_hands_on_may_say_that_work_is_done():
    async def program():
        stream, x, done = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), asyncio.Event()

        async def work():
            await write[1, stream](x)
            await acl_py.SynchronizeStream(stream)
            done.set()
            await acl_py.SynchronizeDevice()

        async def follow():
            await done.wait()
            await acl_py.SynchronizeStream(stream)  # of the other task

        await asyncio.gather(work(), follow())

    assert said(program)["SynchronizeStream(stream)"] == "TOLD"


def test_a_wait_that_can_time_out_stays():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        await acl_py.SynchronizeStreamWithTimeout(stream, 1000)
        await acl_py.SynchronizeDevice()

    assert said(program, rules="acl")["SynchronizeStreamWithTimeout(stream, 1000)"] == "LIMIT"


def test_a_wait_that_forks_a_capture_stays():
    async def program():
        one, two, event = await two_streams()
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await acl_py.BeginCapture(one)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await write[1, two](y)
        await acl_py.RecordEvent(event, two)
        await acl_py.StreamWaitEvent(one, event)
        await acl_py.GraphLaunch(await acl_py.GraphInstantiate(await acl_py.EndCapture(one)), one)
        await acl_py.SynchronizeDevice()

    answers = said(program)
    assert answers["StreamWaitEvent(two, event)"] == answers["StreamWaitEvent(one, event)"] == "CAPTURE"


def handed_on(*, through, waits):
    """A program in which one stream writes what another one reads, behind a record and a wait, with work between them:
    a copy in the *stream* or, if that is None, a synchronous one.
    """

    async def program():
        one, two, event = await two_streams()
        own = await acl_py.CreateStream(nonblocking=True)
        x, host, y = await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        if through == "Memcpy":
            await acl_py.Memcpy(y, SIZE, host, SIZE, H2D)
        else:
            await acl_py.MemcpyAsync(y, SIZE, host, SIZE, H2D, own if through == "own" else acl_py.LEGACY_STREAM)
        if waits:
            await acl_py.StreamWaitEvent(two, event)
        await write[1, two](x)
        await acl_py.SynchronizeDevice()

    return program


@pytest.mark.parametrize("through", ["legacy", "Memcpy"])
def test_a_wait_that_only_a_barrier_makes_redundant_stays_if_the_barrier_is_a_finding(through):
    """Whoever follows all advice has no race: the copy gets a stream of its own."""
    assert said(handed_on(through=through, waits=True))["StreamWaitEvent(two, event)"] == "needed"
    findings = []

    async def program():
        await handed_on(through="own", waits=True)()
        findings.extend(acl_py.current_simulation().findings)

    recorded(program)
    assert findings == []


def test_a_wait_for_a_notify_stays():
    async def program():
        one, two, _ = await two_streams()
        notify = await acl_py.CreateNotify()
        await acl_py.RecordNotify(notify, one)
        await acl_py.WaitAndResetNotify(notify, two)
        await acl_py.SynchronizeDevice()

    assert said(program, rules="acl")["WaitAndResetNotify(notify, two)"] == "SIGNAL"


def test_a_wait_that_another_one_hides_is_judged_again_when_that_is_gone():
    """Each of the first two can go, and is worth its call. Without the other one, a wait in a stream is enough."""

    async def program():
        one, two, _ = await two_streams(nonblocking=True)
        x = await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.SynchronizeStream(one)
        await acl_py.SynchronizeDevice()  # another time
        await acl_py.HostWork(30)
        await read[1, two](x)
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "SynchronizeStream(one)": "WEAKER",
        "SynchronizeDevice()  # another time": "REMOVE",
        "SynchronizeDevice()": "stays",
    }


def test_a_copy_by_rows_touches_its_rows_and_not_what_lies_between():
    async def program():
        one, two, event = await two_streams(nonblocking=True)
        x, host = await acl_py.Malloc(64), await acl_py.MallocHost(64)
        await acl_py.Memcpy2dAsync(x, 16, host, 16, 4, 4, H2D, one)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await acl_py.MemsetAsync(x[48:52], 4, 1, 4, stream=two)  # the last row
        await acl_py.SynchronizeStream(one)
        await acl_py.MemsetAsync(x[52:56], 4, 1, 4, stream=two)  # behind it
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "StreamWaitEvent(two, event)": "needed",
        "SynchronizeStream(one)": "REMOVE",
        "SynchronizeDevice()": "stays",
    }


def test_what_only_the_end_of_an_event_needs_goes_with_the_wait_for_that_event():
    """Nothing waits for the event then, so its record goes, and its end need not come behind the work."""

    async def program():
        one, two, event = await two_streams()
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await write[1, two](y)
        await acl_py.SynchronizeStream(one)
        await acl_py.DestroyEvent(event)
        await write[1, two](y)
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "StreamWaitEvent(two, event)": "REMOVE",
        "SynchronizeStream(one)": "REMOVE",
        "SynchronizeDevice()": "stays",
    }


def test_what_the_end_of_an_event_needs_stays_with_a_wait_for_that_event_that_is_needed():
    async def program():
        one, two, event = await two_streams()
        x = await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await write[1, two](x)
        await acl_py.SynchronizeEvent(event)
        await acl_py.DestroyEvent(event)
        await write[1, two](x)
        await acl_py.SynchronizeDevice()

    assert said(program) == {
        "StreamWaitEvent(two, event)": "needed",
        "SynchronizeEvent(event)": "needed",
        "SynchronizeDevice()": "stays",
    }


def test_a_record_in_the_legacy_stream_stays_where_it_is_a_barrier():
    """Nothing waits for its event any more, but it puts the work of one stream in order with that of the other."""

    async def program():
        one, two, event = await two_streams()
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordEvent(event)
        await write[1, two](y)
        await acl_py.SynchronizeEvent(event)
        await write[1, two](x)
        await acl_py.SynchronizeDevice()

    timeline = recorded(program)
    found = Chooser(asker_of(timeline, "program"), timeline).choose()
    (piece,) = found.advice
    assert (piece.way.form.name, piece.way.edited.records) == ("REMOVE", ())
    assert found.together.conflicts == ()
    assert not Asker(found.together.case).findings


def test_an_order_that_only_a_free_makes_is_none():
    """A free waits for all work, but nothing promises that."""

    async def program():
        one, two, _ = await two_streams()
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.SynchronizeStream(one)
        await acl_py.Free(y)
        await write[1, two](x)
        await acl_py.SynchronizeDevice()

    asker = asker_of(recorded(program), "program")
    case = asker.case.with_steps(lambda step: [] if step.op == "sync_stream" else [step])
    assert asker.compare(case, "without the wait").conflicts == ()
    (conflict,) = asker.compare(case, "without the wait", order_only=True).conflicts
    assert conflict.count("kernel 'write'") == 2
    assert said(program) == {"SynchronizeStream(one)": "needed", "SynchronizeDevice()": "stays"}
