"""Two tasks take two locks in opposite order. One has given both back before the other begins."""

import asyncio

import acl_py as acl


async def main():
    first, second = asyncio.Lock(), asyncio.Lock()
    stream = await acl.CreateStream()

    async def forwards():
        async with first:
            await acl.Sleep(2)
            async with second:
                await acl.SynchronizeStream(stream)

    async def backwards():
        await acl.Sleep(10)
        async with second:
            await acl.Sleep(2)
            async with first:
                await acl.SynchronizeStream(stream)

    await asyncio.gather(forwards(), backwards())


acl.run(main, device="h200")
