"""A plug-in of pytest for numba-cuda's tests: the fixture that they ask for, which their wheel does not bring.

pytest takes numba's package for one of the name `cuda`, because the folder above it is no package. So the package of
that name is there before: pytest would import numba's a second time.
"""

import cuda.bindings  # noqa: F401 - see above
import pytest


@pytest.fixture
def initialize_from_pytest_config(request):
    """Give a class of tests its option: do not print machine code when a test fails."""
    if request.cls is not None:
        request.cls._dump_failed_filechecks = False
