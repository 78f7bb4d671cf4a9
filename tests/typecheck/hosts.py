"""A program that looks at results on the host, with two mistakes. Only running it finds the second."""

import numpy as np

import acl_py as acl


async def tell(what: str) -> None:
    print(what)


async def main(sim: acl.Simulation) -> None:
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    pinned = await acl.MallocHost(4096)
    await acl.LaunchHostFunc(stream, print, ["the stream is here"], us=20)
    await acl.RecordEvent(event, stream)
    await acl.StreamWaitEvent(stream, event)
    await acl.SynchronizeEvent(event)
    await acl.SynchronizeEventWithTimeout(event, 100)
    print(await acl.QueryEventStatus(event), await acl.EventElapsedTime(event, event))
    await acl.SetStreamFailureMode(stream, acl.FailureMode.STOP)
    await acl.SubscribeReport(None, stream)
    await acl.LaunchCallback(print, "here", acl.CallbackBlock.BLOCK, stream)
    await acl.RecordNotify(await acl.CreateNotify(), stream)
    print(np.asarray(pinned).sum(), stream.name, event.done, sim.now_ns)

    await acl.SynchronizeStream(event)  # planted: an event for a stream
    await acl.LaunchHostFunc(stream, tell, ["done"])  # planted, found when it runs: a coroutine function
    await acl.DestroyEvent(event)
    await acl.ResetEvent(event, None)
    await acl.StreamAbort(stream)
    await acl.DestroyStreamForce(stream)
    await acl.DestroyStream(stream)
