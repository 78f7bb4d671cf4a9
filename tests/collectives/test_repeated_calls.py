"""A call that repeats an earlier one is looked at less closely, and refused all the same where it is wrong now."""

import numpy as np
import pytest

import acl_py as acl
from acl_py import AclError, Kind, ReduceOp
from tests.collectives.ranked import HERE, THERE, cards, reduce_all, two_ranks


async def alone(count=4):
    """The communicator of a single rank, and memory of *count* float32 with ones."""
    [comm] = await acl.CommInitAll(1)
    buffer = await acl.Malloc(4 * count)
    await acl.Memcpy(buffer, 4 * count, np.ones(count, np.float32), 4 * count, HERE)
    return comm, buffer


async def reduce(comm, buffer, count, dtype="float32", op=ReduceOp.SUM):
    return await acl.AllReduce(buffer, buffer, count, dtype, op, comm)


@cards
async def test_a_repeated_call_works_on_what_memory_has_then():
    async with two_ranks() as (zero, one):
        for power in (1, 2, 3):
            for rank in (zero, one):
                await reduce_all(rank)
            await acl.SynchronizeStream(zero.stream)
            await acl.SynchronizeStream(one.stream)
            assert await zero.values() == [3 * 2.0 ** (power - 1)] * 4


@cards
async def test_a_repeated_call_with_memory_that_was_freed_meanwhile_is_refused():
    comm, buffer = await alone()
    await reduce(comm, buffer, 4)
    await acl.SynchronizeDevice()
    await acl.Free(buffer)
    with pytest.raises(AclError, match="freed") as error:
        await reduce(comm, buffer, 4)
    assert error.value.kind is Kind.INVALID_ADDRESS


@cards
async def test_an_address_is_refused_once_nothing_is_there():
    comm, buffer = await alone()
    address = buffer.address
    await reduce(comm, address, 4)
    await acl.SynchronizeDevice()
    await acl.Free(buffer)
    with pytest.raises(AclError, match="freed"):
        await reduce(comm, address, 4)


@cards
async def test_a_number_that_equals_the_one_before_and_is_no_integer_is_refused():
    comm, buffer = await alone()
    await reduce(comm, buffer, 1)
    await acl.Broadcast(buffer, 1, "float32", 0, comm)
    await acl.AlltoAll(buffer, 1, "float32", buffer[8:], 1, "float32", comm)
    for wrong in (True, 1.0):
        with pytest.raises(TypeError, match="recv_count must be an int"):
            await acl.AlltoAll(buffer, 1, "float32", buffer[8:], wrong, "float32", comm)
        with pytest.raises(TypeError, match="count must be an int"):
            await reduce(comm, buffer, wrong)
    for wrong in (False, 0.0):
        with pytest.raises(TypeError, match="root must be an int"):
            await acl.Broadcast(buffer, 1, "float32", wrong, comm)


@cards
async def test_each_argument_counts():
    comm, buffer = await alone(8)
    ops = [await reduce(comm, buffer, 8), await reduce(comm, buffer, 4), await reduce(comm, buffer, 4, "float64")]
    ops += [await reduce(comm, buffer[first:], 4) for first in (16, 8, 16)]
    assert [op.nbytes for op in ops] == [32, 16, 32, 16, 16, 16]
    assert [first for op in ops for _, first, _ in op.work.reads()] == [0, 0, 0, 16, 8, 16]
    assert ops[3].work.calls is ops[5].work.calls  # another part of the buffer, but the same bytes
    await acl.Memcpy(buffer, 32, np.full(8, 3, np.float32), 32, HERE)
    for op, expected in ((ReduceOp.SUM, 3.0), (ReduceOp.AVERAGE, 3.0)):
        await reduce(comm, buffer, 8, op=op)
        into = np.empty(8, np.float32)
        await acl.Memcpy(into, 32, buffer, 32, THERE)
        assert into.tolist() == [expected] * 8


def test_a_communicator_of_another_simulation_is_refused_although_its_call_was_right_there():
    kept = []

    async def first():
        kept.extend(await alone())
        await reduce(*kept, 4)
        await acl.SynchronizeDevice()

    async def second():
        with pytest.raises(AclError, match="another simulation"):
            await reduce(*kept, 4)

    for program in (first, second):
        acl.run(program, device="h200", rules="cuda", workers=1)


@cards
async def test_a_repeated_call_in_a_stream_that_was_destroyed_is_refused():
    comm, buffer = await alone()
    stream = await acl.CreateStream()
    await acl.AllReduce(buffer, buffer, 4, "float32", ReduceOp.SUM, comm, stream)
    await acl.SynchronizeStream(stream)
    await acl.DestroyStream(stream)
    with pytest.raises(AclError, match="destroyed"):
        await acl.AllReduce(buffer, buffer, 4, "float32", ReduceOp.SUM, comm, stream)


@cards
async def test_a_repeated_call_after_the_end_of_its_communicator_is_refused():
    comm, buffer = await alone()
    await reduce(comm, buffer, 4)
    await acl.CommDestroy(comm)
    with pytest.raises(AclError, match="takes part in nothing any more"):
        await reduce(comm, buffer, 4)


def test_under_acls_rules_a_repeated_call_needs_the_context_of_its_stream_as_the_first_one():
    async def main():
        comms = await acl.CommInitAll(2)
        buffer, stream = await acl.Malloc(16), await acl.CreateStream()
        arguments = (buffer, buffer, 4, "float32", ReduceOp.SUM, comms[0], stream)
        await acl.AllReduce(*arguments)
        await acl.SetDevice(1)
        with pytest.raises(AclError) as error:
            await acl.AllReduce(*arguments)
        assert error.value.kind is Kind.FOREIGN_STREAM
        await acl.SetDevice(0)
        await acl.AllReduce(*arguments)

    acl.run(main, device="ascend910b3", rules="acl", workers=1)
