"""Shows: five tests of a server without a card: its answers and overlap, a fault, a hang, and a golden recording.

Scenario: a server has two workers, which a fixture starts inside the simulation of the test. Run the tests with
`pytest --acl-sanitize test_small_server.py`; with --acl-update-golden the recording is written again.
"""

import asyncio

import numpy as np
import pytest
import pytest_asyncio
from small_server import WIDTH, SmallServer, serving

import acl_py as acl


def vector(number):
    return np.full(WIDTH, number, np.float32)


@pytest_asyncio.fixture
async def server(acl_sim):  # noqa: ARG001 - the workers start in its simulation
    async with serving(workers=2) as server:
        yield server


@pytest.mark.asyncio
async def test_each_client_gets_its_own_answer(server):
    answers = await asyncio.gather(*(server.ask(vector(number)) for number in range(5)))
    assert [answer[0] for answer in answers] == [0, 3, 6, 9, 12]


@pytest.mark.asyncio
async def test_the_copy_of_one_worker_runs_beside_the_kernel_of_the_other(acl_sim, server):
    await asyncio.gather(*(server.ask(vector(number)) for number in range(4)))
    acl_sim.assert_overlaps("h2d", "scale")
    acl_sim.assert_no_implicit_sync()


@pytest.mark.acl(faults=["fail call=MallocAsync nth=1 kind=OUT_OF_MEMORY"])
@pytest.mark.asyncio
async def test_a_request_that_finds_no_memory_is_refused_and_the_next_one_served(server):
    with pytest.raises(acl.AclError) as refused:
        await server.ask(vector(1))
    assert refused.value.kind is acl.Kind.OUT_OF_MEMORY
    assert (await server.ask(vector(2)))[0] == 6


def test_a_client_of_a_server_without_workers_would_wait_for_ever(acl_sim):
    with pytest.raises(acl.DeadlockError, match=r"SmallServer.ask at small_server.py:\d+, for a bare future"):
        acl_sim.run(SmallServer().ask, vector(1))


@pytest.mark.asyncio
async def test_one_request_takes_the_way_and_the_time_that_it_took_before(acl_sim, server):
    await server.ask(vector(1))
    acl_sim.assert_like("golden/one_request.acl")
    acl_sim.assert_peak_memory(1 << 20)
