"""Python in a browser (Pyodide): programs run to their end without sockets, threads, real time and a selector.

Here a process of the usual Python has what Pyodide has, and no more.
"""

import subprocess
import sys

import pytest

from tests import forks

PYODIDE = """
import _thread, asyncio, select, selectors, socket, sys, threading, time

def missing(error):
    def refuse(*_, **__):
        raise error
    return refuse

sys.platform = "emscripten"
for package in ("greenlet", "ml_dtypes", "uvloop"):
    sys.modules[package] = None
threading.Thread.start = _thread.start_new_thread = missing(RuntimeError("can't start new thread"))
socket.socket = socket.socketpair = missing(OSError("no sockets"))
select.select = select.poll = select.epoll = selectors.DefaultSelector = missing(OSError("no selectors"))
time.sleep = missing(RuntimeError("real time"))

class Page(asyncio.AbstractEventLoop):
    def is_running(self):
        return True

page = Page()
asyncio._set_running_loop(page)
"""
PROGRAM = """
import asyncio
import numpy as np
import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind

@acl_py.kernel(cost=Cost(us=25))
def double(x: InOut):
    x *= 2

async def batch(nbytes):
    sim, host = acl_py.current_simulation(), await acl_py.MallocHost(nbytes)
    device, streams = await acl_py.Malloc(nbytes), [await acl_py.CreateStream() for _ in range(2)]
    event, host.numpy(np.int32)[:] = await acl_py.CreateEvent(), 21
    await acl_py.MemcpyAsync(device, nbytes, host, nbytes, MemcpyKind.HOST_TO_DEVICE, streams[0])
    await acl_py.RecordEvent(event, streams[0])
    await acl_py.StreamWaitEvent(streams[1], event)
    await double[8, streams[1]](Array(device, np.int32))
    await acl_py.MemcpyAsync(host, nbytes, device, nbytes, MemcpyKind.DEVICE_TO_HOST, streams[1])
    await asyncio.gather(*map(acl_py.SynchronizeStream, streams))
    await asyncio.sleep(3600)
    print(host.numpy(np.int32)[-1], [(op.name, op.start_ns, op.end_ns) for op in sim.trace.ops], sim.now_ns)

async def device_hangs():
    stream, notify = await acl_py.CreateStream(), await acl_py.CreateNotify()
    await acl_py.WaitAndResetNotify(notify, stream, 0)
    await acl_py.SynchronizeStream(stream)

async def tasks_hang():
    event = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(event.wait(), name="consumer")

acl_py.run(batch, 4 << 20, device="h200", workers=4)
for hangs in (device_hangs, tasks_hang):
    try:
        acl_py.run(hangs, device="ascend910b3")
    except acl_py.DeadlockError as error:
        print(error)
"""
EXECUTED = f"exec(compile({PROGRAM!r}, 'program.py', 'exec'), globals())\n"  # lines keep their numbers


def printed(*programs):
    done = subprocess.run([sys.executable, "-c", "".join(programs)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_program_prints_what_it_prints_elsewhere():
    text = printed(PYODIDE, EXECUTED, "assert asyncio._get_running_loop() is page")
    assert text == forks.run("-c", EXECUTED).stdout
    assert "wait for Notify 1 on stream 1 (program.py:26): nothing queued or running can end this wait" in text
    assert "task 'consumer': in Event.wait at program.py" in text


RUNNING = (
    "acl_py.run() inside a running event loop; use `async with acl_py.simulate()` there, and in a notebook cell "
    "`sim = acl_py.open()`, then `await main()`"
)
IMPOSSIBLE = """
import acl_py, signal, subprocess
from acl_py.waiting.browser import running_loop

async def thread():
    await asyncio.to_thread(print, "in a thread")

async def host_thread():
    await acl_py.HostThread(print, "in a thread")

async def connection():
    await asyncio.open_connection("localhost", 80)

async def process():
    await asyncio.create_subprocess_exec("ls")

async def handler():
    asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, print)

async def future():
    await asyncio.get_running_loop().create_future()

async def both():
    waits = asyncio.get_running_loop().create_task(future())  # a task that nothing holds may be collected
    stream, notify = await acl_py.CreateStream(), await acl_py.CreateNotify()
    await acl_py.WaitAndResetNotify(notify, stream, 0)
    await acl_py.SynchronizeStream(stream)

async def again():
    acl_py.run(future)

for main, options in [
    (thread, {}), (host_thread, {}), (connection, {}), (process, {}), (handler, {}), (future, {}), (again, {}),
    (both, {"device": "ascend910b3"}),
    (future, {"clock": "real"}), (future, {"uvloop": True}),
]:
    try:
        acl_py.run(main, **options)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0])
"""
BOTH = f"<string>:{(PYODIDE + IMPOSSIBLE).partition('SynchronizeStream')[0].count(chr(10)) + 1}"


def test_what_a_browser_does_not_have_is_named_in_a_sentence():
    none = "of the event loop needs {}, and Python in a browser has none"
    assert printed(PYODIDE, IMPOSSIBLE).splitlines() == [
        f"RuntimeError: run_in_executor() {none.format('threads')}",
        f"RuntimeError: run_in_executor() {none.format('threads')}",
        f"RuntimeError: create_connection() {none.format('sockets')}",
        f"RuntimeError: subprocess_exec() {none.format('child processes')}",
        f"RuntimeError: add_signal_handler() {none.format('signals')}",
        "DeadlockError: no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:",
        f"RuntimeError: {RUNNING}",
        f"DeadlockError: task 1: SynchronizeStream(stream 1) at {BOTH} can never end",
        "RuntimeError: clock='real' cannot be had while Python in a browser runs: leave it out",
        "RuntimeError: uvloop is not installed on this platform; leave out uvloop=True",
    ]


CELLS = """
import acl_py
from acl_py.waiting.browser import set_aside

loop = acl_py.new_event_loop()

async def first():
    global sim, stream
    sim = acl_py.open()
    stream = await acl_py.CreateStream()
    await asyncio.sleep(1)

async def hangs():
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled")
        await asyncio.Event().wait()

async def a_run_in_place():
    with set_aside():
        print(acl_py.run(asyncio.sleep, 60, "slept"))
    await acl_py.SynchronizeStream(stream)

async def last():
    await acl_py.SynchronizeStream(stream)
    await sim.close()
    print(sim.now_ns // 10**9, "s")

for cell in (first, hangs, a_run_in_place, last, hangs):
    try:
        loop.run_until_complete(cell())
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0])
    assert asyncio._get_running_loop() is page
"""


def test_cells_of_a_notebook_run_one_after_the_other_in_one_loop():
    """A cell that hangs ends with an error, and the next one goes on; also if no simulation is left to notice it."""
    assert printed(PYODIDE, CELLS).splitlines() == [
        "cancelled",
        "DeadlockError: no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:",
        "slept",
        "1 s",
        "cancelled",
        "DeadlockError: no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:",
    ]
