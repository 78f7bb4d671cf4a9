"""The module on the tiny device, for the tests through `acl`."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # card.py
sys.path.insert(0, str(HERE.parent / "acl_py"))  # histories.py, copy_table.py


@pytest.fixture
def acl():
    """The module as a script has it after acl.init() and acl.rt.set_device(0)."""
    import card

    with card.module() as module:
        yield module
