"""Windows: which part of a run a report is about."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hand import call, op, recording
from typer.testing import CliRunner

import acl_py as acl
from acl_py.causes.lines import path_text, within
from acl_py.causes.path import critical_path
from acl_py.cli import app
from acl_py.trace.rows.files import read_trace
from acl_py.trace.rows.timeline import Mark
from acl_py.trace.rows.windows import WindowError, between, marked, whole, worked

RUN = recording(
    [
        op("k", 25_000, 80_000, queued=20_000, called_ns=12_000),
        op("d2h", 90_000, 100_000, queued=85_000, called_ns=80_000, kind="d2h"),
    ],
    [
        call("Malloc", 0, 10_000),
        call("LaunchKernel", 12_000, 20_000, line=1),
        call("MemcpyAsync", 80_000, 85_000, line=1),
        call("SynchronizeStream", 86_000, 103_000, (90_000, 100_000, 1)),
        call("Free", 103_000, 140_000),
    ],
    marks=[
        Mark("step", 12_000, 20_000, "a.py:1", "t"),
        Mark("step", 80_000, 85_000, "a.py:1", "t"),
        Mark("at", 5_000, 5_000, "a.py:2", "t"),
    ],
)


def test_the_usual_window_is_from_the_first_work_to_the_last_wait():
    window = worked(RUN)
    assert (window.spans, window.ns) == (((12_000, 103_000),), 91_000)
    parts = within(window, critical_path(RUN))
    assert sum(part.ns for part in parts) == window.ns
    assert (parts[0].begin_ns, parts[-1].end_ns) == window.spans[0]
    first = path_text(RUN).splitlines()[0]
    assert first == "critical path: 91.0 us of 140.0 us, from the first call that queues work to the last wait"


def test_a_run_without_work_and_one_that_failed_are_told_whole():
    idle = recording(calls=[call("Malloc", 0, 10_000)], end=15_000)
    assert worked(idle).spans == whole(idle).spans == ((0, 15_000),)
    assert worked(replace(RUN, error="it failed")).spans == ((12_000, 140_000),)


def test_a_range_is_all_that_was_annotated_so():
    window = marked(RUN, "step")
    assert (window.spans, window.what) == (((12_000, 20_000), (80_000, 85_000)), "in 'step', 2 times")
    assert [part.ns for part in within(window, critical_path(RUN))] == [8_000, 5_000]
    assert [window.has(*span) for span in ((0, 11_999), (20_000, 30_000), (21_000, 79_000))] == [False, True, False]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: marked(RUN, "steps"), "the run has no range 'steps'; there are 'step'"),
        (lambda: marked(recording(), "step"), "the run has no range 'step'; it has none: acl_py.annotate() makes them"),
        (lambda: between(RUN, 50, 50), "nothing lies between 50.0 and 50.0 us: the run lasts from 0 to 140.0 us"),
        (lambda: between(RUN, 140, None), "nothing lies between 140.0 and 140.0 us: the run lasts from 0 to 140.0 us"),
    ],
)
def test_a_window_that_is_not_there(asked, message):
    with pytest.raises(WindowError) as refused:
        asked()
    assert str(refused.value) == message


@acl.kernel(cost=acl.Cost(us=40))
def double(x: acl.InOut):
    np.multiply(x, 2, out=x)


async def steps(count=3, path="run.acl"):
    stream, buffer = await acl.CreateStream(), await acl.Malloc(4096)
    await acl.MemsetAsync(buffer, 4096, 0, 4096, stream)
    for _ in range(count):
        with acl.annotate("step"):
            await double[1, stream](acl.Array(buffer, np.float32))
            await acl.SynchronizeStream(stream)
    with acl.annotate("last"):
        await acl.SynchronizeDevice()
    await acl.Free(buffer)
    await acl.DestroyStream(stream)
    acl.current_simulation().trace.save(path)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acl.run(steps, device="tiny", sanitize="device,host")
    return "run.acl"


def report(*arguments):
    done = CliRunner().invoke(app, ["report", *arguments])
    return done.exit_code, done.output


def test_a_report_of_a_part(saved):
    code, text = report(saved, "--range", "step", "--top", "1")
    assert (code, text.splitlines()[0]) == (0, "critical path: 132.1 us of 137.4 us, in 'step', 3 times")
    assert "more lines" in text
    assert report(saved, "--all")[1].startswith("critical path: 137.4 us, the whole run\n")
    assert report(saved, "--until", "100")[1].startswith("critical path: 100.0 us of 137.4 us, from 0.0 to 100.0 us\n")


async def two_parts():
    """Each of two parts has a wait that nothing needs, and a fill that waits in the call."""
    stream, buffer, out = await acl.CreateStream(), await acl.Malloc(4096), await acl.MallocHost(4096)
    for name in ("one", "two"):
        with acl.annotate(name):
            await double[1, stream](acl.Array(buffer, np.float32))
            await acl.SynchronizeStream(stream) if name == "one" else await acl.SynchronizeDevice()
            await acl.Memcpy(out, 4096, buffer, 4096, acl.MemcpyKind.DEVICE_TO_HOST)
    with acl.annotate("none"):
        await double[1, stream](acl.Array(buffer, np.float32))
        await acl.SynchronizeStream(stream)
    acl.current_simulation().trace.save("parts.acl")


def test_prices_in_a_report_of_a_part_say_that_they_are_of_the_whole_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acl.run(two_parts, device="tiny", rules="cuda", sanitize="device,host")
    text = report("parts.acl", "--range", "one")[1]
    joint = "advice: all of this, and 1 more in other parts: 143.2 us -> 137.2 us in the whole run, still ordered"
    assert joint in text
    assert "Remove it. Worth 3.0 us of the 143.2 us of the whole run.\n" in text
    assert "alone. Worth 9.0 us of the 143.2 us of the whole run.\n" in text
    text = report("parts.acl", "--range", "none")[1]
    assert "advice: none: no wait of this part is known to be needless\nfindings: none" in text
    for options in ((), ("--all",)):
        text = report("parts.acl", *options)[1]
        assert "advice: all of this: 143.2 us -> 137.2 us, still ordered\n" in text
        assert "alone. Worth 9.0 us of 143.2 us.\n" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--range", "stop"], "the run has no range 'stop'; there are 'step', 'last'"),
        (["--since", "9", "--until", "8"], "nothing lies between 9.0 and 8.0 us"),
        (["--since", "0.009ms", "--until", "8us"], "nothing lies between 9.0 and 8.0 us"),
        (["--since", "late"], "'late' is no time: write 100us, 1.5ms or 2s"),
        (["--all", "--range", "step"], "exclude each other: give one of them"),
        (["--fail-over", "much"], "'much' is no time: write 100us, 1.5ms or 2s"),
        (["--overlay", "torch"], "give its name with --device, too"),
    ],
)
def test_options_that_cannot_be(saved, options, said):
    code, text = report(saved, *options)
    assert code == 2
    assert said in " ".join(text.replace("│", " ").split())


def test_the_same_as_data(saved):
    code, text = report(saved, "--json", "-", "--what-if", "kernel:double=0.5x")
    data = json.loads(text)
    assert (code, data["form"], data["version"], data["device"]) == (0, "acl_py report", 1, "tiny")
    assert sum(data["causes"].values()) == pytest.approx(data["window"]["us"])
    (piece,) = data["advice"]["pieces"]
    assert (piece["call"], piece["times"]) == ("SynchronizeStream", 3)
    assert data["advice"]["before_us"] - data["advice"]["after_us"] == pytest.approx(piece["adds_us"])
    (answer,) = data["what_if"]
    assert answer["before_us"] - answer["after_us"] == pytest.approx(60, abs=0.1)


async def chunks():
    """Two streams, and two uploads of 40 us each; the second one runs beside a kernel of 30 us."""
    host, buffer = await acl.MallocHost(40_000), await acl.Malloc(80_000)
    for part in range(2):
        stream = await acl.CreateStream()
        await acl.MemcpyAsync(buffer + 40_000 * part, 40_000, host, 40_000, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.LaunchKernel(acl.kernel(cost=acl.Cost(us=30))(double_nothing), 1, (), stream)
    await acl.SynchronizeDevice()
    acl.current_simulation().trace.save("chunks.acl")


def double_nothing():
    pass


def test_copies_behind_kernels_are_data_of_the_window(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acl.run(chunks, device="tiny")
    whole_run = json.loads(report("chunks.acl", "--json", "-")[1])["copies"]
    row = {"device": 0, "stream": "", "stage": "", "us": 80.0, "hidden_us": 30.0, "possible_us": 60.0}
    assert whole_run[0] == row | {"before_us": 40.0, "between_us": 10.0, "behind_us": 0.0}
    assert [(each["stream"], each["us"], each["hidden_us"]) for each in whole_run[1:]] == [
        ("stream 1", 40.0, 0.0),
        ("stream 2", 40.0, 30.0),
    ]
    end = max(op.end_ns for op in read_trace(tmp_path / "chunks.acl").ops) / 1000
    part = json.loads(report("chunks.acl", "--json", "-", "--since", str(end - 60), "--until", str(end - 35))[1])
    assert part["copies"][0] == row | {"us": 25.0, "hidden_us": 20.0, "possible_us": 20.0} | {
        "before_us": 0.0, "between_us": 0.0, "behind_us": 5.0,
    }  # fmt: skip


def answers(saved, *options):
    data = json.loads(report(saved, "--json", "-", *options)[1])
    return [(each["part"], each["before_us"], each["after_us"]) for each in data["what_if"]]


def test_a_what_if_is_about_the_part_that_is_asked_for(saved):
    """In each of three steps one kernel takes half of 40 us; another device takes other times for the same calls."""
    half = ("--what-if", "kernel:double=0.5x")
    ((part, before, after),) = answers(saved, "--range", "step", *half)
    assert (part, before - after) == ("in 'step', 3 times", pytest.approx(60, abs=0.1))
    assert before == pytest.approx(132.1, abs=0.1)
    ((_, whole_before, whole_after),) = answers(saved, "--all", *half)
    assert (whole_before, whole_before - whole_after) == (pytest.approx(137.4, abs=0.1), pytest.approx(60, abs=0.1))
    ((part, before, after),) = answers(saved, "--since", "0", "--until", "60", *half)
    assert (part, before - after) == ("from 0.0 to 60.0 us", pytest.approx(20, abs=0.1))
    ((part, before, after),) = answers(saved, "--range", "last", "--what-if", "device=h200")
    assert (part, before > 0, before != after) == ("in 'last'", True, True)


def test_a_what_if_about_a_part_without_calls(saved):
    code, text = report(saved, "--since", "137.3", "--what-if", "kernel:double=0.5x")
    assert (code, text.splitlines()[0]) == (1, "no call lies from 137.3 to 137.4 us")
    assert "no wait of this part is known to be needless" in text


def test_findings_have_ids_that_stay_when_lines_move(tmp_path, monkeypatch):
    """The same program, with a comment above it: lines move by one, ids do not."""
    monkeypatch.chdir(tmp_path)
    text = """\
import numpy as np
import acl_py as acl

async def main():
    stream, device = await acl.CreateStream(), await acl.Malloc(1 << 22)
    await acl.MemcpyAsync(device, 1 << 22, np.zeros(1 << 22, "u1"), 1 << 22, acl.MemcpyKind.HOST_TO_DEVICE, stream)
    await acl.SynchronizeStream(stream)
    acl.current_simulation().trace.save("run.acl")

acl.run(main)
"""
    found = []
    for source in (text, "# changed\n" + text):
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
        found += json.loads(report("run.acl", "--json", "-")[1])["findings"][:1]
    assert [each["line"] for each in found] == ["program.py:6", "program.py:7"]
    assert found[0]["id"] == found[1]["id"]
    assert found[0]["id"].startswith("pageable-copy-")


def test_a_report_fails_where_more_is_to_be_gained_than_allowed(saved):
    assert report(saved, "--fail-over", "1ms")[0] == 0
    code, text = report(saved, "--fail-over", "1us")
    assert code == 4
    assert text.splitlines()[-1].endswith("us could be gained: --fail-over allows 1us")


def test_a_what_if_counts_for_the_limit_as_a_finding_does(saved):
    """Half of each kernel is worth 60 us, more than any finding."""
    half = ("--what-if", "kernel:double=0.5x")
    assert report(saved, *half, "--fail-over", "60.1us")[0] == 0
    code, text = report(saved, *half, "--fail-over", "59us")
    assert (code, text.splitlines()[-1]) == (4, "60.0 us could be gained: --fail-over allows 59us")
    assert report(saved, "--until", "60", *half, "--fail-over", "59us")[0] == 0  # one kernel is in that part


def test_a_what_if_that_leaves_work_without_order_is_no_gain(tmp_path, monkeypatch):
    """Only the legacy stream orders the copy and the kernel on the same bytes."""
    monkeypatch.chdir(tmp_path)

    async def main():
        stream, buffer, host = await acl.CreateStream(), await acl.Malloc(1 << 16), await acl.MallocHost(1 << 16)
        host.numpy(np.float32)[:] = 1
        await acl.MemcpyAsync(buffer, 1 << 16, host, 1 << 16, acl.MemcpyKind.HOST_TO_DEVICE, acl.LEGACY_STREAM)
        await double[1, stream](acl.Array(buffer, np.float32))
        await acl.SynchronizeDevice()
        acl.current_simulation().trace.save("run.acl")

    acl.run(main, device="tiny", rules="cuda", sanitize="device,host")
    ((_, before, after),) = answers("run.acl", "--what-if", "nonblocking")
    assert before - after > 5
    assert "no fix" in report("run.acl", "--what-if", "nonblocking")[1]
    assert report("run.acl", "--what-if", "nonblocking", "--fail-over", "5us")[0] == 0


def test_a_difference_of_parts(saved):
    """The first step of each run is in the part, and the file of a run that has no such part is named."""

    def diff(*options):
        done = CliRunner().invoke(app, ["diff", saved, "later.acl", *options])
        return done.exit_code, " ".join(done.output.replace("│", " ").split())

    acl.run(steps, 2, "later.acl", device="tiny", sanitize="device,host")
    assert diff("--until", "60")[1].endswith("60.0 us before, 60.0 us after: no difference")
    assert diff("--since", "60")[1].startswith("77.4 us before, 34.4 us after: 43.0 us less")
    code, text = diff("--since", "100")
    assert (code, "later.acl: nothing lies between 100.0 and 94.4 us: the run lasts" in text) == (2, True)
    assert diff("--all", "--since", "60")[0] == 2


def test_a_difference_as_data_and_with_a_limit(saved):
    def diff(*options):
        done = CliRunner().invoke(app, ["diff", saved, saved, *options])
        return done.exit_code, done.output

    assert diff("--fail-over", "0us") == (0, "133.4 us before, 133.4 us after: no difference\n")
    code, text = diff("--json", "-", "--range", "step")
    assert (code, json.loads(text)["more_us"], json.loads(text)["windows"]) == (0, 0, ["in 'step', 3 times"] * 2)


def test_a_terminal_gets_wrapped_lines_with_colours(saved, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    lines = report(saved)[1].splitlines()
    assert lines[0].startswith("\x1b[1mcritical path\x1b[0m: ")
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 60
    at = next(number for number, line in enumerate(plain) if line.startswith("  test_windows.py:"))
    assert plain[at + 1].startswith("    ")  # what does not fit is further in
