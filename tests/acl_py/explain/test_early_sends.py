"""A program that goes on only because receivers have buffers: the finding, its limit, and the group that mends it."""

from contextlib import asynccontextmanager

import pytest

import acl_py as acl
from acl_py.causes.findings import Pitfall
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of

ROOM = 16 << 20


@asynccontextmanager
async def apart():
    """No group."""
    yield


class Pair:
    """A rank of two, with a stream and memory of its own."""

    def __init__(self, index, comm, stream, nbytes, source, target):
        self.comm, self.stream, self.nbytes = comm, stream, nbytes
        self.source, self.target, self.other = source, target, 1 - index

    async def send(self, number=1):
        for _ in range(number):
            await acl.Send(self.source, self.nbytes, "uint8", self.other, self.comm, self.stream)

    async def recv(self, number=1):
        for _ in range(number):
            await acl.Recv(self.target, self.nbytes, "uint8", self.other, self.comm, self.stream)


def ran(main, nbytes=4096, rules="cuda"):
    """The recording of `main(rank)` on two ranks, in a task each."""

    async def program():
        info = await acl.GetRootInfo()

        async def rank(index):
            comm = await acl.CommInitRootInfo(2, info, index)
            memory = await acl.Malloc(nbytes), await acl.Malloc(nbytes)
            stream = await acl.CreateStream()
            await main(Pair(index, comm, stream, nbytes, *memory))
            await acl.SynchronizeStream(stream)

        await acl.ranks(2, rank)
        return acl.current_simulation().trace.timeline()

    return acl.run(program, device="h200" if rules == "cuda" else "ascend910b3")


def found(timeline):
    priced = prices(asker_of(timeline, "run"), timeline)
    return [each for each in priced if each.finding.pitfall is Pitfall.EARLY_SEND]


async def twice(rank, group=apart):
    async with group():
        await rank.send(2)
        await rank.recv(2)


def test_sends_first_on_both_ranks_are_a_finding_with_their_lines_and_the_size_that_hangs():
    [early] = found(ran(twice))
    assert early.finding.text == (
        "test_early_sends.py:30: rank 0 sends 4,096 bytes to rank 1 (test_early_sends.py:30) and rank 1 sends 4,096 "
        "bytes to rank 0 (test_early_sends.py:30), and only the buffers of the receivers let the program go on. It "
        "hangs if each of these has more than 8,388,608 bytes. Put them into a group with the Recvs that follow: async "
        "with acl.group(). Or let one of the ranks call Recv first"
    )
    ran(twice, ROOM // 2)
    with pytest.raises(ExceptionGroup) as caught:
        ran(twice, ROOM // 2 + 1)
    assert [type(each) for each in caught.value.exceptions] == [acl.DeadlockError] * 2


def test_its_price_is_the_difference_to_the_program_with_the_group():
    before, after = ran(twice), ran(lambda rank: twice(rank, acl.group))
    [early] = found(before)
    assert early.answer.before_ns == asker_of(before, "run").before_ns
    # A block of a group makes one call more than a step of a program with several Sends.
    begun = sum(call.exit_ns - call.enter_ns for call in after.calls if call.name == "GroupStart")
    assert early.answer.after_ns == asker_of(after, "run").before_ns - begun
    assert found(after) == []


def test_a_host_that_waits_for_its_send_before_it_receives_gets_no_group():
    async def main(rank):
        await rank.send()
        await acl.SynchronizeStream(rank.stream)
        await rank.recv()

    [early] = found(ran(main))
    assert "more than 16,777,216 bytes" in early.finding.what
    assert early.finding.edit == "Let rank 1 or rank 0 call Recv before anything waits for these Sends"
    assert early.worth == "No price: no Recv follows these Sends that could be in a group with them"
    assert not early.is_minor


async def one_way(rank):
    """Rank 0 sends, and rank 1 receives: nothing needs a buffer."""
    await (rank.send() if rank.other else rank.recv())


async def in_turn(rank):
    """One rank sends first, the other one receives first."""
    for call in (rank.send, rank.recv) if rank.other else (rank.recv, rank.send):
        await call()


async def reduced(rank):
    array = acl.Array(rank.source, "uint8")
    await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, rank.comm, rank.stream)


@pytest.mark.parametrize("main", [one_way, in_turn, reduced])
def test_programs_that_need_no_buffer_have_no_such_finding(main):
    assert found(ran(main)) == []


def test_under_acls_rules_there_is_no_buffer_to_need():
    assert found(ran(in_turn, rules="acl")) == []


def test_a_send_that_only_waits_behind_others_is_not_named():
    async def program():
        info = await acl.GetRootInfo()

        async def rank(index):
            comm = await acl.CommInitRootInfo(3, info, index)
            memory, stream = await acl.Malloc(4), await acl.CreateStream()
            for peer in {0: [1], 1: [0], 2: [0]}[index]:
                await acl.Send(memory, 4, "uint8", peer, comm, stream)
            for peer in {0: [1, 2], 1: [0], 2: []}[index]:
                await acl.Recv(memory, 4, "uint8", peer, comm, stream)
            await acl.SynchronizeStream(stream)

        await acl.ranks(3, rank)
        return acl.current_simulation().trace.timeline()

    [early] = found(acl.run(program, device="h200"))
    assert early.finding.what.startswith("rank 0 sends 4 bytes to rank 1 ")
    assert "rank 2" not in early.finding.text
