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
    playing = _Playing(links, len(tracks), done)
    for track in tracks:
        playing.wait(track, 0, now)


class _Playing:
    """A collective that runs."""

    __slots__ = ("done", "left", "links")

    def __init__(self, links: Links, left: int, done: Done) -> None:
        self.links = links
        self.left = left  # tracks that have not ended
        self.done = done

    def __repr__(self) -> str:
        return f"<Playing left={self.left}>"

    def wait(self, track: Track, index: int, now: Nanoseconds) -> None:
        """Begin step *index* of *track* at *now*, with its latency."""
        self.links.scheduler.at(now + track[index].latency_ns, self._cross, (track, index))

    def _cross(self, at: tuple[Track, int]) -> None:
        track, index = at
        self.links.start(track[index].transfer, lambda: self._crossed(track, index + 1))

    def _crossed(self, track: Track, following: int) -> None:
        now = self.links.scheduler.now
        if following < len(track):
            self.wait(track, following, now)
            return
        self.left -= 1
        if not self.left:
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
