"""Scripts that use the driver, under each option of `acl-py run`, and under `acl-py explore`."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests import forks

SCRIPT = Path(__file__).parent / "scripts" / "in_c.py"
RACE = """
    call("cuMemsetD8Async", device, 1, 4 * COUNT, work)
    other = made("cuStreamCreate", 1)
    call("cuMemcpyDtoHAsync_v2", result, device, 4 * COUNT, other)
    call("cuCtxSynchronize")
"""
LUCK = """
    for _ in range(20):
        made("cuStreamCreate", 1)
    early = list(result)
    call("cuCtxSynchronize")


    def check():
        return early == [2 * each for each in range(COUNT)]
"""


def run(*arguments, command="run", cwd=SCRIPT.parent):
    return forks.run("-m", "acl_py", command, *arguments, cwd=cwd)


@pytest.fixture
def longer(tmp_path):
    """Write the script with more behind its first copy of the result; return its path."""

    def write(more):
        path = tmp_path / "longer.py"
        text = SCRIPT.read_text(encoding="utf-8").partition('if "too_early"')[0]
        path.write_text(text + dedent(more), encoding="utf-8")
        return path

    return write


def test_a_fault_rule_makes_calls_fail_and_the_summary_counts_it():
    done = run("--fault", "fail call=Malloc kind=OUT_OF_MEMORY", "--fault", "delay us=50 op=kernel", SCRIPT)
    assert (done.returncode, done.stderr.count("RuntimeError: cuMemAlloc_v2 returned 2")) == (1, 1)
    injected = (
        "injected by fault rule fail(call='Malloc', kind='OUT_OF_MEMORY') made at the options of the session; let the "
        "program handle this, or remove the rule"
    )
    assert [line for line in done.stderr.splitlines() if line.startswith(("  fault rule", "  failed"))] == [
        "  fault rule: fail(call='Malloc', kind='OUT_OF_MEMORY'): struck 1 of 1",
        "  fault rule: delay(op='kernel', us=50): struck 0 of 0",
        f"  failed: cuMemAlloc_v2() at in_c.py:23: CUDA_ERROR_OUT_OF_MEMORY (2): cudaMalloc() failed: {injected}",
    ]


def test_a_fault_rule_that_nothing_can_match_is_refused_before_the_script_runs():
    done = run("--fault", "fail call=Maloc", SCRIPT)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no verb 'Maloc'" in done.stderr


def test_the_sanitizer_names_both_lines_and_tries_the_fix(longer, tmp_path):
    done = run("--sanitize=device", "--fix", longer(RACE), cwd=tmp_path)
    assert done.returncode == 4
    edge = (
        "cudaEventRecord(event, stream 1) after longer.py:23, cudaStreamWaitEvent(stream 2, event) before longer.py:23"
    )
    fixes = [line.strip() for line in done.stderr.splitlines() if line.startswith(("    fix", "    tried"))]
    assert fixes == [f"fix: {edge}", "tried: the finding is gone, it costs 13.8 us"] * 4
    paths = {line.strip() for line in done.stderr.splitlines() if line.startswith("        from ")}
    assert paths
    assert {each.rpartition(":")[0] for each in paths} == {"from longer.py"}
    assert "acl.rt" not in done.stderr


def test_a_second_free_is_called_so_under_the_names_of_cuda(longer, tmp_path):
    text = 'call("cuMemFree_v2", device)\ncuda.cuMemFree_v2(ctypes.c_uint64(device))\n'
    done = run("--sanitize=device", longer(text), cwd=tmp_path)
    lines = done.stderr.splitlines()
    [place] = [index for index, line in enumerate(lines) if line.startswith("double free: ")]
    assert lines[place].startswith("double free: cuMemFree_v2 (longer.py:")
    [fix] = [line.strip() for line in lines[place:] if line.startswith("    fix")]
    assert fix.startswith("fix: take out cuMemFree_v2 at longer.py:")
    assert not any(line.startswith("use after free") for line in lines)


def test_a_run_is_explained_edited_and_has_a_report_and_a_trace(tmp_path):
    paths = ("--report", tmp_path / "page.html", "--trace", tmp_path / "trace.json")
    done = run("--explain", "--what-if", "pinned", "--what-if", "streams=2", *paths, SCRIPT)
    assert (done.stdout, done.returncode) == ("right\n", 0)
    assert "critical path: " in done.stderr
    assert "pinned: " in done.stderr
    assert re.search("^streams=2: .* us instead of ", done.stderr, re.MULTILINE)
    assert "acl.rt" not in done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"h2d", "twice", "d2h"} <= {event.get("name") for event in events}
    assert "twice" in (tmp_path / "page.html").read_text()


def test_what_it_takes_follows_the_overlay_and_what_waits_follows_the_rules():
    options = (), ("--overlay", "torch"), ("--rules", "cuda_per_thread")
    assert [run(*each, SCRIPT).stderr.splitlines()[0] for each in options] == [
        "acl-py: h200, rules cuda: 72.3 us of simulated time",
        "acl-py: h200, rules cuda: 74.6 us of simulated time",
        "acl-py: h200, rules cuda_per_thread: 72.3 us of simulated time",
    ]


@pytest.mark.slow
def test_schedules_are_explored_and_the_one_that_fails_runs_again(longer, tmp_path):
    early = longer(LUCK)
    found = run("--check", "check", early, command="explore", cwd=tmp_path)
    assert found.returncode == 4
    again = "run it again: acl-py explore --schedule delay@1=2 --check check "
    assert found.stdout.splitlines()[-2:] == [
        "  delay@1=2  h2d on stream 1, queued at longer.py:23, starts 1000 us later",
        f"{again}{early}",
    ]


def test_a_call_that_no_line_of_the_script_makes_says_so(longer, tmp_path):
    script = longer("""
        import ctypes.util
        libc = ctypes.CDLL(None)
        thread = ctypes.c_uint64()
        begin = ctypes.cast(cuda.cuStreamSynchronize, ctypes.c_void_p)
        assert libc.pthread_create(ctypes.byref(thread), None, begin, ctypes.c_void_p(work)) == 0
        libc.pthread_join(thread, None)
        """)
    done = run(script, cwd=tmp_path)
    assert "cuStreamSynchronize() at no line of the script" in done.stderr, done.stderr
