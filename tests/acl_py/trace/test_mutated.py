"""Saved traces that somebody has changed: a message, or a right reading, but no traceback and no endless run."""

import gzip
import json
import random
import tracemalloc

import pytest
from mutating import mutated
from test_files import lines, write

from acl_py.cli.explaining import explain_recording
from acl_py.recorded import program
from acl_py.trace import TraceFileError, chrome, kineto, msprof, read_trace, table
from acl_py.trace.page import Page
from tests.campaigns import many

EACH = 40  # changed traces in a test


def use(timeline, folder):
    """Make all that is made of a trace."""
    shown, _ = explain_recording(timeline, "run", [])
    Page([each.run for each in shown]).write(folder / "page.html")
    chrome.write(timeline, folder / "chrome.json")
    kineto.write(timeline, folder / "kineto.json")
    table.write(timeline, folder / "table.csv")
    msprof.write(timeline, folder / "msprof")
    program(timeline)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 1 + many(40)))])
async def test_a_changed_line_of_a_trace_is_a_message_or_a_right_reading(tmp_path, seed):
    """16,000 lines in all."""
    path, rng = tmp_path / "run.acl", random.Random(seed)
    every = await lines(path)
    places = [at for at, line in enumerate(every) if line.get("values") != []]
    refused = 0
    for _ in range(EACH):
        at = rng.choice(places)
        write(path, [*every[:at], mutated(rng, every[at]), *every[at + 1 :]])
        try:
            timeline = read_trace(path)
        except TraceFileError:
            refused += 1
        else:
            use(timeline, tmp_path)
    assert EACH // 2 < refused <= EACH


@pytest.mark.parametrize(
    ("list_", "column", "value"),
    [
        ("ops", "queued_ns", -1), ("ops", "start_ns", 2**40), ("ops", "end_ns", 0), ("ops", "engine", 7),
        ("ops", "after", 0), ("ops", "bytes", -1), ("ops", "device", 2**40), ("calls", "enter_ns", 2**40),
        ("calls", "exit_ns", -1), ("steps", "record", 0), ("marks", "end_ns", -1), ("buffers", "bytes", -4),
    ],
)  # fmt: skip
async def test_a_row_that_no_recording_has_is_damaged(tmp_path, list_, column, value):
    path = tmp_path / "run.acl"
    every = await lines(path)
    at = next(index for index, line in enumerate(every) if line.get("list") == list_)
    line = next(line for line in every[at:] if line.get("column") == column)
    if column == "engine":
        line["texts"] += ["host"] * 8
    line["values"][0] = value
    write(path, every)
    with pytest.raises(TraceFileError, match=f"is damaged: {list_}: row 0 is none that a recording has"):
        read_trace(path)


async def test_a_line_that_unpacks_to_more_than_its_rows_can_be_is_not_read(tmp_path):
    """60 KB of gzip that are a line of 60 MB."""
    path = tmp_path / "run.acl"
    head, of_ops, column, *_ = await lines(path)
    with gzip.open(path, "wb", 9) as file:
        for line in (head, of_ops):
            file.write(json.dumps(line).encode() + b"\n")
        file.write(json.dumps(column).encode()[:-2])
        for _ in range(60):
            file.write(b",0" * 500_000)
    tracemalloc.start()
    try:
        with pytest.raises(TraceFileError, match="is damaged: a line has more than"):
            read_trace(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


async def test_more_rows_than_a_recording_can_have_are_not_read(tmp_path):
    path = tmp_path / "run.acl"
    head, _, *rest = await lines(path)
    write(path, [head, {"list": "ops", "rows": 10**9}, *rest])
    with pytest.raises(TraceFileError, match="is damaged: more than 500,000,000 values"):
        read_trace(path)
