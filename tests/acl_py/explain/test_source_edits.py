"""The source of a run: statements by their lines, and calls that get another stream."""

import linecache

import pytest

from acl_py.explain.source import Source, _statements
from acl_py.trace.rows.timeline import Call, Timeline

IN_STREAM = {  # a line, and the same one in the stream `own`
    "await scale[64](x)": "await scale[64, own](x)",
    "await scale[64, None](x)": "await scale[64, own](x)",
    "done = await scale[64, s, 1](x)": "done = await scale[64, own, 1](x)",
    "await Memset(d, 8, 0, 8)": "await MemsetAsync(d, 8, 0, 8, own)",
    "await acl.MemcpyAsync(d, 8, h, 8, kind, s)": "await acl.MemcpyAsync(d, 8, h, 8, kind, own)",
    "await MemcpyAsync(d, 8, h, 8, kind, stream=s)": "await MemcpyAsync(d, 8, h, 8, kind, own)",
    "check(acl.rt.memcpy(d, 8, h, 8, 1), 'copy')": "check(acl.rt.memcpy_async(d, 8, h, 8, 1, own), 'copy')",
    "await StreamWaitEvent(s, e)": "await StreamWaitEvent(own, e)",
    "await RecordEvent(e)": "await RecordEvent(e, own)",
    "await helper(d)": "",
    "await gather(scale[1](x), scale[1](y))": "",
    "await scale[64](": "",
}


def source_of(path, line=1, function=""):
    return Source(Timeline(calls=[Call("LaunchKernel", 0, 1, str(path), line, "task 1", function=function)]))


@pytest.mark.parametrize("line", IN_STREAM)
def test_a_call_gets_another_stream_if_it_is_known_how(tmp_path, line):
    path = tmp_path / "program.py"
    path.write_text(line, encoding="utf-8")
    asynchronous = "Memset(" in line or "memcpy(" in line
    assert source_of(path).in_stream("program.py:1", "own", asynchronous=asynchronous) == IN_STREAM[line]


def test_a_launch_of_numba_has_its_threads_before_its_stream(tmp_path):
    path = tmp_path / "program.py"
    streams = []
    for launch in ("scale[grid, TPB](x)", "scale[grid, TPB, s](x)"):
        path.write_text(launch, encoding="utf-8")
        linecache.checkcache(str(path))
        _statements.cache_clear()
        source = source_of(path, function="cuLaunchKernel")
        assert source.in_stream("program.py:1", "own", asynchronous=False) == "scale[grid, TPB, own](x)"
        streams.append(source.stream("program.py:1"))
    assert streams == ["", "s"]


def test_a_statement_of_several_lines_is_one(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("async def f():\n    await scale[\n        64, self.s\n    ](x)\n", encoding="utf-8")
    source = source_of(path, 3)
    assert source.text("program.py:3") == "await scale[ 64, self.s ](x)"
    assert source.stream("program.py:3") == "self.s"


@pytest.mark.parametrize("name", ["secret.txt", "absent.py", "<stdin>"])
def test_no_other_file_is_read(tmp_path, name):
    if name.endswith(".txt"):
        (tmp_path / name).write_text("a secret", encoding="utf-8")
    assert source_of(tmp_path / name).text(f"{name}:1") == ""
