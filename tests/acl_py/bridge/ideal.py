"""What the bridge must come to: a cooperative kernel without an event loop, which knows who can run.

Tasks are lists of steps. It runs whoever is ready, in order; when nobody is, time goes on to the next completion for
which somebody waits. Written apart from the bridge and from the scheduler: it shares nothing with them but the costs.
"""

from collections import deque
from heapq import heappop, heappush

from miniature import QUERY, SUBMIT, SYNC, WAKE


class _Op:
    def __init__(self, ns):
        self.ns = ns
        self.done = False
        self.waiters = []
        self.next = None  # the one behind it in its stream


class Ideal:
    """Runs *programs*, a list of steps for each task; `log` has the host's time after each step."""

    def __init__(self, programs):
        self.host = self.sequence = 0
        self.heap = []
        self.last = {}
        self.items = [0] * len(programs)
        self.getters = {}
        self.log = []
        self.ready = deque(self._task(who, steps) for who, steps in enumerate(programs))

    def run(self):
        while self.ready or self._jump():
            task = self.ready.popleft()
            try:
                where = next(task)
            except StopIteration:
                continue
            where.append(task)
        return self.log

    def _task(self, who, steps):
        for number, (verb, *arguments) in enumerate(steps):
            yield from getattr(self, verb)(who, *arguments)
            self.log.append((who, number, verb, self.host))

    # The verbs; each yields the list in which the task is to be put when it cannot go on.

    def submit(self, who, stream, ns):
        self._call(SUBMIT)
        op, before = _Op(ns), self.last.get(stream)
        self.last[stream] = op
        if before is None or before.done:
            self._start(op, self.host)
        else:
            before.next = op
        yield from ()

    def sync(self, who, stream):
        self._call(SYNC)
        op = self.last.get(stream)
        if op is None or op.done:
            yield self.ready
        else:
            yield op.waiters
            self._call(WAKE)

    def query(self, who, stream):
        self._call(QUERY)
        op = self.last.get(stream)
        if op is not None and not op.done:
            yield self.ready

    def work(self, who, ns):
        self._call(ns)
        yield from ()

    def sleep(self, who, ns):
        timer = _Op(ns)
        self._start(timer, self.host)
        yield timer.waiters
        self._call(WAKE)

    def turn(self, who):
        yield self.ready

    def put(self, who, to):
        self.items[to] += 1
        self.ready.extend(self.getters.pop(to, ()))
        yield from ()

    def get(self, who):
        if not self.items[who]:
            yield self.getters.setdefault(who, [])
        self.items[who] -= 1

    # Time.

    def _call(self, cost):
        self.host += cost
        while self.heap and self.heap[0][0] <= self.host:
            self._complete_first()

    def _jump(self):
        while self.heap and not self.ready:
            now = self.heap[0][0]
            while self.heap and self.heap[0][0] == now:
                self._complete_first()
            self.host = max(self.host, now)
        return bool(self.ready)

    def _start(self, op, now):
        self.sequence += 1
        heappush(self.heap, (now + op.ns, self.sequence, op))

    def _complete_first(self):
        now, _, op = heappop(self.heap)
        op.done = True
        if op.next is not None:
            self._start(op.next, now)
        self.ready.extend(op.waiters)
