"""A program that looks at results on the host, with two mistakes. Only running it finds the second."""

import numpy as np

import acl_py as acl


async def tell(what: str) -> None:
    print(what)


async def main(sim: acl.Simulation) -> None:
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    pinned = await acl.MallocHost(4096)
    await acl.LaunchHostFunc(stream, print, ["the stream is here"], us=20)
    await acl.StreamWaitEvent(stream, event)
    print(np.asarray(pinned).sum(), stream.name, event.done, sim.now_ns)

    await acl.SynchronizeStream(event)  # planted: an event for a stream
    await acl.LaunchHostFunc(stream, tell, ["done"])  # planted, found when it runs: a coroutine function
