"""The operations of stream programs that make communicators, and take part in collectives."""

from collections.abc import Mapping, Sequence
from typing import Any

from acl_py.calls.table import all_verbs
from acl_py.errors import Kind
from acl_py.programs.format import Program
from acl_py.programs.graph_operations import GraphOperations
from acl_py.programs.tasks import Tasks
from acl_py.runtime.calls import begin
from acl_py.runtime.collectives import Group, check_rank, join_group, joined_by, queue_group
from acl_py.runtime.runtime import Runtime
from acl_py.verbs import collective_groups, communicators
from acl_py.verbs.streams import PER_THREAD_STREAM, resolve
from device_model.collectives.calls import POINT_TO_POINT, Call, CollectiveKind, ReduceOp
from device_model.collectives.cliques import Communicator
from device_model.completions import Completion
from device_model.dtypes import as_dtype
from device_model.memory import Space
from device_model.streams import Stream
from device_model.work import Extent


class CollectiveOperations(GraphOperations):
    """All calls of one program, those about collectives included."""

    def __init__(self, program: Program, runtime: Runtime, tasks: Tasks) -> None:
        super().__init__(program, runtime, tasks)
        self._communicators: dict[str, Communicator] = {}
        self._joining: dict[str, communicators.RootInfo] = {}  # by the name that the ranks of one communicator share

    def thing(self, kind: str | None, value: Any) -> Any:
        """Return the thing of a *kind* that a field names; its *value* if it names nothing."""
        return self.made(self._communicators, value) if kind == "communicator" else super().thing(kind, value)

    async def comm_init(self, comms: Sequence[str], devices: Sequence[int]) -> None:
        made = await communicators.CommInitAll(devices)
        self._communicators.update(zip(comms, made, strict=True))

    async def comm_init_rank(self, comm: str, together: str, ranks: int, rank: int) -> None:
        info = self._joining.get(together)
        if info is None or info.ranks:
            info = self._joining[together] = communicators.RootInfo(self.runtime, self.program.id)
        self._communicators[comm] = await communicators.CommInitRootInfo(ranks, info, rank)

    async def collective(self, calls: Sequence[Mapping[str, Any]], name: str | None) -> Completion:
        verb = calls[0]["kind"] if len(calls) == 1 else collective_groups.GroupEnd.__name__
        if name is not None:
            verb = name if name in all_verbs() else verb
        scope, runtime, site, enter = begin(verb)
        group = Group(site)
        for each in calls:
            rank = check_rank(runtime, self.made(self._communicators, each["comm"]))
            stream = resolve(scope, self._stream_of(rank, each["stream"]), verb, captures=True)
            call = self._call(each)
            problem = _problem(call, rank, stream)
            if problem:
                raise runtime.error(Kind.INVALID_COLLECTIVE, f"{call} of {rank!r}: {problem}", "see docs/programs.md")
            join_group(group, rank, [call], stream, site)
        queue_group(runtime, group)
        runtime.called(verb, enter, site, joined_by(group))
        return group.ops[0][0]

    def _call(self, each: Mapping[str, Any]) -> Call:
        """Return what a rank calls; a program has it without what would be None."""
        reduction, dtype = each.get("reduction"), each.get("type")
        return Call(
            CollectiveKind(each["kind"]),
            each.get("count", 0),
            None if dtype is None else as_dtype(dtype),
            None if reduction is None else ReduceOp(reduction),
            each.get("root"),
            each.get("peer"),
            self.extents(each.get("reads", ())),
            self.extents(each.get("writes", ())),
        )

    def _stream_of(self, rank: Communicator, name: str) -> Stream:
        """Return the stream of a *name*; a default stream is that of the rank's device."""
        stream, context = self.streams[name], rank.device.primary
        if isinstance(stream, Stream):
            return stream
        named = context.per_thread if stream is PER_THREAD_STREAM else context.legacy
        return context.default if named is None else named


_REDUCING = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE, CollectiveKind.REDUCE_SCATTER)
_ROOTED = (CollectiveKind.REDUCE, CollectiveKind.BROADCAST, CollectiveKind.SCATTER)


def _problem(call: Call, rank: Communicator, stream: Stream) -> str:
    """Return what is wrong with *call*, which a verb would not have made; empty if nothing is."""
    ranks = len(rank.clique)
    needs = {
        "type": (call.dtype is not None, call.kind is not CollectiveKind.BARRIER),
        "reduction": (call.reduction is not None, call.kind in _REDUCING),
        "root": (call.root is not None and call.root < ranks, call.kind in _ROOTED),
        "peer": (call.peer is not None and call.peer < ranks, call.kind in POINT_TO_POINT),
    }
    wrong = [name for name, (has, should) in needs.items() if has != should]
    if wrong:
        return f"its {wrong[0]} is missing, out of range, or has no meaning"
    if stream.context.device is not rank.device:
        return f"{stream!r} is of another device"
    for allocation, _, _ in (*call.sends, *call.receives):
        if allocation.space is Space.DEVICE and allocation.device != rank.device.ordinal:
            return f"{allocation!r} is of device {allocation.device}"
    found = _sizes(call.sends), _sizes(call.receives)
    if call.kind is CollectiveKind.ALL_TO_ALL_V:
        return "" if len(found[0]) == len(found[1]) == ranks else f"it needs {ranks} ranges to read, and to write"
    wanted = _wanted(call, rank.index, ranks)
    return "" if found == wanted else f"it reads and writes {found} bytes, not {wanted}"


def _wanted(call: Call, index: int, ranks: int) -> tuple[list[int], list[int]]:
    """Return how many bytes of each range rank *index* reads, and writes."""
    own = call.count * (1 if call.dtype is None else call.dtype.itemsize)
    whole, is_root = own * ranks, call.root == index
    table: dict[CollectiveKind, tuple[list[int], list[int]]] = {
        CollectiveKind.ALL_REDUCE: ([own], [own]),
        CollectiveKind.ALL_GATHER: ([own], [whole]),
        CollectiveKind.REDUCE_SCATTER: ([whole], [own]),
        CollectiveKind.BROADCAST: ([own] if is_root else [], [] if is_root else [own]),
        CollectiveKind.REDUCE: ([own], [own] if is_root else []),
        CollectiveKind.SCATTER: ([whole] if is_root else [], [own]),
        CollectiveKind.ALL_TO_ALL: ([whole], [whole]),
        CollectiveKind.BARRIER: ([], []),
        CollectiveKind.SEND: ([own], []),
        CollectiveKind.RECV: ([], [own]),
    }
    return table[call.kind]


def _sizes(extents: Sequence[Extent]) -> list[int]:
    return [stop - start for _, start, stop in extents]
