"""Words of device memory that streams write and wait for, under CUDA's rules."""

import acl_py as acl


async def test_a_wait_of_the_legacy_stream_holds_blocking_streams():
    async with acl.simulate(device="tiny", rules="cuda"):
        blocking, other = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
        word, told = await acl.Malloc(8), []
        await acl.Memset(word, 8, 0, 8)
        await acl.ValueWait(word, 1, acl.Compare.EQ, None)
        await acl.LaunchHostFunc(blocking, told.append, ("behind the legacy stream",))
        await acl.LaunchHostFunc(other, told.append, ("beside it",))
        await acl.SynchronizeStream(other)
        await acl.ValueWrite(word, 1, 0, other)
        await acl.SynchronizeStream(blocking)
        assert told == ["beside it", "behind the legacy stream"]
