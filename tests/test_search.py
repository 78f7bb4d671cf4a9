"""The search of the site: for a word that users type, the page that they want is among the first three.

docs/make/scorer.js orders by kinds of pages and by how often they have the word, and knows no word itself. Both words
of "what-if" are too common to be searched.
Build the site first: `make docs`.
"""

import pytest

from tests.test_site import SITE

pytestmark = pytest.mark.slow
# Words, and the pages that answer: one of them is enough.
WANTED = {
    "race": ["howto/race", "sanitizer"],
    "install": ["installing"],
    "pytest": ["howto/ci"],
    "CI": ["howto/ci"],
    "pinned": ["howto/report", "howto/price", "howto/faster"],
    "pageable": ["howto/report", "howto/price", "howto/faster", "notebooks/3_pageable_memory"],
    "logging": ["howto/logs"],
    "structlog": ["howto/logs"],
    "cuda.core": ["cuda", "coming_from"],
    "numba": ["cuda", "coming_from"],
    "torch": ["coming_from"],
    "cupy": ["coming_from"],
    "pyACL": ["coming_from", "acl"],
    "calibrate": ["card", "card/machine"],
    "nsight": ["traces", "traces/files", "traces/advice"],
    "perfetto": ["traces", "traces/files"],
    "kineto": ["traces", "traces/files"],
    "timeline": ["timeline"],
    "legend": ["timeline"],
    "glossary": ["glossary"],
    "deadlock": ["problems", "errors", "errors/streams"],
    "hang": ["problems", "errors", "howto/ci", "collectives"],
    "windows": ["platforms"],
    "macOS": ["platforms"],
    "dask": ["howto/cluster", "sweeps"],
    "cluster": ["howto/cluster"],
    "onnx": ["howto/onnx_model"],
    "model": ["howto/onnx_model", "howto/run_acl_script", "howto/to_the_card"],
    "allreduce": ["howto/four_cards", "collectives"],
    "nccl": ["howto/four_cards", "collectives"],
    "graph": ["graphs"],
    "capture": ["graphs"],
    "managed": ["managed"],
    "prefetch": ["managed"],
    "price": ["traces", "traces/advice", "howto/price", "howto/faster"],
    "optimise": ["howto/faster"],
    "kernel": ["howto/core_kernel", "howto/kernel_cost"],
    "course": ["course"],
    "notebook": ["course"],
    "schedules": ["explore"],
    "security": ["security"],
    "ptx": ["ptx"],
}
# Words that were tried only when the rule was there, with the pages that a user would want.
OTHERS = {
    "out of memory": ["problems", "errors/memory", "built/acl_py/buffer"],
    "nan": ["values", "problems"],
    "jupyter": ["course", "cuda", "traces"],
    "docker": ["platforms", "installing"],
    "github actions": ["howto/ci"],
    "stream priority": ["semantics/streams", "built/acl_py/stream", "accuracy/streams"],
    "cudaMemcpyAsync": ["coming_from", "cuda", "built/acl_py/copy"],
    "aclrtMemcpyAsync": ["coming_from", "acl", "built/acl_py/copy"],
    "peer access": ["collectives", "built/acl_py/device", "notebooks/13_from_card_to_card"],
    "timeout": ["problems", "errors/programs", "howto/ci", "built/acl_py/error"],
    "leak": ["problems", "errors/memory", "sanitizer", "howto/ci"],
    "bank conflict": ["cta", "aicore", "howto/kernel_cost"],
    "deterministic": ["time", "explore", "values", "design/device"],
    "slow": ["howto/faster", "howto/report", "performance", "problems"],
    "asyncio": ["time", "notebooks/7_asyncio_and_devices"],
    "json": ["traces", "traces/explanations", "traces/files", "programs"],
    "multiprocessing": ["acl/running", "time", "sweeps"],
    "fixture": ["howto/ci"],
    "exam": ["teaching"],
    "uvloop": ["time", "platforms", "installing", "performance"],
}


@pytest.fixture(scope="module")
def search(browser):
    """Search the site for a word, and return the pages of the first three results."""
    if not (SITE / "searchindex.js").exists():
        pytest.skip("there is no site yet: make docs")
    page = browser.new_page()

    def first_three(word):
        page.goto(f"{(SITE / 'search.html').as_uri()}?q={word}")
        page.wait_for_function("document.querySelector('#search-results p')?.textContent.match(/found|did not match/)")
        links = page.locator("#search-results li > a")
        links.first.wait_for()
        return [links.nth(place).get_attribute("href") for place in range(min(3, links.count()))]

    yield first_three
    page.close()


def test_there_are_forty_words_and_twenty_others():
    assert len(WANTED) >= 40
    assert len(OTHERS) == 20


@pytest.mark.parametrize("word", WANTED | OTHERS)
def test_the_page_that_a_user_wants_is_among_the_first_three(word, search):
    found = [link.partition(".html")[0].partition("docs/")[2] for link in search(word)]
    assert set(found) & set((WANTED | OTHERS)[word]), found


def test_a_verb_is_found_by_its_name(search):
    assert any("built/acl_py/stream.html#acl_py.StreamWaitEvent" in link for link in search("StreamWaitEvent"))
