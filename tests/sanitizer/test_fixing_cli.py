"""`--sanitize --fix`: what is said of the fixes, and the program that has them."""

import json
import os

import pytest

from tests import forks

RACY = {
    "id": "racy",
    "gap_us": 0,
    "buffers": {"d": {"space": "device", "bytes": 64}, "p": {"space": "pinned", "bytes": 64}},
    "streams": {"A": {}, "B": {}},
    "steps": [
        {"op": "launch", "stream": "A", "us": 10, "writes": [["d", 0, 64]]},
        {"op": "memcpy_async", "dst": "p", "src": "d", "bytes": 64, "stream": "B"},
    ],
}
SCRIPT = """\
import acl_py as acl

@acl.kernel(cost=acl.Cost(us=10))
def add(x: acl.InOut):
    x += 1

async def main():
    host, device = await acl.MallocHost(64), await acl.Malloc(64, name="weights")
    one, two = await acl.CreateStream(name="one"), await acl.CreateStream(name="two")
    for _ in range(2):
        await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, one)
        await add[1, two](acl.Array(device, "uint8"))
        await acl.SynchronizeDevice()

acl.run(main, device="tiny")
"""
HOST_SCRIPT = """\
import numpy as np, acl_py as acl

async def main():
    host, device = await acl.MallocHost(64), await acl.Malloc(64, name="weights")
    one, view = await acl.CreateStream(name="one"), host.numpy(np.uint8)
    for item in range(2):
        await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, one)
        for place in range(3):
            view[place] = item
        await acl.SynchronizeStream(one)

acl.run(main, device="tiny")
"""
ENOUGH = "note: 1 fix is enough for all findings about order: {1} behind {0}; it costs "


@pytest.fixture
def acl_py_does(tmp_path):
    def acl_py_does(*options):
        return forks.run("-m", "acl_py", *options, cwd=tmp_path, env={**os.environ, "COLUMNS": "400"})

    (tmp_path / "racy.json").write_text(json.dumps(RACY), encoding="utf-8")
    (tmp_path / "host.py").write_text(HOST_SCRIPT, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return acl_py_does


def test_a_program_is_written_with_its_fixes(acl_py_does, tmp_path):
    done = acl_py_does("replay", "--device", "tiny", "--sanitize", "--fix=fixed.json", "racy.json")
    assert done.returncode == 4
    assert "\n    tried: the finding is gone, it costs " in done.stderr
    assert ENOUGH.format("step:0", "step:1") in done.stderr
    steps = json.loads((tmp_path / "fixed.json").read_text(encoding="utf-8"))["steps"]
    assert [step["op"] for step in steps] == ["launch", "record", "wait", "memcpy_async"]
    again = acl_py_does("replay", "--device", "tiny", "--sanitize", "--fix", "fixed.json")
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "acl-py: the sanitizer found nothing")


def test_the_fix_of_a_script_is_tried_on_the_program_of_its_run(acl_py_does, tmp_path):
    done = acl_py_does("run", "--sanitize=device", "--fix=fixed.json", "--findings=found.json", "script.py")
    assert done.returncode == 4
    [finding] = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["findings"]
    assert finding["tried"]["is_gone"] is True
    assert finding["tried"]["cost_us"] > 0
    assert finding["tried"]["text"] == f"the finding is gone, it costs {finding['tried']['cost_us']:.1f} us"
    assert ENOUGH.format("script.py:11", "script.py:12") in done.stderr
    steps = json.loads((tmp_path / "fixed.json").read_text(encoding="utf-8"))["steps"]
    assert [step["op"] for step in steps].count("record") == 2
    assert {step["site"] for step in steps if step["op"] == "wait"} == {"script.py:12"}


def test_the_fix_of_an_access_of_the_host_is_tried(acl_py_does, tmp_path):
    """In all forms of the report; the loop over items is one access, and so has one wait."""
    options = ("run", "--sanitize=host", "--fix=fixed.json")
    done = acl_py_does(*options, "--findings=found.json", "host.py")
    [finding] = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["findings"]
    trial = finding["tried"]
    assert (finding["fix"], finding["count"]) == ("SynchronizeStream(one) before host.py:9", 6)
    assert trial["is_gone"] is True
    assert trial["text"] == f"the finding is gone, it costs {trial['cost_us']:.1f} us"
    assert f"\n    tried: {trial['text']}\n" in done.stderr
    acl_py_does(*options, "--findings=found.sarif", "--findings-format=sarif", "host.py")
    [run] = json.loads((tmp_path / "found.sarif").read_text(encoding="utf-8"))["runs"]
    [result] = run["results"]
    assert result["properties"] == {"tried": trial}
    steps = json.loads((tmp_path / "fixed.json").read_text(encoding="utf-8"))["steps"]
    assert [step["op"] for step in steps[3:]] == ["memcpy_async", "sync_stream", "host_access", "sync_stream"] * 2
    again = acl_py_does("replay", "--device=tiny", "--sanitize=host", "fixed.json")
    assert (again.returncode, again.stderr.splitlines()[0]) == (0, "acl-py: the sanitizer found nothing")


def test_a_recording_of_a_host_that_was_not_watched_says_so(acl_py_does, tmp_path):
    """Only where its fixes are tried."""
    steps = [{**step, "site": f"demo.py:{line}"} for line, step in enumerate(RACY["steps"], 1)]
    (tmp_path / "run.json").write_text(json.dumps({**RACY, "steps": steps}), encoding="utf-8")
    note = "note: a recorded program has no accesses of the host, so races with these are not found in it: "
    for program, options, is_said in (
        ("run.json", (), False),
        ("run.json", ("--fix",), True),
        ("racy.json", ("--fix",), False),
    ):
        done = acl_py_does("replay", "--device=tiny", "--sanitize", *options, program)
        assert (note in done.stderr) is is_said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fix"], "--fix tries the fixes of what --sanitize finds: give both"),
        (["--sanitize", "--fix", "--fault", "fail call=Malloc"], "--fix run the program again, without faults"),
    ],
)
def test_options_that_do_not_go_with_it(acl_py_does, options, message):
    done = acl_py_does("replay", *options, "racy.json")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_file_that_cannot_be_written(acl_py_does):
    done = acl_py_does("replay", "--device", "tiny", "--sanitize", "--fix=no/such.json", "racy.json")
    assert "no/such.json: cannot be written: No such file or directory" in done.stderr
    assert done.returncode == 1


def test_one_file_is_for_one_program(acl_py_does):
    done = acl_py_does("replay", "--device", "tiny", "--sanitize", "--fix=fixed.json", "racy.json", "racy.json")
    assert "--fix=fixed.json writes one program, but fixes were tried in 2" in done.stderr
