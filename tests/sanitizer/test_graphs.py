"""Races in graphs: nodes have the order of their edges, and a launch that of its stream.

Lines of findings count from the first line of the program.
"""

from random import Random

import pytest

import acl_py as acl
from acl_py.order.launches import Launches
from acl_py.parts import parts_of
from acl_py.sanitizer.watch import watching
from tests.acl_py.graphs.replaying import DEVICE, HOST, NBYTES, Wait, program, queue
from tests.campaigns import many
from tests.sanitizer.racing import CUDA, D2H, found, read, two_streams, write
from tests.sanitizer.test_mutants import switch_off


@pytest.mark.parametrize("rules", [*CUDA, "acl"])
def test_branches_of_a_graph_are_in_no_order(rules):
    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        fork, join = [await acl.CreateEvent() for _ in range(2)]
        async with acl.capture(one) as graph:
            await acl.RecordEvent(fork, one)
            await acl.StreamWaitEvent(two, fork)
            await write[1, one](acl.Array(buffer))
            await read[1, two](acl.Array(buffer))
            await acl.RecordEvent(join, two)
            await acl.StreamWaitEvent(one, join)
        executable = await acl.GraphInstantiate(graph)
        for _ in range(2):
            await acl.GraphLaunch(executable, one)
        await acl.SynchronizeStream(one)

    assert found(main, rules) == [("race", 7, 8, "0:64")]


async def captured(stream, kernel, buffer):
    async with acl.capture(stream) as graph:
        await kernel[1, stream](acl.Array(buffer))
    return await acl.GraphInstantiate(graph)


def test_a_launch_is_in_the_order_of_its_stream_only():
    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        executable = await captured(one, write, buffer)
        await read[1, one](acl.Array(buffer))
        await acl.GraphLaunch(executable, one)
        await read[1, one](acl.Array(buffer))
        await read[1, two](acl.Array(buffer))

    first = captured.__code__.co_firstlineno - main.__code__.co_firstlineno
    assert found(main) == [("race", first + 2, 7, "0:64")]


def test_an_event_behind_a_launch_stands_for_all_of_it():
    async def main():
        buffer, event = await acl.Malloc(64), await acl.CreateEvent()
        one, two = await two_streams()
        executable = await captured(one, write, buffer)
        await acl.GraphLaunch(executable, one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await read[1, two](acl.Array(buffer))

    assert found(main) == []


def test_launches_of_one_executable_are_in_order_in_whatever_streams():
    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        executable = await captured(one, write, buffer)
        await acl.GraphLaunch(executable, one)
        await acl.GraphLaunch(executable, two)

    assert found(main) == []


def test_all_nodes_of_a_launch_are_behind_the_launch_before_it_in_whatever_streams():
    """Both branches read what the first node writes, one of them at the end of a chain of its own."""

    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        fork, join = [await acl.CreateEvent() for _ in range(2)]
        async with acl.capture(one) as graph:
            await write[1, one](acl.Array(buffer))
            await acl.RecordEvent(fork, one)
            await acl.StreamWaitEvent(two, fork)
            await read[1, one](acl.Array(buffer))
            await read[1, two](acl.Array(buffer))
            await acl.RecordEvent(join, two)
            await acl.StreamWaitEvent(one, join)
        executable = await acl.GraphInstantiate(graph)
        await acl.GraphLaunch(executable, one)
        await acl.GraphLaunch(executable, two)

    assert found(main) == []


def test_launches_of_two_executables_in_two_streams_are_in_no_order():
    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        await acl.GraphLaunch(await captured(one, write, buffer), one)
        await acl.GraphLaunch(await captured(two, read, buffer), two)

    line = captured.__code__.co_firstlineno + 2 - main.__code__.co_firstlineno
    assert found(main) == [("race", line, line, "0:64")]


def test_a_launch_on_the_legacy_stream_is_a_barrier():
    async def main():
        buffer = await acl.Malloc(64)
        one, two = await two_streams()
        executable = await captured(one, write, buffer)
        await read[1, one](acl.Array(buffer))
        await acl.GraphLaunch(executable)
        await read[1, two](acl.Array(buffer))

    assert found(main) == []


def test_the_host_has_to_wait_for_a_launch():
    async def main(sync):
        device, host = await acl.Malloc(64), await acl.MallocHost(64)
        [one, _] = await two_streams()
        async with acl.capture(one) as graph:
            await acl.MemcpyAsync(host, 64, device, 64, D2H, one)
        launch = await acl.GraphLaunch(await acl.GraphInstantiate(graph), one)
        if sync:
            await launch
        assert host.numpy()[0] >= 0

    async def waits():
        await main(sync=True)

    async def does_not_wait():
        await main(sync=False)

    assert found(waits, sanitize="host") == []
    [(kind, *_)] = found(does_not_wait, sanitize="host")
    assert kind == "race"


def test_the_body_of_an_if_node_is_behind_what_is_before_the_node_and_nothing_else():
    async def main():
        first, second = [await acl.Malloc(64) for _ in range(2)]
        [one, _] = await two_streams()
        async with acl.capture(one) as graph:
            await write[1, one](acl.Array(first))
        await acl.GraphAddIfNode(graph, default=False)
        for _ in range(2):
            node = await acl.GraphAddIfNode(graph, graph.nodes[:1], default=True)
            await acl.BeginCaptureToGraph(one, node.body)
            await read[1, one](acl.Array(first))
            await write[1, one](acl.Array(second))
            await acl.EndCapture(one)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), one)
        await read[1, one](acl.Array(second))
        await acl.SynchronizeStream(one)

    assert found(main) == [("race", 10, 10, "0:64")]


@pytest.mark.parametrize("external", [True, False])
def test_an_external_record_orders_work_outside_the_graph(external):
    async def main():
        buffer, event = await acl.Malloc(64), await acl.CreateEvent()
        one, two = await two_streams()
        async with acl.capture(one) as graph:
            await write[1, one](acl.Array(buffer))
            if external:
                await acl.RecordEvent(event, one, external=True)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), one)
        await acl.StreamWaitEvent(two, event)
        await read[1, two](acl.Array(buffer))

    assert found(main) == ([] if external else [("race", 4, 9, "0:64")])


def test_an_external_wait_orders_nodes_behind_work_outside_the_graph():
    async def main():
        buffer, event = await acl.Malloc(64), await acl.CreateEvent()
        one, two = await two_streams()
        async with acl.capture(one) as graph:
            await acl.StreamWaitEvent(one, event, external=True)
            await read[1, one](acl.Array(buffer))
        await write[1, two](acl.Array(buffer))
        await acl.RecordEvent(event, two)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), one)

    assert found(main) == []


def test_memory_of_a_graph_begins_and_ends_with_its_nodes():
    async def main(joined):
        one, two = await two_streams()
        fork, join = [await acl.CreateEvent() for _ in range(2)]
        async with acl.capture(one) as graph:
            await acl.RecordEvent(fork, one)
            await acl.StreamWaitEvent(two, fork)
            buffer = await acl.MallocAsync(64, one)
            await write[1, two if not joined else one](acl.Array(buffer))
            await acl.RecordEvent(join, two)
            await acl.StreamWaitEvent(one, join)
            await acl.FreeAsync(buffer, one)
        executable = await acl.GraphInstantiate(graph)
        for _ in range(2):
            await acl.GraphLaunch(executable, one)

    async def in_order():
        await main(joined=True)

    async def too_early():
        await main(joined=False)

    assert found(in_order) == []
    assert [kind for kind, *_ in found(too_early)] == ["before allocation"]


async def graph_of(stream, *kernels, frees):
    async with acl.capture(stream) as graph:
        buffer = await acl.MallocAsync(64, stream)
        for kernel in kernels:
            await kernel[1, stream](acl.Array(buffer))
        if frees:
            await acl.FreeAsync(buffer, stream)
    return buffer, await acl.GraphInstantiate(graph)


@pytest.mark.parametrize("launches", [0, 1])
def test_memory_of_a_graph_is_not_there_before_a_launch(launches):
    async def main():
        [one, _] = await two_streams()
        buffer, executable = await graph_of(one, write, frees=False)
        await read[1, one](acl.Array(buffer))
        for _ in range(launches):
            await acl.GraphLaunch(executable, one)

    with watching(parts_of("device,uninitialised")) as watch:
        acl.run(main, device="tiny")
    [finding] = watch.findings
    assert finding.kind == "before allocation"
    assert finding.fix == f"launch the graph before {finding.accesses[1].site}"


def test_memory_of_a_graph_is_gone_behind_its_own_free():
    async def main():
        [one, _] = await two_streams()
        buffer, executable = await graph_of(one, write, frees=True)
        await acl.GraphLaunch(executable, one)
        await read[1, one](acl.Array(buffer))

    line = graph_of.__code__.co_firstlineno + 6 - main.__code__.co_firstlineno
    assert found(main, sanitize="device,uninitialised") == [("use after free", line, 4, "0:64")]


@pytest.mark.parametrize("frees", [True, False])
def test_memory_of_a_graph_is_unwritten_in_each_launch(frees):
    async def main():
        [one, _] = await two_streams()
        _, executable = await graph_of(one, read, write, frees=frees)
        for _ in range(2):
            await acl.GraphLaunch(executable, one)
        await acl.SynchronizeStream(one)
        assert [finding.count for finding in acl.current_simulation().findings] == [2]

    first = graph_of.__code__.co_firstlineno - main.__code__.co_firstlineno
    assert found(main, sanitize="device,uninitialised") == [("uninitialised", first + 2, first + 4, "0:64")]


@pytest.mark.parametrize("frees", [True, False])
def test_a_launch_that_writes_memory_of_its_graph_first_is_right(frees):
    async def main():
        [one, _] = await two_streams()
        buffer, executable = await graph_of(one, write, read, frees=frees)
        for _ in range(3):
            await acl.GraphLaunch(executable, one)
            if not frees:
                await read[1, one](acl.Array(buffer))

    assert found(main, sanitize="device,uninitialised") == []


@acl.kernel(cost=acl.Cost(us=1))
def route(x: acl.In, conditions):
    for condition in conditions:
        condition.set(x[0])


@pytest.mark.parametrize("effects", ["strong", "weak", "torn"])
def test_a_condition_is_what_the_kernel_before_it_has_set(effects):
    async def main():
        flag, result = [await acl.MallocHost(64) for _ in range(2)]
        result.numpy()[:] = 0
        [one, _] = await two_streams()
        conditions = []
        async with acl.capture(one) as graph:
            await route[1, one](acl.Array(flag), conditions)
        node = await acl.GraphAddIfNode(graph, graph.nodes)
        conditions.append(node.condition)
        await acl.BeginCaptureToGraph(one, node.body)
        await write[1, one](acl.Array(result))
        await acl.EndCapture(one)
        executable = await acl.GraphInstantiate(graph)
        for wanted in (0, 1):
            flag.numpy()[:] = wanted
            await acl.GraphLaunch(executable, one)
            await acl.SynchronizeStream(one)
            assert result.numpy()[0] == wanted

    assert found(main, effects=effects) == []


# --- rules of launches

# What each rule of `Launches` is, what stands there without it, and who notices.
RULES = {
    "a node is behind those before it": (
        "line.join([points[each] for each in entry.before] or first)",
        "line.join(first)",
        lambda: test_random_programs_race_as_graphs_where_they_do_in_streams(),
    ),
    "the first nodes are behind what the stream was given": (
        "[begin, *self._last.get(executable, ())]",
        "[*self._last.get(executable, ())]",
        lambda: test_a_launch_is_in_the_order_of_its_stream_only(),
    ),
    "a launch is behind the one before it": (
        "[begin, *self._last.get(executable, ())]",
        "[begin]",
        lambda: test_all_nodes_of_a_launch_are_behind_the_launch_before_it_in_whatever_streams(),
    ),
    "what a stream is given behind a launch is behind its last nodes": (
        "self._order.wait(stream, host, related.ends)",
        "pass",
        lambda: test_an_event_behind_a_launch_stands_for_all_of_it(),
    ),
    "a host that waits for a launch knows its work": (
        "launch.stamp = self._order.record(stream, host)",
        "pass",
        lambda: test_the_host_has_to_wait_for_a_launch(),
    ),
    "a node is behind an external record": (
        "line.follow(node.subject.stamp)",
        "pass",
        lambda: test_an_external_wait_orders_nodes_behind_work_outside_the_graph(),
    ),
    "an external record stands for what is before its node": (
        "node.subject.stamp = points[-1]",
        "pass",
        lambda: test_an_external_record_orders_work_outside_the_graph(external=True),
    ),
    "what is behind an IF node is behind its body": (
        "line.join([end for body in related.bodies[place] for end in body.ends])",
        "pass",
        lambda: test_the_body_of_an_if_node_is_behind_what_is_before_the_node_and_nothing_else(),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_launches_that_is_switched_off_is_noticed(name, monkeypatch):
    rule, instead, witness = RULES[name]
    switch_off(Launches, rule, instead, monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        witness()


# --- random programs


async def as_graph(steps, streams, buffers):
    async with acl.capture(streams[0]) as graph:
        await queue(steps, streams, buffers)
    executable = await acl.GraphInstantiate(graph)
    for _ in range(2):
        await acl.GraphLaunch(executable, streams[0])


async def in_streams(steps, streams, buffers):
    for _ in range(2):
        await queue(steps, streams, buffers)


def races(steps, way, rules):
    """The pairs of lines that race when *steps* run in that *way*."""

    async def main():
        buffers = [await acl.Malloc(NBYTES) for _ in range(DEVICE)]
        buffers += [await acl.MallocHost(NBYTES) for _ in range(HOST)]
        for buffer in buffers[:DEVICE]:
            await acl.Memset(buffer, NBYTES, 0, NBYTES)
        for buffer in buffers[DEVICE:]:
            buffer.numpy()[:] = 0
        streams = [await acl.CreateStream(name=f"lane {lane}") for lane in range(4)]
        await way(steps, streams, buffers)
        await acl.SynchronizeStream(streams[0])
        return {
            (finding.kind, frozenset(access.site for access in finding.accesses))
            for finding in acl.current_simulation().findings
        }

    return acl.run(main, device="tiny", rules=rules, sanitize="host", trace=False)


def without_a_wait(steps, rng):
    """*steps* without one of the waits that draw no stream in and join none.

    Host functions are left out, too: which of several accesses from one line is found with them is up to the times.
    """
    steps = [step for step in steps if isinstance(step, Wait) or step.kind != "host function"]
    last = max((place for place, step in enumerate(steps) if not isinstance(step, Wait)), default=0)
    drawn_in, loose = {0}, []
    for place, step in enumerate(steps[:last]):
        if isinstance(step, Wait) and step.lane in drawn_in:
            loose.append(place)
        drawn_in.add(step.lane)
    left_out = rng.choice(loose) if loose else None
    return [step for place, step in enumerate(steps) if place != left_out]


def compare(seeds):
    """How many of the programs race."""
    count = 0
    for seed in seeds:
        steps, rules = program(seed), ("cuda", "acl")[seed % 2]
        assert races(steps, as_graph, rules) == set(), f"program {seed}"
        loose = without_a_wait(steps, Random(seed))
        expected = races(loose, in_streams, rules)
        assert races(loose, as_graph, rules) == expected, f"program {seed} without a wait"
        count += bool(expected)
    return count


def test_random_programs_race_as_graphs_where_they_do_in_streams():
    assert compare(range(30)) > 3


@pytest.mark.slow
def test_many_random_programs_race_as_graphs_where_they_do_in_streams():
    """2,000 did."""
    assert compare(range(30, 30 + many(600))) > many(90)
