"""Programs of several host tasks, with the exact host time of what each of them writes down."""

import asyncio
import socket
import sys

import pytest
from environments import LONG
from miniature import ALTERNATE, US, Host, alternate, repeat

pytestmark = pytest.mark.one_in(2)


def test_two_tasks_alternate(drive):
    assert drive(alternate) == ALTERNATE


def test_two_tasks_alternate_on_a_loop_that_shows_no_queue(drive_blind):
    assert drive_blind(alternate) == ALTERNATE


def test_a_single_task_goes_from_wait_to_wait(drive):
    assert drive(lambda host: repeat(host, "S", 10 * US, 3)) == [("S", 13_000), ("S", 26_000), ("S", 39_000)]


def test_all_waiters_of_one_instant_wake_in_order_of_arrival(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 10 * US)

        async def wait(who):
            await host.sync(stream)
            host.note(who)

        await asyncio.gather(*(wait(n) for n in range(5)))

    assert drive(program) == [(0, 13_000), (1, 15_000), (2, 17_000), (3, 19_000), (4, 21_000)]


def test_a_waiter_that_comes_late_does_not_wait(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 10 * US)

        async def late():
            await host.work(20 * US)
            await host.sync(stream)
            host.note("late")

        async def early():
            await host.sync(stream)
            host.note("early")

        await asyncio.gather(early(), late())

    # The late one works to 21,300 and asks at 21,600; it yields its turn to the early one, woken meanwhile.
    assert drive(program) == [("early", 23_600), ("late", 23_600)]


def test_simulated_sleep_lets_others_run(drive):
    async def program(host):
        async def sleeper():
            await host.sleep(50 * US)
            host.note("sleeper")

        await asyncio.gather(sleeper(), repeat(host, "A", 10 * US, 2))

    assert drive(program) == [("A", 13_000), ("A", 26_000), ("sleeper", 52_000)]


def test_ring_of_tasks_that_pass_a_token(drive):
    async def program(host):
        queues = [asyncio.Queue() for _ in range(3)]

        async def member(n):
            stream = host.stream()
            for _ in range(2):
                await queues[n].get()
                await host.run(stream, 10 * US, n)
                queues[(n + 1) % 3].put_nowait("token")

        queues[0].put_nowait("token")
        await asyncio.gather(*(member(n) for n in range(3)))

    assert drive(program) == [(0, 13_000), (1, 26_000), (2, 39_000), (0, 52_000), (1, 65_000), (2, 78_000)]


def test_consumer_is_fed_by_a_task_that_just_woke(drive):
    async def program(host):
        queue = asyncio.Queue()

        async def producer():
            stream = host.stream()
            for _ in range(2):
                await host.run(stream, 10 * US, "P")
                await queue.put("item")

        async def consumer():
            stream = host.stream()
            for _ in range(2):
                await queue.get()
                await host.run(stream, 5 * US, "C")

        await asyncio.gather(producer(), consumer())

    # P submits again at 14,000; C, fed at 13,000, submits at 15,300 and must not be overtaken by a jump to 24,000.
    assert drive(program) == [("P", 13_000), ("C", 22_300), ("P", 26_000), ("C", 34_000)]


def test_two_runtimes_share_a_loop(drive):
    async def program(host):
        other = Host()
        other.log = host.log
        await asyncio.gather(repeat(host, "A", 10 * US, 2), repeat(other, "B", 15 * US, 2))

    apart, shared = [("A", 13_000), ("B", 18_000), ("A", 26_000), ("B", 36_000)], ALTERNATE[:4]
    assert drive(program) == (shared if drive.is_simulated else apart)  # on a simulated clock they are one host


@pytest.mark.parametrize("length", [0, 1, 20, 200])
def test_token_through_a_chain_of_tasks_is_not_overtaken(drive, length):
    async def program(host):
        queues = [asyncio.Queue() for _ in range(length + 1)]

        async def first():
            await host.run(host.stream(), 10 * US, "F")
            queues[0].put_nowait("token")

        async def link(n):
            queues[n + 1].put_nowait(await queues[n].get())

        async def last():
            await queues[-1].get()
            await host.submit(host.stream(), 10 * US)
            host.note("L")

        await asyncio.gather(first(), repeat(host, "O", 14 * US, 1), *(link(n) for n in range(length)), last())

    assert drive(program) == [("F", 13_000), ("L", 14_000), ("O", 18_300)]


@LONG
@pytest.mark.parametrize("turns", [0, 1, 2, 5, 50, 3000])
def test_loop_turns_between_calls_take_no_time(drive, turns):
    async def program(host):
        async def task(who, ns, times):
            stream = host.stream()
            for _ in range(times):
                for _ in range(
                    turns
                ):  # where both can run they would change the order of the calls, as on an ideal loop
                    await asyncio.sleep(0)
                await host.run(stream, ns, who)

        await asyncio.gather(task("A", 10 * US, 3), task("B", 26 * US, 2))

    assert drive(program) == [("A", 13_000), ("A", 26_000), ("B", 30_300), ("A", 39_000), ("B", 59_300)]


@pytest.mark.parametrize("turns", [0, 1, 7])
def test_poll_moves_time_by_its_cost_only(drive, turns):
    async def program(host):
        async def poller():
            stream = host.stream()
            await host.submit(stream, 48_500)
            while not await host.query(stream):
                for _ in range(turns):
                    await asyncio.sleep(0)
            host.note("P")

        await asyncio.gather(repeat(host, "W", 22 * US, 1), poller())
        host.note(host.fruitless)

    assert drive(program) == [("W", 25_300), ("P", 51_200), (66, 51_200)]


def test_poll_lets_the_task_run_for_which_it_waits(drive):
    async def program(host):
        stream, event = host.stream(), host.event()
        await host.wait_event(stream, event)

        async def poller():
            while not await host.query(stream):
                pass
            host.note("P")

        async def other():
            await host.run(host.stream(), 10 * US, "O")
            await host.record(event)

        await asyncio.gather(poller(), other())

    # O waits from 3000 for an op that ends at 12,700; P's query at 12,800 sees to that. O records at 15,800.
    assert drive(program) == [("O", 14_800), ("P", 16_500)]


def test_child_polls_for_what_its_parent_does(drive):
    async def program(host):
        stream, event = host.stream(), host.event()
        await host.wait_event(stream, event)

        async def child():
            while not await host.query(stream):
                pass
            host.note("child")

        task = asyncio.create_task(child())
        for _ in range(3):
            await asyncio.sleep(0)
        await host.record(event)
        host.note("parent")
        await task

    (first, at), (second, then) = drive(program)
    assert (first, second, then - at) == ("parent", "child", 700)


def test_sync_on_an_idle_stream_lets_others_run(drive):
    async def program(host):
        done = []

        async def looper():
            while not done:
                await host.sync(host.stream())
            host.note("looper")

        async def other():
            await host.run(host.stream(), 1 * US, "other")
            done.append(True)

        await asyncio.gather(looper(), other())

    # looper 300, other submits at 1300 and waits from 1600, its op ends at 2300, seen by looper's call at 2500.
    assert drive(program) == [("other", 4_500), ("looper", 4_500)]


async def _nested_gather(depth, coroutine):
    if not depth:
        await coroutine
        return
    await asyncio.gather(_nested_gather(depth - 1, coroutine))


def _call_soon_chain(length, action):
    if length:
        asyncio.get_running_loop().call_soon(_call_soon_chain, length - 1, action)
    else:
        action()


def _is_not_overtaken(hop):
    """A child wakes at 13,000; whoever it wakes is not overtaken by the op of another task, however long the way."""

    async def program(host):
        woken = asyncio.Event()

        async def child():
            await host.run(host.stream(), 10 * US, "child")
            woken.set()

        async def parent():
            await hop(child())
            await host.submit(host.stream(), US)
            host.note("P")

        async def other():
            stream = host.stream()
            await woken.wait()
            await host.submit(stream, 100)
            host.note("B")
            await host.sync(stream)

        await asyncio.gather(parent(), other())

    return program


def test_parent_that_joins_a_child_is_not_overtaken(drive):
    async def join(child):
        await asyncio.create_task(child)

    assert drive(_is_not_overtaken(join)) == [("child", 13_000), ("B", 14_000), ("P", 15_300)]


@pytest.mark.parametrize("depth", [1, 2, 5, 30])
def test_parent_behind_nested_gathers_is_not_overtaken(drive, depth):
    program = _is_not_overtaken(lambda child: _nested_gather(depth, child))
    assert drive(program) == [("child", 13_000), ("B", 14_000), ("P", 15_300)]


@pytest.mark.parametrize("length", [1, 5, 60])
def test_task_behind_a_chain_of_callbacks_is_not_overtaken(drive, length):
    async def hop(child):
        await child
        reached = asyncio.Event()
        _call_soon_chain(length, reached.set)
        await reached.wait()

    assert drive(_is_not_overtaken(hop)) == [("child", 13_000), ("B", 14_000), ("P", 15_300)]


@pytest.mark.parametrize("hops", [1, 6])
def test_tasks_that_are_coupled_by_sockets_are_not_overtaken(drive, hops):
    async def program(host):
        loop = asyncio.get_running_loop()
        pairs = [socket.socketpair() for _ in range(hops)]
        for end in (end for pair in pairs for end in pair):
            end.setblocking(False)

        async def first():
            await host.run(host.stream(), 10 * US, "A")
            await loop.sock_sendall(pairs[0][0], b"x")

        async def link(n):
            await loop.sock_sendall(pairs[n + 1][0], await loop.sock_recv(pairs[n][1], 1))

        async def last():
            await loop.sock_recv(pairs[-1][1], 1)
            await host.submit(host.stream(), US)
            host.note("B")

        await asyncio.gather(first(), repeat(host, "C", 14 * US, 1), *(link(n) for n in range(hops - 1)), last())
        for end in (end for pair in pairs for end in pair):
            end.close()

    assert drive(program) == [("A", 13_000), ("B", 14_000), ("C", 18_300)]


def test_tasks_that_are_coupled_by_tcp_streams_are_not_overtaken(drive):
    async def program(host):
        served = asyncio.Event()

        async def serve(reader, writer):
            await reader.readexactly(1)
            await host.submit(host.stream(), US)
            host.note("B")
            writer.close()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

        async def first():
            await host.run(host.stream(), 10 * US, "A")
            writer.write(b"x")
            await served.wait()

        await asyncio.gather(first(), repeat(host, "C", 14 * US, 1))
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    assert drive(program) == [("A", 13_000), ("B", 14_000), ("C", 18_300)]


needs_eager = pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")


@needs_eager
def test_tasks_created_eagerly_before_work(drive_eager):
    async def program(host):
        tasks = [asyncio.create_task(repeat(host, n, 10 * US, 1)) for n in range(3)]
        await host.submit(host.stream(), US)
        host.note("parent")
        await asyncio.gather(*tasks)

    assert drive_eager(program) == [("parent", 4_900), (0, 13_000), (1, 15_000), (2, 17_000)]


@needs_eager
def test_eager_child_does_not_overtake_its_parent(drive_eager):
    async def program(host):
        await host.sync(host.stream())  # now the parent's claim to be alone is fresh
        child = asyncio.create_task(repeat(host, "C", 10 * US, 1))
        await host.submit(host.stream(), US)
        host.note("P")
        await child

    assert drive_eager(program) == [("P", 2_600), ("C", 13_300)]
