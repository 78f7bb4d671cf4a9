"""What the bridge must come to: a cooperative kernel without an event loop, which knows who can run.

Tasks are lists of steps. It runs whoever is ready, in order; when nobody is, time goes on to the next completion for
which somebody waits, or to the next timer. At one instant all completions come before the timers, and timers come in
the order in which they were set. Written apart from the bridge, from its clock and from the scheduler: it shares
nothing with them but the costs.
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


class _Cancelled(Exception):
    pass


class _Task:
    def __init__(self):
        self.steps = None
        self.place = None  # the list or queue in which it waits for its turn
        self.is_doomed = self.is_killed = self.is_over = False


class _Timer:
    def __init__(self, callback):
        self.callback = callback
        self.is_cancelled = False


class Ideal:
    """Runs *programs*, a list of steps for each task; `log` has the host's time after each step."""

    def __init__(self, programs):
        self.host = self.sequence = 0
        self.heap = []
        self.timers = []
        self.last = {}
        self.items = [0] * len(programs)
        self.getters = {}
        self.log = []
        self.ready = deque()
        self.tasks = [_Task() for _ in programs]
        for who, (task, steps) in enumerate(zip(self.tasks, programs, strict=True)):
            task.steps = self._task(who, steps)
            self._wake([task])

    def run(self):
        while self.ready or self._jump():
            first = self.ready.popleft()
            if isinstance(first, _Task):
                self._go_on(first)
            elif not first.is_cancelled:
                first.callback()
        return self.log

    def _task(self, who, steps):
        for number, step in enumerate(steps):
            try:
                outcome = yield from self._do(who, step)
            except _Cancelled:
                self.log.append((who, number, "killed", self.host))
                raise
            self.log.append((who, number, outcome or step[0], self.host))

    def _do(self, who, step):
        verb, *arguments = step
        return getattr(self, verb)(who, *arguments)

    # Tasks.

    def _go_on(self, task):
        """Let *task* take its turn: up to where it has to wait, or to its end."""
        try:
            if task.is_doomed:
                task.is_doomed = False
                place = task.steps.throw(_Cancelled)
            else:
                place = next(task.steps)
        except (StopIteration, _Cancelled):
            task.is_over = True
            return
        place.append(task)
        task.place = place

    def _wake(self, tasks):
        for task in list(tasks):
            task.place = self.ready
            self.ready.append(task)
        if tasks is not self.ready:
            tasks.clear()

    def _cancel(self, task):
        """Let *task* be interrupted where it waits, or where it goes on if it has been woken."""
        if task.is_over:
            return
        task.is_doomed = True
        if task.place is not self.ready:
            task.place.remove(task)
            self._wake([task])

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
        self._wake(self.getters.get(to, []))
        yield from ()

    def get(self, who):
        if not self.items[who]:
            yield self.getters.setdefault(who, [])
        self.items[who] -= 1

    def rest(self, who, ns):
        """asyncio.sleep: the timer wakes its task when its own turn has come."""
        if not ns:
            yield self.ready
            return
        sleeper = []
        timer = self._set(ns, lambda: self._wake(sleeper))
        try:
            yield sleeper
        finally:
            timer.is_cancelled = True

    def within(self, who, ns, step):
        """asyncio.timeout around a step."""
        task, expired = self.tasks[who], []
        timer = self._set(ns, lambda: (expired.append(True), self._cancel(task)))
        try:
            yield from self._do(who, step)
        except _Cancelled:
            if task.is_killed or not expired:
                raise
            return "too late"
        finally:
            timer.is_cancelled = True
        return "in time"

    def kill(self, who, other):
        task = self.tasks[other]
        if task.is_over:
            return
        task.is_killed = True
        self._cancel(task)
        yield from ()

    # Time.

    def _call(self, cost):
        end = self.host + cost
        while min(self._next_completion(), self._next_timer()) <= end:
            self._pass_next()
        self.host = end

    def _jump(self):
        while not self.ready and (self.heap or self._next_timer() < float("inf")):
            self.host = max(self.host, min(self._next_completion(), self._next_timer()))
            self._pass_next()
            while min(self._next_completion(), self._next_timer()) <= self.host:
                self._pass_next()
        return bool(self.ready)

    def _pass_next(self):
        if self._next_completion() <= self._next_timer():
            self._complete_first()
        else:
            self.ready.append(heappop(self.timers)[2])

    def _next_completion(self):
        return self.heap[0][0] if self.heap else float("inf")

    def _next_timer(self):
        while self.timers and self.timers[0][2].is_cancelled:
            heappop(self.timers)
        return self.timers[0][0] if self.timers else float("inf")

    def _set(self, ns, callback):
        timer = _Timer(callback)
        if ns:
            self.sequence += 1
            heappush(self.timers, (self.host + ns, self.sequence, timer))
        else:
            self.ready.append(timer)
        return timer

    def _start(self, op, now):
        self.sequence += 1
        heappush(self.heap, (now + op.ns, self.sequence, op))

    def _complete_first(self):
        now, _, op = heappop(self.heap)
        op.done = True
        if op.next is not None:
            self._start(op.next, now)
        self._wake(op.waiters)
