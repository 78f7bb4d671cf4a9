"""With what a run has ended: `Trace.error` has the text that a person reads, and is empty after a run to the end."""

import asyncio
import re

import pytest

import acl_py as acl
from acl_py import faults
from acl_py.trace import read_trace


@acl.kernel(cost=acl.Cost(us=10))
def work():
    pass


async def hang():
    stream, event = await acl.CreateStream(), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    await acl.StreamWaitEvent(stream, event)
    await acl.SynchronizeStream(stream)


async def lose():
    with acl.current_simulation().fault(faults.lose_device(op="kernel")):
        await work[1, None]()
        await acl.SynchronizeDevice()


async def ended(main, error):
    """The trace of a simulation that *main* ends with an *error*, and the error."""
    with pytest.raises(error) as caught:
        async with acl.simulate(device="tiny", rules="acl") as sim:
            await main()
    return sim.trace, caught.value


async def test_a_deadlock_with_its_chain():
    trace, error = await ended(hang, acl.DeadlockError)
    assert trace.error == f"DeadlockError: {error}"
    assert all(line in trace.error for line in error.chain)
    assert "wait for Event 1 on stream 1 (test_endings.py:" in trace.error


async def test_a_lost_device_with_the_rule_that_lost_it():
    trace, error = await ended(lose, acl.AclError)
    assert error.kind is acl.Kind.DEVICE_LOST
    assert trace.error == f"AclError: {error}"
    assert "lose_device(op='kernel')" in trace.error


async def test_an_exception_of_the_program_itself():
    async def main():
        await acl.CreateStream()
        raise KeyError("shape")

    trace, _ = await ended(main, KeyError)
    assert trace.error == "KeyError: 'shape'"
    assert len(trace.calls) == 1


async def test_a_group_has_the_text_of_each_part_with_its_notes():
    async def fail():
        error = ValueError("no rows")
        error.add_note("while it read the input")
        raise error

    async def main():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    trace, _ = await ended(main, ExceptionGroup)
    assert trace.error == (
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  ValueError: no rows\n"
        "  while it read the input"
    )  # fmt: skip


async def test_a_run_to_its_end_has_none_even_if_calls_failed_on_the_way():
    async with acl.simulate(device="tiny", rules="acl") as sim:
        with pytest.raises(acl.DeadlockError):
            await hang()
    assert sim.trace.error == ""


@pytest.mark.timeout(0)  # the handler of its signal might wake a task
def test_tasks_that_wait_for_one_another_end_a_run_with_a_deadlock():
    seen = []

    async def main():
        seen.append(acl.current_simulation().trace)
        await asyncio.Queue().get()

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(main, device="tiny")
    assert seen[0].error == f"DeadlockError: {caught.value}"


def test_a_deadlock_calls_tasks_without_a_name_what_the_trace_calls_them():
    sims = []

    async def main():
        sims.append(acl.current_simulation())
        stream = await acl.CreateStream()
        await acl.WaitAndResetNotify(await acl.CreateNotify(), stream)
        await asyncio.gather(acl.SynchronizeStream(stream), acl.SynchronizeStream(stream))

    with pytest.raises(acl.DeadlockError) as raised:
        acl.run(main, device="tiny", rules="acl")
    told = re.findall("^  (task [^:]*):", str(raised.value), re.MULTILINE)
    assert told == ["task 2", "task 3", "task 1"]
    assert {call.caller for call in sims[0].trace.timeline().calls} == {*told}


def test_a_program_that_exits_has_come_to_its_end():
    seen = []

    async def main():
        seen.append(acl.current_simulation().trace)
        raise SystemExit(2)

    with pytest.raises(SystemExit):
        acl.run(main, device="tiny")
    assert seen[0].error == ""


async def test_a_saved_trace_has_it_too(tmp_path):
    trace, _ = await ended(hang, acl.DeadlockError)
    trace.save(tmp_path / "run.acltrace")
    assert read_trace(tmp_path / "run.acltrace").error == trace.error


async def test_without_a_trace_an_error_leaves_as_ever():
    with pytest.raises(KeyError, match="shape"):
        async with acl.simulate(device="tiny", trace=False):
            raise KeyError("shape")
