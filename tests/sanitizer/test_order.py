"""The relation: what tasks hand on to one another, and what they do not."""

import asyncio
from functools import partial

import anyio
import pytest

import acl_py as acl
from acl_py.findings import Findings
from tests.sanitizer.racing import found, read, two_streams, write

loops = pytest.mark.parametrize("uvloop", [False, True])


async def produce(x, stream):
    """Write *x*, and know that it is written."""
    await acl.LaunchKernel(write, 1, (x,), stream)
    await acl.SynchronizeStream(stream)


async def consume(x, stream):
    await acl.LaunchKernel(read, 1, (x,), stream)


async def by_await(x, one, two):
    await asyncio.create_task(produce(x, one))
    await consume(x, two)


async def by_creating(x, one, two):
    await produce(x, one)
    await asyncio.create_task(consume(x, two))


async def by_gather(x, one, two):
    await asyncio.gather(produce(x, one), asyncio.sleep(0.001))
    await asyncio.gather(consume(x, two), asyncio.sleep(0))


async def by_a_task_group(x, one, two):
    async with anyio.create_task_group() as group:
        group.start_soon(produce, x, one)
    await consume(x, two)


async def by_an_event(x, one, two):
    event = asyncio.Event()

    async def first():
        await produce(x, one)
        event.set()

    async def second():
        await event.wait()
        await consume(x, two)

    await asyncio.gather(second(), first())


async def by_a_queue(x, one, two):
    queue = asyncio.Queue()

    async def first():
        await produce(x, one)
        await queue.put(x)

    async def second():
        await consume(await queue.get(), two)

    await asyncio.gather(second(), first())


async def by_a_timeout(x, one, two):
    await asyncio.wait_for(produce(x, one), 10)
    await consume(x, two)


async def by_a_callback(x, one, two):
    done = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(produce(x, one))
    task.add_done_callback(lambda _: done.set_result(None))
    await done
    await consume(x, two)


@loops
@pytest.mark.parametrize(
    "hand_over",
    [by_await, by_creating, by_gather, by_a_task_group, by_an_event, by_a_queue, by_a_timeout, by_a_callback],
)
def test_what_a_task_knows_it_hands_on(hand_over, uvloop):
    async def program():
        x = await acl.Malloc(64)
        await hand_over(x, *await two_streams())

    assert found(program, uvloop=uvloop) == []


async def finds_an_event_that_is_set(first, second):
    event = asyncio.Event()
    await asyncio.gather(_then(first, event.set), _late(event.wait, second))


async def asks_whether_an_event_is_set(first, second):
    event = anyio.Event()

    async def poll():
        while not event.is_set():  # noqa: ASYNC110 - that is the test
            await asyncio.sleep(0.001)

    await asyncio.gather(_then(first, event.set), _late(poll, second))


async def finds_an_item(first, second):
    queue = asyncio.Queue()
    await asyncio.gather(_then(first, partial(queue.put_nowait, 1)), _late(queue.get, second))


async def finds_that_a_queue_is_done(first, second):
    queue = asyncio.Queue()
    queue.put_nowait(1)
    await asyncio.gather(_then(first, queue.task_done), _late(queue.join, second))


async def finds_a_free_lock(first, second):
    lock = asyncio.Lock()

    async def with_lock():
        async with lock:
            await first()

    await asyncio.gather(with_lock(), _late(lock.acquire, second))


async def awaits_a_task_that_is_done(first, second):
    task = asyncio.create_task(first())
    await asyncio.sleep(1)
    await task
    await second()


async def asks_whether_a_task_is_done(first, second):
    task = asyncio.create_task(first())
    while not task.done():  # noqa: ASYNC110 - that is the test
        await asyncio.sleep(0.001)
    await second()


async def gathers_a_task_that_is_done(first, second):
    task = asyncio.create_task(first())
    await asyncio.sleep(1)
    await asyncio.gather(task)
    await second()


async def waits_for_tasks_that_are_done(first, second):
    tasks = [asyncio.create_task(first())]
    await asyncio.sleep(1)
    await asyncio.wait(tasks)
    await second()


async def awaits_a_future_that_is_done(first, second):
    future = asyncio.get_running_loop().create_future()
    await asyncio.gather(
        _then(first, partial(future.set_result, 1)), _late(partial(asyncio.wait_for, future, 9), second)
    )


async def asks_for_the_exception_of_a_future(first, second):
    future = asyncio.get_running_loop().create_future()

    async def ask():
        assert isinstance(future.exception(), KeyError)

    await asyncio.gather(_then(first, partial(future.set_exception, KeyError())), _late(ask, second))


async def takes_the_last_place_of_a_semaphore(first, second):
    semaphore = asyncio.Semaphore(0)
    await asyncio.gather(_then(first, semaphore.release), _late(semaphore.acquire, second))


async def finds_an_item_in_a_stream(first, second):
    send, receive = anyio.create_memory_object_stream(1)
    with send, receive:
        await asyncio.gather(_then(first, partial(send.send_nowait, 1)), _late(receive.receive, second))


async def takes_an_item_from_a_sender_who_sleeps(first, second):
    send, receive = anyio.create_memory_object_stream(0)

    async def give():
        await first()
        await send.send(1)

    async def take():
        receive.receive_nowait()

    with send, receive:
        await asyncio.gather(give(), _late(take, second))


async def leaves_a_group_whose_tasks_are_done(first, second):
    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await asyncio.sleep(1)
    await second()


async def finds_a_free_lock_of_anyio(first, second):
    lock = anyio.Lock()

    async def with_lock():
        async with lock:
            await first()

    await asyncio.gather(with_lock(), _late(lock.acquire, second))


async def takes_a_free_lock_of_anyio_at_once(first, second):
    lock = anyio.Lock()

    async def with_lock():
        async with lock:
            await first()

    async def take():
        lock.acquire_nowait()

    await asyncio.gather(with_lock(), _late(take, second))


async def finds_what_a_condition_of_anyio_is_about(first, second):
    condition, done = anyio.Condition(), []

    async def produces():
        async with condition:
            await first()
            done.append(True)
            condition.notify_all()

    async def find():
        async with condition:
            while not done:
                await condition.wait()

    await asyncio.gather(produces(), _late(find, second))


async def waits_for_a_condition_of_anyio(first, second):
    condition, done = anyio.Condition(), []

    async def find():
        async with condition:
            while not done:
                await condition.wait()
        await second()

    async def produces():
        async with condition:
            await first()
            done.append(True)
            condition.notify()

    await asyncio.gather(find(), produces())


async def takes_the_last_place_of_a_semaphore_of_anyio(first, second):
    semaphore = anyio.Semaphore(0)
    await asyncio.gather(_then(first, semaphore.release), _late(semaphore.acquire, second))


async def takes_the_last_place_of_a_semaphore_of_anyio_at_once(first, second):
    semaphore = anyio.Semaphore(0)

    async def take():
        semaphore.acquire_nowait()

    await asyncio.gather(_then(first, semaphore.release), _late(take, second))


async def finds_a_free_limiter(first, second):
    limiter = anyio.CapacityLimiter(1)

    async def with_limiter():
        async with limiter:
            await first()

    await asyncio.gather(with_limiter(), _late(limiter.acquire, second))


async def leaves_a_group_of_anyio_whose_tasks_are_done(first, second):
    async with anyio.create_task_group() as group:
        group.start_soon(first)
        group.start_soon(asyncio.sleep, 0.5)
        await asyncio.sleep(1)
    await second()


async def leaves_a_group_of_anyio_whose_first_task_was_done_first(first, second):
    async with anyio.create_task_group() as group:
        group.start_soon(first)
        group.start_soon(asyncio.sleep, 1)
    await second()


async def _then(first, then):
    await first()
    then()


async def _late(wait, then):
    await asyncio.sleep(1)
    await wait()
    await then()


@loops
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    "hand_over",
    [
        finds_an_event_that_is_set, asks_whether_an_event_is_set, finds_an_item, finds_that_a_queue_is_done,
        finds_a_free_lock, awaits_a_task_that_is_done, asks_whether_a_task_is_done, gathers_a_task_that_is_done,
        waits_for_tasks_that_are_done, leaves_a_group_whose_tasks_are_done, awaits_a_future_that_is_done,
        asks_for_the_exception_of_a_future, takes_the_last_place_of_a_semaphore, finds_an_item_in_a_stream,
        takes_an_item_from_a_sender_who_sleeps, finds_a_free_lock_of_anyio, takes_a_free_lock_of_anyio_at_once,
        finds_what_a_condition_of_anyio_is_about, waits_for_a_condition_of_anyio,
        takes_the_last_place_of_a_semaphore_of_anyio, takes_the_last_place_of_a_semaphore_of_anyio_at_once,
        finds_a_free_limiter, leaves_a_group_of_anyio_whose_tasks_are_done,
        leaves_a_group_of_anyio_whose_first_task_was_done_first,
    ],
)  # fmt: skip
def test_what_a_task_knows_is_handed_on_although_nobody_sleeps(hand_over, is_known, uvloop):
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)

        async def first():
            await acl.LaunchKernel(write, 1, (x,), one)
            if is_known:
                await acl.SynchronizeStream(one)

        await hand_over(first, partial(consume, x, two))

    assert [kind for kind, *_ in found(program, uvloop=uvloop)] == ([] if is_known else ["race"])


@pytest.mark.parametrize("semaphore", [asyncio.Semaphore, anyio.Semaphore, anyio.CapacityLimiter])
def test_a_place_of_a_semaphore_that_was_free_before_hands_nothing_on(semaphore):
    async def program():
        one, two = await two_streams()
        x, places = await acl.Malloc(64), semaphore(2)

        async def first():
            async with places:
                await produce(x, one)

        async def second():
            await asyncio.sleep(1)
            async with places:
                await consume(x, two)

        await asyncio.gather(first(), second())

    assert [kind for kind, *_ in found(program)] == ["race"]


def test_a_place_that_was_not_the_last_when_it_was_taken_hands_nothing_on():
    async def program():
        one, two = await two_streams()
        x, places = await acl.Malloc(64), anyio.Semaphore(2)

        async def first():
            async with places:
                await produce(x, one)

        async def second():
            await asyncio.sleep(1)
            async with places:  # before this returns, the third task takes the last place
                await consume(x, two)

        async def third():
            await asyncio.sleep(1)
            await places.acquire()

        await asyncio.gather(first(), second(), third())

    assert [kind for kind, *_ in found(program)] == ["race"]


def test_an_item_of_a_stream_that_a_receiver_waited_for_hands_nothing_on_to_later_ones():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        send, receive = anyio.create_memory_object_stream(1)

        async def first():
            await produce(x, one)
            await send.send("item")

        async def second():
            await asyncio.sleep(1)
            send.send_nowait("item")
            await receive.receive()
            await consume(x, two)

        with send, receive:
            await asyncio.gather(receive.receive(), first(), second())

    assert [kind for kind, *_ in found(program)] == ["race"]


def test_an_item_of_a_queue_hands_on_what_its_own_producer_knew():
    async def program():
        one, two = await two_streams()
        x, y, queue = await acl.Malloc(64), await acl.Malloc(64), asyncio.Queue()

        async def put(memory, item):
            await produce(memory, one)
            queue.put_nowait(item)

        async def get():
            await asyncio.sleep(1)
            await queue.get()
            await consume(x, two)
            await consume(y, two)

        await asyncio.gather(put(x, "x"), put(y, "y"), get())

    assert len(found(program)) == 1


@loops
def test_a_task_does_not_know_what_another_one_has_waited_for(uvloop):
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)

        async def late():
            await acl.Sleep(10_000)
            await acl.LaunchKernel(read, 1, (x,), two)

        async def early():
            await acl.LaunchKernel(write, 1, (x,), one)
            await acl.SynchronizeStream(one)

        await asyncio.gather(late(), early())

    assert found(program, uvloop=uvloop) == [("race", 9, 6, "0:64")]


def test_a_task_that_lets_time_pass_does_not_hand_on_what_it_knows():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)

        async def waiter():
            await acl.LaunchKernel(write, 1, (y,), two)
            await acl.LaunchKernel(write, 1, (y,), two)
            await acl.SynchronizeStream(two)
            await acl.LaunchKernel(read, 1, (x,), two)

        async def worker():
            await acl.LaunchKernel(write, 1, (x,), one)
            await acl.SynchronizeStream(one)
            await acl.HostWork(100)

        await asyncio.gather(worker(), waiter())

    [race] = found(program)
    assert sorted(race[1:3]) == [8, 11]


@pytest.mark.parametrize(("waits", "races"), [(True, []), (False, [("race", 5, 8, "0:1")])])
def test_a_thread_knows_what_the_task_knew_that_waits_for_it(waits, races):
    async def program():
        device, host, (one, _) = await acl.Malloc(64), await acl.MallocHost(64), await two_streams()
        view = host.numpy()

        async def use():
            await acl.MemcpyAsync(host, 64, device, 64, acl.MemcpyKind.DEVICE_TO_HOST, one)
            if waits:
                await acl.SynchronizeStream(one)
            await asyncio.to_thread(lambda: int(view[0]))

        await asyncio.create_task(use())

    assert found(program, sanitize="host") == races


def test_a_task_knows_what_the_thread_did_that_it_waits_for():
    async def program():
        device, host, (one, _) = await acl.Malloc(64), await acl.MallocHost(64), await two_streams()
        view = host.numpy()

        async def use():
            await asyncio.get_running_loop().run_in_executor(None, lambda: view.fill(1))
            await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, one)
            await acl.SynchronizeStream(one)

        await asyncio.gather(use(), asyncio.sleep(0))

    assert found(program, sanitize="host") == []


def test_a_note_says_that_what_threads_tell_one_another_is_not_seen():
    async def program():
        view = (await acl.MallocHost(64)).numpy()
        await asyncio.to_thread(lambda: view.fill(1))
        return list(acl.current_simulation().runtime.state(Findings).notes)

    assert [note for note in acl.run(program, device="tiny", sanitize="host") if note.startswith("what threads tell")]


def test_a_note_says_what_is_not_seen_of_a_version_of_anyio_that_is_not_understood(monkeypatch):
    monkeypatch.delattr(anyio._backends._asyncio, "CapacityLimiter")

    async def program():
        return list(acl.current_simulation().runtime.state(Findings).notes)

    [note] = [note for note in acl.run(program, device="tiny", sanitize="device") if "anyio" in note]
    assert "CapacityLimiter.release_on_behalf_of" in note
    assert "Lock" not in note


def test_the_loop_has_its_own_methods_again_afterwards():
    async def program():
        loop = asyncio.get_running_loop()
        async with acl.simulate(device="tiny", sanitize=True):
            assert "call_soon" in vars(loop)
            assert asyncio.Event.set is not event_set
        return "call_soon" in vars(loop)

    event_set = asyncio.Event.set
    assert asyncio.run(program()) is False
    assert asyncio.Event.set is event_set


def test_two_simulations_in_one_loop_watch_it_until_the_last_one_ends():
    async def ordered(ended=None):
        async with acl.simulate(device="tiny", sanitize="device") as sim:
            one, two = await two_streams()
            x = await acl.Malloc(64)
            await (asyncio.sleep(0) if ended is None else ended.wait())
            await asyncio.create_task(produce(x, one))
            await asyncio.create_task(consume(x, two))
            return [str(finding) for finding in sim.findings]

    async def program():
        ended = asyncio.Event()
        second = asyncio.create_task(ordered(ended))
        first = await ordered()
        ended.set()
        return [first, await second, "call_soon" in vars(asyncio.get_running_loop())]

    assert asyncio.run(program()) == [[], [], False]


def test_many_tasks_one_after_the_other_keep_the_clocks_small():
    sizes = []

    async def program():
        one = await acl.CreateStream()
        x = await acl.Malloc(64)
        order = acl.current_simulation().runtime.sanitizer.races._order
        for _ in range(50):
            await asyncio.gather(*(asyncio.create_task(produce(x, one)) for _ in range(2)))
            sizes.append(len(order.line(one).past.clock))

    assert found(program) == []
    assert max(sizes) < 12


async def by_a_notify(one, two):
    notify = await acl.CreateNotify()
    return partial(acl.RecordNotify, notify, one), partial(acl.WaitAndResetNotify, notify, two)


async def by_a_flag(one, two):
    event = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
    return partial(acl.RecordEvent, event, one), partial(acl.StreamWaitEvent, two, event)


async def by_a_word(one, two):
    word = await acl.Malloc(8)
    await acl.Memset(word, 8, 0, 8)
    return partial(acl.ValueWrite, word, 3, 0, one), partial(acl.ValueWait, word, 2, acl.Compare.GEQ, two)


signals = pytest.mark.parametrize("signal", [by_a_notify, by_a_flag, by_a_word])


@signals
@pytest.mark.parametrize("waits_first", [False, True])
def test_a_wait_for_a_signal_is_behind_the_set_also_if_it_is_queued_first(signal, waits_first):
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        give, wait = await signal(one, two)
        if waits_first:
            await wait()
            await acl.LaunchKernel(read, 1, (y,), two)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (y,), one)
        if waits_first:
            await acl.LaunchKernel(read, 1, (x,), two)
        await give()
        if not waits_first:
            await wait()
            await acl.LaunchKernel(read, 1, (y,), two)
            await acl.LaunchKernel(read, 1, (x,), two)
        await acl.SynchronizeDevice()

    assert found(program, "acl") == []


@signals
def test_what_is_queued_behind_the_set_is_in_no_order_with_what_waits_for_it(signal):
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        give, wait = await signal(one, two)
        await wait()
        await acl.LaunchKernel(read, 1, (x,), two)
        await give()
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.SynchronizeDevice()

    assert found(program, "acl") == [("race", 5, 7, "0:64")]


def test_a_wait_that_an_older_set_could_satisfy_is_not_behind_the_newer():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.RecordEvent(event, one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program, "acl") == [("wait", 3, 6), ("race", 4, 7, "0:64")]


def test_a_wait_may_see_a_set_that_is_queued_after_it_by_another_stream():
    async def program():
        one, two = await two_streams()
        three = await acl.CreateStream()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.RecordEvent(event, three)
        await acl.SynchronizeDevice()

    assert found(program, "acl") == [("race", 4, 7, "0:64")]


def test_a_wait_does_not_see_the_set_behind_it_in_its_own_stream():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.RecordEvent(event, two)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.SynchronizeDevice()
        await acl.LaunchKernel(write, 1, (x,), one)

    assert found(program, "acl") == []


def test_a_reset_that_nothing_orders_may_come_too_late():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.RecordEvent(event, one)
        await acl.ResetEvent(event, one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program, "acl") == [("wait", 3, 4), ("wait", 3, 7), ("race", 5, 8, "0:64")]


@pytest.mark.slow
def test_waits_for_signals_keep_clocks_small():
    sizes = []

    async def program():
        one, two = await two_streams()
        notifies = [await acl.CreateNotify() for _ in range(2)]
        x = await acl.Malloc(64)
        order = acl.current_simulation().runtime.sanitizer.races._order
        for _ in range(300):
            for stream, other, notify in ((one, two, notifies[0]), (two, one, notifies[1])):
                await acl.LaunchKernel(write, 1, (x,), stream)
                await acl.RecordNotify(notify, stream)
                await acl.WaitAndResetNotify(notify, other)
            sizes.append(len(order.line(one).past.clock))

    assert found(program, "acl") == []
    assert max(sizes) < 6


def test_a_set_that_was_cleared_satisfies_no_later_wait():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.ResetEvent(event, two)
        await acl.SynchronizeStream(two)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program, "acl") == []


def test_each_notify_lets_one_wait_pass():
    async def program():
        one, two = await two_streams()
        x, notify = await acl.Malloc(64), await acl.CreateNotify()
        await acl.RecordNotify(notify, one)
        await acl.WaitAndResetNotify(notify, two)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordNotify(notify, one)
        await acl.WaitAndResetNotify(notify, two)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.SynchronizeDevice()

    assert found(program, "acl") == []


def test_pairs_behind_a_wait_without_a_set_are_told_at_the_end():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.LaunchKernel(write, 1, (x,), one)
        acl.current_simulation().runtime.sanitizer.finish()

    assert found(program, "acl") == [("wait", 3), ("race", 4, 5, "0:64")]


def test_a_stream_hands_on_what_the_task_knew_that_queued_its_work():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)

        async def early():
            await produce(x, one)
            await acl.LaunchKernel(read, 1, (y,), two)

        async def late():
            await acl.Sleep(10_000)
            await acl.LaunchKernel(write, 1, (x,), two)

        await asyncio.gather(early(), late())

    assert found(program) == []


def test_a_new_stream_does_not_know_what_was_known_of_a_destroyed_one():
    """The second task cannot know that the work of the first one is over, whichever number its stream gets."""

    async def program():
        x, y = await acl.Malloc(64), await acl.Malloc(64)

        async def first():
            stream, other = await two_streams()
            await acl.LaunchKernel(write, 1, (y,), other)
            await produce(x, stream)
            await acl.DestroyStream(stream)
            await acl.SynchronizeStream(other)  # when a task learns something, numbers may become free

        async def second():
            await acl.Sleep(10_000)
            await consume(x, await acl.CreateStream())

        await asyncio.gather(first(), second())

    [(kind, *_)] = found(program)
    assert kind == "race"


@pytest.mark.parametrize("rules", ["acl", "cuda"])
def test_work_of_a_destroyed_stream_is_over_behind_the_synchronisation_of_its_device(rules):
    async def program():
        x = await acl.Malloc(64)

        async def first():
            stream = await acl.CreateStream()
            await acl.LaunchKernel(write, 1, (x,), stream)
            await acl.DestroyStream(stream)

        async def second():
            await acl.Sleep(10_000)
            await acl.SynchronizeDevice()
            await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())

        await asyncio.gather(first(), second())

    assert found(program, rules) == []


def test_work_of_a_new_stream_is_new_whatever_is_known_of_a_destroyed_one():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await produce(x, one)
        await acl.DestroyStream(one)
        await produce(y, two)
        await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())
        await consume(x, two)

    [(kind, *_)] = found(program)
    assert kind == "race"


def test_a_new_stream_is_not_behind_the_work_of_a_destroyed_one():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.DestroyStream(one)
        await produce(y, two)
        await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())

    assert found(program) == [("race", 3, 6, "0:64")]


def test_two_new_streams_are_not_the_same_one():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await produce(x, one)
        await acl.DestroyStream(one)
        await produce(y, two)
        await produce(y, two)
        await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())
        await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())

    assert found(program) == [("race", 7, 8, "0:64")]


@loops
def test_what_follows_a_run_of_the_loop_comes_after_the_task_that_it_was_for(uvloop):
    """pytest-asyncio runs a fixture, its test and the fixture's end so. Other tasks of the loop stay in no order."""

    async def begin():
        return acl.open(device="tiny", sanitize="device,host")

    async def make():
        x = await acl.MallocHost(16)
        x.numpy()[:] = 3
        return x, await acl.Malloc(16), asyncio.create_task(change_later(x))

    async def change_later(x):
        await asyncio.sleep(0)
        x.numpy()[:1] = 5

    async def use(x, device, later):
        await acl.Memcpy(device, 16, x, 16, acl.MemcpyKind.HOST_TO_DEVICE)

    factory = pytest.importorskip("uvloop").new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        sim = runner.run(begin())
        runner.run(use(*runner.run(make())))
        runner.run(sim.close())
    [race] = sim.findings
    assert [str(span).rpartition("[")[2] for span in race.spans] == ["0:1]"]
