"""Figures show a timeline in the colours of the page, and can be read without colours."""

import re

import pytest

import acl_py as acl
from acl_py.trace.page import Page, Run
from acl_py.trace.rows.timeline import Timeline


@pytest.fixture
def figure():
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'")
    from acl_py.trace import figure

    return figure


@pytest.mark.slow
def test_a_timeline_tells_kinds_of_work_apart_without_colours(figure):
    looks = [look for _, look in figure.STYLES.values()]
    assert len({tuple(sorted(look.items())) for look in looks}) == len(looks)


def test_a_figure_has_the_colours_of_the_page(figure, traced):
    from matplotlib.colors import to_hex

    timeline = traced("named").timeline()
    drawn = figure.draw({"named": timeline}, rows="engines")
    colours = {to_hex(patch.get_facecolor()) for axes in drawn.axes for patch in axes.patches}
    html = Page([Run("named", timeline)]).html()
    kinds = {op.kind for op in timeline.ops} | {"call", "held"}
    assert colours == {re.search(f"--{kind}: (#[0-9a-f]+);", html)[1] for kind in kinds}


def test_what_overlaps_in_a_row_of_a_timeline_is_drawn_one_below_the_other(figure):
    boxes = [figure.Box(start, end, "kernel", "") for start, end in [(0, 10), (5, 15), (10, 20), (30, 40)]]
    places = [(level, levels) for _, level, levels in figure._stacked(boxes)]
    assert places == [(0, 2), (1, 2), (0, 2), (0, 1)]


def test_calls_that_follow_one_another_are_one_box_of_a_timeline(figure):
    boxes = [figure.Box(0, 3, "call", "a"), figure.Box(3, 5, "call", "b"), figure.Box(5, 9, "held", "c")]
    assert figure._together(boxes) == [figure.Box(0, 5, "call", "2 calls"), figure.Box(5, 9, "held", "c")]


def test_every_kind_of_operation_is_drawn(figure, traced):
    drawn = figure.draw({"all": traced("every_kind").timeline(), "named": traced("named").timeline()}, rows="both")
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in drawn.axes]
    assert labels == [
        ["host", "legacy", "stream 1", "cores", "copy out", "host thread"],
        ["host", "stream 3", "stream 'uploads'", "stream 'maths'", "copy in", "cores"],
    ]
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["all", "named"]


def test_a_timeline_begins_with_the_launch_of_a_graph(figure):
    @acl.kernel(cost=acl.Cost(us=5))
    def step():
        pass

    async def program():
        stream = await acl.CreateStream()
        async with acl.capture(stream) as graph:
            await step[1, stream]()
        executable = await acl.GraphInstantiate(graph)
        begin = acl.current_simulation().now_ns
        await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)
        return begin, acl.current_simulation().trace.timeline()

    begin, timeline = acl.run(program, device="h200")
    start, lanes = figure._rows("all", timeline, "streams", None)
    assert start == begin
    assert lanes["host"][0].label == "GraphLaunch"


def test_rows_and_timelines_that_cannot_be_drawn_are_refused(figure, traced):
    with pytest.raises(ValueError, match="the timeline 'nothing' has no operations to draw"):
        figure.draw({"nothing": Timeline()})
    with pytest.raises(ValueError, match='rows must be "streams", "engines" or "both", not \'pipes\''):
        figure.draw({"one": traced("one_of_each").timeline()}, rows="pipes")
