"""Each pitfall of implicit synchronisation is taught where the teachers' page says."""

import re
from pathlib import Path

import pytest

from acl_py.teaching import files

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "teaching.md"
ROW = re.compile(r"^\| (.+) \| (.+) \| `(.+)` \|$", re.MULTILINE)


def places(where):
    """The files that a cell such as "notebook 2, samples 05 06" names."""
    found = []
    for kind, numbers in re.findall(r"(notebook|sample)s? ((?:\d+ ?)+)", where):
        folder = ROOT / "samples" / ("notebooks" if kind == "notebook" else "")
        for number in numbers.split():
            files = sorted(folder.glob(f"{number}_*.py"))
            assert len(files) == 1, f"{where!r}: there is no {kind} {number}"
            found += files
    return found


def test_each_pitfall_is_taught_where_the_table_says():
    table = PAGE.read_text(encoding="utf-8").partition("| pitfall | where | look for |")[2]
    rows = ROW.findall(table)
    assert len(rows) == len([line for line in table.splitlines() if line.startswith("| ")]) - 1 == 27
    for pitfall, where, text in rows:
        first, *_ = places(where)
        assert text in first.read_text(encoding="utf-8"), f"{pitfall}: {first.name} has no {text!r}"


def test_the_course_has_a_row_for_each_notebook():
    page = PAGE.read_text(encoding="utf-8").partition("## What students get wrong")[0]
    links = set(re.findall(r"\(notebooks/(\w+)\.md\)", page))
    assert {notebook.stem for notebook in (ROOT / "samples" / "notebooks").glob("[0-9]*_*.py")} - links == set()


def test_the_course_says_of_each_notebook_what_to_read_before_and_how_much_there_is_to_read():
    """The head of the notebook says the same, and the words are those of its texts, to a hundred."""
    jupytext = pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    rows = re.findall(
        r"^\| (\d+) \| \[.*\.md\) \| ([\d,]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, len(files.texts()) + 1))
    for text, (_, words, before) in zip(files.texts(), rows, strict=True):
        written = [cell.source for cell in jupytext.read(text).cells if cell.cell_type == "markdown"]
        assert abs(sum(len(each.split()) for each in written) - int(words.replace(",", ""))) <= 100, text.name
        head = " ".join(written[0].split()) + " "
        assert f"(Before it: {before.replace(', `', ', and `')}. It needs " in head, text.name
