"""The semantics programs, one question each: codes, waits and overlaps as on the card."""

import re

import pytest
from criteria import is_capture, measured, replayed, wrong_codes, wrong_overlaps, wrong_waits
from questions import pages

from tests.parts import DOCS

PROGRAMS = [document for document in measured("semantics") if not is_capture(document)]


@pytest.mark.parametrize("document", PROGRAMS, ids=[document["id"] for document in PROGRAMS])
def test_behaves_as_the_card(document):
    ours = replayed("semantics", document["id"])
    assert wrong_codes(document, ours) == []
    assert wrong_waits(document, ours) == []
    assert wrong_overlaps(document, ours) == []


def test_nearly_all_programs_are_held_against_the_card():
    assert len(measured("semantics")) == 115
    assert len(PROGRAMS) == 106


def test_an_illegal_address_sticks_as_on_the_card():
    [document] = measured("sticky_error")
    ours = replayed("sticky_error", document["id"])
    assert wrong_codes(document, ours) == []
    assert wrong_waits(document, ours) == []
    assert [call.ret for call in ours.host] == [0, 0, 0, 700, 700, 0, 700, 700, 700, 700, 700, 0, 700]


def test_elapsed_times_are_those_of_the_card():
    for document in PROGRAMS:
        for card in document["observed"]["host"]:
            if isinstance(card.get("extra"), float):
                ours = replayed("semantics", document["id"]).host[card["step"]].extra
                assert ours == pytest.approx(card["extra"], rel=0.03), document["id"]


def test_a_host_function_says_when_it_ran():
    """The card's callbacks are Python and wait for the interpreter: they start late and take 8 % longer."""
    document = next(each for each in PROGRAMS if each["id"] == "host-func-two-streams")
    ours = replayed("semantics", document["id"])
    for card in document["observed"]["host"]:
        if "extra" in card:
            [[start, end, _]] = ours.host[card["step"]].extra
            [[card_start, card_end]] = card["extra"]
            assert end - start == pytest.approx(card_end - card_start, rel=0.1)
            assert start == pytest.approx(card_start, rel=0.12, abs=100)


@pytest.mark.slow
def test_the_pages_say_what_happens():
    """All but our own times: `python -m tests.conformance.questions` writes them again."""
    for path, text in pages().items():
        assert _without_our_times((DOCS / path).read_text(encoding="utf-8")) == _without_our_times(text)


def test_a_time_of_ours_is_no_difference_and_an_answer_is_one():
    row = "| q | f | d | waits; 12.0 us | the same; 11.0 us † | the same |"
    assert _without_our_times(row) == _without_our_times(row.replace("11.0 us †", "12.1 us"))
    assert _without_our_times(row) != _without_our_times(row.replace("; 11.0", "d; 11.0"))
    assert _without_our_times(row) != _without_our_times(row.replace("12.0", "13.0"))


def test_the_pages_have_a_row_for_every_question():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "semantics").glob("*.md"))
    assert [document["id"] for document in measured("semantics") if f"(`{document['id']}`)" not in text] == []


def _without_our_times(text):
    return re.sub(r"; [\d,.]+ us(?: †)? (\|[^|]*\|)$", r" \1", text, flags=re.MULTILINE)
