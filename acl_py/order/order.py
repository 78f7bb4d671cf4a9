"""The relation: what is certain to be over before what, whatever the times are.

Streams and hosts are its actors (actors.py), and clocks say how far each of them has come (clocks.py). An operation
waits for what its stream waits for, and comes after what the host knew when it queued it.

While there is one host, streams need not keep what it knows: it queues each of their operations itself, and it forgets
nothing.

`Order.closure` says what is over with a wait that is not plain. There are two relations: the first has what the vendor
promises, the second also has what hosts have waited for without a promise.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from acl_py.order.actors import CallbackWait, Context, Host, Line, Rule, Stream, Wait
from acl_py.order.clocks import BEGINNING, NOTHING, Clock, Past, PlainPoint, Point, joined, raised_to

_KEPT = 256  # waits of one actor that are not plain; older ones count as the oldest of these


class Order:
    """What is certain to be over before what, in one program."""

    __slots__ = ("_ended", "_numbers", "_rules", "_unused", "_versions", "has_several_hosts", "lines", "waits")

    def __init__(self) -> None:
        self._numbers = count(1)
        self._versions = count(1)
        self.lines: dict[Stream, Line] = {}
        self._rules: dict[Context, Rule] = {}
        self._ended: dict[Line, Context] = {}  # of streams that were destroyed
        self._unused: list[Line] = []  # ended, and over for every host: their numbers can be used again
        self.has_several_hosts = False
        self.waits: dict[int, deque[Wait]] = {}  # those that are not plain, by their numbers

    # --- actors

    def host(self) -> Host:
        """Return a new host, which knows nothing."""
        return Host(next(self._numbers), next(self._versions))

    def again(self, ended: Host) -> Host:
        """Return a new host with the number of one that has *ended*; the caller knows all that this one did."""
        host = Host(ended.number, next(self._versions))
        host.count, host.waits = ended.count, ended.waits
        return host

    def line(self, stream: Stream) -> Line:
        """Return the actor that *stream* is."""
        line = self.lines.get(stream)
        if line is None:
            rule = self._rule_of(stream)
            if self._unused:
                old = self._unused.pop()
                line = Line(old.number, old.count, rule)
                line.waits, line.callbacks = old.waits, old.callbacks
            else:
                line = Line(next(self._numbers), 0, rule)
            self.lines[stream] = line
        return line

    def chain(self) -> Line:
        """Return a new actor that is a chain of nodes of a graph."""
        return Line(next(self._numbers), 0, None)

    def end(self, stream: Stream) -> None:
        """Note that *stream* was destroyed: its work is still to come to its end."""
        line = self.lines.pop(stream, None)
        if line is not None:
            self._ended[line] = stream.context

    def _rule_of(self, stream: Stream) -> Rule | None:
        context = stream.context
        if context.legacy is None or not (stream.is_blocking or stream is context.legacy):
            return None
        rule = self._rules.get(context)
        if rule is None:
            rule = self._rules[context] = Rule(context.legacy)
        return rule

    def expect_several_hosts(self) -> None:
        """Let streams keep what each host knows, from now on."""
        self.has_several_hosts = True
        for line in self.lines.values():
            line.ready = -1

    # --- what streams are given

    def queue(self, stream: Stream, host: Host) -> Line:
        """Begin an epoch of *stream*, for an operation that *host* queues, and return the actor."""
        line = self.make_ready(stream, host)
        line.count += 1
        rule = line.rule
        if rule is not None and rule.legacy is stream:
            rule.barrier = (line.point(),)
        return line

    def allocate(self, stream: Stream, host: Host) -> Line:
        """Begin an epoch of *stream*, for memory that *host* allocates in it, and return the actor.

        In a legacy stream that waits for no other stream (measured: tests/bench/cuda/legacy_memory.py); what blocking
        streams are given later is behind it.
        """
        line = self.lines.get(stream) or self.line(stream)
        rule = line.rule
        if rule is None or rule.legacy is not stream:
            return self.queue(stream, host)
        self._tell(line, host)
        line.count += 1
        rule.begin(line.point())
        return line

    def record(self, stream: Stream, host: Host) -> Point:
        """Return all that *stream* was given so far, as a record by *host* notes it."""
        return self.make_ready(stream, host).point()

    def wait(self, stream: Stream, host: Host, points: Iterable[PlainPoint]) -> None:
        """Put what is given to *stream* from now on behind *points*."""
        line = self.make_ready(stream, host)
        line.join(points)
        rule = line.rule
        if rule is not None and rule.legacy is stream:
            rule.barrier = (line.point(),)

    def make_ready(self, stream: Stream, host: Host) -> Line:
        """Put *stream* behind all that comes before whatever *host* gives to it now, and return the actor.

        That is what the default-stream rule says, and what the host knows.
        """
        line = self.lines.get(stream) or self.line(stream)
        self._tell(line, host)
        rule = line.rule
        if rule is not None:
            if rule.legacy is stream:
                line.join([*rule.barrier, *(each.point() for each in rule.lines)])
                rule.begin(line.point())
                rule.lines.clear()
                return line
            if line.round != rule.round:
                line.round = rule.round
                rule.lines[line] = None
                line.join(rule.barrier)
        line.ready = host.version
        return line

    def _tell(self, line: Line, host: Host) -> None:
        """Put *line* behind what *host* knows, if it is not yet."""
        if self.has_several_hosts and line.hosts.get(host.number) != host.version:
            line.hosts[host.number] = host.version
            line.join((host.point(),))

    def make_ready_for_signal(self, stream: Stream, host: Host) -> Line:
        """Do what `make_ready` does, for a set, a clear or a wait of a signal. Other waits may be behind it: so what
        *host* knows goes into its past, also if there is one host.
        """
        line = self.make_ready(stream, host)
        line.join((host.point(),))
        return line

    # --- what hosts know

    def work_of_stream(self, stream: Stream) -> Iterator[Point]:
        """Yield all that *stream* was given so far, as a host that synchronises with it knows it afterwards."""
        if stream.bound:  # hosts do not wait for it
            return
        line = self.line(stream)
        yield line.point()
        rule = line.rule
        if rule is not None and rule.legacy is stream:
            yield from rule.barrier
            for other in rule.lines:
                yield other.point()

    def work_of_context(self, context: Context) -> Iterator[Point]:
        """Return all that the streams of *context* were given so far."""
        return self._work_of(lambda each: each is context)

    def work_of_device(self, device: object) -> Iterator[Point]:
        """Return all that the streams of *device* were given so far."""
        return self._work_of(lambda each: each.device is device)

    def _work_of(self, covers: Callable[[Context], bool]) -> Iterator[Point]:
        for stream, line in self.lines.items():
            if not stream.bound and covers(stream.context):
                yield line.point()
        for line, context in self._ended.items():
            if covers(context):
                yield line.point()

    def work_of_gone(self, is_gone: Callable[[Context], bool]) -> list[Point]:
        """Return all that the streams of contexts were given that are gone, and forget these streams."""
        for stream in [each for each in self.lines if is_gone(each.context)]:
            self.end(stream)
        return [line.point() for line, context in self._ended.items() if is_gone(context)]

    def learn(self, host: Host, points: Iterable[Point]) -> bool:
        """Let *host* know that *points* are over; return whether that is news."""
        known = host.past.clock
        joined = raised_to(known, host.number, points)
        if joined is known:
            return False
        host.past = Past.of(joined)
        host.count += 1
        host.version = next(self._versions)
        if self._ended and not self.has_several_hosts:
            over = [line for line in self._ended if joined.get(line.number, 0) >= line.count]
            for line in over:
                del self._ended[line]
            self._unused += over
        return True

    def learn_unpromised(self, host: Host, points: Iterable[Point]) -> None:
        """Let *host* know that *points* are over, by a call that has waited for them and does not promise to."""
        news = [point for point in points if host.past.clock.get(point.actor, 0) < point.epoch]
        if news:
            earlier = self.waits[host.waits][-1].past if host.waits else NOTHING
            past = raised_to(earlier, host.number, news)
            if past is not earlier:
                if not host.waits:
                    host.waits = next(self._numbers)
                wait = Wait(host.waits, self.waits_of(host.waits), past, promised=False)
                self.waits[host.waits].append(wait)
                self.learn(host, [Point(host.waits, wait.epoch, BEGINNING)])

    def wait_for_signal(self, line: Line, wait: Callable[[int, int], Wait]) -> Wait:
        """Begin an epoch of *line* with a wait for a signal, which *wait* makes for a number and an epoch."""
        if not line.waits:
            line.waits = next(self._numbers)
        made = wait(line.waits, self.waits_of(line.waits))
        self._put(line, made)
        return made

    def wait_for_callback(self, line: Line) -> CallbackWait:
        """Begin an epoch of *line* with the wait for a callback, which a host is still to call."""
        if not line.callbacks:
            line.callbacks = next(self._numbers)
        epoch = self.waits_of(line.callbacks)
        earlier = self.wait_at(line.callbacks, epoch - 1).past if epoch > 1 else NOTHING
        made = CallbackWait(line.callbacks, epoch, earlier)
        self._put(line, made)
        return made

    def end_callback(self, wait: CallbackWait, host: Host) -> None:
        """Put what is behind *wait*, or a later one of its stream, behind all that *host* did and knows: it has called
        the callback.
        """
        wait.is_open = False
        over = {**host.past.clock, host.number: host.count}
        for each in self.waits[wait.number]:
            if each.epoch >= wait.epoch:
                each.past = joined(each.past, over)

    def waits_for_callback(self, clock: Clock) -> bool:
        """Whether something with *clock* is behind a callback that no host has called yet."""
        waits = (self.wait_at(number, epoch) for number, epoch in self.closure(clock).items() if number in self.waits)
        return any(isinstance(wait, CallbackWait) and wait.is_open for wait in waits)

    def _put(self, line: Line, wait: Wait) -> None:
        self.waits[wait.number].append(wait)
        line.count += 1
        line.past = line.past.after(wait.number, wait.epoch, BEGINNING)

    def wait_at(self, number: int, epoch: int) -> Wait:
        """Return the wait that is *epoch* of those with *number*, or the oldest that is kept if it is older."""
        waits = self.waits[number]
        return waits[max(0, min(epoch - waits[0].epoch, len(waits) - 1))]

    def waits_of(self, number: int) -> int:
        """Return the epoch of the next wait with this *number*."""
        waits = self.waits.setdefault(number, deque(maxlen=_KEPT))
        return waits[-1].epoch + 1 if waits else 1

    def closure(self, clock: Clock, *, unpromised: bool = False) -> Clock:
        """Return *clock* with all that is over with the waits that are in it; with *unpromised*, also with those that
        nothing promises.
        """
        todo = [number for number in clock if number in self.waits]
        if not todo:
            return clock
        closed = dict(clock)
        while todo:
            number = todo.pop()
            wait = self.wait_at(number, closed[number])
            if not (wait.promised or unpromised):
                continue
            for actor, reached in wait.past.items():
                if closed.get(actor, 0) < reached:
                    closed[actor] = reached
                    if actor in self.waits:
                        todo.append(actor)
        return closed

    def act(self, host: Host) -> int:
        """Begin an epoch of *host*, for an access that it makes itself, and return its count."""
        host.count += 1
        host.version = next(self._versions)
        return host.count
