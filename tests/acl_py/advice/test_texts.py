"""Advice in words: in a terminal and on a page."""

from dataclasses import replace

from chunked import Pipeline, SynchronisesCompute, SynchronisesTwice, WaitsForDownload, recorded
from small import SIZE, chosen, write
from small import recorded as small_run

import acl_py
from acl_py.advice.choosing import missing
from acl_py.advice.texts import Words
from acl_py.causes.path import makespan_ns
from acl_py.explain.recordings import asker_of


def words(timeline):
    return Words(chosen(timeline), timeline, asker_of(timeline, "pipeline").case.program.steps)


def test_all_advice_is_told_together_and_then_each_piece():
    assert words(recorded(SynchronisesTwice)).text.splitlines() == [
        "advice: all of this: 2,320.3 us -> 1,214.6 us, still ordered",
        (
            "  chunked.py:124: SynchronizeStream() orders nothing that is not in order without it "
            "(in this run, 12 of 12). Remove it. Worth 465.4 us of 2,320.3 us. "
            "Needed once it is gone: chunked.py:77 (StreamWaitEvent)."
        ),
        (
            "  chunked.py:123: SynchronizeStream() orders nothing that is not in order without it "
            "(in this run, 12 of 12). Remove it. Worth nothing alone, and 640.4 us with the advice above."
        ),
    ]


def test_advice_about_a_part_has_the_prices_of_the_whole_run():
    timeline = recorded(SynchronisesTwice)
    found = chosen(timeline)
    steps = asker_of(timeline, "pipeline").case.program.steps
    part = Words(replace(found, advice=found.advice[1:]), timeline, steps, elsewhere=1)
    first, piece = part.text.splitlines()
    assert first == (
        "advice: all of this, and 1 more in other parts: 2,320.3 us -> 1,214.6 us in the whole run, still ordered"
    )
    assert piece.endswith("Worth nothing alone, and 640.4 us with the other advice.")
    assert part.data()["after_us"] is None
    assert Words(replace(found, advice=[]), timeline, steps, elsewhere=2).text == (
        "advice: none: no wait of this part is known to be needless"
    )


def test_what_waits_for_too_much_is_told_what_is_enough():
    [_, advice] = words(recorded(WaitsForDownload)).text.splitlines()
    assert advice == (
        "  chunked.py:101: StreamWaitEvent() waits for more than it has to: h2d (chunked.py:59) needs only first "
        "(chunked.py:81). Let stream 1 wait for the event that chunked.py:83 records. "
        "Worth 846.0 us of 2,060.6 us. Needed once it is gone: chunked.py:77 (StreamWaitEvent)."
    )


def test_a_page_marks_the_waits_and_what_they_are_worth():
    timeline = recorded(SynchronisesCompute)
    [found] = words(timeline).on_page()
    assert (found.site, len(found.calls), found.worth_ns) == ("chunked.py:93", 12, 640_369)
    assert found.held_ns == sum(
        call.exit_ns - call.enter_ns for call in timeline.calls if call.name == "SynchronizeStream"
    )


def test_without_advice_it_says_so():
    assert words(recorded(Pipeline)).text == "advice: none: no wait of this run is known to be needless"


def test_more_memory_at_once_is_told():
    """Behind the wait, the pool has the first block for the second allocation."""

    async def program():
        one, two = await acl_py.CreateStream(nonblocking=True), await acl_py.CreateStream(nonblocking=True)
        for stream in (one, two):
            x = await acl_py.MallocAsync(SIZE, stream)
            await write[1, stream](x)
            await acl_py.FreeAsync(x, stream)
            await acl_py.SynchronizeStream(stream)
        await acl_py.SynchronizeDevice()

    first, *_ = words(small_run(program)).text.splitlines()
    assert first.endswith(f"still ordered; memory of devices in use at once: {SIZE:,} -> {2 * SIZE:,} bytes")


def test_what_is_not_known_is_told_with_its_reason():
    async def program():
        stream = await acl_py.CreateStream()
        await acl_py.LaunchHostFunc(stream, print)
        await acl_py.SynchronizeStream(stream)
        await acl_py.SynchronizeDevice()

    [_, doubt] = words(small_run(program)).text.splitlines()
    assert doubt.endswith(" SynchronizeStream(): host functions, which may tell the program something")


def test_an_await_is_no_call():
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await (await write[1, stream](x))
        await acl_py.SynchronizeDevice()

    [_, advice] = words(small_run(program)).text.splitlines()
    assert ": await orders nothing that is not in order without it (in this run, 1 of 1). " in advice


def test_a_run_whose_host_was_not_watched_gets_no_advice():
    text = "advice needs accesses of the host, and the sanitizer's part host was off: run or record"
    assert missing(recorded(Pipeline, sanitize="device")).startswith(text)
    assert missing(recorded(Pipeline)) == ""


def test_a_program_that_polls_is_told_that_it_may_take_longer():
    """With the wait the first answer is "done". Without it the program works for 100 us before it asks again."""

    def polls(waits):
        async def program():
            one, two, ready = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
            x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
            await acl_py.RecordEvent(ready, two)
            await write[1, one](acl_py.Array(x, "u1"))
            await write[1, two](acl_py.Array(y, "u1"))
            if waits > 1:
                await acl_py.SynchronizeStream(one)
            if waits:
                await acl_py.SynchronizeEvent(ready)
            while await acl_py.StreamQuery(two) is acl_py.Status.NOT_READY:
                await acl_py.HostWork(100)
            await acl_py.SynchronizeDevice()

        return small_run(program)

    timeline = polls(waits=2)
    told = words(timeline)
    first, *_, last = told.text.splitlines()
    assert first == "advice: all of this: 24.3 us -> 23.0 us, still ordered"
    line = polls.__code__.co_firstlineno + 11
    assert last == (
        f"  the program asks whether work is done (test_texts.py:{line}): these times have as many queries as this "
        'run, so if an answer becomes "not yet" with the advice, the program may ask again and take longer'
    )
    assert told.data()["notes"] == [last.strip()]
    assert makespan_ns(polls(waits=0)) - makespan_ns(timeline) > 70_000
    repeats = words(polls(waits=1))  # and so does its run without this wait, which does nothing
    assert (len(repeats.advice), "asks" in repeats.text) == (1, False)
