"""Kernels whose times on a card were published, written in the language of this project.

Each module has one family of `ROWS`. Their structure (tiles, buffers, flags, which core has what) is that of the
vendor's samples: asc-devkit for Atlas A2 (910B1), msOpProf for the 910B4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from device_model.aicore.runner import Result


@dataclass(frozen=True, eq=False)
class Row:
    """A published time, and how to get ours: *run* does 1/*share* of the work, whose time grows with it.

    *reads* is what was published: the mean time of the cores (aiv_time), that of the whole task, or of several launches
    beside each other that of the one whose result it is ("launch"). *fitted*: constants of
    the profiles were fitted on this row.
    """

    family: str
    what: str
    card: str
    published: float  # us
    run: Callable[[], Result]
    share: int = 1
    reads: str = "aiv_time"
    fitted: bool = False
    columns: Mapping[str, float] = field(default_factory=dict)  # what was published of single pipes, us

    def us(self) -> tuple[float, dict[str, float]]:
        """Our time, and those of its pipes."""
        result = self.run()
        timeline = result.timeline
        assert timeline is not None
        busy = {name: us * self.share for name, us in timeline.busy_us.items()}
        if self.reads == "launch":
            cycles = max(timeline.free_cycles[timeline.core_of(program)] for program in result.programs)
            return cycles * timeline.ns_per_cycle / 1000, busy
        if self.reads != "task":
            return busy[self.reads], busy
        cores = next(us for name, us in timeline.busy_us.items() if name.endswith("_time"))
        return timeline.duration_ns / 1000 + cores * (self.share - 1), busy
