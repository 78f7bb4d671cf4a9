"""Samples as programs, from which each record, wait and synchronisation is left out, one at a time.

The sanitizer finds what the oracle says is out of order then, and is silent where the step was needless.
"""

import pytest
from test_recorded_samples import SAMPLES, timelines

from acl_py import recorded
from acl_py.errors import DeadlockError
from acl_py.programs.format import parse
from tests.sanitizer.oracle.comparing import difference_of
from tests.sanitizer.oracle.edits import without_each
from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import run
from tests.sanitizer.oracle.verdicts import pairs

MOST_STEPS = 150  # the oracle looks at each pair of moments
# How many steps left out are found, are needless, and leave a wait without end. A synchronisation before the host reads
# through a view is needless here: recordings do not have such reads.
COUNTS = {
    "01_hello_stream": [1, 0, 0],
    "02_sync_to_async": [0, 6, 0],
    "03_events_and_timing": [2, 3, 0],
    "04_pinned_and_pageable": [0, 2, 0],
    "05_default_stream": [0, 2, 0],
    "06_nonblocking_and_per_thread": [7, 3, 0],
    "07_host_functions": [0, 1, 0],
    "08_stream_ordered_allocation": [2, 2, 0],
    "09_error": [0, 1, 0],
    "10_deadlock": [0, 1, 0],
    "11_two_rules": [7, 5, 0],
    "12_deadlock_chain": [0, 3, 4],
    "13_faults": [2, 42, 0],
    "dynamic_batch": [3, 0, 0],
    "error_paths": [0, 2, 3],
    "kernel_binary": [1, 0, 0],
    "preprocess": [5, 0, 0],
    "roundtrip": [1, 0, 0],
    "several_devices": [8, 0, 0],
    "signals": [6, 4, 15],
    "single_ops": [3, 0, 0],
    "sync_inference": [3, 0, 0],
    "worker_threads": None,  # which of its threads takes a job differs from run to run
    "add_custom": [1, 0, 0],
    "add_flags": [3, 0, 0],
    "double_buffer": [11, 0, 0],
    "forgotten_flag": [3, 0, 0],
    "layernorm": [1, 0, 0],
    "matmul_leaky_relu": [1, 0, 0],
    "ragged_rows": [2, 1, 0],
    "reduction": [2, 0, 0],
    "softmax": [1, 0, 0],
    "tuned_add": [0, 2, 0],
}
FAST = ("03_events_and_timing", "error_paths", "add_flags")
UNKNOWN = ("subscribe",)  # what the oracle does not know


def programs(path, monkeypatch):
    """The programs of a sample, as documents, each with its rules and its device."""
    for number, (timeline, profile) in enumerate(timelines(path, monkeypatch)):
        document = recorded.program(timeline, f"{path.stem} {number}")
        known = not {step["op"] for step in document["steps"]} & {*UNKNOWN}
        if known and len(document["steps"]) <= MOST_STEPS:
            yield document, timeline.rules, profile


def judged(document, rules, profile):
    """Whether the sanitizer finds something in a program; None if that waits without end. It agrees with the oracle."""
    program = parse(document)
    try:
        outcome = run(program, rules, device=profile)
    except DeadlockError:
        return None
    calls = read(program, rules, outcome.run)
    difference = difference_of(program.id, pairs(calls, Promises(calls)), outcome)
    assert not difference, difference
    return bool(outcome.triples)


def leave_out_each(path, monkeypatch):
    """How many programs with a step less have a finding, have none, and wait without end."""
    counts = {True: 0, False: 0, None: 0}
    for document, rules, profile in programs(path, monkeypatch):
        judged(document, rules, profile)
        for _, less in without_each(document):
            counts[judged(less, rules, profile)] += 1
    return [*counts.values()]


@pytest.mark.parametrize(
    "sample", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in COUNTS]
)
def test_the_sanitizer_sees_what_each_step_of_a_sample_is_good_for(sample, monkeypatch):
    [path] = [path for path in SAMPLES if path.stem == sample]
    counts = leave_out_each(path, monkeypatch)
    assert counts == (COUNTS[sample] or counts)
