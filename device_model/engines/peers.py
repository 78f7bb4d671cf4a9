"""The engine for copies to other devices, which share links with other transfers.

A device sends one such copy at a time. A copy's own curve says how long it takes if nothing else uses its links. First
comes what it takes whatever its size, and then its bytes at one rate, which is its cap on the links (links.fabric).
"""

from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.engines.serial import CopyEngine, Finish, Page
from device_model.links.fabric import Links, Loads, Transfer
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.work import Copy

if TYPE_CHECKING:
    from device_model.curves import Curve


class PeerEngine(CopyEngine):
    """Moves bytes to other devices, one copy at a time, over links that it shares."""

    __slots__ = ("_on_links", "links")

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        time_of: "Curve",
        gap_ns: Nanoseconds,
        links: Links,
        finish: Finish,
        move_pages: Page,
    ) -> None:
        super().__init__(scheduler, name, time_of, gap_ns, 0, 0, finish, move_pages)
        self.links = links
        self._on_links = False  # the running copy has not crossed its links yet

    def _share(self, start: Nanoseconds, end: Nanoseconds) -> Nanoseconds:
        """Put the copy that runs from *start* on its links; *end* is when it ends if it has them for itself."""
        op = self.running
        assert op is not None, f"{self!r} starts nothing"
        work = op.work
        fixed = self.time_of[0]
        if isinstance(work, Copy) and end - start > fixed:
            source, target = work.src.device, work.dst.device
            loads, later = self.links.loads(source, target), self.links.latency_ns(source, target)
            if loads:
                self._on_links = True
                self.scheduler.at(start + fixed + later, self._cross, (op, loads, op.nbytes / (end - start - fixed)))
                end += later
        return end

    def _cross(self, copy: tuple[Op, Loads, float]) -> None:
        op, loads, cap = copy
        self.links.start(Transfer(loads, op.nbytes, cap), lambda: self._crossed(op))

    def _crossed(self, op: Op) -> None:
        self._on_links = False
        if self.scheduler.now >= self.busy_ns:
            super()._ended(op)

    def _ended(self, op: Op) -> None:
        """End the running copy, unless its links still have bytes of it."""
        if not self._on_links:
            super()._ended(op)
