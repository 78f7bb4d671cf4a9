"""Chakra execution traces as stream programs: a task, a device and some streams for each rank.

ASTRA-sim and other simulators read such traces. Each rank has a file with nodes, and a node begins when those before it
have ended. Here nodes of one kind are queued in one stream of the rank, in an order in which each comes behind all that
it waits for, and events are the dependencies between streams:

* a node that computes is a kernel with its duration; without one, with the time of its `num_ops` and `tensor_size` on
  the card; on the CPU (`is_cpu_op`), a host function;
* a collective is one: `comm_type`, and `comm_size` bytes that a rank sends;
* a Send or a Recv is one to `comm_dst` or from `comm_src`, in a communicator of the two ranks;
* a node that loads or stores memory is a copy of `tensor_size` bytes from or to pinned memory;
* metadata, and what takes no time, is nothing: what waits for it waits for what it waits for.

Ranks whose collectives have the same `pg_name` are a communicator; those without the name are all ranks.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

from acl_py.programs.chakra_files import Node, NodeKind, read
from acl_py.programs.format import Program, ProgramError, parse
from acl_py.verbs.costs import Cost
from device_model.collectives.calls import CollectiveKind, ReduceOp
from device_model.errors import listed, printable
from device_model.profile import DeviceProfile, load

_SUFFIXES = (".et", ".json")
_WORD = 4  # bytes of an element
_LONGEST = 100  # characters of the name of a group
_PATH = 8  # nodes of a circle that a message shows


class _Collective(NamedTuple):
    """How a collective of Chakra is called: its *kind*, and by how much a rank's bytes are to be divided."""

    kind: CollectiveKind
    is_shared: bool = False  # the count is for each rank


# By the numbers of the schema; None: no verb does it.
_COLLECTIVES: Sequence[tuple[str, _Collective | None]] = (
    ("ALL_REDUCE", _Collective(CollectiveKind.ALL_REDUCE)),
    ("REDUCE", _Collective(CollectiveKind.REDUCE)),
    ("ALL_GATHER", _Collective(CollectiveKind.ALL_GATHER)),
    ("GATHER", None),
    ("SCATTER", _Collective(CollectiveKind.SCATTER, is_shared=True)),
    ("BROADCAST", _Collective(CollectiveKind.BROADCAST)),
    ("ALL_TO_ALL", _Collective(CollectiveKind.ALL_TO_ALL, is_shared=True)),
    ("REDUCE_SCATTER", _Collective(CollectiveKind.REDUCE_SCATTER, is_shared=True)),
    ("REDUCE_SCATTER_BLOCK", _Collective(CollectiveKind.REDUCE_SCATTER, is_shared=True)),
    ("BARRIER", _Collective(CollectiveKind.BARRIER)),
)


class _Lane(Enum):
    """The streams of a rank; Sends and Recvs have one for each other rank."""

    COMPUTE = "compute"
    CPU = "cpu"
    COLLECTIVES = "collectives"
    MEMORY = "memory"


def is_trace(path: Path) -> bool:
    """Return whether *path* is a file of protobuf messages, or a folder."""
    return path.suffix == ".et" or path.is_dir()


def files_of(path: str | Path) -> list[Path]:
    """Return the files of a trace, one for each rank: `NAME.0.et`, `NAME.1.et` and so on, or the same in JSON.

    Args:
        path: What the names begin with, the file of a rank, or a folder that has one trace.

    Raises:
        ProgramError: There are none, several traces, or a rank is missing.
    """
    start = Path(path)
    if is_trace(start) and start.is_file():
        start = start.with_name(start.name.rsplit(".", 2)[0])
    shown = printable(str(path))
    folder = start if start.is_dir() else start.parent
    prefix = "" if start.is_dir() else f"{start.name}."
    found: defaultdict[tuple[str, str], dict[int, Path]] = defaultdict(dict)
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        name, _, number = each.stem.rpartition(".")
        if each.suffix in _SUFFIXES and name and number.isdecimal() and each.name.startswith(prefix):
            found[name, each.suffix][int(number)] = each
    if len(found) != 1:
        there = listed(f"{name}{suffix}" for name, suffix in found) if found else "no file NAME.0.et or NAME.0.json"
        raise ProgramError(f"{shown}: there is {there}; give the path and NAME of one trace")
    [(_, ranks)] = found.items()
    missing = next((rank for rank in range(len(ranks)) if rank not in ranks), None)
    if missing is not None:
        raise ProgramError(f"{shown}: there are {len(ranks)} files, and none of rank {missing}")
    return [ranks[rank] for rank in range(len(ranks))]


def program(path: str | Path, *, device: str | Path | DeviceProfile = "h200") -> Program:
    """Return the stream program of a trace, whose files `files_of` finds; `replay` runs it.

    Args:
        path: As `files_of` takes it.
        device: The card, whose rates say how long nodes take that give their operations and not their duration.

    Raises:
        ProgramError: A file cannot be read, a node cannot be done, or nodes wait for one another.
        ImportError: The package protobuf is not installed.
    """
    return parse(document(files_of(path), load(device)), printable(str(path)))


def document(files: Sequence[Path], profile: DeviceProfile) -> dict[str, Any]:
    """Return the program of *files*, one for each rank, as JSON has it; errors are those of `program`."""
    if len(files) > profile.devices:
        raise ProgramError(
            f"{printable(str(files[0]))}: the trace has {len(files)} ranks, and {profile.name} has "
            f"{profile.devices} devices"
        )
    ranks = [_Rank(number, file, read(file), profile) for number, file in enumerate(files)]
    groups = _groups(ranks)
    pairs = _pairs(ranks)
    steps: list[dict[str, Any]] = []
    for name, members in groups.items():
        steps.append({"op": "comm_init", "comms": [_comm(name, rank) for rank in members], "devices": members})
    for first, second in pairs:
        names = [_pair(first, second, rank) for rank in (first, second)]
        steps.append({"op": "comm_init", "comms": names, "devices": [first, second]})
    ready = {"after": len(steps) - 1} if steps else {}
    for rank in ranks:
        rank.queue(groups)
        calls = [{"op": "set_device", "device": rank.number} | ready, *rank.steps, {"op": "sync_device"}]
        steps += [each | {"task": f"rank {rank.number}"} for each in calls]
    buffers = {name: options for rank in ranks for name, options in rank.buffers().items()}
    streams = {name: {"flags": "nonblocking", "device": rank.number} for rank in ranks for name in rank.streams}
    events = {name: {"timing": False, "device": rank.number} for rank in ranks for name in rank.events}
    return {
        "id": printable(files[0].name.partition(".")[0])[:_LONGEST] or "trace",
        "buffers": buffers, "streams": streams, "events": events, "gap_us": 0, "values": False,
        "steps": steps,
    }  # fmt: skip


def _comm(group: str, rank: int) -> str:
    return f"{group} {rank}"


def _pair(one: int, other: int, rank: int) -> str:
    return f"pair {min(one, other)} {max(one, other)}: {rank}"


def _groups(ranks: "Sequence[_Rank]") -> dict[str, list[int]]:
    """Return the ranks of each communicator: those whose collectives name it."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        for name in rank.groups:
            groups[name].append(rank.number)
    if _ALL in groups:
        groups[_ALL] = [rank.number for rank in ranks]
    return dict(groups)


def _pairs(ranks: "Sequence[_Rank]") -> list[tuple[int, int]]:
    """Return the pairs of ranks that send to each other, and refuse Sends and Recvs whose tags differ in order."""
    pairs: dict[tuple[int, int], None] = {}
    for rank in ranks:
        for node, peer in rank.talks:
            if not 0 <= peer < len(ranks) or peer == rank.number:
                raise rank.wrong(node, f"its other rank is {peer}, and there are {len(ranks)}")
            pairs[min(rank.number, peer), max(rank.number, peer)] = None
    for source in ranks:
        for target in ranks:
            sent, taken = source.tags(NodeKind.SEND, target.number), target.tags(NodeKind.RECV, source.number)
            if sent != taken:
                raise ProgramError(
                    f"{source.name}: rank {source.number} sends to rank {target.number} with the tags {sent[:_PATH]}, "
                    f"and that one receives {taken[:_PATH]}; they must be in one order"
                )
    return list(pairs)


_ALL = "all"  # the name of the communicator of all ranks
_Place = tuple[str, int]  # of a step: its stream, and how many are before it there


class _Rank:
    """The nodes of one rank, in an order in which each comes behind those that it waits for, and its calls."""

    def __init__(self, number: int, file: Path, nodes: Sequence[Node], profile: DeviceProfile) -> None:
        self.number = number
        self.name = printable(str(file))
        self._profile = profile
        self.nodes = self._in_order({node.id: node for node in nodes})
        self.groups = dict.fromkeys(self._group(node) for node in self.nodes if node.kind is NodeKind.COLLECTIVE)
        self.talks = [
            (node, self._whole(node, "comm_dst" if node.kind is NodeKind.SEND else "comm_src"))
            for node in self.nodes
            if node.kind in (NodeKind.SEND, NodeKind.RECV)
        ]
        self.steps: list[dict[str, Any]] = []
        self.streams: dict[str, None] = {}
        self.events: dict[str, None] = {}
        self._most = {"device": 0, "pinned": 0}  # the bytes of its buffers

    # --- order

    def _in_order(self, nodes: Mapping[int, Node]) -> list[Node]:
        """Return *nodes* so that each comes behind those that it waits for; of those that could be next, the one with
        the lowest id.
        """
        left: dict[int, int] = {}
        ahead: defaultdict[int, list[int]] = defaultdict(list)
        for node in nodes.values():
            left[node.id] = len(node.behind)
            for before in node.behind:
                if before not in nodes:
                    raise self.wrong(node, f"it waits for node {before}, which there is not")
                ahead[before].append(node.id)
        ready = [each for each, count in left.items() if not count]
        heapify(ready)
        order: list[Node] = []
        while ready:
            order.append(nodes[heappop(ready)])
            for each in ahead[order[-1].id]:
                left[each] -= 1
                if not left[each]:
                    heappush(ready, each)
        if len(order) < len(nodes):
            raise ProgramError(f"{self.name}: {_circle(nodes, order)}")
        return order

    def tags(self, kind: NodeKind, peer: int) -> list[int]:
        """Return the tags of the Sends to *peer*, or of the Recvs from it, in their order."""
        return [self._whole(node, "comm_tag", 0) for node, other in self.talks if node.kind is kind and other == peer]

    # --- calls

    def queue(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Make the calls of all nodes."""
        made = {node.id: self._step(node, groups) for node in self.nodes}
        counts: defaultdict[str, int] = defaultdict(int)
        behind: dict[int, dict[_Place, None]] = {}  # what each node waits for
        places: dict[int, dict[_Place, None]] = {}  # what those wait for that are behind it
        awaited: dict[_Place, str] = {}  # what a node in another stream waits for, and the event behind it
        for node in self.nodes:
            step = made[node.id]
            behind[node.id] = {each: None for before in node.behind for each in places[before]}
            if step is None:
                places[node.id] = behind[node.id]
                continue
            stream = step[0]
            awaited |= {each: f"{each[0]} {each[1]}" for each in behind[node.id] if each[0] != stream}
            places[node.id] = {(stream, counts[stream]): None}
            counts[stream] += 1
        self.streams = dict.fromkeys(counts)
        self.events = dict.fromkeys(awaited.values())
        seen: dict[tuple[str, str], int] = {}  # how far a stream is behind another one
        for node in self.nodes:
            step = made[node.id]
            if step is None:
                continue
            stream, call = step
            for other, place in behind[node.id]:
                if other != stream and seen.get((stream, other), -1) < place:
                    self.steps.append({"op": "wait", "event": awaited[other, place], "stream": stream})
                    seen[stream, other] = place
            self.steps.append(call | {"id": f"{self.number}:{node.id}"})
            [here] = places[node.id]
            if here in awaited:
                self.steps.append({"op": "record", "event": awaited[here], "stream": stream})

    def _step(self, node: Node, groups: Mapping[str, Sequence[int]]) -> tuple[str, dict[str, Any]] | None:
        """Return the stream and the step of *node*; None if it is nothing to do."""
        match node.kind:
            case NodeKind.METADATA:
                return None
            case NodeKind.COMPUTE:
                return self._compute(node)
            case NodeKind.LOAD | NodeKind.STORE:
                return self._copy(node)
            case NodeKind.COLLECTIVE:
                return self._collective(node, groups)
            case NodeKind.SEND | NodeKind.RECV:
                return self._talk(node)

    def _compute(self, node: Node) -> tuple[str, dict[str, Any]] | None:
        if node.attributes.get("is_cpu_op") is True:
            stream = self._stream(_Lane.CPU)
            host = {"op": "host_func", "stream": stream, "us": node.duration_us, "name": _label(node)}
            return (stream, host) if node.duration_us else None
        us: float = node.duration_us
        if not us:
            operations, moved = self._whole(node, "num_ops", 0), self._whole(node, "tensor_size", 0)
            if not operations and not moved:
                return None
            cost = Cost(flops=operations, bytes=moved)
            blocks = self._profile.cores.count
            us = cost.block_ns(self._profile, blocks, (), moved, exclusive=True) / 1000
        stream = self._stream(_Lane.COMPUTE)
        return stream, {"op": "launch", "stream": stream, "us": us, "name": _label(node)}

    def _copy(self, node: Node) -> tuple[str, dict[str, Any]]:
        nbytes = self._whole(node, "tensor_size")
        if not nbytes:
            raise self.wrong(node, "its tensor_size is 0")
        stream = self._stream(_Lane.MEMORY)
        self._need(device=nbytes, pinned=nbytes)
        here, there = f"pinned {self.number}", f"memory {self.number}"
        dst, src, kind = (there, here, "h2d") if node.kind is NodeKind.LOAD else (here, there, "d2h")
        return stream, {"op": "memcpy_async", "dst": dst, "src": src, "bytes": nbytes, "kind": kind, "stream": stream}

    def _collective(self, node: Node, groups: Mapping[str, Sequence[int]]) -> tuple[str, dict[str, Any]]:
        number, group = self._whole(node, "comm_type"), self._group(node)
        if not 0 <= number < len(_COLLECTIVES):
            raise self.wrong(node, f"its comm_type {number} is unknown")
        name, how = _COLLECTIVES[number]
        if how is None:
            raise self.wrong(node, f"there is no verb for its comm_type {name}")
        members = groups[group]
        stream = self._stream(_Lane.COLLECTIVES)
        call: dict[str, Any] = {"kind": how.kind.value, "comm": _comm(group, self.number), "stream": stream}
        if how.kind is not CollectiveKind.BARRIER:
            share = len(members) if how.is_shared else 1
            count, type_ = self._elements(node, "comm_size", share)
            call |= {"count": count, "type": type_}
            call |= self._ranges(node, how.kind, count * (_WORD if type_ == "float32" else 1), members)
        return stream, {"op": "collective", "calls": [call]}

    def _ranges(self, node: Node, kind: CollectiveKind, nbytes: int, members: Sequence[int]) -> dict[str, Any]:
        """Return reduction and root of a collective, and what it reads and writes: *nbytes* are those of its count."""
        whole, root = nbytes * len(members), self._whole(node, "root", 0)
        if root >= len(members):
            raise self.wrong(node, f"its root is {root}, and there are {len(members)} ranks")
        is_root = members.index(self.number) == root
        reads, writes = {
            CollectiveKind.ALL_REDUCE: (nbytes, nbytes),
            CollectiveKind.REDUCE: (nbytes, nbytes if is_root else None),
            CollectiveKind.ALL_GATHER: (nbytes, whole),
            CollectiveKind.SCATTER: (whole if is_root else None, nbytes),
            CollectiveKind.BROADCAST: (nbytes if is_root else None, None if is_root else nbytes),
            CollectiveKind.ALL_TO_ALL: (whole, whole),
            CollectiveKind.REDUCE_SCATTER: (whole, nbytes),
        }[kind]
        ranges: dict[str, Any] = {}
        if kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE, CollectiveKind.REDUCE_SCATTER):
            ranges["reduction"] = ReduceOp.SUM.value
        if kind in (CollectiveKind.REDUCE, CollectiveKind.SCATTER, CollectiveKind.BROADCAST):
            ranges["root"] = root
        for name, buffer, size in (("reads", "memory", reads), ("writes", "received", writes)):
            if size is not None:
                self._need(device=size)
                ranges[name] = [[f"{buffer} {self.number}", 0, size]]
        return ranges

    def _talk(self, node: Node) -> tuple[str, dict[str, Any]]:
        is_send = node.kind is NodeKind.SEND
        peer = self._whole(node, "comm_dst" if is_send else "comm_src")
        count, type_ = self._elements(node, "comm_size" if "comm_size" in node.attributes else "tensor_size", 1)
        nbytes = count * (_WORD if type_ == "float32" else 1)
        self._need(device=nbytes)
        stream = f"rank {self.number}: {'to' if is_send else 'from'} rank {peer}"
        call = {
            "kind": (CollectiveKind.SEND if is_send else CollectiveKind.RECV).value,
            "comm": _pair(self.number, peer, self.number), "stream": stream, "count": count, "type": type_,
            "peer": int(peer > self.number),
            "reads" if is_send else "writes": [[f"{'memory' if is_send else 'received'} {self.number}", 0, nbytes]],
        }  # fmt: skip
        return stream, {"op": "collective", "calls": [call]}

    # --- what nodes say

    def _elements(self, node: Node, name: str, share: int) -> tuple[int, str]:
        """Return how many elements the bytes *name* of *node* are for each of *share* ranks, and their type."""
        nbytes = self._whole(node, name)
        if nbytes < share or nbytes % share:
            raise self.wrong(node, f"its {name} of {nbytes:,} bytes is no multiple of its {share} ranks")
        own = nbytes // share
        return (own // _WORD, "float32") if own % _WORD == 0 else (own, "uint8")

    def _group(self, node: Node) -> str:
        name = printable(str(node.attributes.get("pg_name", "")))
        if len(name) > _LONGEST:
            raise self.wrong(node, f"its pg_name has {len(name):,} characters, and at most {_LONGEST} are read")
        return f"group {name}" if name else _ALL

    def _whole(self, node: Node, name: str, default: int | None = None) -> int:
        value = node.attributes.get(name, default)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(node, f"it has no {name}" if value is None else f"its {name} is {printable(str(value))}")
        return value

    def wrong(self, node: Node, problem: str) -> ProgramError:
        """Return the error for *node*."""
        return ProgramError(f"{self.name}: {node}: {problem}")

    # --- what it has

    def _stream(self, lane: _Lane) -> str:
        return f"rank {self.number}: {lane.value}"

    def _need(self, **nbytes: int) -> None:
        for space, size in nbytes.items():
            self._most[space] = max(self._most[space], size)

    def buffers(self) -> dict[str, dict[str, Any]]:
        """Return the memory of its calls: they all use the same."""
        made: dict[str, dict[str, Any]] = {}
        for name, space in (("memory", "device"), ("received", "device"), ("pinned", "pinned")):
            if self._most[space]:
                made[f"{name} {self.number}"] = {"space": space, "bytes": self._most[space], "device": self.number}
        return made


def _label(node: Node) -> str:
    """Return the name of *node* as an operation shows it."""
    return printable(node.name)[:200] or node.kind.value


def _circle(nodes: Mapping[int, Node], done: Iterable[Node]) -> str:
    """Return a sentence with nodes that wait for one another."""
    over = {node.id for node in done}
    at = next(each for each in nodes if each not in over)
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        at = next(before for before in nodes[at].behind if before not in over)
    circle = list(path)[list(path).index(at) :]
    shown = " -> ".join(str(nodes[each]) for each in circle[:_PATH])
    more = f" and {len(circle) - _PATH} more" if len(circle) > _PATH else ""
    return f"{shown}{more} -> node {at}: each waits for the next one, so none can begin"
