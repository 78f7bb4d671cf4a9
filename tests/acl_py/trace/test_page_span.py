"""A span of time on the page: its table, its findings and its engines; and the link that restores them."""

import re
from dataclasses import replace

import pytest

from acl_py.trace.page import Finding, Run
from acl_py.trace.rows.source import SourceLine
from acl_py.trace.rows.timeline import Call, Operation, StreamStep, Timeline

pytestmark = pytest.mark.slow


def op(name, stream, engine, start_us, end_us, line):
    kind = {"H2D": "h2d", "cores": "kernel"}[engine]
    return Operation(name, kind, stream, engine, 0, start_us * 1000, end_us * 1000, 0, f"a.py:{line}", 0)


# Queued at 0; the second copy starts in the span from 15 to 45 microseconds, the first kernel ends in it.
TIMELINE = Timeline(
    ops=[
        op("up", "stream 1", "H2D", 0, 10, 1),
        op("scale", "stream 1", "cores", 10, 30, 2),
        op("up", "stream 2", "H2D", 20, 30, 1),
        op("scale", "stream 2", "cores", 30, 50, 2),
    ],
    calls=[
        Call("MemcpyAsync", 0, 4_000, "a.py", 1, "task 1"),
        Call("SynchronizeDevice", 4_000, 50_000, "a.py", 3, "task 1"),
    ],
)
FIRST = Finding("The first copy is late", "a.py:1", 0, 10_000, ops=(0,), held_ns=5_000)
BOTH = Finding(
    "Kernels wait", "a.py:2", 10_000, 50_000, ops=(1, 3), worth_ns=2_000, waits=[(0, 10_000), (26_000, 30_000)]
)


@pytest.fixture
def page(opened):
    return opened(Run("a run", TIMELINE, [FIRST, BOTH], since_ns=0), width=1280)


def choose(page, begin_us, end_us):
    page.evaluate(f"chooseSpan([{begin_us * 1000}, {end_us * 1000}])")


def rows(page):
    return [line.split("\t") for line in page.inner_text("#span-rows table").split("\n")]


def said(page):
    return page.inner_text("#span-says")


def test_a_span_adds_up_what_ran_in_it_by_line_and_name(page):
    choose(page, 15, 45)
    assert rows(page) == [
        ["line", "name", "count", "sum ↓", "mean", "longest", "share"],
        ["a.py:2", "scale", "2", "30 µs", "15 µs", "15 µs", "100 %"],
        ["a.py:1", "up", "1", "10 µs", "10 µs", "10 µs", "33.3 %"],
    ]
    assert said(page) == "3 operations in 30 µs"


def test_the_text_of_a_line_is_beside_it(opened):
    odd = "await <b>Memcpy</b>(x)"
    source = [SourceLine("a.py:2", odd)]
    page = opened(Run("a run", replace(TIMELINE, source=source), [BOTH], since_ns=0))
    choose(page, 15, 45)
    assert [row[0] for row in rows(page)[1:]] == [f"a.py:2{odd}", "a.py:1"]
    page.click("#span-rows tbody button >> nth=0")
    assert page.inner_text("#selection .source") == page.inner_text("#findings .source") == odd


def test_the_columns_that_make_a_row_can_be_chosen(page):
    choose(page, 15, 45)
    for name in ("line", "stream", "engine"):
        page.click(f"#span-by button:text-is('{name}')")
    assert [row[:5] for row in rows(page)[1:]] == [
        ["scale", "stream 1", "cores", "1", "15 µs"],
        ["scale", "stream 2", "cores", "1", "15 µs"],
        ["up", "stream 2", "H2D", "1", "10 µs"],
    ]
    for name in ("name", "stream", "engine"):
        page.click(f"#span-by button:text-is('{name}')")
    assert rows(page)[1] == ["all", "3", "40 µs", "13.333 µs", "15 µs", "133.3 %"]


def test_a_table_of_host_calls_has_their_tasks(page):
    choose(page, 2, 14)
    page.click("#span-of button:text-is('host calls')")
    page.click("#span-by button:text-is('task')")
    assert [row[:5] for row in rows(page)[1:]] == [
        ["a.py:3", "SynchronizeDevice", "task 1", "1", "10 µs"],
        ["a.py:1", "MemcpyAsync", "task 1", "1", "2 µs"],
    ]


def test_a_click_on_a_heading_sorts_and_another_one_turns_the_order(page):
    choose(page, 0, 50)
    page.click("#span-rows th button:text-is('line')")
    assert [row[0] for row in rows(page)] == ["line ↑", "a.py:1", "a.py:2"]
    page.click("#span-rows th button:text-is('line ↑')")
    assert [row[0] for row in rows(page)] == ["line ↓", "a.py:2", "a.py:1"]
    assert page.get_attribute("#span-rows th >> nth=0", "aria-sort") == "descending"


def test_a_row_leads_to_the_longest_of_what_it_adds_up(page):
    choose(page, 25, 50)
    page.click("#span-rows tbody button:text-is('a.py:2')")
    assert page.evaluate("chart.selected.row") == 3


def test_runs_have_a_column_of_their_own(opened):
    page = opened(Run("one", TIMELINE, since_ns=0), Run("two", TIMELINE, since_ns=0))
    choose(page, 0, 15)
    assert [row[:3] for row in rows(page)] == [
        ["run", "line", "name"],
        ["one", "a.py:1", "up"],
        ["two", "a.py:1", "up"],
        ["one", "a.py:2", "scale"],
        ["two", "a.py:2", "scale"],
    ]


def test_the_table_is_saved_as_csv_with_nanoseconds(page):
    choose(page, 15, 45)
    with page.expect_download() as download:
        page.click("#span-save")
    assert download.value.suggested_filename == "table.csv"
    assert download.value.path().read_bytes().decode() == (
        "line,name,count,sum_ns,mean_ns,longest_ns,share\r\n"
        "a.py:2,scale,2,30000,15000,15000,1\r\n"
        "a.py:1,up,1,10000,10000,10000,0.333333\r\n"
    )


def test_the_table_is_copied_as_csv(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    choose(page, 15, 45)
    page.click("#span-copy")
    page.wait_for_selector("text=The table is in the clipboard.")
    assert page.evaluate("navigator.clipboard.readText()").splitlines()[2] == "a.py:1,up,1,10000,10000,10000,0.333333"


def test_a_spreadsheet_computes_nothing_that_a_name_says(opened):
    odd = op('=1+1,"x"', "stream 1", "H2D", 0, 10, 1)
    page = opened(Run("a run", Timeline(ops=[odd]), since_ns=0))
    choose(page, 0, 10)
    text = page.evaluate("csvOf(runs, chart.span)")
    assert text.splitlines()[1] == 'a.py:1,"\'=1+1,""x""",1,10000,10000,10000,1'


def test_findings_and_engines_are_those_of_the_span(page):
    assert page.inner_text("#findings h2") == "Findings (2)"
    choose(page, 25, 29)
    assert page.inner_text("#findings").split("\n") == [
        "Findings in the span (1 of 2)",
        *("a.py:2", "worth 2 µs", "Kernels wait", "1 of 2 times in the span, held 3 µs there"),
    ]
    assert page.inner_text("#use h2") == "Engines in the span"
    assert page.locator("#use p").all_inner_texts() == ["H2D\n100 % busy", "cores\n100 % busy"]
    choose(page, 35, 45)
    assert page.locator("#use p").all_inner_texts() == ["H2D\n0 % busy", "cores\n100 % busy"]
    choose(page, 60, 70)
    assert page.inner_text("#findings .hint") == "None of them is in the span."
    page.keyboard.press("Escape")
    assert page.inner_text("#findings").split("\n")[:3] == ["Findings (2)", "a.py:1", "held 5 µs, no price"]


def test_a_span_without_work_is_one_sentence(page):
    choose(page, 60, 70)
    assert said(page) == "No operations between 60 µs and 70 µs."
    assert not page.is_visible("#span-rows")


@pytest.mark.parametrize(
    ("begin", "end", "wrong"),
    [
        ("30", "20", "The span is empty: its end has to be behind its begin."),
        ("20", "20", "The span is empty: its end has to be behind its begin."),
        ("soon", "20", '"soon" is not a time: write microseconds, as 12.5.'),
        ("12,5", "20", '"12,5" is not a time: write microseconds, as 12.5.'),
        ("0", "", '"" is not a time: write microseconds, as 12.5.'),
    ],
)
def test_what_is_no_span_is_said_and_changes_nothing(page, begin, end, wrong):
    choose(page, 15, 45)
    page.evaluate("(text) => { byId('span-from').value = text }", begin)
    page.fill("#span-to", end)
    page.keyboard.press("Enter")
    assert said(page) == wrong
    assert page.evaluate("chart.span") == [15_000, 45_000]


def test_the_keyboard_alone_selects_sorts_and_closes(page):
    page.keyboard.press("r")
    assert page.evaluate("chart.span") == [0, 50_000]
    page.focus("#span-from")
    page.keyboard.type("15")
    page.keyboard.press("Tab")
    page.keyboard.type("45")
    page.keyboard.press("Tab")
    assert page.evaluate("chart.span") == [15_000, 45_000]
    order = []
    for _ in range(20):
        order.append(page.evaluate("document.activeElement.textContent"))
        page.keyboard.press("Tab")
    heads = ["line", "name", "count", "sum ↓", "mean", "longest", "share"]
    assert order[:10] == [
        "operations",
        "host calls",
        "line",
        "name",
        "stream",
        "engine",
        "Zoom",
        "Copy CSV",
        "Save CSV",
        "×",
    ]
    assert order[11:20] == [*heads, "a.py:2", "a.py:1"]
    page.focus("#span-by button >> nth=0")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.textContent") == "line"
    assert rows(page)[0][0] == "name"
    shown = page.evaluate("[chart.begin, chart.end]")
    page.focus("#span-rows")
    page.keyboard.press("ArrowRight")  # scrolls the table
    assert page.evaluate("[chart.begin, chart.end]") == shown
    page.keyboard.press("Escape")
    assert not page.is_visible("#span")


def test_the_address_restores_what_is_in_view_the_table_and_the_selection(opened):
    page = opened(Run("a run", TIMELINE, [FIRST, BOTH], since_ns=0))
    assert "#" not in page.url
    page.evaluate("chart.show(10000, 40000); chooseSpan([15000, 45000])")
    page.evaluate("select({ kind: 'item', run: runs[0], table: 'ops', row: 2 })")
    page.click("#span-by button:text-is('stream')")
    page.click("#span-rows th button:text-is('count')")
    page.wait_for_url(re.compile("count"))
    link = "#" + page.url.partition("#")[2]
    assert link == "#view=10,40&table=ops,count,down,line,name,stream&span=15,45&selected=0,ops,2"
    turned = "#" + "&".join(reversed(link[1:].split("&")))  # parts may come in any order
    other = opened(Run("a run", TIMELINE, since_ns=0), link=turned)
    assert (other.evaluate("[chart.begin, chart.end, chart.selected.row]"), rows(other)) == (
        [10_000, 40_000, 2],
        rows(page),
    )
    page.keyboard.press("Escape")
    page.keyboard.press("0")
    page.wait_for_url(re.compile(r"page\.html$"))


@pytest.mark.parametrize(
    "part", ["view=5", "view=9,1", "span=a,b", "table=ops,size,down", "selected=0,ops,99", "%", "zoom=3"]
)
def test_a_link_that_this_page_does_not_have_says_so(opened, part):
    page = opened(Run("a run", TIMELINE, since_ns=0), link=f"#{part}&span=0,10")
    assert page.inner_text("#notice") == f'The link has "{part}", which this page does not have. It is left out.'
    assert page.evaluate("[chart.begin < 0, chart.span]") == [True, [0, 10_000]]


def test_pins_that_pile_up_are_one_bundle(opened):
    steps = [
        StreamStep("record", f"event {number}", "stream 1", 0, at, at, "a.py:4", "task 1")
        for number, at in enumerate([9_000, 9_010, 9_020, 40_000])
    ]
    page = opened(Run("a run", Timeline(ops=TIMELINE.ops, steps=steps), since_ns=0))
    lane = "chart.lanes.find((each) => each.points.count)"
    counts = f"pinsOf(chart, {lane}).map(({{ first, last }}) => last - first + 1)"
    assert page.evaluate(counts) == [3, 1]
    frame = page.locator("#scroller").bounding_box()
    x, y = frame["x"] + page.evaluate("chart.xOf(9010)"), frame["y"] + page.evaluate(f"{lane}.top") + 2
    page.mouse.move(x, y)
    assert page.inner_text("#tip") == "3 records"
    page.mouse.click(x, y)
    bundled = [f"event {number}, stream 1" for number in range(3)]
    assert page.inner_text("#selection").split("\n")[1:] == ["3 records", *bundled, "Zoom to them"]
    page.click("#selection button:text-is('Zoom to them')")
    assert page.evaluate(counts) == [1, 1, 1]


def test_the_overview_has_a_row_for_each_run(opened):
    page = opened(Run("one", TIMELINE, since_ns=0), Run("two", Timeline(ops=[TIMELINE.ops[0]]), since_ns=0))
    width = page.evaluate("overview.clientWidth")
    data = page.evaluate("[...overview.getContext('2d').getImageData(0, 0, overview.width, overview.height).data]")

    def colour(us, row):
        place = 4 * (round(page.evaluate(f"overviewX({us * 1000}, {width})")) + (8 + 12 * row) * width)
        return data[place : place + 4]

    up, scale = [0x24, 0x63, 0xC9, 255], [0x1F, 0x7A, 0x44, 255]
    assert [[colour(us, row) for us in (5, 45)] for row in range(2)] == [[up, scale], [up, [0, 0, 0, 0]]]
