"""The error codes of both vendors: numbers, names, and what they mean here.

codes.tsv lists all codes of CANN and CUDA. A code that a simulation can give is explained from the rules: which kinds
of failure have it, what causes them, and what to do.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from device_model.error_codes import Code
from device_model.errors import Kind
from device_model.rules import RULES

_RULES = {"hccl": "acl", "nccl": "cuda"}  # the rules under which codes of a library are given
_OTHERWISE = {  # names of the driver that the runtime spells in another way
    "cuda_error_out_of_memory": "cudaerrormemoryallocation",
    "cuda_error_not_initialized": "cudaerrorinitializationerror",
    "cuda_error_deinitialized": "cudaerrorcudartunloading",
    "cuda_error_invalid_context": "cudaerrordeviceuninitialized",
    "cuda_error_invalid_handle": "cudaerrorinvalidresourcehandle",
    "cuda_error_not_found": "cudaerrorsymbolnotfound",
    "cuda_error_launch_failed": "cudaerrorlaunchfailure",
    "cuda_error_launch_out_of_resources": "cudaerrorlaunchoutofresources",
}


class Entry(NamedTuple):
    """One code of one vendor."""

    number: int
    vendor: str  # "acl" or "cuda", or its library of collectives: "hccl" or "nccl"
    name: str
    meaning: str

    def kinds(self) -> list[Kind]:
        """The kinds of failure for which a simulation gives this code."""
        rules = RULES[_RULES.get(self.vendor, self.vendor)]
        return [kind for kind, code in rules.codes.items() if code.value == self.number and code.name == self.name]


@cache
def table() -> list[Entry]:
    """Return all codes by number, those of ACL before those of CUDA."""
    text = Path(__file__).with_name("codes.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return [Entry(int(number), vendor, name, meaning) for number, vendor, name, meaning in rows]


def named_code(number: int) -> Code:
    """Return the code with this number, of either vendor; "unknown error" if neither has it."""
    return next(
        (Code(entry.number, entry.name) for entry in table() if entry.number == number), Code(number, "unknown error")
    )


def find(what: str) -> list[Entry]:
    """Return the codes that *what* may mean: a number, or a name in full or without its prefix, in any case."""
    if what.lstrip("-").isdigit():
        return [entry for entry in table() if entry.number == int(what)]
    spelled = what.lower()
    if spelled.startswith("cuda_error_"):  # of the driver, whose codes have the numbers and most names of the runtime's
        spelled = _OTHERWISE.get(spelled) or f"cudaerror{spelled.removeprefix('cuda_error_').replace('_', '')}"
    return [entry for entry in table() if spelled in _spellings(entry)]


def near(what: str) -> list[str]:
    """Return up to five codes that look like *what*, as texts."""
    from difflib import get_close_matches  # only messages need it

    if what.lstrip("-").isdigit():
        numbers = {str(entry.number): entry for entry in table()}
        mistyped = [numbers[each] for each in get_close_matches(what, numbers, 1, 0.9)]
        by_distance = sorted(table(), key=lambda entry: abs(entry.number - int(what)))
        return [f"{entry.number} {entry.name}" for entry in dict.fromkeys([*mistyped, *by_distance[:3]])]
    names = {spelling: entry for entry in table() for spelling in _spellings(entry)}
    similar = dict.fromkeys(names[each] for each in get_close_matches(what.lower(), names, 5, 0.6))
    return [f"{entry.number} {entry.name}" for entry in similar]


def _spellings(entry: Entry) -> tuple[str, ...]:
    name = entry.name.lower()
    bare = name.removeprefix("cudaerror").removeprefix("acl_error_rt_").removeprefix("acl_error_")
    return name, bare, f"rt_{bare}"


class Advice(NamedTuple):
    """What causes a kind of failure in a simulation, and what to do about it."""

    cause: str
    remedy: str


ADVICE: Mapping[Kind, Advice] = MappingProxyType(
    {
        Kind.INVALID_VALUE: Advice(
            "a size, count, flag or memory that the call cannot take", "pass a value that the message allows"
        ),
        Kind.OUT_OF_MEMORY: Advice(
            "Malloc, MallocHost or MallocAsync beyond what is free",
            "free memory that is no longer used; GetMemInfo() says how much is free",
        ),
        Kind.NOT_INITIALIZED: Advice(
            "a verb outside acl_py.run(), simulate() and open(), or Finalize() without Init()", "start a simulation"
        ),
        Kind.ALREADY_INITIALIZED: Advice("a second Init() under ACL's rules", "ignore it: nothing has changed"),
        Kind.FINALIZED: Advice("a verb after the last Finalize(), or after the simulation's end", "start a new one"),
        Kind.INVALID_DEVICE: Advice(
            "a device number that the profile does not have, or ResetDevice() without SetDevice()",
            "count with GetDeviceCount()",
        ),
        Kind.INVALID_CONTEXT: Advice(
            "the current context was destroyed or its device reset; a thread has set none",
            "SetDevice() or SetCurrentContext() in that thread or task",
        ),
        Kind.INVALID_HANDLE: Advice(
            "a stream, event or notify that was destroyed, or of another simulation",
            "the message says where it was made and destroyed; create one",
        ),
        Kind.DEFAULT_STREAM: Advice("DestroyStream(None)", "do not destroy it: it ends with its context"),
        Kind.FOREIGN_STREAM: Advice(
            "a stream of one context used while another is current, under ACL's rules", "SetCurrentContext() first"
        ),
        Kind.STREAM_SUBSCRIBED: Advice("a second SubscribeReport() for a stream", "UnsubscribeReport() the first"),
        Kind.NO_SUBSCRIBER: Advice("LaunchCallback() on a stream without a subscriber", "SubscribeReport() first"),
        Kind.NOT_A_SUBSCRIBER: Advice(
            "ProcessReport() in a thread that has not subscribed", "SubscribeReport() in that thread"
        ),
        Kind.NO_STREAM_LEFT: Advice("more streams than the card has", "destroy some: GetStreamAvailableNum() counts"),
        Kind.NO_EVENT_LEFT: Advice("more event ids than the card has", "destroy events, or wait for their records"),
        Kind.NO_NOTIFY_LEFT: Advice("more notifies than the card has", "destroy some"),
        Kind.STREAM_TIMEOUT: Advice(
            "SynchronizeStreamWithTimeout or SynchronizeDeviceWithTimeout gave up; the work goes on",
            "the message says what the work waits for",
        ),
        Kind.EVENT_TIMEOUT: Advice(
            "SynchronizeEventWithTimeout gave up; the work goes on", "the message says what the work waits for"
        ),
        Kind.REPORT_TIMEOUT: Advice(
            "ProcessReport() found no callback in time", "wait longer, or without a limit with -1"
        ),
        Kind.OP_WAIT_TIMEOUT: Advice(
            "a stream waited longer than SetOpWaitTimeOut() or the wait itself allows",
            "record the event or notify, or write the value, that the stream waits for",
        ),
        Kind.OP_EXECUTE_TIMEOUT: Advice("a kernel longer than SetOpExecuteTimeOut() allows", "split it, or allow more"),
        Kind.CUBE_TIMEOUT: Advice(
            "a core kernel with cube cores, longer than SetOpExecuteTimeOut() allows", "split it, or allow more"
        ),
        Kind.STREAM_FULL: Advice("too much work on a stream that waits for its model", "run the model"),
        Kind.STREAM_ABORTED: Advice("StreamAbort() or DestroyStreamForce() dropped its work", "queue it again"),
        Kind.INVALID_COPY_DIRECTION: Advice(
            "the kind of a copy does not match the memory at its addresses", "use MemcpyKind.DEFAULT"
        ),
        Kind.INVALID_PITCH: Advice("rows of a copy that are longer than their pitch", "give a smaller width"),
        Kind.CAPTURE_UNSUPPORTED: Advice(
            "a call that a capture forbids: it would wait for the capture or for the device",
            "make it after EndCapture(), or capture with CaptureMode.RELAXED",
        ),
        Kind.CAPTURE_INVALIDATED: Advice(
            "a call for a capture that an earlier call has lost", "the message names that call: take it out"
        ),
        Kind.CAPTURE_BEGUN: Advice("BeginCapture() on a stream that captures", "end that capture first"),
        Kind.NOT_CAPTURING: Advice("EndCapture() without BeginCapture()", "begin a capture on that stream"),
        Kind.CAPTURE_MERGE: Advice("a wait in one capture for an event of another", "capture both into one graph"),
        Kind.CAPTURE_UNMATCHED: Advice("EndCapture() on another stream than BeginCapture()", "end it where it began"),
        Kind.CAPTURE_UNJOINED: Advice(
            "EndCapture() with work of another stream that the first one does not wait for",
            "record an event on that stream, and wait for it on the first one",
        ),
        Kind.CAPTURE_ISOLATION: Advice(
            "a wait in a capture for an event of before", "wait before BeginCapture(), or with external=True"
        ),
        Kind.CAPTURE_IMPLICIT: Advice(
            "work on the default stream, for which it is not possible while a blocking stream captures",
            "create the stream with nonblocking=True",
        ),
        Kind.CAPTURE_WRONG_THREAD: Advice(
            "EndCapture() in another task or thread than BeginCapture()", "end it in the one that began it"
        ),
        Kind.CAPTURED_EVENT: Advice(
            "a query or synchronisation of an event that was recorded in a capture",
            "synchronise with the stream of the launch, or record it with external=True",
        ),
        Kind.GROUP_STATUS: Advice(
            "a task group that is begun twice, not ended, or updated twice at once",
            "pair CaptureTaskGrpBegin() with CaptureTaskGrpEnd(), and CaptureTaskUpdateBegin() with "
            "CaptureTaskUpdateEnd()",
        ),
        Kind.GROUP_INTERRUPTED: Advice(
            "work on another stream of a capture, between CaptureTaskGrpBegin() and CaptureTaskGrpEnd()",
            "end the task group first",
        ),
        Kind.GROUP_WORK: Advice(
            "a copy, fill, host function, record or wait in a task group or its update", "put kernels only into it"
        ),
        Kind.GROUP_UPDATE: Advice(
            "more or fewer kernels in an update than its task group has", "launch as many as were captured"
        ),
        Kind.GRAPH_UPDATE: Advice(
            "GraphExecUpdate() to a graph with other nodes or edges", "instantiate the new graph"
        ),
        Kind.NULL_POINTER: Advice("address 0, or a time-out of 0 for ProcessReport()", "pass a buffer that is alive"),
        Kind.INVALID_ADDRESS: Advice(
            "an address that belongs to no allocation, or to one that was freed or is too small",
            "the message names the nearest one, where it was made and where it was freed",
        ),
        Kind.COOPERATIVE_TOO_LARGE: Advice(
            "blocks that wait for one another, of which the card does not hold all at the same time",
            "launch fewer blocks, or smaller ones",
        ),
        Kind.INVALID_LAUNCH: Advice("0 blocks, or more than the device can count", "launch 1 to 2**31 - 1"),
        Kind.NOT_READY: Advice("a query of work that has not ended", "ask again, or synchronise"),
        Kind.NOT_RECORDED: Advice("EventElapsedTime() of an event never recorded", "record both events"),
        Kind.WAIT_WITHOUT_RECORD: Advice(
            "StreamWaitEvent() for an event of CreateEvent() that was never recorded, under ACL's rules",
            "record it first, or create it with CreateEventExWithFlag()",
        ),
        Kind.NO_TIMING: Advice("EventElapsedTime() of an event made without timing", "CreateEvent(timing=True)"),
        Kind.NO_TIME_YET: Advice("EventElapsedTime() before the record completed", "synchronise with the event first"),
        Kind.ALREADY_REGISTERED: Advice("HostRegister() of memory that is registered", "HostUnregister() it first"),
        Kind.NOT_REGISTERED: Advice(
            "HostUnregister() of memory that is not registered", "pass the memory that was registered"
        ),
        Kind.PEER_ACCESS_ENABLED: Advice(
            "a second DeviceEnablePeerAccess() for a device", "ignore it: nothing has changed"
        ),
        Kind.PEER_ACCESS_MISSING: Advice(
            "DeviceDisablePeerAccess() without DeviceEnablePeerAccess()", "check with DevicePeerAccessStatus()"
        ),
        Kind.NOT_PERMITTED: Advice(
            "a kernel or a host function called a verb", "hand the work to a task: set an event, and let the task call"
        ),
        Kind.NOT_SUPPORTED: Advice(
            "a feature that the rules in force do not have", "use what the message names instead"
        ),
        Kind.ILLEGAL_ADDRESS: Advice(
            "a kernel with an index outside its array; or work used memory that was freed before it ran, or that no "
            "device reaches",
            "the message has the address and the thread: check the index; synchronise before Free(), or "
            "use FreeAsync() in the same stream",
        ),
        Kind.MISALIGNED_ADDRESS: Advice(
            "a kernel in PTX used an address that is no multiple of the size of its access",
            "let addresses of vectors be multiples of their size: the message has the line",
        ),
        Kind.ASSERTION_FAILED: Advice("an assert() of a kernel failed", "the message has the condition and its line"),
        Kind.LAUNCH_FAILURE: Advice("a kernel raised an exception", "fix the kernel: the exception is the __cause__"),
        Kind.CUBE_FAILURE: Advice(
            "a core kernel with cube cores raised an exception", "fix the kernel: the exception is the __cause__"
        ),
        Kind.HOST_FUNCTION_FAILURE: Advice(
            "a host function raised an exception", "fix the function: the exception is the __cause__"
        ),
        Kind.INVALID_COLLECTIVE: Advice(
            "ranks, counts, types or buffers that a collective cannot take, or a communicator that is gone",
            "the message says which argument of which rank is wrong",
        ),
        Kind.COLLECTIVE_TIMEOUT: Advice(
            "under ACL's rules, ranks that waited for the others longer than HCCL_EXEC_TIMEOUT (EI0002)",
            "let all ranks make the same calls in the same order: the message names the first one that differs",
        ),
        Kind.REMOTE_FAILURE: Advice(
            "another rank of the communicator has failed, was aborted, or lost its device",
            "find what failed there first; then make a new communicator",
        ),
        Kind.ECC_ERROR: Advice("a fault rule injected it", "remove the rule, or reset the device"),
        Kind.DEVICE_LOST: Advice("a fault rule injected it", "remove the rule, and reset the device"),
        Kind.UNKNOWN: Advice("a fault rule injected it", "remove the rule"),
    }
)
