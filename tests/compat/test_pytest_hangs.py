"""A server app whose workers start in fixtures: its simulation begins in a fixture, and no hang is without a name."""

import pytest

from tests import forks

pytest_plugins = ["pytester"]
PLAIN = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist"]
STRICT = [*PLAIN, "-p", "acl_py_pytest", "-W", "error"]

APP = """
import asyncio, threading, time
import pytest, pytest_asyncio
import acl_py as acl
from acl_py import faults
from acl_py.pytest_plugin import simulation

@acl.kernel(cost=acl.Cost(us=100))
def step():
    pass

class App:
    '''A worker that answers jobs on the device.'''

    async def __aenter__(self):
        self.jobs, self.done = asyncio.Queue(), asyncio.Queue()
        self.stream = await acl.CreateStream()
        self.task = asyncio.create_task(self.work(), name="worker")
        return self

    async def work(self):
        while (job := await self.jobs.get()) != "die":
            await step[8, self.stream]()
            await acl.SynchronizeStream(self.stream)
            self.done.put_nowait(job)
        raise ValueError("cannot die")

    async def ask(self, job):
        self.jobs.put_nowait(job)
        return await self.done.get()

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await acl.DestroyStream(self.stream)
"""

FIXTURE = """
@pytest_asyncio.fixture
async def app(acl_sim):
    async with App() as app:
        yield app
"""


@pytest.fixture
def outcome(pytester):
    """Run a test file in a process of its own, with the options given."""

    def outcome(text, *options):
        pytester.makepyfile(APP + text)
        if "no:asyncio" not in options:
            pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
        return forks.run_pytest(pytester, *options)

    return outcome


MODES = {
    "auto": (FIXTURE.replace("_asyncio.", "."), "", ["--asyncio-mode=auto"]),
    "strict": (FIXTURE, "@pytest.mark.asyncio", ["--asyncio-mode=strict"]),
    "anyio": (
        FIXTURE.replace("_asyncio.", ".") + "anyio_backend = pytest.fixture(lambda: 'asyncio')",
        "@pytest.mark.anyio",
        ["-p", "no:asyncio"],
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", MODES)
def test_the_simulation_begins_in_the_fixture_acl_sim(outcome, mode):
    fixture, mark, options = MODES[mode]
    done = outcome(
        f"""
{fixture}

{mark}
async def test_answers(app, acl_sim):
    assert await app.ask(1) == 1
    acl_sim.assert_within_us(200)

{mark}
async def test_worker_dies(app):
    await app.ask("die")

def test_plain(acl_sim):
    async def main():
        async with App() as app:
            return await app.ask(2)
    assert acl_sim.run(main) == 2
""",
        *STRICT,
        *options,
    )
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "E*DeadlockError: *these wait:",
            "E*in Queue.get at *",
            "E*task 'worker' has ended with ValueError: cannot die",
        ]
    )


@pytest.mark.parametrize("scope", ["module", "session"])
def test_tests_share_the_simulation_of_a_fixture_of_their_own(outcome, scope):
    done = outcome(
        f"""
pytestmark = pytest.mark.asyncio(loop_scope="{scope}")

@pytest_asyncio.fixture(scope="{scope}", loop_scope="{scope}")
async def server():
    async with simulation(device="tiny") as sim, App() as app:
        app.sim = sim
        yield app

async def test_first(server):
    assert await server.ask(1) == 1
    test_first.at = server.sim.now_us

async def test_second(server):
    assert await server.ask(2) == 2
    assert server.sim.now_us > test_first.at    # the same clock goes on

@pytest.mark.acl(device="h200")
async def test_other_options(server):
    pass

async def test_hangs(server):
    await server.done.get()

async def test_after_it(server):
    assert await server.ask(3) == 3
""",
        *STRICT,
    )
    done.assert_outcomes(passed=3, failed=2)
    done.stdout.fnmatch_lines(
        [
            f"the simulation of the fixture 'server' is shared by the tests of a {scope}, so @pytest.mark.acl cannot *",
            "E*task 'worker': in Queue.get at *, for another task",
        ]
    )


def test_tests_of_a_session_share_a_simulation_under_the_plugin_of_anyio(outcome):
    done = outcome(
        """
pytestmark = pytest.mark.anyio

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

@pytest.fixture(scope="session")
async def server(anyio_backend):
    async with simulation(device="tiny") as sim, App() as app:
        app.sim = sim
        yield app

async def test_first(server):
    assert await server.ask(1) == 1
    test_first.at = server.sim.now_us

async def test_hangs(server):
    await server.done.get()

async def test_after_it(server):
    assert await server.ask(2) == 2
    assert server.sim.now_us > test_first.at    # the same clock goes on
""",
        *STRICT,
        "-p",
        "no:asyncio",
    )
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["E*task 'worker': in Queue.get at *, for another task"])


SHARED = """
@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sim():
    async with simulation(device="tiny") as sim:
        yield sim

pytestmark = pytest.mark.asyncio(loop_scope="module")
"""


def test_a_shared_simulation_refuses_other_schedules(outcome):
    done = outcome(SHARED + "\nasync def test_one(sim): pass\n", *STRICT, "--acl-explore", "3")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["the simulation of the fixture 'sim' is shared*: leave out --acl-explore, or use acl_sim"]
    )


def test_findings_go_to_the_test_in_which_they_came(outcome):
    done = outcome(
        SHARED
        + """
async def test_tidy(sim):
    await acl.SynchronizeDevice()

async def test_races(sim):
    a, b, x = await acl.CreateStream(), await acl.CreateStream(), await acl.Malloc(64)
    await acl.MemsetAsync(x, 64, 1, 64, a)
    await acl.MemsetAsync(x, 64, 2, 64, b)
    await acl.SynchronizeDevice()
    await acl.Free(x)
    await acl.DestroyStream(a)
    await acl.DestroyStream(b)

async def test_tidy_again(sim):
    await acl.SynchronizeDevice()
""",
        *STRICT,
        "--acl-sanitize",
        "-rA",
    )
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["FAILED *::test_races*"])


def test_a_verb_outside_says_so_in_the_words_of_pytest(outcome):
    done = outcome(
        """
@pytest_asyncio.fixture
async def app():
    async with App() as app:
        yield app

@pytest.mark.asyncio
async def test_call(acl_sim): pass

@pytest.mark.asyncio
async def test_outside(): await acl.CreateStream()

@pytest.mark.asyncio
async def test_fixture_outside(app): pass
""",
        *STRICT,
    )
    done.assert_outcomes(passed=1, failed=1, errors=1)
    says = "in pytest: let the test, or the fixture that makes this call, depend on"
    assert sum(line.startswith("E ") and says in line for line in done.stdout.lines) == 2


HANGS = """
async def test_worker_died(app): await app.ask("die")
async def test_no_job(app): await app.done.get()
async def test_bare_future(app): await asyncio.get_running_loop().create_future()
async def test_event(app): await asyncio.Event().wait()

async def test_lock(app):
    lock = asyncio.Lock()
    async with lock, lock:
        pass

async def test_condition(app):
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()

async def test_group(app):
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait(), name="child")

async def test_device(app, acl_sim):
    with acl_sim.simulation.fault(faults.hang(op="kernel")):
        await app.ask(1)

@pytest_asyncio.fixture
async def begins(app): await app.done.get()

async def test_fixture(begins): pass

@pytest_asyncio.fixture
async def ends(app):
    yield
    await asyncio.get_running_loop().create_future()

async def test_end_of_fixture(ends): pass
"""


@pytest.mark.slow
def test_ten_hangs_end_with_a_name(outcome):
    done = outcome(FIXTURE + HANGS, *PLAIN, "-p", "acl_py_pytest", "--asyncio-mode=auto", "--timeout=20")
    done.assert_outcomes(failed=8, errors=2, passed=1)  # the end of a fixture is an error of a test that has passed
    text = str(done.stdout)
    assert "Timeout" not in text.replace("SynchronizeStreamWithTimeout", "")
    names = [
        "has ended with ValueError: cannot die",
        "in Queue.get at ",
        "in test_bare_future at ",
        "in Event.wait at ",
        "in Lock.acquire at ",
        "in Condition.wait at ",
        "task 'child': in Event.wait at ",
        "in ends at ",
        "the end of a hang, injected by ",
    ]
    assert [name for name in names if name not in text] == []


@pytest.mark.slow
def test_two_hangs_that_cannot_be_known_warn_once_and_go_on(outcome):
    """A socket and a thread act after the second in which nothing happens."""
    done = outcome(
        FIXTURE
        + """
async def test_socket(app):
    async def serve(reader, writer):
        app.done.put_nowait(await reader.read(1))
        writer.close()

    def ask(port):
        import socket
        with socket.create_connection(("127.0.0.1", port)) as connection:
            time.sleep(2.5)
            connection.sendall(b"x")

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=ask, args=server.sockets[0].getsockname()[1:])
        thread.start()
        assert await app.done.get() == b"x"
    thread.join()

async def test_thread(app):
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    thread = threading.Timer(1.4, loop.call_soon_threadsafe, [future.set_result, 1])
    thread.start()
    assert await future == 1
    thread.join()
""",
        *PLAIN,
        "-W",
        "default::RuntimeWarning",
        "-p",
        "acl_py_pytest",
        "--asyncio-mode=auto",
    )
    done.assert_outcomes(passed=2)
    assert str(done.stdout).count("RuntimeWarning: no task or thread can run") == 2
    done.stdout.fnmatch_lines(
        [
            "*in Queue.get at *, for another task",
            "*what might still wake it: *",
            "*in test_thread at *, for a bare future",
        ]
    )
