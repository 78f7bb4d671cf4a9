"""Runs that hang or are interrupted: they end, and the next one works or asks for a new process."""

import os
import subprocess
import sys

import pytest

from tests.forks import ROOT

pytestmark = pytest.mark.slow
DRIVER = (
    "" if os.environ.get("ACL_PY_CARD") else "import acl_py.compat.cuda; acl_py.compat.cuda.install(device='h200')\n"
)
PARTS = """
import asyncio, os, signal, sys, threading, time
import acl_py
from acl_py import AclError, Compare, DeadlockError

async def waiting_stream():
    "Return a stream that waits for a word, the word, and another stream."
    word, stream, other = await acl_py.Malloc(8), await acl_py.CreateStream(), await acl_py.CreateStream()
    await acl_py.Memset(word, 8, 0, 8)
    await acl_py.SynchronizeDevice()
    await acl_py.ValueWait(word, 1, Compare.EQ, stream)
    return stream, word, other

def interrupt(after_s=0.2, times=1):
    def send():
        for _ in range(times):
            time.sleep(after_s)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()

async def works():
    stream, word, other = await waiting_stream()
    await acl_py.ValueWrite(word, 1, 0, other)
    await acl_py.SynchronizeStream(stream)
    return "works"

SAID = ("start a new one", "still has work")

def run(main, **options):
    try:
        print(acl_py.run(main, device="cuda:0", **options), flush=True)
    except BaseException as error:
        text = str(error)
        print(type(error).__name__, *[each for each in SAID if each in text], flush=True)
"""


def said(text, seconds=60):
    """Return the lines that a process prints, which runs *text*."""
    command = [sys.executable, "-c", DRIVER + PARTS + text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.stdout, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def _package():
    pytest.importorskip("cuda.pathfinder", reason="cuda.bindings is not installed")


def test_a_value_that_never_comes_is_a_deadlock_and_the_card_is_left():
    main = """
async def main():
    stream, _, _ = await waiting_stream()
    await acl_py.SynchronizeStream(stream)

run(main, hang_after=0.3)
run(works)
"""
    assert said(main) == ["DeadlockError", "AclError start a new one still has work"]


def test_a_value_that_comes_after_the_deadlock_saves_the_card():
    main = """
async def main():
    stream, word, other = await waiting_stream()
    try:
        await acl_py.SynchronizeStream(stream)
    finally:
        await acl_py.ValueWrite(word, 1, 0, other)

run(main, hang_after=0.3)
run(works)
"""
    assert said(main) == ["DeadlockError", "works"]


def test_an_interrupt_ends_a_wait():
    main = """
async def main():
    stream, word, other = await waiting_stream()
    interrupt()
    try:
        await acl_py.SynchronizeStream(stream)
    finally:
        await acl_py.ValueWrite(word, 1, 0, other)

run(main)
run(works)
"""
    assert said(main) == ["KeyboardInterrupt", "works"]


def test_an_interrupt_ends_a_loop_of_launches():
    main = """
async def main():
    stream, told = await acl_py.CreateStream(), []
    interrupt()
    while True:
        await acl_py.LaunchHostFunc(stream, told.append, (1,))
        if len(told) % 100 == 0:
            await acl_py.SynchronizeStream(stream)

run(main)
run(works)
"""
    assert said(main) == ["KeyboardInterrupt", "works"]


def test_an_interrupt_in_a_host_function_ends_the_run_when_the_function_is_over():
    main = """
async def main():
    stream = await acl_py.CreateStream()
    interrupt()
    await acl_py.LaunchHostFunc(stream, time.sleep, (0.6,))
    await acl_py.SynchronizeStream(stream)

run(main)
run(works)
"""
    assert said(main) == ["KeyboardInterrupt", "works"]


def test_an_interrupt_ends_the_end_of_a_run():
    main = """
async def main():
    await waiting_stream()
    interrupt()

run(main)
run(works)
"""
    assert said(main) == ["KeyboardInterrupt", "AclError start a new one still has work"]


def test_a_second_interrupt_ends_the_end_of_a_run_that_the_first_one_has_ended():
    main = """
async def main():
    stream, _, _ = await waiting_stream()
    interrupt(times=2)
    await acl_py.SynchronizeStream(stream)

run(main)
run(works)
"""
    assert said(main) == ["KeyboardInterrupt", "AclError start a new one still has work"]


def test_a_loop_may_be_closed_under_tasks_that_wait():
    main = """
async def main():
    sim = acl_py.open(device="cuda:0")
    stream, word, other = await waiting_stream()
    task = asyncio.ensure_future(acl_py.SynchronizeStream(stream))
    await asyncio.sleep(0.01)
    await acl_py.ValueWrite(word, 1, 0, other)
    return sim, task

loop = asyncio.new_event_loop()
sim, task = loop.run_until_complete(main())
loop.close()
asyncio.run(sim.close())
task._log_destroy_pending = False
del task
run(works)
"""
    assert said(main) == ["works"]


def test_a_card_without_room_serves_the_next_run():
    main = """
async def main():
    await acl_py.Malloc(1 << 50)

run(main)
run(works)
"""
    assert said(main) == ["AclError", "works"]
