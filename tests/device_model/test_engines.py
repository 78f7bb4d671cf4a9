"""The engines: which operation starts next, and when it ends."""

from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rig import MIB, Rig, line, tiny

from device_model.engines import dispatcher

# --- copy engines


def test_copies_of_one_direction_take_turns_and_directions_run_together(rig):
    one, two = rig.stream(), rig.stream()
    rig.h2d(one, 1000)
    rig.h2d(two, 500)
    rig.d2h(two, 300)
    rig.d2h(rig.stream(), 2000)
    assert rig.run() == [
        ("h2d", 1, 0, 1000), ("h2d", 2, 1000, 1500), ("d2h", 3, 0, 2000), ("d2h", 2, 2000, 2300),
    ]  # fmt: skip


def test_an_engine_drains_a_queue_before_it_turns_to_the_next():
    rig = Rig()
    one, two, three = (rig.stream() for _ in range(3))
    for _ in range(2):
        for stream in (one, two, three):
            rig.h2d(stream, 100)
    assert rig.run() == [
        ("h2d", 1, 0, 100), ("h2d", 1, 100, 200),
        ("h2d", 2, 200, 300), ("h2d", 2, 300, 400),
        ("h2d", 3, 400, 500), ("h2d", 3, 500, 600),
    ]  # fmt: skip


def test_a_queue_whose_head_waits_loses_its_turn(rig):
    one, two = rig.stream(), rig.stream()
    rig.h2d(one, 100)
    rig.kernel(one, 50)
    rig.h2d(one, 100)  # not ready when the first copy is done
    rig.h2d(two, 100)
    rig.h2d(two, 100)
    assert rig.run() == [
        ("h2d", 1, 0, 100), ("kernel", 1, 100, 150), ("h2d", 2, 100, 200), ("h2d", 2, 200, 300), ("h2d", 1, 300, 400),
    ]  # fmt: skip


def test_a_copy_engine_chooses_when_all_completions_of_the_instant_are_in(rig):
    """The copy and the kernel end together; the copy is first, and the kernel makes the next of its queue ready."""
    one, two = rig.stream(), rig.stream()
    rig.h2d(one, 100)
    one.wait(rig.kernel(rig.stream(), 100))
    rig.h2d(one, 100)
    rig.h2d(two, 100)
    assert rig.run() == [("h2d", 1, 0, 100), ("kernel", 3, 0, 100), ("h2d", 1, 100, 200), ("h2d", 2, 200, 300)]


def test_an_idle_copy_engine_chooses_when_all_completions_of_the_instant_are_in(rig):
    """Two kernels end together, and each makes a copy ready: the cyclic order counts, not which kernel came first."""
    one, two = rig.stream(), rig.stream()
    for stream in (two, one):
        stream.wait(rig.kernel(rig.stream(), 100))
        rig.h2d(stream, 100)
    assert rig.run()[2:] == [("h2d", 1, 100, 200), ("h2d", 2, 200, 300)]


def test_turns_are_cyclic(rig):
    streams = [rig.stream() for _ in range(4)]
    rig.h2d(streams[2], 100)
    for stream in streams:
        rig.h2d(stream, 100)
    assert [row[1] for row in rig.run()] == [3, 3, 4, 1, 2]


@pytest.mark.parametrize("order", list(permutations((0, 1, 3))))
def test_turns_do_not_depend_on_who_was_ready_first(rig, order):
    streams = [rig.stream() for _ in range(4)]
    for index in (2, *order):
        rig.h2d(streams[index], 100)
    assert [row[1] for row in rig.run()] == [3, 4, 1, 2]


def test_there_is_a_gap_between_two_copies_of_one_engine():
    rig = Rig(tiny(latency={"copy_gap": 7}))
    one, two = rig.stream(), rig.stream()
    rig.h2d(one, 100)
    rig.h2d(two, 100)
    rig.d2h(rig.stream(), 150)
    rig.advance(1000)
    rig.h2d(one, 100)
    assert rig.run() == [("h2d", 1, 0, 100), ("d2h", 3, 0, 150), ("h2d", 2, 107, 207), ("h2d", 1, 1000, 1100)]


def test_a_copy_that_was_submitted_with_a_latency_starts_that_much_later(rig):
    rig.h2d(rig.stream(), 100, at=30)
    assert rig.run() == [("h2d", 1, 30, 130)]


def test_crossing_engines_and_streams_takes_time():
    rig = Rig(tiny(latency={"engines": 10, "kernel_same_stream": 3, "kernel_other_stream": 5, "copy_gap": 1}))
    one, two, event = rig.stream(), rig.stream(), rig.event()
    rig.h2d(one, 100)
    rig.kernel(one, 100)
    rig.kernel(one, 100)
    event.record(one)
    two.wait(event.work)
    rig.kernel(two, 100)
    rig.d2h(two, 100)
    assert rig.run() == [
        ("h2d", 1, 0, 100), ("kernel", 1, 110, 210), ("kernel", 1, 213, 313), ("kernel", 2, 318, 418),
        ("d2h", 2, 428, 528),
    ]  # fmt: skip


def duplex(h2d, d2h, *, from_bytes=0, gap=0):
    return tiny(
        latency={"copy_gap": gap},
        copies={"duplex_bytes": from_bytes, "duplex_h2d_permille": h2d, "duplex_d2h_permille": d2h},
    )


def test_both_directions_at_once_are_slower_for_as_long_as_both_run():
    rig = Rig(duplex(500, 500))
    rig.h2d(rig.stream(), 1000)
    rig.d2h(rig.stream(), 3000)
    assert rig.run() == [("h2d", 1, 0, 1500), ("d2h", 2, 0, 3500)]


def test_the_slower_direction_gets_less_done_meanwhile():
    # 2000 ns side by side: all of the 1000 bytes at half speed, 1600 of the 3000 at four fifths; then 1400 alone.
    rig = Rig(duplex(1000, 250))
    rig.h2d(rig.stream(), 1000)
    rig.d2h(rig.stream(), 3000)
    assert rig.run() == [("h2d", 1, 0, 2000), ("d2h", 2, 0, 3400)]


def test_a_copy_that_comes_later_shares_what_is_left():
    rig = Rig(duplex(500, 500))
    rig.h2d(rig.stream(), 1000)
    rig.advance(400)
    rig.d2h(rig.stream(), 1000)
    assert rig.run() == [("h2d", 1, 0, 1300), ("d2h", 2, 400, 1700)]


def test_small_copies_neither_slow_nor_are_slowed():
    rig = Rig(duplex(500, 500, from_bytes=1000))
    rig.h2d(rig.stream(), 999)
    rig.d2h(rig.stream(), 3000)
    assert rig.run() == [("h2d", 1, 0, 999), ("d2h", 2, 0, 3000)]


def fluid(copies, permille, from_bytes, gap):
    """The oracle: two directions, *copies* of each as (earliest start, bytes), at rates that change whenever a copy
    starts or ends. Exact, in fractions.
    """
    todo = [list(each) for each in copies]
    ends = [[], []]
    start = [None, None]  # of the copy that is next or running
    left = [None, None]
    now = Fraction(0)

    def load(side):
        if todo[side]:
            earliest, nbytes = todo[side][0]
            free = ends[side][-1] + gap if ends[side] else 0
            start[side], left[side] = max(earliest, free), Fraction(nbytes)
        else:
            start[side] = left[side] = None

    load(0), load(1)
    while todo[0] or todo[1]:
        running = [start[side] is not None and start[side] <= now for side in (0, 1)]
        shared = all(running) and all(todo[side][0][1] >= from_bytes for side in (0, 1))
        rate = [Fraction(1000, 1000 + permille[side]) if shared else Fraction(1) for side in (0, 1)]
        steps = [left[side] / rate[side] for side in (0, 1) if running[side]]
        steps += [start[side] - now for side in (0, 1) if start[side] is not None and not running[side]]
        step = min(steps)
        now += step
        for side in (0, 1):
            if running[side]:
                left[side] -= rate[side] * step
                if not left[side]:
                    ends[side].append(now)
                    todo[side].pop(0)
                    load(side)
    return ends


batches = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 10_000)), max_size=8)


@given(batches, batches, st.integers(0, 1500), st.integers(0, 1500), st.sampled_from([0, 3000]), st.integers(0, 50))
@example([(0, 1000), (0, 1000)], [(0, 10_000)], 500, 500, 0, 50)
@example([(100, 1000)], [(50, 1000), (0, 10_000)], 75, 110, 0, 30)
def test_sharing_is_exact(h2d, d2h, h2d_permille, d2h_permille, from_bytes, gap):
    """A fluid whose rates change at each start and end gives the same times, up to rounding to nanoseconds."""
    rig = Rig(duplex(h2d_permille, d2h_permille, from_bytes=from_bytes, gap=gap))
    one, two = rig.stream(), rig.stream()
    copies = [[], []]
    for side, (batch, submit, stream) in enumerate([(h2d, rig.h2d, one), (d2h, rig.d2h, two)]):
        for at, nbytes in sorted(batch):
            submit(stream, nbytes, at=at)
            copies[side].append((at, nbytes))
    rows = rig.run()
    ends = fluid(copies, (h2d_permille, d2h_permille), from_bytes, gap)
    for side, name in enumerate(("h2d", "d2h")):
        found = [row[3] for row in rows if row[0] == name]
        assert len(found) == len(ends[side])
        slack = 3 * (len(h2d) + len(d2h))  # each sharing rounds twice
        assert [end for end, exact in zip(found, ends[side], strict=True) if abs(end - exact) > slack] == []


# --- the dispatcher


def test_exclusive_blocks_run_in_waves(rig):
    rig.kernel(rig.stream(), 100, blocks=9, exclusive=True)
    assert rig.run() == [("kernel", 1, 0, 300)]


def test_the_next_kernel_fills_the_cores_that_are_left_over(rig):
    rig.kernel(rig.stream(), 100, blocks=6, exclusive=True)
    rig.kernel(rig.stream(), 50, blocks=3, exclusive=True)  # two blocks beside the second wave, one behind them
    rig.kernel(rig.stream(), 10, blocks=1, exclusive=True)
    assert rig.run() == [("kernel", 3, 150, 160), ("kernel", 1, 0, 200), ("kernel", 2, 100, 200)]


def test_a_kernel_that_waits_for_room_holds_back_all_behind_it(rig):
    rig.kernel(rig.stream(), 100, blocks=3, exclusive=True)
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)  # one block at once, three when the first are done
    rig.kernel(rig.stream(), 10, blocks=1, exclusive=True)  # takes the last core, when its turn comes
    rig.kernel(rig.stream(), 10, blocks=1)  # needs no core of its own, and waits for its turn
    assert rig.run() == [
        ("kernel", 1, 0, 100), ("kernel", 4, 100, 110), ("kernel", 3, 100, 110), ("kernel", 2, 0, 200),
    ]  # fmt: skip


def test_blocks_that_are_not_exclusive_run_beside_those_that_are(rig):
    """Measured: u028, where a kernel of one block starts 40 us after one of 132 exclusive blocks that takes 400."""
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)
    rig.advance(40)
    rig.kernel(rig.stream(), 100, blocks=50)
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 2, 40, 140)]


def test_an_exclusive_block_needs_a_core_without_any_block(rig):
    """Measured: t082, where 132 exclusive blocks beside a kernel of one block take two waves."""
    rig.kernel(rig.stream(), 30, blocks=1)
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)
    assert rig.run() == [("kernel", 1, 0, 30), ("kernel", 2, 0, 130)]


def test_a_small_kernel_waits_behind_a_large_one_although_there_is_room(rig):
    rig.kernel(rig.stream(), 100, blocks=2, exclusive=True)
    rig.d2d(rig.stream(), 1000)
    rig.kernel(rig.stream(), 10, blocks=1, exclusive=True)
    assert rig.run() == [("kernel", 1, 0, 100), ("d2d", 2, 0, 1000), ("kernel", 3, 1000, 1010)]


def test_higher_priority_gets_the_cores_at_the_next_block_boundary(rig):
    rig.kernel(rig.stream(), 100, blocks=12, exclusive=True)
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)
    rig.advance(50)
    rig.kernel(rig.stream(priority=-1), 10, blocks=4, exclusive=True)
    assert rig.run() == [("kernel", 3, 100, 110), ("kernel", 1, 0, 310), ("kernel", 2, 310, 410)]


def test_equal_priority_is_served_in_order_of_arrival_not_of_submission(rig):
    one, two = rig.stream(priority=3), rig.stream(priority=3)
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)
    rig.h2d(one, 50)
    rig.kernel(one, 10, blocks=4, exclusive=True)  # ready at 50
    rig.kernel(two, 10, blocks=4, exclusive=True)  # ready at 0
    assert [row[:2] for row in rig.run()] == [("h2d", 1), ("kernel", 3), ("kernel", 2), ("kernel", 1)]


def test_no_more_kernels_are_resident_than_the_limit():
    rig = Rig(tiny(cores={"count": 100, "resident_kernels": 2}))
    for _ in range(5):
        rig.kernel(rig.stream(), 100)
    rig.d2d(rig.stream(), 30)
    assert rig.run() == [
        ("kernel", 1, 0, 100), ("kernel", 2, 0, 100), ("kernel", 3, 100, 200), ("kernel", 4, 100, 200),
        ("d2d", 6, 200, 230), ("kernel", 5, 200, 300),
    ]  # fmt: skip


def test_kernels_that_were_overtaken_do_not_keep_the_more_urgent_ones_out():
    """Otherwise the two would wait for each other: one for a resident to end, the other to be the head again."""
    rig = Rig(tiny(cores={"resident_kernels": 1}))
    rig.kernel(rig.stream(priority=0), 100, blocks=8, exclusive=True)
    rig.advance(50)
    rig.kernel(rig.stream(priority=-1), 10, blocks=8, exclusive=True)
    rig.advance(105)
    rig.kernel(rig.stream(priority=-2), 10, blocks=4, exclusive=True)
    assert rig.run() == [("kernel", 3, 110, 120), ("kernel", 2, 100, 130), ("kernel", 1, 0, 230)]


def test_a_kernel_that_began_at_the_first_instant_places_its_other_blocks_beside_a_resident_one():
    """The limit keeps out kernels that have not begun, and 0 is a time like others."""
    rig = Rig(tiny(cores={"resident_kernels": 1}))
    rig.kernel(rig.stream(), 100, blocks=5, exclusive=True)  # one more than there are cores
    rig.advance(50)
    rig.kernel(rig.stream(priority=-1), 1000)
    assert rig.run() == [("kernel", 1, 0, 200), ("kernel", 2, 50, 1050)]


def test_shared_blocks_need_no_empty_core_and_exclusive_ones_do(rig):
    rig.kernel(rig.stream(), 100, blocks=2)
    rig.kernel(rig.stream(), 100, blocks=3)  # with two more on one core, all four are in use
    rig.kernel(rig.stream(), 10, blocks=1, exclusive=True)
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 2, 0, 100), ("kernel", 3, 100, 110)]


def test_blocks_and_kernels_have_overheads():
    rig = Rig(tiny(latency={"block": 3, "kernel_drain": 7}))
    rig.kernel(rig.stream(), 100, blocks=8, exclusive=True)
    rig.kernel(rig.stream(), 100, blocks=9)
    assert rig.run() == [("kernel", 2, 103, 103 + 110), ("kernel", 1, 0, 213)]


@pytest.mark.parametrize("what", ["d2d", "fill"])
def test_copies_inside_the_device_and_fills_hold_the_others_until_shortly_before_their_end(what):
    rig = Rig(tiny(latency={"copy_on_device_tail": 40}))
    getattr(rig, what)(rig.stream(), 100)
    getattr(rig, what)(rig.stream(), 20)  # over before its own tail begins, so it holds back no other
    rig.kernel(rig.stream(), 10)
    assert rig.run() == [("kernel", 3, 60, 70), (what, 2, 60, 80), (what, 1, 0, 100)]


def test_they_need_no_core(rig):
    rig.kernel(rig.stream(), 100, blocks=4, exclusive=True)
    rig.d2d(rig.stream(), 20)
    rig.fill(rig.stream(), 30)
    assert rig.run() == [("d2d", 2, 0, 20), ("fill", 3, 20, 50), ("kernel", 1, 0, 100)]


def test_a_fill_of_pinned_memory_has_a_time_of_its_own():
    rig = Rig(tiny(copies={"fill_pinned": line(500)}))
    rig.fill(rig.stream(), 100, dst=rig.pinned(MIB))
    rig.fill(rig.stream(), 100)
    assert rig.run() == [("fill", 1, 0, 600), ("fill", 2, 600, 700)]


kernels = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 20)), min_size=1, max_size=12)


@given(kernels, st.integers(1, 6), st.integers(0, 5), st.integers(0, 5))
def test_waves_are_what_placing_block_by_block_gives(launches, cores, overhead, drain):
    """The oracle places single blocks in order: each on the core that is free first, not before the previous block."""
    rig = Rig(tiny(cores={"count": cores, "resident_kernels": 100}, latency={"block": overhead, "kernel_drain": drain}))
    for block_ns, blocks in launches:
        rig.kernel(rig.stream(), block_ns, blocks, exclusive=True)
    free = [0] * cores
    heapify(free)
    now, expected = 0, []
    for index, (block_ns, blocks) in enumerate(launches, 1):
        placed = []
        for _ in range(blocks):
            now = max(now, heappop(free))
            placed.append(now)
            heappush(free, now + block_ns + overhead)
        expected.append((index, placed[0], placed[-1] + block_ns + overhead + drain))
    assert sorted((stream, start, end) for _, stream, start, end in rig.run()) == expected


def test_the_waves_of_a_huge_kernel_are_arithmetic_not_events(rig):
    """2**31 - 1 blocks on four cores: half a thousand million waves."""
    rig.kernel(rig.stream(), 10, blocks=3, exclusive=True)
    rig.kernel(rig.stream(), 100, blocks=2**31 - 1, exclusive=True)
    rig.advance(10**9)
    rig.kernel(rig.stream(priority=-1), 10, blocks=1, exclusive=True)  # starts at the end of a block
    assert rig.run() == [
        ("kernel", 1, 0, 10),
        ("kernel", 3, 1_000_000_010, 1_000_000_020),
        ("kernel", 2, 0, 53_687_091_210),
    ]
    assert rig.scheduler.sequence < 100


arrivals = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 5, 10, 30, 100]),  # after the one before
        st.sampled_from([0, 1, 7, 10, 20]),  # nanoseconds for each block
        st.sampled_from([1, 2, 3, 5, 40, 100]),  # blocks
        st.booleans(),  # exclusive?
        st.sampled_from([0, 0, -1, -2]),  # priority
        st.booleans(),  # in the same stream as the previous launch?
    ),
    min_size=1,
    max_size=8,
)


def played(launches, cores, overhead, drain):
    rig = Rig(tiny(cores={"count": cores, "resident_kernels": 4}, latency={"block": overhead, "kernel_drain": drain}))
    stream, now = rig.stream(), 0
    for after, block_ns, blocks, exclusive, priority, same in launches:
        now += after
        rig.advance(now)
        stream = stream if same else rig.stream(priority=priority)
        rig.kernel(stream, block_ns, blocks, exclusive=exclusive)
        if priority == -2:
            rig.d2d(rig.stream(priority=priority), 15)
    return rig.run()


@given(arrivals, st.integers(1, 5), st.sampled_from([0, 3]), st.sampled_from([0, 4]))
def test_skipped_rounds_change_nothing(launches, cores, overhead, drain):
    """Compared with the same device with WORTHWHILE so high that it plays every wave."""
    skipped = played(launches, cores, overhead, drain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "WORTHWHILE", 10**9)
        assert played(launches, cores, overhead, drain) == skipped


# --- host functions


def test_one_thread_runs_the_host_functions_in_the_order_in_which_they_became_ready(rig):
    one, two, three = (rig.stream() for _ in range(3))
    rig.kernel(one, 100)
    rig.host_function(one, 10)
    rig.kernel(two, 30)
    rig.host_function(two, 200)
    rig.host_function(two, 10)
    rig.kernel(two, 1)
    rig.host_function(three, 20)
    assert rig.run() == [
        ("<lambda>", 3, 0, 20), ("kernel", 2, 0, 30), ("kernel", 1, 0, 100), ("<lambda>", 2, 30, 230),
        ("<lambda>", 1, 230, 240), ("<lambda>", 2, 240, 250), ("kernel", 2, 250, 251),
    ]  # fmt: skip


def test_host_functions_have_latencies():
    rig = Rig(tiny(latency={"host_function_start": 18, "host_function_end": 5, "host_function_pause": 20}))
    one, two = rig.stream(), rig.stream()
    rig.kernel(one, 100)
    rig.host_function(one, 10)
    rig.kernel(one, 1)
    rig.kernel(two, 110)
    rig.host_function(two, 10)
    assert rig.run() == [
        ("kernel", 1, 0, 100), ("kernel", 2, 0, 110), ("<lambda>", 1, 118, 128), ("kernel", 1, 133, 134),
        ("<lambda>", 2, 148, 158),
    ]  # fmt: skip


def test_a_thread_that_has_slept_long_wakes_up_late_and_one_that_is_awake_does_not_have_to():
    names = ("start", "asleep", "idle", "pause")
    rig = Rig(tiny(latency={f"host_function_{name}": ns for name, ns in zip(names, (18, 60, 50, 2), strict=True)}))
    for at, duration in ((100, 10), (180, 20), (190, 10), (300, 10)):  # asleep, idle for 8 less than 50, awake, asleep
        stream = rig.stream()
        rig.kernel(stream, at)
        rig.host_function(stream, duration)
    assert [row[1:] for row in rig.run() if row[0] != "kernel"] == [
        (1, 178, 188), (2, 190, 210), (3, 212, 222), (4, 378, 388),
    ]  # fmt: skip


def test_a_host_function_that_waits_holds_back_no_other_stream(rig):
    one = rig.stream()
    rig.kernel(one, 1000)
    rig.host_function(one, 10)
    for _ in range(4):
        rig.host_function(rig.stream(), 10)
    assert [row[1:] for row in rig.run()] == [
        (2, 0, 10), (3, 10, 20), (4, 20, 30), (5, 30, 40), (1, 0, 1000), (1, 1000, 1010),
    ]  # fmt: skip


def test_host_functions_of_one_name_share_a_label(rig):
    """The trace numbers labels; one for each call would make it grow."""
    first, second = (rig.host_function(rig.stream(), 1) for _ in range(2))
    assert first.work.label is second.work.label
