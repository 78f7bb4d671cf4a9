"""The lane chart, as it is seen."""

import asyncio

import pytest
from histories import busy
from rich.cells import cell_len

import acl_py
from acl_py.trace import chart
from acl_py.trace.rows.columns import call_columns
from acl_py.trace.rows.reading import host_rows
from acl_py.trace.rows.recorder import Trace

WORK = busy("work", 20)

ONE_OF_EACH = """\
       ╷0 us          ╷10             ╷20            ╷30             ╷40    busy
host   ▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░ SynchronizeDevice ░░░░░░░░░░░░░░░░░░░░░   7 %
H2D     ›»»»»» h2d »»»»»›                                                   23 %
cores                   █████████████ scale ███████████▌                    47 %
D2H                                                    «««««« d2h «««««     23 %
       »» to device   ██ kernel   «« to host   ▓▓ host calls   ░░ host held
       0 = 2.01 us"""

MANY = """\
          ╷0 us                 ╷500                   ╷1,000               busy
host      ▓▓▓▓▓▓▓▓▓▓▓▓ 408 calls ▓▓▓▓▓▓▓▓▓▓▓░░░░░░ SynchronizeDevice ░░░░░  53 %
stream 1  █«█«█«█»█»██«█«█«█»█»█»██«█«█»█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«   98 %
stream 2  ›█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«█»█»█»██«█«█»█»█»██«█«█«█»█»█   98 %
stream 3  ›█«█«█«█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«█»█»█»██«█«█‹  98 %
stream 4   »█»█»██«█«█»█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«█»█»██«█«█«█»█»██«  98 %
H2D       »»»»»»»»»»»»»»»»»»»»»»»»»» 136 copies »»»»»»»»»»»»»»»»»»»»»»»»»   98 %
cores     ▐███████████████████████████ 1+2+3+4 ██████████████████████████▌  98 %
D2H        «««««««««««««««««««««««««« 136 copies «««««««««««««««««««««««««  98 %
          »» to device   ██ kernel   «« to host   ▓▓ host calls   ░░ host held
          0 = 5.01 us"""

TASKS = """\
          ╷0 us           ╷20             ╷40             ╷60               busy
task 1    ▓▓░░░░░░░░░░░░░░░░▓▓▓░░░░░░░░░░░░░░░░▓▓░░░░░░░░░░░░░░░░·          11 %
task 2      ▒▓▓▓░░░░░░░░░░░░░░░░░▓▓░░░░░░░░░░░░░░░░▓▓▓░░░░░░░░░░░░░░░░      13 %
task 3          ▓▓▓░░░░░░░░░░░░░░░░░░▓▓░░░░░░░░░░░░░░░░░▓▓░░░░░░░░░░░░░░░░  13 %
stream 1  ▐████ scale █████  █████ scale ████▌ ▐████ scale █████            75 %
stream 2      █████ scale ████▌  ▐████ scale █████  █████ scale ████▌       75 %
stream 3         ▐████ scale █████   ▐████ scale █████  █████ scale ████▌   75 %
cores     ▐███████████████████████████ 1+2+3 ███████████████████████████▌   96 %
          ██ kernel   ▓▓ host calls   ░░ host held   0 = 1 us"""

NAMED = """\
                  ╷0 us                 ╷20                   ╷40           busy
task 'producer'   ▓░░░░░░░░░░░░░·                                            2 %
task 'consumer'    ▓▓░░░ SynchronizeStream ░░▓░░░ SynchronizeStream ░░·      4 %
task 4              ▒▓░░░░ SynchronizeStream ░░░░▓░░░ SynchronizeStream ░░   4 %
stream 3             ▐████████ scale ███████▌    ▐███████ scale ████████    79 %
stream 'uploads'   »»»» h2d »»›                                             20 %
stream 'maths'      ▐███████ scale ████████   ████████ scale ███████▌       79 %
H2D                »»'uploads'›                                             20 %
cores               ▐██████ 'maths'+3 ██████▌ ████████ 'maths'+3 ███████    88 %
                  »» to device   ██ kernel   ▓▓ host calls   ░░ host held
                  0 = 4.01 us"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [("one_of_each", ONE_OF_EACH), ("many", MANY), ("tasks", TASKS), ("named", NAMED)],
    ids=lambda value: value[:9],
)
def test_a_chart_looks_like_this(traced, program, expected):
    assert chart.lanes(traced(program), width=80) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("width", [50, 80, 100, 133])
def test_no_line_is_too_long_and_the_right_hand_column_is_straight(any_trace, width):
    lines = chart.lanes(any_trace, width).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if line.endswith((" %", "busy"))]
    assert len({len(row) for row in rows}) <= 1


def test_streams_share_lanes_where_there_are_too_many(traced):
    text = chart.lanes(traced("crowd"))
    labels = [line.split("  ")[0] for line in text.splitlines()[1:]]
    assert labels[:4] == ["host", "stream 1 to 3", "stream 4 to 6", "stream 7 to 9"]
    assert labels[10:14] == ["stream 28 to 30", "H2D", "cores", "D2H"]


def test_tasks_share_rows_where_there_are_too_many(traced):
    async def program(sim):
        async def one(number):
            await acl_py.LaunchKernel(WORK, 1)
            await acl_py.SynchronizeDevice()

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(one(number), name=f"worker {number}")

    labels = [line.split("  ")[0] for line in chart.lanes(traced(program)).splitlines()[1:]]
    assert labels[:2] == ["task 'worker 0' and 2 more", "task 'worker 3' and 2 more"]
    assert labels[5:8] == ["task 'worker 15' and 2 more", "task 'worker 18' and 1 more", "cores"]


def test_tasks_without_names_share_a_row_if_they_call_one_after_the_other(traced):
    async def program(sim):
        for _ in range(3):  # as a notebook does, with a task for each cell
            await asyncio.create_task(acl_py.SynchronizeDevice())

    trace = traced(program)
    assert {call.caller for call in trace.calls} == {"task 1", "task 2", "task 3"}
    assert [row.label for row in host_rows(call_columns(trace.calls))] == ["task 1 and 2 more"]
    assert chart.lanes(trace).splitlines()[1].startswith("host  ")


def test_long_names_and_letters_of_two_columns_keep_the_columns_straight(traced):
    async def program(sim):
        for name in ("拷贝", "x" * 200):
            stream = await acl_py.CreateStream(name=name)
            await acl_py.LaunchKernel(WORK, 1, (), stream)
        await acl_py.SynchronizeDevice()

    lines = chart.lanes(traced(program), 80).splitlines()
    assert [line[:12] for line in lines[2:4]] == ["stream '拷贝'  "[:12], "stream 'xxxx"]
    assert {cell_len(line) for line in lines[:5]} == {80}


def test_streams_of_two_devices_stand_apart(traced):
    labels = [line.split("  ")[0] for line in chart.lanes(traced("two_devices_and_two_contexts")).splitlines()]
    assert labels[1:6] == ["host", "0: legacy", "0: legacy of context 1", "0: cores", "1: cores"]


def test_a_window_shows_what_is_in_it(traced):
    text = chart.lanes(traced("one_of_each"), width=60, since_ns=13_010, until_ns=33_010)
    assert text == (
        "       ╷0 us                  ╷10                       busy\n"
        "host   ░░░░░░░░░░░░░░ SynchronizeDevice ░░░░░░░░░░░░░░   0 %\n"
        "cores  ████████████████████ scale ████████████████████ 100 %\n"
        "       ██ kernel   ░░ host held   0 = 13.01 us"
    )


def test_short_bars_of_many_streams_are_added_up(traced):
    async def program(sim):
        streams = [await acl_py.CreateStream() for _ in range(5)]
        for _ in range(2):
            for stream in streams:
                await acl_py.LaunchKernel(WORK, 1, (), stream)
            await acl_py.SynchronizeDevice()
        await acl_py.HostWork(10_000)
        await acl_py.LaunchKernel(WORK, 1)
        await acl_py.SynchronizeDevice()

    cores = next(line for line in chart.lanes(traced(program), 3_000).splitlines() if line.startswith("cores"))
    assert "10 kernels" in cores
    assert "×" not in cores


def test_colours_change_no_character(any_trace):
    assert chart.styled_lanes(any_trace, 90).plain == chart.lanes(any_trace, 90)


def test_an_empty_trace_says_so():
    assert chart.lanes(Trace()) == "nothing happened"


def test_a_time_in_which_nothing_happened_says_so(any_trace):
    assert chart.lanes(any_trace, since_ns=10**18) == "nothing happened"
