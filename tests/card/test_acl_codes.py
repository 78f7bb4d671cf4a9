"""Calls through pyACL end with the codes of the model."""

import numpy as np
import pytest

import acl_py
from tests.card.test_npu import D2H, H2D, NBYTES, both, codes


async def waits_with_limits():
    stream, event, notify = await acl_py.CreateStream(), await acl_py.CreateEvent(), await acl_py.CreateNotify()
    await acl_py.WaitAndResetNotify(notify, stream)
    await acl_py.RecordEvent(event, stream)
    return await codes(
        acl_py.SynchronizeStreamWithTimeout(stream, 10), acl_py.SynchronizeDeviceWithTimeout(10),
        acl_py.SynchronizeEventWithTimeout(event, 10), acl_py.SynchronizeStreamWithTimeout(stream, 0),
        acl_py.RecordNotify(notify), acl_py.SynchronizeEventWithTimeout(event, 60_000), acl_py.SynchronizeDevice(),
    )  # fmt: skip


async def a_failure_that_stops_the_context():
    stream, buffer, values = await acl_py.CreateStream(), await acl_py.Malloc(64), np.zeros(64, np.uint8)
    return await codes(
        acl_py.SetStreamFailureMode(stream, acl_py.FailureMode.STOP),
        acl_py.SetStreamFailureMode(stream, acl_py.FailureMode.CONTINUE),
        acl_py.MemcpyAsync(buffer, 64, values, 64, acl_py.MemcpyKind.DEVICE_TO_DEVICE, stream),
        acl_py.SynchronizeStream(stream), acl_py.SynchronizeStream(stream), acl_py.CreateStream(), acl_py.Malloc(64),
    )  # fmt: skip


async def events_of_each_class():
    stream, recorded = await acl_py.CreateStream(), await acl_py.CreateEvent()
    timed = await acl_py.CreateEventExWithFlag(acl_py.EventFlag.TIME_LINE)
    return await codes(
        acl_py.StreamWaitEvent(stream, recorded), acl_py.StreamWaitEvent(stream, timed),
        acl_py.EventElapsedTime(recorded, recorded), acl_py.GetEventTimestamp(timed),
        acl_py.RecordEvent(recorded, stream), acl_py.RecordEvent(timed, stream), acl_py.SynchronizeEvent(timed),
        acl_py.EventElapsedTime(recorded, recorded), acl_py.GetEventTimestamp(timed),
        acl_py.QueryEventWaitStatus(recorded), acl_py.QueryEventWaitStatus(timed), acl_py.ResetEvent(timed, stream),
        acl_py.DestroyEvent(timed), acl_py.RecordEvent(timed, stream),
    )  # fmt: skip


async def memory_of_the_host():
    values, stream = np.full(NBYTES, 3, np.uint8), await acl_py.CreateStream()
    registered, pinned = await acl_py.HostRegister(values, NBYTES), await acl_py.MallocHost(NBYTES)
    buffer, to_host = await acl_py.Malloc(NBYTES), acl_py.MemcpyKind.HOST_TO_HOST
    ends = await codes(
        acl_py.MemcpyAsync(buffer, NBYTES, registered, NBYTES, H2D, stream),
        acl_py.MemcpyAsync(pinned, NBYTES, buffer, NBYTES, D2H, stream), acl_py.SynchronizeStream(stream),
        acl_py.MemcpyAsync(pinned, NBYTES, registered, NBYTES, to_host, stream),
        acl_py.Memcpy(pinned, NBYTES // 2, registered, NBYTES, to_host), acl_py.HostUnregister(registered),
        acl_py.HostUnregister(registered), acl_py.FreeWithDevSync(buffer), acl_py.Free(buffer),
    )  # fmt: skip
    return ends, pinned.numpy().tolist() == [3] * NBYTES


@pytest.mark.parametrize(
    "main", [waits_with_limits, a_failure_that_stops_the_context, events_of_each_class, memory_of_the_host]
)
def test_calls_end_with_the_codes_of_the_model(npu, main):
    on_model, through_acl = both(main)
    assert through_acl == on_model
