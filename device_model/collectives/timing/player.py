"""The steps of a plan, played on the links of a simulation, which other transfers share."""

from collections.abc import Callable, Sequence

from device_model.collectives.timing.plan import Hop, Plan, Step
from device_model.completions import Nanoseconds
from device_model.links.fabric import Links, Loads, Transfer
from device_model.links.spec import Link

Done = Callable[[Nanoseconds], None]


def play(plan: Plan, links: Links, devices: Sequence[int], now: Nanoseconds, done: Done) -> None:
    """Play *plan* from *now* on, which may be later than the clock.

    Args:
        plan: How the collective is done.
        links: What its transfers cross; the scheduler is theirs.
        devices: The number of each rank's device.
        now: When all ranks have their turn.
        done: Called with the time at which the last step ends, when the clock stands there.
    """
    Playing(plan, links, devices, done).begin(now)


class Playing:
    """A collective that runs."""

    __slots__ = ("devices", "done", "left", "links", "tracks")

    def __init__(self, plan: Plan, links: Links, devices: Sequence[int], done: Done) -> None:
        self.links = links
        self.devices = devices
        self.done = done
        self.tracks = plan.tracks
        self.left = len(plan.tracks)  # tracks that have not ended

    def __repr__(self) -> str:
        return f"<Playing devices={self.devices} left={self.left}>"

    def begin(self, now: Nanoseconds) -> None:
        """Begin all tracks at *now*; without one, the collective ends then."""
        if not self.tracks:
            self.links.scheduler.at(now, self.done, now)
        for track in self.tracks:
            self._wait(track, 0, now)

    def _wait(self, track: tuple[Step, ...], index: int, now: Nanoseconds) -> None:
        step = track[index]
        hops = [self.links.latency_ns(self.devices[source], self.devices[target]) for source, target, _ in step.hops]
        self.links.scheduler.at(now + step.latency_ns + step.passed * max(hops, default=0), self._cross, (track, index))

    def _cross(self, at: tuple[tuple[Step, ...], int]) -> None:
        track, index = at
        step = track[index]
        loads = loads_of(self.links, step.hops, self.devices)
        self.links.start(Transfer(loads, step.nbytes, step.cap), lambda: self._crossed(track, index))

    def _crossed(self, track: tuple[Step, ...], index: int) -> None:
        now = self.links.scheduler.now
        if index + 1 < len(track):
            self._wait(track, index + 1, now)
            return
        self.left -= 1
        if not self.left:
            self.done(now)


def loads_of(links: Links, hops: tuple[Hop, ...], devices: Sequence[int]) -> Loads:
    """Return the links that *hops* cross, each once, with the bytes there for each byte of the step."""
    found: dict[Link, float] = {}
    for source, target, weight in hops:
        for link, _ in links.loads(devices[source], devices[target]):
            found[link] = found.get(link, 0.0) + weight
    return tuple(found.items())
