"""Programs from anywhere: each file and each program gets its sentence, and the others run."""

import json
import re
from copy import deepcopy
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.errors import DeadlockError
from acl_py.programs.format import OPS, Program, ProgramError, load, parse
from acl_py.programs.replay import replay
from device_model import profile
from tests.campaigns import many

GOOD = {"id": "good", "streams": {"A": {}}, "steps": [{"op": "launch", "id": "k", "stream": "A", "us": 100}]}
BUFFERS = {"d": {"space": "device", "bytes": 4096}, "g": {"space": "pageable", "bytes": 4096}}
ESCAPE = "\x1b[2J\x07\r\u202e"


def text_of(us="100", *, op="launch", extra=""):
    """A program as text, for what json.dumps() does not write."""
    return f'{{"id": "odd", "streams": {{"A": {{}}}}, {extra} "steps": [{{"op": "{op}", "stream": "A", "us": {us}}}]}}'


def sentence(tmp_path, text):
    """What is wrong with the second program of a file; the first and the third are well."""
    file = tmp_path / "programs.json"
    content = f"[{json.dumps(GOOD)}, {text}, {json.dumps(GOOD)}]"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    first, odd, third = load(file)
    assert isinstance(first, Program)
    assert isinstance(third, Program)
    assert isinstance(odd, ProgramError)
    message = str(odd).removeprefix(f"{file}: ")
    assert message.isprintable()
    assert len(message) < 1000
    return message


def run(document, **options):
    return replay(parse(document), device="tiny", **options)


def acl_py(*args, stdin=None):
    return CliRunner().invoke(app, ["replay", *map(str, args)], input=stdin)


# --- what JSON can hold


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        ("9" * 400, "a number of 400 digits"),
        ("-" + "9" * 5000, "a number of 5,000 digits"),
        ("1" + "0" * 99, "1" + "0" * 56 + "..."),
        ("1e300", "1e+300"),
        ("1e400", "Infinity"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("NaN", "NaN"),
        ("4611686018427389", "4611686018427389"),
        ("true", "true"),
        ('"\\ud800"', '"\\ud800"'),
        ("[" * 100 + "]" * 100, "[" * 57 + "..."),
    ],
)
def test_a_time_that_is_none_is_refused(tmp_path, us, shown):
    message = sentence(tmp_path, text_of(us))
    allowed = "microseconds: a number from 0 to 4.6e15, all of simulated time"
    assert message == f"program 1 'odd': step 0 (launch): us: must be {allowed}, not {shown}"


@pytest.mark.slow
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_nesting_of_100_000_is_refused_and_the_others_run(tmp_path, brackets):
    begin, end = ('{"a":', "}") if brackets == "{}" else "[]"
    deep = begin * 100_000 + "1" + end * 100_000
    expected = "program 1: must be an object, not JSON nested 100,002 levels deep"
    assert sentence(tmp_path, f'{{"id": "x, ]", "steps": [{deep}]}}') == expected
    file = tmp_path / "alone.json"
    file.write_text(deep)
    [alone] = load(file)
    depth = 99_999 if brackets == "[]" else 100_000  # the outermost list is that of the programs
    assert str(alone) == f"{file}: program 0: must be an object, not JSON nested {depth:,} levels deep"


def test_a_file_that_is_nested_too_deeply_and_broken_is_no_json(tmp_path):
    file = tmp_path / "programs.json"
    file.write_text("[" + "[" * 100_000 + "]" * 100_000 + ", {]")
    with pytest.raises(ProgramError, match=r"programs\.json: program 1: is not JSON"):
        load(file)


@pytest.mark.parametrize("extra", ['"observed": NaN,', f'"question": {"9" * 5000},', '"note": {"a": 1, "a": 2},'])
def test_what_nobody_reads_may_be_odd(tmp_path, extra):
    file = tmp_path / "programs.json"
    file.write_text(text_of(extra=extra))
    assert [program.id for program in load(file)] == ["odd"]


def test_an_object_that_says_something_twice_is_refused(tmp_path):
    assert sentence(tmp_path, text_of('1, "us": 2')) == (
        "program 1 'odd': step 0: must be an object, not an object that has \"us\" twice"
    )
    assert sentence(tmp_path, text_of(extra='"steps": [],')) == (
        'program 1: must be an object, not an object that has "steps" twice'
    )


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb", "", "x" * 201, 7, None])
def test_a_name_that_is_none_is_refused(tmp_path, name):
    allowed = "a name of 1 to 200 characters without lone surrogates"
    assert f"program 1: id: must be {allowed}, not " in sentence(tmp_path, json.dumps(GOOD | {"id": name}))
    if isinstance(name, str):
        message = sentence(tmp_path, json.dumps(GOOD | {"streams": {"A": {}, name: {}}}))
        assert f"program 1 'good': streams: a key must be {allowed}, not " in message


# --- what a file can be


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[]", "has no programs: its list is empty"),
        (b"", "is not JSON: Expecting value"),
        (b"nonsense", "is not JSON: Expecting value"),
        (b"\xef\xbb\xbf[]", "has no programs: its list is empty"),
        (b'["\xff"]', "is not UTF-8 text: invalid start byte at byte 2"),
        (b"\x1f\x8b\x08", "is not UTF-8 text: invalid start byte at byte 1; it may be a trace of --format acl"),
        (b"\x00\x01", "is not JSON"),
        (b"3", "must have a program or a list of programs, not 3"),
        (b"9" * 5000, "program 0: must be an object, not a number of 5,000 digits"),
    ],
)
def test_a_file_without_programs_says_so(tmp_path, content, problem):
    file = tmp_path / "programs.json"
    file.write_bytes(content)
    result = acl_py(file, "--device", "tiny")
    assert result.exit_code == 1
    assert f"programs.json: {problem}" in result.stderr


def test_a_directory_and_a_missing_file_are_named(tmp_path):
    result = acl_py(tmp_path, tmp_path / "missing.json")
    assert result.exit_code == 1
    assert f"{tmp_path}: there is no file NAME.0.et or NAME.0.json" in result.stderr
    assert "missing.json: cannot be read: No such file or directory" in result.stderr


def test_a_dash_reads_the_standard_input():
    result = acl_py("-", "--device", "tiny", stdin=json.dumps(GOOD))
    assert result.exit_code == 0
    assert result.stdout.startswith("good: done after 10")
    result = acl_py("-", stdin="[]")
    assert result.exit_code == 1
    assert result.stderr == "standard input: has no programs: its list is empty\n"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"op": "lanch"}, 'op: there is no "lanch"; did you mean launch?'),
        ({"op": "memcpyasync"}, 'op: there is no "memcpyasync"; did you mean memcpy_async?'),
        ({"op": "graph_lunch"}, 'op: there is no "graph_lunch"; did you mean graph_launch?'),
        ({"op": "zzz"}, f'op: there is no "zzz"; there are {", ".join(OPS)}'),
        ({"op": "launch", "us": 1, "stream": "A", "block": 2}, '"block" is unknown; did you mean blocks?'),
        ({"op": "x" * 10**6}, "; there are launch, "),
    ],
)
def test_an_unknown_word_gets_what_was_meant(step, said):
    with pytest.raises(ProgramError) as caught:
        parse(GOOD | {"steps": [step]})
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_control_characters_of_names_are_escaped_wherever_they_are_shown(tmp_path):
    """A terminal would obey them: clear the screen, ring, overwrite the line, turn the direction of writing."""
    work = {"op": "launch", "id": f"k{ESCAPE}", "stream": f"s{ESCAPE}", "us": 50}
    program = {"id": f"p{ESCAPE}", "streams": {f"s{ESCAPE}": {}}, "events": {f"e{ESCAPE}": {}}, "steps": [work]}
    bad_name = program | {"steps": [work | {"stream": f"t{ESCAPE}"}]}
    bad_field = program | {"steps": [work | {f"f{ESCAPE}": 1}]}
    bad_option = program | {"streams": {f"s{ESCAPE}": {"flags": ESCAPE}}}
    reads = program | {"buffers": {f"b{ESCAPE}": BUFFERS["d"]}, "steps": [{"op": "host_read", "buf": f"b{ESCAPE}"}]}
    copies = [
        {"op": "memset_async", "dst": f"b{ESCAPE}", "bytes": 64, "value": 9, "stream": f"s{ESCAPE}"},
        {"op": "memset", "dst": f"b{ESCAPE}", "bytes": 64, "value": 8},
    ]
    differs = reads | {"steps": [work | {"us": 1e4}, *copies]}
    file = tmp_path / f"f{ESCAPE}.json"
    shown = []
    for programs in ([program], [program, program], [bad_name, bad_field, bad_option, reads]):
        file.write_text(json.dumps(programs))
        shown.append(acl_py(file))
        shown.append(acl_py(file, "--fault", "hang op=kernel"))
        shown.append(acl_py(file, "--fault", "delay us=5 op=kernel"))
    file.write_text(json.dumps(differs))
    shown.append(acl_py(file, "--rules", "cuda", "--rules", "acl"))
    file.write_text("{")
    shown.append(acl_py(file))
    for result in shown:
        text = result.stdout + result.stderr
        assert "\\x1b[2J" in text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


# --- what does not fit


@pytest.mark.parametrize(
    ("buffers", "problem"),
    [
        ({"d": {"space": "device", "bytes": 2**62}}, "buffers.d: device memory: "),
        ({"p": {"space": "pinned", "bytes": 2**62}}, "buffers.p: pinned memory: "),
        (
            {"g": {"space": "pageable", "bytes": 2**62}},
            f"buffers.g: the program needs {2**62:,} bytes of pageable memory, and this host has ",
        ),
        (
            {name: {"space": "pageable", "bytes": 2**61} for name in "gh"},
            f"buffers.g: the program needs {2**61:,} bytes of pageable memory, and this host has ",
        ),
    ],
)
def test_buffers_that_do_not_fit_are_named_and_the_other_programs_run(tmp_path, buffers, problem):
    file = tmp_path / "programs.json"
    file.write_text(json.dumps([GOOD, GOOD | {"id": "big", "buffers": buffers}, GOOD | {"id": "last"}]))
    result = acl_py(file, "--device", "tiny")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"program 'big': {problem}")
    assert "good" in result.stdout
    assert "last" in result.stdout


def test_a_call_that_asks_for_too_much_fails_as_on_a_card():
    steps = [{"op": op, "name": f"x{op}", "bytes": 2**63 - 1} for op in ("malloc", "malloc_host")]
    assert [call.ret for call in run(GOOD | {"steps": steps}).host] == [2, 2]
    with pytest.raises(ProgramError, match=r"program 'good': step 0 \(host_register\): bytes: .* this host has "):
        run(GOOD | {"steps": [{"op": "host_register", "name": "x", "bytes": 2**62}]})


def test_more_streams_than_a_device_has_are_refused():
    streams = {f"s{index}": {} for index in range(3000)}
    with pytest.raises(ProgramError, match=r"program 'good': streams: there are 3,001, and the device has [\d,]+ left"):
        replay(parse(GOOD | {"streams": {"A": {}} | streams} | {"steps": []}), device="ascend310p3")


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_very_many_names_and_steps_are_read_and_one_that_is_wrong_is_short(count):
    names = {f"n{index}": {} for index in range(count)}
    steps = [{"op": "record", "event": f"n{index}", "stream": f"n{index}"} for index in range(count)]
    program = parse({"id": "big", "streams": names, "events": names, "steps": steps})
    assert len(program.steps) == count
    with pytest.raises(ProgramError, match=rf"there are legacy, per_thread, nodes, n0, .*, n6 and {count - 7:,} more$"):
        parse({"id": "big", "streams": names, "events": names, "steps": [steps[0] | {"stream": "m"}]})


def test_blocks_by_the_thousand_million_run():
    launch = {"op": "launch", "id": "k", "stream": "A", "us": 10, "blocks": 2**31 - 1, "exclusive": True}
    replayed = run(GOOD | {"steps": [launch, launch | {"id": "l"}, launch | {"id": "m", "blocks": 2**31}]})
    assert [call.ret for call in replayed.host] == [0, 0, 9]
    assert replayed.device["k"].end_us == 2**29 * 10


@pytest.mark.parametrize(
    "step",
    [
        {"op": "host_work", "us": 4e15},
        {"op": "launch", "stream": "A", "us": 4e15},
        {"op": "host_func", "stream": "A", "us": 4e15},
        {"op": "launch", "stream": "A", "us": 4e15, "blocks": 2**31 - 1, "exclusive": True},
    ],
)
def test_a_program_that_takes_longer_than_simulated_time_is_refused(step):
    with pytest.raises(ProgramError, match=r"program 'good': (step 1 \(host_work\): )?simulated time ends at "):
        run(GOOD | {"steps": [step, step]})


# --- programs that somebody has damaged

WHOLE = {
    "id": "whole",
    "buffers": BUFFERS | {"p": {"space": "pinned", "bytes": 4096}},
    "streams": {"A": {"flags": "blocking"}, "N": {"flags": "nonblocking", "priority": -1}},
    "events": {"e": {}, "f": {"timing": False, "blocking": True}},
    "steps": [
        {"op": "host_write", "buf": "p", "value": 3},
        {"op": "memcpy_async", "id": "in", "dst": "d", "src": "p", "bytes": 4096, "stream": "A"},
        {"op": "record", "event": "e", "stream": "A"},
        {"op": "wait", "event": "e", "stream": "N"},
        {"op": "launch", "id": "k", "stream": "N", "us": 10, "blocks": 9, "exclusive": True},
        {
            "op": "memcpy2d_async",
            "dst": "g",
            "src": "d",
            "dpitch": 64,
            "spitch": 64,
            "width": 60,
            "height": 4,
            "stream": "N",
        },
        {"op": "malloc_async", "name": "x", "bytes": 512, "stream": "A"},
        {"op": "memset_async", "dst": "x", "bytes": 512, "value": 1, "stream": "A", "thread": "T"},
        {"op": "inc", "buf": "x", "stream": "A"},
        {"op": "free_async", "name": "x", "stream": "A"},
        {"op": "host_func", "stream": "A", "us": 5, "buf": "g", "by": 2},
        {"op": "elapsed", "start": "e", "end": "e"},
        {"op": "sync_device"},
        {"op": "host_read", "buf": "p"},
        {"op": "free", "name": "d"},
        {"op": "launch", "stream": "N", "us": 5, "name": "k", "reads": [["p", 0, 64]], "task": "b", "after": 2},
        {"op": "create_event", "event": "flag", "kind": "flag", "task": "b"},
        {"op": "sync_op", "of": "in", "task": "c"},
        {"op": "sleep", "us": 3, "task": "b"},
        {"op": "sync_stream", "stream": "N", "limit_ms": 1, "task": "c", "after": 16},
        {"op": "resume", "task": "b"},
        {"op": "give_way", "task": "b"},
    ],
    "gap_us": 0.5,
    "notes": ["a note"],
}
ODD = st.sampled_from(
    [
        None, True, 0, -1, 1, 3, 4095, 4097, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**63),
        0.5, 4e15, 1e300, float("inf"), float("nan"), "", "d", "g", "A", "N", "e", "x", "legacy", "launch",
        "free", "sync_event", "\ud800", ESCAPE, [], {}, [1], {"a": 1}, {"space": "device", "bytes": 1 << 62},
        {"op": "launch", "stream": "A", "us": 1},
    ]
)  # fmt: skip


def damage(data, document):
    """Change, take out or double one value somewhere in *document*."""
    node = document
    while True:
        keys = [*node] if isinstance(node, dict) else [*range(len(node))]
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and data.draw(st.integers(0, 5)):
            node = node[key]
            continue
        what = data.draw(st.integers(0, 3))
        if what == 0:
            del node[key]
        elif what == 1 and isinstance(node, list):
            node.insert(key, deepcopy(node[data.draw(st.sampled_from(keys))]))
        else:
            node[key] = deepcopy(data.draw(ODD))
        return


@given(st.data())
def test_a_damaged_program_runs_or_is_refused_with_a_sentence(data):
    """Nothing but our own errors comes out, whatever somebody did to it."""
    run_damaged(data)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(1_500))
@given(st.data())
def test_many_damaged_programs_run_or_are_refused_with_a_sentence(data):
    run_damaged(data)


def run_damaged(data):
    document = deepcopy(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        damage(data, document)
    rules = data.draw(st.sampled_from(["cuda", "cuda_per_thread", "acl"]))
    message = ""
    try:
        json.dumps(run(document, rules=rules).to_json())
    except (ProgramError, DeadlockError) as error:
        message = str(error).replace("\n", " ")
    assert message.isprintable()


@given(st.data())
def test_a_damaged_file_is_read_or_refused_with_a_sentence(tmp_path_factory, data):
    read_damaged(data, tmp_path_factory.getbasetemp() / "damaged.json")


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(1_500))
@given(st.data())
def test_many_damaged_files_are_read_or_refused_with_a_sentence(tmp_path_factory, data):
    read_damaged(data, tmp_path_factory.getbasetemp() / "damaged.json")


def read_damaged(data, file):
    content = json.dumps([GOOD, WHOLE]).encode()
    for _ in range(data.draw(st.integers(1, 3))):
        at, length = data.draw(st.integers(0, len(content))), data.draw(st.sampled_from([0, 1, 5, 50]))
        piece = data.draw(
            st.sampled_from([b"", b"\xff", b"[", b"]", b"{", b"}", b'"', b"\\", b"9" * 500, b"NaN", b"\x00", b","])
        )
        content = content[:at] + piece + content[at + length :]
    file.write_bytes(content)
    try:
        found = load(file)
    except ProgramError as error:
        found = [error]
    assert all(str(each).isprintable() for each in found if isinstance(each, ProgramError))


TINY = (resources.files("device_model") / "profiles" / "tiny.toml").read_text(encoding="utf-8")
EXTREMES = st.sampled_from([0, 1, 2, 3, 4096, 2**31, 10**15, 2**62])


CHANGES = st.lists(st.tuples(st.integers(0, 200), EXTREMES), min_size=1, max_size=4)


@given(CHANGES)
def test_a_program_runs_on_any_profile_that_is_read_or_is_refused_with_a_sentence(changes):
    """Values of the tiny profile are replaced by the smallest and the largest that there can be."""
    run_on_changed_profile(changes)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(500))
@given(CHANGES)
def test_a_program_runs_on_any_of_many_profiles_or_is_refused_with_a_sentence(changes):
    run_on_changed_profile(changes)


def run_on_changed_profile(changes):
    text = TINY
    for which, value in changes:
        found = [*re.finditer(r"value = (\d+)", text)]
        place = found[which % len(found)]
        text = f"{text[: place.start(1)]}{value}{text[place.end(1) :]}"
    message = ""
    try:
        replay(parse(WHOLE), device=profile.parse(text, "mine.toml"))
    except (profile.ProfileError, ProgramError, DeadlockError) as error:
        message = str(error).replace("\n", " ")
    assert message.isprintable()
