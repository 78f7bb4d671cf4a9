"""Timelines of random programs through pyACL, to the nanosecond, in the way of timelines.py: calls that only the run
makes are free, and its waits block.
"""

import asyncio
from dataclasses import replace

import acl_py
import acl_py.compat.acl
from acl_py.compat.acl.face.session import current_session
from device_model.profile import DeviceProfile, load
from tests.card.acl_programs import CARD, OnAcl, on_engines
from tests.card.timelines import FREE, Blocking, Row, rows
from tests.cuda.programs import Step


def profile() -> DeviceProfile:
    """Return the card on a host to which the calls of the layer cost nothing."""
    base = load(CARD)
    return replace(base, host=replace(base.host, **dict.fromkeys(FREE, 0)))


class _Timed(OnAcl):
    """Plays a program, and keeps the times of its operations."""

    def timeline(self, steps: list[Step]) -> list[Row]:
        """Return the operations of *steps*."""
        return asyncio.run(self._timeline(steps))

    async def _timeline(self, steps: list[Step]) -> list[Row]:
        options = {"trace": False} if self.is_card else {"workers": 1}
        async with acl_py.simulate(device=self._device, rules="acl", **options) as sim:
            session = current_session() if self.is_card else None
            if session is not None:
                sim.runtime.bridge = Blocking(sim.runtime.bridge)
            begin_ns = sim.now_ns if session is None else session.runtime.host_ns
            for step in steps:
                await self._code(step)
            return rows(self._ops(sim), begin_ns)


def compare_timelines(seeds: range) -> int:
    """Play programs on the model and through pyACL; return how many timelines differ."""
    differ, machine = 0, profile()
    for seed in seeds:
        steps = on_engines(seed)
        expected = _Timed(machine).timeline(steps)
        acl_py.compat.acl.install(device=machine, workers=1)
        got = _Timed("npu:0").timeline(steps)
        acl_py.compat.acl.uninstall()
        if got != expected:
            differ += 1
            first = next((pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]), None)
            print(f"program {seed}: {len(expected)} operations and {len(got)}; first {first}", flush=True)
    return differ
