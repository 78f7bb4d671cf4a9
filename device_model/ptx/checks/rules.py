"""The rules that a kernel in PTX can break without being stopped."""

from device_model.kernel.findings import Finding, KernelRule
from device_model.ptx.lanes.program import Place


class Rule(KernelRule):
    """The rules that a kernel can break; the value says what is true when the rule is kept."""

    RAW = "a read comes after another thread's write of the same bytes, by a barrier"
    WAR = "a write comes after other threads' reads of the bytes that it overwrites, by a barrier"
    WAW = "a write comes after another thread's write of another value, by a barrier"
    TWO_WRITERS = "lanes that store to one address in one instruction store one value"
    UNWRITTEN_READ = "bytes are written before they are read"
    OUT_OF_VARIABLE = "an access stays in the variable that it begins from"
    DIVERGENT_BARRIER = "all threads of a block wait at the same barrier"
    MASK = "a lane is one of those that it names for a meeting of its warp"


class PtxFinding(Finding):
    """A mistake of a kernel in PTX.

    Attributes:
        block: The number of the block that made it first.
        thread: The number of its thread.
        places: The lines that are involved, of PTX and of the source; for a race the earlier access first.
    """

    __slots__ = ("block", "places", "thread")

    def __init__(
        self, rule: Rule, text: str, where: str, lane: tuple[int, int], places: tuple[Place, ...], missing: str = ""
    ) -> None:
        super().__init__(rule, text, where, places, (), missing)
        self.block, self.thread = lane
        self.places = places
