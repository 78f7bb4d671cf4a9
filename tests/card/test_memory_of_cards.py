"""Managed memory and peers on a card."""

import numpy as np
import pytest

import acl_py
from acl_py.errors import AclError, Kind
from acl_py.verbs.managed import Advice, MemAttach, RangeAttribute

KIND = acl_py.MemcpyKind.DEFAULT
NBYTES = 1 << 16
HOST, NOWHERE = -1, -2


def test_the_driver_is_told_of_managed_memory_and_asked(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.MallocManaged(NBYTES)

        async def known():
            return [await acl_py.MemRangeGetAttribute(buffer, NBYTES, each) for each in RangeAttribute]

        told = [await known()]
        await acl_py.MemAdvise(buffer, NBYTES, Advice.SET_READ_MOSTLY)
        await acl_py.MemAdvise(buffer, NBYTES, Advice.SET_PREFERRED_LOCATION, 0)
        await acl_py.MemAdvise(buffer, NBYTES, Advice.SET_ACCESSED_BY, 0)
        await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, stream)
        await acl_py.StreamAttachMemAsync(stream, buffer, 0, MemAttach.GLOBAL)
        await acl_py.MemPrefetchAsync(buffer, NBYTES, HOST, stream)
        await acl_py.SynchronizeStream(stream)
        told.append(await known())
        return told, set(buffer.numpy().tolist())

    before, after = [0, NOWHERE, (), NOWHERE], [1, 0, (0,), HOST]
    assert acl_py.run(main, device=card) == acl_py.run(main, device="h200") == ([before, after], {1})


def test_two_cards_reach_each_other(card):
    async def main():
        if await acl_py.GetDeviceCount() < 2:
            pytest.skip("this machine has one card")
        first = await acl_py.Malloc(NBYTES)
        told = [await acl_py.DeviceCanAccessPeer(0, 1), await acl_py.DeviceCanAccessPeer(1, 1)]
        await acl_py.Memset(first, NBYTES, 5, NBYTES)
        await acl_py.DeviceEnablePeerAccess(1)
        with pytest.raises(AclError) as caught:
            await acl_py.DeviceEnablePeerAccess(1)
        told.append(caught.value.kind)
        await acl_py.SetDevice(1)
        second, stream = await acl_py.Malloc(NBYTES), await acl_py.CreateStream()
        await acl_py.MemcpyAsync(second, NBYTES, first, NBYTES, KIND, stream)
        values = np.zeros(NBYTES, np.uint8)
        await acl_py.MemcpyAsync(values, NBYTES, second, NBYTES, KIND, stream)
        await acl_py.SynchronizeStream(stream)
        await acl_py.SetDevice(0)
        await acl_py.DeviceDisablePeerAccess(1)
        with pytest.raises(AclError) as caught:
            await acl_py.DeviceDisablePeerAccess(1)
        return *told, caught.value.kind, set(values.tolist())

    for _ in range(2):
        told = acl_py.run(main, device=card)
        assert told == (True, False, Kind.PEER_ACCESS_ENABLED, Kind.PEER_ACCESS_MISSING, {5})


def test_a_stream_waits_for_a_word_that_another_one_writes(card):
    async def main():
        first, second, told = await acl_py.CreateStream(), await acl_py.CreateStream(), []
        word = await acl_py.Malloc(8)
        await acl_py.Memset(word, 8, 0, 8)
        await acl_py.ValueWait(word, 3, acl_py.Compare.GEQ, first)
        await acl_py.LaunchHostFunc(first, told.append, ("behind the wait",))
        await acl_py.LaunchHostFunc(second, told.append, ("before the write",))
        await acl_py.ValueWrite(word, 2**40, 0, second)
        await acl_py.SynchronizeStream(first)
        values = np.zeros(1, np.uint64)
        await acl_py.Memcpy(values, 8, word, 8, KIND)
        return told, values.tolist()

    expected = ["before the write", "behind the wait"], [2**40]
    assert acl_py.run(main, device=card) == acl_py.run(main, device="h200") == expected


def test_calls_about_the_card_that_is_not_current(card):
    """Memory of one card is freed while the other is current, and both have work in their legacy streams."""

    async def main():
        if await acl_py.GetDeviceCount() < 2:
            pytest.skip("this machine has one card")
        first, second, told = await acl_py.Malloc(NBYTES), await acl_py.CreateStream(), []
        event = await acl_py.CreateEvent()
        await acl_py.LaunchHostFunc(second, told.append, ("stream of card 0",))
        await acl_py.LaunchHostFunc(None, told.append, ("legacy of card 0",))
        await acl_py.SetDevice(1)
        await acl_py.LaunchHostFunc(None, told.append, ("legacy of card 1",))
        await acl_py.MemcpyAsync(first, 64, first[64:], 64, KIND, second)
        await acl_py.RecordEvent(event, second)
        await acl_py.MemcpyAsync(first, 64, first[64:], 64, KIND, second)
        await acl_py.StreamWaitEvent(None, event)
        await acl_py.LaunchHostFunc(None, told.append, ("behind the event",))
        await acl_py.SynchronizeEvent(event)
        await acl_py.Free(first)
        await acl_py.SynchronizeDevice()
        return sorted(told)

    behind = ["behind the event", "legacy of card 0", "legacy of card 1", "stream of card 0"]
    assert acl_py.run(main, device=card) == behind


def test_each_of_several_cards_is_waited_for(card):
    async def main():
        count, told = min(await acl_py.GetDeviceCount(), 4), []
        for number in range(count):
            await acl_py.SetDevice(number)
            buffer = await acl_py.Malloc(NBYTES)
            await acl_py.MemsetAsync(buffer, NBYTES, number, NBYTES)
            values = np.zeros(NBYTES, np.uint8)
            await acl_py.MemcpyAsync(values, NBYTES, buffer, NBYTES, KIND)
            told.append(values)
        for number in range(count):
            await acl_py.SetDevice(number)
            await acl_py.SynchronizeDevice()
        return [set(values.tolist()) for values in told] == [{number} for number in range(count)]

    assert acl_py.run(main, device=card)
