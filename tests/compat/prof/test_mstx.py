"""mstx: marks and ranges of the host and of streams, on the timeline and in what is written from it."""

import csv
import importlib
import json

import pytest
from card import H2D, done, made, module, work

from acl_py.compat.acl.face.session import session
from acl_py.trace import chrome, table
from acl_py.trace.page.data import Run, document

HERE = "test_mstx.py"


@pytest.fixture
def mstx(acl):
    """The module, as a script imports it beside acl."""
    return importlib.import_module("mstx")


def marks():
    """Name, begin, end and caller of all marks, in the order in which they were told."""
    return [(each.name, each.begin_ns, each.end_ns, each.caller) for each in session().trace.marks]


def upload(acl, mstx):
    """A script with a range around two copies and a mark between them; the stream takes 2 us for each."""
    stream, host = made(acl.rt.create_stream()), made(acl.rt.malloc_host(2000))
    device = made(acl.rt.malloc(2000, 0))
    number = mstx.range_start("upload", stream)
    done(acl.rt.memcpy_async(device, 2000, host, 2000, H2D, stream))
    mstx.mark("half", stream=stream)
    done(acl.rt.memcpy_async(device, 2000, host, 2000, H2D, stream))
    mstx.range_end(number)
    done(acl.rt.synchronize_stream(stream))
    return session().trace.ops


def test_ranges_and_marks_of_a_stream_are_at_the_times_of_its_work(acl, mstx):
    first, second = upload(acl, mstx)
    host_begin = session().trace.calls[-4].exit_ns  # of malloc
    half, over = (session().trace.calls[place].exit_ns for place in (-3, -2))
    assert marks() == [
        ("half", half, half, "the program"),
        ("upload", host_begin, over, "the program"),
        ("half", first.end_ns, first.end_ns, "stream 1"),
        ("upload", host_begin, second.end_ns, "stream 1"),
    ]


def test_a_mark_of_an_idle_stream_is_now(acl, mstx):
    stream = made(acl.rt.create_stream())
    work("busy", 5, stream)
    done(acl.rt.synchronize_stream(stream))
    now = session().runtime.host_ns
    mstx.mark("idle", stream)
    mstx.mark("host")
    assert marks() == [
        ("idle", now, now, "the program"),
        ("idle", now, now, "stream 1"),
        ("host", now, now, "the program"),
    ]


def test_ranges_overlap_and_end_in_any_order(acl, mstx):
    outer, inner = mstx.range_start("outer"), mstx.range_start(message="inner", stream=None)
    work("busy", 5)
    done(acl.rt.synchronize_device())
    mstx.range_end(outer)
    mstx.range_end(rangeId=inner)
    assert [(name, caller) for name, _, _, caller in marks()] == [("outer", "the program"), ("inner", "the program")]
    assert (outer, inner, mstx.get_tool_id()) == (1, 2, 0)


def test_marks_are_in_page_chrome_trace_and_csv(acl, mstx, tmp_path):
    upload(acl, mstx)
    trace, wanted = session().trace, marks()
    table.write(trace, tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["row"] == "mark"]
    assert [(row["name"], int(row["start_ns"]), int(row["end_ns"]), row["caller"]) for row in rows] == wanted
    chrome.write(trace, tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    slices = [each for each in events if each.get("cat") == "mark"]
    assert [(each["name"], round(each["ts"] * 1000), each["args"]["caller"]) for each in slices] == [
        (name, begin, caller) for name, begin, _, caller in wanted
    ]
    shown = document([Run("run", trace.timeline())], "run")
    assert shown["runs"][0]["marks"]["rows"] == len(wanted)
    assert {"upload", "half", "stream 1"} <= set(shown["runs"][0]["texts"])


def test_what_is_no_stream_and_no_range_is_a_finding(acl, mstx):
    stream = made(acl.rt.create_stream())
    done(acl.rt.destroy_stream(stream))
    mstx.mark("one", stream)
    mstx.mark("two", stream=1)
    mstx.range_end(9)
    mstx.mark("three", stream=0)
    assert [name for name, *_ in marks()] == ["one", "two", "three"]
    gone, never, unknown = session().warned
    assert gone.startswith(f"mstx.mark() at {HERE}:")
    assert "is no longer a stream: it was destroyed" in gone
    assert "counts for the host only: 0x1 is not a stream, nor any other handle; pass a stream, or None" in never
    assert unknown.startswith(f"mstx.range_end(9) at {HERE}:")


class Stream:
    """A stream of torch_npu has its handle as an attribute."""

    def __init__(self, handle):
        self.npu_stream = handle


def test_objects_with_a_handle_are_streams(acl, mstx):
    mstx.mark("torch", Stream(made(acl.rt.create_stream())))
    assert [caller for *_, caller in marks()] == ["the program", "stream 1"]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda mstx: mstx.mark(None), "message must be a str, not NoneType"),
        (lambda mstx: mstx.mark("a", "stream"), "stream must be None or the handle of a stream, not str"),
        (lambda mstx: mstx.range_start(b"a"), "message must be a str, not bytes"),
        (lambda mstx: mstx.range_end("1"), "'str' object cannot be interpreted as an integer"),
        (lambda mstx: mstx.mark(), "missing 1 required positional argument: 'message'"),
    ],
)
def test_arguments_of_the_wrong_type_raise(acl, mstx, call, complaint):
    with pytest.raises(TypeError, match=complaint):
        call(mstx)


def test_a_long_message_is_cut_and_control_characters_are_escaped(acl, mstx):
    mstx.mark("a" * 300)
    mstx.mark("b\x07\nc")
    mstx.mark("")
    assert [name for name, *_ in marks()] == ["a" * 255, "b\\x07", "mark"]


def test_marks_of_acl_prof_name_a_stream_too(acl):
    stream = made(acl.rt.create_stream())
    step = acl.prof.create_step_info()
    done(acl.prof.get_step_timestamp(step, 0, stream))
    work("busy", 5, stream)
    done(acl.prof.mark_ex("behind", stream), acl.prof.get_step_timestamp(step, 1, stream))
    done(acl.rt.synchronize_stream(stream))
    (op,) = session().trace.ops
    begun = session().trace.calls[1].exit_ns
    assert marks() == [("behind", op.end_ns, op.end_ns, "stream 1"), ("step", begun, op.end_ns, "stream 1")]
    assert acl.prof.get_step_timestamp(step, 1, stream) == 500005
    assert acl.prof.get_step_timestamp(step, 2, stream) == 100000
    assert acl.prof.get_step_timestamp(stream, 0, stream) == 100000
    assert acl.prof.mark_ex("nowhere", stream + 1) == 107017


def test_the_module_goes_with_acl():
    with module():
        importlib.import_module("mstx")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mstx")


def test_a_script_finds_it(run):
    ended = run("import mstx\nimport acl\nacl.init()\nmstx.mark('alone')\nprint(mstx.get_tool_id())\n")
    assert (ended.returncode, ended.stdout) == (0, "0\n")
