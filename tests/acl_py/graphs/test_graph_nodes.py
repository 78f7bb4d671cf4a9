"""Graphs by structure: nodes are added, changed, linked and taken out, and conditions say what runs.

On the tiny device a call takes 1000 ns, one byte takes one nanosecond, and nothing has a latency.
"""

import pytest
from histories import busy, history, refused, tiny

import acl_py as acl
from acl_py import Kind, NodeKind

A, B, C = (busy(name, 10) for name in "ABC")


def launching(kernel, *args):
    return lambda stream: kernel[1, stream](*args)


async def launched(executable, stream):
    begin = acl.current_simulation().now_ns
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    return [name for name, *_ in history(acl.current_simulation(), begin)]


@tiny
async def test_a_node_is_what_one_call_in_a_capture_makes():
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    first = await acl.GraphAddNode(graph, launching(A))
    await acl.GraphAddNode(graph, launching(B), [first])
    assert [(node.name, [each.name for each in node.dependencies]) for node in graph.nodes] == [("A", []), ("B", ["A"])]
    assert await launched(await acl.GraphInstantiate(graph), stream) == ["A", "B"]

    async def nothing(_):
        pass

    async def two(to):
        await A[1, to]()
        await A[1, to]()

    for queue, count in ((nothing, 0), (two, 2)):
        with pytest.raises(acl.AclError, match=f"a node with {count} pieces of work"):
            await acl.GraphAddNode(graph, queue)
    assert len(graph.nodes) == 2
    assert not acl.current_simulation().runtime.captures.running


@tiny
async def test_an_executable_keeps_the_nodes_that_it_was_made_from():
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    node = await acl.GraphAddNode(graph, launching(A))
    old = await acl.GraphInstantiate(graph)
    node = await acl.GraphNodeSetWork(node, launching(B))
    new = await acl.GraphInstantiate(graph)
    assert [await launched(each, stream) for each in (old, new)] == [["A"], ["B"]]
    await acl.GraphExecNodeSetWork(old, node, launching(C))  # the node stands for the one before it
    await acl.GraphNodeSetEnabled(new, node, 0)
    assert [await launched(each, stream) for each in (old, new)] == [["C"], []]
    await acl.GraphNodeSetEnabled(new, node, 1)
    await acl.GraphDestroyNode(node)
    assert [await launched(each, stream) for each in (old, new)] == [["C"], ["B"]]
    with refused(Kind.INVALID_VALUE, "is gone", takes_ns=1000):
        await acl.GraphNodeSetWork(node, launching(A))


@tiny
async def test_edges_order_nodes_and_never_close_a_loop():
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    first, second = [await acl.GraphAddNode(graph, launching(kernel)) for kernel in (A, B)]
    await acl.GraphAddDependencies(graph, [(second, first)])
    assert [node.name for node in graph.nodes] == ["B", "A"]
    assert await launched(await acl.GraphInstantiate(graph), stream) == ["B", "A"]
    for edges in ([(first, second)], [(second, first)], [(first, first)]):
        with refused(Kind.INVALID_VALUE, "there already or would close a loop", takes_ns=1000):
            await acl.GraphAddDependencies(graph, edges)
    with refused(Kind.INVALID_VALUE, "no edge", takes_ns=1000):
        await acl.GraphRemoveDependencies(graph, [(first, second)])
    await acl.GraphRemoveDependencies(graph, [(second, first)])
    assert graph.edges == []


async def loop(times):
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    condition = acl.Condition(1)
    left = iter([*[1] * (times - 1), 0] * 2)

    @acl.kernel(cost=acl.Cost(us=10))
    def turn():
        condition.set(next(left))

    before = await acl.GraphAddNode(graph, launching(A))
    node = await acl.GraphAddConditionalNode(graph, condition, NodeKind.WHILE, 1, [before])
    await acl.GraphAddNode(node.body, launching(turn))
    await acl.GraphAddNode(graph, launching(C), [node])
    executable = await acl.GraphInstantiate(graph)
    return [await launched(executable, stream) for _ in range(2)]


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_loop_runs_its_body_until_the_condition_is_zero(sanitize):
    def run(times):
        return acl.run(loop, times, device="tiny", rules="cuda", workers=1, sanitize=sanitize)

    assert run(3) == [["A", "turn", "turn", "turn", "C"]] * 2


@tiny
async def test_a_switch_runs_the_body_with_the_number_of_the_condition():
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    condition, values = acl.Condition(None), iter([0, 2, 1, 3])

    @acl.kernel(cost=acl.Cost(us=10))
    def choose():
        condition.set(next(values))

    before = await acl.GraphAddNode(graph, launching(choose))
    node = await acl.GraphAddConditionalNode(graph, condition, NodeKind.SWITCH, 3, [before])
    for body, kernel in zip(node.bodies, (A, B, C), strict=True):
        await acl.GraphAddNode(body, launching(kernel))
    executable = await acl.GraphInstantiate(graph)
    assert [(await launched(executable, stream))[1:] for _ in range(4)] == [["A"], ["C"], ["B"], []]
    with refused(Kind.INVALID_VALUE, "a second node", takes_ns=1000):
        await acl.GraphAddConditionalNode(graph, condition, NodeKind.IF)
    with refused(Kind.INVALID_VALUE, "2 bodies of a while node", takes_ns=1000):
        await acl.GraphAddConditionalNode(graph, acl.Condition(0), NodeKind.WHILE, 2)


@tiny
async def test_nothing_is_taken_out_of_a_graph_that_allocates_memory():
    graph = await acl.GraphCreate()
    first = await acl.GraphAddNode(graph, lambda stream: acl.MallocAsync(8, stream))
    second = await acl.GraphAddNode(graph, launching(A), [first])
    for call in (acl.GraphDestroyNode(second), acl.GraphRemoveDependencies(graph, [(first, second)])):
        with refused(Kind.NOT_SUPPORTED, "which allocates memory", takes_ns=1000):
            await call
    assert graph.edges == [(first, second)]


@tiny
async def test_memory_that_a_graph_leaves_stays_when_its_executable_is_destroyed():
    stream, graph = await acl.CreateStream(), await acl.GraphCreate()
    node = await acl.GraphAddNode(graph, lambda stream: acl.MallocAsync(8, stream))
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphLaunch(executable, stream)
    await acl.GraphExecDestroy(executable)
    address = node.subject.address
    await acl.MemsetAsync(address, 8, 1, 8, stream)
    await acl.FreeAsync(address, stream)
    await acl.SynchronizeStream(stream)
    assert not acl.current_simulation().runtime.memory.leaks()
