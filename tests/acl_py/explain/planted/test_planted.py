"""Planted mistakes: a report names the line among its first two findings, advises what the mended program does, and
prices it as the run of that program does. Of mended programs it advises nothing.
"""

from dataclasses import replace
from textwrap import dedent

import planted_loops
import planted_pairs
import pytest
from planted_pairs import (
    WRONG_RECORDS,
    Filled,
    FilledInDefaultStream,
    KernelWithoutStream,
    StreamEachStep,
    UploadInPieces,
    line_of,
    lines_from,
)
from planted_pipeline import SIZE, Pipeline, recording, scale, shift

from acl_py import Array, Malloc
from acl_py.causes.findings import Pitfall
from acl_py.causes.path import makespan_ns
from acl_py.explain.cases import Case
from acl_py.explain.fixes import Fixer
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of, case_of
from acl_py.explain.whatif import Asker
from acl_py.trace.rows.windows import worked
from device_model.profile import load
from device_model.rules import RULES

PLANTED = [
    kind
    for module in (planted_pairs, planted_loops)
    for kind in vars(module).values()
    if isinstance(kind, type) and "pitfall" in vars(kind)
]
_NEAR_NS = 3_000  # or 5 %


def worked_ns(timeline):
    """From the first work to the last wait."""
    return worked(timeline, makespan_ns(timeline)).ns


def report(timeline):
    return prices(asker_of(timeline, "pipeline"), timeline)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pair", PLANTED, ids=lambda pair: pair.__name__)
def test_a_planted_mistake_is_found_and_priced(pair):
    timeline, mended = recording(pair, sanitize="host,device"), recording(pair.mended)
    of_line = [each for each in report(timeline)[:2] if each.finding.site == line_of(pair)]
    assert {each.finding.pitfall for each in of_line} == {pair.pitfall}
    (found,) = [each for each in of_line if pair.edit in each.finding.edit]
    lasted_ns = worked_ns if hasattr(pair, "in_window") else makespan_ns
    answer, real = found.answer, lasted_ns(timeline) - lasted_ns(mended)
    assert not answer.conflicts
    assert answer.gain_ns == pytest.approx(real, abs=max(_NEAR_NS, real // 20))
    if hasattr(pair, "diff"):
        assert [*found.source] == dedent(pair.diff).strip().format(*lines_from(pair)).splitlines()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", dict.fromkeys(pair.mended for pair in PLANTED), ids=lambda kind: kind.__name__)
def test_nothing_is_advised_of_a_mended_program(kind):
    assert [each.text for each in report(recording(kind)) if not each.is_minor] == []


class FilledOnce(Filled):
    """Each chunk has sums of its own, so a fill waits for nothing."""

    async def begin(self):
        await super().begin()
        self.sums = [await Malloc(SIZE) for _ in range(self.chunks)]

    async def work(self, chunk, slot):
        await self.fill(chunk)
        await scale[132, self.compute](Array(self.device[slot]))
        await shift[132, self.compute](Array(self.sums[chunk]))


class FilledOnceByTheHost(FilledOnce):
    fill = FilledInDefaultStream.fill


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("planted", "mended"), [(FilledInDefaultStream, Filled), (FilledOnceByTheHost, FilledOnce)], ids=["races", "right"]
)
def test_under_acls_rules_a_fill_that_keeps_the_host_goes_to_the_stream_of_its_neighbours(planted, mended):
    """There the fill waits for itself and for nothing before it. A stream of its own would leave a race, or make one,
    even if it was cheaper.
    """
    timeline, right = recording(planted, "ascend910b3"), recording(mended, "ascend910b3")
    found = report(timeline)
    line = line_of(FilledInDefaultStream)
    first = found[0]
    assert (first.finding.pitfall, first.finding.site) == (Pitfall.SYNC_COPY, line)
    assert first.finding.edit.startswith("Give it the stream of shift (")
    assert first.answer.gain_ns == makespan_ns(timeline) - makespan_ns(right)
    text = "await MemsetAsync(self.sums[slot], SIZE, 0, SIZE, self.compute)"
    assert first.source[1] == f"+ {line}: {text}"
    assert all(each.answer.is_in_order for each in found if each.finding.site == line)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("pair", [StreamEachStep, UploadInPieces, KernelWithoutStream], ids=lambda pair: pair.__name__)
def test_a_program_without_lines_has_the_same_habit(pair):
    """Its steps are told apart by what they do."""
    timeline, mended = recording(pair), recording(pair.mended)
    case = case_of(timeline, "program")
    steps = tuple(replace(step, site="") for step in case.program.steps)
    asker = Asker(case.with_program(steps=steps))
    first = prices(asker, asker.timeline)[0]
    assert (first.finding.pitfall, first.source) == (pair.pitfall, ())
    assert pair.edit in first.finding.edit
    assert first.answer.gain_ns == pytest.approx(makespan_ns(timeline) - makespan_ns(mended), abs=_NEAR_NS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("pair", WRONG_RECORDS, ids=lambda pair: pair.__name__)
def test_a_record_in_the_wrong_stream_goes_to_the_stream_of_the_work(pair):
    """The events that the edges would need cost the host more than the record, which is there already."""
    timeline, right = recording(pair), recording(Pipeline)
    fixer = Fixer(case_of(timeline, "pipeline"))
    mended = fixer.mend()
    assert (mended.edges, mended.left) == ((), ())
    assert mended.moved[0].startswith(f"with the record of {line_of(pair)} in the stream of planted_pipeline.py:")
    assert mended.cost_ns == makespan_ns(right) - makespan_ns(timeline)
    assert not Fixer(Case(mended.program, load("h200"), RULES["cuda"])).missing
    first = report(timeline)[0]
    assert (first.finding.pitfall, first.finding.site) == (Pitfall.WRONG_RECORD, line_of(pair))
    assert first.answer.gain_ns == -mended.cost_ns
    text = "await RecordEvent(self.done[slot]"
    assert first.source[1] == f"+ {line_of(pair)}: {text}, self.compute)"
