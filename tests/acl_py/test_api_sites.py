"""Sites: an error, an operation and a call name the user's line, however the verb was run; on asyncio and uvloop."""

import asyncio
import os
import sys
import sysconfig
from pathlib import Path

import anyio
import numpy as np
import pytest
import uvloop
from histories import busy, calls

import acl_py as acl
from acl_py.sites import is_installed, site_of

A = busy("A", 1)


@acl.kernel(cost=acl.Cost(us=1))
def broken():
    raise ZeroDivisionError


def here(offset=0):
    """The line of the caller, as a site would say it."""
    frame = sys._getframe(1)
    return f"{Path(__file__).name}:{frame.f_lineno + offset}"


async def _awaited():
    return here(), await acl.LaunchKernel(A, 1)


async def _indexed():
    return here(), await A[1, None]()


async def _gathered():
    return here(), (await asyncio.gather(acl.SynchronizeDevice(), acl.LaunchKernel(A, 1)))[1]


async def _made_a_task():
    return here(), await asyncio.create_task(acl.LaunchKernel(A, 1))


async def _made_a_future():
    return here(), await asyncio.ensure_future(A[1, None]())


async def _in_a_group():
    async with asyncio.TaskGroup() as group:
        line, task = here(1), None
        task = group.create_task(acl.LaunchKernel(A, 1))
    return line, task.result()


async def _with_a_timeout():
    return here(), await asyncio.wait_for(acl.LaunchKernel(A, 1), 5)


async def _with_a_timeout_in_a_task():
    return here(), await asyncio.create_task(asyncio.wait_for(acl.LaunchKernel(A, 1), 5))


async def _with_two_timeouts():
    return here(), await asyncio.wait_for(asyncio.wait_for(acl.LaunchKernel(A, 1), 5), 6)


async def _as_it_is_completed():
    [first] = asyncio.as_completed([line := here(), acl.LaunchKernel(A, 1)][1:])
    return line, await first


async def _in_a_scope_of_anyio():
    with anyio.fail_after(5):
        return here(), await asyncio.wait_for(acl.LaunchKernel(A, 1), None)


async def _shielded():
    return here(), await asyncio.shield(acl.LaunchKernel(A, 1))


async def _through_a_helper():
    async def helper():
        return here(), await acl.LaunchKernel(A, 1)

    return await asyncio.create_task(helper())


WAYS = (
    _awaited, _indexed, _gathered, _made_a_task, _made_a_future, _in_a_group, _with_a_timeout,
    _with_a_timeout_in_a_task, _with_two_timeouts, _as_it_is_completed, _in_a_scope_of_anyio, _shielded,
    _through_a_helper,
)  # fmt: skip


@pytest.mark.parametrize("uvloop", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_operation_names_the_line(way, uvloop):
    async def program():
        line, op = await way()
        return line, str(op.site)

    line, site = acl.run(program, device="tiny", uvloop=uvloop)
    assert site == line


def eagerly(loop, coro, **options):
    """As asyncio.eager_task_factory, which in Python 3.13.0 refuses an option that uvloop gives."""
    return asyncio.Task(coro, loop=loop, **{**options, "eager_start": True})


needs_eager = pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")


@needs_eager
@pytest.mark.parametrize("uvloop", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_operation_of_an_eager_task_names_the_line(way, uvloop):
    async def program():
        asyncio.get_running_loop().set_task_factory(eagerly)
        async with acl.simulate(device="tiny"):
            line, op = await way()
            await acl.SynchronizeDevice()
            return line, str(op.site)

    line, site = acl.run(program, device="tiny", uvloop=uvloop)
    assert site == line


@needs_eager
@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_makes_its_tasks_eager_later_has_sites_too(way):
    async def program():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        line, op = await way()
        await acl.SynchronizeDevice()
        return line, str(op.site)

    line, site = acl.run(program, device="tiny")
    assert site == line


def test_calls_leaks_and_hangs_under_a_timeout_name_the_line():
    """asyncio.wait_for awaits in a frame of its own, since Python 3.12. In simulated time its limit would strike."""
    lines = []

    async def program():
        sim = acl.current_simulation()
        lines.extend([here(1), here(2), here(3), here(4), here(6)])
        left = await asyncio.wait_for(acl.Malloc(8), 5)
        stream = await asyncio.wait_for(acl.CreateStream(), 5)
        event = await asyncio.wait_for(acl.CreateEventWithFlag(acl.EventFlag.SYNC), 5)
        await asyncio.wait_for(acl.StreamWaitEvent(stream, event), 5)
        with pytest.raises(acl.DeadlockError) as caught:
            await asyncio.wait_for(acl.SynchronizeStream(stream), 50)
        assert [f"{Path(call.file).name}:{call.line}" for call in sim.trace.calls] == lines
        assert f"SynchronizeStream(stream 1) at {lines[4]}" in str(caught.value)
        assert f" on stream 1 ({lines[3]})" in str(caught.value)
        assert str(left.allocation.made) == lines[0]

    acl.run(program, device="tiny", rules="acl", hang_after=0.1, clock="real")


def test_under_a_loop_that_the_user_runs_the_line_is_that_of_the_task():
    """uvloop has no frames of its own, so the one below a task's is the user's."""

    async def program():
        async with acl.simulate(device="tiny"):
            line = here(1)
            [_, op] = await asyncio.gather(acl.SynchronizeDevice(), acl.LaunchKernel(A, 1))
            return line, str(op.site)

    loop = uvloop.new_event_loop()
    try:
        line, site = loop.run_until_complete(program())
    finally:
        loop.close()
    assert site == line


PROGRAM = """
async def program():
    [buffer] = await asyncio.gather(acl_py.Malloc(8))
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait(), name="other")
        await acl_py.StreamWaitEvent(stream := await acl_py.CreateStream(), await acl_py.CreateEventWithFlag(1))
        group.create_task(acl_py.SynchronizeStream(stream))
"""


def test_a_program_in_a_folder_with_the_name_of_a_library_is_the_users(tmp_path):
    names = {"acl_py": acl, "asyncio": asyncio, "__name__": "anyio_programs"}
    exec(compile(PROGRAM, str(tmp_path / "anyio" / "contextlib.py"), "exec"), names)

    async def program():
        with pytest.raises(ExceptionGroup) as caught:
            await names["program"]()
        assert "SynchronizeStream(stream 1) at contextlib.py:7" in str(caught.value.exceptions[0])
        assert "in TaskGroup.__aexit__ at contextlib.py:4" in str(caught.value.exceptions[0])
        return str(acl.current_simulation().trace.calls[0].file)

    assert acl.run(program, device="tiny", rules="acl").endswith("contextlib.py")


def test_tests_that_a_library_brings_are_a_program_and_its_other_files_are_not():
    folder = Path(np.__file__).parent

    def main_in(name):
        names = {"sys": sys, "site_of": site_of}
        exec(compile("def main():\n    return str(site_of(sys._getframe()))", str(folder / name), "exec"), names)
        return names["main"]

    assert main_in("tests/test_own.py")() == "test_own.py:2"
    assert main_in("own.py")() == here()


@pytest.mark.parametrize("uvloop", [False, True])
def test_an_error_names_the_line_whose_work_failed(uvloop):
    async def program():
        stream = await acl.CreateStream()
        line = here(1)
        await asyncio.gather(acl.LaunchKernel(broken, 1, (), stream), acl.LaunchKernel(A, 1, (), stream))
        with pytest.raises(acl.AclError, match=f"<broken on stream 1 submitted at {line}> failed"):
            await acl.SynchronizeDevice()

    acl.run(program, device="tiny", uvloop=uvloop)


@pytest.mark.parametrize("uvloop", [False, True])
def test_calls_and_memory_name_the_line_of_the_task_that_was_made(uvloop):
    async def program():
        sim, line = acl.current_simulation(), here(1)
        [one, two] = await asyncio.gather(acl.Malloc(8), acl.Malloc(8))
        assert [str(x.allocation.made) for x in (one, two)] == [line, line]
        assert [f"{Path(call.file).name}:{call.line}" for call in sim.trace.calls] == [line, line]

    acl.run(program, device="tiny", uvloop=uvloop)


@pytest.mark.parametrize("backend", [{}, {"use_uvloop": True}])
def test_in_a_task_group_of_anyio(backend):
    lines = []

    async def program():
        async with acl.simulate(device="tiny") as sim:
            async with anyio.create_task_group() as group:
                lines.append(here(1))
                group.start_soon(acl.Malloc, 8)
            assert [f"{Path(call.file).name}:{call.line}" for call in sim.trace.calls] == lines

    anyio.run(program, backend_options=backend)


async def test_the_task_factory_of_the_loop_is_given_back():
    loop = asyncio.get_running_loop()
    made = []

    def mine(loop, coro, **options):
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **options)

    for factory in (None, mine):
        loop.set_task_factory(factory)
        async with acl.simulate(device="tiny"):
            line = here(1)
            buffer = await asyncio.create_task(acl.Malloc(8))
            assert str(buffer.allocation.made) == line
        assert loop.get_task_factory() is factory
    assert len(made) == 1
    loop.set_task_factory(None)


async def test_an_inner_or_overlapping_simulation_does_not_take_it_away_from_another():
    loop = asyncio.get_running_loop()
    async with acl.simulate(device="tiny"):
        async with acl.simulate(device="tiny"):
            pass
        line = here(1)
        buffer = await asyncio.create_task(acl.Malloc(8))
        assert str(buffer.allocation.made) == line
        other = acl.open(device="tiny")
    assert loop.get_task_factory() is not None
    line = here(1)
    buffer = await asyncio.create_task(acl.Malloc(8))
    assert str(buffer.allocation.made) == line
    await other.close()
    assert loop.get_task_factory() is None


async def test_a_factory_that_was_set_meanwhile_is_left_alone():
    loop = asyncio.get_running_loop()

    def mine(loop, coro, **options):
        return asyncio.Task(coro, loop=loop, **options)

    async with acl.simulate(device="tiny"):
        loop.set_task_factory(mine)
    assert loop.get_task_factory() is mine
    loop.set_task_factory(None)


def test_each_line_of_a_loop_of_calls_is_told_apart():
    async def program():
        sim = acl.current_simulation()
        first = here(2)
        for _ in range(3):
            await acl.LaunchKernel(A, 1)
            await acl.SynchronizeDevice()
        lines = [f"{Path(call.file).name}:{call.line}" for call in sim.trace.calls]
        return first, lines, len(calls(sim))

    first, lines, count = acl.run(program, device="tiny")
    assert (lines[0], len(set(lines)), count) == (first, 2, 6)


def test_lines_of_a_call_that_spans_several():
    async def program():
        line = here(1)
        op = await acl.LaunchKernel(
            A,
            1,
            (),
        )
        return line, str(op.site)

    line, site = acl.run(program, device="tiny")
    assert site == line


class Counted:
    """A site that counts how often it is put into words."""

    def __init__(self):
        self.texts = 0

    def __str__(self):
        self.texts += 1
        return "counted.py:1"


@pytest.mark.parametrize("others", [0, 1])
def test_await_makes_no_text_of_what_it_waits_for(others):
    async def main():
        tasks = [asyncio.create_task(acl.Sleep(50)) for _ in range(others)]
        op = await acl.LaunchKernel(A, 1)
        op.site = Counted()
        await op
        await asyncio.gather(*tasks)
        return op.site.texts

    assert acl.run(main, device="tiny", trace=False, workers=1) == 0


def test_an_await_that_can_never_end_says_what_it_waits_for():
    async def main():
        stream = await acl.CreateStream()
        with acl.current_simulation().fault(acl.faults.hang(op="kernel")):
            op = await acl.LaunchKernel(A, 1, (), stream)
        with pytest.raises(acl.DeadlockError) as caught:
            await op
        return op.site, str(caught.value)

    site, text = acl.run(main, device="tiny", workers=1)
    assert f": waits for A on stream 1 ({site}) can never end" in text


def test_a_program_of_an_environment_is_installed_however_it_was_named():
    program = Path(sysconfig.get_path("scripts"), "acl-py")
    assert [is_installed(f"{program}"), is_installed(os.path.relpath(program)), is_installed(__file__)] == [
        True,
        True,
        False,
    ]
