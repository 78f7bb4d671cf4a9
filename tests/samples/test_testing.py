"""samples/testing: the tests of a small server pass, and notice what is changed in the server."""

import shutil
from pathlib import Path

import pytest

from tests import forks

FOLDER = Path(__file__).parents[2] / "samples" / "testing"
OPTIONS = (
    "-q", "-p", "no:cacheprovider", "-p", "acl_py.pytest_plugin", "-o", "asyncio_mode=auto",
    "-o", "asyncio_default_fixture_loop_scope=function", "--acl-sanitize", "--tb=line",
)  # fmt: skip


@pytest.fixture
def copied(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "testing", ignore=shutil.ignore_patterns("__pycache__")))


def test_the_five_tests_pass(copied):
    done = forks.run("-m", "pytest", *OPTIONS, cwd=copied)
    assert "5 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "fails"),
    [
        ("np.multiply(x, 3, out=x)", "np.multiply(x, 2, out=x)", "each_client_gets_its_own_answer"),
        ("us=60", "us=64", "one_request_takes_the_way_and_the_time"),
        ("except acl.AclError as error", "except ValueError as error", "finds_no_memory_is_refused"),
        ("range(workers)", "range(1)", "the_copy_of_one_worker_runs_beside"),
        ("        await acl.SynchronizeStream(stream)\n        return", "        return", "each_client_gets_its_own"),
    ],
)
@pytest.mark.one_in(3)
def test_a_mistake_in_the_server_is_noticed(copied, old, new, fails):
    server = copied / "small_server.py"
    text = server.read_text()
    assert old in text
    server.write_text(text.replace(old, new))
    done = forks.run("-m", "pytest", *OPTIONS, cwd=copied)
    assert any(fails in line for line in done.stdout.splitlines() if line.startswith("FAILED")), done.stdout
