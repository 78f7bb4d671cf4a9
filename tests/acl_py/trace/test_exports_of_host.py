"""Bytes of the host that leave our sight: a recording has where, when, and each byte once."""

import numpy as np

import acl_py as acl

SIZE = 64


def timeline_of(main, **options):
    async def whole():
        await main()
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, device="tiny", **options)


def exports(timeline):
    """The bytes of each export, all of one memory, and the last call before it."""
    return [
        (
            [(each.start, each.stop) for each in row.extents],
            None if row.behind is None else timeline.calls[row.behind].name,
        )
        for row in timeline.exports
    ]


async def hand_out():
    """Get at the memory itself three times."""
    host = await acl.MallocHost(SIZE, name="h")
    view = host.numpy(np.uint8)
    view[:] = 1
    view[8:16].ctypes  # noqa: B018
    await acl.GetDevice()
    view[8:24].__array_interface__  # noqa: B018
    view[12:20].data  # noqa: B018


def test_each_byte_that_code_gets_at_has_one_row_behind_the_call_before_it():
    timeline = timeline_of(hand_out, sanitize="host")
    assert exports(timeline) == [([(8, 16)], "MallocHost"), ([(16, 24)], "GetDevice")]
    assert [row.at_ns for row in timeline.exports] == [call.exit_ns for call in timeline.calls]
    assert {(row.file, row.caller, row.by) for row in timeline.exports} == {(__file__, "task 1", 0)}
    first = hand_out.__code__.co_firstlineno
    assert [row.line - first for row in timeline.exports] == [5, 7]


def test_memory_that_is_allocated_again_is_in_sight_again():
    async def twice():
        for _ in range(2):
            host = await acl.MallocHost(SIZE, name="h")
            host.numpy(np.uint8).ctypes  # noqa: B018
            await acl.FreeHost(host)

    timeline = timeline_of(twice, sanitize="host")
    assert [row.extents for row in timeline.exports] == [((0, 0, SIZE),), ((1, 0, SIZE),)]


def test_a_recording_says_whether_the_host_was_watched():
    flags = [timeline_of(hand_out, sanitize=parts).host_watched for parts in ("host", "device,host", "device", False)]
    assert flags == [True, True, False, False]
    assert not timeline_of(hand_out, sanitize="device").exports


def test_a_sanitizer_that_has_failed_no_longer_watches():
    async def fail():
        await hand_out()
        acl.current_simulation().runtime.sanitizer.fail(ValueError("broken"))

    assert not timeline_of(fail, sanitize="host").host_watched
