"""Errors of the device model: what can fail, by kind.

The device model knows the kind of a failure only. The rules in force give it a number and a name
(`SyncRules.codes`), because both differ between vendors: INVALID_VALUE is 1 under CUDA's rules and 107000 under ACL's.

Text from files and arguments is made safe to print here (`printable`, `listed`): a terminal would obey some characters,
and cannot write others.
"""

from collections.abc import Coroutine, Iterable
from enum import Enum
from typing import Protocol

_MOST_NAMES = 10  # names shown in a list


class Kind(Enum):
    """The kinds of failure that the runtimes tell apart; the value is a description for users, and may change."""

    INVALID_VALUE = "an argument is out of its range"
    OUT_OF_MEMORY = "the device or the host has not enough memory left"
    NOT_INITIALIZED = "the runtime is not initialised"
    ALREADY_INITIALIZED = "the runtime is initialised already"
    FINALIZED = "the runtime has been finalised"
    INVALID_DEVICE = "there is no such device"
    INVALID_CONTEXT = "the context is unknown, destroyed or missing"
    INVALID_HANDLE = "the stream or event is unknown or destroyed"
    DEFAULT_STREAM = "the default stream cannot be destroyed"
    FOREIGN_STREAM = "the stream belongs to a context that is not current"
    STREAM_SUBSCRIBED = "a thread is subscribed to the stream's callbacks already"
    NO_SUBSCRIBER = "no thread is subscribed to the stream's callbacks"
    NOT_A_SUBSCRIBER = "the calling thread is not subscribed to any stream's callbacks"
    NO_STREAM_LEFT = "the device has no stream left"
    NO_EVENT_LEFT = "the device has no event left"
    NO_NOTIFY_LEFT = "the device has no notify left"
    STREAM_TIMEOUT = "the work did not end in time"
    EVENT_TIMEOUT = "the event did not complete in time"
    REPORT_TIMEOUT = "no callback arrived in time"
    OP_WAIT_TIMEOUT = "a stream waited too long for an event, a notify or a value"
    OP_EXECUTE_TIMEOUT = "a kernel ran longer than its limit"
    CUBE_TIMEOUT = "a kernel ran longer than its limit on cube cores"
    STREAM_FULL = "the stream takes no more work until its model runs"
    STREAM_ABORTED = "the stream was aborted"
    INVALID_COPY_DIRECTION = "the copy kind does not match the memory at its two addresses"
    INVALID_PITCH = "the rows of a copy are longer than their pitch"
    NULL_POINTER = "an address is missing"
    INVALID_ADDRESS = "the address belongs to no allocation of the right kind"
    INVALID_LAUNCH = "the launch configuration cannot run on this device"
    COOPERATIVE_TOO_LARGE = "blocks that wait for one another do not all fit on the device"
    NOT_READY = "the queried work has not completed"
    NOT_RECORDED = "the event has never been recorded, so it has no time"
    WAIT_WITHOUT_RECORD = "the event waited for has never been recorded"
    NO_TIMING = "the event was created without timing"
    NO_TIME_YET = "the event was recorded, but its record has not completed"
    ALREADY_REGISTERED = "the host memory is registered already"
    NOT_REGISTERED = "the host memory is not registered"
    PEER_ACCESS_ENABLED = "the device has access to the other device already"
    PEER_ACCESS_MISSING = "the device has no access to the other device"
    CAPTURE_UNSUPPORTED = "the call is not allowed during a capture"
    CAPTURE_INVALIDATED = "the capture was lost by an earlier call"
    CAPTURE_BEGUN = "the stream captures already"
    CAPTURE_MERGE = "two captures would become one"
    CAPTURE_UNMATCHED = "the capture did not begin on this stream"
    CAPTURE_UNJOINED = "work of another stream is not joined to the one where the capture began"
    CAPTURE_ISOLATION = "a capture would depend on work outside of it"
    CAPTURE_IMPLICIT = "the legacy stream would depend on a capture"
    CAPTURE_WRONG_THREAD = "another host began the capture"
    CAPTURED_EVENT = "the event was recorded in a capture"
    NOT_CAPTURING = "the stream does not capture"
    GROUP_STATUS = "a task group is not in the state that the call needs"
    GROUP_INTERRUPTED = "work of another stream came between the begin and the end of a task group"
    GROUP_WORK = "a task group has kernels only"
    GROUP_UPDATE = "an update has another number of kernels than its task group"
    GRAPH_UPDATE = "the graph differs too much from the one that the executable was made of"
    NOT_PERMITTED = "the call is not allowed here"
    NOT_SUPPORTED = "the rules in force have no such feature"
    ILLEGAL_ADDRESS = "work on the device used memory that it must not use"
    MISALIGNED_ADDRESS = "a kernel used an address that is no multiple of the size of its access"
    ASSERTION_FAILED = "an assertion of a kernel failed"
    LAUNCH_FAILURE = "a kernel raised an exception"
    CUBE_FAILURE = "a kernel raised an exception on cube cores"
    HOST_FUNCTION_FAILURE = "a host function raised an exception"
    INVALID_COLLECTIVE = "a collective cannot be made with these arguments, or with this communicator"
    COLLECTIVE_TIMEOUT = "a collective waited too long for other ranks"
    REMOTE_FAILURE = "another rank of the communicator has failed"
    ECC_ERROR = "device memory has an uncorrectable error"
    DEVICE_LOST = "the device no longer answers"
    UNKNOWN = "the device failed"


class ProfileError(ValueError):
    """A profile that cannot be used; the message names the file and the field."""


class DeviceError(Exception):
    """A request that the device model refuses, or work that failed on it.

    *what* says what was wrong with which object, *remedy* what the user can do about it. The message has both. *dead*
    is the object that was freed or destroyed, if the request is refused for that.
    """

    def __init__(self, kind: Kind, what: str, remedy: str = "", *, dead: object = None) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.remedy = remedy
        self.dead = dead

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class CodedError(DeviceError):
    """A failure of work that may have its own code. With None it gets the code that the rules give its kind."""

    def __init__(self, kind: Kind, what: str, remedy: str, code: int | None) -> None:
        super().__init__(kind, what, remedy)
        self.code = code


# Exceptions that end a program. Work that raises one has failed, and the exception also reaches the host. Any other
# exception of a user's function, asyncio's CancelledError included, is only the failure of its work.
INTERRUPTS = (KeyboardInterrupt, SystemExit)


def text_of(error: BaseException) -> str:
    """Return the type of *error*, and its message if it has one."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def code_of(error: DeviceError) -> int | None:
    """Return the code given to *error* or to its cause (`CodedError`), or None."""
    for each in (error, error.__cause__):
        if isinstance(each, CodedError):
            return each.code
    return None


class Fail(Protocol):
    """Makes an exception. The host layer passes a function that adds the vendor's code and stores it as the task's last
    error.
    """

    def __call__(self, kind: Kind, what: str, remedy: str, /, *, dead: object = None) -> DeviceError:
        """Return the exception that `DeviceError` describes."""


def shown(value: object) -> str:
    """Return *value* for the message that refuses it; a coroutine is usually a call whose `await` was forgotten."""
    return f"{coroutine_text(value)}: await that call" if isinstance(value, Coroutine) else repr(value)


def shown_number(number: object) -> str:
    """Return *number* for a message; Python does not print an int of more than 4,300 digits."""
    if isinstance(number, int) and number.bit_length() > 64:
        return f"a number of {number.bit_length():,} bits"
    return repr(number)


def coroutine_text(coroutine: Coroutine[object, object, object]) -> str:
    """Name *coroutine* by the function that made it. The line that called the function is not known to Python."""
    return f"a coroutine of {getattr(coroutine, '__qualname__', type(coroutine).__name__)}()"


def printable(text: str) -> str:
    """Return *text* with each character that is not printable as its escape sequence.

    These are control characters, which begin the commands of a terminal; marks that turn the direction of writing; and
    halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Iterable[object], most: int = _MOST_NAMES, rest: str = " and {:,} more") -> str:
    """Return the first of *names*, separated by commas, and for the others *rest* with their number in it."""
    shown = [printable(str(name)) for name in names]
    return ", ".join(shown[:most]) + (rest.format(len(shown) - most) if len(shown) > most else "")
