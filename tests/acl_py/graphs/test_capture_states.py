"""Each verb in each state of a capture: it becomes a node, is refused, or has nothing to do with captures.

Whatever happens, nothing captured runs, EndCapture() gives a graph or says what lost the capture, and then all streams
work again.
"""

from contextlib import redirect_stdout, suppress
from io import StringIO

import numpy as np
import pytest
from histories import busy, history

import acl_py as acl
from acl_py import CaptureStatus, Kind, current_simulation
from tests.acl_py.misuse.cases import NAMES
from tests.acl_py.test_api_docstrings import CALLS, execute, is_there

captured, ran = busy("captured", 10), busy("ran", 10)
STAGE = """\
event, fresh, fork = await CreateEvent(), await CreateEvent(), await CreateEvent()
context = await GetCurrentContext()
pooled = await MallocAsync(4096)
buffer, pinned = await Malloc(4096), await MallocHost(4096)
array = np.zeros(4096, np.uint8)
registered = await HostRegister(np.zeros(64, np.uint8))
if acl:
    flag, notify = await CreateEventWithFlag(EventFlag.SYNC), await CreateNotify()
    bystander = await CreateStream()
    await BeginCapture(bystander, 2)
    await CaptureTaskGrpBegin(bystander)
    group = await CaptureTaskGrpEnd(bystander)
    await EndCapture(bystander)
    await Init()
await RecordEvent(event)
await RecordEvent(fresh)
idle, origin, other = [await CreateStream(nonblocking=True) for _ in range(3)]
graph = await GraphCreate()
executable = await GraphInstantiate(graph)
[comm] = await CommInitAll(1)
await SynchronizeDevice()
await BeginCapture(origin, CaptureMode.{mode})
await LaunchKernel(captured, 1, (), origin)
"""
DRAW_IN = """\
await RecordEvent(fork, origin)
await StreamWaitEvent(other, fork)
await LaunchKernel(captured, 1, (), other)
"""
JOIN = """\
await RecordEvent(fork, other)
await StreamWaitEvent(origin, fork)
"""
LOSE = """\
with suppress(AclError):
    await SynchronizeStream(origin)
"""
# The lines that lead to a state, the stream that is called `stream` there, and the mode of the capture.
STATES = {
    "on its origin": ("", "origin", "GLOBAL"),
    "on a stream drawn in": (DRAW_IN, "other", "GLOBAL"),
    "on its origin, lost": (LOSE, "origin", "GLOBAL"),
    "on a stream drawn in, lost": (DRAW_IN + LOSE, "other", "GLOBAL"),
    "beside a global one": ("", "idle", "GLOBAL"),
    "beside a relaxed one": ("", "idle", "RELAXED"),
}
EACH = CALLS | {
    "LaunchHostFunc": "await LaunchHostFunc(stream, dict)",
    "StreamWaitEvent": "await StreamWaitEvent(stream, event)",
    "MemcpyAsync": "await MemcpyAsync(buffer, 64, pinned, 64, MemcpyKind.DEFAULT, stream)",
    "Memcpy2dAsync": "await Memcpy2dAsync(buffer, 8, pinned, 8, 4, 4, MemcpyKind.DEFAULT, stream)",
    "Memcpy": "await Memcpy(buffer, 64, pinned, 64, MemcpyKind.DEFAULT)",
    "Memset": "await Memset(buffer, 64, 0, 64)",
    "CommDestroy": "await CommDestroy(comm)",
    "CommAbort": "await CommAbort(comm)",
}
REFUSED = {"MemcpyBatchAsync"}  # the capture goes on
# What these verbs do with `stream`. All others have nothing to do with captures.
NODES = {
    "MallocAsync", "MemsetAsync", "MemcpyAsync", "Memcpy2dAsync", "LaunchKernel", "LaunchHostFunc", "RecordEvent",
    "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter", "Scatter", "AlltoAll", "AlltoAllV", "AlltoAllVC",
    "Barrier", "Send", "Recv", "BatchSendRecv", "GroupEnd",
}  # fmt: skip
OTHERS = {"FreeAsync": Kind.INVALID_VALUE, "StreamWaitEvent": Kind.CAPTURE_ISOLATION}  # with what was made outside
NO_NODES = {
    "SynchronizeStream", "SynchronizeStreamWithTimeout", "StreamQuery", "StreamAbort", "SetStreamFailureMode",
    "ResetEvent", "RecordNotify", "WaitAndResetNotify", "ValueWrite", "ValueWait", "GraphUpload", "GraphLaunch",
    "LaunchCallback", "UnsubscribeReport", "ProcessReport",
}  # fmt: skip
WAIT_FOR_DEVICE = {"SynchronizeDevice", "SynchronizeDeviceWithTimeout"}
ENDS_STREAM = {"DestroyStream", "DestroyStreamForce"}
ENDS = {"Finalize", "ResetDevice", "ResetDeviceForce"}  # other tests have them
UNSAFE = {
    "cuda": {
        "Malloc", "Free", "FreeWithDevSync", "MallocHost", "FreeHost", "FreeHostWithDevSync", "HostRegister",
        "HostUnregister", "SynchronizeStream", "SynchronizeStreamWithTimeout", "StreamQuery", "QueryEventStatus",
        "SynchronizeEvent", "SynchronizeEventWithTimeout", "Memcpy", "Memset",
    },
    "acl": {"Memcpy", "Memset"},
}  # fmt: skip
GONE = "gone"


def expected(name, rules, state):
    """The kind of error with which a call of the verb ends, and the status of the capture afterwards."""
    is_on, is_lost, mode = state.startswith("on"), state.endswith("lost"), STATES[state][2]
    status = CaptureStatus.INVALIDATED if is_lost else CaptureStatus.ACTIVE
    if name in WAIT_FOR_DEVICE or (name in UNSAFE[rules] and mode == "GLOBAL"):
        return Kind.CAPTURE_UNSUPPORTED, CaptureStatus.INVALIDATED
    if not is_on:
        return None, status
    if name in ENDS_STREAM:
        return None, GONE if "origin" in state else status
    if is_lost and name in NODES | NO_NODES | REFUSED | OTHERS.keys():
        return Kind.CAPTURE_INVALIDATED, status
    if name in NO_NODES or name == "StreamWaitEvent":
        return OTHERS.get(name, Kind.CAPTURE_UNSUPPORTED), CaptureStatus.INVALIDATED
    if name in REFUSED:
        return Kind.CAPTURE_UNSUPPORTED, status
    return OTHERS.get(name), status


async def outcome(name, state, names):
    """The same as it is. Then the capture ends, and its streams work."""
    lines, stream, mode = STATES[state]
    await execute(STAGE.replace("{mode}", mode) + lines, names)
    names["stream"] = names[stream]
    kind = None
    try:
        await execute(EACH[name], names)
    except acl.AclError as error:
        kind = error.kind
    await acl.SetCurrentContext(names["context"])
    status = await end(names, stream)
    for each in (names["origin"], names["other"]):
        if each.destroyed is None:
            await ran[1, each]()
            await acl.SynchronizeStream(each)
    done = {op for op, *_ in history(current_simulation())}
    assert "captured" not in done
    assert done == {"ran"} or name in UNSAFE["acl"] or state.startswith("beside")
    return kind, status


async def end(names, stream):
    """End the capture; return its status before that. A stream that was drawn in cannot join when it is destroyed."""
    origin, other = names["origin"], names["other"]
    if origin.destroyed is not None or await acl.IsCapturing(origin) is CaptureStatus.NONE:
        return GONE
    status = await acl.IsCapturing(origin)
    if status is CaptureStatus.INVALIDATED:
        with pytest.raises(acl.AclError) as caught:
            await acl.EndCapture(origin)
        assert caught.value.kind is Kind.CAPTURE_INVALIDATED
    elif other.destroyed is not None:
        with pytest.raises(acl.AclError) as caught:
            await acl.EndCapture(origin)
        assert caught.value.kind is Kind.CAPTURE_UNJOINED
    else:
        await execute(JOIN if stream == "other" else "", names)
        assert (await acl.EndCapture(origin)).nodes[0].name == "captured"
    return status


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rules", ["cuda", "acl"])
@pytest.mark.parametrize("state", STATES)
def test_each_verb_has_the_outcome_of_its_group(state, rules):
    found, wanted = {}, {}
    for name in EACH:
        reports = "Report" in EACH[name] or name == "LaunchCallback"
        if name in ENDS or (name in CALLS and not is_there(name, rules)) or (reports and state.startswith("beside")):
            continue  # without a subscriber there are no reports

        async def main(name=name):
            names = NAMES | {"np": np, "long": ran, "captured": captured, "acl": rules == "acl", "suppress": suppress}
            return await outcome(name, state, names)

        with redirect_stdout(StringIO()):
            found[name] = acl.run(main, device="tiny", rules=rules, workers=1)
        wanted[name] = expected(name, rules, state)
    assert found == wanted
    assert len(found) > 60
