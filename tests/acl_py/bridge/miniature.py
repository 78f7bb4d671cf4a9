"""A complete small host: the real scheduler and the real bridge, one FIFO engine per stream, fixed call costs.

With it the tests of the bridge keep their exact times, whatever the verbs of acl_py cost in the profile of the day.
"""

import asyncio

from acl_py.callers import Callers
from acl_py.waiting.bridge import Bridge
from device_model.completions import Completion, Nanoseconds, Process
from device_model.scheduler import END_NS, Scheduler

SUBMIT, SYNC, QUERY, WAKE = 1_000, 300, 700, 2_000
US = 1_000


class Deadlock(Exception):
    """The host's error for a wait that nobody can end."""


class Stream:
    """A queue with an engine of its own: each operation starts when the one before it ends."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.last = None

    @property
    def idle(self):
        return self.last is None or self.last.done

    def push(self, course):
        self.last = Process(self.scheduler, self._in_turn(self.last, course))
        return self.last

    def run(self, ns, body):
        yield self.scheduler.timer(self.scheduler.now + ns)
        if body is not None:
            body()

    @staticmethod
    def wait(event):
        yield event

    @staticmethod
    def _in_turn(before, course):
        if before is not None:
            yield before
        yield from course


class Host:
    """A runtime in small; `log` is what the programs under test wrote down, each with the host's time."""

    def __init__(self, hang_after=None):
        self.scheduler = Scheduler()
        self.host_ns: Nanoseconds = 0
        self.horizon_ns: float = END_NS + 1
        self.waiters = {}
        self.callers = Callers()
        self.hang_after = hang_after
        self.log = []
        self.fruitless = 0
        self.bridge = Bridge(self)

    def describe_hang(self):
        return f"waiting: {', '.join(self.waiters.values())}"

    def deadlock(self, waiting):
        return Deadlock(waiting)

    def end_hangs(self):
        return False  # there are no kernels that could wait

    def note(self, who):
        self.log.append((who, self.host_ns))

    def stream(self):
        return Stream(self.scheduler)

    def event(self):
        """A flag that host code records, once."""
        return Completion()

    async def submit(self, stream, ns, body=None):
        self._call(SUBMIT)
        return stream.push(stream.run(ns, body))

    async def wait_event(self, stream, event):
        self._call(SUBMIT)
        stream.push(stream.wait(event))

    async def record(self, event):
        self._call(SUBMIT)
        event.complete(self.scheduler.now)

    async def work(self, ns):
        self._call(ns)

    async def sync(self, stream, who="sync"):
        self._call(SYNC)
        if stream.idle:
            await self.bridge.breathe()
        else:
            await self._wait(stream.last, who)

    async def query(self, stream, who="query"):
        self._call(QUERY)
        if stream.idle:
            self.bridge.poll_succeeded()
            return True
        self.fruitless += 1
        self.bridge.poll_failed(who)
        await self.bridge.breathe()
        return False

    async def sleep(self, ns):
        """Simulated sleep."""
        await self._wait(self.scheduler.timer(self.host_ns + ns), "sleep")

    async def run(self, stream, ns, who):
        """Submit, synchronise, write down when it was over."""
        await self.submit(stream, ns)
        await self.sync(stream, who)
        self.note(who)

    async def _wait(self, completion, waiting):
        await self.bridge.wait(completion, lambda: waiting)
        self._call(WAKE)

    def _call(self, ns):
        host_ns = self.host_ns + ns
        self.host_ns = host_ns if host_ns < self.horizon_ns else self.bridge.reach(ns)
        self.scheduler.advance(self.host_ns)
        if self.waiters:
            self.bridge.arm()


async def repeat(host, who, ns, times):
    stream = host.stream()
    for _ in range(times):
        await host.run(stream, ns, who)


ALTERNATE = [("A", 13_000), ("B", 19_300), ("A", 26_000), ("B", 37_300), ("A", 40_600), ("B", 55_300)]


async def alternate(host):
    await asyncio.gather(repeat(host, "A", 10 * US, 3), repeat(host, "B", 15 * US, 3))
