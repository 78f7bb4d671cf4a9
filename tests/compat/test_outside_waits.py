"""Waits of scripts under `acl-py run`: those that the world outside ends go on, those that nobody ends are told."""

from textwrap import dedent

import pytest

BEGINNING = """\
import asyncio, socket, threading, time
import acl
acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.get_context()
stream, _ = acl.rt.create_stream()
event, _ = acl.rt.create_event_with_flag(1)
acl.rt.stream_wait_event(stream, event)

def wait():
    acl.rt.set_context(context)
    return acl.rt.synchronize_stream(stream)

def record():
    acl.rt.set_context(context)
    return acl.rt.record_event(event, 0)
"""


@pytest.fixture
def run_waiting(run):
    """Run a script whose stream waits for an event: exit code, output and errors."""

    def run_waiting(script, *options):
        done = run(BEGINNING + dedent(script), options=options)
        return done.returncode, done.stdout, done.stderr

    return run_waiting


ENDED_FROM_OUTSIDE = {
    "a timer of the loop whose task polls": """
        async def poll():
            while acl.rt.stream_query(stream)[0]:
                await asyncio.sleep(0)

        async def later():
            await asyncio.sleep(0.5)
            record()

        async def main():
            await asyncio.gather(poll(), later())
        """,
    "a socket of the loop whose task polls": """
        async def main():
            reader, writer = socket.socketpair()
            threading.Timer(0.5, writer.send, [b"x"]).start()
            asyncio.get_running_loop().add_reader(reader, record)
            while acl.rt.stream_query(stream)[0]:
                await asyncio.sleep(0)
            asyncio.get_running_loop().remove_reader(reader)
        """,
    "a timer of the loop that waits for a thread": """
        async def main():
            asyncio.get_running_loop().call_later(0.5, record)
            assert await asyncio.to_thread(wait) == 0
        """,
    "a socket of the loop that waits for a thread": """
        async def main():
            reader, writer = socket.socketpair()
            threading.Timer(0.5, writer.send, [b"x"]).start()
            asyncio.get_running_loop().add_reader(reader, record)
            assert await asyncio.to_thread(wait) == 0
        """,
    "the clock, for a loop of queries": """
        async def main():
            until = time.monotonic() + 0.5
            while acl.rt.stream_query(stream)[0] and time.monotonic() < until:
                pass
            record()
        """,
    "the clock, for a loop of waits with a limit": """
        async def main():
            until = time.monotonic() + 0.7
            while acl.rt.synchronize_stream_with_timeout(stream, 1) and time.monotonic() < until:
                pass
            record()
        """,
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("script", ENDED_FROM_OUTSIDE.values(), ids=ENDED_FROM_OUTSIDE)
def test_a_wait_that_is_ended_from_outside_is_no_hang(run_waiting, script):
    code, out, err = run_waiting(dedent(script) + "\nasyncio.run(main())\nprint(acl.rt.synchronize_stream(stream))")
    assert (code, out) == (0, "0\n"), err


IN_LOOPS = {
    "to_thread": "asyncio.run(asyncio.to_thread(wait))",
    "a loop in a thread": "threading.Thread(target=asyncio.new_event_loop().run_forever, daemon=True).start(); wait()",
}


@pytest.mark.parametrize("script", IN_LOOPS.values(), ids=IN_LOOPS)
def test_an_event_loop_with_nothing_to_come_helps_nobody(run_waiting, script):
    code, _, err = run_waiting(script)
    assert code == 3
    assert "acl.rt.synchronize_stream(stream 1) at script.py:12 can never end" in err
    assert "wait for Event 1 on stream 1 (script.py:8)" in err


@pytest.mark.slow
def test_a_thread_that_only_wakes_up_now_and_then_may_help_but_not_for_longer_than_one_says(run_waiting):
    heartbeat = """
        def beat():
            while True:
                time.sleep(0.01)

        threading.Thread(target=beat, name="heart", daemon=True).start()
        wait()
        """
    code, _, err = run_waiting(heartbeat, "--hang-after", "1")
    assert code == 3
    assert "what might still wake it: thread 'heart'" in err
