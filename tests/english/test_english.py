"""Pages can be read in one go, sentences are short, and no text has a form that stops a reader."""

import pytest

from tests.english import exceptions
from tests.english.rules import RULES, findings
from tests.english.sentences import LONG, sentences
from tests.english.texts import Text, cells, name_of, notebook_pages, of_docstrings, of_pages, pages, whole, words

MOST_WORDS = 3_000
SHARE = 0.01  # of the sentences may be long


def test_no_page_has_more_words_than_a_reader_takes_in():
    numbers = {name_of(page): words(page) for page in [*pages(), *notebook_pages()]}
    assert {page: number for page, number in numbers.items() if number > MOST_WORDS} == {}


def test_pages_and_code_have_no_form_that_stops_a_reader():
    found = [finding for text in whole() for finding in findings(text)]
    assert [str(finding) for finding in exceptions.left(found)] == []
    known = exceptions.listed()
    assert len(known) <= 20
    assert [each for each in known if not each.reason] == []
    assert [each for each in known if not any(exceptions.covers(each, finding) for finding in found)] == []


@pytest.mark.slow
def test_fewer_than_one_sentence_in_a_hundred_is_long():
    for texts in (of_pages(), of_docstrings()):
        found = [sentence.words > LONG for text in texts for sentence in sentences(text)]
        assert len(found) > 5_000
        assert sum(found) < SHARE * len(found)


@pytest.mark.parametrize(
    "text",
    [
        "A hang is told from a wait.", "What others do is no matter of the program.",
        "Give back that which was current.",
        "It reports the code instead of that of *kind*.", "Both wait for ever.", "No card was at hand.",
        "All of them, but for the last.", "All else is Python's.", "It checks them, for it needs their types.",
        "It shows when what happened.", "It counts\n    # as behind the call.",
    ],
)  # fmt: skip
def test_a_riddle_in_a_text_is_found(text):
    assert len(list(findings(Text("code", "module.py", 1, text)))) == 1


def test_a_cell_that_begins_with_a_pronoun_and_a_column_named_like_a_unit_are_found():
    table = "| call | us |\n| --- | --- |\n| Free | it waits |\n| sleep | us |\n\n```text\n| ms |\n| --- |\n```\n"
    found = list(findings(Text("page", "page.md", 1, table)))
    assert [(finding.words, finding.rule.name) for finding in found] == [
        ("us", "a column is named like a unit"),
        ("it waits", "a pronoun begins a cell"),
    ]


def test_a_message_over_two_lines_is_one_text():
    source = 'raise ValueError(\n    "both wait "\n    f"for ever: {name}"\n)\n'
    assert [finding.rule for finding in findings(Text("code", "module.py", 1, source))] == [
        rule for rule in RULES if rule.name == "for ever"
    ]


def split(kind, text):
    return [(sentence.line, sentence.words, sentence.text) for sentence in sentences(Text(kind, "name", 1, text))]


def test_a_page_is_divided_into_the_sentences_of_its_prose():
    page = (
        "# A title\n\nOne `two three`\nfour. [Five\nsix](page.md#place)!\n\n```sh\nno prose\n```\n\n"
        "* An *item*.\n* Another (e.g. this).\n\n| heading | other |\n| --- | --- |\n| a; b c | d. e |\n\n> quoted\n"
    )
    assert split("page", page) == [
        (3, 3, "One `code` four."), (3, 2, "Five six!"), (11, 2, "An item."), (12, 2, "Another ( this)."),
        (14, 1, "heading"), (14, 1, "other"), (16, 1, "a"), (16, 2, "b c"), (16, 1, "d."), (16, 1, "e"),
    ]  # fmt: skip


def test_a_docstring_is_divided_into_sentences_and_fields_and_its_examples_are_none():
    docstring = """Do one thing. Then another
    one.

        example(no, prose)

    Args:
        first: What is first; it
            goes on.
        second, third: Others.

    Raises:
        AclError: KIND if so; OTHER if not.

    An end."""
    assert [(words, text) for _, words, text in split("docstring", docstring)] == [
        (3, "Do one thing."), (3, "Then another one."), (4, "first: What is first"), (3, "it goes on."),
        (3, "second, third: Others."), (4, "AclError: KIND if so"), (3, "OTHER if not."), (2, "An end."),
    ]  # fmt: skip


def test_cells_of_a_notebook_are_its_markdown():
    head = "# ---\n# name: x\n# ---\n\n"
    source = f"{head}# %% [markdown]\n# # One\n#\n# Two.\n\n# %%\nx = 1  # three\n\n# %% [markdown]\n# Four.\n"
    assert [(cell.line, cell.text) for cell in cells("n.py", source)] == [(6, "# One\n\nTwo."), (14, "Four.")]
