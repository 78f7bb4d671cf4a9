"""Saved traces of form 10, which kept what a call was about: each call means what it means today.

data/form10_calls.json has, for each verb, the calls of a run as form 10 had them: what was staged and then called is
the same today.
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from histories import tiny
from test_api_docstrings import LONG, STAGE, execute
from test_files import write

import acl_py
from acl_py import current_simulation
from acl_py.trace import TraceFileError, read_trace
from acl_py.trace.rows import form10
from tests.acl_py.misuse.cases import NAMES

DATA = json.loads((Path(__file__).parent / "data" / "form10_calls.json").read_text(encoding="utf-8"))
RUNS = [(rules, name) for rules, data in DATA.items() for name in data["runs"]]


def saved_today(path, rules, call):
    @tiny(rules=rules)
    async def program():
        names = NAMES | {"np": np, "long": LONG, "acl": rules == "acl"}
        await execute(STAGE, names)
        await execute(call, names)
        current_simulation().trace.save(path)

    program()
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def as_form_10(lines, calls):
    """The *lines* of a file as form 10 had them, with *calls*: names, and what they were about."""
    old, list_ = [], ""
    for line in lines:
        list_ = line.get("list", "" if "end" in line else list_)
        if "form" in line:
            old.append({name: value for name, value in line.items() if name not in form10.MISSING} | {"version": 10})
        elif line.get("column") == "act":
            old.append({"column": "about", "values": [about for _, about in calls]})
        elif list_ not in form10.MISSING and line.get("column") not in ("viewed_ns", "again"):
            old.append(line)
    return old


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("rules", "name"), RUNS, ids=map("-".join, RUNS))
def test_a_trace_of_form_10_is_read_as_one_of_today(tmp_path, rules, name):
    call, places = DATA[rules]["runs"][name]
    path, old = tmp_path / "today.acl", tmp_path / "old.acl"
    lines = saved_today(path, rules, call)
    write(old, as_form_10(lines, [DATA[rules]["calls"][place] for place in places]))
    assert read_trace(old) == replace(read_trace(path), source=[])


@pytest.mark.parametrize("about", [[], [1], [["Ref", 0]], [["Ref", 0], ["Ref", 0], ["Ref", 0], 1]])
def test_a_call_that_was_about_something_else_is_damaged(tmp_path, about):
    call, places = DATA["cuda"]["runs"]["RecordEvent"]
    lines = saved_today(tmp_path / "today.acl", "cuda", call)
    calls = [DATA["cuda"]["calls"][place] for place in places]
    row = [name for name, _ in calls].index("RecordEvent")
    calls[row] = "RecordEvent", about
    write(tmp_path / "old.acl", as_form_10(lines, calls))
    with pytest.raises(TraceFileError, match=rf"calls.about: row {row}: no call of RecordEvent was about that"):
        read_trace(tmp_path / "old.acl")


def test_every_verb_of_form_10_is_there():
    names = {name for data in DATA.values() for name, _ in data["calls"]}
    assert names - {"await", "HostPageFaults", "EndReport"} <= set(vars(acl_py.public))
