"""`acl-py replay` and `acl-py devices`."""

import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pages import data_of
from typer.testing import CliRunner

from acl_py import __version__
from acl_py.calls.acts import Plain
from acl_py.cli import app, common
from acl_py.cli.devices import unit_of, value_of
from acl_py.trace import Call, Timeline, read_trace
from acl_py.trace.rows.files import save
from acl_py.trace.rows.timeline import Handle, Ref
from device_model.compiled import CORE
from device_model.profile import load, names

GOOD = {"id": "good", "streams": {"A": {}}, "steps": [{"op": "launch", "id": "k", "stream": "A", "us": 100}]}
LEGACY = {
    "id": "legacy",
    "streams": {"A": {}},
    "steps": [{"op": "launch", "stream": stream, "us": 3000} for stream in ("A", "legacy", "A")],
}
BAD = {"id": "bad", "steps": [{"op": "launch", "stream": "A", "us": 100}]}


@pytest.fixture
def file(tmp_path):
    def write(*programs, name="programs.json"):
        path = tmp_path / name
        path.write_text(json.dumps(list(programs)))
        return str(path)

    return write


def acl_py(*args):
    return CliRunner().invoke(app, list(args))


def test_one_program_is_drawn(file):
    result = acl_py("replay", file(GOOD))
    assert result.exit_code == 0
    assert result.stdout.startswith("good: done after 112.5 us, synchronised after 116.7 us\n")
    assert "SMs" in result.stdout


def test_many_programs_are_tabled(file):
    result = acl_py("replay", file(GOOD, GOOD | {"id": "other"}), file(GOOD | {"id": "third"}, name="more.json"))
    assert result.exit_code == 0
    for word in ("good", "other", "third", "done", "synced"):
        assert word in result.stdout


def test_a_bad_program_is_named_and_the_others_run(file, tmp_path):
    out = tmp_path / "out.json"
    result = acl_py("replay", file(BAD, GOOD), "--json", str(out))
    assert result.exit_code == 1
    assert "program 0 'bad': step 0 (launch): stream: there is no stream 'A'" in result.stderr
    assert [run["id"] for run in json.loads(out.read_text())] == ["good"]


def test_a_file_that_is_no_json_is_named_and_the_others_run(file, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("[")
    result = acl_py("replay", str(broken), file(GOOD))
    assert result.exit_code == 1
    assert "broken.json: is not JSON" in result.stderr
    assert result.stdout.startswith("good:")


def test_a_script_in_place_of_a_command_is_told_how_it_runs():
    result = acl_py("script.py")
    assert (result.exit_code, "`acl-py run script.py` runs a script." in result.stderr) == (2, True)


def test_a_script_in_place_of_a_program_is_told_how_it_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import acl_py\n")
    result = acl_py("replay", str(script))
    assert (result.exit_code, "`acl-py run` runs it" in result.stderr) == (1, True)


def test_the_written_times(file, tmp_path):
    out = tmp_path / "out.json"
    assert acl_py("replay", file(GOOD), "--device", "tiny", "--rules", "cuda", "--json", str(out)).exit_code == 0
    [run] = json.loads(out.read_text())
    [call] = run["host"]
    assert set(run) == {"id", "host", "device", "log", "makespan_us"}
    assert set(call) == {"step", "enter_us", "exit_us", "ret", "extra"}
    assert run["device"] == {"k": {"start_us": 0.0, "end_us": 100.0, "engine": "cores"}}
    assert run["makespan_us"] > 100


def test_a_chrome_trace_of_one_program(file, tmp_path):
    out = tmp_path / "trace.json"
    assert acl_py("replay", file(GOOD), "--trace", str(out)).exit_code == 0
    assert json.loads(out.read_text())["traceEvents"]
    result = acl_py("replay", file(GOOD, GOOD), "--trace", str(out))
    assert result.exit_code == 1
    assert "--trace writes the trace of one program, but 2 ran" in result.stderr


def test_a_run_written_as_a_program_replays_to_the_same_times(file, tmp_path):
    again = tmp_path / "again.json"
    out = [tmp_path / name for name in ("first", "second")]
    written = ["--trace", str(again), "--format", "program"]
    assert acl_py("replay", file(GOOD), "--json", str(out[0]), *written).exit_code == 0
    result = acl_py("replay", str(again), "--json", str(out[1]))
    assert result.exit_code == 0, result.output
    first, second = ([call for [run] in [json.loads(path.read_text())] for call in run["host"]] for path in out)
    assert (first[0]["enter_us"], first[0]["exit_us"]) == (second[1]["enter_us"], second[1]["exit_us"])


@pytest.mark.parametrize("form", ["chrome", "kineto", "msprof", "csv", "acl", "program"])
def test_a_trace_in_each_format(file, tmp_path, form):
    out = tmp_path / "trace"
    assert acl_py("replay", file(GOOD), "--trace", str(out), "--format", form).exit_code == 0
    files = [out] if out.is_file() else [each for each in out.rglob("*") if each.is_file()]
    assert len(files) == (3 if form == "msprof" else 1)
    assert all(each.stat().st_size for each in files)
    if form == "acl":
        assert [op.kind for op in read_trace(out).ops] == ["kernel"]


def test_a_format_that_asks_for_more_than_the_trace_has(file, tmp_path):
    result = acl_py("replay", file(GOOD), "--trace", str(tmp_path / "trace.json"), "--format", "msprof-op")
    assert result.exit_code == 1
    assert "trace.json: the trace has no instructions of kernels on AI cores: none was launched, or" in result.stderr
    assert not (tmp_path / "trace.json").exists()


def test_a_format_that_does_not_exist(file, tmp_path):
    result = acl_py("replay", file(GOOD), "--trace", str(tmp_path / "trace.json"), "--format", "nsys")
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert (
        "'nsys' is not one of 'chrome', 'kineto', 'kineto-ranks', 'msprof', 'msprof-op', 'csv', 'acl', 'program'"
        in message
    )
    result = acl_py("replay", file(GOOD), "--trace", str(tmp_path / "trace.json"), "--format", "kinetto")
    assert "'program'; did you mean kineto?" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.slow
def test_a_replay_and_its_explanation_say_the_same_time(file, tmp_path):
    buffers = {"d": {"space": "device", "bytes": 1 << 24}, "g": {"space": "pageable", "bytes": 1 << 24}}
    copy = {"op": "memcpy_async", "dst": "d", "src": "g", "bytes": 1 << 24, "stream": "A"}
    program = file(GOOD | {"buffers": buffers, "steps": [copy, copy]})
    text = acl_py("replay", program, "--explain", "--optimise", str(tmp_path / "edited.json")).stdout
    done, synchronised = re.match(r"good: done after ([\d,.]+) us, synchronised after ([\d,.]+) us", text).groups()
    worked, whole = re.search(r"critical path: ([\d,.]+) us of ([\d,.]+) us, from the first call", text).groups()
    assert whole == done != synchronised
    assert re.search(r"proposal: .* instead of ([\d,.]+) us", text)[1] == worked


def test_a_report_has_the_timelines_of_all_programs(file, tmp_path):
    out = tmp_path / "report.html"
    assert acl_py("replay", file(GOOD, GOOD | {"id": "<other>"}), "--report", str(out)).exit_code == 0
    runs = data_of(out.read_text(encoding="utf-8"))["runs"]
    assert [(run["title"], run["ops"]["rows"]) for run in runs] == [("good", 1), ("<other>", 1)]
    shown = re.match(
        r"good: done after [\d.]+ us, synchronised after ([\d.]+) us", acl_py("replay", file(GOOD)).stdout
    )[1]
    assert round((runs[0]["until"] - runs[0]["since"]) / 1000, 1) == float(shown)


def test_a_report_of_a_program_that_hangs_has_the_chain(file, tmp_path):
    hang = {
        "id": "hangs",
        "streams": {"A": {}},
        "steps": [
            {"op": "launch", "stream": "A", "us": 100},
            {"op": "launch", "id": "late", "stream": "A", "us": 100},
            {"op": "sync_device"},
        ],
    }
    out = tmp_path / "report.html"
    result = acl_py("replay", file(hang), "--fault", "hang op=kernel nth=2", "--report", str(out))
    assert result.exit_code == 1
    (run,) = data_of(out.read_text(encoding="utf-8"))["runs"]
    assert (run["title"], run["ops"]["rows"]) == ("hangs", 1)
    assert "can never end" in run["error"]
    kind, _, text = run["error"].partition(": ")
    assert kind == "DeadlockError"
    assert text.split("\n")[0] in result.stderr


def test_a_report_of_no_program_is_refused(file, tmp_path):
    result = acl_py("replay", file(BAD), "--report", str(tmp_path / "report.html"))
    assert result.exit_code == 1
    assert "--report has nothing to write: no program ran" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_standard_output_that_is_full_is_said():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "acl_py", "explain-error", "507899"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "acl-py: the output cannot be written: No space left on device\n")


def test_an_output_that_cannot_be_written_is_said(file, tmp_path):
    result = acl_py("replay", file(GOOD), "--json", str(tmp_path / "nowhere" / "out.json"))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "h300"], "there is no profile 'h300'"),
        (["--rules", "metal"], "there are no rules 'metal'"),
        (["--overlay", "torhc"], "there is no overlay 'torhc'; there are torch"),
    ],
)
def test_unknown_devices_rules_and_overlays_are_refused(file, options, message):
    result = acl_py("replay", file(GOOD), *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_version_is_that_of_the_package():
    result = acl_py("--version")
    assert (result.exit_code, result.stdout) == (0, f"acl-py {__version__} ({CORE})\n")


def test_an_overlay_says_what_calls_cost_on_another_host(file, tmp_path):
    overlay, out = tmp_path / "host.toml", tmp_path / "times.json"
    overlay.write_text("""[host]
launch = { value = 9000, source = "measured: here" }
gap = { value = 0, source = "measured: here" }
""")
    steps = [{"op": "launch", "stream": "legacy", "us": 5}] * 2
    program = {"id": "p", "buffers": {}, "streams": {}, "events": {}, "steps": steps}
    acl_py("replay", file(program), "--device", "tiny", "--overlay", str(overlay), "--json", str(out))
    assert [(call["enter_us"], call["exit_us"]) for call in json.loads(out.read_text())[0]["host"]] == [(0, 9), (9, 18)]
    shown = acl_py("devices", "tiny", "--overlay", str(overlay), "--json").stdout
    assert json.loads(shown)["values"]["host.launch"]["value"] == 9000


@pytest.mark.parametrize(("more", "later_us"), [({}, 7), ({"gap_us": 0}, 0)])
def test_a_host_may_end_a_program_later_unless_the_program_has_gaps_of_its_own(file, tmp_path, more, later_us):
    overlay, out = tmp_path / "host.toml", tmp_path / "times.json"
    ends = []
    for gap_last in (0, 7000):
        overlay.write_text(f'[host]\ngap_last = {{ value = {gap_last}, source = "measured: here" }}')
        steps = [{"op": "launch", "stream": "legacy", "us": 5}, {"op": "sync_device"}]
        acl_py("replay", file({"id": "p", "steps": steps} | more), "--overlay", str(overlay), "--json", str(out))
        ends.append(json.loads(out.read_text())[0])
    assert ends[1]["host"] == ends[0]["host"]
    assert ends[1]["makespan_us"] == pytest.approx(ends[0]["makespan_us"] + later_us)


def test_the_list_of_devices_fits_80_columns_with_whole_headings_and_units(monkeypatch):
    monkeypatch.setattr(common, "_PLAIN_WIDTH", 80)
    lines = acl_py("devices").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    units, headings = lines[2].replace("┃", " ").split(), lines[1].replace("┃", " ").split()
    assert headings == ["cores", "memory", "memory", "H2D", "launch", "copy", "wake"]
    assert units == ["device", "rules", "or", "SMs", "GB", "GB/s", "GB/s", "us", "us", "us"]


def test_in_80_columns_no_name_is_cut(file, monkeypatch):
    monkeypatch.setattr(common, "_PLAIN_WIDTH", 80)
    long = GOOD | {"id": "a program with a name of many words, more than 80 columns have room for"}
    for result in (acl_py("replay", file(GOOD, long)), acl_py("devices", "ascend910b3")):
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "…" not in result.stdout


def test_devices_as_json_have_all_values_with_unit_and_source():
    cards = json.loads(acl_py("devices", "--json").stdout)
    assert [card["name"] for card in cards] == names()
    [tiny] = [card for card in cards if card["name"] == "tiny"]
    assert tiny == json.loads(acl_py("devices", "tiny", "--json").stdout)
    assert tiny["values"]["host.launch"] == {"value": 1000, "unit": "ns", "source": "assumed: a round number"}
    assert tiny["values"]["copies.h2d"]["value"][0] == [0, 0]


UNITS = {
    "devices": "", "host.launch": "ns", "host.malloc": "ns", "host.register": "ns/MiB", "latency.block": "ns",
    "cores.count": "", "cores.flops": "1/s", "cores.bytes_per_second": "B/s", "queues.depth": "", "limits.streams": "",
    "memory.bytes": "B", "memory.alignment": "B", "copies.h2d": "ns", "copies.duplex_bytes": "B",
    "copies.duplex_h2d_permille": "‰", "copies.stage_chunk": "B", "copies.stage_buffers": "",
    "copies.stage_fixed": "ns",
    "aicore.mhz": "MHz", "aicore.ub_bytes": "B", "aicore.hbm_gbps": "GB/s", "aicore.read_bytes_per_cycle": "B/cycle",
    "aicore.copy_issue": "cycles", "video.decode": "frames/s", "aicore.queue_ns": "ns", "aicore.cube_cores": "",
    "library.elementwise": "ns", "library.traffic.l2_read": "B/s", "library.softmax.row_ps": "ps",
    "library.softmax.held_bytes": "B", "library.products.float16.flops": "1/s",
    "library.products.float16.accumulators": "", "library.products.split_bytes_per_second": "B/s",
}  # fmt: skip


def test_every_value_of_a_device_has_its_unit():
    card = load("ascend910b3")
    assert {name: unit_of(name, value_of(card, name)) for name in UNITS} == UNITS
    counts = {name for name in card.sources if not unit_of(name, value_of(card, name))}
    of_library = {name.rpartition(".")[2] for name in counts if name.startswith("library.")}
    assert of_library == {"one_block_elements", "rows_at_once", "reads_again", "accumulators", "blocks"}
    assert {name for name in counts if not name.startswith("library.")} == {
        "devices", "run_mode", "cores.count", "cores.resident_kernels", "queues.compute", "queues.copy", "queues.depth",
        "limits.streams", "limits.events", "limits.notifies", "copies.stage_buffers", "aicore.cube_cores",
        "aicore.vector_cores", "collectives.channels", "collectives.channels_of_three", "collectives.pairs.warps",
    }  # fmt: skip


def test_devices_lists_the_profiles_with_the_origin_of_their_numbers():
    result = acl_py("devices")
    assert result.exit_code == 0
    for words in ("h200", "tiny", "55.4", "ascend910b1", "NVIDIA H200, 132 SMs"):
        assert words in result.stdout


def test_a_device_with_all_its_numbers_and_sources():
    result = acl_py("devices", "h200")
    assert result.exit_code == 0
    for words in ("latency.engines", "copies.h2d", "queues.depth", "1,021"):
        assert words in result.stdout


FAULTY = {
    "id": "faulty",
    "buffers": {"d": {"space": "device", "bytes": 4096}, "p": {"space": "pinned", "bytes": 4096}},
    "streams": {"A": {}},
    "steps": [
        {"op": "malloc", "name": "x", "bytes": 64},
        {"op": "memcpy_async", "id": "in", "dst": "d", "src": "p", "bytes": 4096, "stream": "A"},
        {"op": "launch", "id": "k", "stream": "A", "us": 100},
        {"op": "sync_device"},
    ],
}


def test_every_answer_from_a_recorded_program_repeats_its_notes(file, tmp_path):
    program, out = file(FAULTY | {"notes": ["the run was measured"]}), tmp_path / "out.json"
    replayed = acl_py("replay", program, "--json", str(out))
    assert replayed.stdout.splitlines()[-1] == "faulty: not known: the run was measured"
    assert json.loads(out.read_text())[0]["notes"] == ["the run was measured"]
    compared = acl_py("replay", program, "--rules", "acl", "--rules", "cuda")
    assert compared.stdout.splitlines()[-1] == "faulty: not known: the run was measured"
    page = tmp_path / "page.html"
    asked = acl_py("replay", program, "--explain", "--what-if", "h2d=2x", "--report", str(page)).stdout
    explained, answer = asked.split("findings: ")[1].split("h2d=2x: ", 1)
    assert "\n  not known: the run was measured\n" in explained
    assert "\n  not known: the run was measured\n" in answer
    run, edited = data_of(page.read_text(encoding="utf-8"))["runs"]
    assert run["notes"] == ["the run was measured"]
    assert edited["notes"][0] == "the run was measured"
    acl_py("replay", program, "--report", str(page))
    assert data_of(page.read_text(encoding="utf-8"))["runs"][0]["notes"] == ["the run was measured"]


def copies(count):
    copy = {"op": "memcpy", "dst": "d", "src": "h", "bytes": 4096}
    buffers = {"d": {"space": "device", "bytes": 4096}, "h": {"space": "pinned", "bytes": 4096}}
    return {"id": "copies", "buffers": buffers, "steps": [copy] * count}


def test_a_page_of_replays_has_prices_also_of_edited_runs(file, tmp_path):
    """An edited run has the prices of its own program and device."""
    program, page = file(copies(3)), tmp_path / "page.html"
    assert acl_py("replay", program, "--what-if", "h2d=2x", "--report", str(page)).exit_code == 0
    run, edited = data_of(page.read_text(encoding="utf-8"))["runs"]
    worth = [[found["worth_ns"] for found in each["findings"]] for each in (run, edited)]
    assert all(gains and min(gains) > 0 for gains in worth)
    assert worth[0] != worth[1]
    assert not any("repeat the run" in note for note in edited["notes"])


def test_a_page_of_a_long_replay_says_what_prices_it(file, tmp_path):
    program, page = file(copies(1_001)), tmp_path / "page.html"
    assert acl_py("replay", program, "--report", str(page)).exit_code == 0
    (run,) = data_of(page.read_text(encoding="utf-8"))["runs"]
    assert [found.get("worth_ns") for found in run["findings"]] == [None] * len(run["findings"]) != []
    assert run["notes"] == ["there are no prices: the run has 1,001 operations; --explain prices its findings"]


def test_faults_strike_a_replay_and_say_how_often(file, tmp_path):
    out = tmp_path / "out.json"
    rules = ("--fault", "fail call=Malloc kind=OUT_OF_MEMORY", "--fault", "fail op=kernel nth=1 code=214")
    result = acl_py("replay", file(FAULTY), "--json", str(out), *rules, "--fault", "delay us=5 call='Free*'")
    assert result.exit_code == 0, result.stderr
    assert [call["ret"] for call in json.loads(out.read_text())[0]["host"]] == [2, 0, 0, 214]
    assert result.stdout.splitlines()[-3:] == [
        "faulty: fail(call='Malloc', kind='OUT_OF_MEMORY') struck 1 of 1 matches",
        "faulty: fail(op='kernel', nth=1, code=214) struck 1 of 1 matches",
        "faulty: delay(call='Free*', us=5) struck 0 of 0 matches",
    ]


def test_a_fault_under_acls_rules_is_its_streams(file, tmp_path):
    out = tmp_path / "out.json"
    result = acl_py("replay", file(FAULTY), "--rules", "acl", "--fault", "ecc_error op=h2d", "--json", str(out))
    assert result.exit_code == 0, result.stderr
    assert [call["ret"] for call in json.loads(out.read_text())[0]["host"]] == [0, 0, 0, 507054]


def test_a_replay_that_hangs_is_told_with_the_rule_and_the_others_run(file):
    result = acl_py("replay", file(FAULTY, GOOD), "--fault", "hang op=h2d")
    assert result.exit_code == 1
    assert "faulty: the program: SynchronizeDevice()" in result.stderr
    assert "injected by fault rule hang(op='h2d') made at the command line" in result.stderr
    assert result.stdout.startswith("good: ")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("explode op", "lose_device"),
        ("explode op=h2d", "explode"),
        ("fail call=Maloc", "MallocAsync"),
        ("fail nth=1", "call=..."),
        ("fail call=Malloc oops", "'oops'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_what_can(file, fault, said):
    result = acl_py("replay", file(GOOD), "--fault", fault)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("command", ["replay", "run", "explore"])
def test_a_list_of_fault_rules_needs_no_file(command):
    result = acl_py(command, "--fault", "list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("a fault rule begins with one of these words:\n  fail ")


@pytest.mark.parametrize("words", [["demo"], ["replay", "x.json"], ["run", "x.py"]])
def test_a_format_without_a_trace_is_refused(words):
    result = acl_py(words[0], "--format", "csv", *words[1:])
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert "--format csv says how --trace writes the trace: give both" in message


def test_a_trace_that_is_named_as_a_page_is_refused(tmp_path):
    page = tmp_path / "page.html"
    result = acl_py("demo", "--trace", str(page))
    assert result.exit_code == 2
    assert "--report writes pages, and --trace none" in " ".join(result.stderr.replace("│", " ").split())
    assert not page.exists()


@pytest.mark.parametrize(
    ("name", "options", "begin"),
    [
        ("t.acl", [], '{"form":"acl_py trace"'),
        ("t.acl", ["--format", "chrome"], '{"displayTimeUnit"'),
        ("t.csv", [], "row,name,"),
        ("t.json", [], '{"displayTimeUnit"'),
    ],
)
def test_the_name_of_a_trace_gives_its_format_unless_an_option_does(file, tmp_path, name, options, begin):
    path = tmp_path / name
    assert acl_py("replay", file(GOOD), "--trace", path, *options).exit_code == 0
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    assert text.decode().startswith(begin)


def test_a_replay_is_explained_with_prices(file):
    done = acl_py("replay", file(LEGACY), "--explain")
    assert done.exit_code == 0, done.output
    assert "critical path: 9,0" in done.output
    assert "step:1: work of blocking streams waited for the legacy stream, for 3,0" in done.output
    assert "Worth 3,0" in done.output


def test_what_if_with_several_edits(file, tmp_path):
    report = tmp_path / "page.html"
    path = file(LEGACY)
    done = acl_py("replay", path, "--what-if", "nonblocking", "--what-if", "cores=1,h2d=2x", "--report", str(report))
    assert done.exit_code == 0, done.output
    assert "nonblocking: 6,0" in done.output
    assert "cores=1, h2d=2x: 9,0" in done.output
    assert ": no difference\n" in done.output
    runs = data_of(report.read_text(encoding="utf-8"))["runs"]
    assert [run["title"] for run in runs] == ["legacy", "nonblocking", "cores=1, h2d=2x"]
    (after, before), *_ = re.findall(r"nonblocking: ([\d,.]+) us instead of ([\d,.]+) us", done.output)
    assert [f"{(run['until'] - run['since']) / 1000:,.1f}" for run in runs] == [before, after, before]
    assert [{text for text in run["texts"] if re.search(":[0-9]", text)} for run in runs] == [
        {"step:0", "step:1", "step:2"}
    ] * 3


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (["--what-if", "pinned=w"], "legacy: pinned=w: there is no buffer 'w'", 1),
        (["--what-if", "nonblockin"], "did you mean nonblocking?", 2),
        (["--explain", "--fault", "hang op=kernel"], "leave --fault out", 2),
        (["--explain", "--rules", "cuda", "--rules", "acl"], "give --rules only once", 2),
        (["--optimise", "/no/such/folder/out.json"], "/no/such/folder/out.json: cannot be written", 1),
    ],
)
def test_an_explanation_that_cannot_be_given(file, options, said, code):
    done = acl_py("replay", file(LEGACY), *options)
    assert done.exit_code == code
    assert said in " ".join(done.output.replace("│", " ").split())


PAGEABLE = {
    "id": "pageable",
    "buffers": {"d": {"space": "device", "bytes": 4 << 20}, "g": {"space": "pageable", "bytes": 4 << 20}},
    "streams": {"A": {}},
    "steps": [{"op": "memcpy_async", "dst": "d", "src": "g", "bytes": 4 << 20, "stream": "A"}],
}


def test_the_optimiser_writes_a_faster_program(file, tmp_path):
    out = tmp_path / "faster.json"
    done = acl_py("replay", file(PAGEABLE), "--optimise", str(out))
    assert done.exit_code == 0, done.output
    assert "proposal: pinned: " in done.output
    after = done.output.split("proposal: pinned: ")[1].split(" instead")[0]
    assert f"critical path: {after} of " in acl_py("replay", str(out), "--explain").stdout


def test_the_optimiser_is_for_one_program(file, tmp_path):
    done = acl_py("replay", file(GOOD, PAGEABLE), "--optimise", str(tmp_path / "out.json"))
    assert done.exit_code == 1
    assert "--optimise writes one program, but 2 ran" in done.stderr


@pytest.fixture
def saved(file, tmp_path):
    """The traces of a pageable copy, and of a pinned one."""
    pinned = PAGEABLE | {"buffers": PAGEABLE["buffers"] | {"g": {"space": "pinned", "bytes": 4 << 20}}}
    for name, program in (("before", PAGEABLE), ("after", pinned)):
        options = ["--trace", str(tmp_path / name), "--format", "acl"]
        assert acl_py("replay", file(program), *options).exit_code == 0
    return str(tmp_path / "before"), str(tmp_path / "after")


def test_a_saved_trace_is_explained(saved, tmp_path):
    page = tmp_path / "page.html"
    done = acl_py("report", saved[0], "--html", str(page))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("critical path: ")
    assert "a copy from pageable memory kept the host" in done.stdout
    (run,) = data_of(page.read_text(encoding="utf-8"))["runs"]
    assert len(run["findings"]) == 1


def test_a_saved_trace_is_priced_and_edited_without_its_program(saved, tmp_path):
    page, out = tmp_path / "page.html", tmp_path / "faster.json"
    done = acl_py("report", saved[0], "--what-if", "pinned", "--html", str(page), "--optimise", str(out))
    assert done.exit_code == 0, done.output
    assert " Worth " in done.stdout
    assert "\npinned: " in done.stdout
    assert "\nproposal: pinned: " in done.stdout
    assert [run["title"] for run in data_of(page.read_text(encoding="utf-8"))["runs"]] == ["before", "pinned"]
    assert acl_py("replay", str(out)).exit_code == 0


def test_an_edit_that_a_saved_trace_does_not_allow(saved):
    done = acl_py("report", saved[0], "--what-if", "kernel:gemm=2x")
    assert done.exit_code == 1
    assert "kernel:gemm=2x: there is no kernel 'gemm'; there are none" in done.stderr


def test_a_trace_of_a_card_that_is_not_here_has_the_prices_of_a_model(tmp_path):
    path = tmp_path / "far"
    save(Timeline(calls=[Call("SetDevice", 0, 5, "a.py", 1, "task 1")], end_ns=5, device="x900", rules="cuda"), path)
    done = acl_py("report", str(path))
    assert done.exit_code == 0
    assert done.stdout.startswith("critical path: 0.0 us")
    assert done.stdout.endswith("what x900 itself would take: the prices are those of the model, h200\n")


def test_two_saved_traces_are_compared(saved):
    done = acl_py("diff", *saved)
    assert done.exit_code == 0, done.output
    assert " us less\n" in done.stdout
    assert "by line of the critical path, with causes:" in done.stdout


def test_answers_from_a_saved_trace_repeat_what_its_program_does_not_have(tmp_path):
    paths = [str(tmp_path / name) for name in ("whole", "hung", "far")]
    set_device = Call("SetDevice", 0, 5, "a.py", 1, "task 1", act=Plain((Ref(0),)))
    whole = Timeline(
        calls=[set_device], end_ns=5, device="h200", rules="cuda", handles=[Handle("device", "device 0", 0, "", {})]
    )
    hung = replace(whole, error="DeadlockError: a waits\nfor b")
    for path, timeline in zip(paths, (whole, hung, replace(hung, device="x900")), strict=True):
        save(timeline, path)
    note = "the run ended with an error: DeadlockError: a waits"
    page = tmp_path / "page.html"
    model = "what x900 itself would take: the prices are those of the model, h200"
    for path, notes in zip(paths[1:], ([note], [note, model]), strict=True):
        said = "".join(f"  not known: {each}\n" for each in notes)
        assert acl_py("report", path, "--html", str(page)).stdout.endswith(f"\n{said}")
        assert data_of(page.read_text(encoding="utf-8"))["runs"][0]["notes"] == notes
    assert acl_py("diff", *paths[:2]).stdout.endswith(f"no difference\n  not known: {note} (only after)\n")
    assert acl_py("diff", *paths[1:]).stdout.endswith(f"no difference\n  not known: {note}\n")


@pytest.mark.parametrize("command", [["report", "{0}"], ["diff", "{0}", "{1}"], ["diff", "{1}", "{0}"]])
def test_a_file_that_is_no_trace_is_named(command, file, saved):
    bad = file(GOOD)
    done = acl_py(*(word.format(bad, saved[0]) for word in command))
    assert done.exit_code == 1
    assert f"{bad}: is no trace that acl_py has saved" in done.stderr


def test_a_truncated_trace_is_named(saved):
    path = Path(saved[0])
    path.write_bytes(path.read_bytes()[:-100])
    done = acl_py("report", saved[0])
    assert done.exit_code == 1
    assert "is not whole" in done.stderr


def test_the_report_of_an_empty_run(tmp_path):
    path = tmp_path / "empty"
    save(Timeline(device="h200", rules="cuda"), path)
    done = acl_py("report", str(path))
    assert done.exit_code == 0
    assert done.stdout == "the recording is empty: no call was made\n"


def test_the_report_of_a_run_that_ended_in_a_deadlock(tmp_path):
    path = tmp_path / "hung"
    save(Timeline(calls=[Call("SetDevice", 0, 5, "a.py", 1, "task 1")], end_ns=5, error="DeadlockError: a waits"), path)
    done = acl_py("report", str(path))
    assert done.stdout.startswith("the run ended with an error: DeadlockError: a waits\n")
