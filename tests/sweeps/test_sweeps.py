"""Sweeps: the same table for any number of workers, rows that are kept, workers that die, and refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import acl_py
from acl_py.sweeps.plots import save_figure
from acl_py.sweeps.progress import Progress
from acl_py.sweeps.rows import Row
from acl_py.sweeps.store import StoreError
from acl_py.trace.rows.files import read_trace
from tests.sweeps import programs

ROOT = Path(__file__).parents[2]
GRID = {"count": [1, 2, 4], "streams": [1, 2], "device": ["tiny", "h200"]}


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_a_row_has_the_point_the_time_the_answer_and_numbers():
    result = acl_py.sweep(programs.chunks, GRID, workers=1)
    assert len(result) == 12
    first = result.rows[0]
    assert first.point == {"count": 1, "streams": 1, "device": "tiny"}
    assert first.returned == {"sum": 6 << 16, "chunk": 1 << 16}
    assert first.numbers["cores_us"] == 10
    assert first.numbers["H2D_us"] == 65.536
    assert result.best().us == min(row.us for row in result)
    assert {row.value("chunk") for row in result} == {1 << 16, 1 << 15, 1 << 14}
    assert result.best() in result.pareto("us", "streams")
    assert {row.point["streams"] for row in result.pareto("streams")} == {1}


def test_any_number_of_workers_gives_the_same_table():
    alone = acl_py.sweep(programs.chunks, GRID, workers=1)
    assert acl_py.sweep(programs.chunks, GRID, workers=2) == alone
    assert str(alone).splitlines()[0].split() == [
        "count", "streams", "device", "us", "host", "waits", "sum", "chunk",
    ]  # fmt: skip


def test_what_a_run_gives_has_four_digits_in_the_table():
    rows = str(acl_py.sweep(programs.gives, {"number": [1, 3]}, workers=1)).splitlines()
    assert [row.split()[4:] for row in rows if row.split()[0] in "13"] == [
        ["1", "0.2705", "True", "12,345.7"],
        ["3", "0.8116", "True", "37,037.0"],
    ]


def test_a_point_that_fails_has_its_error_and_the_others_go_on():
    result = acl_py.sweep(programs.fails, {"number": range(4)}, workers=2)
    assert [row.returned for row in result] == [0, None, 2, None]
    assert [row.error for row in result] == ["", "ArithmeticError: 1 is odd", "", "ArithmeticError: 3 is odd"]
    with pytest.raises(ValueError, match="no point of the sweep has ended well"):
        acl_py.sweep(programs.fails, {"number": [1]}, workers=1).best()


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_point_only(tmp_path):
    log = tmp_path / "log"
    result = acl_py.sweep(programs.kills, {"number": range(12), "log": str(log)}, workers=2)
    assert [row.returned for row in result] == [0, 1, 2, None, *range(4, 12)]
    assert result.rows[3].error.startswith("its worker has died twice: it was ended from outside, had no memory left")
    assert lines(log).count("3") == 2


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_what_it_lacks(tmp_path):
    (tmp_path / "bare.py").write_text(
        "import acl_py\n\n\nasync def double(n):\n    return 2 * n\n\n\n"
        'print(acl_py.sweep(double, {"n": [1, 2]}, workers=2))\n'
    )
    ended = subprocess.run([sys.executable, "bare.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1].endswith('outside of `if __name__ == "__main__":`')


def test_rows_in_the_store_are_not_run_again(tmp_path):
    log, store = tmp_path / "log", tmp_path / "store.jsonl"
    first = acl_py.sweep(programs.chunks, {"count": [1, 2], "log": str(log)}, workers=1, store=store)
    both = acl_py.sweep(programs.chunks, {"count": [1, 2, 4], "log": str(log)}, workers=1, store=store)
    assert both.rows[:2] == first.rows
    assert lines(log) == ["1 1", "2 1", "4 1"]


def test_a_torn_line_of_the_store_is_dropped(tmp_path):
    log, store = tmp_path / "log", tmp_path / "store.jsonl"
    grid = {"count": [1, 2], "log": str(log)}
    whole = acl_py.sweep(programs.chunks, grid, workers=1, store=store)
    store.write_bytes(store.read_bytes()[:-20])
    assert acl_py.sweep(programs.chunks, grid, workers=1, store=store) == whole
    assert lines(log) == ["1 1", "2 1", "2 1"]
    assert len(lines(store)) == 3


def test_a_program_that_has_changed_runs_anew(tmp_path, monkeypatch):
    store = tmp_path / "store.jsonl"
    acl_py.sweep(programs.chunks, {"count": [1]}, workers=1, store=store)
    monkeypatch.setattr(programs, "FACTOR", 5)
    with pytest.warns(UserWarning, match=r"store\.jsonl: 1 of 2 points run again: the program, its module, the card"):
        changed = acl_py.sweep(programs.chunks, {"count": [1, 2]}, workers=1, store=store)
    assert [row.returned["sum"] for row in changed] == [15 << 16] * 2
    assert acl_py.sweep(programs.chunks, {"count": [1, 2]}, workers=1, store=store) == changed
    assert len(lines(store)) == 4


def test_a_file_that_is_no_store_of_this_sweep_is_refused(tmp_path):
    store = tmp_path / "store.jsonl"
    acl_py.sweep(programs.fails, {"number": [0]}, workers=1, store=store)
    with pytest.raises(StoreError, match=r"of tests\.sweeps\.programs\.fails, not of tests\.sweeps\.programs\.chunks"):
        acl_py.sweep(programs.chunks, {"count": [1]}, workers=1, store=store)
    store.write_text("{}\n")
    with pytest.raises(StoreError, match="is no store of a sweep"):
        acl_py.sweep(programs.chunks, {"count": [1]}, workers=1, store=store)
    assert store.read_text() == "{}\n"


SCRIPT = """
import sys
import acl_py
from tests.sweeps import programs

if __name__ == "__main__":
    grid = {"number": range(200), "log": sys.argv[1]}
    result = acl_py.sweep(programs.slow, grid, workers=2, store=sys.argv[2])
    print([row.returned for row in result])
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_sweep_that_was_ended_goes_on_where_it_was(tmp_path, ending):
    script, log, store = tmp_path / "script.py", tmp_path / "log", tmp_path / "store.jsonl"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(log), str(store)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while not store.exists() or len(lines(store)) < 100:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(ending)
        error = process.communicate()[1]
    kept = [json.loads(line)["row"]["returned"] for line in lines(store)[1:] if line.endswith("}")]
    if ending is signal.SIGINT:
        assert error.count("Traceback") == 1
        assert error.rstrip().endswith("KeyboardInterrupt")
    log.write_text("")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == f"{list(range(200))}\n"
    assert sorted(map(int, lines(log))) == sorted(set(range(200)) - set(kept))


def test_what_no_file_can_keep_is_the_error_of_its_row():
    [row] = acl_py.sweep(programs.returns_a_handle, [{}], workers=1)
    assert row.error.startswith("returns_a_handle() returned Stream: ")
    assert row.error.endswith("return numbers, texts, lists and mappings of these")


def test_options_of_the_simulation_are_part_of_the_point():
    rows = acl_py.sweep(
        programs.chunks,
        [
            {"count": 1, "device": "tiny"},
            {
                "count": 1,
                "device": "tiny",
                "changes": "[copies]\nh2d = { value = [[0, 0], [1, 2]], source = 'assumed' }",
            },
            {"count": 1, "device": "tiny", "faults": "fail call=Malloc"},
            {"count": 1, "device": "tiny", "rules": "acl"},
        ],
        workers=1,
    ).rows
    assert rows[1].numbers["H2D_us"] == 2 * rows[0].numbers["H2D_us"]
    assert "injected by fault rule" in rows[2].error
    assert rows[3].error == ""


@pytest.mark.parametrize(
    ("program", "grid", "kind", "text"),
    [
        (lambda: None, {}, TypeError, "a sweep runs a coroutine function"),
        (programs.plain, {}, TypeError, "a sweep runs a coroutine function"),
        (
            programs.chunks,
            {"count": [1], "stream": [1]},
            TypeError,
            r"chunks\(\) has no parameter stream; it has count",
        ),
        (programs.chunks, {"streams": [1]}, TypeError, r"chunks\(\) needs count, which the point"),
        (programs.chunks, {"count": [1], "device": ["h2000"]}, ValueError, "h2000"),
        (programs.chunks, {"count": [1], "rules": ["amd"]}, ValueError, "there are no rules 'amd'"),
        (programs.chunks, {"count": [1], "faults": ["fall"]}, ValueError, "a fault rule begins with"),
        (programs.chunks, {"count": [1], "changes": ["[copies"]}, ValueError, "changes="),
        (programs.chunks, {"count": []}, ValueError, "nothing to try for count"),
        (programs.chunks, [], ValueError, "the grid has no points"),
        (programs.chunks, [3], TypeError, "a grid is a mapping"),
    ],
)
def test_what_cannot_run_is_refused_before_any_point_runs(program, grid, kind, text, tmp_path):
    store = tmp_path / "store.jsonl"
    with pytest.raises(kind, match=text):
        acl_py.sweep(program, grid, workers=1, store=store)
    assert not store.exists()


def test_a_function_inside_another_is_refused():
    async def inner():
        """Be out of reach of other processes."""

    with pytest.raises(TypeError, match="move it to its module"):
        acl_py.sweep(inner, [{}])


def test_an_executor_of_the_caller_runs_the_points():
    from concurrent.futures import ThreadPoolExecutor  # its workers share this process

    with ThreadPoolExecutor(1) as executor:
        result = acl_py.sweep(programs.fails, {"number": range(4)}, executor=executor)
    assert result == acl_py.sweep(programs.fails, {"number": range(4)}, workers=1)


def test_a_point_that_an_executor_gives_up_runs_again_alone():
    from concurrent.futures import Future, ThreadPoolExecutor

    class Losing(ThreadPoolExecutor):
        """Gives up the second and the third job, as if a worker had died with them."""

        begun = 0

        def submit(self, job, point):
            self.begun += 1
            if self.begun not in (2, 3):
                return super().submit(job, point)
            future = Future()
            future.set_exception(RuntimeError("lost"))
            return future

    with Losing(1) as executor:
        result = acl_py.sweep(programs.chunks, {"count": [1, 2, 4, 8]}, executor=executor)
    assert executor.begun == 6
    assert result == acl_py.sweep(programs.chunks, {"count": [1, 2, 4, 8]}, workers=1)


@pytest.fixture
def dask_executor(request):
    """An executor of a cluster of two processes on this machine. The parameter: how often Dask tries the task of a dead
    worker again.
    """
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    options = {
        "distributed.scheduler.allowed-failures": request.param,
        "distributed.deploy.lost-worker-timeout": "300 s",  # on a busy machine a new worker takes a while
    }
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    any_port = {"dashboard_address": ":0"}  # other tests have clusters, too
    with (
        pytest.importorskip("dask").config.set(options),
        distributed.LocalCluster(**workers, scheduler_kwargs=any_port) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dask_executor", "kind"), [(0, "KilledWorker"), (3, "WorkerDiedError")], indirect=["dask_executor"]
)
def test_a_dask_cluster_gives_the_same_table_and_a_point_that_kills_its_worker_runs_twice(
    dask_executor, kind, tmp_path
):
    alone = acl_py.sweep(programs.chunks, GRID, workers=1)
    assert acl_py.sweep(programs.chunks, GRID, executor=dask_executor) == alone
    log = tmp_path / "log"
    result = acl_py.sweep(programs.kills, {"number": range(12), "log": str(log)}, executor=dask_executor)
    errors = [row.error.partition(f"worker: {kind}: ") for row in result]
    assert [error[1] for error in errors] == ["", "", "", f"worker: {kind}: ", *[""] * 8], errors
    assert [row.returned for row in result] == [0, 1, 2, None, *range(4, 12)]
    assert lines(log).count("3") == 2


@pytest.mark.slow
@pytest.mark.parametrize("dask_executor", [3], indirect=True)
def test_a_worker_that_the_test_kills_costs_its_point_only(dask_executor, tmp_path):
    log, marker, store = tmp_path / "log", tmp_path / "marker", tmp_path / "store.jsonl"
    grid = {"number": range(200), "log": str(log), "marker": str(marker)}
    since = []

    def kill_later(*_):
        """Kill the worker that waits, when what it had finished before has come back."""
        since.append(marker.exists())
        if sum(since) == 20:
            os.kill(int(marker.read_text()), signal.SIGKILL)

    result = acl_py.sweep(programs.held, grid, executor=dask_executor, store=store, tell=kill_later)
    assert sum(since) > 20
    assert [row.returned for row in result] == list(range(200))
    assert sorted(map(int, lines(log))) == list(range(200)), "nothing that was finished runs twice"
    assert acl_py.sweep(programs.held, grid, executor=dask_executor, store=store) == result
    assert len(lines(log)) == 200


def test_faster_links_and_copies_are_changes_of_a_point():
    plain, faster = acl_py.sweep(
        programs.chunks, {"count": 1, "device": "tiny", "changes": [None, "h2d=2x"]}, workers=1
    )
    assert faster.numbers["H2D_us"] == plain.numbers["H2D_us"] / 2
    with pytest.raises(ValueError, match="cores=2x: write h2d=2x, d2h=2x, d2d=2x or links=2x"):
        acl_py.sweep(programs.chunks, {"count": 1, "changes": "cores=2x"}, workers=1)
    with pytest.raises(ValueError, match=r"links=0x: write .*, with a factor above 0"):
        acl_py.sweep(programs.chunks, {"count": 1, "device": "tiny", "changes": "links=0x"}, workers=1)


def test_a_function_that_holds_an_open_file_is_refused_by_its_name(tmp_path):
    with (tmp_path / "log").open("w") as log:

        async def inner():
            log.write("a run")

        with pytest.raises(
            TypeError, match=r"inner is a function inside another and holds log \(TextIOWrapper\), which"
        ):
            acl_py.sweep(inner, [{}])
        with pytest.raises(TypeError, match=r"log=.* cannot go to another process: cannot pickle"):
            acl_py.sweep(programs.chunks, {"count": [1], "log": [log]})


def test_a_store_takes_points_that_it_can_find_again(tmp_path):
    store = tmp_path / "store.jsonl"
    with pytest.raises(TypeError, match=r"log=PosixPath\('x'\) has no form in JSON, so a store could not find its row"):
        acl_py.sweep(programs.chunks, {"count": [1], "log": [Path("x")]}, workers=1, store=store)
    assert not store.exists()


def test_a_row_of_another_card_of_the_same_name_runs_anew(tmp_path):
    card, store, log = tmp_path / "card.toml", tmp_path / "store.jsonl", tmp_path / "log"
    text = (ROOT / "device_model" / "profiles" / "tiny.toml").read_text(encoding="utf-8").replace('"tiny"', '"card"', 1)
    card.write_text(text, encoding="utf-8")
    grid = {"count": [1], "device": [str(card)], "log": [str(log)]}
    acl_py.sweep(programs.chunks, grid, workers=1, store=store)
    acl_py.sweep(programs.chunks, grid, workers=1, store=store)
    assert lines(log) == ["1 1"]
    card.write_text(text + "\n# another one\n", encoding="utf-8")
    acl_py.sweep(programs.chunks, grid, workers=1, store=store)
    assert lines(log) == ["1 1"], "a comment changes nothing"
    card.write_text(text.replace("depth = { value = ", "depth = { value = 1"), encoding="utf-8")
    with pytest.warns(UserWarning, match="1 of 1 points run again"):
        acl_py.sweep(programs.chunks, grid, workers=1, store=store)
    assert lines(log) == ["1 1", "1 1"]


def test_stores_and_traces_may_be_wherever_fsspec_reaches(tmp_path):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    log, store, traces = tmp_path / "log", "memory://sweep/out.jsonl", "memory://sweep/traces"
    grid = {"count": [1, 2], "log": str(log)}
    first = acl_py.sweep(programs.chunks, grid, workers=1, store=store, traces=traces)
    system = fsspec.filesystem("memory")
    system.pipe_file("/sweep/out.jsonl", system.cat_file("/sweep/out.jsonl")[:-20])
    assert acl_py.sweep(programs.chunks, grid, workers=1, store=store, traces=traces) == first
    assert lines(log) == ["1 1", "2 1", "2 1"]
    system.get_file(first.rows[1].trace.removeprefix("memory:/"), str(tmp_path / "run.acl"))
    assert read_trace(tmp_path / "run.acl").end_ns == first.rows[1].us * 1000


def test_each_point_has_a_trace_if_they_are_asked_for(tmp_path):
    rows = acl_py.sweep(programs.chunks, {"count": [1, 2]}, workers=1, traces=tmp_path / "traces").rows
    assert [read_trace(row.trace).end_ns for row in rows] == [row.us * 1000 for row in rows]
    assert len({row.trace for row in rows}) == 2


def test_progress_says_how_much_is_done_and_left(capsys):
    at_s = iter([0.0, 0.5, 2.0, 2.0, 2.0])
    progress = Progress(lambda: next(at_s))
    progress(Row({}), 11, 30)
    progress(Row({}, error="it fails"), 12, 30)
    assert capsys.readouterr().err == "12 of 30 points, 1 failed, 1.0 a second, 18 s left\n"


def test_a_figure_has_a_panel_for_each_card_and_frames_its_best(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    result = acl_py.sweep(programs.chunks, GRID, workers=1)
    figure = result.plot()
    assert [(axes.get_title(), axes.get_xlabel()) for axes in figure.axes] == [
        ("device tiny", "count"),
        ("device h200", "count"),
    ]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{row.us:,.0f}" for row in result if row.point["device"] == "tiny"]
    save_figure(figure, tmp_path / "one.svg")
    save_figure(result.plot(), tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    curves = acl_py.sweep(programs.chunks, {"count": [1, 2]}, workers=1).plot("host_waits_us")
    assert len(curves.axes[0].lines) == 1
    with pytest.raises(ValueError, match="nothing to draw: the points do not differ"):
        acl_py.sweep(programs.chunks, {"count": 1}, workers=1).plot()
