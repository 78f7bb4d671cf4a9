"""Handovers in a recording: which host gave what it knew, when, and which host took it."""

import asyncio

import numpy as np
from histories import busy

import acl_py as acl

kernel = busy("k", 10)


def timeline_of(main, **options):
    async def whole():
        await main()
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, **{"device": "tiny", "sanitize": "device"} | options)


def rows(timeline):
    """Each handover: when it was given and by whom, behind which call; when it was taken and by whom, likewise."""

    def host(place):
        return None if place is None else "/".join(each.name for each in timeline.hosts[place].callers)

    def call(place):
        return None if place is None else timeline.calls[place].name

    return [
        (each.given_ns, host(each.giver), call(each.given_behind), each.at_ns, host(each.taker), call(each.behind))
        for each in timeline.handovers
    ]


async def hand_on():
    """One task gives when it has synchronised, and the other one takes it up later."""
    queue = asyncio.Queue()

    async def giver():
        stream = await acl.CreateStream()
        await kernel[1, stream]()
        await acl.SynchronizeStream(stream)
        queue.put_nowait("item")
        await acl.GetDevice()

    async def taker():
        await acl.Sleep(50)
        queue.get_nowait()

    await asyncio.gather(asyncio.create_task(giver(), name="giver"), asyncio.create_task(taker(), name="taker"))


def test_an_item_that_lies_in_a_queue_was_given_when_it_was_put_there():
    timeline = timeline_of(hand_on)
    put_ns, got_ns = (next(call.exit_ns for call in timeline.calls if call.name == name)
                      for name in ("SynchronizeStream", "Sleep"))  # fmt: skip
    given = [row for row in rows(timeline) if row[1] == "task 'giver'"]
    assert given[0] == (put_ns, "task 'giver'", "SynchronizeStream", got_ns, "task 'taker'", "Sleep")
    assert all(row.seen for row in timeline.handovers)


def test_what_is_taken_twice_has_one_row():
    async def many():
        event = asyncio.Event()
        await acl.GetDevice()
        event.set()

        async def look():
            for _ in range(100):
                event.is_set()
                await asyncio.sleep(0)

        await asyncio.create_task(look(), name="looker")

    assert [row[4] for row in rows(timeline_of(many))].count("task 'looker'") <= 2


def test_a_task_that_lets_others_run_hands_itself_nothing():
    """So what it reads and writes meanwhile is one row for each line."""

    async def rest():
        view = (await acl.MallocHost(64)).numpy(np.uint8)
        for index in range(64):
            view[index] = index
            await asyncio.sleep(0)

    timeline = timeline_of(rest, sanitize="host,device")
    assert (rows(timeline), len(timeline.accesses)) == ([], 1)


def test_a_host_function_gives_what_was_over_when_it_ran():
    async def function():
        stream, event, loop = await acl.CreateStream(), asyncio.Event(), asyncio.get_running_loop()
        await acl.LaunchHostFunc(stream, lambda: loop.call_soon_threadsafe(event.set))
        await event.wait()

    timeline = timeline_of(function)
    [given] = [row for row in timeline.handovers if row.after is not None]
    assert (given.giver, timeline.ops[given.after].kind) == (None, "host_function")
    assert timeline.hosts[given.taker].callers[0].name == "task 1"


def test_what_threads_tell_one_another_is_taken_for_granted():
    async def threads():
        view = (await acl.MallocHost(64)).numpy(np.uint8)
        await asyncio.to_thread(view.fill, 1)
        view.sum()

    timeline = timeline_of(threads, sanitize="host,device")
    granted = [row for row in timeline.handovers if not row.seen]
    first, last = granted[0], granted[-1]
    names = [[host.callers[0].name.split()[0] for host in (timeline.hosts[row.giver], timeline.hosts[row.taker])]
             for row in (first, last)]  # fmt: skip
    assert names == [["task", "thread"], ["thread", "task"]]
    assert first.since is None  # before what the thread wrote
    assert last.given_since is not None  # behind it


def test_a_recording_says_whether_handovers_were_watched():
    flags = [timeline_of(hand_on, sanitize=parts).handovers_watched for parts in ("device", "leaks", False)]
    assert flags == [True, False, False]
    assert not timeline_of(hand_on, sanitize=False).hosts


def test_a_sanitizer_that_has_failed_no_longer_watches_tasks():
    async def fail():
        await hand_on()
        acl.current_simulation().runtime.sanitizer.fail(ValueError("broken"))

    assert not timeline_of(fail).handovers_watched
