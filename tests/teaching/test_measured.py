"""Measured programs come with the package, and their model runs beside them."""

import pytest

from acl_py import teaching


def test_a_card_s_record_on_the_default_stream_kept_two_streams_apart():
    measured, modelled = teaching.card("legacy-event-only"), teaching.model("legacy-event-only")
    for found in (measured, modelled):
        assert found.ran["b"][0] >= found.ran["a"][1]
        assert found.question == "does an event record on legacy alone serialise blocking streams?"
    assert modelled.makespan_us == pytest.approx(measured.makespan_us, rel=0.05)
    assert measured.us_of("sync_device") == 5991.21


def test_a_program_that_was_not_measured_is_refused():
    with pytest.raises(teaching.NotebookError, match="There is no measured program 'moon'; there are "):
        teaching.card("moon")
