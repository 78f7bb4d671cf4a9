"""Stacks: the lines that led to the accesses of a finding."""

import contextlib
import sys
import sysconfig
from pathlib import Path

import acl_py as acl
from acl_py.sites import path_to, site_of
from tests.sanitizer.racing import D2H, read, two_streams, write


async def launch(kernel, x, stream):
    await acl.LaunchKernel(kernel, 1, (x,), stream)


async def clear(x, stream):
    await acl.MemsetAsync(x, 64, 0, 64, stream)


async def step(kernel, x, stream):
    await launch(kernel, x, stream)


def stacks(program, sanitize="device", *others, rules="cuda"):
    """Return the stacks of each finding in *program*; lines count from the first one of the function they are in."""
    result = []

    async def whole():
        sim = acl.current_simulation()
        await program()
        result.extend(sim.findings)

    acl.run(whole, device="tiny", rules=rules, sanitize=sanitize)
    first = {each.__name__: each.__code__.co_firstlineno for each in (program, whole, step, launch, *others)}
    return [[[_line(text, first) for text in access.stack] for access in finding.accesses] for finding in result]


def _line(text, first):
    place, name = text.split(" in ")
    file, line = place.split(":")
    assert file == "test_stacks.py"
    return name, int(line) - first[name]


def test_both_accesses_have_the_lines_that_led_there_the_outermost_first():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        for stream in (one, two):  # the first operation of a stream is taken up in another way
            await launch(read, await acl.Malloc(64), stream)
        await clear(x, one)
        await clear(x, two)

    assert stacks(program) == [
        [
            [("whole", 2), ("program", 5)],
            [("whole", 2), ("program", 6)],
        ]
    ]


def test_the_earlier_access_has_the_path_by_which_its_line_was_called_first():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await launch(read, x, one)
        await launch(write, x, one)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert stacks(program) == [[[("whole", 2), ("program", 3)], [("whole", 2)]]]


def test_the_paths_of_another_simulation_do_not_count():
    async def earlier():
        await launch(write, await acl.Malloc(64), None)

    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await launch(write, x, one)
        await acl.LaunchKernel(write, 1, (x,), two)

    assert stacks(earlier) == []
    assert stacks(program) == [[[("whole", 2), ("program", 3)], [("whole", 2)]]]


def test_a_race_that_a_later_call_shows_has_paths_of_first_calls():
    async def program():
        (one, two), three = await two_streams(), await acl.CreateStream()
        x, flag = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await step(write, x, one)
        await acl.RecordEvent(flag, one)
        await acl.StreamWaitEvent(two, flag)
        await launch(write, x, two)
        await acl.RecordEvent(flag, three)  # by now the wait may have passed without the first record

    found = stacks(program, rules="acl")
    assert [[("whole", 2), ("program", 3), ("step", 1)]] * 2 in found


def test_reads_of_what_nobody_wrote_and_uses_of_what_is_gone_have_them_too():
    async def program():
        one, _ = await two_streams()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        await step(read, x, one)
        await acl.MemcpyAsync(host, 64, x, 64, D2H, one)
        await acl.SynchronizeDevice()
        await acl.Free(x)
        with contextlib.suppress(acl.AclError):
            await launch(read, x, one)

    unwritten, copied, gone = stacks(program, "device,uninitialised")
    assert unwritten == [[], [("whole", 2), ("program", 3), ("step", 1)]]
    assert copied == [[], [("whole", 2)]]
    assert gone == [[("whole", 2)], [("whole", 2), ("program", 8)]]


def test_a_function_that_the_device_calls_begins_a_path():
    async def program():
        host = await acl.MallocHost(64)
        array = host.numpy()
        await acl.LaunchHostFunc(None, outer, (array,))
        await acl.SynchronizeDevice()

    def outer(array):
        inner(array)

    def inner(array):
        int(array[0])

    assert stacks(program, "host,uninitialised", outer) == [[[], [("outer", 1)]]]


def test_a_method_of_numpy_that_the_device_calls_is_at_the_line_that_launched_it():
    async def program():
        view = (await acl.MallocHost(64)).numpy()
        await acl.LaunchHostFunc(None, view.tolist)
        await acl.SynchronizeDevice()
        return [finding.accesses[1].site for finding in acl.current_simulation().findings]

    line = program.__code__.co_firstlineno + 2
    assert acl.run(program, device="tiny", sanitize="host,uninitialised") == [f"test_stacks.py:{line}"]


def test_the_console_script_is_no_line_of_the_program():
    script = Path(sysconfig.get_path("scripts")) / "acl-py"
    scope = {}
    exec(compile("def start(program):\n    return program()", script, "exec"), scope)

    def program():
        return path()

    def path():
        return path_to(site_of(sys._getframe(1)))

    lines = scope["start"](program)
    assert lines[-1].endswith(" in test_the_console_script_is_no_line_of_the_program")


def test_a_line_that_the_running_code_is_not_at_has_no_path():
    assert path_to(None) == ()
    assert path_to("demo.py:12") == ()
