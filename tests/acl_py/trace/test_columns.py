"""Lines from columns: they are what format strings would make of each row, and slices get the lanes they would get."""

import gc
from itertools import count
from random import Random

import numpy as np
import pytest

import acl_py as acl
from acl_py.sanitizer import watch
from acl_py.trace.rows.columns import blocks, merged_blocks, merged_order, places
from acl_py.trace.views.lines import joined, line, merged, only, rates, signed, texts, us, whole
from acl_py.trace.views.tracks import Track, place
from device_model.streams import Stream

NUMBERS = [0, 7, 10, 999, 1_000, 1_001, 20_000, 999_999, 1_000_000, 1_000_007, 3_000_000_000, 2**62 - 1]


def lines(*parts):
    return joined(line(*parts), "\n").split("\n")


def test_numbers_and_times_are_written_as_format_strings_write_them():
    values = np.array(NUMBERS)
    assert lines(whole(values), "") == [f"{value}" for value in NUMBERS]
    assert lines(us(values), "") == [f"{value // 1000}.{value % 1000:03d}" for value in NUMBERS]
    assert lines(whole(values[:1]), ",", us(values[:1])) == ["0,0.000"]


def test_a_line_has_its_parts_side_by_side():
    which, names = places(iter(["copy", "scale", "copy"]), 3)
    assert names == ["copy", "scale"]
    sizes = np.array([5, 1234, 0])
    made = line("<", texts(names)[which], only(sizes > 0, line(" of ", whole(sizes))), texts(["", "!", "?"]), ">")
    assert joined(made, ", ") == "<copy of 5>, <scale of 1234!>, <copy?>"


def test_lines_behind_others_keep_their_order():
    first, second = texts(["a", "b", "c"]), texts(["after a", "after c", "too"])
    assert joined(merged(first, second, np.array([0, 2, 2])), ";") == "a;after a;b;c;after c;too"


def test_blocks_cover_all_rows_once():
    for rows in (0, 1, 999, 1_000, 1_001, 2_500):
        assert [row for block in blocks(rows) for row in range(rows)[block]] == list(range(rows))


def test_slices_get_the_lanes_that_they_would_get_one_by_one():
    random = Random(5)
    for longest in (1, 3, 30):  # at a time that grows by 3: no two overlap, some touch, many overlap
        ends = np.arange(1, 300) * 3
        starts = ends - [random.randrange(longest + 1) for _ in ends]
        which = np.array([random.randrange(3) for _ in ends])
        numbers, same = count(10), count(10)
        tracks, others = [Track(1, "", numbers) for _ in range(3)], [Track(1, "", same) for _ in range(3)]
        expected = [others[each].place(*span) for each, *span in zip(which, starts, ends, strict=True)]
        both = (slice(0, 150), slice(150, 299))
        lanes = [place(tracks, which[part], starts[part], ends[part]).tolist() for part in both]
        assert lanes[0] + lanes[1] == expected
        assert [track.lanes for track in tracks] == [track.lanes for track in others]


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_two_lists_come_in_the_order_of_both(seed):
    random = Random(seed)
    lists = [sorted(random.choices(range(random.choice((3, 500, 100_000))), k=random.choice((0, 1, 999, 2_500))))
             for _ in range(2)]  # fmt: skip
    first, second = map(np.array, lists)
    made = []
    for own, other, behind in merged_blocks(first, second):
        assert own.stop - own.start <= 1_000
        assert other.stop - other.start <= 1_000
        both = [*((time, "first") for time in lists[0][own]), *((time, "second") for time in lists[1][other])]
        made += [both[place] for place in merged_order(own.stop - own.start, behind)]
    assert made == sorted([*((time, "first") for time in lists[0]), *((time, "second") for time in lists[1])])


def test_rates_have_the_decimals_that_format_strings_give():
    random = Random(3)
    pairs = [(random.randrange(10**9), random.randrange(1, 10**6)) for _ in range(500)] + [
        (1, 2_000),
        (3, 2_000),
        (5, 0),
    ]
    expected = [f"{amount / time:.3f}" if time else "0.000" for amount, time in pairs]
    assert lines(rates(*np.array(pairs).T), "") == expected
    assert lines(signed(np.array([-1, 0, 12])), "") == ["-1", "0", "12"]


async def test_rows_are_a_list_and_have_columns():
    async with acl.simulate(device="tiny") as sim:
        stream, event = await acl.CreateStream(), await acl.CreateEvent()
        await acl.RecordEvent(event, stream)
        await acl.SynchronizeDevice()
    timeline = sim.trace.timeline()
    for rows in (timeline.calls, timeline.steps, timeline.ops):
        made = list(rows)
        assert rows == made
        assert made == rows
        assert rows[1:] == made[1:]
        assert len(rows.columns) == len(rows) == len(made)
        assert repr(rows) == repr(made)
    assert timeline.calls != timeline.steps
    assert [timeline.calls.columns.kinds[kind].name for kind in timeline.calls.columns.kind] == [
        "CreateStream", "CreateEvent", "RecordEvent", "SynchronizeDevice"
    ]  # fmt: skip


async def test_a_timeline_keeps_no_stream_and_so_no_memory_of_the_program(monkeypatch):
    monkeypatch.setattr(watch, "followers", [])  # the plugin keeps the last simulation, for the report of a failure
    async with acl.simulate(device="tiny") as sim:
        await acl.RecordEvent(await acl.CreateEvent(), await acl.CreateStream(name="gone"))
    timeline = sim.trace.timeline()
    del sim
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Stream) and each.name == "stream 'gone'"]
    assert [step.stream for step in timeline.steps] == ["stream 'gone'"]
