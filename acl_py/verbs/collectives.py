"""Collectives: work in which all ranks of a communicator take part.

Each rank makes the call for itself, with its own buffers, and queues its part in one of its streams. A collective takes
place when the parts of all ranks have their turn; until then each holds its stream. The calls of a communicator match
in their order on each rank, so all ranks must make the same ones in the same order. Where they do not, cards hang: the
simulation ends with a DeadlockError that names the first call that differs.

*count* and *data_type* may be None where the buffers are Arrays. No call waits for other ranks.
"""

from collections.abc import Sequence

from acl_py.calls.table import verb
from acl_py.verbs import asked
from acl_py.verbs.asking import ask
from acl_py.verbs.elements import DataType
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike
from device_model.collectives.calls import CollectiveKind as CollectiveKind
from device_model.collectives.calls import ReduceOp
from device_model.collectives.cliques import Communicator
from device_model.completions import Completion
from device_model.integers import Integer


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
    return ask(AllReduce, asked.all_reduce, comm, stream, (send, recv), count, data_type, op)


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
    return ask(Reduce, asked.reduce, comm, stream, (send, recv), count, data_type, op, root)


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
    return ask(Broadcast, asked.broadcast, comm, stream, (buf,), count, data_type, root)


@verb(acl="HcclAllGather", cuda="ncclAllGather", step="collective")
async def AllGather(
    send: Memory,
    recv: Memory,
    send_count: Integer | None,
    data_type: DataType,
    comm: Communicator,
    stream: StreamLike = None,
) -> Completion:
    """Give the *send_count* elements of each rank to all ranks, in the order of the ranks.

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
    return ask(AllGather, asked.all_gather, comm, stream, (send, recv), send_count, data_type)


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
    return ask(ReduceScatter, asked.reduce_scatter, comm, stream, (send, recv), recv_count, data_type, op)


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
    return ask(Scatter, asked.scatter, comm, stream, (send, recv), recv_count, data_type, root)


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
    """Send *send_count* elements from each rank to each rank.

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
    types = send_type, recv_type
    return ask(AlltoAll, asked.all_to_all, comm, stream, (send, recv), send_count, *types, recv_count)


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
    """Send elements from each rank to each rank, a number of its own for each pair of ranks.

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
    numbers = send_counts, send_displs, recv_counts, recv_displs
    return ask(AlltoAllV, asked.all_to_all_v, comm, stream, (send, recv), send_type, recv_type, *numbers)


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
    types = send_type, recv_type
    return ask(AlltoAllVC, asked.all_to_all_vc, comm, stream, (send, recv), send_count_matrix, *types)


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
    return ask(Barrier, asked.barrier, comm, stream, (), None)


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
    return ask(Send, asked.send, comm, stream, (buf,), count, data_type, peer)


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
    return ask(Recv, asked.recv, comm, stream, (buf,), count, data_type, peer)


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
    return ask(BatchSendRecv, asked.batch, comm, stream, (), items)
