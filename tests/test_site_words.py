"""The words of pages that order the search's results: docs/make/words.py counts them for docs/make/scorer.js."""

import importlib.util
import json
from pathlib import Path

import pytest

MAKE = Path(__file__).parent.parent / "docs" / "make"


@pytest.fixture(scope="module")
def words():
    spec = importlib.util.spec_from_file_location("words", MAKE / "words.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_word_that_a_page_has_once_does_not_count(words):
    pages = {"docs/time": "Time is simulated. A timeout ends a wait: a timeout is an error.", "docs/empty": ""}
    assert words.counts(pages) == {"docs/empty": {}, "docs/time": {"timeout": 2}}


def test_the_scorer_has_the_words_of_written_pages_and_not_those_of_generated_ones(words, tmp_path):
    for name in ("docs/howto/race.md", "docs/built/waits.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("race race", encoding="utf-8")
    words.write_scorer(MAKE / "scorer.js", tmp_path, tmp_path / "made" / "scorer.js")
    table, _, rule = (tmp_path / "made" / "scorer.js").read_text(encoding="utf-8").partition(";\n")
    assert json.loads(table.removeprefix("const COUNTS = ")) == {"docs/howto/race": {"race": 2}}
    assert rule == (MAKE / "scorer.js").read_text(encoding="utf-8")


def test_the_rule_knows_no_word():
    """It orders by kinds of pages and by how often they have the words: no page is there for a word of its own."""
    text = (MAKE / "scorer.js").read_text(encoding="utf-8")
    assert "STEMS" in text
    assert "COUNTS[page]" in text
    assert not any(word in text for word in ("race", "deadlock", "jupyter", "pinned"))
