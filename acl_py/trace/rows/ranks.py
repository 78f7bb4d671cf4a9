"""Ranks in a trace: which operation is the part of which rank, and which parts are one collective.

A call names what each rank takes part in (`Joined`), an operation does not. What one call has queued in a stream are
operations in the order of its calls; Sends and Recvs of one rank there are one. Parts of one rank run in the order of
their calls, so their order gives them their numbers. An operation of a graph has the line, the device and the name of
the call that was captured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from acl_py.calls.acts import Joined
from acl_py.trace.rows.reading import queuing_calls, short_site
from acl_py.trace.rows.timeline import Call, Joint, Operation, Timeline
from device_model.collectives.calls import CollectiveKind

_SEND = CollectiveKind.SEND.value
_Key = tuple[int, int]  # a communicator and a stream: their indices in `Timeline.handles`


class Part(NamedTuple):
    """The operation at index *op*: what the rank of the communicator `Timeline.handles[comm]` does for *joints*."""

    op: int
    comm: int
    joints: tuple[Joint, ...]


@dataclass(frozen=True, slots=True)
class Meeting:
    """One collective of all ranks: the *number*-th of the communicator with the number *clique*, called *name*.

    *ops* are the indices of the parts that have ended, by rank.
    """

    clique: int
    name: str
    number: int
    kind: str
    ops: dict[int, int]


def parts_of(timeline: Timeline) -> list[Part]:
    """Return the parts of collectives that have ended, in the order of their starts."""
    ops, calls = timeline.ops, timeline.calls
    queued: dict[tuple[int, int], list[int]] = {}  # by call and stream
    launched: list[int] = []
    for index, call in enumerate(queuing_calls(ops, calls) if any(map(_is_part, ops)) else ()):
        if _is_part(ops[index]):
            if ops[index].launch is not None:
                launched.append(index)
            elif call is not None:
                queued.setdefault((call, ops[index].in_stream), []).append(index)
    found, captured = [], {}
    for place, call_ in enumerate(calls):
        for (comm, stream), asked in _asked(call_):
            own = sorted(queued.get((place, stream), ()), key=lambda index: (ops[index].queued_ns, index))
            found += [Part(index, comm, joints) for index, joints in zip(own, asked, strict=False)]
            if not own:
                device = timeline.handles[comm].device
                captured[short_site(call_.file, call_.line), device, asked[0][0].kind] = comm, asked[0]
    for index in launched:
        key = ops[index].site, ops[index].device, ops[index].name
        if key in captured:
            found.append(Part(index, *captured[key]))
    return sorted(found, key=lambda part: (ops[part.op].start_ns, ops[part.op].queued_ns, part.op))


def _is_part(op: Operation) -> bool:
    return op.kind == "collective"


def _asked(call: Call) -> Iterator[tuple[_Key, list[tuple[Joint, ...]]]]:
    """Yield what *call* has queued: for each rank and stream the calls of each operation."""
    match call.act:
        case Joined(work, communicators, streams):
            operations: dict[_Key, list[tuple[Joint, ...]]] = {}
            for joint, comm, stream in zip(work, communicators, streams, strict=True):
                own = operations.setdefault((comm.handle, stream.handle), [])
                last = next((place for place, each in enumerate(own) if each[0].peer >= 0), None)
                if joint.peer >= 0 and last is not None:
                    own[last] += (joint,)
                else:
                    own.append((joint,))
            yield from operations.items()


def meetings_of(timeline: Timeline) -> list[Meeting]:
    """Return the collectives of all ranks, in the order in which their first parts have started."""
    found: dict[tuple[int, int], Meeting] = {}
    numbers: dict[int, int] = {}  # by communicator: how many so far
    for part in parts_of(timeline):
        options, name = timeline.handles[part.comm].options, timeline.handles[part.comm].name
        clique, rank = int(options["clique"]), int(options["rank"])
        for joint in part.joints:
            if joint.peer < 0:
                number = numbers[part.comm] = numbers.get(part.comm, 0) + 1
                meeting = found.setdefault((clique, number), Meeting(clique, name, number, joint.kind, {}))
                meeting.ops[rank] = part.op
    return list(found.values())


class Delivery(NamedTuple):
    """One Send and its Recv: the *number*-th from rank *sender* to rank *receiver* of the communicator called *name*.

    *send* and *recv* are the indices of their operations; in a group, one operation has several of them.
    """

    name: str
    sender: int
    receiver: int
    number: int
    send: int
    recv: int


def deliveries_of(timeline: Timeline) -> list[Delivery]:
    """Return the Sends and Recvs between two ranks that have both ended, in the order of the later of the two."""
    numbers: dict[tuple[int, int, int, str], int] = {}
    seen: dict[tuple[int, int, int, int], tuple[str, int]] = {}  # one side, until the other is found
    found = []
    for part in parts_of(timeline):
        options, name = timeline.handles[part.comm].options, timeline.handles[part.comm].name
        clique, rank = int(options["clique"]), int(options["rank"])
        for joint in part.joints:
            if joint.peer in (-1, rank):
                continue
            pair = (rank, joint.peer) if joint.kind == _SEND else (joint.peer, rank)
            side = (clique, *pair, joint.kind)
            number = numbers[side] = numbers.get(side, 0) + 1
            other = seen.pop((clique, *pair, number), None)
            if other is None:
                seen[clique, *pair, number] = joint.kind, part.op
            else:
                send, recv = (part.op, other[1]) if joint.kind == _SEND else (other[1], part.op)
                found.append(Delivery(name, *pair, number, send, recv))
    return found


def ranks_of(timeline: Timeline) -> dict[int, int]:
    """Return the rank of each device that has done anything, in the order of the ranks.

    They are those of the largest communicator. Devices without a rank in it come behind, in their order.
    """
    communicators = [handle for handle in timeline.handles if handle.kind == "communicator"]
    largest = max(
        communicators, key=lambda each: (int(each.options["ranks"]), -int(each.options["clique"])), default=None
    )
    ranks = {
        each.device: int(each.options["rank"])
        for each in communicators
        if largest is not None and each.options["clique"] == largest.options["clique"]
    }
    others = sorted({op.device for op in timeline.ops} - set(ranks)) or ([] if ranks else [0])
    ranks |= {device: max(ranks.values(), default=-1) + 1 + place for place, device in enumerate(others)}
    return dict(sorted(ranks.items(), key=lambda each: each[1]))
