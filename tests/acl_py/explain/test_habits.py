"""Habits: what is not one, and which of several ways is taken. The pairs in `planted` show those that are."""

import pytest
from listed import MIB, case, copy, copy_now, fill, launch, program, record, step, sync

import acl_py
from acl_py.causes.findings import Pitfall
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Asker
from acl_py.trace.rows.windows import worked

PART = MIB // 4


def found(before, pitfall):
    """The findings of a kind, with their prices."""
    asker = Asker(case(before))
    return [each for each in prices(asker, asker.timeline) if each.finding.pitfall is pitfall]


def ops(priced):
    """The steps of the edited program."""
    return [each.op for each in priced.answer.case.program.steps]


def piece(number, stream="A"):
    return {**copy("d", "p", stream, PART), "dst_off": number * PART, "src_off": number * PART}


def test_a_pool_is_as_large_as_the_order_of_the_work_needs():
    """Frees keep the kernels of both streams apart. With one buffer for all of them they would be in no order."""
    rounds = [
        each
        for number in range(6)
        for name in [f"m{number}"]
        for each in (
            step("malloc", name=name, bytes=MIB),
            launch("AB"[number % 2], 50, touches=[name]),
            step("free", name=name),
        )
    ]
    (one,) = found(program(*rounds, sync()), Pitfall.IN_LOOP)
    assert one.finding.edit.endswith("2 in place of 6 buffers on the device")
    assert ops(one) == ["malloc"] * 2 + ["launch"] * 6 + ["sync_device"] + ["free"] * 2


def test_what_is_made_for_later_is_no_pool():
    made = [each for name in "CDE" for each in (step("create_stream", name=name), launch(name, 5))]
    assert not found(program(*made, launch("C"), launch("D"), launch("E"), sync()), Pitfall.IN_LOOP)


def test_pieces_are_joined_only_if_nothing_between_them_needs_one():
    pieces = [piece(number) for number in range(4)]
    alone, between = program(*pieces, sync()), program(*pieces[:2], record("x", "A"), *pieces[2:], sync())
    (one,) = found(alone, Pitfall.PIECES)
    assert ops(one) == ["memcpy_async", "sync_device"]
    assert one.answer.case.program.steps[0].fields["bytes"] == MIB
    (halves,) = found(between, Pitfall.PIECES)
    assert ops(halves) == ["memcpy_async", "record", "memcpy_async", "sync_device"]


def test_a_piece_does_not_pass_work_on_its_bytes():
    over = [piece(0), fill("d", "A"), piece(1), piece(2), piece(3)]
    assert not found(program(*over, sync()), Pitfall.PIECES)


def test_pieces_by_two_streams_are_no_run():
    assert not found(program(*(piece(number, "AB"[number % 2]) for number in range(4)), sync()), Pitfall.PIECES)


def test_a_run_of_equal_launches_is_cut_into_graphs_of_the_best_size():
    (one,) = found(program(*[launch("A", 2, touches="d")] * 120, sync()), Pitfall.REPEATED)
    launches = ops(one).count("graph_launch")
    assert ops(one).count("launch") * launches == 120
    assert one.finding.edit.startswith(
        f"Capture a graph of {120 // launches} operations and launch it {launches} times"
    )


def test_launches_that_differ_are_no_graph():
    differ = [launch("A", 2 + number, touches="d") for number in range(40)]
    assert not found(program(*differ, sync()), Pitfall.REPEATED)


def rounds_with(*behind):
    """Three rounds of a kernel, a wait, a copy of its result, and what is *behind* it."""
    one = [launch("A", 50, touches="d"), record("x", "A"), sync("A"), copy_now("p", "d", 64), *behind]
    return program(record("y", "A"), *one * 3, sync())


def test_the_wait_before_a_copy_goes_with_it():
    (one,) = found(rounds_with(), Pitfall.SYNC_COPY)
    assert "is needless then" in one.finding.edit
    assert ops(one).count("sync_stream") == 0


@pytest.mark.parametrize("asks", [step("elapsed", start="y", end="x"), step("query_event", event="x")])
def test_a_wait_stays_if_the_host_asks_what_is_over(asks):
    for each in found(rounds_with(asks), Pitfall.SYNC_COPY):
        assert "is needless then" not in each.finding.edit
        assert ops(each).count("sync_stream") == 3


def small(us, reads, writes, **fields):
    """A short kernel that reads and writes whole buffers."""
    extents = {"reads": [[name, 0, MIB] for name in reads], "writes": [[name, 0, MIB] for name in writes]}
    return step("launch", stream="A", us=us, **extents, **fields)


def test_a_chain_of_small_kernels_becomes_one_that_does_not_read_what_it_writes():
    chain = [small(1, ["d"], ["e"]), small(2, ["d", "e"], ["e"]), small(1.5, ["e"], ["d"])]
    (one,) = found(program(*chain, sync()), Pitfall.SMALL_KERNELS)
    assert ops(one) == ["launch", "sync_device"]
    fields = one.answer.case.program.steps[0].fields
    assert (fields["us"], fields["reads"]) == (4.5, [["d", 0, MIB]])
    assert fields["writes"] == [["d", 0, MIB], ["e", 0, MIB]]


def test_kernels_are_large_enough_for_their_launches_if_their_waves_are():
    """Exclusive blocks run in waves; those of a chain that take as long as launches leave nothing to gain."""
    us, cores = 1, case(program(sync())).device.cores.count
    for blocks, count in ((cores, 1), (8 * cores, 0)):
        kernels = [small(us + number, ["d"], ["d"], blocks=blocks, exclusive=True) for number in range(3)]
        assert len(found(program(*kernels, sync()), Pitfall.SMALL_KERNELS)) == count


@pytest.mark.parametrize(
    "between",
    [record("x", "A"), launch("B", 1), fill("e", "A"), step("sync_op", of="first")],
    ids=lambda each: each["op"],
)
def test_other_steps_end_a_chain_of_small_kernels(between):
    kernels = [small(1 + number, ["d"], ["d"]) for number in range(4)]
    kernels[1]["id"] = "first"
    assert not found(program(*kernels[:2], between, *kernels[2:], sync()), Pitfall.SMALL_KERNELS)
    assert found(program(*kernels, sync()), Pitfall.SMALL_KERNELS)


def test_small_kernels_that_repeat_are_a_graph():
    chain = [small(1, ["d"], ["e"]), small(2, ["e"], ["d"]), small(1.5, ["d"], ["e"]), small(1, ["e"], ["d"])]
    before = program(*[*chain, sync()] * 8)
    assert found(before, Pitfall.REPEATED)
    assert not found(before, Pitfall.SMALL_KERNELS)


def pin(name):
    return step("malloc_host", name=name, bytes=MIB)


def test_pinned_memory_is_late_where_the_device_has_nothing_to_do_meanwhile():
    """The call of 400 us is hidden behind a kernel of 1,000 us, and not behind one of 100 us. What the time from the
    first work to the last wait loses is its price: the whole run is longer.
    """
    for us, worth_ns in ((1_000, None), (100, 296_650)):
        steps = program(launch("A", us, touches="d"), pin("late"), copy("late", "d", "A"), sync())
        late = found(steps, Pitfall.LATE_PINNED)
        assert [each.answer.gain_ns for each in late] == ([] if worth_ns is None else [worth_ns])
    assert ops(late[0]) == ["malloc_host", "launch", "memcpy_async", "sync_device"]
    assert late[0].answer.run.done_us > Asker(case(steps)).before.done_us


@pytest.mark.parametrize(("again", "count"), [("kernel", 1), ("another", 0)])
def test_what_is_prepared_behind_finished_work_is_late_only_if_that_work_comes_again(again, count):
    before = [launch("A", 100, touches="d"), sync(), pin("late")]
    behind = [launch("A", 100, touches="d", name=again), copy("late", "d", "A"), sync()]
    assert len(found(program(*before, *behind), Pitfall.LATE_PINNED)) == count


def test_pinned_memory_that_a_loop_gives_back_is_made_in_a_loop():
    one = [launch("A", 10, touches="d"), pin("m"), copy("m", "d", "A"), sync(), step("free_host", name="m")]
    rounds = [each | {"name": f"m{number}"} if each.get("name") == "m" else each for number in range(4) for each in one]
    rounds = [each | {"dst": f"m{place // 5}"} if "dst" in each else each for place, each in enumerate(rounds)]
    before = program(*rounds, launch("A", 10))
    assert found(before, Pitfall.IN_LOOP)
    assert not found(before, Pitfall.LATE_PINNED)


def behind_long_kernels(**fields):
    """A short kernel of stream B and what hangs on it, behind a long kernel of stream A; *fields* are of that."""
    long = launch("A", **({"us": 100, "touches": "d", "blocks": 8 * 132, "exclusive": True} | fields))
    short = launch("B", 20, touches="e", blocks=132, exclusive=True, name="short")
    return program(*[long, short, copy("p", "e", "B", 16 * MIB)] * 4, sync(), size=16 * MIB)


def test_a_stream_with_short_kernels_becomes_urgent():
    (one,) = found(behind_long_kernels(), Pitfall.PRIORITY)
    streams = one.answer.case.program.streams
    assert {name: options["priority"] for name, options in streams.items()} == {"A": 0, "B": -5, "N": 0}
    assert "(short)" in one.finding.what


@pytest.mark.parametrize("fields", [{"exclusive": False}, {"blocks": 132}, {"us": 2}], ids=str)
def test_no_priority_helps_where_kernels_leave_the_cores_soon(fields):
    assert not found(behind_long_kernels(**fields), Pitfall.PRIORITY)


def test_no_stream_is_more_urgent_than_the_most_urgent_one():
    """Under ACL's rules, a stream has the most urgent priority unless the program asks for another."""
    asker = Asker(case(behind_long_kernels(blocks=8 * 20), "acl"))
    assert Pitfall.PRIORITY not in {each.finding.pitfall for each in prices(asker, asker.timeline)}


@acl_py.kernel(cost=lambda data: acl_py.Cost(us=300 * data.nbytes / (16 * MIB)))
def scale(data: acl_py.InOut):
    """Take 300 us for 16 MiB."""


def in_parts(parts, count):
    """The recording of a program that copies 16 MiB, works on them, and copies them back, in *parts*."""

    async def main():
        streams = [await acl_py.CreateStream(nonblocking=True) for _ in range(count)]
        host, data = await acl_py.MallocHost(16 * MIB), await acl_py.Malloc(16 * MIB)
        size = 16 * MIB // parts
        for part in range(parts):
            stream, own, there = streams[part % count], host + part * size, data + part * size
            await acl_py.MemcpyAsync(there, size, own, size, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
            await scale[132, stream](acl_py.Array(there, "u1", size))
            await acl_py.MemcpyAsync(own, size, there, size, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        for stream in streams:
            await acl_py.SynchronizeStream(stream)
        return acl_py.current_simulation().trace.timeline()

    return acl_py.run(main, device="h200", sanitize="device,host", values=False)


def large_copies_of(timeline):
    priced = prices(asker_of(timeline, "program"), timeline)
    return [each for each in priced if each.finding.pitfall is Pitfall.LARGE_COPY]


def test_large_copies_are_priced_in_parts_as_a_person_would_write_them():
    before = in_parts(1, 1)
    (one,) = large_copies_of(before)
    assert one.finding.what == "large copies, of up to 16,777,216 bytes, and nothing runs beside them"
    assert one.finding.edit.startswith("Copy it in 8 parts of 2,097,152 bytes, launch its kernels once for each part")
    assert "runs beside them. Copy it in 8 parts" in one.finding.text  # without the time that the calls took
    real_ns = worked(before).ns - worked(in_parts(8, 4)).ns
    assert one.answer.gain_ns == pytest.approx(real_ns, rel=0.05)
    assert not one.answer.conflicts
    assert not large_copies_of(in_parts(8, 4))


def test_large_copies_are_no_habit_where_something_simpler_is_as_good():
    """A copy and a kernel of other bytes, pageable memory, and a copy that is too small for parts."""
    apart = program(copy("d", "p", "A", 16 * MIB), launch("A", 400, ["e"]), sync(), size=16 * MIB)
    assert found(apart, Pitfall.ONE_STREAM)
    assert not found(apart, Pitfall.LARGE_COPY)
    pageable = program(copy("d", "g", "A", 16 * MIB), launch("A", 400, ["d"]), sync(), size=16 * MIB)
    assert found(pageable, Pitfall.PAGEABLE)
    assert not found(pageable, Pitfall.LARGE_COPY)
    small = program(copy("d", "p", "A", MIB // 4), launch("A", 400, ["d"]), sync())
    assert not found(small, Pitfall.LARGE_COPY)
