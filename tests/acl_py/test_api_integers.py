"""Integers of NumPy are as good as Python's, wherever a call takes a number of bytes, blocks, rows, milliseconds..."""

import numpy as np
import pytest
from histories import D2H, DEFAULT, calls, history, misused, tiny

import acl_py as acl
from acl_py import faults


@acl.kernel(cost=acl.Cost(us=5))
def square(x: acl.InOut):
    x *= x


async def sizes_and_counts(number):
    """Use every verb of both vendors that takes an integer; return what it computed, and when."""
    await acl.SetDevice(number(1))
    await acl.SetDevice(number(0))
    stream = await acl.CreateStream(priority=number(0))
    device, pinned = await acl.Malloc(number(128)), await acl.MallocHost(number(128))
    await acl.SetMemPoolThreshold(number(64))
    scratch = await acl.MallocAsync(number(64), stream)
    await acl.HostRegister(np.zeros(128, np.uint8), number(64))
    await acl.MemsetAsync(device, number(128), number(3), number(128), stream)
    await acl.MemsetAsync(scratch, number(64), number(2), number(64), stream)
    await acl.MemcpyAsync(
        device + number(100), number(28), scratch[number(8) : number(64)], number(20), DEFAULT, stream
    )
    await square[number(2), stream](acl.Array(device, np.uint8, number(110)))
    await square[number(2), stream](acl.Array(device, np.uint8, (number(8), number(16)))[number(1)])
    await acl.MemcpyAsync(pinned, number(128), device, number(128), D2H, stream)
    await acl.Memcpy2dAsync(pinned, number(100), scratch, number(32), number(8), number(2), DEFAULT, stream)
    await acl.SynchronizeStreamWithTimeout(stream, number(200))
    await acl.Memcpy(pinned, number(128), device, number(4), D2H)
    can = await acl.DeviceCanAccessPeer(number(0), number(1))
    await acl.DeviceEnablePeerAccess(number(1))
    status = await acl.DevicePeerAccessStatus(number(0), number(1))
    return can, status, pinned.numpy(np.uint8, number(128)).tolist(), pinned.numpy(np.uint8, (number(2),)).tolist()


async def signals_and_limits(number):
    stream = await acl.CreateStreamWithConfig(number(3), number(1))
    word, notify = await acl.Malloc(number(64)), await acl.CreateNotify()
    event = await acl.CreateEventWithFlag(number(1))
    await acl.SetOpWaitTimeOut(number(200))
    await acl.SetOpExecuteTimeOut(number(200))
    await acl.ValueWrite(word, number(200), 0, stream)
    await acl.ValueWait(word, number(200), acl.Compare.EQ, stream)
    await acl.RecordNotify(notify, stream)
    await acl.WaitAndResetNotify(notify, None, number(200))
    await acl.RecordEvent(event, stream)
    await acl.SynchronizeEventWithTimeout(event, number(200))
    await acl.SynchronizeDeviceWithTimeout(number(200))
    await acl.SubscribeReport(None, stream)
    await acl.LaunchCallback(bool, 0, acl.CallbackBlock.NO_BLOCK, stream)
    await acl.ProcessReport(number(200))


@pytest.mark.parametrize(("program", "rules"), [(sizes_and_counts, "cuda"), (signals_and_limits, "acl")])
@pytest.mark.parametrize("number", [np.int64, np.uint8, np.uint64])
def test_a_program_that_counts_with_numpy_is_the_same(number, program, rules):
    async def played(number):
        sim = acl.current_simulation()
        result = await program(number)
        return result, history(sim), calls(sim), sim.report()

    options = {"device": "tiny", "rules": rules, "workers": 1}
    assert acl.run(played, number, **options) == acl.run(played, int, **options)


@pytest.mark.parametrize("nth", [2, np.int64(2)])
@tiny
async def test_a_fault_rule_that_counts_with_numpy_is_the_same(nth):
    sim = acl.current_simulation()
    with sim.fault(faults.fail(call="Malloc", nth=nth)) as rule:
        await acl.Malloc(64)
        with pytest.raises(acl.AclError):
            await acl.Malloc(64)
    with sim.fault(faults.out_of_memory(beyond=nth * 512)), pytest.raises(acl.AclError, match="does not fit"):
        await acl.Malloc(2048)
    assert rule.struck == 1


@tiny
async def test_an_address_is_no_count_and_a_truth_is_none():
    device = await acl.Malloc(64)
    for wrong in (device, True, np.bool_(True), 64.0, np.float64(64), "64", None):
        with misused(TypeError, "nbytes of Malloc"):
            await acl.Malloc(wrong)
        with misused(TypeError, "dest_max must be an int"):
            await acl.MemsetAsync(device, wrong, 0, 0)
        with misused(TypeError, "dest_max must be an int"):
            await acl.MemcpyAsync(device, wrong, device, 32, DEFAULT)
        with misused(TypeError, "block_dim must be an int"):
            await square[wrong](device)
        with misused(TypeError, "added to a buffer must be an int"):
            device + wrong
        with misused(TypeError, "a length in a shape must be an int"):
            acl.Array(device, np.uint8, (wrong,))
