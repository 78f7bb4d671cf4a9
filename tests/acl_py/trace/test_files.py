"""Saved traces: what is written comes back whole, and a file that is not a trace gets a sentence."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from histories import D2H, H2D

import acl_py as acl
from acl_py import faults
from acl_py.trace import TraceFileError, read_trace

SIZE = 4096


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


async def rich(device="tiny", rules="cuda"):
    """A simulation with a row in nearly every list."""
    async with acl.simulate(device=device, rules=rules, sanitize="host") as sim:
        stream, event = await acl.CreateStream(name="copies"), await acl.CreateEvent(name='a "name"\u2603')
        host, device = await acl.MallocHost(SIZE, name="host"), await acl.Malloc(3 * SIZE)
        host.numpy(np.int32)[::16] = 7
        host.numpy(np.int32)[:4].ctypes  # noqa: B018 - the memory is out of sight
        with acl.annotate("step"), sim.fault(faults.delay(op="kernel", us=5)):
            await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
            await acl.LaunchKernel(double, 4, (acl.Array(device, np.int32),), stream)
            await acl.RecordEvent(event, stream)
            await acl.StreamWaitEvent(None, event)
            await acl.Memcpy2dAsync(host, 64, device, 128, 32, 8, D2H)
            filled = await acl.MemsetAsync(device, SIZE, 3, 10)
        await acl.MemcpyAsync(device, 3 * SIZE, np.zeros(3 * SIZE, np.uint8), 3 * SIZE, H2D, stream)
        await acl.SynchronizeDevice()
        await filled
        await acl.Free(device)
    return sim


async def test_what_is_saved_comes_back(tmp_path):
    sim = await rich()
    path = tmp_path / "run.acl"
    sim.trace.save(path)
    timeline = sim.trace.timeline()
    assert read_trace(path) == timeline
    for name in ("ops", "calls", "steps", "marks", "buffers", "handles", "strikes", "accesses", "exports", "source"):
        assert getattr(timeline, name), name
    assert (timeline.device, timeline.rules, timeline.end_ns) == ("tiny", "cuda", sim.now_ns)


async def test_rows_that_share_their_values_come_back(tmp_path):
    async with acl.simulate(device="tiny") as sim:
        device, stream = await acl.Malloc(SIZE), await acl.CreateStream()
        for _ in range(40):  # so many that each value is encoded once
            await acl.MemsetAsync(device, SIZE, 0, SIZE, stream)
            await acl.SynchronizeStream(stream)
        await acl.MemsetAsync(device, SIZE, 0, 8, stream)
        await acl.SynchronizeDevice()
    sim.trace.save(tmp_path / "run.acl")
    timeline = sim.trace.timeline()
    assert read_trace(tmp_path / "run.acl") == timeline
    assert [op.writes[0].stop for op in timeline.ops] == [SIZE] * 40 + [8]


async def test_the_same_run_gives_the_same_bytes(tmp_path):
    one, other = tmp_path / "1.acl", tmp_path / "2.acl"
    (await rich()).trace.save(one)
    (await rich()).trace.save(other)
    assert one.read_bytes() == other.read_bytes()


async def test_a_trace_of_form_11_had_no_source_and_knew_nothing_of_views(tmp_path):
    today, old = tmp_path / "today.acl", tmp_path / "old.acl"
    head, *rest = await lines(today)
    place = rest.index({"list": "source", "rows": len(read_trace(today).source)})
    kept = [line for line in rest[:place] if line.get("column") not in ("viewed_ns", "again")]
    write(old, [head | {"version": 11}, *kept, rest[-1]])
    told = read_trace(today)
    buffers = [each._replace(viewed_ns=-1) for each in told.buffers]
    assert read_trace(old) == replace(told, source=[], buffers=buffers)


async def test_an_empty_run_comes_back(tmp_path):
    async with acl.simulate(device="tiny") as sim:
        pass
    sim.trace.save(tmp_path / "empty.acl")
    assert read_trace(tmp_path / "empty.acl") == sim.trace.timeline()


async def lines(path):
    (await rich()).trace.save(path)
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def write(path, lines):
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


async def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TraceFileError, match=r"none\.acl: cannot be read: No such file"):
        read_trace(tmp_path / "none.acl")


async def test_a_file_that_is_no_trace(tmp_path):
    path = tmp_path / "x"
    path.write_text("hello")
    with pytest.raises(TraceFileError, match="is no trace that acl_py has saved"):
        read_trace(path)
    path.write_text('{"id": "a", "steps": []}')
    with pytest.raises(TraceFileError, match="a stream program, which `acl-py replay --explain` explains"):
        read_trace(path)
    write(path, [{"traceEvents": []}])
    with pytest.raises(TraceFileError, match="its first line does not say 'acl_py trace'"):
        read_trace(path)


async def test_a_file_that_was_cut_off(tmp_path):
    path = tmp_path / "x.acl"
    (await rich()).trace.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceFileError, match="is not whole"):
        read_trace(path)
    every = await lines(path)
    write(path, every[:-1])
    with pytest.raises(TraceFileError, match="is not whole: its last line is missing"):
        read_trace(path)


async def test_damaged_bytes(tmp_path):
    path = tmp_path / "x.acl"
    (await rich()).trace.save(path)
    whole = bytearray(path.read_bytes())
    whole[100] ^= 0xFF
    path.write_bytes(bytes(whole))
    with pytest.raises(TraceFileError, match=r"is damaged|is not whole|is no trace"):
        read_trace(path)


@pytest.mark.parametrize(("version", "advice"), [(9, "save the trace again"), (14, "use a newer one")])
async def test_a_file_of_another_version(tmp_path, version, advice):
    path = tmp_path / "x.acl"
    head, *rest = await lines(path)
    write(path, [head | {"version": version}, *rest])
    with pytest.raises(TraceFileError, match=f"has version {version}; this acl_py reads version 13: {advice}"):
        read_trace(path)


@pytest.mark.slow
async def test_every_value_of_every_column_is_checked(tmp_path):
    """A wrong value, in each column in turn, is refused with the place and what it must be."""
    path = tmp_path / "x.acl"
    every = await lines(path)
    checked = 0
    for number, line in enumerate(every):
        if not line.get("values"):
            continue
        wrong = {**line, "values": [{"wrong": [1.5]}, *line["values"][1:]]}
        if line["column"] == "options":
            wrong["values"][0] = 7
        write(path, [*every[:number], wrong, *every[number + 1 :]])
        with pytest.raises(TraceFileError, match=rf"\.{line['column']}: row 0: must be "):
            read_trace(path)
        checked += 1
    assert checked > 50


async def test_a_place_that_there_is_not(tmp_path):
    path = tmp_path / "x.acl"
    every = await lines(path)
    for list_, column, value in (
        ("ops", "after", 99), ("ops", "in_stream", -2), ("ops", "reads", [[9, 0, 1]]),
        ("calls", "act", ["Synchronised", ["Ref", 50], None]),
        ("calls", "act", ["Completed", ["Copied", "h2d", 0, 0, 44, 0, 1, 0, 0, 0, 0]]), ("steps", "record", 7),
        ("calls", "sleeps", [[0, 9, None, [[0, 9, 99, None, -1]], 0]]),
    ):  # fmt: skip
        at = next(index for index, line in enumerate(every) if line.get("list") == list_)
        at = next(index for index in range(at, len(every)) if every[index].get("column") == column)
        wrong = {**every[at], "values": [value, *every[at]["values"][1:]]}
        write(path, [*every[:at], wrong, *every[at + 1 :]])
        with pytest.raises(TraceFileError, match=f"{list_}.{column}: row 0 names a row that there is not"):
            read_trace(path)


async def test_a_missing_column_list_or_value(tmp_path):
    path = tmp_path / "x.acl"
    every = await lines(path)
    at = next(index for index, line in enumerate(every) if line.get("column") == "end_ns")
    write(path, every[:at] + every[at + 1 :])
    with pytest.raises(TraceFileError, match=r"ops.end_ns: this column is missing"):
        read_trace(path)
    write(path, [*every[:at], {**every[at], "values": every[at]["values"][1:]}, *every[at + 1 :]])
    with pytest.raises(TraceFileError, match=r"ops.end_ns: has \d+ values, and the list has \d+ rows"):
        read_trace(path)
    write(path, [every[0], every[-1]])
    with pytest.raises(TraceFileError, match="the list ops is missing"):
        read_trace(path)
    write(path, [{"form": "acl_py trace", "version": every[0]["version"]}, *every[1:]])
    with pytest.raises(TraceFileError, match="the first line lacks a value of device, overlay, rules, end_ns"):
        read_trace(path)
