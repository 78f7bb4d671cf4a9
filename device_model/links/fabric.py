"""The links of a simulation, and the transfers in progress on them, which share them max-min fair (flows.py).

A transfer is a flow that crosses several links at once. A copy takes the link out of its source and the link into its
target, a collective takes links of all its ranks. It gets the rate that the busiest of them leaves it, and never more
than its cap. Times are exact nanoseconds where nothing is shared.
"""

from collections.abc import Callable
from heapq import heappush
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from device_model.completions import Nanoseconds
from device_model.flows import Class, Flows
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.links.spec import Link, LinksSpec

# The links that a flow crosses, each with the bytes there for each byte of the flow.
Loads: TypeAlias = "tuple[tuple[Link, float], ...]"
OnEnd = Callable[[], None]
_MOST_ROUTES = 4096  # that are remembered


class Transfer(NamedTuple):
    """A flow's request: *nbytes* over *loads*, at most *cap* bytes per nanosecond.

    *alone* is its rate while nothing else crosses its links, if `rate_alone` was asked before.
    """

    loads: Loads
    nbytes: float
    cap: float
    alone: float | None = None


def rate_alone(loads: Loads, cap: float, flows: int, capacity: "Callable[[Link], float]") -> float:
    """Return the rate of each of *flows* transfers that have *loads* and *cap*, and their links for themselves."""
    rate = cap
    for link, weight in loads:
        most = capacity(link)
        if most < rate * weight * flows:
            rate = most / (weight * flows)
    return rate


class Slowness:
    """Links, those that *has* is true of, have their capacity divided by *factor*.

    *strike* is called for each transfer over one of them.
    """

    __slots__ = ("factor", "has", "strike")

    def __init__(self, has: "Callable[[Link], bool]", factor: float, strike: OnEnd) -> None:
        self.has = has
        self.factor = factor
        self.strike = strike


class Route:
    """The links that transfers cross, one object for equal loads. Each link has a bit of its own in *mask*."""

    __slots__ = ("alone", "loads", "mask")

    def __init__(self, loads: Loads, mask: int) -> None:
        self.loads = loads
        self.mask = mask
        # What `rate_alone` has returned, by the cap and the number of transfers.
        self.alone: dict[tuple[float, int], float] = {}


class Crossing(Class):
    """The transfers of one route and cap."""

    __slots__ = ("route",)

    def __init__(self, cap: float, route: Route) -> None:
        super().__init__(cap, loads=route.loads)
        self.route = route
        self.rate = cap  # without links it stays that


class Links(Flows):
    """The links between the devices of a simulation.

    Without a spec nothing is shared: every transfer has its cap. Where transfers begin or end, only those get a new
    rate that share a link with them, or with others that do.
    """

    def __init__(self, scheduler: Scheduler, spec: "LinksSpec | None") -> None:
        super().__init__(1)
        self.scheduler = scheduler
        self.spec = spec
        self._begun_ns: Nanoseconds = 0  # `now` counts from here: when links were last idle
        self._wake_ns = -1  # when `_wake` is called next; -1: not
        self._capacities: dict[Link, float] = {}
        self._routes: dict[Loads, Route] = {}
        self._routes_by_id: dict[int, Route] = {}  # by the id of their loads, for to hash loads reads all of them
        self._bits: dict[Link, int] = {}
        self._touched = 0  # the links whose transfers have changed since the rates were computed
        # The only transfer in progress, and what is called at its end: it is in no class yet.
        self._only: tuple[Transfer, OnEnd] | None = None
        self._slow: list[Slowness] = []

    def __repr__(self) -> str:
        return f"<Links classes={len(self._active[0]) or int(self._only is not None)}>"

    def loads(self, source: int, target: int) -> Loads:
        """Return what a copy from device *source* to device *target* crosses."""
        return () if self.spec is None else tuple((link, 1.0) for link in self.spec.path(source, target))

    def latency_ns(self, source: int, target: int) -> Nanoseconds:
        """Return how much longer a copy from device *source* to *target* takes because it crosses the network."""
        return 0 if self.spec is None else self.spec.latency_ns(source, target)

    def start(self, transfer: Transfer, on_end: OnEnd) -> None:
        """Start a transfer now; *on_end* is called at the instant at which it ends."""
        if self._slow:
            transfer = self._slowed(transfer)
        if not self._active[0]:
            if self._only is None:
                self._start_only(transfer, on_end)
                return
            self._classify_only()
        self._advance(float(self.scheduler.now - self._begun_ns))
        self._begin(on_end, transfer)
        self._plan_wake()

    def slow_down(self, slow: Slowness) -> None:
        """Let links be slower from now on, also for transfers in progress."""
        self._change(self._slow.append, slow)

    def restore(self, slow: Slowness) -> None:
        """End what `slow_down` has begun, if it has."""
        if slow in self._slow:
            self._change(self._slow.remove, slow)

    def _change(self, change: Callable[[Slowness], None], slow: Slowness) -> None:
        if self._only is not None:
            self._classify_only()
        if self._active[0]:
            self._advance(float(self.scheduler.now - self._begun_ns))
        change(slow)
        self._capacities.clear()
        for route in self._routes.values():
            route.alone.clear()
        if self._active[0]:
            self._touched = (1 << len(self._bits)) - 1
            self._is_stale = True
            self._plan_wake()

    def _classify_only(self) -> None:
        """Let the only transfer in progress be one of a class."""
        assert self._only is not None, f"{self!r} has several transfers, or none"
        only, at_its_end = self._only
        self._only = None
        self._begin(at_its_end, only)

    def _slowed(self, transfer: Transfer) -> Transfer:
        """Count a strike if *transfer* crosses a slow link; return it without the rate that it has otherwise."""
        for slow in self._slow:
            if any(slow.has(link) for link, _ in transfer.loads):
                slow.strike()
        return transfer._replace(alone=None)

    def _start_only(self, transfer: Transfer, on_end: OnEnd) -> None:
        """Start a transfer on idle links. Most end before another one starts; then the sum is short.

        The wake is when `_share` and `_plan_wake` would have it, so the transfer can still enter its class.
        """
        loads, nbytes, cap, rate = transfer
        if rate is None:
            rate = rate_alone(loads, cap, 1, self._capacity)
        self._only = transfer, on_end
        self._begun_ns, self.now, self._next_end = self.scheduler.now, 0.0, (0.0 + nbytes) / rate
        self._wake_ns = self._wake_of(self._next_end)
        self.scheduler.at(self._wake_ns, Links._wake, self)

    def _wake_of(self, end: float) -> Nanoseconds:
        """Return when to wake for an *end*: a little less, for what sums of floats add to a whole number."""
        return self._begun_ns + ceil(end * (1 - 1e-12) - 1e-6)

    def _route(self, loads: Loads) -> Route:
        route = self._routes_by_id.get(id(loads))
        if route is not None and route.loads is loads:
            return route
        route = self._routes.get(loads)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES and not self._active[0]:
                self._routes.clear()
                self._routes_by_id.clear()
            mask = 0
            for link, _ in loads:
                mask |= 1 << self._bits.setdefault(link, len(self._bits))
            route = self._routes[loads] = self._routes_by_id[id(loads)] = Route(loads, mask)
        return route

    def _begin(self, what: OnEnd, ask: Transfer) -> None:
        loads, nbytes, cap, _ = ask
        route = self._route(loads)
        class_ = self._classes.get((route, cap))
        if class_ is None:
            class_ = self._classes[route, cap] = Crossing(cap, route)
        if not class_.ends:
            class_.given = 0.0
            self._active[0].append(class_)
        self._sequence += 1
        heappush(class_.ends, (class_.given + nbytes, self._sequence, what))
        self._touched |= route.mask
        self._is_stale = True

    def _advance(self, now: float) -> None:
        if self._is_stale:
            self._share()
        passed = now - self.now
        if passed > 0.0:
            for each in self._active[0]:
                each.given += passed * each.rate
            self.now = now

    def _share(self) -> None:
        """Let the rates of classes rise together; each stops at its cap, or when one of its links is full."""
        rising = self._affected()
        left: dict[Link, float] = {}
        if len(rising) == 1:  # the most frequent case
            one = rising[0]
            known, flows = one.route.alone, (one.cap, len(one.ends))
            if flows not in known:
                known[flows] = rate_alone(one.loads, *flows, self._capacity)
            one.rate = known[flows]
            rising.clear()
        while rising:
            shares: dict[Link, float] = {}
            for each in rising:
                for link, weight in each.loads:
                    shares[link] = shares.get(link, 0.0) + weight * len(each.ends)
            for link in shares:
                if link not in left:
                    left[link] = self._capacity(link)
            level = min(each.cap for each in rising)
            for link, share in shares.items():
                level = min(level, left[link] / share)
            full = {link for link, share in shares.items() if left[link] <= level * share * (1 + 1e-12)}
            stopped = [each for each in rising if each.cap <= level or any(link in full for link, _ in each.loads)]
            assert stopped, f"no class of {self!r} stops at the rate {level}"
            for each in stopped:
                each.rate = min(each.cap, level)
                for link, weight in each.loads:
                    left[link] = max(0.0, left[link] - each.rate * weight * len(each.ends))
            rising = [each for each in rising if each not in stopped]
        ends = [self.now + (each.ends[0][0] - each.given) / each.rate for each in self._active[0]]
        self._next_end, self._is_stale = max(self.now, min(ends, default=inf)), False

    def _affected(self) -> "list[Crossing]":
        """Return the classes that share a link with those that have changed, or with others that do."""
        active: list[Crossing] = self._active[0]  # type: ignore[assignment]
        links, before = self._touched, -1
        while links != before:
            before = links
            for each in active:
                if each.route.mask & links:
                    links |= each.route.mask
        self._touched = 0
        return [each for each in active if each.route.mask & links]

    def _capacity(self, link: "Link") -> float:
        capacity = self._capacities.get(link)
        if capacity is None:
            assert self.spec is not None, f"a transfer crosses {link!r}, and there are no links"
            capacity = self.spec.capacity(link)
            for slow in self._slow:
                if slow.has(link):
                    capacity /= slow.factor
            self._capacities[link] = capacity
        return capacity

    def _plan_wake(self) -> None:
        """Wake when the next transfer ends. A wake that is planned earlier stays: it plans the next one."""
        if self._is_stale:
            self._share()
        if self._next_end == inf:
            return
        wake = self._wake_of(self._next_end)
        if self._wake_ns < 0 or wake < self._wake_ns:
            if self._wake_ns >= 0:
                self.scheduler.forget(self)
            self._wake_ns = wake
            self.scheduler.at(wake, Links._wake, self)

    def _wake(self) -> None:
        self._wake_ns = -1
        if self._only is not None:
            _, on_end = self._only
            self._only = None
            on_end()
            return
        ended: list[OnEnd] = []
        now = float(self.scheduler.now - self._begun_ns)
        if self._next_end <= now + 0.5:
            self._advance(max(now, self._next_end))
            active: list[Crossing] = self._active[0].copy()  # type: ignore[assignment]
            flows = [len(each.ends) for each in active]
            self._end(ended)
            for each, before in zip(active, flows, strict=True):
                if len(each.ends) < before:
                    self._touched |= each.route.mask
                    if not each.ends:
                        del self._classes[each.route, each.cap]
        self._plan_wake()
        for on_end in ended:
            on_end()
