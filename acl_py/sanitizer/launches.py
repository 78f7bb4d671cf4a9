"""Launches of graphs in the relation: each chain of nodes is an actor, and each node is behind those before it.

A launch has its turn in its stream and after the launch of the same executable before it; what its stream is given next
is behind its last nodes. The body of an IF node is related at the launch, as if it ran: what is behind it is behind all
that it may do. What it touches is taken up when it runs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from acl_py.order.order import Host, Line, Order, Past, Point
from acl_py.sanitizer.accesses import Accesses
from acl_py.sanitizer.shadow import LifeCall, Use
from device_model.completions import Completion, Nanoseconds
from device_model.events import Event
from device_model.graphs.executable import Executable, Launch, Run
from device_model.graphs.graph import Node, NodeKind
from device_model.graphs.plan import Plan
from device_model.graphs.streaks import NodeOp
from device_model.memory import Allocation
from device_model.work import HostFunction

_Path = tuple[int, ...]  # of a plan: the places of the IF nodes that it is in, and at its end a chain
_LIVES = {NodeKind.ALLOCATE: LifeCall("MallocAsync"), NodeKind.FREE: LifeCall("FreeAsync")}


class _Related(NamedTuple):
    """One run of a plan: for each entry its use of memory and its actor, the runs of bodies, and what is over when all
    of it is.
    """

    uses: list[tuple[Use, Line]]
    bodies: dict[int, "_Related"]
    ends: list[Point]


class Launches:
    """Puts launches into *order*.

    *current* returns the host that makes the present call. *accesses* take up what nodes use, and the lives of memory
    of a graph.
    """

    def __init__(self, order: Order, current: Callable[[], Host], accesses: Accesses) -> None:
        self._order = order
        self._current = current
        self._accesses = accesses
        self._lines: dict[Executable, dict[_Path, Line]] = {}
        self._last: dict[Executable, list[Point]] = {}  # the ends of its last launch
        self._bodies: dict[Completion, _Related] = {}  # that may still run

    def queue(self, run: Run, made: Sequence[Completion], at_ns: Nanoseconds) -> None:
        """Take up a run of nodes, whose operations and bodies are *made*, at *at_ns* of the host."""
        related = self._launch(run, self._current(), at_ns) if isinstance(run, Launch) else self._bodies.pop(run)
        for place, (use, line) in enumerate(related.uses):
            completion, node = made[place], run.plan.entries[place].node
            if place in related.bodies:
                self._bodies[completion] = related.bodies[place]
            elif isinstance(completion, NodeOp):
                self._touch(completion, use, line)
            elif isinstance(node.subject, Allocation):
                change = self._accesses.rest if node.kind is NodeKind.FREE else self._accesses.begin
                change(node.subject, use)

    def skip(self, body: Run) -> None:
        """Forget *body*, which does not run."""
        del self._bodies[body]

    def _launch(self, launch: Launch, host: Host, at_ns: Nanoseconds) -> _Related:
        executable, stream = launch.executable, launch.stream
        if executable not in self._lines:
            for gone in [each for each in self._lines if each.destroyed is not None]:
                del self._lines[gone], self._last[gone]
        turn = self._order.turn(stream, host).point()
        lines = self._lines.setdefault(executable, {})
        relating = _Relating(self._order, lines, host, launch, at_ns)
        related = relating.relate(launch.plan, [turn, *self._last.get(executable, ())], ())
        self._last[executable] = related.ends
        self._order.wait(stream, host, related.ends)
        launch.stamp = self._order.record(stream, host)
        return related

    def _touch(self, op: NodeOp, use: Use, line: Line) -> None:
        """Compare what *op* touches with what came before, unless the launch before did the same."""
        op.stamp = use
        footprint = line.footprints.get(op.entry.node)
        if footprint is not None and footprint.is_repeated_by(op.work):
            footprint.latest = use
        elif type(op.work) is not HostFunction:  # what it touches shows when it runs
            line.footprints[op.entry.node] = self._accesses.take(use)


class _Relating:
    """Relates the nodes of one launch, which *host* makes."""

    def __init__(self, order: Order, lines: dict[_Path, Line], host: Host, launch: Launch, at_ns: Nanoseconds) -> None:
        self._order = order
        self._lines = lines
        self._host = host
        self._launch = launch
        self._at_ns = at_ns
        # By the time that a body or a host function runs, the host may have done more.
        self._later = Past.of({**host.past.clock, host.number: host.count})

    def relate(self, plan: Plan, first: Iterable[Point], path: _Path) -> _Related:
        """Give each node of *plan*, at *path*, its epoch; the first ones are behind *first*."""
        related = _Related([], {}, [])
        points: list[Point] = []
        for place, entry in enumerate(plan.entries):
            line = self._line((*path, entry.chain))
            line.join([points[each] for each in entry.before] or first)
            node = entry.node
            if isinstance(node.subject, Event) and node.kind is NodeKind.WAIT and node.subject.stamp is not None:
                line.follow(node.subject.stamp)
            line.count += 1
            related.uses.append((self._use(node, line, is_late=bool(path)), line))
            if entry.body is not None:
                body = related.bodies[place] = self.relate(entry.body, [line.point()], (*path, place))
                line.join(body.ends)
            points.append(line.point())
            if isinstance(node.subject, Event) and node.kind is NodeKind.RECORD:
                node.subject.stamp = points[-1]
        related.ends.extend([points[place] for place in plan.last] or first)
        return related

    def _line(self, path: _Path) -> Line:
        line = self._lines.get(path)
        if line is None:
            line = self._lines[path] = self._order.chain()
        return line

    def _use(self, node: Node, line: Line, *, is_late: bool) -> Use:
        host, is_late = self._host, is_late or isinstance(node.work, HostFunction)
        given, number = (self._later, -1) if is_late else (host.past, host.number)
        work = _LIVES.get(node.kind) or node.work or LifeCall(node.name)
        stream = node.stream or self._launch.stream
        return Use(line.number, line.count, line.past, given, number, work, stream, node.site, host.name, self._at_ns)
