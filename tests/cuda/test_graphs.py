"""Graphs through the driver: made node by node, looked at, changed, launched."""

import ctypes
import struct

import pytest

from acl_py.compat.acl.face.session import current_session
from tests.cuda.calling import OUT, PTX, pointers
from tests.cuda.test_driver import device_history

KERNELS = (
    PTX
    + """
.extern .func cudaGraphSetConditional (.param .b64 a, .param .b32 b);
.visible .entry set(.param .u64 condition, .param .u32 value)
{
    .reg .u64 %c; .reg .u32 %v;
    ld.param.u64 %c, [condition]; ld.param.u32 %v, [value];
    .param .b64 a; .param .b32 b; st.param.b64 [a], %c; st.param.b32 [b], %v;
    call.uni cudaGraphSetConditional, (a, b); ret;
}
.visible .entry countdown(.param .u64 condition, .param .u64 x)
{
    .reg .u64 %c, %x; .reg .u32 %v;
    ld.param.u64 %c, [condition]; ld.param.u64 %x, [x];
    ld.global.u32 %v, [%x]; sub.u32 %v, %v, 1; st.global.u32 [%x], %v;
    .param .b64 a; .param .b32 b; st.param.b64 [a], %c; st.param.b32 [b], %v;
    call.uni cudaGraphSetConditional, (a, b); ret;
}
"""
)
KERNEL, COPY, FILL, HOST, CHILD, EMPTY, WAIT, RECORD, ALLOCATE, FREE, CONDITIONAL = 0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 13
IF, WHILE, SWITCH = range(3)
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Maker:
    """Makes graphs; what the driver reads lives as long as this."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.kept = []
        _, self.stream = cuda.get("cuStreamCreate", OUT, 1)

    def graph(self):
        code, graph = self.cuda.get("cuGraphCreate", OUT, 0)
        assert code == 0
        return graph

    def handles(self, *values):
        return (ctypes.c_uint64 * len(values))(*values)

    def buffer(self, form, *values, nbytes=0):
        data = struct.pack(form, *values)
        self.kept.append(ctypes.create_string_buffer(data, max(len(data), nbytes)))
        return self.kept[-1]

    def kernel(self, function, *arguments, blocks=1):
        self.kept.append(pointers(*arguments))
        array = ctypes.addressof(self.kept[-1])
        return self.buffer("<Q7I4xQQQQ", function, blocks, 1, 1, 1, 1, 1, 0, array, 0, 0, 0)

    def fill(self, memory, value, count, unit=1):
        return self.buffer("<QQIIQQ", memory, 0, value, unit, count, 1)

    def copy(self, dst, src, nbytes):
        ends = [(0, 0, 0, 0, 2, 0, each, 0, 0, 0, 0) for each in (src, dst)]
        return self.buffer("<QQQQI4xQQQQQQQQQQI4xQQQQQQQQQ", *ends[0], *ends[1], nbytes, 1, 1)

    def add(self, name, graph, *more, behind=()):
        array = self.handles(*behind) if behind else None
        code, node = self.cuda.get(f"cuGraphAdd{name}", OUT, graph, array, len(behind), *more)
        assert code == 0, (name, code)
        return node

    def add_fill(self, graph, memory, value, count, behind=()):
        return self.add("MemsetNode", graph, self.fill(memory, value, count), 0, behind=behind)

    def add_kernel(self, graph, function, *arguments, behind=()):
        return self.add("KernelNode_v2", graph, self.kernel(function, *arguments), behind=behind)

    def conditional(self, graph, condition, kind, count, behind=()):
        """A conditional node, and its bodies."""
        params = self.buffer("<I12xQIIQQ", CONDITIONAL, condition, kind, count, 0, 0, nbytes=256)
        node = self.add("Node", graph, params, behind=behind)
        (array,) = struct.unpack("<Q", params[32:40])
        return node, struct.unpack(f"<{count}Q", ctypes.string_at(array, 8 * count))

    def condition(self, graph, default=None):
        code, number = self.cuda.get("cuGraphConditionalHandleCreate", OUT, graph, 0, default or 0, default is not None)
        assert code == 0
        return number

    def instantiate(self, graph, flags=0):
        code, executable = self.cuda.get("cuGraphInstantiateWithFlags", OUT, graph, flags)
        assert code == 0
        return executable

    def run(self, executable, times=1):
        codes = [self.cuda("cuGraphLaunch", executable, self.stream) for _ in range(times)]
        assert [*codes, self.cuda("cuStreamSynchronize", self.stream)] == [0] * (times + 1)

    def listed(self, name, thing, columns=1):
        """What a function lists of a graph or a node."""
        count = ctypes.c_uint64()
        assert self.cuda(name, thing, *[None] * columns, ctypes.byref(count)) == 0
        arrays = [(ctypes.c_uint64 * (count.value + 1))() for _ in range(columns)]
        count.value += 1
        assert self.cuda(name, thing, *arrays, ctypes.byref(count)) == 0
        rows = list(zip(*arrays, strict=True))
        assert rows[count.value :] == [(0,) * columns]
        return {row[0] if columns == 1 else row for row in rows[: count.value]}

    def kind(self, node):
        code, kind = self.cuda.get("cuGraphNodeGetType", node, OUT)
        assert code == 0
        return kind

    def bytes(self, memory, count):
        result = ctypes.create_string_buffer(count)
        assert self.cuda("cuMemcpyDtoH_v2", result, memory, count) == 0
        return list(result.raw)


@pytest.fixture
def make(cuda):
    return Maker(cuda)


@pytest.fixture
def make_ptx(h200):
    return Maker(h200)


def test_a_graph_is_made_node_by_node_and_looked_at(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(32)
    called = []
    function = HostFunction(called.append)
    first = make.add_fill(graph, memory, 7, 16)
    second = make.add("MemcpyNode", graph, make.copy(memory + 16, memory, 16), 0, behind=[first])
    pair = make.buffer("<QQ", ctypes.cast(function, ctypes.c_void_p).value, 42)
    third = make.add("HostNode", graph, pair, behind=[second])
    last = make.add("EmptyNode", graph, behind=[first, third])
    nodes = [first, second, third, last]
    assert [make.kind(node) for node in nodes] == [FILL, COPY, HOST, EMPTY]
    edges = {(first, second), (second, third), (first, last), (third, last)}
    assert make.listed("cuGraphGetNodes", graph) == set(nodes)
    assert make.listed("cuGraphGetRootNodes", graph) == {first}
    assert make.listed("cuGraphGetEdges", graph, 2) == edges
    assert make.listed("cuGraphNodeGetDependencies", last) == {first, third}
    assert make.listed("cuGraphNodeGetDependentNodes", first) == {second, last}
    got = [ctypes.create_string_buffer(size) for size in (40, 200, 16)]
    names = "Memset", "Memcpy", "Host"
    for name, node, place in zip(names, nodes, got, strict=False):
        assert cuda(f"cuGraph{name}NodeGetParams", node, place) == 0
    assert [each.raw for each in got] == [each.raw[: len(got[n].raw)] for n, each in enumerate(make_given(make))]
    make.run(make.instantiate(graph), times=2)
    assert (make.bytes(memory, 32), called) == ([7] * 32, [42, 42])
    assert [name for name, *_ in device_history()][:3] == ["fill", "d2d", "host function"]


def make_given(make):
    """The structures of a fill, a copy and a function that a maker has packed last."""
    return make.kept[-3:]


def test_edges_come_and_go_and_no_node_waits_for_itself(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    one, two, three = (make.add_fill(graph, memory, value, 8) for value in (1, 2, 3))

    def edge(name, before, behind):
        return cuda(f"cuGraph{name}Dependencies", graph, make.handles(before), make.handles(behind), 1)

    codes = [edge("Add", three, two), edge("Add", two, one), edge("Add", two, one), edge("Add", one, three)]
    assert codes == [0, 0, 1, 1]  # the third is there already, the fourth would close a loop
    assert (edge("Add", one, one), edge("Remove", one, two)) == (1, 1)
    assert make.listed("cuGraphGetEdges", graph, 2) == {(three, two), (two, one)}
    make.run(make.instantiate(graph))
    assert make.bytes(memory, 8) == [1] * 8
    assert (edge("Remove", two, one), edge("Add", one, three)) == (0, 0)
    make.run(make.instantiate(graph))
    assert make.bytes(memory, 8) == [2] * 8
    assert (cuda("cuGraphDestroyNode", two), cuda("cuGraphDestroyNode", two)) == (0, 1)
    assert make.listed("cuGraphGetEdges", graph, 2) == {(one, three)}
    make.run(make.instantiate(graph))
    assert make.bytes(memory, 8) == [3] * 8
    data = make.buffer("<8B", 1, 0, 0, 0, 0, 0, 0, 0)
    pair = make.handles(three), make.handles(one)
    assert cuda("cuGraphAddDependencies_v2", graph, *pair, data, 1) == 801  # kernels that overlap


def test_a_change_of_a_node_counts_for_later_executables(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    node = make.add_fill(graph, memory, 1, 8)
    behind = make.add("EmptyNode", graph, behind=[node])
    old = make.instantiate(graph)
    assert cuda("cuGraphMemsetNodeSetParams", node, make.fill(memory, 2, 8)) == 0
    assert make.listed("cuGraphGetEdges", graph, 2) == {(node, behind)}
    new = make.instantiate(graph)
    seen = []
    for executable in (old, new):
        make.run(executable)
        seen.append(make.bytes(memory, 1))
    assert cuda("cuGraphExecMemsetNodeSetParams", old, node, make.fill(memory, 5, 8), 0) == 0
    assert cuda("cuGraphExecMemcpyNodeSetParams", old, node, make.copy(memory, memory, 4), 0) == 1
    for executable in (old, new):
        make.run(executable)
        seen.append(make.bytes(memory, 1))
    assert seen == [[1], [2], [5], [2]]


def test_a_node_that_is_switched_off_does_nothing(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    first = make.add_fill(graph, memory, 1, 8)
    second = make.add_fill(graph, memory, 2, 8, behind=[first])
    empty = make.add("EmptyNode", graph)
    executable = make.instantiate(graph)
    seen = []
    for on in (0, 1):
        assert cuda("cuGraphNodeSetEnabled", executable, second, on) == 0
        assert cuda.get("cuGraphNodeGetEnabled", executable, second, OUT) == (0, on)
        make.run(executable)
        seen.append(make.bytes(memory, 1))
    assert (seen, cuda("cuGraphNodeSetEnabled", executable, empty, 0)) == ([[1], [2]], 1)


def test_an_update_takes_a_graph_of_the_same_structure(make):
    cuda, memory = make.cuda, make.cuda.allocate(8)
    graphs = [make.graph() for _ in range(4)]
    for value, graph in enumerate(graphs[:2]):
        make.add_fill(graph, memory, value + 1, 8)
    make.add("EmptyNode", graphs[2])
    executable = make.instantiate(graphs[0])
    info = ctypes.create_string_buffer(24)
    outcomes = []
    for graph in graphs[1:]:
        code = cuda("cuGraphExecUpdate_v2", executable, graph, info)
        outcomes.append((code, struct.unpack("<I", info[:4])[0]))
    assert outcomes == [(0, 0), (910, 3), (910, 2)]  # another kind of node, another number of nodes
    make.run(executable)
    assert make.bytes(memory, 1) == [2]


def test_kernels_are_nodes_and_their_arguments_are_read_when_they_are_added(make_ptx):
    make, cuda = make_ptx, make_ptx.cuda
    graph, memory = make.graph(), cuda.allocate(8)
    function = cuda.function(KERNELS)
    value = ctypes.c_uint32(5)
    clear = make.add_fill(graph, memory, 0, 8)
    node = make.add_kernel(graph, function, ctypes.c_uint64(memory), value, ctypes.c_uint32(1), behind=[clear])
    value.value = 99
    executable = make.instantiate(graph)
    got = ctypes.create_string_buffer(72)
    assert cuda("cuGraphKernelNodeGetParams_v2", node, got) == 0
    fields = struct.unpack("<Q7I4xQQQQ", got.raw)
    assert fields[:8] == (function, 1, 1, 1, 1, 1, 1, 0)
    second = struct.unpack("<3Q", ctypes.string_at(fields[8], 24))[1]
    assert ctypes.c_uint32.from_address(second).value == 5
    make.run(executable)
    assert make.bytes(memory, 4) == [5, 0, 0, 0]
    given = make.kernel(function, ctypes.c_uint64(memory), ctypes.c_uint32(8), ctypes.c_uint32(1))
    assert cuda("cuGraphExecKernelNodeSetParams_v2", executable, node, given) == 0
    make.run(executable)
    assert make.bytes(memory, 4) == [8, 0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "count", "value", "ran"),
    [
        (IF, 1, 0, []), (IF, 1, 3, [0]), (IF, 2, 0, [1]), (IF, 2, 1, [0]),
        (SWITCH, 3, 0, [0]), (SWITCH, 3, 2, [2]), (SWITCH, 3, 3, []),
    ],
)  # fmt: skip
def test_a_kernel_says_which_body_of_a_node_runs(make_ptx, kind, count, value, ran):
    make, cuda = make_ptx, make_ptx.cuda
    graph, memory = make.graph(), cuda.allocate(8)
    setter = cuda.function(KERNELS, b"set")
    assert cuda("cuMemsetD8_v2", memory, 0, 8) == 0
    condition = make.condition(graph)
    before = make.add_kernel(graph, setter, ctypes.c_uint64(condition), ctypes.c_uint32(value))
    node, bodies = make.conditional(graph, condition, kind, count, behind=[before])
    for number, body in enumerate(bodies):
        make.add_fill(body, memory + number, 1, 1)
    make.add_fill(graph, memory + 7, 9, 1, behind=[node])
    make.run(make.instantiate(graph), times=2)
    assert make.kind(node) == CONDITIONAL
    assert make.bytes(memory, 8) == [int(number in ran) for number in range(7)] + [9]


def test_the_body_of_a_loop_runs_until_a_kernel_ends_it(make_ptx):
    make, cuda = make_ptx, make_ptx.cuda
    graph, memory = make.graph(), cuda.allocate(4)
    condition = make.condition(graph, default=1)
    start = make.add_fill(graph, memory, 5, 1)
    node, [body] = make.conditional(graph, condition, WHILE, 1, behind=[start])
    count = cuda.function(KERNELS, b"countdown")
    make.add_kernel(body, count, ctypes.c_uint64(condition), ctypes.c_uint64(memory))
    end = make.add("EmptyNode", graph, behind=[node])
    assert cuda("cuMemsetD8_v2", memory, 0, 4) == 0
    make.run(make.instantiate(graph), times=2)
    assert make.bytes(memory, 4) == [0] * 4
    names = [name for name, *_ in device_history() if name in ("fill", "countdown")]
    assert names == ["fill"] + (["fill"] + ["countdown"] * 5) * 2
    assert make.listed("cuGraphNodeGetDependencies", end) == {node}


def test_a_condition_is_asked_by_one_node_of_its_graph(make):
    cuda, graph = make.cuda, make.graph()
    condition = make.condition(graph)
    _, [body] = make.conditional(graph, condition, IF, 1)
    make.conditional(body, make.condition(graph), IF, 1)  # one inside of it may ask, too
    cases = [(graph, condition, IF, 1), (make.graph(), make.condition(graph), IF, 1), (graph, 12345, IF, 1)]
    cases += [(graph, make.condition(graph), kind, count) for kind, count in ((IF, 3), (WHILE, 2), (SWITCH, 0), (3, 1))]
    codes = []
    for to, number, kind, count in cases:
        params = make.buffer("<I12xQIIQQ", CONDITIONAL, number, kind, count, 0, 0, nbytes=256)
        codes.append(cuda.get("cuGraphAddNode", OUT, to, None, 0, params)[0])
    assert codes == [1] * len(cases)


def test_a_kernel_that_sets_no_condition_fails(make_ptx):
    make, cuda = make_ptx, make_ptx.cuda
    setter = cuda.function(KERNELS, b"set")
    arguments = pointers(ctypes.c_uint64(77), ctypes.c_uint32(1))
    assert cuda("cuLaunchKernel", setter, 1, 1, 1, 1, 1, 1, 0, make.stream, arguments, None) == 0
    assert cuda("cuStreamSynchronize", make.stream) == 700


def test_clones_and_children_are_copies(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    node = make.add_fill(graph, memory, 1, 8)
    code, clone = cuda.get("cuGraphClone", OUT, graph)
    found = cuda.get("cuGraphNodeFindInClone", OUT, node, clone)
    assert (code, found) == (0, (0, *make.listed("cuGraphGetNodes", clone)))
    assert cuda.get("cuGraphNodeFindInClone", OUT, found[1], clone)[0] == 1
    parent = make.graph()
    child = make.add("ChildGraphNode", parent, clone)
    code, inside = cuda.get("cuGraphChildGraphNodeGetGraph", child, OUT)
    assert (make.kind(child), code, inside != clone) == (CHILD, 0, True)
    assert cuda("cuGraphMemsetNodeSetParams", found[1], make.fill(memory, 2, 8)) == 0
    seen = []
    for each in (graph, clone, parent):
        make.run(make.instantiate(each))
        seen.append(make.bytes(memory, 1))
    assert seen == [[1], [2], [1]]
    assert (cuda("cuGraphDestroy", clone), cuda("cuGraphDestroy", clone), make.kind(child)) == (0, 1, CHILD)


def test_records_and_waits_of_events_are_nodes(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    first, second = (cuda.get("cuEventCreate", OUT, 0)[1] for _ in range(2))
    record = make.add("EventRecordNode", graph, first)
    wait = make.add("EventWaitNode", graph, second, behind=[make.add_fill(graph, memory, 1, 8, behind=[record])])
    assert cuda.get("cuGraphEventRecordNodeGetEvent", record, OUT) == (0, first)
    assert cuda.get("cuGraphEventWaitNodeGetEvent", wait, OUT) == (0, second)
    assert (make.kind(record), make.kind(wait)) == (RECORD, WAIT)
    assert cuda("cuGraphEventRecordNodeSetEvent", record, second) == 0
    assert cuda.get("cuGraphEventRecordNodeGetEvent", record, OUT) == (0, second)
    executable = make.instantiate(graph)
    assert cuda("cuGraphExecEventRecordNodeSetEvent", executable, record, first) == 0
    make.run(executable)
    assert (cuda("cuEventQuery", first), cuda("cuEventElapsedTime_v2", None, first, second)) == (0, 1)


def test_memory_of_a_graph_has_an_address_and_outlives_the_executable(make):
    cuda, graph = make.cuda, make.graph()
    params = make.buffer("<IIII72xQQQQ", 1, 0, 1, 0, 0, 0, 4096, 0)
    take = make.add("MemAllocNode", graph, params)
    (address,) = struct.unpack("<Q", params[112:120])
    make.add_fill(graph, address, 3, 4096, behind=[take])
    executable = make.instantiate(graph)
    assert cuda.get("cuGraphInstantiateWithFlags", OUT, graph, 0)[0] == 801  # its addresses are of one executable
    assert cuda("cuGraphDestroyNode", take) == 801

    def held():
        return [cuda.get("cuDeviceGetGraphMemAttribute", 0, number, OUT) for number in range(4)]

    assert held() == [(0, 0)] * 4
    make.run(executable)
    assert cuda("cuGraphExecDestroy", executable) == 0
    assert (make.bytes(address, 2), held()) == ([3, 3], [(0, 2 << 20)] * 4)
    assert cuda("cuMemFreeAsync", address, make.stream) == 0
    assert (cuda("cuDeviceGraphMemTrim", 0), held()) == (0, [(0, 0), (0, 2 << 20)] * 2)
    zero = ctypes.c_uint64()
    assert [cuda("cuDeviceSetGraphMemAttribute", 0, number, ctypes.byref(zero)) for number in range(4)] == [1, 0, 1, 0]
    assert held() == [(0, 0)] * 4


def test_a_user_object_ends_with_the_last_that_holds_it(make):
    cuda, graph = make.cuda, make.graph()
    ended = []
    function = HostFunction(ended.append)
    make.kept.append(function)
    pointer = ctypes.cast(function, ctypes.c_void_p).value

    def made(data):
        code, item = cuda.get("cuUserObjectCreate", OUT, data, pointer, 1, 1)
        assert code == 0
        return item

    own, moved = made(1), made(2)
    assert cuda("cuGraphRetainUserObject", graph, moved, 1, 1) == 0
    assert cuda("cuGraphRetainUserObject", graph, own, 1, 0) == 0
    executable = make.instantiate(graph)
    assert cuda("cuUserObjectRelease", own, 1) == 0
    assert cuda("cuGraphReleaseUserObject", graph, own, 1) == 0
    assert (cuda("cuGraphReleaseUserObject", graph, own, 1), ended) == (1, [])
    assert (cuda("cuGraphDestroy", graph), ended) == (0, [])
    assert cuda("cuGraphExecDestroy", executable) == 0
    assert sorted(ended) == [1, 2]
    assert cuda("cuUserObjectRelease", own, 1) == 1


def test_a_user_object_outlives_the_launches_that_are_queued(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(1 << 20)
    ended = []
    function = HostFunction(ended.append)
    _, item = cuda.get("cuUserObjectCreate", OUT, 1, ctypes.cast(function, ctypes.c_void_p).value, 1, 1)
    assert cuda("cuGraphRetainUserObject", graph, item, 1, 1) == 0
    make.add_fill(graph, memory, 1, 1 << 20)
    executable = make.instantiate(graph)
    assert cuda("cuGraphLaunch", executable, make.stream) == 0
    assert (cuda("cuGraphExecDestroy", executable), cuda("cuGraphDestroy", graph), ended) == (0, 0, [])
    assert (cuda("cuStreamSynchronize", make.stream), ended) == (0, [1])


def test_instantiation_says_what_came_of_it(make):
    cuda, graph = make.cuda, make.graph()
    condition = make.condition(graph, default=1)
    _, [body] = make.conditional(graph, condition, IF, 1)
    make.add("EmptyNode", body)
    params = make.buffer("<QQQI4x", 8, 0, 0, 9)
    code, executable = cuda.get("cuGraphInstantiateWithParams", OUT, graph, params)
    assert (code, struct.unpack("<I", params[24:28])) == (0, (0,))
    assert cuda.get("cuGraphExecGetFlags", executable, OUT) == (0, 8)


def test_a_graph_for_launches_by_the_device_names_the_node_that_it_cannot_have(make):
    """Measured."""
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)

    def instantiated():
        params = make.buffer("<QQQI4x", 4, 0, 0, 9)
        code, executable = cuda.get("cuGraphInstantiateWithParams", OUT, graph, params)
        return (code, *struct.unpack("<QI", params[16:28])), executable

    assert instantiated()[0] == (1, 0, 1)
    make.add_fill(graph, memory, 7, 8)
    result, executable = instantiated()
    assert (result, cuda.get("cuGraphExecGetFlags", executable, OUT)) == ((0, 0, 0), (0, 4))
    make.run(executable)
    assert make.bytes(memory, 8) == [7] * 8
    node = make.add("EmptyNode", graph)
    assert instantiated()[0] == (1, node, 3)


def test_a_picture_of_a_graph_is_written(make, tmp_path):
    graph, memory = make.graph(), make.cuda.allocate(8)
    make.add("EmptyNode", graph, behind=[make.add_fill(graph, memory, 1, 8)])
    path = tmp_path / "graph.dot"
    assert make.cuda("cuGraphDebugDotPrint", graph, str(path).encode(), 1) == 0
    assert "0 -> 1;" in path.read_text()
    assert make.cuda("cuGraphDebugDotPrint", graph, str(tmp_path / "none" / "x").encode(), 0) == 301


def test_bad_input_is_refused_and_changes_nothing(make):
    cuda, graph, memory = make.cuda, make.graph(), make.cuda.allocate(8)
    node, place = make.add_fill(graph, memory, 1, 8), make.buffer("<256x")
    other = make.add("EmptyNode", make.graph())
    cases = [
        cuda.get("cuGraphCreate", OUT, 1)[0],
        cuda.get("cuGraphAddEmptyNode", OUT, 0, None, 0)[0],
        cuda.get("cuGraphAddEmptyNode", OUT, graph, make.handles(other), 1)[0],
        cuda.get("cuGraphAddEmptyNode", OUT, graph, None, 1)[0],
        cuda.get("cuGraphAddMemsetNode", OUT, graph, None, 0, make.fill(memory, 256, 8), 0)[0],
        cuda.get("cuGraphAddMemsetNode", OUT, graph, None, 0, make.fill(memory, 1, 8, unit=3), 0)[0],
        cuda.get("cuGraphAddMemsetNode", OUT, graph, None, 0, make.fill(1, 1, 8), 0)[0],
        cuda.get("cuGraphAddMemFreeNode", OUT, graph, None, 0, memory)[0],
        cuda.get("cuGraphAddHostNode", OUT, graph, None, 0, make.buffer("<QQ", 0, 0))[0],
        cuda("cuGraphKernelNodeGetParams_v2", node, place),
        cuda("cuGraphMemsetNodeGetParams", node, 1),
        cuda.get("cuGraphChildGraphNodeGetGraph", node, OUT)[0],
        cuda("cuGraphGetNodes", graph, None, None),
        cuda("cuGraphLaunch", graph, make.stream),
        cuda("cuGraphExecDestroy", node),
        cuda.get("cuUserObjectCreate", OUT, 0, 0, 1, 1)[0],
        cuda.get("cuGraphAddNode", OUT, graph, None, 0, make.buffer("<I", 99, nbytes=256))[0],
        cuda.get("cuGraphAddNode", OUT, graph, None, 0, make.buffer("<I", 8, nbytes=256))[0],
    ]
    assert cases == [1] * 17 + [801]
    assert make.listed("cuGraphGetNodes", graph) == {node}
    assert current_session().runtime.captures.running == []
