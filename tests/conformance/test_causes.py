"""The explanation of each measured program names the cause that causes.toml, a table made by hand, has for it."""

from pathlib import Path

import pytest
from causes import explained, rows, summary, table, wrong_causes
from criteria import measured

from acl_py.causes.path import critical_path, makespan_ns

FILES = ("semantics", "waits", "gaps", "sticky_error")
PAGE = Path(__file__).parent.parent.parent / "docs" / "traces" / "explanations.md"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("file", "id_"), rows(), ids=["-".join(key) for key in rows()])
def test_the_explanation_names_the_cause(file, id_):
    assert wrong_causes(rows()[file, id_], explained(file, id_)) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("file", "id_"), rows(), ids=["-".join(key) for key in rows()])
def test_the_critical_path_adds_up_to_the_run(file, id_):
    timeline = explained(file, id_).timeline
    assert sum(part.ns for part in critical_path(timeline)) == makespan_ns(timeline)


def test_every_measured_program_is_in_the_table_once():
    programs = {document["id"] for file in FILES for document in measured(file)}
    listed = [id_ for part in table().values() for id_ in part]
    assert sorted(listed) == sorted(programs)


@pytest.mark.slow
def test_a_copy_that_the_host_only_stages_is_not_said_to_wait():
    for (file, id_), row in rows().items():
        ours = explained(file, id_)
        staged = {finding.what for finding in ours.found for index in finding.calls
                  if ours.timeline.calls[index].line in row.get("staged", ())}  # fmt: skip
        assert [what for what in staged if "wait" in what] == [], id_


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (
            {"operations": [[1, "order", 0], [2, "legacy", 1, 1]]},
            ["operation of step 1: legacy 0, not order 0", "a finding too many: legacy stream, step 1 holds step 1"],
        ),
        (
            {"operations": [[1, "legacy", 2, 1], [2, "legacy", 1, 0]]},
            [
                "operation of step 1: legacy 0, not legacy 2",
                "no finding: legacy stream, step 0 holds step 2",
                "a finding too many: legacy stream, step 1 holds step 2",
            ],
        ),
        (
            {"operations": [[1, "legacy", 0, 1], [2, "legacy", 1, 1]], "free_operations": [2], "free_calls": [3]},
            ["operation of step 2: legacy, not free", "call of step 3: waited, and should not"],
        ),
        (
            {"operations": [[1, "legacy", 0, 1], [2, "legacy", 1, 1]], "calls": [[0, "free", 1]]},
            [
                "call of step 0: waited for [], not for 1 (free)",
                "no finding: free, step 0 holds step 0",
            ],
        ),
    ],
)
def test_a_row_with_another_cause_does_not_agree(row, wrong):
    """Of legacy-serialises: work of the legacy stream between two blocking streams."""
    assert wrong_causes(row, explained("semantics", "legacy-serialises")) == wrong


@pytest.mark.slow
def test_the_page_has_the_numbers():
    assert summary() in " ".join(PAGE.read_text().split())
