"""Predictions: what a reader expects, written down before the run and compared with it afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any

from acl_py.teaching.mistakes import NotebookError

BLANK = ("?", "")
CELLS = {"w": True, "-": False}


class Prediction:
    """What the reader expects of each question. *answers* has only the questions that were answered.

    The answers are numbers in *unit*; if there are *choices*, they are some of these.
    """

    def __init__(self, answers: Mapping[Any, Any], asked: Sequence[Any], unit: str) -> None:
        self.answers = answers
        self.asked = asked
        self.unit = unit

    def __repr__(self) -> str:
        return f"<Prediction: {len(self.answers)} of {len(self.asked)} answered>"

    def check(self, results: Mapping[Any, Any], *, within: float = 0.1) -> None:
        """Print each of *results* beside what was expected of it. A number is right if it differs by *within* at most.

        Raises:
            NotebookError: the prediction has other questions than *results*, because its cell was changed.
        """
        width = max(len(str(question)) for question in results)
        for question in results:
            if question not in self.asked:
                raise NotebookError(f"The prediction has no {question!r}. Restore its cell, and run it again.")
        for question in self.asked:
            if question not in results:
                raise NotebookError(
                    f"There is no question {question!r} here. Restore the prediction's cell, and run it again."
                )
        for question, result in results.items():
            print(f"{question!s:{width}}  {self._said(result):>12}   {self._verdict(question, result, within)}")

    def _said(self, result: Any) -> str:
        return f"{result:,.0f} {self.unit}".rstrip() if _is_number(result) else str(result)

    def _verdict(self, question: Any, result: Any, within: float) -> str:
        if question not in self.answers:
            return "you: nothing yet"
        answer = self.answers[question]
        if not _is_number(result):
            return f"you: {self._said(answer)}{', right' if answer == result else ''}"
        right = abs(answer - result) <= within * abs(result)
        tolerance = f" (within {within:.0%})".replace("%", " %") if within else ""
        return f"you: {self._said(answer)}{f', right{tolerance}' if right else ''}"


def predict(answers: Mapping[Any, Any], *, unit: str = "us", choices: Sequence[Any] = ()) -> Prediction:
    """Check the form of *answers* to questions, and return them. An answer that is still `...` is left out.

    Args:
        answers: what the reader wrote to each question: a number of *unit*, or one of *choices* if there are any.
        unit: of the numbers.
        choices: the possible answers.

    Raises:
        NotebookError: an answer is neither a number nor one of the choices, or *answers* is no dict.
    """
    if not isinstance(answers, Mapping):
        raise NotebookError(f"A prediction is a dict such as {{'one stream': 250}}, not {answers!r}. Restore its cell.")
    given = {question: answer for question, answer in answers.items() if not _is_blank(answer)}
    for question, answer in given.items():
        if choices and answer not in choices:
            raise NotebookError(f"{question}: write one of {', '.join(map(repr, choices))} in place of {answer!r}.")
        if not choices and (not _is_number(answer) or not 0 <= answer < float("inf")):
            raise NotebookError(f"{question}: write a number of {unit}, such as 250, in place of {answer!r}.")
    _note_blanks(len(answers) - len(given), "`...`")
    return Prediction(given, list(answers), "" if choices else unit)


def predict_table(text: str) -> Prediction:
    """Return the predictions in a table, by (row, column): True for "w", False for "-". A cell with "?" is left out.

    The first line has the names of the columns; each other line has the name of a row, and then its cells.

    Raises:
        NotebookError: a line has too few or too many cells, or a cell is something else.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise NotebookError("The table is empty: restore its cell, which has a line of names and a line for each row.")
    columns, *rows = lines
    table = {}
    for row, *cells in rows:
        if len(cells) != len(columns):
            raise NotebookError(f"The row {row!r} has {len(cells)} cells, and the table has {len(columns)} columns.")
        for column, cell in zip(columns, cells, strict=True):
            if cell not in CELLS and cell not in BLANK:
                raise NotebookError(f"The row {row!r}, column {column!r}: write w, - or ? in place of {cell!r}.")
            table[row, column] = CELLS.get(cell)
    given = {place: waits for place, waits in table.items() if waits is not None}
    _note_blanks(len(table) - len(given), "`?`")
    return Prediction(given, list(table), "")


def _is_blank(answer: Any) -> bool:
    return answer is ... or answer is None or (isinstance(answer, str) and answer.strip() in BLANK)


def _is_number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def _note_blanks(number: int, blank: str) -> None:
    if number:
        print(f"{number} of your predictions {'is' if number == 1 else 'are'} still empty: write in place of {blank}.")
