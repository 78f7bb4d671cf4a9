"""What a collective asks for: its arguments, found right, as calls of one rank.

Each function checks the arguments of the verb of its name, which explains them, and raises what that verb raises.
"""

from collections.abc import Sequence

from acl_py.errors import Kind
from acl_py.runtime.collectives import Communicators, check_rank
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.elements import DataType, Elements
from acl_py.verbs.memory import Memory
from device_model.collectives.calls import POINT_TO_POINT, Call, CollectiveKind, ReduceOp
from device_model.collectives.cliques import Communicator
from device_model.contexts import Context
from device_model.integers import Integer
from device_model.memory import Allocation
from device_model.work import Extent

_BARRIER = Call(CollectiveKind.BARRIER, 0)


class Asked:
    """*calls* of *rank* that were found right.

    There are none if the rank asks for no elements: that does nothing on all ranks. A call with the same arguments is
    right as long as all of *memory* is there; without any, its arguments are looked at each time. The last call was
    made in a stream of *home* while *context* was the current one.
    """

    __slots__ = ("calls", "context", "groups", "home", "memory", "rank")

    def __init__(
        self, runtime: Runtime, rank: Communicator, calls: Sequence[Call], memory: Sequence[Allocation] = ()
    ) -> None:
        self.rank = rank
        self.calls = calls
        self.memory = memory
        self.groups = runtime.state(Communicators).groups  # that are open
        self.home: Context | None = None
        self.context: Context | None = None


def _one(
    elements: Elements,
    kind: CollectiveKind,
    reduction: ReduceOp | None = None,
    *,
    root: int | None = None,
    sends: tuple[Extent, ...] = (),
    receives: tuple[Extent, ...] = (),
) -> Asked:
    call = Call(kind, elements.count, elements.dtype, reduction, root, sends=sends, receives=receives)
    return _kept(elements, call)


def _kept(elements: Elements, call: Call) -> Asked:
    memory = tuple(dict.fromkeys(allocation for allocation, _, _ in (*call.sends, *call.receives)))
    return Asked(elements.runtime, elements.rank, (call,) if call.count else (), memory)


def all_reduce(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
) -> Asked:
    """Check the arguments of AllReduce()."""
    elements = Elements(runtime, comm, count, data_type, (send, recv))
    source, target = elements.ranges((send, elements.count), (recv, elements.count))
    elements.check_reduction(op)
    elements.check_apart(source, target, inside=0)
    return _one(elements, CollectiveKind.ALL_REDUCE, op, sends=(source,), receives=(target,))


def reduce(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
    root: Integer,
) -> Asked:
    """Check the arguments of Reduce()."""
    elements = Elements(runtime, comm, count, data_type, (send, recv))
    rank = elements.check_peer("root", root)
    elements.check_reduction(op)
    if rank != elements.rank.index:
        return _one(elements, CollectiveKind.REDUCE, op, root=rank, sends=elements.ranges((send, elements.count)))
    source, target = elements.ranges((send, elements.count), (recv, elements.count))
    elements.check_apart(source, target, inside=0)
    return _one(elements, CollectiveKind.REDUCE, op, root=rank, sends=(source,), receives=(target,))


def broadcast(
    runtime: Runtime, comm: Communicator, buf: Memory, count: Integer | None, data_type: DataType, root: Integer
) -> Asked:
    """Check the arguments of Broadcast()."""
    elements = Elements(runtime, comm, count, data_type, (buf,))
    rank = elements.check_peer("root", root)
    whole = elements.ranges((buf, elements.count))
    if rank == elements.rank.index:
        return _one(elements, CollectiveKind.BROADCAST, root=rank, sends=whole)
    return _one(elements, CollectiveKind.BROADCAST, root=rank, receives=whole)


def all_gather(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    send_count: Integer | None,
    data_type: DataType,
) -> Asked:
    """Check the arguments of AllGather()."""
    elements = Elements(runtime, comm, send_count, data_type, (send, recv))
    source, target = elements.ranges((send, elements.count), (recv, elements.count * elements.size))
    elements.check_apart(source, target, inside=elements.own_place)
    return _one(elements, CollectiveKind.ALL_GATHER, sends=(source,), receives=(target,))


def reduce_scatter(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    recv_count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
) -> Asked:
    """Check the arguments of ReduceScatter()."""
    elements = Elements(runtime, comm, recv_count, data_type, (recv, send))
    elements.check_reduction(op)
    source, target = elements.ranges((send, elements.count * elements.size), (recv, elements.count))
    elements.check_apart(target, source, inside=elements.own_place)
    return _one(elements, CollectiveKind.REDUCE_SCATTER, op, sends=(source,), receives=(target,))


def scatter(
    runtime: Runtime,
    comm: Communicator,
    send: Memory | None,
    recv: Memory,
    recv_count: Integer | None,
    data_type: DataType,
    root: Integer,
) -> Asked:
    """Check the arguments of Scatter()."""
    elements = Elements(runtime, comm, recv_count, data_type, (recv,))
    rank = elements.check_peer("root", root)
    receives = elements.ranges((recv, elements.count))
    sends: tuple[Extent, ...] = ()
    if rank == elements.rank.index:
        sends = elements.ranges((send, elements.count * elements.size))
        elements.check_apart(receives[0], sends[0], inside=elements.own_place)
    return _one(elements, CollectiveKind.SCATTER, root=rank, sends=sends, receives=receives)


def all_to_all(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    send_count: Integer | None,
    recv_count: Integer | None,
    send_type: DataType,
    recv_type: DataType,
) -> Asked:
    """Check the arguments of AlltoAll()."""
    elements = Elements(runtime, comm, send_count, send_type, (send, recv), shared=True)
    elements.check_same(recv_count, recv_type)
    whole = elements.count * elements.size
    source, target = elements.ranges((send, whole), (recv, whole))
    elements.check_apart(source, target, inside=None)
    return _one(elements, CollectiveKind.ALL_TO_ALL, sends=(source,), receives=(target,))


def all_to_all_v(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    send_type: DataType,
    recv_type: DataType,
    send_counts: Sequence[Integer],
    send_displs: Sequence[Integer],
    recv_counts: Sequence[Integer],
    recv_displs: Sequence[Integer],
) -> Asked:
    """Check the arguments of AlltoAllV()."""
    elements = Elements(runtime, comm, 0, send_type, (send, recv))
    elements.check_same(None, recv_type)
    sends = elements.pieces("send", send, send_counts, send_displs)
    return _pieces(elements, sends, elements.pieces("recv", recv, recv_counts, recv_displs))


def all_to_all_vc(
    runtime: Runtime,
    comm: Communicator,
    send: Memory,
    recv: Memory,
    send_count_matrix: Sequence[Sequence[Integer]],
    send_type: DataType,
    recv_type: DataType,
) -> Asked:
    """Check the arguments of AlltoAllVC()."""
    elements = Elements(runtime, comm, 0, send_type, (send, recv))
    elements.check_same(None, recv_type)
    sent, received = elements.row_and_column(send_count_matrix)
    sends = elements.pieces("send", send, sent, None)
    return _pieces(elements, sends, elements.pieces("recv", recv, received, None))


def _pieces(elements: Elements, sends: tuple[Extent, ...], receives: tuple[Extent, ...]) -> Asked:
    elements.check_pieces_apart(sends, receives)
    call = Call(CollectiveKind.ALL_TO_ALL_V, 0, elements.dtype, sends=sends, receives=receives)
    return Asked(elements.runtime, elements.rank, (call,))


def barrier(runtime: Runtime, comm: Communicator) -> Asked:
    """Check the arguments of Barrier()."""
    return Asked(runtime, check_rank(runtime, comm), (_BARRIER,))


def send(
    runtime: Runtime, comm: Communicator, buf: Memory, count: Integer | None, data_type: DataType, peer: Integer
) -> Asked:
    """Check the arguments of Send()."""
    elements = Elements(runtime, comm, count, data_type, (buf,))
    return _kept(elements, elements.between(CollectiveKind.SEND, buf, peer))


def recv(
    runtime: Runtime, comm: Communicator, buf: Memory, count: Integer | None, data_type: DataType, peer: Integer
) -> Asked:
    """Check the arguments of Recv()."""
    elements = Elements(runtime, comm, count, data_type, (buf,))
    return _kept(elements, elements.between(CollectiveKind.RECV, buf, peer))


def batch(
    runtime: Runtime,
    comm: Communicator,
    items: Sequence[tuple[CollectiveKind, Memory, Integer | None, DataType, Integer]],
) -> Asked:
    """Check the arguments of BatchSendRecv()."""
    calls = []
    for kind, buf, count, data_type, peer in items:
        elements = Elements(runtime, comm, count, data_type, (buf,))
        if kind not in POINT_TO_POINT:
            raise elements.wrong(f"{kind!r} among the items", "use CollectiveKind.SEND and CollectiveKind.RECV")
        calls.append(elements.between(kind, buf, peer))
    if not calls:
        raise runtime.error(Kind.INVALID_COLLECTIVE, "BatchSendRecv() without items", "pass at least one")
    return Asked(runtime, elements.rank, calls)
