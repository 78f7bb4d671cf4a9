"""The pytest plugin in projects of its own: `--acl-sanitize`, `--acl-trace`, and the fixture acl_sim."""

import os
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from acl_py.trace import read_trace
from tests import forks

pytest_plugins = ["pytester"]
PLUGIN = "acl_py_pytest"
ROOT = Path(__file__).parent.parent.parent

# Two streams write to one buffer. Whether `races` orders them is its argument.
RACY = """\
import acl_py as acl
import numpy as np
import pytest


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


async def two_streams(ordered):
    buffer = await acl.Malloc(4096, name="weights")
    one, two = await acl.CreateStream(), await acl.CreateStream()
    await acl.MemsetAsync(buffer, 4096, 0, 4096, one)
    if ordered:
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.DestroyEvent(event)
    await double[1, two](acl.Array(buffer, np.float32))
    await acl.SynchronizeDevice()
    await acl.DestroyStream(one)
    await acl.DestroyStream(two)
    await acl.Free(buffer)

"""


@pytest.fixture
def outcome(pytester):
    """Run a test file with the plugin, in a process of its own."""
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))

    def outcome(text, *options, loads=()):
        pytester.makepyfile(test_project=RACY + text)
        others = {"asyncio", "xdist"} - set(loads)
        without = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "timeout", *others)]
        if "asyncio" in loads:
            without += ["-o", "asyncio_default_fixture_loop_scope=function"]  # its default warns
        options = [*options, *without, "-W", "error"]
        return forks.run_pytest(pytester, *options, *([] if installed else ["-p", PLUGIN]))

    return outcome


def test_a_test_fails_if_the_sanitizer_finds_something_in_its_simulations(outcome):
    text = """
def test_ordered():
    acl.run(two_streams, True)

def test_races():
    acl.run(two_streams, False)

@pytest.mark.xfail(reason="known", strict=True)
def test_known():
    acl.run(two_streams, False)

def test_fails_by_itself():
    acl.run(two_streams, False)
    assert 1 == 2
"""
    outcome(text).assert_outcomes(passed=2, failed=2)  # the strict xfail passes without the option
    done = outcome(text, "--acl-sanitize")
    done.assert_outcomes(passed=1, failed=2, xfailed=1)
    done.stdout.fnmatch_lines(
        [
            "*test_races*",
            "the sanitizer found 1 finding (race)",
            "race: fill 'weights' on stream 1 (test_project.py:14) writes 'weights'*double*test_project.py:20*race-*",
            "    test_project.py:14: fill 'weights' in stream 1*which writes",
            "    test_project.py:20: kernel 'double' in stream 2*which writes",
            "    bytes: 'weights'*0:4,096*",
            "    missing: *",
            "    fix: record on *",
            "*test_fails_by_itself*",
            "E*assert 1 == 2",
            "*sanitizer*",
            "the sanitizer found 1 finding (race)",
            "FAILED test_project.py::test_races - Found: the sanitizer *",
        ]
    )


def test_a_leak_fails_a_test_but_not_if_an_error_has_left_it(outcome):
    text = """
async def leaks(error=None):
    await acl.Malloc(64)
    if error is not None:
        raise error

def test_leaks():
    acl.run(leaks)

def test_expects_an_error():
    with pytest.raises(OSError, match="no such thing"):
        acl.run(leaks, OSError("no such thing"))

@pytest.mark.xfail(raises=OSError, reason="known", strict=True)
def test_known():
    acl.run(leaks, OSError("no such thing"))

def test_keeps_a_simulation_out():
    acl.run(leaks, sanitize=False)
"""
    done = outcome(text, "--acl-sanitize")
    done.assert_outcomes(passed=2, failed=1, xfailed=1)
    done.stdout.fnmatch_lines(
        [
            "*test_leaks*",
            "the sanitizer found 1 finding (leak)",
            "leak: 1 allocation of device memory, 64 B, never freed, made at test_project.py:28 *",
            "    test_project.py:28: Malloc",
            "note: leaks are not listed, because the program ended with an error",
        ]
    )


@pytest.mark.slow
def test_suppressions_of_the_project_are_kept_to_and_counted_in_all_processes(outcome, pytester):
    table = """
        [tool.acl_py.sanitizer]
        suppress = [
            { site = "test_project.py:14", reason = "the same zeros" },
            { site = "old.py:*", reason = "gone" },
        ]
        """
    pytester.makepyprojecttoml(table)
    text = """
@pytest.mark.parametrize("number", range(4))
def test_races(number):
    acl.run(two_streams, False)

def test_other_race():
    async def main():
        buffer = await acl.Malloc(64, name="other")
        for _ in range(2):
            await acl.MemsetAsync(buffer, 64, 0, 64, await acl.CreateStream())
        await acl.SynchronizeDevice()

    acl.run(main, sanitize="device")
"""
    for options in ([], ["-n", "2"]):
        done = outcome(text, "--acl-sanitize", *options, loads=["xdist"])
        done.assert_outcomes(passed=4, failed=1)
        done.stdout.fnmatch_lines(
            [
                "*test_other_race*",
                "suppressed: 4 by site 'test_project.py:14': the same zeros",
                "unused: site 'old.py:[*]' in *pyproject.toml",
            ]
        )
    pytester.makepyprojecttoml('[tool.acl_py.sanitizer]\nsuppress = [{ id = "rce", reason = "x" }]')
    done = outcome(text, "--acl-sanitize")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: *pyproject.toml: suppression 1: no finding has the id 'rce'; *"])


ACL_SIM = """
async def twice(us):
    await acl.Sleep(us)
    return 2 * us

@pytest.mark.acl(device="tiny")
def test_sync(acl_sim):
    with pytest.raises(RuntimeError, match="no simulation has begun"):
        acl_sim.now_us
    assert acl_sim.run(twice, 5.0) == 10.0
    assert acl_sim.now_us >= 5
    assert acl_sim.simulation.runtime.profile.name == "tiny"
    acl_sim.run(twice, 500.0)
    assert acl_sim.now_us >= 500     # a new simulation
"""
ASYNC = """
@pytest.mark.acl(device="tiny")
{mark}async def test_async(acl_sim):
    import asyncio
    begin = acl_sim.now_us
    await asyncio.sleep(3600)     # simulated
    assert acl_sim.now_us - begin == pytest.approx(3.6e9)
    assert acl.current_simulation() is acl_sim.simulation
    await two_streams(True)
    acl_sim.assert_ordered("fill", "double")

class TestMethods:
    {mark}async def test_method(self, acl_sim, request):
        await two_streams(False)
        assert request.function is not None
        with pytest.raises(AssertionError, match="nothing puts double on stream 2"):
            acl_sim.assert_ordered("fill", "double")
"""


@pytest.mark.parametrize("loads", [["asyncio"], ["anyio"]])
def test_tests_of_both_kinds_have_a_simulation(outcome, loads):
    mark = "@pytest.mark.asyncio\n" if loads == ["asyncio"] else "@pytest.mark.anyio\n"
    backend = '\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n'
    text = ACL_SIM + ASYNC.replace("    {mark}", f"    {mark}    ").replace("{mark}", mark) + backend
    outcome(text, loads=loads).assert_outcomes(passed=3)
    done = outcome(text, "--acl-sanitize", loads=loads)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*TestMethods.test_method*", "race: fill 'weights' on stream 1*"])


def test_leaks_that_show_at_the_end_of_a_fixture_are_errors_of_its_teardown(outcome):
    done = outcome(
        """
def test_leaks(acl):
    import acl
    acl.rt.set_device(0)
    stream, ret = acl.rt.create_stream()

def test_tidy(acl):
    import acl
    acl.rt.set_device(0)
    stream, ret = acl.rt.create_stream()
    acl.rt.destroy_stream(stream)
    acl.rt.reset_device(0)
""",
        "--acl-sanitize",
    )
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_leaks*", "leak: 1 stream never destroyed, made at test_project.py:30*"]
    )


def test_assertions_about_what_happened(outcome):
    done = outcome(
        """
async def copies(size, pinned):
    host = (await acl.MallocHost(size)).numpy(np.uint8) if pinned else np.zeros(size, np.uint8)
    device = await acl.Malloc(size)
    small = acl.Array(await acl.Malloc(4096), np.float32)
    one, two = await acl.CreateStream(name="copies"), await acl.CreateStream()
    await acl.MemcpyAsync(device, size, host, size, acl.MemcpyKind.HOST_TO_DEVICE, one)
    await double[1, two](small)
    await acl.SynchronizeDevice()

def test_good(acl_sim):
    acl_sim.run(copies, 1 << 20, True)
    acl_sim.assert_overlaps("h2d", "double")
    acl_sim.assert_overlaps("stream 'copies'", "kernel")
    acl_sim.assert_no_implicit_sync()
    acl_sim.assert_within_us(50, "h2d")

def test_overlaps(acl_sim):
    acl_sim.run(two_streams, True)
    acl_sim.assert_overlaps("fill", "double")

def test_no_such(acl_sim):
    acl_sim.run(two_streams, True)
    acl_sim.assert_ordered("fill", "dubble")

def test_waits(acl_sim):
    acl_sim.run(copies, 1 << 20, False)
    acl_sim.assert_no_implicit_sync()

def test_within(acl_sim):
    acl_sim.run(two_streams, True)
    acl_sim.assert_within_us(5, "double")
"""
    )
    done.assert_outcomes(passed=1, failed=4)
    done.stdout.fnmatch_lines(
        [
            "E * AssertionError: 'fill' and 'double' never run at the same time:",
            "E *  fill on stream 1 (test_project.py:14): * us",
            "E *  double on stream 2 (test_project.py:20): * us",
            "E * AssertionError: no operation is called 'dubble'; there are 'fill', *",
            "E * AssertionError: something waited without being asked to",
            "E *  test_project.py:*: a copy from pageable memory kept the host*",
            "E * AssertionError: 'double' took 10.* us, * us more than 5",
        ]
    )


def test_assertions_about_time_and_memory(outcome):
    done = outcome(
        """
async def hold(nbytes):
    first = await acl.Malloc(nbytes)
    await acl.Free(first)
    second, small = await acl.Malloc(nbytes), await acl.Malloc(4096)
    await double[1, None](acl.Array(small, np.float32))
    await acl.SynchronizeDevice()
    await acl.Free(second)
    await acl.Free(small)

def test_good(acl_sim):
    acl_sim.run(hold, 1 << 20)
    acl_sim.assert_time(10.75, "double")
    acl_sim.assert_peak_memory((1 << 20) + 4096)
    acl_sim.assert_held(1000, by="SynchronizeDevice")
    acl_sim.assert_held(0, by="Malloc")

def test_time(acl_sim):
    acl_sim.run(hold, 1 << 20)
    acl_sim.assert_time(12, "double", tolerance=0.01)

def test_peak(acl_sim):
    acl_sim.run(hold, 1 << 20)
    acl_sim.assert_peak_memory(1 << 20)

def test_held(acl_sim):
    acl_sim.run(hold, 1 << 20)
    acl_sim.assert_held(1)

def test_no_such_call(acl_sim):
    acl_sim.run(hold, 1 << 20)
    acl_sim.assert_held(1, by="SynchroniseDevice")
"""
    )
    done.assert_outcomes(passed=1, failed=4)
    done.stdout.fnmatch_lines(
        [
            "E * AssertionError: 'double' took 10.* us, not 12 within 1 %",
            "E * AssertionError: 1,052,672 bytes of device 0 were in use at * us, 4,096 more than 1,048,576:",
            "E *   test_project.py:30: 1,052,672 bytes",
            "E * AssertionError: calls held the host for * us, more than 1 us:",
            "E *   SynchronizeDevice (test_project.py:32): * us",
            "E * AssertionError: no call is of 'SynchroniseDevice': name a verb, *",
        ]
    )


GOLDEN = """
import pathlib

SIZE = int(pathlib.Path(__file__).with_name("size").read_text())

async def fills(size):
    buffer = await acl.Malloc(1 << 20)
    await acl.MemsetAsync(buffer, 1 << 20, 0, size)
    await double[1, None](acl.Array(buffer, np.float32))
    await acl.SynchronizeDevice()

def test_like(acl_sim):
    acl_sim.run(fills, 1 << 20 if SIZE else 1 << 10)
    acl_sim.assert_like("golden/fills.acl", tolerance=0.01)
"""


def test_a_golden_recording_is_written_and_compared(outcome, pytester):
    """The file is missing, then written; the run is like it, then it differs in bytes; the file cannot be read."""
    size = pytester.path / "size"
    size.write_text("1")
    outcome(GOLDEN).stdout.fnmatch_lines(["E * there is no golden recording * run pytest with --acl-update-golden *"])
    outcome(GOLDEN, "--acl-update-golden").assert_outcomes(passed=1)
    outcome(GOLDEN).assert_outcomes(passed=1)
    size.write_text("0")
    done = outcome(GOLDEN)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "E * the run is not like fills.acl: operation 1 of legacy was fill of 1,048,576 bytes and is *",
            "E * 31.9 us before, 31.9 us after: no difference",
            "E * if it should be so: look at what changed, and then run pytest with --acl-update-golden",
        ]
    )
    (pytester.path / "golden" / "fills.acl").write_bytes(b"not a recording")
    outcome(GOLDEN).stdout.fnmatch_lines(["E * run pytest with --acl-update-golden to write it again"])


def test_a_mark_puts_fault_rules_in_force_and_leaks_behind_them_are_told_apart(outcome):
    done = outcome(
        """
async def careless():
    kept = await acl.Malloc(64)
    try:
        other = await acl.Malloc(128)
    except acl.AclError:
        return "refused"
    await acl.Free(other)
    await acl.Free(kept)

@pytest.mark.acl(faults=["fail call=Malloc nth=2"])
def test_refused(acl_sim):
    assert acl_sim.run(careless) == "refused"

@pytest.mark.acl(faults=[acl.faults.fail(call="Malloc", nth=1)])
def test_an_error_in_place_of_a_result(acl_sim):
    with pytest.raises(acl.AclError):
        acl_sim.run(careless)

def test_without_faults(acl_sim):
    acl_sim.run(careless)

@pytest.mark.acl(faults=["fail cal=Malloc"])
def test_a_wrong_rule(acl_sim):
    pass
""",
        "--acl-sanitize",
    )
    done.assert_outcomes(passed=2, failed=1, errors=1)
    done.stdout.fnmatch_lines(["faults of @pytest.mark.acl: *cal*"])
    done.stdout.fnmatch_lines(
        ["*never freed, made at *; then the fault rule fail(call='Malloc', nth=2) struck: the code behind*"]
    )


def test_a_mark_with_an_option_that_there_is_not(outcome):
    done = outcome(
        """
@pytest.mark.acl(devise="tiny")
async def test_a_name(acl_sim):
    pass

@pytest.mark.acl("tiny")
async def test_no_name(acl_sim):
    pass
"""
    )
    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(
        ["@pytest.mark.acl has no option 'devise'; for acl_sim there are faults, device, rules, *"]
    )
    done.stdout.fnmatch_lines(["@pytest.mark.acl takes options by their names, as device='tiny', not 'tiny'"])


def test_recordings_are_written(outcome, pytester):
    text = """
def test_one():
    acl.run(two_streams, True)

def test_two(acl_sim):
    acl_sim.run(two_streams, True)
    acl_sim.run(two_streams, True)

def test_none():
    acl.run(two_streams, True, trace=False)
"""
    outcome(text, "--acl-trace", "traces").assert_outcomes(passed=3)
    files = sorted((pytester.path / "traces").iterdir())
    assert [file.name for file in files] == [
        "test_project.py-test_one.acl",
        "test_project.py-test_two-1.acl",
        "test_project.py-test_two-2.acl",
    ]
    assert [op.name for op in read_trace(files[2]).ops] == ["fill", "double"]


def test_twice_in_one_process(tmp_path):
    (tmp_path / "test_project.py").write_text(
        f"{RACY}\ndef test_races():\n    acl.run(two_streams, False)\n", encoding="utf-8"
    )
    script = """
import pytest
quiet = ["-q", "-p", "acl_py_pytest", *(f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "asyncio"))]
codes = [int(pytest.main([*quiet, *more])) for more in (["--acl-sanitize"], [], ["--acl-sanitize"])]
assert codes == [1, 0, 1], codes
"""
    done = forks.run("-c", script, cwd=tmp_path, env={**os.environ, "PYTEST_ADDOPTS": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nthe sanitizer found 1 finding (race)\n") == 2
