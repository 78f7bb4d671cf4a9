"""`acl-py replay` and `acl-py devices`."""

import json

import pytest
from criteria import measured
from typer.testing import CliRunner

from acl_py.cli import app

GOOD = {"id": "good", "streams": {"A": {}}, "steps": [{"op": "launch", "id": "k", "stream": "A", "us": 100}]}
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
    assert result.stdout.startswith("good: 11")
    assert "cores" in result.stdout


def test_many_programs_are_tabled(file):
    result = acl_py("replay", file(GOOD, GOOD | {"id": "other"}), file(GOOD | {"id": "third"}, name="more.json"))
    assert result.exit_code == 0
    for word in ("good", "other", "third", "makespan"):
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


def test_capture_programs_say_that_they_are_not_supported_yet(file):
    capture = next(each for each in measured("semantics") if each["id"] == "capture-replay")
    result = acl_py("replay", file(capture))
    assert result.exit_code == 1
    assert "'capture-replay': step 0 (begin_capture): op: stream capture and graphs are not supported" in result.stderr


def test_the_written_times(file, tmp_path):
    out = tmp_path / "out.json"
    assert acl_py("replay", file(GOOD), "--device", "tiny", "--rules", "cuda", "--json", str(out)).exit_code == 0
    [run] = json.loads(out.read_text())
    [call] = run["host"]
    assert set(run) == {"id", "host", "device", "makespan_us"}
    assert set(call) == {"step", "enter_us", "exit_us", "ret", "extra"}
    assert run["device"] == {"k": {"start_us": 0.0, "end_us": 100.0, "engine": "cores"}}
    assert run["makespan_us"] > 100


def test_a_chrome_trace_of_one_program(file, tmp_path):
    out = tmp_path / "trace.json"
    assert acl_py("replay", file(GOOD), "--trace", str(out)).exit_code == 0
    assert json.loads(out.read_text())["traceEvents"]
    result = acl_py("replay", file(GOOD, GOOD), "--trace", str(out))
    assert result.exit_code == 1
    assert "--trace shows one program, and 2 ran" in result.stderr


def test_an_output_that_cannot_be_written_is_said(file, tmp_path):
    result = acl_py("replay", file(GOOD), "--json", str(tmp_path / "nowhere" / "out.json"))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--device", "h300"], "there is no profile 'h300'"), (["--rules", "metal"], "there are no rules 'metal'")],
)
def test_unknown_devices_and_rules_are_refused(file, options, message):
    result = acl_py("replay", file(GOOD), *options)
    assert result.exit_code == 2
    assert message in result.stderr


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
