"""The rules that a thread-block kernel can break without being stopped."""

from device_model.kernel.findings import KernelRule


class Rule(KernelRule):
    """The rules that a kernel can break; the value says what is true when the rule is kept."""

    RAW = "a read comes after the write of the same bytes, by a barrier or a wait"
    WAR = "a write comes after the reads of the bytes that it overwrites, by a barrier"
    WAW = "a write comes after an earlier write of the same bytes, by a barrier or a wait"
    UNWRITTEN_READ = "bytes are written before they are read"
    UNWRITTEN_OUT = "every byte of an Out argument is written"
    UNSET_REGISTER = "every thread that uses a register has set it"
    COPY_LEFT = "every asynchronous copy is waited for before its thread ends"
    PHASE_TWICE = "a thread waits for each phase of an mbarrier once"
    EMPTY_PHASE = "every mbarrier is initialised, and the other threads know it, before it is used"
