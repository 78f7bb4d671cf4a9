"""The random timelines: how long the whole takes, within a few percent of the card."""

from criteria import distribution, makespan_error, measured, replayed

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
