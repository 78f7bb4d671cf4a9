"""Mistakes in kernels for AI cores: the rules that they can break, and a failed assertion, which ends them."""

from device_model.aicore.core.program import Message
from device_model.kernel.findings import KernelError, KernelRule


class Rule(KernelRule):
    """The rules that a kernel can break; the value says what is true when the rule is kept."""

    RAW = "a read starts after the write of the same bytes has finished"
    WAR = "a write starts after the reads of the bytes that it overwrites have finished"
    WAW = "a write starts after an earlier write of the same bytes has finished"
    UNWRITTEN_READ = "bytes are written before they are read"
    UNWRITTEN_OUT = "every byte of an Out argument is written"
    DOUBLE_SET = "a flag is waited for before it is set again"
    LATE_SET = "a flag is set before the wait for it is issued"
    FLAG_LEFT_SET = "every flag that is set is waited for before the kernel ends"
    FETCHED_TWICE = "of two flags with the same id from FetchEventID, one is waited for before the other is set"
    RELEASED_TWICE = "an event id is released only once, and only after it was allocated"
    WAIT_TIMEOUT = "a wait with a time limit sees its flag in time"
    TAIL_DROPPED = "a copy moves whole blocks of 32 bytes"
    PARTIAL_OVERLAP = "an instruction does not overwrite bytes of its source that it still has to read"
    SHARED_LINE = "the scalar pipes of two cores do not write to one 64-byte line of GM"
    NOT_FLUSHED = "scalar writes to GM are flushed with DataCacheCleanAndInvalid"
    CROSS_OVERFLOW = "the counter of a cross-core flag never exceeds 15"
    CROSS_LEFT_SET = "every cross-core flag that is set is waited for before the kernel ends"
    RESERVED_FLAG = "a kernel that calls SyncAll uses cross-core flags 0 to 10 only"
    NOT_FINALIZED = "a kernel that prepares collectives calls Finalize"
    FINALIZED_EARLY = "Finalize comes after every Wait of all cores"
    TENSOR_NOT_FREED = "every tensor allocated from a queue is freed before the kernel ends"


class KernelAssertionError(KernelError):
    """assert_() failed in a kernel. *message* says where and, if the launch is timed, at which core cycle."""

    def __init__(self, message: Message) -> None:
        super().__init__("an assertion of a kernel failed")
        self.message = message

    def __str__(self) -> str:
        instruction = self.message.instruction
        return f"assertion failed at {instruction.site}: {self.message}"
