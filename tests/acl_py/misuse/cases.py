"""The cases: code that fails, the kind of failure, and what the message must tell.

Each case runs in a simulation of its own, with the names of `PRELUDE` at hand. Its last line is the misuse; lines
before it are well. A kind is one of `Kind`, or an exception class where Python's own are right.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
import typer

import acl_py
from acl_py import Kind
from acl_py.programs.format import ProgramError
from acl_py.tools.scripts import ScriptError

PRELUDE = """\
stream, event = await CreateStream(), await CreateEvent()
buffer, pinned, array = await Malloc(4096), await MallocHost(4096), np.zeros(4096, np.uint8)
"""


@dataclass(frozen=True)
class Case:
    noun: str
    title: str
    code: str
    kind: object
    parts: tuple[str, ...]
    rules: str = "cuda"

    @property
    def before(self):
        return self.code.strip().splitlines()[:-1]

    @property
    def misuse(self):
        return self.code.strip().splitlines()[-1]


CASES: list[Case] = []


def case(noun, title, code, kind, *parts, rules="cuda"):
    CASES.append(Case(noun, title, code, kind, parts, rules))


@acl_py.kernel(cost=acl_py.Cost(us=10))
def work():
    """A kernel without arguments."""


@acl_py.kernel(cost=acl_py.Cost(us=10))
def double(x: acl_py.InOut):
    x *= 2


@acl_py.kernel(cost=acl_py.Cost(us=10))
def broken():
    raise ZeroDivisionError("a bug in the kernel")


def bad_function():
    raise KeyError("a bug in the function")


def call(stream):
    """Queue what a node of a graph does."""
    return acl_py.LaunchKernel(work, 1, (), stream)


async def one_node():
    """Make a graph of one node; return the node and an executable."""
    graph = await acl_py.GraphCreate()
    node = await acl_py.GraphAddNode(graph, call)
    return node, await acl_py.GraphInstantiate(graph)


NAMES = {name: getattr(acl_py, name) for name in dir(acl_py) if not name.startswith("_")} | {
    "np": np, "asyncio": asyncio, "acl_py": acl_py, "work": work, "double": double, "broken": broken,
    "bad_function": bad_function, "call": call, "one_node": one_node,
    "DEFAULT": acl_py.MemcpyKind.DEFAULT, "H2D": acl_py.MemcpyKind.HOST_TO_DEVICE,
    "D2H": acl_py.MemcpyKind.DEVICE_TO_HOST,
}  # fmt: skip

# --- streams

case(
    "streams",
    "A destroyed stream",
    "await DestroyStream(stream)\nawait LaunchKernel(work, 1, (), stream)",
    Kind.INVALID_HANDLE,
    "made at",
    "destroyed at",
    "CreateStream()",
)
case(
    "streams",
    "Destroyed twice",
    "await DestroyStream(stream)\nawait DestroyStream(stream)",
    Kind.INVALID_HANDLE,
    "made at",
    "destroyed at",
)
case(
    "streams",
    "A wait for a destroyed stream",
    "await DestroyStream(stream)\nawait SynchronizeStream(stream)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "streams",
    "A query of a destroyed stream",
    "await DestroyStream(stream)\nawait StreamQuery(stream)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case("streams", "The default stream destroyed", "await DestroyStream(None)", Kind.DEFAULT_STREAM, "default stream")
case("streams", "Something else for a stream", "await SynchronizeStream(7)", TypeError, "CreateStream()", "7")
case("streams", "The verb for a stream", "await SynchronizeStream(CreateStream)", TypeError, "CreateStream()")
case(
    "streams",
    "A stream that was not awaited",
    "mine = CreateStream()\nawait SynchronizeStream(mine)",
    TypeError,
    "not a coroutine of CreateStream(): await that call",
)
case(
    "streams",
    "A stream for another process",
    "import pickle\npickle.dumps(stream)",
    TypeError,
    "made at",
    "cannot be pickled",
    "send NumPy arrays",
)
case("streams", "A name that is no text", "await CreateStream(name=7)", TypeError, "name must be a str, not 7")
case("streams", "An empty name", "await CreateStream(name='')", ValueError, "1 to 200 characters")
case("streams", "A name that is too long", "await CreateStream(name='x' * 201)", ValueError, "200 characters, not 201")
case(
    "streams",
    "A name that a terminal would obey",
    r"await CreateStream(name='\x1b[2J')",
    ValueError,
    r"printable characters only, not '\x1b[2J'",
)
case(
    "streams",
    "A destroyed stream that has a name",
    "copies = await CreateStream(name='copies')\nawait DestroyStream(copies)\nawait SynchronizeStream(copies)",
    Kind.INVALID_HANDLE,
    "<Stream stream 'copies' of device 0 made at example.py:3 destroyed at example.py:4>",
)
case(
    "streams",
    "An answer as a truth value",
    "while not await StreamQuery(stream): pass",
    TypeError,
    "is Status.COMPLETE",
)
case(
    "streams",
    "An answer as a number of C",
    "while await StreamQuery(stream) != 0: pass",
    TypeError,
    "Status.COMPLETE is not a number to compare with 0",
    "is Status.COMPLETE",
)
case("streams", "A priority that is no number", "await CreateStream(priority='high')", TypeError, "priority", "'high'")
case(
    "streams",
    "A stream of a destroyed context",
    "context = await CreateContext(0)\nmine = await CreateStream()\nawait DestroyContext(context)\n"
    "await LaunchKernel(work, 1, (), mine)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "streams",
    "A stream of a device that was reset",
    "await ResetDevice(0)\nawait LaunchKernel(work, 1, (), stream)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "streams",
    "A launch on a stream of another device",
    "await SetDevice(1)\nawait LaunchKernel(work, 1, (), stream)",
    Kind.INVALID_HANDLE,
    "device 1",
    "SetDevice()",
)
case(
    "streams",
    "A stream of another context, under ACL's rules",
    "await CreateContext(0)\nawait LaunchKernel(work, 1, (), stream)",
    Kind.FOREIGN_STREAM,
    "SetCurrentContext()",
    rules="acl",
)
case(
    "streams",
    "CUDA's default streams, under ACL's rules",
    "await SynchronizeStream(LEGACY_STREAM)",
    Kind.NOT_SUPPORTED,
    "use None",
    rules="acl",
)
case(
    "streams",
    "ACL's configuration, under CUDA's rules",
    "await CreateStreamWithConfig(0, 1)",
    Kind.NOT_SUPPORTED,
    "CreateStream()",
)
case(
    "streams",
    "Flags that there are not",
    "await CreateStreamWithConfig(0, 64)",
    Kind.INVALID_VALUE,
    "0x40",
    rules="acl",
)
case(
    "streams",
    "A failure mode that there is not",
    "await SetStreamFailureMode(stream, 2)",
    Kind.INVALID_VALUE,
    "failure mode 2",
    rules="acl",
)
case(
    "streams",
    "Stop on failure taken back",
    "await SetStreamFailureMode(stream, FailureMode.STOP)\nawait SetStreamFailureMode(stream, FailureMode.CONTINUE)",
    Kind.NOT_SUPPORTED,
    "cannot be taken back",
    rules="acl",
)
case(
    "streams",
    "A failure mode, under CUDA's rules",
    "await SetStreamFailureMode(stream, 1)",
    Kind.NOT_SUPPORTED,
    "whole context",
)
case("streams", "A time-out of nothing", "await SynchronizeStreamWithTimeout(stream, 0)", Kind.INVALID_VALUE, "-1")
case("streams", "A time-out in fractions", "await SynchronizeStreamWithTimeout(stream, 0.5)", TypeError, "milliseconds")

# --- events

case(
    "events",
    "A destroyed event recorded",
    "await DestroyEvent(event)\nawait RecordEvent(event, stream)",
    Kind.INVALID_HANDLE,
    "made at",
    "destroyed at",
    "CreateEvent()",
)
case(
    "events",
    "A destroyed event waited for",
    "await DestroyEvent(event)\nawait StreamWaitEvent(stream, event)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "events",
    "A destroyed event queried",
    "await DestroyEvent(event)\nawait QueryEventStatus(event)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "events",
    "Destroyed twice",
    "await DestroyEvent(event)\nawait DestroyEvent(event)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case("events", "Stream and event the wrong way round", "await RecordEvent(stream, event)", TypeError, "stream")
case("events", "And the other way", "await StreamWaitEvent(event, stream)", TypeError, "stream")
case("events", "Something else for an event", "await SynchronizeEvent(None)", TypeError, "CreateEvent()", "None")
case(
    "events",
    "The time of an event never recorded",
    "end = await CreateEvent()\nawait RecordEvent(end)\nawait EventElapsedTime(event, end)",
    Kind.NOT_RECORDED,
    "RecordEvent()",
)
case(
    "events",
    "The time of an event made without timing",
    "mute = await CreateEvent(timing=False)\nawait RecordEvent(mute)\nawait EventElapsedTime(mute, mute)",
    Kind.NO_TIMING,
    "timing=True",
)
case(
    "events",
    "The time of a record that has not taken place",
    "await LaunchKernel(work, 1, (), stream)\nawait RecordEvent(event, stream)\nawait EventElapsedTime(event, event)",
    Kind.NO_TIME_YET,
    "synchronise",
)
case(
    "events",
    "Times of two devices",
    "await SetDevice(1)\nother = await CreateEvent()\nawait EventElapsedTime(event, other)",
    Kind.INVALID_HANDLE,
    "different devices",
)
case(
    "events",
    "A record on a stream of another device",
    "await SetDevice(1)\nother = await CreateEvent()\nawait RecordEvent(other, stream)",
    Kind.INVALID_HANDLE,
    "different devices",
)
case(
    "events",
    "A wait without a record, under ACL's rules",
    "await StreamWaitEvent(stream, event)",
    Kind.WAIT_WITHOUT_RECORD,
    "CreateEventExWithFlag()",
    rules="acl",
)
case("events", "Flags of no event", "await CreateEventWithFlag(0)", Kind.INVALID_VALUE, "EventFlag.SYNC", rules="acl")
case(
    "events",
    "An event for other processes",
    "await CreateEventWithFlag(EventFlag.IPC)",
    Kind.NOT_SUPPORTED,
    "SYNC and TIME_LINE",
    rules="acl",
)
case(
    "events",
    "A wait for an event without SYNC",
    "quiet = await CreateEventWithFlag(EventFlag.TIME_LINE)\nawait StreamWaitEvent(stream, quiet)",
    Kind.NOT_SUPPORTED,
    "EventFlag.SYNC",
    rules="acl",
)
case(
    "events",
    "A reset of a snapshot event",
    "await ResetEvent(event, stream)",
    Kind.NOT_SUPPORTED,
    "CreateEventWithFlag",
)
case("events", "ACL's classes, under CUDA's rules", "await CreateEventWithFlag(1)", Kind.NOT_SUPPORTED, "CreateEvent()")

# --- memory

case(
    "memory", "A pool that keeps fewer bytes than none", "await SetMemPoolThreshold(-1)", Kind.INVALID_VALUE, "-1 bytes"
)
case("memory", "A pool that keeps part of a byte", "await SetMemPoolThreshold(0.5)", TypeError, "0.5")
case("memory", "No bytes", "await Malloc(0)", Kind.INVALID_VALUE, "0 bytes")
case("memory", "Fewer than none", "await Malloc(-1)", Kind.INVALID_VALUE, "-1 bytes")
case("memory", "More than there is", "await Malloc(1 << 50)", Kind.OUT_OF_MEMORY, "free", "largest holders")
case(
    "memory",
    "More than there is left",
    "weights = await Malloc(60 << 20, name='weights')\nawait Malloc(16 << 20)",
    Kind.OUT_OF_MEMORY,
    "<Buffer device 60.0 MiB allocation 'weights' made at example.py:3>",
)
case("memory", "A size that is no int", "await Malloc(1e6)", TypeError, "int", "1000000.0")
case("memory", "A truth for a size", "await Malloc(True)", TypeError, "True")
case(
    "memory",
    "Device memory for NumPy",
    "np.asarray(buffer)",
    Kind.INVALID_VALUE,
    "device memory, which NumPy cannot see",
    "copy it to the host",
)
case("memory", "A buffer copied as an object", "import copy\ncopy.deepcopy(buffer)", TypeError, "cannot be", "copied")
case("memory", "A buffer for a size", "await Malloc(buffer)", TypeError, "nbytes", "an int", "made at")
case("memory", "Pinned memory of no bytes", "await MallocHost(0)", Kind.INVALID_VALUE, "0 bytes")
case("memory", "Freed twice", "await Free(buffer)\nawait Free(buffer)", Kind.INVALID_ADDRESS, "made at", "freed at")
case("memory", "A part freed", "await Free(buffer[64:])", Kind.INVALID_ADDRESS, "64 bytes inside", "Malloc()")
case("memory", "Pinned memory freed as device memory", "await Free(pinned)", Kind.INVALID_ADDRESS, "FreeHost()")
case("memory", "Device memory freed as pinned memory", "await FreeHost(buffer)", Kind.INVALID_ADDRESS, "Free()")
case("memory", "An array freed", "await Free(array)", Kind.INVALID_ADDRESS, "Free")
case("memory", "An address that nobody has", "await Free(12345)", Kind.INVALID_ADDRESS, "Free of")
case(
    "memory",
    "Registered twice",
    "await HostRegister(array)\nawait HostRegister(array)",
    Kind.ALREADY_REGISTERED,
    "HostUnregister()",
)
case(
    "memory",
    "Unregistered without a registration",
    "await HostUnregister(array)",
    Kind.NOT_REGISTERED,
    "HostUnregister of",
)
case("memory", "Device memory registered", "await HostRegister(buffer)", Kind.INVALID_ADDRESS, "host memory")
case(
    "memory",
    "A read-only array registered",
    "array.flags.writeable = False\nawait HostRegister(array)",
    Kind.INVALID_VALUE,
    "read-only",
)
case("memory", "NumPy's view of device memory", "buffer.numpy()", Kind.INVALID_VALUE, "copy it to the host first")
case("memory", "A view of freed memory", "await FreeHost(pinned)\npinned.numpy()", Kind.INVALID_ADDRESS, "freed at")
case("memory", "A dtype that does not fit", "pinned[:7].numpy(np.float32)", Kind.INVALID_VALUE, "float32")
case("memory", "A slice outside", "buffer[4000:5000]", IndexError, "stay within 0 to 4096")
case("memory", "An index instead of a slice", "buffer[3]", TypeError, "slices in bytes")
case(
    "memory",
    "A stream for MallocAsync that is gone",
    "await DestroyStream(stream)\nawait MallocAsync(64, stream)",
    Kind.INVALID_HANDLE,
    "destroyed at",
)
case(
    "memory",
    "Given back twice",
    "part = await MallocAsync(64)\nawait FreeAsync(part)\nawait FreeAsync(part)",
    Kind.INVALID_ADDRESS,
    "freed at",
)
case("memory", "Pinned memory given to the pool", "await FreeAsync(pinned)", Kind.INVALID_ADDRESS, "FreeHost()")

# --- managed memory

case(
    "managed memory",
    "A prefetch beyond the end",
    "managed = await MallocManaged(4096)\nawait MemPrefetchAsync(managed, 8192, 0, stream)",
    Kind.INVALID_VALUE,
    "managed 4.0 KiB",
    "not 8192",
)
case(
    "managed memory",
    "A prefetch of memory of MallocHost",
    "await MemPrefetchAsync(pinned, 4096, 0, stream)",
    Kind.INVALID_VALUE,
    "not managed",
    "MallocManaged()",
)
case(
    "managed memory",
    "A location that is no device",
    "managed = await MallocManaged(4096)\nawait MemPrefetchAsync(managed, 4096, -2, stream)",
    Kind.INVALID_DEVICE,
    "no device -2",
)
case(
    "managed memory",
    "Advice that there is not",
    "managed = await MallocManaged(4096)\nawait MemAdvise(managed, 4096, 9)",
    Kind.INVALID_VALUE,
    "9 is not an Advice",
    "SET_READ_MOSTLY",
)
case(
    "managed memory",
    "A part of memory attached to a stream",
    "managed = await MallocManaged(4096)\nawait StreamAttachMemAsync(stream, managed[64:])",
    Kind.INVALID_VALUE,
    "whole allocations",
)
case(
    "managed memory",
    "Under rules that have none",
    "await MallocManaged(4096)",
    Kind.NOT_SUPPORTED,
    "rules acl",
    "Malloc() and MallocHost()",
    rules="acl",
)

# --- copies and fills

case(
    "graphs",
    "A capture of the legacy stream",
    "await BeginCapture(None)",
    Kind.CAPTURE_UNSUPPORTED,
    "legacy",
    "CreateStream()",
)
case(
    "graphs",
    "A synchronisation beside a capture",
    "own = await CreateStream(nonblocking=True)\nawait BeginCapture(own)\nawait SynchronizeStream(own)",
    Kind.CAPTURE_UNSUPPORTED,
    "capture of stream",
    "is lost",
    "EndCapture()",
)
case(
    "graphs",
    "A capture that was lost",
    """
await BeginCapture(stream)
try: await Malloc(8)
except AclError: pass
await EndCapture(stream)
""",
    Kind.CAPTURE_INVALIDATED,
    "lost by Malloc() at",
)
case(
    "graphs",
    "A stream that is not joined",
    """
other = await CreateStream()
await BeginCapture(stream)
await RecordEvent(event, stream)
await StreamWaitEvent(other, event)
await MemsetAsync(buffer, 4096, 0, 4096, other)
await EndCapture(stream)
""",
    Kind.CAPTURE_UNJOINED,
    "fill",
    "drawn in at",
    "record an event",
)
case(
    "graphs",
    "An event of a capture, outside of it",
    """
own = await CreateStream(nonblocking=True)
await BeginCapture(own)
await RecordEvent(event, own)
await QueryEventStatus(event)
""",
    Kind.CAPTURED_EVENT,
    "recorded in",
)
case(
    "graphs",
    "A wait in a capture for work outside of it",
    """
own = await CreateStream(nonblocking=True)
await RecordEvent(event)
await BeginCapture(own)
await StreamWaitEvent(own, event)
""",
    Kind.CAPTURE_ISOLATION,
    "was recorded outside",
)
case("graphs", "An end without a beginning", "await EndCapture(stream)", Kind.NOT_CAPTURING, "BeginCapture()")
case(
    "graphs",
    "An update to another shape",
    """
executable = await GraphInstantiate(await GraphCreate())
graph = await GraphCreate()
await GraphAddEmptyNode(graph)
await GraphExecUpdate(executable, graph)
""",
    Kind.GRAPH_UPDATE,
    "instantiate the new graph",
)
case(
    "graphs",
    "A task group that goes on at the end of its capture",
    "await BeginCapture(stream)\nawait CaptureTaskGrpBegin(stream)\nawait EndCapture(stream)",
    Kind.GROUP_STATUS,
    "before the end of <task group 1",
    "CaptureTaskGrpEnd()",
    rules="acl",
)
case(
    "graphs",
    "Work on another stream in the middle of a task group",
    """
other = await CreateStream()
await BeginCapture(stream)
await RecordEvent(event, stream)
await StreamWaitEvent(other, event)
await CaptureTaskGrpBegin(stream)
await LaunchKernel(work, 1, (), other)
""",
    Kind.GROUP_INTERRUPTED,
    "interrupts <task group 1",
    "CaptureTaskGrpEnd()",
    rules="acl",
)
case(
    "graphs",
    "A fill in a task group",
    """
await BeginCapture(stream)
await CaptureTaskGrpBegin(stream)
await MemsetAsync(buffer, 4096, 0, 4096, stream)
""",
    Kind.GROUP_WORK,
    "takes kernels only",
    rules="acl",
)
case(
    "graphs",
    "An update with too few kernels",
    """
await BeginCapture(stream)
await CaptureTaskGrpBegin(stream)
await LaunchKernel(work, 1, (), stream)
group = await CaptureTaskGrpEnd(stream)
await EndCapture(stream)
await CaptureTaskUpdateBegin(stream, group)
await CaptureTaskUpdateEnd(stream)
""",
    Kind.GROUP_UPDATE,
    "0 of 1 kernels",
    rules="acl",
)
case(
    "graphs",
    "A task group under CUDA's rules",
    "await CaptureTaskGrpBegin(stream)",
    Kind.NOT_SUPPORTED,
    "GraphExecUpdate()",
)
case(
    "graphs",
    "A host function in the body of an IF node",
    """
graph = await GraphCreate()
node = await GraphAddIfNode(graph)
await BeginCaptureToGraph(stream, node.body)
await LaunchHostFunc(stream, print, ("taken",))
await EndCapture(stream)
await GraphInstantiate(graph)
""",
    Kind.NOT_SUPPORTED,
    "in the body of",
    "before or behind the IF node",
)
case("graphs", "A graph in place of its executable", "await GraphLaunch(await GraphCreate())", TypeError, "GraphInstan")
case(
    "graphs",
    "A node of another graph",
    """
node = await GraphAddEmptyNode(await GraphCreate())
await GraphAddEmptyNode(await GraphCreate(), [node])
""",
    Kind.INVALID_VALUE,
    "is no node of",
)
case(
    "graphs",
    "A node without work",
    "await GraphAddNode(await GraphCreate(), lambda stream: asyncio.sleep(0))",
    Kind.INVALID_VALUE,
    "0 pieces of work",
    "queue one piece of work",
)
case(
    "graphs",
    "An edge that closes a loop",
    """
graph = await GraphCreate()
first = await GraphAddNode(graph, call)
second = await GraphAddNode(graph, call, [first])
await GraphAddDependencies(graph, [(second, first)])
""",
    Kind.INVALID_VALUE,
    "would close a loop",
    "leave it out",
)
case(
    "graphs",
    "An edge that is not there",
    """
graph = await GraphCreate()
first, second = await GraphAddNode(graph, call), await GraphAddNode(graph, call)
await GraphRemoveDependencies(graph, [(first, second)])
""",
    Kind.INVALID_VALUE,
    "no edge from",
    "name one that is there",
)
case(
    "graphs",
    "A node that is gone",
    """
node = await GraphAddNode(await GraphCreate(), call)
await GraphDestroyNode(node)
await GraphNodeSetWork(node, call)
""",
    Kind.INVALID_VALUE,
    "is gone",
    "name a node that the graph has",
)
case(
    "graphs",
    "A node taken out of a graph that allocates memory",
    """
graph = await GraphCreate()
node = await GraphAddNode(graph, lambda stream: MallocAsync(4096, stream))
await GraphDestroyNode(node)
""",
    Kind.NOT_SUPPORTED,
    "allocates memory",
    "leave the nodes out from the start",
)
case(
    "graphs",
    "New work of another kind",
    """
node = await GraphAddNode(await GraphCreate(), call)
await GraphNodeSetWork(node, lambda stream: MemsetAsync(buffer, 4096, 0, 4096, stream))
""",
    Kind.INVALID_VALUE,
    "as the new work of",
    "another kernel",
)
case(
    "graphs",
    "A node of another graph than the executable's",
    """
executable = await GraphInstantiate(await GraphCreate())
other = await GraphAddNode(await GraphCreate(), call)
await GraphExecNodeSetWork(executable, other, call)
""",
    Kind.INVALID_VALUE,
    "the graph that it was made from",
)
case(
    "graphs",
    "An empty node, switched off",
    """
node = await GraphAddEmptyNode(graph := await GraphCreate())
executable = await GraphInstantiate(graph)
await GraphNodeSetEnabled(executable, node, False)
""",
    Kind.INVALID_VALUE,
    "switch kernels, copies and fills",
)
case(
    "graphs",
    "Two nodes that ask one condition",
    """
graph, condition = await GraphCreate(), Condition(0)
await GraphAddConditionalNode(graph, condition, NodeKind.IF)
await GraphAddConditionalNode(graph, condition, NodeKind.IF)
""",
    Kind.INVALID_VALUE,
    "create another condition",
)
case(
    "graphs",
    "A loop with two bodies",
    "await GraphAddConditionalNode(await GraphCreate(), Condition(1), NodeKind.WHILE, 2)",
    Kind.INVALID_VALUE,
    "2 bodies of a",
    "use 1",
)
case(
    "copies",
    "More than the destination holds",
    "await Memcpy(buffer, 100, array, 200, H2D)",
    Kind.INVALID_VALUE,
    "200",
    "100",
)
case(
    "copies",
    "More than the destination really has",
    "await Memcpy(buffer, 9999, np.zeros(9999, 'u1'), 9999, H2D)",
    Kind.INVALID_VALUE,
    "4.0 KiB",
)
case(
    "copies",
    "More than the source has",
    "await Memcpy(pinned, 4096, buffer[4000:], 200, D2H)",
    Kind.INVALID_VALUE,
    "96 B",
)
case("copies", "A negative count", "await MemcpyAsync(buffer, 64, pinned, -1, H2D, stream)", Kind.INVALID_VALUE, "-1")
case("copies", "A count that is no int", "await MemcpyAsync(buffer, 64, pinned, 1.0, H2D, stream)", TypeError, "count")
case("copies", "A kind that there is not", "await Memcpy(buffer, 64, pinned, 64, 9)", Kind.INVALID_COPY_DIRECTION, "9")
case(
    "copies",
    "A kind that does not fit",
    "await Memcpy(buffer, 64, pinned, 64, D2H)",
    Kind.INVALID_COPY_DIRECTION,
    "DEVICE_TO_HOST",
    "MemcpyKind.DEFAULT",
)
case(
    "copies",
    "From freed memory",
    "await Free(buffer)\nawait Memcpy(pinned, 64, buffer, 64, D2H)",
    Kind.INVALID_ADDRESS,
    "made at",
    "freed at",
)
case(
    "copies",
    "To freed pinned memory",
    "await FreeHost(pinned)\nawait MemcpyAsync(pinned, 64, buffer, 64, D2H, stream)",
    Kind.INVALID_ADDRESS,
    "freed at",
)
case(
    "copies",
    "To a view of freed pinned memory",
    "view = pinned.numpy()\nawait FreeHost(pinned)\nawait Memcpy(view, 64, buffer, 64, D2H)",
    Kind.INVALID_ADDRESS,
    "freed at",
)
case("copies", "From nowhere", "await Memcpy(buffer, 64, 0, 64, H2D)", Kind.NULL_POINTER, "NULL")
case("copies", "From nothing", "await Memcpy(buffer, 64, None, 64, H2D)", Kind.INVALID_VALUE, "src is None")
case(
    "copies",
    "From an address right behind",
    "await Memcpy(pinned, 64, buffer.address + 4096, 64, D2H)",
    Kind.INVALID_ADDRESS,
    "right at the end of",
)
case(
    "copies",
    "From every other value",
    "await Memcpy(buffer, 64, array[::2], 64, H2D)",
    Kind.INVALID_VALUE,
    "not contiguous",
)
case("copies", "To immutable bytes", "await Memcpy(b'x' * 64, 64, buffer, 64, D2H)", Kind.INVALID_VALUE, "read-only")
case(
    "copies",
    "Of Python objects",
    "await Memcpy(buffer, 64, np.array([object()] * 8), 64, H2D)",
    Kind.INVALID_VALUE,
    "references",
)
case(
    "copies",
    "A batch in the legacy stream",
    "await MemcpyBatchAsync([(buffer, 64, pinned, 64)])",
    Kind.INVALID_VALUE,
    "takes no batches",
)
case("copies", "A batch of no copies", "await MemcpyBatchAsync([], stream)", Kind.INVALID_VALUE, "without copies")
case(
    "copies",
    "A batch with a copy of no bytes",
    "await MemcpyBatchAsync([(buffer, 64, pinned, 64), (buffer, 64, pinned, 0)], stream)",
    Kind.INVALID_VALUE,
    "copy 1",
)
case(
    "copies",
    "A batch with pageable memory",
    "await MemcpyBatchAsync([(buffer, 64, array, 64)], stream)",
    Kind.NOT_SUPPORTED,
    "pageable",
)
case("copies", "A batch that has no tuples", "await MemcpyBatchAsync([buffer, pinned], stream)", TypeError, "copy 0")
case(
    "copies",
    "Rows wider than their pitch",
    "await Memcpy2d(buffer, 32, array, 64, 64, 4, H2D)",
    Kind.INVALID_PITCH,
    "pitch",
)
case(
    "copies",
    "More rows than there are",
    "await Memcpy2d(buffer, 64, array, 64, 64, 100, H2D)",
    Kind.INVALID_VALUE,
    "6400",
)
case("copies", "A fill of pageable memory", "await Memset(array, 64, 0, 64)", Kind.INVALID_VALUE, "NumPy's fill")
case("copies", "A fill with a fraction", "await Memset(buffer, 64, 0.5, 64)", TypeError, "0.5")
case(
    "copies", "A fill beyond the end", "await MemsetAsync(buffer[4090:], 64, 0, 64, stream)", Kind.INVALID_VALUE, "6 B"
)
case(
    "copies",
    "Host to host without waiting, under ACL's rules",
    "await MemcpyAsync(pinned, 64, pinned[64:], 64, DEFAULT, stream)",
    Kind.NOT_SUPPORTED,
    "use Memcpy()",
    rules="acl",
)

case(
    "copies",
    "A buffer that was not awaited",
    "mine = Malloc(64)\nawait Memcpy(pinned, 64, mine, 64, D2H)",
    Kind.INVALID_VALUE,
    "src is a coroutine of Malloc(), which is not memory",
    "await that call",
)

# --- kernels and host functions

case("kernels", "No blocks", "await LaunchKernel(work, 0, (), stream)", Kind.INVALID_LAUNCH, "0 blocks")
case("kernels", "Too many blocks", "await LaunchKernel(work, 1 << 40, (), stream)", Kind.INVALID_LAUNCH, "2147483647")
case("kernels", "Blocks that are no int", "await LaunchKernel(work, 1.5, (), stream)", TypeError, "block_dim")
case(
    "kernels",
    "An argument that was not awaited",
    "mine = Malloc(64)\nawait double[8](mine)",
    TypeError,
    "argument x of <kernel double>",
    "a coroutine of Malloc(): await that call",
)
case("kernels", "A plain function", "await LaunchKernel(print, 1, (), stream)", TypeError, "@kernel")
case("kernels", "A kernel that is called", "work()", TypeError, "launched, not called")
case("kernels", "Too few arguments", "await LaunchKernel(double, 1, (), stream)", TypeError, "1 argument, not 0")
case("kernels", "Too many arguments", "await LaunchKernel(work, 1, (buffer,), stream)", TypeError, "0 arguments, not 1")
case(
    "kernels",
    "An array of the host",
    "await LaunchKernel(double, 1, (array,), stream)",
    Kind.INVALID_ADDRESS,
    "NumPy array",
    "Malloc()",
)
case(
    "kernels",
    "Freed memory",
    "await Free(buffer)\nawait LaunchKernel(double, 1, (buffer,), stream)",
    Kind.INVALID_ADDRESS,
    "freed at",
)
case("kernels", "A kernel with variable arguments", "kernel(lambda *args: None)", TypeError, "plain positional")
case("kernels", "A coroutine for a kernel", "kernel(asyncio.sleep)", TypeError, "coroutine function")
case("kernels", "A cost of two sorts", "Cost(us=1, flops=2)", ValueError, "either us per block")
case(
    "kernels",
    "A kernel that calls the runtime",
    "calls = kernel(lambda: SynchronizeStream(stream).send(None))\nawait LaunchKernel(calls, 1, (), stream)\n"
    "await SynchronizeStream(stream)",
    Kind.NOT_PERMITTED,
    "<kernel <lambda>>",
    "make the call on the host",
)
case("kernels", "A product of no rows", "Cost.matmul(0, 512, 512)", ValueError, "m of matmul must be 1 or more")
case("kernels", "Half a row", "Cost.softmax(rows=0.5, columns=512)", TypeError, "rows of softmax", "whole number")
case("kernels", "A type that no card multiplies", 'Cost.matmul(64, 64, 64, "float8")', ValueError, "tf32, float16")
case(
    "kernels",
    "A type that this card does not multiply",
    'product = kernel(cost=Cost.matmul(64, 64, 64, "int8"))(lambda: None)\nawait LaunchKernel(product, 4, (), stream)',
    Kind.NOT_SUPPORTED,
    "example.py:3",
    "tiny multiplies no matrices of int8",
    "float32, float16",
)
case("kernels", "A negative cost", "Cost(us=-1)", ValueError, "us must be 0 or more")
case(
    "kernels",
    "A kernel that raises",
    "await LaunchKernel(broken, 1, (), stream)\nawait SynchronizeStream(stream)",
    Kind.LAUNCH_FAILURE,
    "submitted at",
    "a bug in the kernel",
    "ResetDevice()",
)
case(
    "kernels",
    "A call after that",
    "await LaunchKernel(broken, 1, (), stream)\nawait HostWork(50)\nawait Malloc(64)",
    Kind.LAUNCH_FAILURE,
    "broken",
    "ResetDevice()",
)
case(
    "host functions", "Something that cannot be called", "await LaunchHostFunc(stream, 42)", TypeError, "callable", "42"
)
case(
    "host functions",
    "A coroutine function",
    "await LaunchHostFunc(stream, asyncio.sleep)",
    TypeError,
    "coroutine function",
)
case(
    "host functions",
    "A function around a coroutine function",
    "await LaunchHostFunc(stream, lambda: asyncio.sleep(1))\nawait SynchronizeStream(stream)",
    Kind.HOST_FUNCTION_FAILURE,
    "TypeError: it returned a coroutine of sleep()",
    "await it in a task",
)
case(
    "host functions",
    "A coroutine function in a thread",
    "await HostThread(asyncio.sleep, 1)",
    TypeError,
    "the function of HostThread()",
    "await it in a task",
)
case(
    "host functions",
    "A negative duration",
    "await LaunchHostFunc(stream, print, us=-1)",
    ValueError,
    "us of a host function",
    "not -1",
)
case(
    "host functions",
    "One that raises",
    "await LaunchHostFunc(stream, bad_function)\nawait SynchronizeStream(stream)",
    Kind.HOST_FUNCTION_FAILURE,
    "bad_function",
    "a bug in the function",
)
case(
    "host functions",
    "The result of a future that was cancelled",
    "future = asyncio.get_running_loop().create_future()\nfuture.cancel()\n"
    "await LaunchHostFunc(stream, future.result)\nawait SynchronizeStream(stream)",
    Kind.HOST_FUNCTION_FAILURE,
    "host function result raised CancelledError",
)
case(
    "host functions",
    "One that calls the runtime",
    "await LaunchHostFunc(stream, lambda: SynchronizeStream(stream).send(None))\nawait SynchronizeStream(stream)",
    Kind.NOT_PERMITTED,
    "SynchronizeStream()",
    "host function",
)
case(
    "host functions",
    "A callback without a subscriber",
    "await LaunchCallback(print, None, 1, stream)",
    Kind.NO_SUBSCRIBER,
    "SubscribeReport()",
    rules="acl",
)
case(
    "host functions",
    "A second subscriber",
    "await SubscribeReport(None, stream)\nawait SubscribeReport(None, stream)",
    Kind.STREAM_SUBSCRIBED,
    "UnsubscribeReport()",
    rules="acl",
)
case(
    "host functions",
    "A report for nobody",
    "await ProcessReport(10)",
    Kind.NOT_A_SUBSCRIBER,
    "SubscribeReport()",
    rules="acl",
)
case(
    "host functions",
    "A report that does not come",
    "await SubscribeReport(None, stream)\nawait ProcessReport(10)",
    Kind.REPORT_TIMEOUT,
    "10 ms",
    rules="acl",
)

# --- devices, contexts, beginning and end

case("devices", "A device that there is not", "await SetDevice(99)", Kind.INVALID_DEVICE, "99", "devices 0 to")
case("devices", "A device by name", "await SetDevice('0')", Kind.INVALID_DEVICE, "'0'")
case("devices", "A negative device", "await SetDevice(-1)", Kind.INVALID_DEVICE, "-1")
case(
    "devices",
    "The primary context destroyed",
    "context = await GetCurrentContext()\nawait DestroyContext(context)",
    Kind.INVALID_CONTEXT,
    "ResetDevice()",
)
case(
    "devices",
    "A context destroyed twice",
    "context = await CreateContext(0)\nawait DestroyContext(context)\nawait DestroyContext(context)",
    Kind.INVALID_CONTEXT,
    "gone",
)
case("devices", "Something else for a context", "await SetCurrentContext(0)", TypeError, "CreateContext()")
case(
    "devices",
    "No context, under ACL's rules",
    "context = await CreateContext(0)\nawait DestroyContext(context)\nawait CreateStream()",
    Kind.INVALID_CONTEXT,
    "SetCurrentContext()",
    rules="acl",
)
case(
    "devices",
    "Reset once too often, under ACL's rules",
    "await ResetDevice(0)\nawait ResetDevice(0)",
    Kind.INVALID_DEVICE,
    "SetDevice()",
    rules="acl",
)
case("devices", "Finalize without Init", "await Finalize()", Kind.NOT_INITIALIZED, "Init()")
case(
    "devices",
    "Init a second time, under ACL's rules",
    "await Init()\nawait Init()",
    Kind.ALREADY_INITIALIZED,
    "ignore",
    rules="acl",
)
case(
    "devices",
    "A verb after Finalize",
    "await Init()\nawait Finalize()\nawait CreateStream()",
    Kind.FINALIZED,
    "finalised at",
)
case("devices", "Negative work of the host", "await HostWork(-5)", ValueError, "us of HostWork()", "not -5")
case(
    "devices",
    "Work of the host that is longer than simulated time",
    "await HostWork(1e16)",
    ValueError,
    "us of HostWork()",
    "4,611,686,018,427,387 us, 146 years",
    "1e+16",
)
case("devices", "Sleep for no number", "await Sleep(float('nan'))", ValueError, "nan")

# --- notifies and words

case("signals", "A notify, under CUDA's rules", "await CreateNotify()", Kind.NOT_SUPPORTED, "use events")
case(
    "signals",
    "A destroyed notify",
    "notify = await CreateNotify()\nawait DestroyNotify(notify)\nawait RecordNotify(notify, stream)",
    Kind.INVALID_HANDLE,
    "destroyed at",
    rules="acl",
)
case(
    "signals",
    "Something else for a notify",
    "await RecordNotify(event, stream)",
    TypeError,
    "CreateNotify()",
    rules="acl",
)
case(
    "signals",
    "A word at an odd address",
    "await ValueWrite(buffer + 4, 1, 0, stream)",
    Kind.INVALID_ADDRESS,
    "multiple of 8",
    rules="acl",
)
case(
    "signals",
    "A word of host memory",
    "await ValueWait(pinned, 1, 0, stream)",
    Kind.INVALID_ADDRESS,
    "device memory",
    rules="acl",
)
case(
    "signals",
    "A comparison that there is not",
    "await ValueWait(buffer, 1, 7, stream)",
    Kind.INVALID_VALUE,
    "flag 7",
    rules="acl",
)

# --- deadlocks

END = "nothing queued or running can end this wait"
_COMMS = "first, second = await CommInitAll(2)\n"
_ONE = "info = await GetRootInfo()\nfor_one = await CommInitRootInfo(1, info, 0)\n"
_SUM = '"float32", ReduceOp.SUM'
for title, code, parts, rules in (
    ("A rank that is there already", _ONE + "await CommInitRootInfo(1, info, 0)",
     ("has its communicator already", "GetRootInfo() once"), "cuda"),
    ("A rank that there is not", "info = await GetRootInfo()\nawait CommInitRootInfo(2, info, 2)",
     ("there is no rank 2 of 2", "0 to 1"), "cuda"),
    ("No ranks", "info = await GetRootInfo()\nawait CommInitRootInfo(0, info, 0)",
     ("a communicator of 0 ranks",), "cuda"),
    ("A communicator without devices", "await CommInitAll([])", ("without devices",), "cuda"),
    ("A device that is there twice", "await CommInitAll([0, 1, 0])", ("there 2 times", "device of its own"), "cuda"),
    ("A communicator that is destroyed", _COMMS + "await CommDestroy(first)\nawait Barrier(first, stream)",
     ("destroyed at", "make a new communicator"), "cuda"),
    ("A stream of another device", _COMMS + "await Barrier(second, stream)", ("pass a stream of device 1",), "cuda"),
    ("The default stream of another device", _COMMS + "await Barrier(second)", ("SetDevice(1) first",), "cuda"),
    ("A buffer on another device", _COMMS + "await SetDevice(1)\nother = await CreateStream()\n"
     f"await AllReduce(buffer, buffer, 4, {_SUM}, second, other)", ("of device 0", "memory of device 1"), "cuda"),
    ("A buffer of the host", _COMMS + f"await AllReduce(array, array, 4, {_SUM}, first, stream)",
     ("pageable host memory", "rank 0 of comm 1"), "cuda"),
    ("Buffers that overlap", _COMMS + f"await AllReduce(buffer, buffer[4:], 4, {_SUM}, first, stream)",
     ("overlap", "0 bytes inside"), "cuda"),
    ("A gather whose part stands in the wrong place",
     _COMMS + 'await AllGather(buffer[16:32], buffer, 4, "float32", first, stream)', ("overlap",), "cuda"),
    ("An exchange in place", _COMMS + 'await AlltoAll(buffer, 4, "int8", buffer, 4, "int8", first, stream)',
     ("overlap not at all",), "cuda"),
    ("A negative count", _COMMS + f"await AllReduce(buffer, buffer, -1, {_SUM}, first, stream)",
     ("-1 elements",), "cuda"),
    ("No count and no Array", _COMMS + f"await AllReduce(buffer, buffer, None, {_SUM}, first, stream)",
     ("no count", "pass Arrays"), "cuda"),
    ("No type and no Array", _COMMS + "await AllReduce(buffer, buffer, 4, None, ReduceOp.SUM, first, stream)",
     ("no data_type",), "cuda"),
    ("Arrays of two types", _COMMS + "x, y = Array(buffer, 'int8'), Array(buffer, 'int32')\n"
     "await AllReduce(x, y, None, None, ReduceOp.SUM, first, stream)", ("Arrays of int8 and int32",), "cuda"),
    ("Elements that cannot be shared", _COMMS + "x = Array(buffer[:12], 'int32')\n"
     "await AlltoAll(x, None, None, buffer[64:], None, None, first, stream)", ("3 elements for 2 ranks",), "cuda"),
    ("A type that collectives do not have",
     _COMMS + "await AllReduce(buffer, buffer, 4, 'complex64', ReduceOp.SUM, first, stream)", ("complex64",), "cuda"),
    ("A root that there is not", _COMMS + "await Broadcast(buffer, 4, 'int8', 2, first, stream)",
     ("no rank 2 for root",), "cuda"),
    ("Counts for other ranks",
     _COMMS + "await AlltoAllV(buffer, [1], [0], 'int8', buffer, [1, 1], [8, 9], None, first)",
     ("1 numbers in send_counts", "2 ranks"), "cuda"),
    ("A batch of nothing", _COMMS + "await BatchSendRecv([], first, stream)", ("without items",), "cuda"),
    ("The end of no group", "await GroupEnd()", ("without a group", "GroupStart() first"), "cuda"),
    ("An empty group", "await GroupStart()\nawait GroupEnd()", ("is empty",), "cuda"),
    ("A colour below -1", _COMMS + "await CommSplit(first, -2, 0)", ("color -2",), "cuda"),
    ("A sum of a type that HCCL does not reduce", _COMMS +
     "await AllReduce(buffer, buffer, 4, 'float64', ReduceOp.SUM, first, stream)", ("the sum of float64",), "acl"),
    ("A product of a type that HCCL does not multiply", _COMMS +
     "await AllReduce(buffer, buffer, 4, 'int16', ReduceOp.PROD, first, stream)", ("the prod of int16",), "acl"),
    ("An average under ACL's rules", _COMMS +
     "await AllReduce(buffer, buffer, 4, 'int8', ReduceOp.AVERAGE, first, stream)",
     ("divide the sum yourself",), "acl"),
):  # fmt: skip
    case("collectives", title, code, Kind.INVALID_COLLECTIVE, *parts, rules=rules)
case("collectives", "A group under ACL's rules", "await GroupStart()", Kind.NOT_SUPPORTED, "HCCL", rules="acl")
case("collectives", "A collective of no communicator", "await Barrier(stream)", TypeError, "a communicator must be")
case(
    "collectives",
    "A reduction by name",
    _COMMS + "await AllReduce(buffer, buffer, 4, 'int8', 'sum', first, stream)",
    TypeError,
    "op must be a ReduceOp",
)
case(
    "deadlocks",
    "Two streams that wait for one another",
    """\
fills, drains = await CreateStream(name='fills'), await CreateStream(name='drains')
full, empty = [await CreateEventWithFlag(EventFlag.SYNC, name=name) for name in ('full', 'empty')]
await StreamWaitEvent(fills, empty)
await RecordEvent(full, fills)
await StreamWaitEvent(drains, full)
await RecordEvent(empty, drains)
await SynchronizeStream(drains)""",
    acl_py.DeadlockError,
    "SynchronizeStream(stream 'drains') at example.py:9 can never end",
    "wait for Event 'full' on stream 'drains' (example.py:7) lasts until",
    "record of Event 'full' on stream 'fills' (example.py:6) waits for",
    "which closes the circle",
    "take out the wait for Event 'full' on stream 'drains' (example.py:7), or",
    rules="acl",
)
case(
    "deadlocks",
    "An event that no call records",
    """\
ready = await CreateEventWithFlag(EventFlag.SYNC)
await StreamWaitEvent(stream, ready)
await LaunchKernel(work, 1, (), stream)
await SynchronizeStream(stream)""",
    acl_py.DeadlockError,
    "work on stream 1 (example.py:5) waits for",
    f"wait for Event 2 on stream 1 (example.py:4): {END}",
    "record Event ",
    rules="acl",
)
case(
    "deadlocks",
    "A notify that no call records",
    """\
await WaitAndResetNotify(await CreateNotify(name='go'), stream)
await SynchronizeStream(stream)""",
    acl_py.DeadlockError,
    f"wait for Notify 'go' on stream 1 (example.py:3): {END}",
    "record Notify ",
    rules="acl",
)
case(
    "deadlocks",
    "A word that no call writes",
    """\
counters = await Malloc(64, name='counters')
await Memset(counters, 64, 0, 64)
await ValueWait(counters + 8, 1, 0, stream)
await SynchronizeStream(stream)""",
    acl_py.DeadlockError,
    f"wait for the word at 8 of allocation 'counters' to be GEQ 1 on stream 1 (example.py:5): {END}",
    "write that word",
    rules="acl",
)
case(
    "deadlocks",
    "A callback that no task asks for",
    """\
await SubscribeReport(None, stream)
await LaunchCallback(print, None, CallbackBlock.BLOCK, stream)
await SynchronizeStream(stream)""",
    acl_py.DeadlockError,
    f"callback print on stream 1 (example.py:4): {END}",
    "ProcessReport()",
    rules="acl",
)

# --- simulations

case(
    "simulations",
    "A run inside a run, as in a notebook cell",
    "acl_py.run(CreateStream)",
    RuntimeError,
    "running event loop",
    "simulate()",
    "in a notebook cell",
    "`await main()`",
)
case(
    "simulations",
    "A run of what a call has returned",
    "mine = CreateStream()\nacl_py.run(mine)",
    TypeError,
    "run(main, ...), not a coroutine of CreateStream()",
)
case(
    "simulations",
    "asyncio.run() where a loop runs, as in a notebook cell: `await` the coroutine instead",
    "mine = CreateStream()\nasyncio.run(mine)",
    RuntimeError,
    "running event loop",
)
case(
    "simulations",
    "A profile that there is not",
    "async with acl_py.simulate(device='h300'): pass",
    acl_py.ProfileError,
    "h300",
    "h200",
)
case(
    "simulations",
    "A board without a host and two devices",
    "from dataclasses import replace\nfrom device_model.profile import load\nreplace(load('ascend310'), devices=2)",
    acl_py.ProfileError,
    "ascend310",
    "run_mode 0",
    "2 devices",
    "is one device",
)
case(
    "simulations",
    "Rules that there are not",
    "async with acl_py.simulate(rules='opencl'): pass",
    ValueError,
    "opencl",
    "cuda",
)
case(
    "simulations", "No workers", "async with acl_py.simulate(workers=0): pass", ValueError, "workers must be 1 or more"
)
case(
    "simulations",
    "A host time that there is not",
    "async with acl_py.simulate(host_time='real'): pass",
    ValueError,
    "'real'",
)
case(
    "simulations",
    "A part of the sanitizer that there is not",
    "async with acl_py.simulate(sanitize='races'): pass",
    ValueError,
    "no part 'races'",
    "device, host, uninitialised, leaks, digest",
)
case(
    "sanitizer",
    "Effects that there are not",
    "async with acl_py.simulate(effects='late'): pass",
    ValueError,
    "effects must be 'strong' or 'weak' or 'torn', not 'late'",
)
SUPPRESSIONS = "from acl_py.sanitizer.suppressions import read\n"
case(
    "simulations",
    "A suppression without a reason",
    SUPPRESSIONS + "read({'suppress': [{'site': 'demo.py:41'}]}, 'pyproject.toml')",
    ValueError,
    "pyproject.toml: suppression 1 is {'site': 'demo.py:41'}",
    "with a reason in both",
)
case(
    "simulations",
    "A suppression of an id that no finding can have",
    SUPPRESSIONS + "read({'suppress': [{'id': 'rce-1e00ec15', 'reason': 'harmless'}]}, 'pyproject.toml')",
    ValueError,
    "no finding has the id 'rce-1e00ec15'",
)
case(
    "simulations",
    "A stream of another simulation",
    "async with acl_py.simulate(device='tiny'): theirs = await CreateStream()\nawait SynchronizeStream(theirs)",
    Kind.INVALID_HANDLE,
    "another simulation",
)
case(
    "simulations",
    "An event of another simulation",
    "async with acl_py.simulate(device='tiny'): theirs = await CreateEvent()\nawait RecordEvent(theirs, stream)",
    Kind.INVALID_HANDLE,
    "another simulation",
)
case(
    "simulations",
    "A buffer that has outlived its simulation",
    "async with acl_py.simulate(device='tiny'): theirs = await Malloc(64)\nawait Memcpy(pinned, 64, theirs, 64, D2H)",
    Kind.INVALID_ADDRESS,
    "another simulation",
)
case(
    "simulations",
    "A wait for work of another simulation",
    "async with acl_py.simulate(device='tiny'): theirs = await LaunchKernel(work, 1)\nawait theirs",
    Kind.INVALID_HANDLE,
    "another simulation",
)
case("simulations", "A fault rule that looks at nothing", "acl_py.faults.fail(nth=1)", ValueError, "call=...", "op=...")


PARSE = "from acl_py.programs.format import parse\n"
LAUNCH = "{'op': 'launch', 'stream': 'legacy', 'us': 1}"
case(
    "files",
    "A program with a step that there is not",
    PARSE + "parse({'id': 'mine', 'steps': [{'op': 'lanch'}]})",
    ProgramError,
    "program 'mine': step 0",
    "did you mean launch?",
)
case(
    "files",
    "A program that names what there is not",
    PARSE + f"parse({{'id': 'mine', 'steps': [{LAUNCH} | {{'stream': 'A'}}]}})",
    ProgramError,
    "step 0 (launch): stream: there is no stream 'A'",
    "legacy, per_thread",
)
case(
    "files",
    "A program with a time that is none",
    PARSE + f"parse({{'id': 'mine', 'steps': [{LAUNCH} | {{'us': 1e300}}]}})",
    ProgramError,
    "us: must be microseconds",
    "not 1e+300",
)
case(
    "files",
    "A file of programs that is not there",
    "from acl_py.programs.format import load\nload('missing.json')",
    ProgramError,
    "missing.json: cannot be read",
)
case(
    "files",
    "A profile that is not there",
    "async with acl_py.simulate(device='missing.toml'): pass",
    acl_py.ProfileError,
    "missing.toml",
)

# --- scripts that say `import acl`

case(
    "scripts",
    "A script that is not there",
    "from acl_py.tools.scripts import run\nrun('missing.py')",
    ScriptError,
    "can't open file 'missing.py': No such file or directory",
)
case(
    "scripts",
    "A script that is both a module and a program",
    "from acl_py.cli import run_command\nrun_command('script', is_module=True, is_text=True, context=None)",
    typer.BadParameter,
    "-m and -c exclude each other",
)
OPTIONS = "from acl_py.compat.acl.processes import read_options\n"
case(
    "scripts",
    "ACL_PY_RUN with an option that there is not",
    OPTIONS + 'read_options(\'{"card": "ascend310p3"}\')',
    ValueError,
    "ACL_PY_RUN has the option 'card'",
    "only device, devices",
)
case("scripts", "ACL_PY_RUN that is not JSON", OPTIONS + "read_options('ascend310p3')", ValueError, "is not JSON")
case(
    "scripts",
    "ACL_PY_RUN with a path where a list must be",
    OPTIONS + 'read_options(\'{"models": "/srv/models"}\')',
    ValueError,
    "must have a list of paths in 'models'",
)
case(
    "scripts",
    "A model with two tensors of one name",
    "from acl_py.compat.acl import Tensor, register_model\n"
    "data = Tensor('data', 'float32', (4,))\n"
    "register_model('net.om', [data], [data, Tensor('prob', 'float32', (4,))])(lambda x: (x, x))",
    ValueError,
    "more than one is named data",
)
case(
    "scripts",
    "A kernel of a binary with two parameters of one name",
    "from acl_py.compat.acl import Parameter, register_kernel\n"
    "x = Parameter('x', 'float32', 'inout')\n"
    "register_kernel('add.o', [x, x, Parameter('n', 'int32')], name='add')(lambda x, y, n: None)",
    ValueError,
    "add: parameters must have different names; more than one is named x",
)
case(
    "scripts",
    "A decoder for a codec that there is not",
    "from acl_py.compat.acl import register_decoder\nregister_decoder('vp9')(lambda settings: None)",
    ValueError,
    "there is no codec 'vp9'; there are h264, h265",
)
case(
    "scripts",
    "A slice that goes beyond its input",
    "from acl_py.compat.acl.standins.operators import operator_of\n"
    "operator_of('Slice').function(array.reshape(64, 64), [0, 60], [64, 8])",
    ValueError,
    "offsets [0, 60] and size [64, 8] go beyond x",
    "[64, 64]",
)
