"""What can go wrong, by kind. Which number a kind has is the business of the rules (`SyncRules.codes`)."""

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
    INVALID_HANDLE = "the stream or event is unknown, destroyed or of another context"
    INVALID_COPY_DIRECTION = "the copy kind does not fit where the addresses are"
    INVALID_ADDRESS = "the address belongs to no allocation of the right kind"
    INVALID_LAUNCH = "the launch configuration cannot run on this device"
    NOT_READY = "the work asked about has not completed"
    NOT_RECORDED = "the event has never been recorded"
    NO_TIMING = "the event was created without timing"
    ALREADY_REGISTERED = "the host memory is registered already"
    NOT_REGISTERED = "the host memory is not registered"
    NOT_PERMITTED = "the call is not allowed here"
    NOT_SUPPORTED = "the rules in force have no such feature"
    ILLEGAL_ADDRESS = "device work touched memory it must not touch"
    LAUNCH_FAILURE = "a kernel raised an exception"
    HOST_FUNCTION_FAILURE = "a host function raised an exception"
    UNKNOWN = "the device failed"


class DeviceError(Exception):
    """A request that the device model refuses, or work that failed on it.

    *what* says what was wrong with which object, *remedy* what to do about it.
    """

    def __init__(self, kind: Kind, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


# Makes the exception for a failure; the host layer passes its own, which knows the codes and keeps the last error.
Fail = Callable[[Kind, str, str], DeviceError]
