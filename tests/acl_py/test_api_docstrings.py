"""What help() says of each verb is complete, and true: arguments, waits under each rule set, errors, examples."""

import contextlib
import inspect
import io
import re
import textwrap

import numpy as np
import pytest
from histories import busy, tiny

import acl_py
from acl_py import Kind, current_simulation
from device_model.rules import RULES
from tests.acl_py.misuse.cases import CASES, NAMES
from tests.acl_py.misuse.run import code_of

VERBS = {name: verb for name, verb in vars(acl_py.public).items() if inspect.iscoroutinefunction(verb)}
SECTIONS = ("Args", "Waits", "Returns", "Raises", "Example")
# What acl_py.verbs says once for all verbs; the last two are failures of a context.
COMMON = {
    Kind.GROUP_WORK, Kind.GROUP_INTERRUPTED,
    Kind.NOT_INITIALIZED, Kind.FINALIZED, Kind.NOT_PERMITTED, Kind.INVALID_CONTEXT,
    Kind.LAUNCH_FAILURE, Kind.HOST_FUNCTION_FAILURE,
}  # fmt: skip


def sections_of(verb):
    """The sections of its docstring by name; the text before the first is under "". They come in one order."""
    parts = re.split(r"^([A-Z][a-z]+):\n", inspect.getdoc(verb), flags=re.MULTILINE)
    names = parts[1::2]
    assert names == [name for name in SECTIONS if name in names], f"{verb.__name__} has sections {names}"
    return {"": parts[0]} | dict(zip(names, map(textwrap.dedent, parts[2::2]), strict=True))


def items_of(text):
    """The items of a section by name, each on one line: "name: text", with further lines indented."""
    joined = re.sub(r"\n +", " ", text.strip())
    return dict(line.split(": ", 1) for line in joined.splitlines())


def waits_of(verb, rules):
    """What the verb says of its waits under *rules*."""
    return [
        text
        for names, text in items_of(sections_of(verb)["Waits"]).items()
        if names == "all rules" or rules in names.split(", ")
    ]


def test_a_docstring_has_all_its_parts():
    for name, verb in VERBS.items():
        sections, signature = sections_of(verb), inspect.signature(verb)
        assert re.match(r"[A-Z]\w+ .*\.\n\nStands for ", re.sub(r"(?<!\n)\n(?!\n)", " ", sections[""])), name
        assert list(items_of(sections.get("Args", ""))) == list(signature.parameters), name
        assert all(waits_of(verb, rules) for rules in RULES), name
        assert ("Returns" in sections) == (signature.return_annotation is not None), name


def test_a_docstring_names_kinds_of_errors_that_there_are():
    kinds = {kind.name for kind in Kind}
    for name, verb in VERBS.items():
        errors = items_of(sections_of(verb).get("Raises", "")).get("AclError", "")
        assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", errors)) <= kinds, name


def verb_of(case):
    """The verb that refuses the call of *case*; None if every verb would, or something else does."""
    called = re.search(r"await ([A-Z]\w+)\(", case.misuse)
    return None if called is None or case.kind in COMMON else VERBS.get(called[1])


def is_in_the_docstring(case):
    """Whether the docstring of the verb that refuses the call of *case* says so."""
    raises = items_of(sections_of(verb_of(case)).get("Raises", ""))
    if isinstance(case.kind, Kind):
        return any(text in raises["AclError"] for text in (case.kind.name, "kind of the failure"))
    return not raises.keys().isdisjoint((case.kind.__name__, "BaseException"))


def test_a_mistake_is_in_the_docstring_of_its_verb():
    cases = list(filter(verb_of, CASES))
    assert [f"{case.noun}: {case.title}" for case in cases if not is_in_the_docstring(case)] == []
    assert len(cases) > 100


# --- examples

PRELUDE = """\
stream, other, event = await CreateStream(), await CreateStream(), await CreateEvent()
buffer, pinned, array = await Malloc(1 << 20), await MallocHost(1 << 20), np.zeros(4096, np.uint8)
[comm], gradients = await CommInitAll(1), Array(buffer, np.float32)
"""
WITH_EXAMPLE = [name for name, verb in VERBS.items() if "Example" in sections_of(verb)]


async def execute(text, names):
    coroutine = eval(code_of(text), names)
    if coroutine is not None:
        await coroutine


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_an_example_runs(name):
    verb = VERBS[name]
    refused = "the call is refused" in waits_of(verb, "cuda")[0] or "no notifies" in waits_of(verb, "cuda")[0]

    async def main():
        names = NAMES | {"np": np}
        await execute(PRELUDE, names)
        begin = len(current_simulation().trace.calls)
        await execute(sections_of(verb)["Example"], names)
        await acl_py.SynchronizeDevice()
        return {call.name for call in current_simulation().trace.calls[begin:]}

    with contextlib.redirect_stdout(io.StringIO()):
        called = acl_py.run(main, device="tiny", rules="acl" if refused else "cuda", workers=1)
    assert verb.__name__ in called


# --- waits

US = 50_000
LONG = busy("long", US)
STAGE = """\
stream, event, fresh = await CreateStream(), await CreateEvent(), await CreateEvent()
context = await GetCurrentContext()
buffer, pinned, pooled = await Malloc(4096), await MallocHost(4096), await MallocAsync(4096, stream)
array = np.zeros(4096, np.uint8)
registered = await HostRegister(np.zeros(64, np.uint8))
if acl:
    flag, notify = await CreateEventWithFlag(EventFlag.SYNC), await CreateNotify()
    bystander = await CreateStream()
    await BeginCapture(bystander, 2)
    await CaptureTaskGrpBegin(bystander)
    group = await CaptureTaskGrpEnd(bystander)
    await EndCapture(bystander)
    await SubscribeReport(None, stream)
await Init()
await RecordEvent(fresh, stream)
await LaunchKernel(long, 1, (), stream)
await RecordEvent(event, stream)
idle = await CreateStream(nonblocking=True)
graph = await GraphCreate()
executable = await GraphInstantiate(graph)
"""
COMMUNICATOR = "[comm] = await CommInitAll(1)"  # traces of form 10 have none
# How each verb is called beside a kernel in `stream`; lines before the last set the stage.
CALLS = dict(
    line.split(": ", 1)
    for line in """\
Finalize: await Finalize()
SetDevice: await SetDevice(0)
GetDevice: await GetDevice()
GetDeviceCount: await GetDeviceCount()
GetRunMode: await GetRunMode()
ResetDevice: await ResetDevice(0)
ResetDeviceForce: await ResetDeviceForce(0)
SynchronizeDevice: await SynchronizeDevice()
SynchronizeDeviceWithTimeout: await SynchronizeDeviceWithTimeout(1000)
CreateContext: await CreateContext(0)
SetCurrentContext: await SetCurrentContext(context)
GetCurrentContext: await GetCurrentContext()
DeviceCanAccessPeer: await DeviceCanAccessPeer(0, 0)
DevicePeerAccessStatus: await DevicePeerAccessStatus(0, 0)
Malloc: await Malloc(4096)
Free: await Free(buffer)
FreeWithDevSync: await FreeWithDevSync(buffer)
MallocHost: await MallocHost(64)
FreeHost: await FreeHost(pinned)
FreeHostWithDevSync: await FreeHostWithDevSync(pinned)
HostRegister: await HostRegister(array)
HostUnregister: await HostUnregister(registered)
MallocAsync: await MallocAsync(4096, stream)
FreeAsync: await FreeAsync(pooled, stream)
SetMemPoolThreshold: await SetMemPoolThreshold(4096)
GetMemInfo: await GetMemInfo()
CreateStream: await CreateStream()
CreateStreamWithConfig: await CreateStreamWithConfig(0, 0)
DeviceGetStreamPriorityRange: await DeviceGetStreamPriorityRange()
StreamGetPriority: await StreamGetPriority(stream)
GetStreamAvailableNum: await GetStreamAvailableNum()
DestroyStream: await DestroyStream(stream)
DestroyStreamForce: await DestroyStreamForce(stream)
StreamAbort: await StreamAbort(stream)
SynchronizeStream: await SynchronizeStream(stream)
SynchronizeStreamWithTimeout: await SynchronizeStreamWithTimeout(stream, 1000)
StreamQuery: await StreamQuery(stream)
StreamWaitEvent: await StreamWaitEvent(None, event)
CreateEvent: await CreateEvent()
CreateEventWithFlag: await CreateEventWithFlag(EventFlag.SYNC)
CreateEventExWithFlag: await CreateEventExWithFlag(EventFlag.SYNC)
DestroyEvent: await DestroyEvent(event)
RecordEvent: await RecordEvent(event, stream)
ResetEvent: await ResetEvent(flag, stream)
QueryEventWaitStatus: await QueryEventWaitStatus(flag)
GetEventTimestamp: await GetEventTimestamp(fresh)
GetEventAvailNum: await GetEventAvailNum()
QueryEventStatus: await QueryEventStatus(event)
SynchronizeEvent: await SynchronizeEvent(event)
SynchronizeEventWithTimeout: await SynchronizeEventWithTimeout(event, 1000)
EventElapsedTime: await EventElapsedTime(fresh, fresh)
MemsetAsync: await MemsetAsync(buffer, 4096, 0, 4096, stream)
LaunchKernel: await LaunchKernel(long, 1, (), stream)
LaunchHostFunc: await LaunchHostFunc(None, dict)
SubscribeReport: await SubscribeReport(None, bystander)
UnsubscribeReport: await UnsubscribeReport(None, stream)
LaunchCallback: await LaunchCallback(print, 0, 0, stream)
ProcessReport: await LaunchCallback(len, "", 0, stream); await ProcessReport(-1)
CreateNotify: await CreateNotify()
DestroyNotify: await DestroyNotify(notify)
RecordNotify: await RecordNotify(notify, stream)
WaitAndResetNotify: await WaitAndResetNotify(notify, stream)
ResetNotifies: await ResetNotifies([notify])
ValueWrite: await ValueWrite(buffer, 1, 0, stream)
ValueWait: await ValueWait(buffer, 1, 0, stream)
HostWork: await HostWork(1)
Sleep: await Sleep(100_000)
HostThread: await HostThread(len, "")
GetLastError: await GetLastError()
PeekAtLastError: await PeekAtLastError()
SetStreamFailureMode: await SetStreamFailureMode(stream, 1)
SetOpWaitTimeOut: await SetOpWaitTimeOut(1)
SetOpExecuteTimeOut: await SetOpExecuteTimeOut(1)
BeginCapture: await BeginCapture(idle, 2)
BeginCaptureToGraph: await BeginCaptureToGraph(idle, graph, (), 2)
EndCapture: await BeginCapture(idle, 2); await EndCapture(idle)
IsCapturing: await BeginCapture(idle, 2); await IsCapturing(idle)
CaptureInfo: await BeginCapture(idle, 2); await CaptureInfo(idle)
ThreadExchangeStreamCaptureMode: await ThreadExchangeStreamCaptureMode(0)
GraphCreate: await GraphCreate()
GraphAddEmptyNode: await GraphAddEmptyNode(graph)
GraphAddChildGraphNode: await GraphAddChildGraphNode(graph, await GraphCreate())
GraphAddIfNode: await GraphAddIfNode(graph)
GraphAddNode: await GraphAddNode(graph, call)
GraphAddConditionalNode: await GraphAddConditionalNode(graph, Condition(0), NodeKind.IF)
GraphAddDependencies: await GraphAddDependencies(graph, ())
GraphRemoveDependencies: await GraphRemoveDependencies(graph, ())
GraphDestroyNode: await GraphDestroyNode(await GraphAddEmptyNode(graph))
GraphNodeSetWork: node = await GraphAddNode(graph, call); await GraphNodeSetWork(node, call)
GraphExecNodeSetWork: node, made = await one_node(); await GraphExecNodeSetWork(made, node, call)
GraphNodeSetEnabled: node, made = await one_node(); await GraphNodeSetEnabled(made, node, 0)
UpdateCaptureDependencies: await BeginCapture(idle, 2); await UpdateCaptureDependencies(idle, ())
GraphClone: await GraphClone(graph)
GraphDestroy: await GraphDestroy(graph)
GraphInstantiate: await GraphInstantiate(graph)
GraphUpload: await GraphUpload(executable, stream)
GraphLaunch: await GraphLaunch(executable, stream)
GraphExecUpdate: await GraphExecUpdate(executable, graph)
GraphExecDestroy: await GraphExecDestroy(executable)
CaptureTaskGrpBegin: await BeginCapture(idle, 2); await CaptureTaskGrpBegin(idle)
CaptureTaskGrpEnd: await BeginCapture(idle, 2); await CaptureTaskGrpBegin(idle); await CaptureTaskGrpEnd(idle)
CaptureTaskUpdateBegin: await CaptureTaskUpdateBegin(idle, group)
CaptureTaskUpdateEnd: await CaptureTaskUpdateBegin(idle, group); await CaptureTaskUpdateEnd(idle)
SetExceptionInfoCallback: await SetExceptionInfoCallback(None)
GetRootInfo: await GetRootInfo()
CommInitRootInfo: await CommInitRootInfo(1, await GetRootInfo(), 0)
CommInitAll: await CommInitAll(1)
CommSplit: await CommSplit(comm, 0, 0)
CommDestroy: await Barrier(comm, stream); await CommDestroy(comm)
CommAbort: await Barrier(comm, stream); await CommAbort(comm)
GetRankSize: await GetRankSize(comm)
GetRankId: await GetRankId(comm)
GetCommAsyncError: await GetCommAsyncError(comm)
GroupStart: await GroupStart()
GroupEnd: await GroupStart(); await Barrier(comm, stream); await GroupEnd()
AllReduce: await AllReduce(buffer, buffer, 16, "float32", ReduceOp.SUM, comm, stream)
Reduce: await Reduce(buffer, buffer, 16, "float32", ReduceOp.SUM, 0, comm, stream)
Broadcast: await Broadcast(buffer, 16, "float32", 0, comm, stream)
AllGather: await AllGather(buffer, buffer, 16, "float32", comm, stream)
ReduceScatter: await ReduceScatter(buffer, buffer, 16, "float32", ReduceOp.MAX, comm, stream)
Scatter: await Scatter(buffer, buffer, 16, "float32", 0, comm, stream)
AlltoAll: await AlltoAll(buffer, 16, "float32", buffer[512:], 16, "float32", comm, stream)
AlltoAllV: await AlltoAllV(buffer, [16], [0], "int32", buffer, [16], [64], None, comm, stream)
AlltoAllVC: await AlltoAllVC(buffer, [[16]], "int32", buffer[512:], None, comm, stream)
Barrier: await Barrier(comm, stream)
Send: await Send(buffer, 16, "float32", 0, comm, stream)
Recv: await Recv(buffer, 16, "float32", 0, comm, stream)
MemcpyBatchAsync: await MemcpyBatchAsync([(buffer, 64, pinned, 64)], stream)
BatchSendRecv: await BatchSendRecv([(CollectiveKind.SEND, buffer, 16, "int8", 0)], comm, stream)
""".splitlines()
)
# Their waits depend on where the memory is, or take two devices or a context of their own: other tests compare them.
ELSEWHERE = set(
    """
    MemcpyAsync MemcpyAsyncWithCondition Memcpy Memcpy2dAsync Memcpy2d Memset Init DestroyContext
    DeviceEnablePeerAccess DeviceDisablePeerAccess EventRecord EventQuery EventSynchronize
    MallocManaged MemPrefetchAsync MemAdvise StreamAttachMemAsync PointerGetAttributes MemRangeGetAttribute
""".split()
)


def test_every_verb_is_called_beside_a_kernel():
    missing = VERBS.keys() - CALLS.keys() - ELSEWHERE
    assert not missing, f"add a call of {sorted(missing)} to CALLS in tests/acl_py/test_api_docstrings.py"
    assert CALLS.keys() | ELSEWHERE == VERBS.keys()
    assert not CALLS.keys() & ELSEWHERE


def is_there(name, rules):
    """Whether *rules* have the verb, and what it is called with here."""
    is_of_acl = re.search(r"\b(flag|notify)\b", CALLS[name]) is not None
    return "the call is refused" not in waits_of(VERBS[name], rules)[0] and (rules == "acl" or not is_of_acl)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "rules"), [(name, rules) for name in CALLS for rules in RULES if is_there(name, rules)]
)
def test_a_verb_waits_as_its_docstring_says(name, rules):
    [says] = waits_of(VERBS[name], rules)
    waits = not says.startswith(("For nothing", "Only"))

    @tiny(rules=rules)
    async def program():
        sim = current_simulation()
        names = NAMES | {"np": np, "long": LONG, "acl": rules == "acl"}
        await execute(STAGE + COMMUNICATOR, names)
        begin_ns = sim.now_ns
        await execute(CALLS[name], names)
        assert (sim.now_ns - begin_ns >= US * 900) == waits

    program()
