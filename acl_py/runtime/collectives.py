"""What a runtime keeps of communicators, and how parts of collectives are queued: at once, or at the end of a group.

A group takes the calls of one task or thread. Nothing of it is queued before its end. Then the Sends and Recvs of one
rank in one stream are one part, which moves all of them at the same time. Each other call is a part of its own. If a
rank has parts in several streams of a group, these streams are joined before and after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from acl_py.callers import Caller
from acl_py.calls.acts import Joined
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.collectives.calls import Call
from device_model.collectives.cliques import Clique, Communicator
from device_model.collectives.parts import Part
from device_model.completions import AllOf
from device_model.ops import Op
from device_model.rules import CollectiveRules
from device_model.streams import Stream
from device_model.work import Lane


@dataclass(slots=True)
class Group:
    """Calls that are queued together: the operations, in the order of the first call of each, and their streams.

    *begun* is the line that began it, *depth* how many groups are open inside each other.
    """

    begun: Site
    depth: int = 1
    ops: list[tuple[Op, Stream]] = field(default_factory=list)
    open: dict[tuple[Communicator, Stream], tuple[Op, Part]] = field(default_factory=dict)  # of Sends and Recvs


class Communicators:
    """The communicators of a runtime: how many were made, those that are alive, and the groups that are open."""

    __slots__ = ("alive", "groups", "made")

    def __init__(self) -> None:
        self.made = 0
        self.alive: dict[Clique, None] = {}  # in order, with at least one rank that is not destroyed
        self.groups: dict[Caller, Group] = {}


def join_group(group: Group, rank: Communicator, calls: Sequence[Call], stream: Stream, site: Site) -> Op:
    """Put *calls* of *rank* into *group*; return the operation that they are a part of."""
    if calls[0].peer is not None:
        found = group.open.get((rank, stream))
        if found is not None:
            op, part = found
            part.add(calls)
            op.nbytes = part.nbytes
            return op
    part = Part(rank, calls)
    op = Op(part, Lane.COLLECTIVE, part.nbytes, site)
    group.ops.append((op, stream))
    if calls[0].peer is not None:
        group.open[rank, stream] = op, part
    return op


def queue(runtime: Runtime, op: Op, part: Part, stream: Stream) -> None:
    """Queue *op*, which does *part*, in *stream*; its calls get their numbers."""
    rank = part.rank
    tail = rank.tail
    if not tail.done and tail is not stream.tail and stream.branch is None:
        stream.wait(tail)
    runtime.submit(stream, op, runtime.costs.collective, runtime.kernel_latency)
    take(op, stream)


def take(op: Op, stream: Stream) -> None:
    """Give the calls of *op* their numbers, unless *stream* has only captured it, or a fault rule has dropped it."""
    part = op.work
    if stream.branch is None and isinstance(part, Part):
        if type(part) is Part:
            part.rank.take(part, op)
        else:
            part.rank.take_changed(part, op)


def queue_group(runtime: Runtime, group: Group) -> None:
    """Queue all that *group* has, and join the streams of each rank before and after."""
    streams: dict[Communicator, dict[Stream, None]] = {}
    for op, stream in group.ops:
        if isinstance(op.work, Part):
            streams.setdefault(op.work.rank, {})[stream] = None
    several = [list(each) for each in streams.values() if len(each) > 1]
    for together in several:
        _join(together)
    for op, stream in group.ops:
        check_part(runtime, op, stream)
    for op, stream in group.ops:
        assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
        queue(runtime, op, op.work, stream)
    for together in several:
        _join(together)


def _join(streams: list[Stream]) -> None:
    """Let all that is queued later in *streams* wait for all that is queued in them now."""
    done = AllOf([stream.turn() for stream in streams])
    for stream in streams:
        if not done.done:
            stream.wait(done)


def joined_by(group: Group) -> Joined[Any]:
    """Return what the end of *group* has done."""
    joined = [
        (call, op.work.rank, stream) for op, stream in group.ops if isinstance(op.work, Part) for call in op.work.calls
    ]
    return Joined(*(tuple(each) for each in zip(*joined, strict=True)))


def check_part(runtime: Runtime, op: Op, stream: Stream) -> None:
    """Raise if the stream or the memory of a part, which was put into a group, is gone meanwhile."""
    runtime.check_stream(stream)
    runtime.check_memory(op.work, op)


def drop(group: Group, now: int) -> None:
    """End the operations of a group that is given up: none is queued."""
    for op, stream in group.ops:
        op.stream = stream
        op.done, op.end_ns = True, now


def check_rank(runtime: Runtime, rank: object) -> Communicator:
    """Return *rank*, a communicator that can be used now."""
    if not isinstance(rank, Communicator):
        raise TypeError(f"a communicator must be what CommInitAll() or CommInitRootInfo() gave, not {rank!r}")
    if rank.clique.scheduler is not runtime.scheduler:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"{rank!r} belongs to another simulation",
            "make one in the simulation that uses it",
        )
    if rank.destroyed is not None:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE, f"{rank!r} takes part in nothing any more", "make a new communicator", dead=rank
        )
    return rank


def check_nccl(runtime: Runtime, name: str) -> None:
    """Raise if the rules are those of HCCL, which has no call *name*."""
    if runtime.rules.collectives is CollectiveRules.HCCL:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{name}() under rules {runtime.rules.name}", "HCCL has no such call: use rules='cuda'"
        )
