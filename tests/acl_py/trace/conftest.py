"""Traces of the programs in traceable.py, and how they are read."""

import json

import pytest
import traceable

from acl_py.trace import chrome


@pytest.fixture(params=traceable.PROGRAMS, ids=lambda program: program.__name__)
def any_trace(request):
    """The traces of all programs, one after the other."""
    return traceable.trace_of(request.param)


@pytest.fixture
def traced():
    """Run a program, or one of those by its name, and hand back its trace."""
    return lambda program: traceable.trace_of(getattr(traceable, program) if isinstance(program, str) else program)


@pytest.fixture
def chrome_events(tmp_path):
    """The events of a trace's Chrome trace, as a viewer reads them."""

    def read(trace):
        path = tmp_path / "chrome.json"
        chrome.write(trace, path)
        return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]

    return read
