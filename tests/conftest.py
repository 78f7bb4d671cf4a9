"""For all tests: a campaign may take ten minutes, everything else has the limit that pyproject.toml sets."""

import pytest

SLOW_S = 600


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_S))
