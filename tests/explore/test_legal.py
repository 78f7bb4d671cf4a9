"""Every schedule keeps the promises: a program whose order is complete has one result under all of them."""

from functools import partial

import numpy as np
import pytest

import acl_py as acl
from acl_py.explore import functions
from acl_py.explore.strategies import Pct, PctDecisions, RandomDecisions
from acl_py.schedules import Schedule, following
from device_model.choices import Choice
from device_model.observe import Observer

H2D, D2H, D2D = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST, acl.MemcpyKind.DEVICE_TO_DEVICE
N = 6_000


@acl.kernel(cost=acl.Cost(us=7))
def step(x: acl.In, y: acl.InOut):
    y *= np.uint8(3)
    y += x


@acl.kernel(cost=acl.Cost(us=2), exclusive=True)
def alone(x: acl.InOut):
    x += np.uint8(1)


class Order(Observer):
    """Checks that each operation starts after those before it in its stream, and after what its stream waits for."""

    def __init__(self):
        self.last = {}
        self.before = {}
        self.checked = 0

    def op_queued(self, op):
        self.before.setdefault(op, []).extend(self.last.get(op.stream, []))
        self.last[op.stream] = [op]

    def waited(self, event, stream, enter_ns, *rest):
        completion = rest[-1]
        self.last.setdefault(stream, []).append(completion)

    def op_ended(self, op):
        for other in self.before.pop(op, ()):
            assert other.done
            assert other.end_ns <= op.start_ns
            self.checked += 1


async def whole(seed):
    """Streams that hand buffers on by events; the host, host functions and pageable memory in between."""
    sim, rng, order = acl.current_simulation(), np.random.default_rng(seed), Order()
    sim.observe(order)
    host, array = await acl.MallocHost(N), np.arange(N, dtype=np.uint8)
    host.numpy()[:] = np.arange(N, dtype=np.uint32).astype(np.uint8)
    x, y = await acl.Malloc(N), await acl.Malloc(N)
    streams = [await acl.CreateStream(nonblocking=bool(number % 2)) for number in range(3)]
    seen, stream = [], streams[0]
    await acl.MemcpyAsync(x, N, host, N, H2D, stream)
    await acl.MemsetAsync(y, N, 1, N, stream)
    for _ in range(25):
        match rng.integers(7):
            case 0:
                await acl.LaunchKernel(step, 3, (x, y), stream)
            case 1:
                await acl.LaunchKernel(alone, 9, (y,), stream)
            case 2:
                await acl.MemcpyAsync(x, N // 2, y, N // 2, D2D, stream)
            case 3:
                await acl.MemcpyAsync(x, N, array, N, H2D, stream)
                await acl.SynchronizeStream(stream)
                array += np.uint8(1)
            case 4:
                await acl.MemcpyAsync(host, N, y, N, D2H, stream)
                await acl.LaunchHostFunc(stream, lambda: seen.append(int(host.numpy()[7])))
            case 5:
                temporary = await acl.MallocAsync(N, stream)
                await acl.MemcpyAsync(temporary, N, x, N, D2D, stream)
                await acl.LaunchKernel(step, 1, (temporary, y), stream)
                await acl.FreeAsync(temporary, stream)
            case 6:
                event, before, stream = await acl.CreateEvent(), stream, streams[rng.integers(3)]
                await acl.RecordEvent(event, before)
                await acl.StreamWaitEvent(stream, event)
    await acl.MemcpyAsync(host, N, y, N, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert order.checked > 20
    return host.numpy().tobytes(), seen


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(6))
def test_complete_order_has_one_result(seed):
    def result(decide):
        with following(Schedule(decide)) as schedule:
            return acl.run(whole, seed, device="tiny", workers=2), len(schedule.deviations)

    expected, _ = result(lambda *_: 0)
    deviations = 0
    for number in range(12):
        for decide in (RandomDecisions(f"{seed}/{number}"), PctDecisions(f"{seed}/{number}", 3, 300)):
            found, count = result(decide)
            assert found == expected
            deviations += count
    assert deviations > 200


def test_all_kinds_of_choices_come_up():
    """Or the test above would show less than it says."""
    kinds = set()
    for seed in range(6):
        outcome = functions.run(partial(acl.run, whole, seed, device="tiny"), RandomDecisions("1"))
        kinds |= {point.kind for point in outcome.points}
    assert kinds >= set(Choice) - {Choice.TASK, Choice.ENGINE, Choice.TIE}  # one task, and all work in one order


def test_pct_knows_the_length_of_the_program():
    strategy = Pct(1, 2)
    strategy.saw(functions.run(partial(acl.run, whole, 1, device="tiny"), lambda *_: 0))
    falls = [fall for _ in range(50) for fall in strategy.next()._falls]
    assert min(falls) < 30 < 60 < max(falls)
