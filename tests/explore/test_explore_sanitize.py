"""`acl-py explore --sanitize`: the findings of all runs are one list, however the runs end."""

import asyncio

import pytest

import acl_py as acl
from acl_py.schedules import Replay, Schedule, following, parse
from tests.explore.test_explore_cli import explore, script

RACE = """\
import asyncio, sys
import acl_py as acl

@acl.kernel(cost=acl.Cost(us=100))
def double(x: acl.InOut):
    x *= 2

async def main(end=lambda: None, ordered=False):
    device, host = await acl.Malloc(1000), await acl.MallocHost(1000)
    copies, work = await acl.CreateStream(name="copies"), await acl.CreateStream(name="work")
    await acl.MemcpyAsync(device, 1000, host, 1000, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await asyncio.sleep(50e-6)
    if not ordered or await acl.StreamQuery(copies) is acl.Status.NOT_READY:
        await double[1, work](device)
    await acl.SynchronizeDevice()
    end()

async def hang():
    await main()
    await asyncio.Event().wait()

def spin():
    print("it spins", flush=True)
    while True:
        pass

def spin_on():
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spin()

def fail():
    raise ArithmeticError("as planned")

def lose():
    from acl_py import faults
    acl.current_simulation().fault(faults.lose_device(call="Malloc"))
"""
LOST = """
async def lost():
    await main(lose)
    await acl.Malloc(1)
"""


def explored(tmp_path, *lines, options=()):
    code, out, err = explore("--sanitize=device", *options, "script.py", folder=script(tmp_path, RACE, *lines))
    return code, out, err, err.count("    missing: `work` does not wait for what `copies` was given")


@pytest.mark.slow  # it runs a script fourteen times
def test_what_any_run_has_is_found_and_one_schedule_that_has_it_is_shown(tmp_path):
    code, out, err, count = explored(tmp_path, "acl.run(main, print, True)", options=["--seed=1", "--runs=12"])
    assert (code, count) == (4, 1)
    assert out == "none of 12 schedules fails (random, 11 choice points)\n"
    assert err.startswith("acl-py: the sanitizer found 1 finding (race)\nrace: h2d on stream 'copies' ")
    *_, last = err.splitlines()
    text, command = last.split(": ")
    assert text.endswith(" is not found under the default schedule")
    words = command.split()
    assert words[:4] == ["acl-py", "explore", "--schedule", words[3]]
    code, _, err = explore("--schedule", words[3], "--sanitize=device", "script.py", folder=tmp_path)
    assert (code, err.count("race: h2d on stream 'copies'")) == (4, 1)


@pytest.mark.parametrize(
    ("lines", "code", "sentence"),
    [
        (["acl.run(main, lambda: sys.exit(0))"], 4, "none of 1 schedule fails"),
        (["acl.run(main, lambda: sys.exit(3))"], 2, "it ended with exit code 3"),
        (["acl.run(main, fail)"], 2, "ArithmeticError: as planned"),
        (["acl.run(hang)"], 2, "on a card this would hang"),
        ([LOST, "acl.run(lost)"], 2, "is lost: injected by fault rule"),
    ],
    ids=["exit 0", "exit 3", "raise", "hang", "device lost"],
)
@pytest.mark.slow
def test_findings_are_kept_however_a_run_ends(tmp_path, lines, code, sentence):
    found, out, err, count = explored(tmp_path, *lines, options=["--runs=1"])
    assert (found, count) == (code, 1)
    assert sentence in out + err
    assert "leak" not in err


@pytest.mark.slow  # it waits for seconds of real time
def test_findings_are_kept_if_a_run_takes_too_long(tmp_path):
    code, _, err, count = explored(tmp_path, "acl.run(main, spin)", options=["--runs=1", "--limit=6"])
    assert (code, count) == (2, 1)
    assert "it did not end within 6 s of real time\n  | it spins\n" in err
    assert "leak" not in err


@pytest.mark.slow  # it waits for seconds of real time
def test_a_run_that_does_not_mind_being_stopped_is_killed(tmp_path):
    code, _, err, _ = explored(tmp_path, "acl.run(main, spin_on)", options=["--runs=1", "--limit=1"])
    assert code == 2
    assert "it did not end within 1 s of real time" in err


@pytest.mark.slow
def test_a_checker_that_raises(tmp_path):
    code, _, err, count = explored(tmp_path, "acl.run(main)", options=["--runs=1", "--check=fail"])
    assert (code, count) == (2, 1)
    assert "ArithmeticError: as planned" in err


@pytest.mark.slow
def test_suppressions_of_the_project_count(tmp_path):
    table = '[tool.acl_py.sanitizer]\nsuppress = [{ site = "script.py:*", reason = "meant" }]\n'
    (tmp_path / "pyproject.toml").write_text(table)
    code, _, err, _ = explored(tmp_path, "acl.run(main)", options=["--runs=1"])
    assert code == 0
    assert "meant" in err


def test_a_part_that_there_is_not(tmp_path):
    code, _, err = explore("--sanitize=races", "script.py", folder=script(tmp_path, "x = 1"))
    assert code == 2
    assert "the sanitizer has no part 'races'" in " ".join(err.replace("│", " ").split())


def test_the_order_of_tasks_is_explored_for_programs_that_ask_for_uvloop():
    pytest.importorskip("uvloop")
    order = []

    async def main():
        async def note(name):
            await asyncio.sleep(0)
            order.append(name)

        await asyncio.gather(note("a"), note("b"))

    with following(Schedule(Replay(parse("task@1=1")))):
        acl.run(main, device="tiny", uvloop=True)
    assert order == ["b", "a"]
