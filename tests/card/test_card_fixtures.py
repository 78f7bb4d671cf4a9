"""The fixtures of the pytest plugin, on a card."""

import os

import pytest

from tests import forks

pytest_plugins = ["pytester"]
DRIVER = "" if os.environ.get("ACL_PY_CARD") else "acl_py.compat.cuda.install(device='h200', workers=1)\n"
CONFTEST = f"""
import acl_py.compat.cuda, pytest
{DRIVER}
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
TESTS = """
import acl_py, numpy as np, pytest, acl_py_pytest

async def pipeline():
    stream, buffer, host = await acl_py.CreateStream(), await acl_py.Malloc(64), np.zeros(64, np.uint8)
    await acl_py.MemsetAsync(buffer, 64, 3, 64, stream)
    await acl_py.MemcpyAsync(host, 64, buffer, 64, acl_py.MemcpyKind.DEFAULT, stream)
    await acl_py.SynchronizeStream(stream)
    await acl_py.Free(buffer)
    await acl_py.DestroyStream(stream)
    return set(host.tolist())

def is_on_card():
    return not acl_py.current_simulation().runtime.takes_guests

@MARK
def test_plain(acl_sim):
    assert acl_sim.run(pipeline) == {3}
    assert not acl_sim.simulation.runtime.takes_guests
    acl_sim.assert_ordered("fill", "d2h")

@MARK
@pytest.mark.anyio
async def test_coroutine(acl_sim):
    assert await pipeline() == {3}
    assert is_on_card()
    acl_sim.assert_within_us(60_000_000)
    assert acl_sim.now_us > 0

@pytest.mark.anyio
async def test_own_fixture():
    async with acl_py_pytest.simulation(DEVICE) as sim:
        assert await pipeline() == {3}
        assert is_on_card()
"""


def outcome(pytester, mark, device, *options):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS.replace("@MARK", mark).replace("DEVICE", device))
    return forks.run_pytest(pytester, *options, "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error")


@pytest.mark.parametrize("device", [None, "cuda:0"])
def test_a_marker_or_the_environment_gives_tests_a_card(pytester, monkeypatch, device):
    pytest.importorskip("cuda.pathfinder", reason="cuda.bindings is not installed")
    if device is not None:
        monkeypatch.setenv("ACL_PY_DEVICE", device)
    named = "cuda:0" if device is None else "tiny"
    done = outcome(pytester, f'@pytest.mark.acl(device="{named}")', f'device="{named}"', "--acl-explore", "3")
    done.assert_outcomes(passed=3)
