"""The module on the tiny device, for the tests through `acl`."""

import sys
from contextlib import chdir
from textwrap import dedent

import card
import pytest

from tests import forks


@pytest.fixture
def acl():
    """The module as a script has it after acl.init() and acl.rt.set_device(0)."""
    with card.module() as module:
        yield module


@pytest.fixture
def run(tmp_path):
    """Write a script and run it with `acl-py run`: return the process that has ended."""

    def run(script, *arguments, options=(), command=("-m", "acl_py")):
        path = tmp_path / "script.py"
        path.write_text(dedent(script), encoding="utf-8")
        return forks.run(*command, "run", *options, path, *arguments, cwd=tmp_path)

    return run


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory):
    """The working folder is one of the test's own: a function that gets any text, such as prof.init, makes folders."""
    with chdir(tmp_path_factory.mktemp("own")):
        yield


@pytest.fixture
def often():
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
