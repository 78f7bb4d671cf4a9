"""docs/semantics.md and its parts: every measured question with folklore, documentation, the card's answer and ours.

    python -m tests.conformance.questions

Folklore and documentation are in questions.toml; the times are computed. A test compares the pages with both.
"""

import sys
import tomllib
from pathlib import Path
from textwrap import fill

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # pytest knows `criteria` by its bare name

from criteria import is_capture, measured, replayed, wrong_codes, wrong_overlaps, wrong_waits  # noqa: E402

from acl_py.programs.format import parse  # noqa: E402
from acl_py.programs.portability import differences  # noqa: E402
from device_model.rules import ACL, CUDA  # noqa: E402
from tests.parts import Part, listed, write  # noqa: E402

OFF = 0.1, 20  # times that differ by more than this share, and by more than so many us, get a mark
HEADING = (
    "| question | folklore | documentation | the card | acl_py | under `acl` |\n| --- | --- | --- | --- | --- | --- |"
)


def pages():
    """Return the overview and its parts, by their paths in docs/."""
    written = tomllib.loads((HERE / "questions.toml").read_text())
    parts = [Part(*part) for part in written["parts"]]
    topics = {topic["title"]: topic for topic in written["topics"]}
    assert sorted(topics) == sorted(title for part in parts for title in part.sections)
    overview = f"{written['head'].lstrip()}\n{listed('semantics', parts)}\n\n{written['tail'].lstrip()}"
    return {"semantics.md": overview} | {f"semantics/{part.stem}.md": _page(part, topics) for part in parts}


def _page(part, topics):
    documents = {document["id"]: document for document in measured("semantics")}
    lines = [
        f"# {part.title}",
        "",
        "A part of [What synchronises with what](../semantics.md), which explains the columns.",
    ]
    for title in part.sections:
        intro = fill(topics[title]["intro"], 120, break_on_hyphens=False)
        lines += ["", f"## {title}", "", intro, *(["", HEADING] if topics[title]["answers"] else [])]
        for ids, *answer in topics[title]["answers"]:
            lines += [_row(documents[id_], *answer) for id_ in ids]
    return "\n".join([*lines, ""])


def _row(document, folklore, documented, card, call=None):
    there, here = _codes(document) if is_capture(document) else _times(document, call)
    card = "; ".join(part for part in (card, there) if part)
    question = f"{document['question']} (`{document['id']}`)"
    return f"| {question} | {folklore} | {documented} | {card} | {here} | {_under_acl(document)} |"


def _under_acl(document):
    """What the program does differently under the other rules, in short."""
    phrases = {}
    for each in differences(parse(document), (CUDA, ACL)):
        op, text = each.where.split(" returned")[0].split()[-1 if each.what == "hang" else 2], each.under["acl"]
        if each.what == "code":
            phrases[f"{op} {text}"] = None
        elif each.what == "wait":
            phrases[f"{op} does not wait" if text == "none of these" else f"{op} waits"] = None
        else:
            phrases[{"order": "another order", "result": "other bytes", "hang": "hangs"}[each.what]] = None
    return ", ".join(phrases) or "the same"


def _codes(document):
    ops = [step["op"] for step in document["steps"]]
    card = [call["ret"][0] for call in document["observed"]["host"]]
    ours = [call.ret for call in replayed("semantics", document["id"]).host]
    there, here = (
        ", ".join(f"{op} {code}" for op, code in zip(ops, codes, strict=True) if code) for codes in (card, ours)
    )
    return there, "the same" if here == there else here


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
    write(pages())
