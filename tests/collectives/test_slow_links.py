"""A fault rule that makes links slow: copies between devices and collectives share what is left."""

import pytest

import acl_py as acl
from acl_py import faults
from tests.collectives.folded import profile

SIZE = 1 << 24


async def meet(devices):
    """Let these devices reach one another."""
    for device in devices:
        await acl.SetDevice(device)
        for peer in devices:
            if peer != device:
                await acl.DeviceEnablePeerAccess(peer)


def durations(rule, *pairs, device="tiny"):
    """How long a copy between each pair of devices takes, one after the other, and how often *rule* has struck."""

    async def main():
        await meet(range(3))
        buffers = []
        for number in range(3):
            await acl.SetDevice(number)
            buffers.append(await acl.Malloc(SIZE))
        stream, times = await acl.CreateStream(), []
        with acl.current_simulation().fault(rule) as guard:
            for source, target in pairs:
                op = await acl.MemcpyAsync(
                    buffers[target], SIZE, buffers[source], SIZE, acl.MemcpyKind.DEVICE_TO_DEVICE, stream
                )
                await acl.SynchronizeStream(stream)
                times.append(op.end_ns - op.start_ns)
        return times, guard.struck

    return acl.run(main, device=device, values=False, trace=False)


@pytest.mark.parametrize(
    ("rule", "factors", "struck"),
    [
        (lambda: faults.slow_link(0, 1), (1, 1, 1, 1), 3),
        (lambda: faults.slow_link(0, 4), (4, 4, 1, 4), 3),
        (lambda: faults.slow_link(0, 4, to=1), (4, 4, 4, 4), 4),  # on a switch others cross the links of the two
        (lambda: faults.parse("slow_link device=2 factor=2"), (1, 1, 2, 2), 2),
        (lambda: faults.slow_link(0, 4, until_us=1), (1, 1, 1, 1), 0),
    ],
)
def test_copies_over_a_slow_link_take_longer(rule, factors, struck):
    pairs = (0, 1), (1, 0), (1, 2), (2, 0)
    plain, _ = durations(faults.slow_link(0, 1), *pairs, device=profile(3))
    slow, strikes = durations(rule(), *pairs, device=profile(3))
    latency = plain[0] - round(SIZE / 0.395e3)
    moved = [each - latency for each in plain]
    assert [round((each - latency) / own) for each, own in zip(slow, moved, strict=True)] == list(factors)
    assert strikes == struck


def test_on_a_mesh_the_link_of_one_pair_may_be_slow():
    pairs = (0, 1), (1, 0), (0, 2)
    plain, _ = durations(faults.slow_link(2, 1, to=1), *pairs, device="ascend910b1")
    slow, struck = durations(faults.slow_link(0, 3, to=1), *pairs, device="ascend910b1")
    assert [other - own > SIZE * 2 / 28 * 0.99 for own, other in zip(plain, slow, strict=True)] == [True, True, False]
    assert slow[2] == plain[2]
    assert struck == 2


def test_a_link_becomes_slow_in_the_middle_of_a_transfer_and_is_as_before_after_it():
    plain, _ = durations(faults.slow_link(1, 1), (0, 1), device=profile(3))

    async def main():
        sim = acl.current_simulation()
        await meet(range(2))
        buffers = []
        for number in range(2):
            await acl.SetDevice(number)
            buffers.append(await acl.Malloc(SIZE))
        stream, now = await acl.CreateStream(), sim.now_ns / 1e3
        with sim.fault(faults.slow_link(1, 2, since_us=now + 20, until_us=now + 30)):
            for _ in range(2):
                op = await acl.MemcpyAsync(buffers[1], SIZE, buffers[0], SIZE, acl.MemcpyKind.DEVICE_TO_DEVICE, stream)
                await acl.SynchronizeStream(stream)
                times.append(op.end_ns - op.start_ns)

    times = []
    acl.run(main, device=profile(3), values=False, trace=False)
    # A copy of this size has 393 bytes a ns from its engine. In 10 us the link left it 197.5, and the rest came later.
    assert [time - plain[0] for time in times] == [4_974, 0]


def test_a_collective_of_which_one_rank_has_a_slow_link_is_as_slow_as_that_one():
    def took(rule):
        async def rank(number):
            stream, x = await acl.CreateStream(), await acl.Malloc(SIZE)
            op = await acl.AllReduce(x, x, SIZE // 4, "float32", acl.ReduceOp.SUM, comms[number], stream)
            await acl.SynchronizeStream(stream)
            return op.end_ns - op.start_ns

        async def main():
            comms[:] = await acl.CommInitAll(4)
            with acl.current_simulation().fault(rule):
                return await acl.ranks(4, rank, own_hosts=True)

        comms = []
        return acl.run(main, device=profile(4), values=False, trace=False)

    plain, slow, slower = (took(faults.slow_link(2, factor)) for factor in (1, 10, 20))
    assert len(set(plain)) == len(set(slow)) == 1
    assert 1.9 < (slower[0] - plain[0]) / (slow[0] - plain[0]) < 2.2


def test_a_rank_with_a_slow_link_is_a_class_of_its_own():
    async def rank(number):
        return number

    async def main(**options):
        with acl.current_simulation().fault(faults.slow_link(3, 2)):
            return await acl.ranks(4, rank, **options)

    text = r"fold: fault rule slow_link\(device=3, factor=2\) .* is for device 3, whose rank is one of 4 that are alike"
    with pytest.raises(ValueError, match=text):
        acl.run(lambda: main(fold=True), device=profile(4), values=False)
    found = acl.run(lambda: main(fold=True, alike=lambda number: number == 3), device=profile(4), values=False)
    assert found == [0, 0, 0, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": -1, "factor": 2}, "device must be the number of a device, from 0 on, not -1"),
        ({"device": 1, "factor": 2, "to": "x"}, "to must be the number of a device, from 0 on, not 'x'"),
        ({"device": 1, "factor": 2, "to": 1}, "to must be another device"),
        ({"device": 1, "factor": 0}, "factor must be more than 0"),
        ({"device": 1, "factor": 2, "since_us": -1}, "since_us"),
    ],
)
def test_a_slow_link_is_named_by_its_devices(arguments, message):
    with pytest.raises(faults.FaultError, match=message):
        faults.slow_link(**arguments)


async def test_a_device_that_is_not_there_has_no_slow_link():
    async with acl.simulate(device="h200") as sim:
        with pytest.raises(acl.AclError, match="device 9"):
            sim.fault(faults.slow_link(9, 2))
        assert sim.runtime.faults.rules == []
