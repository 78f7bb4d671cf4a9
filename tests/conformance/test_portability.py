"""What a program does differently under other rules."""

import json

from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.programs.format import parse
from acl_py.programs.portability import differences
from device_model.rules import ACL, CUDA, CUDA_PER_THREAD

MIB = 1 << 20
BUFFERS = {
    "d": {"space": "device", "bytes": MIB},
    "h": {"space": "pinned", "bytes": MIB},
    "out": {"space": "pageable", "bytes": MIB},
}


def program(*steps, **more):
    return {
        "id": "p",
        "buffers": BUFFERS,
        "streams": {"a": {}, "b": {}},
        "events": {"e": {}},
        "steps": list(steps),
    } | more


def told(*steps):
    checked = parse(program(*steps), "p")
    return [
        (each.what, each.where, each.under["cuda"], each.under["acl"]) for each in differences(checked, (CUDA, ACL))
    ]


BOTH = "step 0 launch k, step 1 memcpy_async up"
LAUNCH = {"op": "launch", "id": "k", "stream": "a", "us": 100}
UP = {"op": "memcpy_async", "id": "up", "dst": "d", "src": "h", "bytes": MIB, "stream": "a"}


def test_a_copy_that_does_not_wait_for_its_stream_reads_too_early():
    down = {"op": "memcpy", "id": "down", "dst": "out", "src": "d", "bytes": MIB}
    assert told(LAUNCH, UP, down, {"op": "sync_device"}) == [
        ("wait", "step 2 memcpy down returned after the end of", BOTH, "none of these"),
        ("order", "step 2 memcpy down", "after step 0 launch k", "overlaps step 0 launch k"),
        ("order", "step 2 memcpy down", "after step 1 memcpy_async up", "before step 1 memcpy_async up"),
        ("result", "buffer out after step 2 memcpy down", "holds 1,048,576 bytes of 2", "holds 1,048,576 bytes of 1"),
    ]  # fmt: skip


def test_a_free_that_does_not_wait_makes_the_work_fail():
    assert told(LAUNCH, UP, {"op": "free", "name": "d"}, {"op": "sync_device"}) == [
        ("code", "step 3 sync_device", "0", "507053"),
        ("wait", "step 2 free returned after the end of", BOTH, "none of these"),
    ]


def test_a_wait_without_a_record_is_a_code():
    assert told({"op": "wait", "event": "e", "stream": "a"}, {"op": "sync_device"}) == [
        ("code", "step 0 wait", "0", "107000")
    ]


def test_the_default_stream_orders_or_does_not():
    second = {"op": "launch", "id": "l", "stream": "legacy", "us": 100}
    assert told(LAUNCH, second, {"op": "sync_device"}) == [
        ("order", "step 1 launch l", "after step 0 launch k", "overlaps step 0 launch k")
    ]


def test_a_portable_program_has_no_differences():
    assert told(UP, {"op": "sync_stream", "stream": "a"}, LAUNCH, {"op": "sync_stream", "stream": "a"}) == []


def test_the_same_rules_never_differ():
    checked = parse(program(LAUNCH, UP, {"op": "sync_device"}), "p")
    assert differences(checked, (CUDA, CUDA)) == []
    assert differences(checked, (CUDA, CUDA_PER_THREAD)) == []


def test_the_command_line_shows_a_table(tmp_path):
    file = tmp_path / "p.json"
    file.write_text(json.dumps(program({"op": "wait", "event": "e", "stream": "a"}, {"op": "sync_device"})))
    result = CliRunner().invoke(app, ["replay", "--rules", "cuda", "--rules", "acl", str(file)])
    assert result.exit_code == 0
    for words in ("what", "step 0 wait", "107000"):
        assert words in result.stdout
    file.write_text(json.dumps(program({"op": "sync_device"})))
    result = CliRunner().invoke(app, ["replay", "--rules", "cuda", "--rules", "acl", str(file)])
    assert result.stdout == "p: no difference\n"


def test_managed_memory_is_named_call_by_call():
    steps = [
        {"op": "malloc_managed", "name": "m", "bytes": MIB},
        {"op": "prefetch", "buf": "m", "bytes": MIB, "to": "device", "stream": "a"},
    ]
    found = [(each.what, each.where, each.under) for each in differences(parse(program(*steps)), (CUDA, ACL))]
    assert found == [
        ("code", "step 0 malloc_managed", {"cuda": "0", "acl": "207000"}),
        ("code", "step 1 prefetch", {"cuda": "0", "acl": "207000"}),
    ]
