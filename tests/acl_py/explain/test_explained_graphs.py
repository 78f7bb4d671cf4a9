"""Explanations of runs with graphs: findings, the critical path, slack, and what-ifs of their programs."""

import numpy as np
import pytest

import acl_py as acl
from acl_py import recorded
from acl_py.causes.findings import Pitfall, findings
from acl_py.causes.path import Cause, critical_path, makespan_ns
from acl_py.causes.slack import slacks
from acl_py.explain.cases import EditError
from acl_py.explain.edits import parse_all
from acl_py.explain.fixes import Fixer, try_fixes
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of, case_of
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.trace.rows.reading import site_of_call

OUT = acl.MemcpyKind.DEVICE_TO_HOST


@acl.kernel(cost=acl.Cost(us=10))
def short(x: acl.InOut):
    pass


@acl.kernel(cost=acl.Cost(us=50))
def long(x: acl.InOut):
    pass


def recording(main):
    async def whole():
        await main()
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, device="tiny")


async def fork_and_join():
    """Two kernels side by side between two others, launched twice; another stream waits for what a launch records."""
    one, two, other = [await acl.CreateStream() for _ in range(3)]
    fork, join, done = [await acl.CreateEvent() for _ in range(3)]
    x, y = await acl.Malloc(64), await acl.Malloc(64)
    async with acl.capture(one) as graph:
        await short[1, one](x)
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        await long[1, two](y)
        await short[1, one](x)
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
        await short[1, one](x)
        await acl.RecordEvent(done, one, external=True)
    executable = await acl.GraphInstantiate(graph)
    for _ in range(2):
        await acl.GraphLaunch(executable, one)
    await acl.StreamWaitEvent(other, done)
    await short[1, other](x)
    await acl.SynchronizeDevice()


def test_what_is_captured_is_no_finding():
    """Neither the waits inside of the graph, nor the one for what the launch records."""
    assert findings(recording(fork_and_join)) == []


def test_nodes_side_by_side_have_slack_and_those_on_the_path_have_none():
    timeline = recording(fork_and_join)
    path = critical_path(timeline)
    assert sum(part.ns for part in path) == makespan_ns(timeline)
    found = zip(timeline.ops, slacks(timeline, path), strict=True)
    slack = {(op.name, op.launch, op.start_ns): slack for op, slack in found}
    assert [name for (name, *_), each in slack.items() if each] == ["short", "short"]
    # The edge to the last node shows only for the longer branch: a slack is an upper bound, and really it is 40 us.
    assert [each for each in slack.values() if each] == [50_000, 62_000]


async def decided():
    stream, x = await acl.CreateStream(), await acl.Malloc(64)
    graph, conditions = await acl.GraphCreate(), []

    @acl.kernel(cost=acl.Cost(us=30), serial=True)
    def route():
        conditions[0].set(True)

    await acl.BeginCaptureToGraph(stream, graph)
    await route[1, stream]()
    await acl.EndCapture(stream)
    node = await acl.GraphAddIfNode(graph, graph.nodes)
    conditions.append(node.condition)
    await acl.BeginCaptureToGraph(stream, node.body)
    await long[1, stream](x)
    await acl.EndCapture(stream)
    await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
    await acl.SynchronizeStream(stream)


def test_the_critical_path_goes_from_a_body_to_the_kernel_that_decided():
    path = critical_path(recording(decided))
    assert [(part.op, part.ns) for part in path if part.cause is Cause.WORK] == [(0, 30_000), (1, 50_000)]


async def pageable():
    stream, x, array = await acl.CreateStream(), await acl.Malloc(1 << 18), np.zeros(1 << 18, np.uint8)
    async with acl.capture(stream, acl.CaptureMode.RELAXED) as graph:
        await long[1, stream](x)
        await acl.MemcpyAsync(array, x.nbytes, x, x.nbytes, OUT, stream)
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphLaunch(executable, stream)
    await acl.HostWork(300)
    await acl.SynchronizeStream(stream)


def test_a_copy_that_the_host_makes_in_a_launch_is_a_finding_with_a_price():
    timeline = recording(pageable)
    [priced] = prices(asker_of(timeline, "run"), timeline)
    assert priced.finding.pitfall is Pitfall.PAGEABLE
    assert priced.finding.what == (
        "a copy of pageable memory in a graph kept the host in the launch until all of it was done"
    )
    [launch] = [call for call in timeline.calls if call.name == "GraphLaunch"]
    [copy] = [call for call in timeline.calls if call.name == "MemcpyAsync"]
    assert (priced.finding.held_ns, priced.finding.site) == (launch.waited_ns, site_of_call(copy))
    assert priced.answer.gain_ns > 250_000  # the host works meanwhile


@pytest.mark.parametrize("main", [fork_and_join, decided, pageable])
def test_a_program_with_graphs_repeats_its_run(main):
    timeline = recording(main)
    asker = asker_of(timeline, "run")
    assert asker.case.notes == ()
    assert asker.case.program.notes == ()
    assert {op.site for op in asker.timeline.ops} == {op.site for op in timeline.ops}


def test_what_ifs_change_the_nodes():
    asker = asker_of(recording(fork_and_join), "run")
    assert asker.ask(parse_all("kernel:long=0.5x")).gain_ns == 2 * 25_000
    assert asker_of(recording(pageable), "run").ask(parse_all("pinned")).gain_ns > 250_000


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ("streams=2", r"streams=2: step \d+ \(begin_capture\): the program uses graphs, and their nodes have"),
        ("chunks=2", r"chunks=2: step \d+ \(begin_capture\): the program captures graphs, whose nodes are not"),
    ],
)  # fmt: skip
def test_what_ifs_that_would_tear_a_graph_apart_are_refused(edit, why):
    with pytest.raises(EditError, match=why):
        asker_of(recording(fork_and_join), "run").ask(parse_all(edit))


async def racing():
    """Races between nodes, between a node and a kernel outside of the graph, and between nodes and the host."""
    one, two = await acl.CreateStream(), await acl.CreateStream()
    fork, join = await acl.CreateEvent(), await acl.CreateEvent()
    x, host = await acl.Malloc(64), await acl.MallocHost(64)
    async with acl.capture(one) as graph:
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        await short[1, two](x)
        await short[1, one](x)
        await acl.MemcpyAsync(host, 64, x, 64, OUT, one)
        await acl.LaunchHostFunc(one, lambda: host.numpy().sum())
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
    await acl.GraphLaunch(await acl.GraphInstantiate(graph), one)
    await long[1, two](x)
    host.numpy()[:] = 3
    await acl.SynchronizeDevice()


def test_races_of_nodes_are_found_again_and_mended():
    async def whole():
        await racing()
        sim = acl.current_simulation()
        return sim.trace.timeline(), sim

    timeline, sim = acl.run(whole, device="h200", sanitize="device,host")
    found = [*sim.findings]
    again = replay(parse(recorded.program(timeline)), device="h200", sanitize="device,host")
    assert [finding.id for finding in again.findings] == [finding.id for finding in found]
    assert len(found) == 7
    fixer = Fixer(case_of(timeline, "run"))
    assert all(finding.tried.is_gone for finding in try_fixes([fixer], found))
    assert fixer.mend(found).left == ()
