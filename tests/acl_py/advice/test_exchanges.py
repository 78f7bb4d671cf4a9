"""Programs in which the dearest wait alone leads to a worse choice: one piece of advice is exchanged for another."""

from small import D2H, SIZE, read, said, two_streams, write

import acl_py

LARGE = 16 * SIZE


@acl_py.kernel(cost=acl_py.Cost(us=900))
def work(x: acl_py.InOut):
    """Work long on *x*."""


async def one_sync_behind_another():
    """Each synchronisation hides what the other one is worth. The wait in the stream is worth its call, and without it
    one of them would be needed.
    """
    one, two, event = await two_streams(nonblocking=True)
    x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
    await write[1, one](x)
    await acl_py.SynchronizeStream(one)
    await acl_py.SynchronizeDevice()
    await acl_py.RecordEvent(event, one)
    await acl_py.StreamWaitEvent(two, event)
    await acl_py.HostWork(5)
    await read[1, two](x)
    await work[1, two](y)
    await acl_py.SynchronizeStream(two)


def test_what_hides_the_worth_of_a_wait_does_not_keep_it():
    assert said(one_sync_behind_another) == {
        "SynchronizeStream(one)": "REMOVE",
        "SynchronizeDevice()": "REMOVE",
        "StreamWaitEvent(two, event)": "needed",
        "SynchronizeStream(two)": "stays",
    }


async def one_copy_before_another():
    """The wait of a stream lets the short copy go before the long one. It orders nothing, but a kernel needs the short
    copy soon. The two synchronisations hide each other, and are worth more than that.
    """
    one, two, event = await two_streams(nonblocking=True)
    three, four = await acl_py.CreateStream(nonblocking=True), await acl_py.CreateStream(nonblocking=True)
    w, x = await acl_py.Malloc(SIZE), await acl_py.Malloc(LARGE)
    y, z = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
    long, short = await acl_py.MallocHost(LARGE), await acl_py.MallocHost(SIZE)
    await work[1, four](w)
    await acl_py.SynchronizeStream(four)
    await acl_py.SynchronizeDevice()
    await write[1, three](z)
    await acl_py.RecordEvent(event, three)
    await acl_py.StreamWaitEvent(one, event)
    await acl_py.MemcpyAsync(long, LARGE, x, LARGE, D2H, one)
    await acl_py.MemcpyAsync(short, SIZE, y, SIZE, D2H, two)
    await work[1, two](y)
    await acl_py.SynchronizeStream(one)
    await acl_py.SynchronizeStream(two)


def test_a_wait_without_which_the_run_is_longer_stays():
    assert said(one_copy_before_another) == {
        "SynchronizeStream(four)": "REMOVE",
        "SynchronizeDevice()": "REMOVE",
        "StreamWaitEvent(one, event)": "stays",
        "SynchronizeStream(one)": "REMOVE",
        "SynchronizeStream(two)": "stays",
    }
