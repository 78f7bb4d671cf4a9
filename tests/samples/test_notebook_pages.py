"""The pages in docs/notebooks have the cells of the notebooks, and what these print now."""

import re

import pytest

from tests.samples.notebook_pages import PAGES
from tests.samples.notebooks import NOTEBOOKS, fill_in

PICTURE = re.compile(r"^!\[([^]]*)\]\((.*)\)$", re.MULTILINE)


def test_every_notebook_has_a_page_and_every_picture_is_on_one():
    pages = sorted(PAGES.glob("*.md"))
    assert [page.stem for page in pages] == [notebook.stem for notebook in NOTEBOOKS]
    shown = [file for page in pages for _, file in PICTURE.findall(page.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(picture.name for picture in PAGES.glob("*.png"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_page_has_the_cells_of_its_notebook_and_the_outputs_that_they_have_now(notebook):
    # Its import takes longer than all these tests, and every process of a run imports this module.
    jupytext = pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    page = (PAGES / f"{notebook.stem}.md").read_text(encoding="utf-8")
    book = jupytext.read(notebook)
    fill_in(book, notebook)
    cells = [cell.source for cell in book.cells]
    assert [cell for cell in cells if cell not in page] == []
    for cell in cells:
        page = page.replace(cell, "", 1)
    now = {line.strip() for line in notebook.with_suffix(".out").read_text(encoding="utf-8").splitlines()}
    printed = "\n".join(re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)).splitlines()
    texts = [line for text, _ in PICTURE.findall(page) for line in text.split("; ")]
    assert {line.strip() for line in [*printed, *texts]} - now == set()
