"""The result of a launch of a kernel in PTX: its findings, its times and what its lanes have printed."""

from collections.abc import Sequence
from typing import Any

from device_model.kernel.findings import NO_FINDINGS
from device_model.ptx.timing.estimate import Timing, Touched
from device_model.sm.instructions import SECTOR
from device_model.touches import Touches


class Timeline:
    """The times of one launch.

    Attributes:
        estimate: What the model says of it: cycles, registers of a thread, blocks that an SM holds.
        timing: What was watched, from which the times are made.
        touched: The sectors of memory that it has touched.
        duration_ns: The whole launch, with what the card takes besides its blocks.
        ns_per_cycle: The length of a cycle.
        busy_us: How long the busiest unit works, in microseconds: a mean over the SMs.
    """

    __slots__ = ("_read", "_written", "busy_us", "duration_ns", "estimate", "ns_per_cycle", "timing", "touched")

    def __init__(self, timing: Timing, read: Touches, written: Touches, overhead_ns: int) -> None:
        self.timing = timing
        self._read, self._written = read, written
        self.touched = Touched.of(read, written)
        self.estimate = estimate = timing.estimate(self.touched)
        self.ns_per_cycle = 1e6 / timing.card.spec.khz
        cycles = estimate.cycles if timing.clock is None else timing.clock.whole(estimate.cycles)
        self.duration_ns = round(cycles * self.ns_per_cycle) + overhead_ns
        self.busy_us = {"sm": estimate.busy * estimate.cycles * self.ns_per_cycle / 1000}

    def __repr__(self) -> str:
        return f"<Timeline: {self.duration_ns / 1000:.2f} us>"

    @property
    def dense(self) -> Touched:
        """The sectors that the bytes which it has touched would fill, side by side."""
        both = self._read.beside(self._written)
        return Touched(*(-(-each.nbytes // SECTOR) for each in (self._read, self._written, both)))

    def core_of(self, program: Any) -> str:
        """Return the name of the SM that ran *program*; launches of PTX keep no programs."""
        return f"SM of {program}"


class Result:
    """The result of a launch.

    Attributes:
        findings: The mistakes that were found.
        timeline: The times; None if the launch did not end.
        messages: What lanes have printed, each with its block and its thread.
        programs: The instructions of blocks, as far as they are kept.
    """

    __slots__ = ("findings", "messages", "programs", "timeline")

    def __init__(self, timeline: Any = None) -> None:
        self.findings = NO_FINDINGS
        self.timeline = timeline
        self.messages: list[tuple[int, int, str]] = []
        self.programs: Sequence[Any] = ()

    @property
    def output(self) -> str:
        """The text that printf has written."""
        return "".join([text for _, _, text in self.messages]) if self.messages else ""
