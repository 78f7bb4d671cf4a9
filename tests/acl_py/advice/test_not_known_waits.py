"""Why a wait is not known to be needless: for each cause a program whose output is another one without the wait."""

import asyncio

import numpy as np
import pytest
from small import D2H, SIZE, chosen, recorded, two_streams, write

import acl_py
from acl_py.advice.pairs import Doubt
from device_model.compiled import IS_COMPILED


@acl_py.kernel(cost=acl_py.Cost(us=20))
def fill(x: acl_py.Out):
    """Fill *x* with twos."""
    x[:] = 2


@acl_py.kernel(cost=acl_py.Cost(us=5_000))
def long(x: acl_py.Out):
    """Fill *x*, which takes longer than a time-out."""


def kernel_without_bytes(waits, told):
    async def program():
        one, two, event = await two_streams(nonblocking=True)
        x = await acl_py.MallocHost(SIZE)
        view = x.numpy().data

        @acl_py.kernel(cost=acl_py.Cost(us=1))
        def look():
            told.append(view[0])

        await fill[1, one](x)
        await acl_py.RecordEvent(event, one)
        if waits:
            await acl_py.StreamWaitEvent(two, event)
        await look[1, two]()
        await acl_py.SynchronizeDevice()

    return program


def read_unseen(waits, told):
    async def program():
        stream, x, host = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE)
        taken = np.zeros(SIZE, np.uint8)
        await write[1, stream](x)
        await acl_py.MemcpyAsync(host, SIZE, x, SIZE, D2H, stream)
        if waits:
            await acl_py.SynchronizeStream(stream)
        taken[:] = host.numpy()
        told.append(int(taken[0]))
        await acl_py.SynchronizeDevice()

    return program


def host_function(waits, told):
    async def program():
        stream, ran = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(stream, lambda: ran.append(1))
        if waits:
            await acl_py.SynchronizeStream(stream)
        told.append(len(ran))
        await acl_py.SynchronizeDevice()

    return program


def time_out(waits, told):
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await long[1, stream](x)
        try:
            if waits:
                await acl_py.SynchronizeStreamWithTimeout(stream, 1)
        except acl_py.AclError as error:
            told.append(error.kind)
        await acl_py.SynchronizeDevice()

    return program


def capture(waits, told):
    async def program():
        one, two, event = await two_streams(nonblocking=True)
        x, y = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        await acl_py.BeginCapture(one)
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        if waits:
            await acl_py.StreamWaitEvent(two, event)
            await write[1, two](y)
            await acl_py.RecordEvent(event, two)
            await acl_py.StreamWaitEvent(one, event)  # back
        graph = await acl_py.EndCapture(one)
        await acl_py.GraphLaunch(await acl_py.GraphInstantiate(graph), one)
        await acl_py.SynchronizeDevice()
        told.append(len(acl_py.current_simulation().trace.ops))

    return program


def signal(waits, told):
    async def program():
        one, two, _ = await two_streams()
        notify, x = await acl_py.CreateNotify(), await acl_py.Malloc(SIZE)
        await write[1, one](x)
        await acl_py.RecordNotify(notify, one)
        if waits:
            await acl_py.WaitAndResetNotify(notify, two)
        await write[1, two](await acl_py.Malloc(SIZE))
        await acl_py.SynchronizeDevice()
        told.append([op.start_ns for op in acl_py.current_simulation().trace.ops])

    return program


def query(waits, told):
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        await write[1, stream](x)
        if waits:
            await acl_py.SynchronizeStream(stream)
        told.append(await acl_py.StreamQuery(stream))
        await acl_py.SynchronizeDevice()

    return program


def field(waits, told):
    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        op = await write[1, stream](x)
        if waits:
            await acl_py.SynchronizeStream(stream)
        told.append(op.end_ns - op.start_ns)
        await acl_py.SynchronizeDevice()

    return program


def thread(waits, told):
    """What a thread does counts as behind all that is known when it does so, here also by the task beside."""

    async def program():
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
        result, other = (await acl_py.MallocHost(SIZE)).numpy(), (await acl_py.MallocHost(SIZE)).numpy()
        await write[1, stream](x)
        await acl_py.MemcpyAsync(result, SIZE, x, SIZE, D2H, stream)
        beside = asyncio.create_task(acl_py.SynchronizeStream(stream))
        await asyncio.sleep(0)  # it begins to wait
        if waits:
            await acl_py.SynchronizeStream(stream)
        await asyncio.to_thread(lambda: int(other[0]))
        told.append(int(result[0]))
        await beside
        await acl_py.SynchronizeDevice()

    return program


def failure(waits, told):
    @acl_py.kernel(cost=acl_py.Cost(us=20))
    def broken():
        raise ValueError("broken")

    async def wait(what):
        try:
            await what
        except acl_py.AclError:
            told.append("failed")
        else:
            told.append("done")

    async def program():
        stream = await acl_py.CreateStream()
        await broken[1, stream]()
        if waits:
            await wait(acl_py.SynchronizeStream(stream))
        await wait(acl_py.SynchronizeDevice())

    return program


def package(waits, told):
    names = {"acl_py": acl_py}
    text = "async def wait(stream):\n    await acl_py.SynchronizeStream(stream)"
    exec(compile(text, "/lib/site-packages/waiting.py", "exec"), names)

    async def program():
        stream, ran = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(stream, lambda: ran.append(1))
        if waits:
            await names["wait"](stream)
        told.append(len(ran))
        await acl_py.SynchronizeDevice()

    return program


unseen = pytest.mark.skipif(IS_COMPILED, reason="objects with C fields keep their class, so no read is seen")
CAUSES = [
    (Doubt.KERNEL, kernel_without_bytes, "cuda"),
    (Doubt.HOST, read_unseen, "cuda"),
    (Doubt.FUNCTION, host_function, "cuda"),
    (Doubt.LIMIT, time_out, "acl"),
    (Doubt.THREADS, thread, "cuda"),
    (Doubt.FAILURE, failure, "acl"),
    (Doubt.CAPTURE, capture, "cuda"),
    (Doubt.SIGNAL, signal, "acl"),
    (Doubt.TOLD, query, "cuda"),
    pytest.param(Doubt.TOLD, field, "cuda", marks=unseen, id="-field-"),
    (Doubt.FOREIGN, package, "cuda"),
]


@pytest.mark.parametrize(("doubt", "make", "rules"), CAUSES, ids=lambda each: getattr(each, "__name__", ""))
def test_without_the_wait_the_output_is_another_one(doubt, make, rules):
    with_wait, without = [], []
    found = chosen(recorded(make(True, with_wait), rules=rules))
    assert {each.doubt for each in found.verdicts} == {doubt, None}  # the last wait stays without one
    recorded(make(False, without), rules=rules)
    assert with_wait != without
