"""Cards for the tests: the simulated driver under the real cuda.bindings, or a real card if ACL_PY_CARD is set; and the
drop-in module `acl`.
"""

import gc
import os

import pytest

import acl_py.compat.acl
from acl_py.compat import cuda as switch


@pytest.fixture
def card():
    """The name of a card."""
    pytest.importorskip("cuda.pathfinder", reason="cuda.bindings is not installed")
    if os.environ.get("ACL_PY_CARD"):
        yield "cuda:0"
        return
    switch.install(device="h200", workers=1)
    pytest.importorskip("cuda.bindings.driver")
    yield "cuda:0"
    gc.collect()  # pinned memory goes back to this driver: the handles of the next one are the same numbers
    switch.uninstall()


@pytest.fixture
def npu():
    """The name of an Ascend card, which is that of the drop-in module; there are two."""
    acl_py.compat.acl.install(device="ascend910b3", devices=2, workers=1)
    yield "npu:0"
    gc.collect()  # pinned memory goes back to this session: the next one would not know it
    acl_py.compat.acl.uninstall()
