"""What an assembler makes of a kernel: the runs of each block of code, and what is known of its accesses.

That follows from the kernel and the SM alone, so launches of one kernel share it.
"""

from collections import Counter
from functools import lru_cache

from device_model.ptx.code.flow import reads
from device_model.ptx.lanes.program import Program
from device_model.ptx.text.syntax import Register
from device_model.ptx.timing.costs import Costs
from device_model.ptx.timing.residues import residues_of
from device_model.ptx.timing.runs import runs_of
from device_model.ptx.timing.sums import sums_of
from device_model.sm.spec import SmSpec


class Analysis:
    """A kernel as an SM sees it.

    Attributes:
        runs: What each block of code is for an SM.
        issues: How many instructions each block of code issues.
        names: The instruction in each line of PTX, with its modifiers.
        shared: By line of PTX, whether an access is to shared memory.
        sums: The lines of atomics that an assembler does once for a warp.
        widths: By line, the bytes of the accesses that an assembler makes one.
    """

    def __init__(self, program: Program, spec: SmSpec) -> None:
        items = [item for code in program.blocks for item in code.instructions]
        uses = Counter(each for item in items for each in reads(item) if isinstance(each, Register))
        costs, residues = Costs(spec), residues_of(items, program.shared)
        self.runs = {code.number: runs_of(code.instructions, uses, costs, residues) for code in program.blocks}
        self.issues = {number: sum(run.issues for run in runs) for number, runs in self.runs.items()}
        self.names = {item.line: ".".join((item.name, *item.modifiers)) for item in items}
        self.shared = {item.line: any(each.startswith("shared") for each in item.modifiers) for item in items}
        self.sums = sums_of(items, uses)
        self.widths = dict(each for runs in self.runs.values() for run in runs for each in run.widths)


@lru_cache(256)
def analysis_of(program: Program, spec: SmSpec) -> Analysis:
    """Return the analysis of *program* for *spec*, made once."""
    return Analysis(program, spec)
