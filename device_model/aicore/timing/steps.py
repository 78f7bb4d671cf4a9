"""A launch that is played in steps, because the ends of some instructions come from outside: those of an HCCL server.

Such an end is known only when the clock of the device is there. A core that waits for it may go on at any time from
then on, and what it does then shares the memory with the other cores. So while a core waits for the outside, the launch
is played no further than the clock. While none does, it is played ahead, up to the next wait of this kind.
"""

from math import inf

from device_model.aicore.core.program import Instruction
from device_model.aicore.timing.play import _Core, _Play


class Steps(_Play):
    """A launch that is played in steps; times are core cycles from its start."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._left = len(self.programs)  # blocks that have not ended
        self._outside: dict[Instruction, None] = {}  # whose ends come from outside, and are not known yet

    @property
    def is_over(self) -> bool:
        """Whether all blocks have ended."""
        return not self._left

    def begin(self, outside: list[Instruction]) -> None:
        """Let the first block of each core begin; `happen` gives the ends of *outside*."""
        self._outside = dict.fromkeys(outside)
        self.begin_all()

    def happen(self, instruction: Instruction, at: float) -> None:
        """Play up to *at*, and let *instruction*, which comes from outside, end then."""
        self.advance(at)
        self._outside.pop(instruction, None)
        self._finish(instruction, at, at)
        self._run_woken()

    def advance(self, until: float) -> None:
        """Play up to *until*, and on until a core waits for the outside."""
        while ended := self.bandwidth.next_ended(max(until, self._horizon())):
            for queue in ended:
                self._flow_ended(queue, self.bandwidth.now)

    def next_at(self) -> float:
        """Return when something happens here without the outside; inf if all cores wait for that, or have ended."""
        return self.bandwidth.next_at()

    def _horizon(self) -> float:
        """Return the time up to which nothing from outside can matter: no core that waits for it goes on before."""
        outside, horizon = self._outside, inf
        for instruction, queues in self.waiting.items():
            if instruction in outside:
                for queue in queues:
                    horizon = min(horizon, queue.core.scalar)
        return horizon

    def _end(self, core: _Core) -> None:
        self._left -= 1
        super()._end(core)
