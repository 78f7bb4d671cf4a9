"""Traces of the programs in traceable.py, and how they are read."""

import json

import pytest
import traceable

from acl_py.trace import chrome
from acl_py.trace.page import Page


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


@pytest.fixture
def opened(browser, tmp_path):
    """Write runs to a page and open it from disk. Nothing may fail in it, and nothing may be asked of a network."""
    mistakes = []
    contexts = []

    def open_page(*runs, width=1200, height=800, scheme="light", link=""):
        Page(runs).write(tmp_path / "page.html")
        contexts.append(
            browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, offline=True)
        )
        page = contexts[-1].new_page()
        page.on("console", lambda message: mistakes.append(message.text))
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "blob:")) or mistakes.append(request.url))
        page.goto((tmp_path / "page.html").as_uri() + link)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert mistakes == []
