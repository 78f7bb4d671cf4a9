"""A plug-in of pytest with the fixture that numba-cuda's tests ask for, which its wheel does not bring."""

import pytest


@pytest.fixture
def initialize_from_pytest_config(request):
    """Give a class of tests its option: do not print machine code when a test fails."""
    if request.cls is not None:
        request.cls._dump_failed_filechecks = False
