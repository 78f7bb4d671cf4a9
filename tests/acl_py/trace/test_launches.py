"""Launches of graphs in traces, and in the views of a trace."""

import csv
import json

import pytest

import acl_py as acl
from acl_py.trace import chart, chrome, kineto, msprof, table
from acl_py.trace.page.data import Run, document


@acl.kernel(cost=acl.Cost(us=10))
def scale(x: acl.InOut):
    """Touch *x*."""


async def main():
    """A graph of two kernels, launched twice behind a kernel; a launch whose graph has no operations."""
    stream, x = await acl.CreateStream(), await acl.Malloc(64)
    async with acl.capture(stream) as graph:
        await scale[1, stream](x)
        await scale[1, stream](x)
    executable = await acl.GraphInstantiate(graph)
    empty = await acl.GraphCreate()
    await acl.GraphAddEmptyNode(empty)
    nothing = await acl.GraphInstantiate(empty)
    await scale[1, stream](x)
    for each in (executable, executable, nothing):
        await acl.GraphLaunch(each, stream)
    await acl.SynchronizeStream(stream)
    return acl.current_simulation().trace.timeline()


@pytest.fixture(scope="module")
def timeline():
    """On the tiny device a call takes 1 us, and nothing has a latency."""
    return acl.run(main, device="tiny")


def test_a_launch_lasts_from_its_first_node_to_its_last(timeline):
    begin = timeline.ops[0].start_ns
    spans = [(each.label, each.start_ns - begin, each.end_ns - begin) for each in timeline.launches]
    assert spans == [("graph 1", 10_000, 30_000), ("graph 1", 30_000, 50_000), ("graph 2", 50_000, 50_000)]
    assert [op.launch for op in timeline.ops] == [None, 0, 0, 1, 1]
    assert {op.site for op in timeline.ops[1:3]}.isdisjoint({each.site for each in timeline.launches})


def test_a_launch_that_has_not_ended_has_no_times():
    async def unfinished():
        await main_without_end()
        return acl.current_simulation().trace.timeline()

    async def main_without_end():
        stream, x = await acl.CreateStream(), await acl.Malloc(64)
        async with acl.capture(stream) as graph:
            await scale[1, stream](x)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)

    found = acl.run(unfinished, device="tiny")
    [launch] = found.launches
    assert (launch.start_ns, launch.end_ns) == (-1, -1)
    assert "graphs" not in chart.lanes(found)


def test_charts_have_a_lane_of_launches(timeline):
    lanes = chart.lanes(timeline, 90).splitlines()
    assert [line.split()[0] for line in lanes[1:5]] == ["host", "graphs", "cores", "██"]
    assert lanes[2].count("graph 1") == 2


def test_figures_have_a_row_of_launches(timeline):
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'")
    from acl_py.trace.views.figure import describe

    assert "graphs, from 11 to 51 us: launch of a graph 40 us in 3 parts" in describe({"run": timeline})


def events(timeline, write, path):
    write(timeline, path)
    document = json.loads(path.read_text())
    return document["traceEvents"] if isinstance(document, dict) else document


def test_a_chrome_trace_has_launches_and_arrows_from_their_calls(timeline, tmp_path):
    found = events(timeline, chrome.write, tmp_path / "trace.json")
    calls = [each for each in found if each["name"] == "GraphLaunch"]
    launches = [each for each in found if each.get("cat") == "graph"]
    nodes = [each for each in found if each.get("cat") == "kernel"]
    assert [each["bind_id"] for each in launches[:2]] == [each["bind_id"] for each in calls[:2]]
    assert "bind_id" not in launches[2]
    assert [each.get("bind_id") for each in nodes[1:]] == [each["bind_id"] for each in calls[:2] for _ in range(2)]


def test_a_kineto_trace_correlates_nodes_with_the_launch(timeline, tmp_path):
    found = events(timeline, kineto.write, tmp_path / "trace.json")
    [one, other, empty] = [each["args"] for each in found if each["name"] == "cudaGraphLaunch"]
    nodes = [each["args"]["correlation"] for each in found if each.get("cat") == "kernel"]
    assert nodes[1:] == [one["correlation"]] * 2 + [other["correlation"]] * 2
    assert "correlation" not in empty
    assert [each["dur"] for each in found if each.get("cat") == "user_annotation"] == [20, 20, 0]


def test_msprof_has_launches_as_executions_of_a_model(timeline, tmp_path):
    msprof.write(timeline, tmp_path)
    [path] = tmp_path.glob("*/*/trace_view.json")
    found = json.loads(path.read_text())
    assert sum(each["name"] == "AscendCL@aclmdlRIExecuteAsync" for each in found) == 3
    models = [each for each in found if each.get("args", {}).get("Task Type") == "MODEL_EXECUTE"]
    assert [(each["name"], each["dur"]) for each in models] == [("graph 1", 20), ("graph 1", 20), ("graph 2", 0)]


def test_a_table_has_launches_behind_all_else(timeline, tmp_path):
    table.write(timeline, tmp_path / "trace.csv")
    rows = list(csv.DictReader((tmp_path / "trace.csv").read_text().splitlines()))
    launches = [row for row in rows if row["row"] == "launch"]
    assert rows[-3:] == launches
    assert [row["name"] for row in launches] == ["graph 1", "graph 1", "graph 2"]
    nodes = [row["correlation"] for row in rows if row["row"] == "operation"][1:]
    assert nodes == [launches[0]["correlation"]] * 2 + [launches[1]["correlation"]] * 2


def test_the_page_has_launches(timeline):
    [run] = document([Run("run", timeline)], "run")["runs"]
    assert run["launches"]["rows"] == 3
