"""Launches of graphs in the relation: each chain of nodes is an actor, and each node is behind those before it.

A launch has its turn in its stream and after the launch of the same executable before it; what its stream is given next
is behind its last nodes. Bodies of conditional nodes are related at the launch, as if they ran: what is behind the
node is behind all that they may do.
"""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from acl_py.order.actors import Host, Line
from acl_py.order.clocks import Point
from acl_py.order.order import Order
from device_model.events import Event
from device_model.graphs.executable import Executable, Launch
from device_model.graphs.graph import Node, NodeKind
from device_model.graphs.plan import Plan

_U = TypeVar("_U")
_Path: TypeAlias = tuple[int, ...]  # of a plan: the places and bodies of the nodes that it is in, then a chain
_Use: TypeAlias = Callable[[Node, Line, bool], _U]  # and whether the node is in a body


class Related(NamedTuple, Generic[_U]):
    """One run of a plan: for each entry what stands for its turn, and its actor; the runs of bodies; and what is over
    when all of it is.
    """

    uses: list[tuple[_U, Line]]
    bodies: dict[int, "tuple[Related[_U], ...]"]
    ends: list[Point]


class Launches:
    """Puts launches into *order*."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lines: dict[Executable, dict[_Path, Line]] = {}
        self._last: dict[Executable, list[Point]] = {}  # the ends of its last launch

    def launch(self, launch: Launch, host: Host, use: _Use[_U]) -> Related[_U]:
        """Take up a launch by *host*. *use* is called with each node when it has its turn in its actor."""
        executable, stream = launch.executable, launch.stream
        if executable not in self._lines:
            for gone in [each for each in self._lines if each.destroyed is not None]:
                del self._lines[gone], self._last[gone]
        begin = self._order.make_ready(stream, host).point()
        lines = self._lines.setdefault(executable, {})
        related = self._relate(launch.plan, [begin, *self._last.get(executable, ())], (), lines, use)
        self._last[executable] = related.ends
        self._order.wait(stream, host, related.ends)
        launch.stamp = self._order.record(stream, host)
        return related

    def _relate(
        self, plan: Plan, first: Iterable[Point], path: _Path, lines: dict[_Path, Line], use: _Use[_U]
    ) -> Related[_U]:
        """Give each node of *plan*, at *path*, its epoch; the first ones are behind *first*."""
        related: Related[_U] = Related([], {}, [])
        points: list[Point] = []
        for place, entry in enumerate(plan.entries):
            chain = (*path, entry.chain)
            line = lines.get(chain)
            if line is None:
                line = lines[chain] = self._order.chain()
            line.join([points[each] for each in entry.before] or first)
            node = entry.node
            if isinstance(node.subject, Event) and node.kind is NodeKind.WAIT and node.subject.stamp is not None:
                line.follow(node.subject.stamp)
            line.count += 1
            related.uses.append((use(node, line, bool(path)), line))
            if entry.bodies:
                here = [line.point()]
                related.bodies[place] = tuple(
                    self._relate(body, here, (*path, place, number), lines, use)
                    for number, body in enumerate(entry.bodies)
                )
                line.join([end for body in related.bodies[place] for end in body.ends])
            points.append(line.point())
            if isinstance(node.subject, Event) and node.kind is NodeKind.RECORD:
                node.subject.stamp = points[-1]
        related.ends.extend([points[place] for place in plan.last] or first)
        return related
