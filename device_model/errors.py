"""Errors of the device model: what can fail, by kind.

The device model knows the kind of a failure only. The rules in force give it a number and a name
(`SyncRules.codes`), because both differ between vendors: INVALID_VALUE is 1 under CUDA's rules and 107000 under ACL's.
"""

from collections.abc import Callable
from enum import Enum


class Kind(Enum):
    """The kinds of failure that the runtimes tell apart; the value is a plain description."""

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
    STREAM_SUBSCRIBED = "the stream has somebody who runs its callbacks"
    NO_SUBSCRIBER = "the stream has nobody who runs its callbacks"
    NOT_A_SUBSCRIBER = "the caller runs no stream's callbacks"
    NO_STREAM_LEFT = "the device has no stream left"
    NO_EVENT_LEFT = "the device has no event left"
    NO_NOTIFY_LEFT = "the device has no notify left"
    STREAM_TIMEOUT = "the work did not end in time"
    EVENT_TIMEOUT = "the event's record did not take place in time"
    REPORT_TIMEOUT = "no callback came in time"
    OP_WAIT_TIMEOUT = "a stream waited too long for an event, a notify or a value"
    OP_EXECUTE_TIMEOUT = "a kernel ran too long"
    CUBE_TIMEOUT = "a kernel ran too long on cube cores"
    STREAM_FULL = "a stream that waits for its model takes no more work"
    STREAM_ABORTED = "the stream was aborted"
    INVALID_COPY_DIRECTION = "the copy kind does not fit where the addresses are"
    NULL_POINTER = "an address is missing"
    INVALID_ADDRESS = "the address belongs to no allocation of the right kind"
    INVALID_LAUNCH = "the launch configuration cannot run on this device"
    NOT_READY = "the work asked about has not completed"
    NOT_RECORDED = "the event has never been recorded, so it has no time"
    WAIT_WITHOUT_RECORD = "the event waited for has never been recorded"
    NO_TIMING = "the event was created without timing"
    NO_TIME_YET = "the event's record has not taken place"
    ALREADY_REGISTERED = "the host memory is registered already"
    NOT_REGISTERED = "the host memory is not registered"
    PEER_ACCESS_ENABLED = "the device has access to the other device already"
    PEER_ACCESS_MISSING = "the device has no access to the other device"
    NOT_PERMITTED = "the call is not allowed here"
    NOT_SUPPORTED = "the rules in force have no such feature"
    ILLEGAL_ADDRESS = "device work touched memory it must not touch"
    LAUNCH_FAILURE = "a kernel raised an exception"
    CUBE_FAILURE = "a kernel raised an exception on cube cores"
    HOST_FUNCTION_FAILURE = "a host function raised an exception"
    ECC_ERROR = "device memory has an error that cannot be corrected"
    DEVICE_LOST = "the device does not answer any more"
    UNKNOWN = "the device failed"


class DeviceError(Exception):
    """A request that the device model refuses, or work that failed on it.

    *what* says what was wrong with which object, *remedy* what the user can do about it. The message has both.
    """

    def __init__(self, kind: Kind, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class CodedError(DeviceError):
    """A failure of work with a code of its own; with None it has the code that the rules give its kind."""

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
    """Return the code of its own that *error* or its cause has, or None."""
    for each in (error, error.__cause__):
        if isinstance(each, CodedError):
            return each.code
    return None


# A function that makes the exception for a failure from its kind, what was wrong, and the remedy. The host layer passes
# its own, which knows the vendor's codes and keeps the last error of the task.
Fail = Callable[[Kind, str, str], DeviceError]
