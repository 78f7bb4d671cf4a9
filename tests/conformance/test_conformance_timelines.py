"""The random timelines: how long the whole takes, within a few percent of the card."""

import pytest
from criteria import distribution, is_within_runs, late_starts, makespan_error, measured, replayed, uses

ERRORS = {}  # by id


def errors():
    if not ERRORS:
        for document in measured("timelines"):
            ERRORS[document["id"]] = makespan_error(document, replayed("timelines", document["id"]))
    return ERRORS


def test_makespans_are_close_to_the_card():
    median, p90, _ = distribution(list(errors().values()))
    assert median <= 3
    assert p90 <= 10


def test_makespans_stay_as_close_as_they_were():
    """What was reached (docs/accuracy.md), with room for rounding: a change that loses it should say so."""
    median, p90, worst = distribution(list(errors().values()))
    assert median <= 0.7
    assert p90 <= 3
    assert worst <= 10


def test_both_halves_are_as_close():
    """The few fitted numbers were not fitted to one half."""
    values = list(errors().values())
    for half in (values[::2], values[1::2]):
        median, p90, _ = distribution(half)
        assert median <= 1
        assert p90 <= 4


def test_no_bias():
    values = list(errors().values())
    assert abs(sum(values) / len(values)) <= 0.5


def test_kernels_last_as_long_as_their_own_clocks_say():
    """Waves, held-back kernels, shared cores: 894 of 902 kernels were within 4 us when this was written."""
    off = total = 0
    for document in measured("timelines"):
        ours = replayed("timelines", document["id"]).device
        for id_, (start, end) in document["observed"]["kernel_stamps_us"].items():
            total += 1
            off += abs(ours[id_].end_us - ours[id_].start_us - (end - start)) > 4
    assert total == 902
    assert off <= 12


# --- the second generation, each with its host's overlay; what lies between the card's runs is no error


def second():
    """The error of each program, %, and whether it copies pageable memory or has host functions."""
    for document in measured("timelines2"):
        ours = replayed("timelines2", document["id"])
        error = 0.0 if is_within_runs(document, ours.makespan_us) else makespan_error(document, ours)
        yield error, any(uses(document))


@pytest.mark.slow
def test_programs_of_another_kind_stay_as_close_as_they_were():
    """Nothing was fitted to their makespans. A third of them ran while their host was slower: docs/accuracy.md."""
    errors = list(second())
    median, p90, worst = distribution([error for error, _ in errors])
    assert (len(errors), median <= 1, p90 <= 13.5, worst <= 22) == (80, True, True, True)
    median, p90, worst = distribution([error for error, uses_host in errors if not uses_host])
    assert (median <= 1, p90 <= 3.5, worst <= 9) == (True, True, True)


@pytest.mark.slow
def test_half_of_their_kernels_start_when_the_cards_do():
    starts = [
        pair
        for document in measured("timelines2")
        for pair in late_starts(document, replayed("timelines2", document["id"]))
    ]
    assert len(starts) == 1524
    assert sum(abs(here - there) <= max(3, 0.03 * there) for there, here in starts) >= 850


@pytest.mark.parametrize(
    "id_", ["host-func-chain-1", "host-func-chain-16", "host-func-streams-1", "host-func-streams-16"]
)
def test_host_functions_cost_what_their_thread_needs_to_wake_up(id_):
    [document] = [each for each in measured("staging") if each["id"] == id_]
    assert is_within_runs(document, replayed("staging", id_).makespan_us)
