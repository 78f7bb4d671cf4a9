"""The consumer task takes what the producer task has left, without waiting for it."""

import asyncio

import acl_py as acl


async def main():
    results = {}

    async def produce():
        await asyncio.sleep(0)
        results["answer"] = 42

    async def consume():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert results["answer"] == 42

    await asyncio.gather(produce(), consume())
    await acl.SynchronizeDevice()


acl.run(main, device="h200")
