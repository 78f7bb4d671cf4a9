"""Copies behind kernels: how much of them is hidden, how much could be, and what sim.report() says of it."""

from dataclasses import replace

from hand import op
from histories import D2H, H2D, busy, history, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import acl_py
from acl_py.explain import HiddenCopies, hidden_copies
from acl_py.trace.rows.timeline import Mark
from device_model import profile

SIZE = 40_000  # 40 us on the tiny device
square = busy("square", 40)


async def batches(count, streams):
    """Upload, square and download *count* batches, in turn over the streams, each kind of copy in a stage."""
    made = [await acl_py.CreateStream() for _ in range(streams)]
    host, device = await acl_py.MallocHost(SIZE), [await acl_py.Malloc(SIZE) for _ in range(count)]
    for number, buffer in enumerate(device):
        stream = made[number % streams]
        with acl_py.annotate("upload"):
            await acl_py.MemcpyAsync(buffer, SIZE, host, SIZE, H2D, stream)
        await square[1, stream]()
        with acl_py.annotate("download"):
            await acl_py.MemcpyAsync(host, SIZE, buffer, SIZE, D2H, stream)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation()


def of_copies(sim):
    """The lines of the report about copies behind kernels."""
    lines = sim.report().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("  copies of"))
    return lines[first : next(index for index in range(first + 1, len(lines)) if not lines[index].startswith("    "))]


@tiny
async def test_in_one_stream_nothing_is_hidden_and_all_could_be():
    sim = await batches(1, 1)
    start = sim.trace.ops[0].start_ns
    assert [(name, begin - start, end - start) for name, begin, end in history(sim)] == [
        ("h2d", 0, 40_000),
        ("square", 40_000, 80_000),
        ("d2h", 80_000, 120_000),
    ]
    assert hidden_copies(sim.trace.ops, sim.trace.marks) == [
        HiddenCopies(0, "", "", 80_000, 0, 80_000, 40_000, 0, 40_000),
        HiddenCopies(0, "stream 1", "upload", 40_000, 0, 40_000, 40_000, 0, 0),
        HiddenCopies(0, "stream 1", "download", 40_000, 0, 40_000, 0, 0, 40_000),
    ]
    assert of_copies(sim) == [
        "  copies of device 0 behind its cores: 0.0 us of 80.0 us hidden (0 %), at most 80.0 us could be",
        "    stream 1 in 'upload': 0.0 us of 40.0 us hidden (0 %), at most 40.0 us",
        "    stream 1 in 'download': 0.0 us of 40.0 us hidden (0 %), at most 40.0 us",
        "    not hidden: 40.0 us before the first work of the cores, 0.0 us between, 40.0 us behind the last",
        "    compute / (compute + transfer): 33 %, 40.0 us / (40.0 us + 80.0 us)",
        "    by the clock: 33 %, the cores computed for 40.0 us of 120.0 us",
        "      which is that sum less 0.0 us that ran beside other work, and 0.0 us more in which nothing ran",
    ]


@tiny
async def test_a_pipeline_of_two_streams_hides_all_but_its_ends():
    sim = await batches(4, 2)
    start = sim.trace.ops[0].start_ns
    assert [(name, begin - start, end - start) for name, begin, end in history(sim)] == [
        ("h2d", 0, 40_000),
        ("h2d", 40_000, 80_000),
        ("square", 40_000, 80_000),
        ("d2h", 80_000, 120_000),
        ("square", 80_000, 120_000),
        ("d2h", 120_000, 160_000),
        ("h2d", 120_000, 160_000),
        ("h2d", 160_000, 200_000),
        ("square", 160_000, 200_000),
        ("d2h", 200_000, 240_000),
        ("square", 200_000, 240_000),
        ("d2h", 240_000, 280_000),
    ]
    [whole, *rows] = hidden_copies(sim.trace.ops, sim.trace.marks)
    assert whole == HiddenCopies(0, "", "", 320_000, 160_000, 320_000, 40_000, 80_000, 40_000)
    assert [(row.stream, row.stage, row.hidden_ns) for row in rows] == [
        ("stream 1", "upload", 0),
        ("stream 2", "upload", 80_000),
        ("stream 1", "download", 80_000),
        ("stream 2", "download", 0),
    ]
    assert of_copies(sim)[-3:] == [
        "    compute / (compute + transfer): 33 %, 160.0 us / (160.0 us + 320.0 us)",
        "    by the clock: 57 %, the cores computed for 160.0 us of 280.0 us",
        "      which is that sum less 200.0 us that ran beside other work, and 0.0 us more in which nothing ran",
    ]


def test_no_more_than_the_cores_compute_can_be_hidden_of_an_engine():
    ops = [op("up", 0, 100, kind="h2d"), op("k", 50, 80), op("down", 100, 120, kind="d2h")]
    assert hidden_copies(ops) == [
        HiddenCopies(0, "", "", 120, 30, 30 + 20, 50, 0, 20 + 20),
        HiddenCopies(0, "stream 1", "", 120, 30, 30 + 20, 50, 0, 20 + 20),
    ]


def test_a_kernel_of_another_device_hides_nothing():
    ops = [
        op("up", 0, 50, kind="h2d"),
        op("k", 0, 50)._replace(device=1),
        op("up", 0, 9, kind="h2d")._replace(device=1),
    ]
    assert [(row.device, row.stream, row.hidden_ns, row.copy_ns) for row in hidden_copies(ops)] == [
        (1, "", 9, 9),
        (1, "stream 1", 9, 9),
    ]


def test_a_copy_is_in_the_stages_in_which_its_task_queued_it():
    marks = [
        Mark("step", 0, 100, "a.py:1", "task 1"),
        Mark("load", 10, 20, "a.py:2", "task 1"),
        Mark("load", 30, 40, "a.py:2", "task 1"),
        Mark("other", 0, 100, "a.py:3", "task 2"),
    ]
    queued = {"before": 0, "inside": 20, "between": 25, "again": 31, "behind": 101}
    for name, at in queued.items():
        ops = [op(name, 200, 210, queued=at, kind="h2d"), op("k", 200, 205)]
        stages = [row.stage for row in hidden_copies(ops, marks)[1:]]
        expected = {"before": [""], "inside": ["step", "load"], "between": ["step"], "again": ["step", "load"]}
        assert stages == expected.get(name, [""])


@tiny
async def test_without_kernels_or_without_copies_the_report_says_nothing_of_them():
    sim = acl_py.current_simulation()
    await square[1]()
    await acl_py.SynchronizeDevice()
    assert "behind its cores" not in sim.report()


@tiny(device=replace(profile.load("tiny"), devices=6))
async def test_of_many_devices_those_come_whose_copies_are_least_hidden():
    for device in range(6):
        await acl_py.SetDevice(device)
        stream, host, buffer = await acl_py.CreateStream(), await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        nbytes = SIZE - 1_000 * device
        await acl_py.MemcpyAsync(buffer, nbytes, host, nbytes, H2D, stream)
        await square[1, stream]()
    for device in range(6):
        await acl_py.SetDevice(device)
        await acl_py.SynchronizeDevice()
    lines = [line for line in acl_py.current_simulation().report().splitlines() if "copies of" in line]
    assert lines == [
        *(
            f"  copies of device {device} behind its cores: 0.0 us of {40 - device}.0 us hidden (0 %), "
            f"at most {40 - device}.0 us could be"
            for device in range(4)
        ),
        "  and the copies of 2 other devices, of which less is not hidden",
    ]


spans = st.tuples(st.integers(0, 60), st.integers(0, 20))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["h2d", "d2h", "kernel"]), st.sampled_from([1, 2]), spans), max_size=12))
def test_the_parts_of_a_row_are_those_of_a_count_of_nanoseconds(drawn):
    ops = [op("x", begin, begin + ns, kind=kind, stream=f"stream {n}") for kind, n, (begin, ns) in drawn]
    computing = {at for each in ops if each.engine == "cores" for at in range(each.start_ns, each.end_ns)}
    for row in hidden_copies(ops):
        own = [each for each in ops if each.engine != "cores" and row.stream in ("", each.stream)]
        by_engine = {each.engine: set() for each in own}
        for each in own:
            by_engine[each.engine] |= {*range(each.start_ns, each.end_ns)}
        assert row.copy_ns == sum(map(len, by_engine.values()))
        assert row.hidden_ns == sum(len(times & computing) for times in by_engine.values())
        assert row.possible_ns == sum(min(len(times), len(computing)) for times in by_engine.values())
        assert row.before_ns + row.between_ns + row.behind_ns == row.copy_ns - row.hidden_ns
        if computing:
            assert row.before_ns == sum(at < min(computing) for times in by_engine.values() for at in times)
            assert row.behind_ns == sum(at > max(computing) for times in by_engine.values() for at in times)
