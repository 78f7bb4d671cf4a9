"""Form 10 of saved traces, which kept what a call was about in place of its act. It is read for one version."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acl_py.calls.acts import (
    PLAIN,
    SLEPT,
    Act,
    Asked,
    Awaited,
    Began,
    CallbackBegan,
    CallbackEnded,
    CaptureBegan,
    CaptureEnded,
    Cleared,
    Completed,
    Destroyed,
    Ended,
    GraphLaunched,
    GraphUpdated,
    HandedOver,
    Made,
    NodeAdded,
    Plain,
    Queued,
    Recorded,
    Set,
    Synchronised,
    Waited,
    Word,
)  # fmt: skip
from acl_py.trace.rows.timeline import Extent, Prefetched, Ref, Thing

VERSION = 10
MISSING = ("exports", "hosts", "handovers", "host_watched", "handovers_watched", "source")  # what the form did not keep


def act_of(name: str, about: Sequence[Thing]) -> Act[Thing]:
    """Return the act of a call of *name* that was *about* these things.

    Raises:
        TypeError: No call of this name is about them.
    """
    make: Callable[..., Any] = _ACTS.get(name, _plain)
    act: Act[Thing] = make(*about)
    return act


def _plain(*about: Any) -> Any:
    return Plain(about)


def _queued(*about: Any) -> Any:
    if not about:
        return PLAIN
    return Queued(None, *about) if len(about) == 1 else Queued(*about)


def _prefetched(memory: Extent, stream: Any, start: int, nbytes: int, location: int) -> Any:
    return Queued(Prefetched(memory[0], start, nbytes, location), stream)


def _node(graph: Any, *rest: Any, child: Any = None, default: int | None = None) -> Any:
    bodies = tuple(each for each in rest if isinstance(each, Ref))
    return NodeAdded(graph, child, default, bodies, tuple(each for each in rest if not isinstance(each, Ref)))


def _made(thing: Any) -> Any:
    return Made(None, thing)


def _of(names: str, make: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return dict.fromkeys(names.split(), make)


_ACTS: Mapping[str, Callable[..., Any]] = {
    **_of("MemcpyAsync Memcpy2dAsync MemsetAsync LaunchKernel", _queued),
    **_of("Memcpy Memcpy2d Memset", lambda work: Completed(None if work == "None" else work)),
    **_of("Malloc MallocHost HostRegister MallocManaged MallocAsync", Began),
    **_of("Free FreeWithDevSync FreeHost FreeHostWithDevSync HostUnregister FreeAsync", Ended),
    **_of("CreateStream CreateStreamWithConfig CreateEvent CreateEventWithFlag CreateEventExWithFlag", _made),
    **_of("CreateNotify CreateContext GraphCreate", _made),
    **_of("DestroyStream DestroyEvent DestroyNotify DestroyContext ResetDevice ResetDeviceForce", Destroyed),
    **_of("GraphDestroy GraphExecDestroy", Destroyed),
    **_of("SynchronizeStream SynchronizeEvent SynchronizeDevice await", Synchronised),
    **_of("SynchronizeStreamWithTimeout SynchronizeEventWithTimeout SynchronizeDeviceWithTimeout", Synchronised),
    **_of("StreamQuery QueryEventStatus StreamGetPriority IsCapturing CaptureInfo", Asked),
    **_of("BeginCapture BeginCaptureToGraph", lambda stream, mode, graph, *behind: CaptureBegan(
        stream, mode, graph, behind)),
    **_of("Sleep HostWork time.sleep", lambda: SLEPT),
    "DestroyStreamForce": lambda stream: Destroyed(stream, 1),
    "QueryEventWaitStatus": lambda event, answer: Asked(event, answer, 1),
    "LaunchHostFunc": lambda stream, work: Queued(work, stream),
    "MemPrefetchAsync": _prefetched,
    "RecordEvent": Recorded,
    "StreamWaitEvent": Waited,
    "ResetEvent": Cleared,
    "RecordNotify": lambda notify, stream: Set(notify, None, stream),
    "ValueWrite": lambda memory, offset, value, stream: Set(Word(memory, offset), value, stream),
    "WaitAndResetNotify": lambda notify, stream, limit_s: Awaited(notify, None, None, stream, limit_s),
    "ValueWait": lambda memory, offset, value, compare, stream: Awaited(Word(memory, offset), value, compare, stream),
    "LaunchCallback": HandedOver,
    "ProcessReport": CallbackBegan,
    "EndReport": CallbackEnded,
    "EndCapture": CaptureEnded,
    "GraphClone": lambda graph, clone, *bodies: Made(graph, clone, bodies),
    "GraphInstantiate": lambda graph, executable, flags: Made(graph, executable, (), flags),
    "GraphAddEmptyNode": _node,
    "GraphAddChildGraphNode": lambda graph, child, *rest: _node(graph, *rest, child=child),
    "GraphAddIfNode": lambda graph, default, *rest: _node(graph, *rest, default=default),
    "GraphLaunch": GraphLaunched,
    "GraphExecUpdate": GraphUpdated,
}  # fmt: skip
