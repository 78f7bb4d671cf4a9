"""Predictions: what a reader writes is checked, and compared with what comes out."""

import pytest

from acl_py import teaching


def test_a_prediction_is_shown_beside_the_result(capsys):
    guess = teaching.predict({"one": 200, "two": 104, "three": ...})
    guess.check({"one": 100.4, "two": 100.4, "three": 100.4})
    assert capsys.readouterr().out.splitlines() == [
        "1 of your predictions is still empty: write in place of `...`.",
        "one          100 us   you: 200 us",
        "two          100 us   you: 104 us, right (within 10 %)",
        "three        100 us   you: nothing yet",
    ]


def test_a_prediction_may_be_one_of_some_choices(capsys):
    guess = teaching.predict({"Free": "waits", "Malloc": "waits"}, choices=["waits", "returns"])
    guess.check({"Free": "waits", "Malloc": "returns"})
    assert capsys.readouterr().out.splitlines() == [
        "Free           waits   you: waits, right",
        "Malloc       returns   you: waits",
    ]


@pytest.mark.parametrize("blank", [..., None, "", " ", "?"])
def test_an_empty_prediction_gets_a_sentence_and_goes_on(blank, capsys):
    guess = teaching.predict({1: blank, 2: blank})
    assert repr(guess) == "<Prediction: 0 of 2 answered>"
    assert capsys.readouterr().out == "2 of your predictions are still empty: write in place of `...`.\n"


@pytest.mark.parametrize("malformed", ["100", "much", -1, float("nan"), float("inf"), True, [100]])
def test_a_prediction_that_is_no_number_is_refused(malformed):
    with pytest.raises(teaching.NotebookError) as refused:
        teaching.predict({"one": malformed})
    assert str(refused.value) == f"one: write a number of us, such as 250, in place of {malformed!r}."


def test_a_prediction_that_is_no_choice_is_refused():
    with pytest.raises(teaching.NotebookError) as refused:
        teaching.predict({"Free": "maybe"}, choices=["waits", "returns"])
    assert str(refused.value) == "Free: write one of 'waits', 'returns' in place of 'maybe'."


def test_a_result_that_nobody_asked_for_names_the_cell_to_restore():
    with pytest.raises(teaching.NotebookError, match="The prediction has no 3"):
        teaching.predict({1: 5}).check({3: 5})


def test_a_prediction_of_something_that_nobody_asked_for_is_not_dropped():
    with pytest.raises(teaching.NotebookError, match="There is no question 4"):
        teaching.predict({1: 5, 4: 5}).check({1: 5})


def test_a_prediction_that_is_no_dict_is_refused():
    with pytest.raises(teaching.NotebookError) as refused:
        teaching.predict([250, 100])
    assert str(refused.value) == (
        "A prediction is a dict such as {'one stream': 250}, not [250, 100]. Restore its cell."
    )


def test_a_table_counts_where_it_says_something(capsys):
    guess = teaching.predict_table(
        """
                 legacy   blocking
        legacy     w         ?
        blocking   -         -
        """
    )
    assert guess.answers == {
        ("legacy", "legacy"): True,
        ("blocking", "legacy"): False,
        ("blocking", "blocking"): False,
    }
    assert capsys.readouterr().out == "1 of your predictions is still empty: write in place of `?`.\n"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("", "The table is empty: restore its cell, which has a line of names and a line for each row."),
        ("a b\na w", "The row 'a' has 1 cells, and the table has 2 columns."),
        ("a b\na w w -", "The row 'a' has 3 cells, and the table has 2 columns."),
        ("a b\na w x", "The row 'a', column 'b': write w, - or ? in place of 'x'."),
    ],
)
def test_a_malformed_table_is_refused(table, says):
    with pytest.raises(teaching.NotebookError) as refused:
        teaching.predict_table(table)
    assert str(refused.value) == says
