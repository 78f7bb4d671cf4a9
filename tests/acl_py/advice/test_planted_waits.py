"""Mistakes planted in a pipeline: advice names the line, and is worth what the mended program shows. It names no other
line.
"""

import pytest
from chunked import Pipeline, SynchronisesCompute, SynchronisesDeviceAtTimes, WaitsForDownload, recorded

from acl_py.advice.choosing import Chooser, Form
from acl_py.causes.path import makespan_ns
from acl_py.explain.recordings import asker_of

MISTAKES = [
    (SynchronisesCompute, "SynchronizeStream", Form.REMOVE),
    (WaitsForDownload, "StreamWaitEvent", Form.WEAKER),
    (SynchronisesDeviceAtTimes, "SynchronizeDevice", Form.REMOVE),
]


def chosen(timeline):
    """All advice about the run in *timeline*."""
    return Chooser(asker_of(timeline, "script"), timeline).choose()


def line_of(method):
    """The line of the last call in *method*."""
    code = method.__code__
    return f"chunked.py:{max(line for *_, line in code.co_lines() if line is not None)}"


@pytest.mark.parametrize(("mistake", "called", "form"), MISTAKES)
def test_a_planted_mistake_is_the_only_advice(mistake, called, form):
    [advice] = chosen(recorded(mistake)).advice
    [method] = [value for name, value in vars(mistake).items() if callable(value)]
    assert (advice.way.line.site, advice.way.line.called, advice.way.form) == (line_of(method), called, form)


@pytest.mark.parametrize(("mistake", "called", "form"), MISTAKES)
def test_its_price_is_the_difference_to_the_mended_program(mistake, called, form):
    before, mended = recorded(mistake), recorded(Pipeline)
    assert chosen(before).together.gain_ns == makespan_ns(before) - makespan_ns(mended) > 0


def test_the_mended_program_gets_no_advice():
    assert chosen(recorded(Pipeline)).advice == []


def test_what_is_needless_only_because_of_a_barrier_stays_and_is_shown_under_it():
    [advice] = chosen(recorded(SynchronisesCompute)).advice
    assert [line.site for line in advice.hidden] == [line_of(Pipeline.wait_to_upload)]
