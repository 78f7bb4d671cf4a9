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
