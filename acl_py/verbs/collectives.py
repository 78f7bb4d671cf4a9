"""Collectives: work in which all ranks of a communicator take part.

Each rank makes the call for itself, with its own buffers, and queues its part in one of its streams. A collective takes
place when the parts of all ranks have their turn; until then each holds its stream. The calls of a communicator match
in their order on each rank, so all ranks must make the same ones in the same order. Where they do not, cards hang: the
simulation ends with a DeadlockError that names the first call that differs.

*count* and *data_type* may be None where the buffers are Arrays. No call waits for other ranks.
"""

from collections.abc import Sequence

from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.collectives import check_rank
from acl_py.verbs.elements import DataType, Elements, Known, joined, note, recall
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike
from device_model.collectives.calls import POINT_TO_POINT, Call, ReduceOp
from device_model.collectives.calls import CollectiveKind as CollectiveKind
from device_model.collectives.cliques import Communicator
from device_model.completions import Completion
from device_model.integers import Integer
from device_model.work import Extent

_BARRIER = Call(CollectiveKind.BARRIER, 0)


@verb(acl="HcclAllReduce", cuda="ncclAllReduce", step="collective")
async def AllReduce(
    send: Memory,
    recv: Memory,
    count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Combine *count* elements of each rank, and give the result to all ranks.

    Stands for HcclAllReduce and ncclAllReduce. Elements are combined in the order of the ranks.

    Args:
        send: What this rank gives: *count* elements on the device of the rank.
        recv: Where the result goes: *count* elements there; the same memory as *send*, or other memory.
        count: How many elements; None: all of an Array.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        op: ReduceOp.SUM, PROD, MAX or MIN; under CUDA's rules also AVERAGE.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: INVALID_COLLECTIVE for a count, a type or an operation that is not possible, buffers that overlap or
            are too small or on another device, or a communicator that cannot be used; INVALID_ADDRESS or NULL_POINTER
            if a buffer is not memory, or was freed; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream*
            cannot be used here.
        TypeError: *comm* is no communicator, *op* is no ReduceOp, or *count* is not an int.

    Example:
        await AllReduce(gradients, gradients, None, None, ReduceOp.SUM, comm, stream)  # in place
    """
    key = (AllReduce, send, recv, count, type(count), data_type, op)
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, count, data_type, (send, recv))
        source, target = elements.ranges((send, elements.count), (recv, elements.count))
        elements.check_reduction(op)
        elements.check_apart(source, target, inside=0)
        made = Call(CollectiveKind.ALL_REDUCE, elements.count, elements.dtype, op, sends=(source,), receives=(target,))
        known = note(elements, key, made)
    return joined(call, AllReduce, known, stream)


@verb(acl="HcclReduce", cuda="ncclReduce", step="collective")
async def Reduce(
    send: Memory,
    recv: Memory,
    count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
    root: Integer,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Combine *count* elements of each rank, and give the result to rank *root*.

    Stands for HcclReduce and ncclReduce.

    Args:
        send: What this rank gives: *count* elements on the device of the rank.
        recv: Where the result goes on *root*: *count* elements; other ranks do not use it, and may pass *send*.
        count: How many elements; None: all of an Array.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        op: ReduceOp.SUM, PROD, MAX or MIN; under CUDA's rules also AVERAGE.
        root: The rank that gets the result.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is no rank *root*.
        TypeError: As AllReduce(), or *root* is not an int.
    """
    key = (Reduce, send, recv, count, type(count), data_type, op, root, type(root))
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, count, data_type, (send, recv))
        root = elements.check_peer("root", root)
        elements.check_reduction(op)
        if root == elements.rank.index:
            source, target = elements.ranges((send, elements.count), (recv, elements.count))
            elements.check_apart(source, target, inside=0)
            receives: tuple[Extent, ...] = (target,)
        else:
            [source] = elements.ranges((send, elements.count))
            receives = ()
        made = Call(CollectiveKind.REDUCE, elements.count, elements.dtype, op, root, sends=(source,), receives=receives)
        known = note(elements, key, made)
    return joined(call, Reduce, known, stream)


@verb(acl="HcclBroadcast", cuda="ncclBroadcast", step="collective")
async def Broadcast(
    buf: Memory,
    count: Integer | None,
    data_type: DataType,
    root: Integer,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Copy *count* elements of rank *root* to all ranks.

    Stands for HcclBroadcast and ncclBroadcast in place.

    Args:
        buf: On *root* what is sent, on other ranks where it goes: *count* elements on the device of the rank.
        count: How many elements; None: all of an Array.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        root: The rank that sends.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is no rank *root*.
        TypeError: As AllReduce(), or *root* is not an int.
    """
    key = (Broadcast, buf, None, count, type(count), data_type, root, type(root))
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, count, data_type, (buf,))
        root = elements.check_peer("root", root)
        whole = elements.ranges((buf, elements.count))
        sends, receives = (whole, ()) if root == elements.rank.index else ((), whole)
        made = Call(CollectiveKind.BROADCAST, elements.count, elements.dtype, root=root, sends=sends, receives=receives)
        known = note(elements, key, made)
    return joined(call, Broadcast, known, stream)


@verb(acl="HcclAllGather", cuda="ncclAllGather", step="collective")
async def AllGather(
    send: Memory,
    recv: Memory,
    send_count: Integer | None,
    data_type: DataType,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Give the *send_count* elements of each rank to all ranks, one behind the other.

    Stands for HcclAllGather and ncclAllGather.

    Args:
        send: What this rank gives: *send_count* elements on the device of the rank.
        recv: Where all go: *send_count* elements for each rank, in the order of the ranks. *send* may be this rank's
            own part of it.
        send_count: How many elements of each rank; None: all of the Array *send*.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: INVALID_COLLECTIVE, and the others of AllReduce(), for the same reasons.
        TypeError: As AllReduce().
    """
    key = (AllGather, send, recv, send_count, type(send_count), data_type)
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, send_count, data_type, (send, recv))
        source, target = elements.ranges((send, elements.count), (recv, elements.count * elements.size))
        elements.check_apart(source, target, inside=elements.own_place)
        made = Call(CollectiveKind.ALL_GATHER, elements.count, elements.dtype, sends=(source,), receives=(target,))
        known = note(elements, key, made)
    return joined(call, AllGather, known, stream)


@verb(acl="HcclReduceScatter", cuda="ncclReduceScatter", step="collective")
async def ReduceScatter(
    send: Memory,
    recv: Memory,
    recv_count: Integer | None,
    data_type: DataType,
    op: ReduceOp,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Combine the elements of all ranks, and give each rank *recv_count* of the result.

    Stands for HcclReduceScatter and ncclReduceScatter.

    Args:
        send: What this rank gives: *recv_count* elements for each rank, in the order of the ranks.
        recv: Where this rank's part of the result goes: *recv_count* elements. It may be this rank's own part of
            *send*.
        recv_count: How many elements each rank gets; None: all of the Array *recv*.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        op: ReduceOp.SUM, PROD, MAX or MIN; under CUDA's rules also AVERAGE.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: INVALID_COLLECTIVE, and the others of AllReduce(), for the same reasons.
        TypeError: As AllReduce().
    """
    key = (ReduceScatter, send, recv, recv_count, type(recv_count), data_type, op)
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, recv_count, data_type, (recv, send))
        elements.check_reduction(op)
        source, target = elements.ranges((send, elements.count * elements.size), (recv, elements.count))
        elements.check_apart(target, source, inside=elements.own_place)
        made = Call(
            CollectiveKind.REDUCE_SCATTER, elements.count, elements.dtype, op, sends=(source,), receives=(target,)
        )
        known = note(elements, key, made)
    return joined(call, ReduceScatter, known, stream)


@verb(acl="HcclScatter", cuda="ncclScatter", step="collective")
async def Scatter(
    send: Memory | None,
    recv: Memory,
    recv_count: Integer | None,
    data_type: DataType,
    root: Integer,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Give each rank its *recv_count* elements of what rank *root* has.

    Stands for HcclScatter and ncclScatter.

    Args:
        send: On *root*: *recv_count* elements for each rank, in the order of the ranks. Other ranks may pass None.
        recv: Where this rank's elements go: *recv_count* elements.
        recv_count: How many elements each rank gets; None: all of the Array *recv*.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        root: The rank that sends.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is no rank *root*.
        TypeError: As AllReduce(), or *root* is not an int.
    """
    key = (Scatter, send, recv, recv_count, type(recv_count), data_type, root, type(root))
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, recv_count, data_type, (recv,))
        root = elements.check_peer("root", root)
        receives = elements.ranges((recv, elements.count))
        sends: tuple[Extent, ...] = ()
        if root == elements.rank.index:
            sends = elements.ranges((send, elements.count * elements.size))
            elements.check_apart(receives[0], sends[0], inside=elements.own_place)
        made = Call(CollectiveKind.SCATTER, elements.count, elements.dtype, root=root, sends=sends, receives=receives)
        known = note(elements, key, made)
    return joined(call, Scatter, known, stream)


@verb(acl="HcclAlltoAll", cuda="ncclAlltoAll", step="collective")
async def AlltoAll(
    send: Memory,
    send_count: Integer | None,
    send_type: DataType,
    recv: Memory,
    recv_count: Integer | None,
    recv_type: DataType,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Give each rank its *send_count* elements of what every rank has.

    Stands for HcclAlltoAll and ncclAlltoAll.

    Args:
        send: *send_count* elements for each rank, in the order of the ranks, this one included.
        send_count: How many elements go to each rank; None: all of the Array *send*, divided by the ranks.
        send_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        recv: Where the elements of each rank go, in the order of the ranks; other memory than *send*.
        recv_count: How many elements come from each rank: *send_count*, or None.
        recv_type: Their type: *send_type*, or None.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if the two counts or types differ, or an Array does not
            have the same number of elements for each rank.
        TypeError: As AllReduce().
    """
    key = (AlltoAll, send, recv, send_count, type(send_count), send_type, recv_count, type(recv_count), recv_type)
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, send_count, send_type, (send, recv), shared=True)
        elements.check_same(recv_count, recv_type)
        whole = elements.count * elements.size
        source, target = elements.ranges((send, whole), (recv, whole))
        elements.check_apart(source, target, inside=None)
        made = Call(CollectiveKind.ALL_TO_ALL, elements.count, elements.dtype, sends=(source,), receives=(target,))
        known = note(elements, key, made)
    return joined(call, AlltoAll, known, stream)


@verb(acl="HcclAlltoAllV", step="collective")
async def AlltoAllV(
    send: Memory,
    send_counts: Sequence[Integer],
    send_displs: Sequence[Integer],
    send_type: DataType,
    recv: Memory,
    recv_counts: Sequence[Integer],
    recv_displs: Sequence[Integer],
    recv_type: DataType,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Give each rank its elements of what every rank has, of which there may be other numbers for each.

    Stands for HcclAlltoAllV. NCCL has no such call: programs make a group of Sends and Recvs.

    Args:
        send: Memory with the elements that go to each rank.
        send_counts: How many elements go to each rank: a number for each.
        send_displs: Where in *send* those for each rank begin, in elements.
        send_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        recv: Where the elements of each rank go; other memory than *send*.
        recv_counts: How many elements come from each rank: as many as that rank sends to this one.
        recv_displs: Where in *recv* those of each rank begin, in elements.
        recv_type: Their type: *send_type*, or None.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is not a number for each rank.
        TypeError: As AllReduce().
    """
    call = begin()
    elements = Elements(call, comm, 0, send_type, (send, recv))
    elements.check_same(None, recv_type)
    sends = elements.pieces("send", send, send_counts, send_displs)
    receives = elements.pieces("recv", recv, recv_counts, recv_displs)
    elements.check_pieces_apart(sends, receives)
    made = Call(CollectiveKind.ALL_TO_ALL_V, 0, elements.dtype, sends=sends, receives=receives)
    return joined(call, AlltoAllV, Known(elements.runtime, elements.rank, (made,)), stream)


@verb(acl="HcclAlltoAllVC", step="collective")
async def AlltoAllVC(
    send: Memory,
    send_count_matrix: Sequence[Sequence[Integer]],
    send_type: DataType,
    recv: Memory,
    recv_type: DataType,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Do what AlltoAllV() does; every rank says how many elements go from each rank to each.

    Stands for HcclAlltoAllVC. The elements stand one behind the other, in the order of the ranks.

    Args:
        send: The elements that go to each rank.
        send_count_matrix: A row for each rank that sends, with a number for each rank that receives; the same on all
            ranks.
        send_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        recv: Where the elements of each rank go; other memory than *send*.
        recv_type: Their type: *send_type*, or None.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is not a number for each pair of ranks.
        TypeError: As AllReduce().
    """
    call = begin()
    elements = Elements(call, comm, 0, send_type, (send, recv))
    elements.check_same(None, recv_type)
    sent, received = elements.row_and_column(send_count_matrix)
    sends = elements.pieces("send", send, sent, None)
    receives = elements.pieces("recv", recv, received, None)
    elements.check_pieces_apart(sends, receives)
    made = Call(CollectiveKind.ALL_TO_ALL_V, 0, elements.dtype, sends=sends, receives=receives)
    return joined(call, AlltoAllVC, Known(elements.runtime, elements.rank, (made,)), stream)


@verb(acl="HcclBarrier", step="collective")
async def Barrier(comm: Communicator, stream: StreamLike = None) -> Completion:
    """Let the streams of all ranks wait for each other.

    Stands for HcclBarrier. NCCL has no such call: programs reduce one element.

    Args:
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: INVALID_COLLECTIVE for a communicator that cannot be used; INVALID_HANDLE, FOREIGN_STREAM or
            NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *comm* is no communicator.
    """
    call = begin()
    rank = check_rank(call[1], comm)
    return joined(call, Barrier, Known(call[1], rank, (_BARRIER,)), stream)


# --- one rank to one other


@verb(acl="HcclSend", cuda="ncclSend", step="collective")
async def Send(
    buf: Memory,
    count: Integer | None,
    data_type: DataType,
    peer: Integer,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Send *count* elements to rank *peer*, which calls Recv().

    Stands for HcclSend and ncclSend. The n-th Send() to a rank meets the n-th Recv() of that rank from this one. Two
    ranks that first send to each other, or first receive, put both calls into a group(), or use BatchSendRecv(). Sends
    that fit the buffer of the receiver end without such a group, too; no program should depend on it.

    Args:
        buf: *count* elements on the device of the rank.
        count: How many elements; None: all of an Array.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        peer: The rank that receives; in a group it may be this one.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        acl: For nothing; the part waits in its stream for that of the other rank.
        cuda, cuda_per_thread: For nothing; the part waits only if the bytes do not fit the buffer of the receiver
            (measured on an H200: 16 MiB fit).

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is no rank *peer*.
        TypeError: As AllReduce(), or *peer* is not an int.
    """
    key = (Send, buf, None, count, type(count), data_type, peer, type(peer))
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, count, data_type, (buf,))
        known = note(elements, key, elements.between(CollectiveKind.SEND, buf, peer))
    return joined(call, Send, known, stream)


@verb(acl="HcclRecv", cuda="ncclRecv", step="collective")
async def Recv(
    buf: Memory,
    count: Integer | None,
    data_type: DataType,
    peer: Integer,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Receive *count* elements from rank *peer*, which calls Send().

    Stands for HcclRecv and ncclRecv.

    Args:
        buf: Where *count* elements go, on the device of the rank.
        count: How many elements; None: all of an Array.
        data_type: Their type, as NumPy names it, or "bfloat16"; None: that of an Array.
        peer: The rank that sends; in a group it may be this one.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for that of the other rank.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of AllReduce(), and INVALID_COLLECTIVE if there is no rank *peer*.
        TypeError: As AllReduce(), or *peer* is not an int.
    """
    key = (Recv, buf, None, count, type(count), data_type, peer, type(peer))
    call, known = recall(comm, key)
    if known is None:
        elements = Elements(call, comm, count, data_type, (buf,))
        known = note(elements, key, elements.between(CollectiveKind.RECV, buf, peer))
    return joined(call, Recv, known, stream)


@verb(acl="HcclBatchSendRecv", step="collective")
async def BatchSendRecv(
    items: Sequence[tuple[CollectiveKind, Memory, Integer | None, DataType, Integer]],
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Make several Sends and Recvs at once, in any order.

    Stands for HcclBatchSendRecv. With NCCL programs make a group.

    Args:
        items: For each: CollectiveKind.SEND or RECV, the buffer, the count, the type, and the other rank, as Send() and
            Recv() take them.
        comm: The communicator of this rank.
        stream: The stream, on the device of the rank; None is the default one.

    Waits:
        all rules: For nothing; the part waits in its stream for those of the other ranks.

    Returns:
        The completion of this rank's part.

    Raises:
        AclError: Those of Send(), and INVALID_COLLECTIVE if there are no *items*, or one is neither a Send nor a Recv.
        TypeError: As Send().
    """
    call = begin()
    made = []
    for kind, buf, count, data_type, peer in items:
        elements = Elements(call, comm, count, data_type, (buf,))
        if kind not in POINT_TO_POINT:
            raise elements.wrong(f"{kind!r} among the items", "use CollectiveKind.SEND and CollectiveKind.RECV")
        made.append(elements.between(kind, buf, peer))
    if not made:
        raise call[1].error(Kind.INVALID_COLLECTIVE, "BatchSendRecv() without items", "pass at least one")
    return joined(call, BatchSendRecv, Known(elements.runtime, elements.rank, made), stream)
