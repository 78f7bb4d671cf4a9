"""Mistakes planted in a pipeline: advice names the line, and is worth what the mended program shows. It names no other
line that the mended program needs.
"""

import chunked
import pytest
from chunked import Measured, Pipeline, Reused, advised, recorded

from acl_py.advice.pieces import Form
from acl_py.causes.path import makespan_ns

# The mistake, the mended program, the lines of the mistake in its methods, and the advice for each.
MISTAKES = [
    (chunked.SynchronisesCompute, Pipeline, {"end_of_chunk": [("SynchronizeStream", Form.REMOVE)]}),
    (chunked.SynchronisesDeviceAtTimes, Pipeline, {"end_of_chunk": [("SynchronizeDevice", Form.REMOVE)]}),
    (chunked.AwaitsDownload, Pipeline, {"end_of_chunk": [("SynchronizeEvent", Form.REMOVE)]}),
    (chunked.SynchronisesTwice, Pipeline, {"end_of_chunk": [("SynchronizeStream", Form.REMOVE)] * 2}),
    (chunked.WaitsForDownload, Pipeline, {"wait_to_upload": [("StreamWaitEvent", Form.WEAKER)]}),
    (chunked.DeviceForSlots, Pipeline, {"wait_to_upload": [("SynchronizeDevice", Form.WEAKER)]}),
    (chunked.RecordsLate, Measured, {"step": [("StreamWaitEvent", Form.WEAKER)]}),
    (chunked.ReadsBehindDevice, Reused, {"wait_to_read": [("SynchronizeDevice", Form.WEAKER)]}),
    (chunked.ReadsBehindStream, Reused, {"wait_to_read": [("SynchronizeStream", Form.WEAKER)]}),
]


def methods_of(pipeline):
    """The method of *pipeline* in which each line is."""
    methods = [getattr(pipeline, name) for name in dir(pipeline) if not name.startswith("__")]
    codes = [method.__code__ for method in methods if hasattr(method, "__code__")]
    return {f"chunked.py:{line}": code.co_name for code in codes for *_, line in code.co_lines() if line is not None}


@pytest.mark.parametrize(("mistake", "mended", "lines"), MISTAKES, ids=lambda each: getattr(each, "__name__", ""))
def test_the_dearest_advice_is_the_planted_mistake(mistake, mended, lines):
    methods, count = methods_of(mistake), sum(map(len, lines.values()))
    found = {}
    for advice in advised(mistake).advice[:count]:
        line = advice.way.line
        found.setdefault(methods[line.site], []).append((line.called, advice.way.form))
    assert found == lines


@pytest.mark.parametrize(("mistake", "mended", "lines"), MISTAKES, ids=lambda each: getattr(each, "__name__", ""))
def test_its_price_is_the_difference_to_the_mended_program(mistake, mended, lines):
    before, after = recorded(mistake), recorded(mended)
    assert advised(mistake).together.gain_ns == makespan_ns(before) - makespan_ns(after) > 0


@pytest.mark.parametrize("mended", [Pipeline, Measured])
def test_a_mended_program_gets_no_advice(mended):
    assert advised(mended).advice == []


def test_what_is_needless_only_because_of_a_barrier_stays_and_is_shown_under_it():
    [advice] = advised(chunked.SynchronisesCompute).advice
    assert [methods_of(Pipeline)[line.site] for line in advice.hidden] == ["wait_to_upload"]


def test_waits_of_a_stream_for_what_its_host_waits_for_anyway_cost_nothing_and_can_go():
    """The host reads each result before it queues the next chunk in its slot."""
    advice = advised(Reused).advice
    assert [methods_of(Reused)[each.way.line.site] for each in advice] == ["wait_to_upload", "wait_to_compute"]
    assert {each.added_ns for each in advice} == {0}
