"""The gate itself: what it finds in the loop, who is alone, what it leaves behind."""

import asyncio
import contextvars
import gc
import signal
import socket
import weakref

import pytest
from miniature import US, Deadlock, Host

import acl_py.waiting.bridge


async def _repeat(host, who, ns, times):
    stream = host.stream()
    for _ in range(times):
        await host.run(stream, ns, who)


def test_the_ready_queue_was_found(run):
    """Else a new release of Python or uvloop would silently mean the fallback: slow, and a guess for a proof."""

    async def main():
        gate = Host().bridge._gate
        assert gate.ready is not None
        assert gate.needed == acl_py.waiting.bridge.EMPTY_LOOKS
        handle = asyncio.get_running_loop().call_soon(int)
        assert any(item is handle for item in gate.ready)

    run(main)


def test_the_timers_were_found(run):
    async def main():
        gate = Host().bridge._gate
        assert gate.helpers() == []
        handle = asyncio.get_running_loop().call_later(60, int)
        assert gate.helpers() == ["a timer of the event loop"]
        handle.cancel()
        assert gate.helpers() == []

    run(main)


def test_what_was_there_when_the_simulation_began_is_not_outside(run):
    async def main():
        loop, first = asyncio.get_running_loop(), Host()
        first.bridge.close()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            loop.add_reader(ours, int)
            assert first.bridge._gate.helpers() == ["a socket, pipe or child process"]
            assert Host().bridge._gate.helpers() == []
            loop.remove_reader(ours)

    run(main)


def test_one_gate_for_all_runtimes_of_a_loop(run):
    async def main():
        return Host().bridge._gate, Host().bridge._gate

    first, second = run(main)
    assert first is second
    assert first is not run(main)[0]


def test_the_loop_is_held_weakly(run):
    async def main():
        await _repeat(Host(), "A", US, 2)
        return weakref.ref(asyncio.get_running_loop())

    loop = run(main)
    gc.collect()
    assert loop() is None


def _count_looks(monkeypatch):
    looks = []
    look = acl_py.waiting.bridge.Gate._look
    monkeypatch.setattr(acl_py.waiting.bridge.Gate, "_look", lambda gate: (looks.append(gate), look(gate)))
    return looks


def test_a_single_task_waits_without_the_loop(run, monkeypatch):
    """500 waits; also after a trip through the loop, whose look in the queue is not somebody."""
    monkeypatch.setattr(acl_py.waiting.bridge, "TRIP_S", 3600)

    async def main():
        host = Host()
        await asyncio.gather(_repeat(host, "A", US, 1), _repeat(host, "B", US, 1))
        end = asyncio.Event()
        child = asyncio.create_task(end.wait())
        await asyncio.sleep(0)
        await host.sync(host.stream())  # not alone: the child is a witness of that, until it is done
        end.set()
        await child
        await asyncio.sleep(0)
        looks = _count_looks(monkeypatch)
        for _ in range(500):
            await _repeat(host, "A", US, 1)
        assert len(looks) == 0

    run(main)


def test_a_trip_through_the_loop_is_made_now_and_then(run, monkeypatch):
    monkeypatch.setattr(acl_py.waiting.bridge, "TRIP_S", 0)
    looks = _count_looks(monkeypatch)

    async def main():
        host = Host()
        await _repeat(host, "A", US, 5)
        return host.log

    assert run(main) == [("A", 4_000), ("A", 8_000), ("A", 12_000), ("A", 16_000), ("A", 20_000)]
    assert len(looks) >= 5  # two for each trip in real time, where the loop may have to poll its sockets


def test_few_looks_while_nobody_waits(run, monkeypatch):
    looks = _count_looks(monkeypatch)

    async def main():
        await asyncio.gather(_repeat(Host(), "A", US, 2), asyncio.sleep(0))
        before = len(looks)
        for _ in range(1_000):
            await asyncio.sleep(0)
        return len(looks) - before

    assert run(main) <= acl_py.waiting.bridge.LAST_LOOKS


def test_nothing_is_left_behind(run):
    async def main():
        host = Host()
        stream = host.stream()
        await host.wait_event(stream, host.event())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.sync(stream), 0.01)
        gate = host.bridge._gate
        assert not host.waiters
        assert not gate.waiting
        assert gate.vigil._timer is None

    run(main)


def test_second_loop_with_the_same_runtime(run):
    async def first():
        return Host()

    host = run(first)

    async def again():
        await asyncio.gather(_repeat(host, "A", US, 1), _repeat(host, "B", 10 * US, 1))

    run(again)
    run(again)
    assert host.log == [("A", 4_600), ("B", 14_300), ("A", 18_900), ("B", 28_600)]


def test_runtime_whose_loop_was_closed_over_a_waiter():
    loop = asyncio.new_event_loop()

    async def first():
        host = Host()
        stream = host.stream()
        await host.submit(stream, 10 * US)
        task = asyncio.ensure_future(host.sync(stream))
        await asyncio.sleep(0)
        return host, task

    host, task = loop.run_until_complete(first())
    loop.close()
    assert len(host.waiters) == 1

    async def second():
        await asyncio.gather(_repeat(host, "A", 20 * US, 1), _repeat(host, "B", 20 * US, 1))
        assert not host.waiters

    asyncio.run(second())
    assert host.log == [("A", 24_300), ("B", 26_300)]
    task._log_destroy_pending = False


def test_the_look_runs_in_a_context_of_its_own(run):
    """A body that runs in a jump must not see the context variables of whoever armed the look."""
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    async def main():
        host = Host()

        async def task():
            variable.set("mine")
            stream = host.stream()
            await host.submit(stream, 10 * US, body=lambda: seen.append(variable.get()))
            await host.sync(stream)
            assert variable.get() == "mine"

        await asyncio.gather(task(), asyncio.sleep(0))

    run(main)
    assert seen == ["none"]


def _raise_value_error():
    raise ValueError("body")


def test_error_in_a_jump_goes_to_the_waiters(drive):
    async def program(host):
        async def task(who, body=None):
            stream = host.stream()
            await host.submit(stream, 10 * US, body=body)
            try:
                await host.sync(stream)
            except ValueError:
                host.note(f"{who} failed")

        await asyncio.gather(task("A", _raise_value_error), task("B"))
        await _repeat(host, "after", 10 * US, 1)

    assert drive(program) == [("A failed", 11_000), ("B failed", 11_000), ("after", 24_000)]


def test_error_in_a_jump_goes_to_no_other_runtime(drive):
    async def program(host):
        other = Host()

        async def fail():
            stream = host.stream()
            await host.submit(stream, 10 * US, body=_raise_value_error)
            with pytest.raises(ValueError, match=r"^body$"):
                await host.sync(stream)

        await asyncio.gather(fail(), _repeat(other, "B", 20 * US, 1))
        host.log.extend(other.log)

    # On a simulated clock the two share their host: the other submits from 1000 to 2000, and both pay for a wake-up.
    assert drive(program) == [("B", 24_300 if drive.is_simulated else 23_000)]


def test_error_of_a_run_in_place_goes_to_the_caller(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 10 * US, body=_raise_value_error)
        with pytest.raises(ValueError, match=r"^body$"):
            await host.sync(stream)
        await _repeat(host, "after", 10 * US, 1)

    assert drive(program) == [("after", 24_000)]


def test_error_in_a_report_goes_to_the_waiter(drive, monkeypatch):
    def fail(host, waiting):
        raise ZeroDivisionError

    monkeypatch.setattr(Host, "deadlock", fail)

    async def program(host):
        stream = host.stream()
        await host.wait_event(stream, host.event())
        with pytest.raises(ZeroDivisionError):
            await host.sync(stream)

    drive(program)


def test_budget_that_ends_a_run_leaves_the_host_in_step_with_the_device(drive, monkeypatch):
    """A call that comes between two parts of a jump must not submit into the device's past."""
    monkeypatch.setattr(acl_py.waiting.bridge, "BUDGET", 10)

    async def program(host):
        loop = asyncio.get_running_loop()
        for n in range(1, 100):
            host.scheduler.timer(n * US)
        host.scheduler.timer(5_500).add_waiter(_Call(lambda: loop.call_soon(submit)))

        tasks = []

        def submit():
            tasks.append(loop.create_task(_repeat(host, "outside", US, 1)))

        await asyncio.gather(_repeat(host, "A", 200 * US, 1), _repeat(host, "B", 300 * US, 1))

    log = drive(program)
    assert [who for who, _ in log] == ["outside", "A", "B"]
    assert log[0][1] >= 9_000


class _Call:
    def __init__(self, function):
        self.function = function

    def release(self, by):
        self.function()


def test_cancelling_one_of_two_waiters_leaves_the_other(drive):
    async def program(host):
        stream = host.stream()
        await host.submit(stream, 10 * US)
        first, second = (asyncio.create_task(host.sync(stream)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        host.note(first.cancelled())

    assert drive(program) == [(True, 13_000)]


def test_ctrl_c_in_an_endless_loop_of_waits_in_place():
    async def main():
        host = Host()
        stream = host.stream()
        for n in range(10**9):
            if n == 1000:
                signal.raise_signal(signal.SIGINT)
            await host.submit(stream, US)
            await host.sync(stream)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def test_ctrl_c_while_only_the_outside_could_help():
    async def main():
        host = Host()
        asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)
        stream = host.stream()
        await host.wait_event(stream, host.event())
        await host.sync(stream)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_under_pytest_asyncio():
    host = Host()
    await asyncio.gather(_repeat(host, "A", 10 * US, 1), _repeat(host, "B", 15 * US, 1))
    assert host.log == [("A", 13_000), ("B", 19_300)]
    stream = host.stream()
    await host.wait_event(stream, host.event())
    with pytest.raises(Deadlock):
        await host.sync(stream)


def test_pending_bridge_describes_itself(run):
    async def main():
        return repr(Host().bridge)

    assert run(main) in (
        "<Bridge waiting=0 <Gate waiting=0 held=0 armed=False>>",
        "<Bridge waiting=0 <Clock waiting=0 held=0 armed=True>>",
    )
