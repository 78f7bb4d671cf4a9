"""docs/semantics.md: every measured question with folklore, documentation, the card's answer and ours.

    python -m tests.conformance.questions > docs/semantics.md

What people say and what is documented stands in questions.toml; the times are computed. A test holds the page to both.
"""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # pytest knows `criteria` by its bare name

from criteria import is_capture, measured, replayed, wrong_codes, wrong_overlaps, wrong_waits  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "semantics.md"
OFF = 0.1, 20  # times that differ by more than this share, and by more than so many us, get a mark
HEADING = "| question | folklore | documentation | the card | us |\n| --- | --- | --- | --- | --- |"


def page():
    """The whole page."""
    written = tomllib.loads((HERE / "questions.toml").read_text())
    documents = {document["id"]: document for document in measured("semantics")}
    parts = [written["head"]]
    for topic in written["topics"]:
        parts += [f"## {topic['title']}", "", topic["intro"], "", HEADING]
        for ids, *answer in topic["answers"]:
            parts += [_row(documents[id_], *answer) for id_ in ids]
        parts.append("")
    return "\n".join([*parts, written["tail"]])


def _row(document, folklore, documented, card, call=None):
    there, here = _codes(document) if is_capture(document) else _times(document, call)
    card = "; ".join(part for part in (card, there) if part)
    return f"| {document['question']} (`{document['id']}`) | {folklore} | {documented} | {card} | {here} |"


def _codes(document):
    codes = [(document["steps"][call["step"]]["op"], call["ret"][0]) for call in document["observed"]["host"]]
    return ", ".join(f"{op} {code}" for op, code in codes if code), "not supported yet"


def _times(document, step):
    ours = replayed("semantics", document["id"])
    if step is None:
        there, here = document["observed"]["makespan_us"], ours.makespan_us
    else:
        there, call = document["observed"]["host"][step]["cost_us"], ours.host[step]
        here = call.exit_us - call.enter_us
    wrong = wrong_codes(document, ours) or wrong_waits(document, ours) or wrong_overlaps(document, ours)
    mark = " †" if abs(here - there) > OFF[1] and abs(here / there - 1) > OFF[0] else ""
    return _us(there), f"{'differs' if wrong else 'the same'}; {_us(here)}{mark}"


def _us(value):
    return f"{value:,.0f} us" if value >= 100 else f"{value:.1f} us"


if __name__ == "__main__":
    sys.stdout.write(page())
