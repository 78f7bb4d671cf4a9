"""The steps of a plan, played on the links of a simulation, which other transfers share."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from device_model.collectives.timing.plan import Plan
from device_model.collectives.timing.schedules import Step
from device_model.completions import Nanoseconds
from device_model.links.fabric import Links, Loads, Transfer, rate_alone
from device_model.links.spec import Link, LinksSpec

Done = Callable[[Nanoseconds], None]


class Routed(NamedTuple):
    """A step between devices: after *latency_ns* comes the transfer."""

    latency_ns: Nanoseconds
    transfer: Transfer


Track = tuple[Routed, ...]
Tracks = tuple[Track, ...]


def play(plan: Plan, links: Links, devices: Sequence[int], now: Nanoseconds, done: Done) -> None:
    """Play *plan* from *now* on, which may be later than the clock.

    Args:
        plan: How the collective is done.
        links: What its transfers cross; the scheduler is theirs.
        devices: The number of each rank's device.
        now: When all ranks have their turn.
        done: Called with the time at which the last step ends, when the clock stands there.
    """
    play_tracks(routed(plan, links.spec, tuple(devices)), links, now, done)


def play_tracks(tracks: Tracks, links: Links, now: Nanoseconds, done: Done) -> None:
    """Play the *tracks* of a plan, as `play` does."""
    if not tracks:
        links.scheduler.at(now, done, now)
        return
    if len(tracks) > 1:
        done = _Last(len(tracks), done)
    for track in tracks:
        _Playing(links, track, done).wait(now)


class _Last:
    """Calls *done* when it is called for the last of so many tracks."""

    __slots__ = ("done", "left")

    def __init__(self, left: int, done: Done) -> None:
        self.left = left
        self.done = done

    def __call__(self, now: Nanoseconds) -> None:
        self.left -= 1
        if not self.left:
            self.done(now)


class _Playing:
    """A track that runs."""

    __slots__ = ("done", "index", "links", "track")

    def __init__(self, links: Links, track: Track, done: Done) -> None:
        self.links = links
        self.track = track
        self.index = 0  # of the present step
        self.done = done

    def __repr__(self) -> str:
        return f"<Playing step {self.index + 1} of {len(self.track)}>"

    def wait(self, now: Nanoseconds) -> None:
        """Begin the present step at *now*, with its latency."""
        self.links.scheduler.at(now + self.track[self.index].latency_ns, _Playing._cross, self)

    def _cross(self) -> None:
        self.links.start(self.track[self.index].transfer, self._crossed)

    def _crossed(self) -> None:
        self.index += 1
        now = self.links.scheduler.now
        if self.index < len(self.track):
            self.wait(now)
        else:
            self.done(now)


@lru_cache(1024)
def routed(plan: Plan, spec: LinksSpec | None, devices: tuple[int, ...]) -> Tracks:
    """Return the tracks of *plan* between *devices*."""
    return tuple(tuple(_routed_step(step, spec, devices) for step in track) for track in plan.tracks)


def _routed_step(step: Step, spec: LinksSpec | None, devices: tuple[int, ...]) -> Routed:
    if spec is None:
        return Routed(step.latency_ns, Transfer((), step.nbytes, step.cap, step.cap))
    latencies = [spec.latency_ns(devices[source], devices[target]) for source, target, _ in step.hops]
    latency = step.latency_ns + step.passed * max(latencies, default=0)
    loads = _loads(step, spec, devices)
    return Routed(latency, Transfer(loads, step.nbytes, step.cap, rate_alone(loads, step.cap, 1, spec.capacity)))


def _loads(step: Step, spec: LinksSpec, devices: tuple[int, ...]) -> Loads:
    """Return the links that a step crosses, each once, with the bytes there for each byte of the step."""
    loads: dict[Link, float] = {}
    for source, target, weight in step.hops:
        for link in spec.path(devices[source], devices[target]):
            loads[link] = loads.get(link, 0.0) + weight
    return tuple(loads.items())
