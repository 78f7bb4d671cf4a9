"""`acl-py run --sanitize` and `acl-py replay --sanitize`: the report, the files, and the exit code."""

import json
import os
import re

import pytest

from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.sanitizer import Kind
from tests import forks

# Core kernels find their mistakes themselves, so that this script has a finding whatever the sanitizer looks for.
MISTAKE = """\
import acl_py
from acl_py import asc

@asc.kernel
def hasty(x: asc.Out):
    target = asc.GlobalTensor(asc.int32).SetGlobalBuffer(x)
    asc.DataCopy(target, asc.LocalTensor(asc.int32, asc.TPosition.VECCALC, 0, 8), 8)

async def main():
    out = await acl_py.Malloc(32)
    await hasty[1](out)
    await acl_py.SynchronizeDevice()
    await acl_py.Free(out)

acl_py.run(main, device="ascend910b3")
"""
RACING = """\
import acl_py as acl
async def main():
    memory = await acl.Malloc(64, name="x")
    for name in "ab":
        await acl.MemsetAsync(memory, 64, 0, 64, await acl.CreateStream(name=name))
    await acl.SynchronizeDevice()
    await acl.Free(memory)
acl.run(main)
"""
LEAKING = """\
import acl
acl.init()
acl.rt.set_device(0)
pointer, ret = acl.rt.malloc(1024, 0)
stream, ret = acl.rt.create_stream()
buffer = acl.create_data_buffer(pointer, 1024)
"""
HANG = "acl.rt.synchronize_stream(stream)"
TEXT = re.compile(r"kernel hasty: UNWRITTEN_READ in block 0 \(AIV\): .* at script\.py:7 .* \[(kernel-[0-9a-f]{8})\]")


@pytest.fixture
def acl_py_does(tmp_path):
    def acl_py_does(command, *options, script=MISTAKE):
        (tmp_path / "script.py").write_text(script, encoding="utf-8")
        return forks.run("-m", "acl_py", command, *options, cwd=tmp_path, env={**os.environ, "COLUMNS": "400"})

    return acl_py_does


def reported(done):
    """The lines of the report, which begins behind the summary."""
    summary, _, report = done.stderr.rpartition("acl-py: the sanitizer")
    assert " us of simulated time\n" in summary
    return f"acl-py: the sanitizer{report}".splitlines()


def test_findings_are_reported_after_the_summary_and_the_exit_code_is_4(acl_py_does):
    done = acl_py_does("run", "--sanitize", "script.py")
    assert done.returncode == 4
    headline, finding = reported(done)
    assert headline == "acl-py: the sanitizer found 1 finding (kernel)"
    assert TEXT.fullmatch(finding)


def test_without_the_option_a_finding_is_a_line_and_the_exit_code_is_the_scripts(acl_py_does):
    done = acl_py_does("run", "script.py", script=RACING)
    assert done.returncode == 0
    headline, race, fix = reported(done)
    assert (
        headline
        == "acl-py: the sanitizer found 1 finding (race); --sanitize shows the details, and makes the exit code 4"
    )
    assert re.fullmatch(r"  race: fill 'x' on stream 'a' \(script\.py:5\) writes .* \[race-[0-9a-f]{8}\]", race)
    assert fix == "    fix: record on `a` after script.py:5, wait on `b` before script.py:5"


def test_a_brief_report_counts_what_it_does_not_show(acl_py_does):
    done = acl_py_does("run", "script.py", script="".join(f"\n{RACING}" for _ in range(12)))
    headline, *lines = reported(done)
    assert headline.startswith("acl-py: the sanitizer found 12 findings (race); ")
    assert (len(lines), lines[-1]) == (21, "  and 2 more")


def test_without_findings_nothing_is_said(acl_py_does):
    done = acl_py_does("run", "script.py", script="print('well')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")


def test_findings_of_a_strict_run_make_its_exit_code_4(acl_py_does):
    done = acl_py_does("run", "--strict", "script.py", script=RACING)
    assert done.returncode == 4
    assert "acl-py: the sanitizer found 1 finding (race); " in done.stderr


def test_no_sanitize_looks_for_nothing_and_core_kernels_tell_their_mistakes_themselves(acl_py_does):
    done = acl_py_does("run", "--no-sanitize", "--strict", "script.py", script=RACING)
    assert done.returncode == 0
    assert "sanitizer" not in done.stderr
    done = acl_py_does("run", "--no-sanitize", "script.py")
    assert done.stderr.startswith("kernel hasty: UNWRITTEN_READ in block 0 (AIV): ")


def test_a_default_run_writes_its_findings_to_a_file_too(acl_py_does, tmp_path):
    acl_py_does("run", "--findings", "found.json", "script.py", script=RACING)
    (finding,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["findings"]
    assert finding["kind"] == "race"


def test_accesses_have_the_lines_of_the_script_that_led_there(acl_py_does):
    script = """\
import acl
def clear(pointer, stream):
    acl.rt.memset_async(pointer, 64, 0, 64, stream)
def main():
    acl.rt.set_device(0)
    pointer, _ = acl.rt.malloc(64, 0)
    for _ in range(2):
        clear(pointer, acl.rt.create_stream()[0])
    acl.rt.synchronize_device()
main()
"""
    report = acl_py_does("run", "--sanitize=device", "script.py", script=script).stderr
    path = "        from script.py:8 in main\n        from script.py:10 in <module>\n"
    assert report.count(f" by the program, which writes\n{path}") == 2


def test_a_script_without_findings(acl_py_does):
    done = acl_py_does(
        "run", "--sanitize=device,leaks", "script.py", "--sanitize", script="import sys; print(sys.argv)"
    )
    assert (done.returncode, done.stdout) == (0, "['script.py', '--sanitize']\n")
    assert done.stderr == "acl-py: the sanitizer found nothing\n"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise OSError('no such thing')", 1),
        (  # a hang
            (
                "import acl\nacl.rt.set_device(0)\nstream, ret = acl.rt.create_stream()\n"
                "event, ret = acl.rt.create_event_with_flag(1)\nacl.rt.stream_wait_event(stream, event)\n"
                "acl.rt.synchronize_stream(stream)"
            ),
            3,
        ),
        ("acl_py.run(main, device='ascend910b3')\nimport os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -15),
    ],
    ids=["sys.exit", "exception", "hang", "SIGTERM"],
)
def test_however_a_script_ends_its_findings_are_kept_and_its_exit_code_stays(acl_py_does, last, code):
    done = acl_py_does("run", "--sanitize", "script.py", script=f"{MISTAKE}\n{last}\n")
    assert done.returncode == code
    assert re.search(
        r"acl-py: the sanitizer found \d findings? \([a-z, ]+\)\nkernel hasty: UNWRITTEN_READ", done.stderr
    )


def test_each_leak_is_told_once(acl_py_does):
    memory = "leak: 1 allocation of device memory, 1.0 KiB, never freed, made at script.py:4"
    stream = "leak: 1 stream never destroyed, made at script.py:5"
    other = "leak: 1 data buffer never destroyed"  # the sanitizer does not look at those
    summary = acl_py_does("run", "script.py", script=LEAKING).stderr
    assert [line.strip() for line in summary.splitlines() if "leak" in line] == [memory, stream, other]
    summary, report = acl_py_does("run", "--sanitize", "script.py", script=LEAKING).stderr.split("acl-py: the ")
    assert [line.strip() for line in summary.splitlines() if "leak" in line] == [other]
    assert [line.split(" [leak-")[0] for line in report.splitlines() if "leak:" in line] == [memory, stream]


def test_leaks_name_the_function_that_the_script_called(acl_py_does):
    script = """\
import acl
import acl_py
acl.rt.set_device(0)
for allocate in acl.rt.malloc, acl.media.dvpp_malloc, acl.rt.malloc_host:
    allocate(*[64, 0][: 2 if allocate is acl.rt.malloc else 1])
pinned, ret = acl.media.dvpp_malloc(64)
event, ret = acl.rt.create_event_with_flag(1)
async def main():
    acl.rt.create_stream()
    await acl_py.CreateStream()
acl_py.run(main)
"""
    report = acl_py_does("run", "--sanitize=leaks", "script.py", script=script).stderr
    found = re.findall(
        r"^    script\.py:(.*)$(?:\n    bytes: .*)?\n    fix: ([\w.]+)", report.split("acl-py: the ")[1], re.M
    )
    assert found == [
        ("5: acl.rt.malloc", "acl.rt.free"),
        ("5: acl.media.dvpp_malloc", "acl.media.dvpp_free"),
        ("5: acl.rt.malloc_host", "acl.rt.free_host"),
        ("6: acl.media.dvpp_malloc", "acl.media.dvpp_free"),
        ("7: acl.rt.create_event_with_flag", "acl.rt.destroy_event"),
        ("9: acl.rt.create_stream", "acl.rt.destroy_stream"),
        ("10: CreateStream", "DestroyStream"),
    ]


@pytest.mark.parametrize("options", [[], ["--sanitize"]])
def test_a_script_that_ends_with_an_error_lists_no_leaks(acl_py_does, options):
    line = "leaks are not listed, because the program ended with an error"
    for end in "raise OSError('x')", "acl.rt.stream_wait_event(stream, acl.rt.create_event_with_flag(1)[0])\n" + HANG:
        errors = acl_py_does("run", *options, "script.py", script=f"{LEAKING}{end}").stderr
        assert [each.strip().removeprefix("note: ") for each in errors.splitlines() if "leak" in each] == [line]
    tidy = acl_py_does("run", *options, "script.py", script="import acl\nacl.init()\nraise OSError('x')")
    assert "leak" not in tidy.stderr
    chosen = acl_py_does("run", *options, "script.py", script=f"{LEAKING}raise SystemExit(2)")
    assert "leak: 1 stream never destroyed" in chosen.stderr


def test_findings_go_to_a_file_in_each_format(acl_py_does, tmp_path):
    done = acl_py_does("run", "--sanitize", "--findings", "-", "--findings-format", "github", "script.py")
    assert re.match(r"::warning file=script\.py,line=7,title=kernel-[0-9a-f]{8}::kernel hasty: ", done.stdout)
    acl_py_does("run", "--sanitize", "--findings", "found.sarif", "--findings-format", "sarif", "script.py")
    (run,) = json.loads((tmp_path / "found.sarif").read_text(encoding="utf-8"))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("script.py", 7)
    acl_py_does("run", "--sanitize", "--findings", "found.json", "script.py")
    (finding,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["findings"]
    assert (finding["kind"], finding["rule"]) == ("kernel", "UNWRITTEN_READ")
    done = acl_py_does("run", "--sanitize", "--findings", "nowhere/found.json", "script.py")
    assert "acl-py: nowhere/found.json: cannot be written: No such file or directory" in done.stderr
    assert done.returncode == 5


def test_a_suppression_beside_the_script_accepts_its_finding(acl_py_does, tmp_path):
    table = '[tool.acl_py.sanitizer]\nsuppress = [{ site = "script.py:7", reason = "a test" }]'
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    done = acl_py_does("run", "--sanitize", "script.py")
    assert done.returncode == 0
    headline, suppressed = reported(done)
    assert headline == "acl-py: the sanitizer found nothing, 1 suppressed"
    assert re.fullmatch(r"suppressed: kernel-[0-9a-f]{8}: a test \(once\)", suppressed)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sanitize=races"], "the sanitizer has no part 'races', in sanitize='races'; it has device, host, "),
        (["--no-sanitize", "--findings", "x"], "--findings writes what --sanitize finds: give both"),
        (["--no-sanitize", "--sanitize"], "--sanitize and --no-sanitize exclude each other: leave one out"),
        ([], "no finding has the id 'race-1'"),
        (["--sanitize"], "no finding has the id 'race-1'"),
    ],
)
def test_options_and_suppressions_that_cannot_be_are_refused_before_the_script_runs(
    acl_py_does, tmp_path, options, words
):
    table = '[tool.acl_py.sanitizer]\nsuppress = [{ id = "race-1", reason = "a test" }]'
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    done = acl_py_does("run", *options, "script.py", script="print('ran')")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def program(*steps):
    return json.dumps(
        {
            "id": "one",
            "streams": {"a": {}, "b": {}},
            "events": {"e": {}},
            "buffers": {"d": {"space": "device", "bytes": 64}},
            "steps": [*steps, {"op": "sync_device"}],
        }
    )


FILL = {"op": "memset_async", "dst": "d", "bytes": 64}
RACE = program({**FILL, "stream": "a", "site": "mine.py:3"}, {**FILL, "stream": "b", "site": "mine.py:4"})
ORDERED = program(
    {**FILL, "stream": "a"},
    {"op": "record", "event": "e", "stream": "a"},
    {"op": "wait", "event": "e", "stream": "b"},
    {**FILL, "stream": "b"},
)


def test_replays_are_sanitized(acl_py_does, tmp_path):
    (tmp_path / "race.json").write_text(RACE, encoding="utf-8")
    (tmp_path / "ordered.json").write_text(ORDERED, encoding="utf-8")
    done = acl_py_does("replay", "ordered.json", "--sanitize", "--device", "tiny")
    assert (done.returncode, done.stderr) == (0, "acl-py: the sanitizer found nothing\n")
    done = acl_py_does("replay", "ordered.json", "race.json", "--sanitize=device", "--device", "tiny")
    assert done.returncode == 4
    assert "acl-py: the sanitizer found 1 finding (race)\nrace: " in done.stderr
    assert "    mine.py:3: fill 'd' in stream 'a'" in done.stderr


def test_a_race_under_one_of_two_rules_is_a_finding_about_portability(acl_py_does, tmp_path):
    by_default = program(
        {**FILL, "stream": "legacy", "site": "mine.py:3"}, {**FILL, "stream": "a", "site": "mine.py:4"}
    )
    (tmp_path / "program.json").write_text(by_default, encoding="utf-8")
    both = ("--rules", "cuda", "--rules", "acl", "--device", "tiny")
    done = acl_py_does("replay", "program.json", "--sanitize", *both)
    assert done.returncode == 4
    assert "portability: race under acl and not under cuda: fill 'd' on default (mine.py:3) writes" in done.stderr
    done = acl_py_does("replay", "program.json", *both)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_race_under_all_rules_stays_a_race(acl_py_does, tmp_path):
    (tmp_path / "race.json").write_text(RACE, encoding="utf-8")
    done = acl_py_does("replay", "race.json", "--sanitize", "--rules", "cuda", "--rules", "acl", "--device", "tiny")
    assert done.returncode == 4
    assert done.stderr.startswith("acl-py: the sanitizer found 1 finding (race)\nrace: ")


def test_a_replay_returns_its_findings():
    ordered, race = (parse(json.loads(text)) for text in (ORDERED, RACE))
    assert replay(ordered, device="tiny", sanitize=True).findings == ()
    (finding,) = replay(race, device="tiny", sanitize="device").findings
    assert (finding.kind, finding.sites) == (Kind.RACE, ("mine.py:3", "mine.py:4"))
    assert replay(race, device="tiny").findings == ()
