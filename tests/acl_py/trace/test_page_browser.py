"""The page in a browser: opened from disk, without a network. It needs Chromium and Playwright.

apt-get install chromium; pip install -e '.[browser]'
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from io import BytesIO

import pytest
from PIL import Image

import acl_py
from acl_py import Cost, MemcpyKind
from acl_py.trace.page import Finding, Page, PathPart, Run
from acl_py.trace.rows.timeline import Call, Operation, Timeline
from acl_py.trace.views.colours import COLOURS
from device_model.completions import Why

pytestmark = pytest.mark.slow
SIZE = 10_000


@acl_py.kernel(cost=Cost(us=20))
def scale():
    pass


async def uploads_and_kernels(streams, rounds):
    host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
    made = [await acl_py.CreateStream(name=f"lane {number}") for number in range(streams)]
    event = await acl_py.CreateEvent(name="copied")
    for _ in range(rounds):
        for stream in made:
            await acl_py.MemcpyAsync(device, SIZE, host, SIZE, MemcpyKind.HOST_TO_DEVICE, stream)
            await acl_py.RecordEvent(event, stream)
            await acl_py.StreamWaitEvent(made[0], event)
            await scale[1, stream]()
    await acl_py.SynchronizeDevice()


@cache
def timeline_of(streams=2, rounds=3):
    """The timeline of a run, in a thread of its own: Playwright has a running loop in this one."""

    async def main():
        async with acl_py.simulate(device="tiny") as sim:
            await uploads_and_kernels(streams, rounds)
        return sim.trace.timeline()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()


def window(page):
    return page.evaluate("[chart.begin, chart.end]")


def facts(page):
    return page.inner_text("#selection")


def point_at(page, table, row):
    """Where the box of a row is on the screen."""
    return page.evaluate(
        f"""(() => {{
            const box = chart.boxOf(runs[0], "{table}", {row});
            const frame = chart.scroller.getBoundingClientRect();
            return [frame.left + (box.left + box.right) / 2, frame.top + box.top + box.height / 2 - chart.scroll];
        }})()"""
    )


def pixels(page):
    """The colours of the timeline on the screen."""
    picture = Image.open(BytesIO(page.locator("#lanes").screenshot())).convert("RGB")
    return {"#{:02x}{:02x}{:02x}".format(*colour) for _, colour in picture.getcolors(picture.width * picture.height)}


def test_the_tables_are_decoded_as_they_were_written(opened):
    timeline = timeline_of()
    page = opened(Run("a run", timeline, since_ns=0))
    rows = page.evaluate(
        "Array.from(runs[0].ops.start, (start, row) => [nameOf(runs[0], 'ops', row), start, runs[0].ops.end[row]])"
    )
    assert rows == [[op.name, op.start_ns, op.end_ns] for op in timeline.ops]
    assert page.evaluate("Array.from(runs[0].calls.start)") == [call.enter_ns for call in timeline.calls]


def test_each_lane_is_drawn_in_its_colours(opened):
    page = opened(Run("a run", timeline_of()))
    labels = page.evaluate("chart.rows.map((row) => row.lane?.label ?? row.label)")
    assert labels == ["host", "Streams", "stream 'lane 0'", "stream 'lane 1'", "Engines", "H2D", "cores"]
    assert {"#2463c9", "#1f7a44", "#e2d6b5"} <= pixels(page)  # copies to the device, kernels, calls


def test_what_begins_in_the_pixel_of_something_narrow_is_drawn(opened):
    narrow = Operation("fill", "fill", "stream 1", "cores", 0, 0, 1, 0, "a.py:1", 0)
    wide = Operation("kernel", "kernel", "stream 1", "cores", 0, 1, 10_000, 0, "a.py:2", 0)
    assert "#1f7a44" in pixels(opened(Run("a run", Timeline(ops=[narrow, wide]))))


def test_a_gap_has_the_colour_of_its_cause(opened):
    page = opened(Run("a run", timeline_of(1), since_ns=0))
    gaps = page.evaluate("chart.lanes.map((lane) => [lane.label, [...new Set(lane.gaps.tones)].sort()])")
    assert "#64b5c6" in pixels(page)
    assert dict(map(tuple, gaps))["cores"] == ["cause-2"]
    legend = page.inner_text("#legend")
    assert "idle because of" in legend
    assert "an event or notify" in legend


def test_what_the_host_gave_late_is_told_from_what_had_to_wait(opened):
    """The second operation is queued at 50, and waits for its stream. A call that begins at 140 stages the third."""

    def copy(queued, start, end, why):
        return Operation("h2d", "h2d", "stream 1", "H2D", queued, start, end, 8, "a.py:1", 0, why=why)

    ops = [copy(0, 0, 10, Why.HOST), copy(50, 80, 100, Why.ORDER), copy(170, 180, 200, Why.STAGING)]
    page = opened(Run("a run", Timeline(ops=ops, calls=[Call("Memcpy", 140, 210, "a.py", 1, "task 1")]), since_ns=0))
    gaps = page.evaluate(
        "chart.lanes.filter((lane) => lane.table === 'ops')"
        ".map(({ gaps }) => gaps.tones.map((tone, place) => [gaps.begin[place], gaps.end[place], tone]))"
    )
    host, order, staging = (f"cause-{why.value}" for why in (Why.HOST, Why.ORDER, Why.STAGING))
    assert gaps == [[[10, 50, host], [50, 80, order], [100, 140, host], [140, 180, staging]]] * 2


def test_zoom_and_pan_with_keys_wheel_and_buttons(opened):
    page = opened(Run("a run", timeline_of()))
    begin, end = window(page)
    page.keyboard.press("+")
    closer = window(page)
    assert begin < closer[0] < closer[1] < end
    page.keyboard.press("ArrowRight")
    assert window(page)[0] > closer[0]
    page.keyboard.press("0")
    assert window(page) == pytest.approx([begin, end])
    page.keyboard.press("w")
    assert window(page) == pytest.approx(closer)
    page.keyboard.press("d")
    assert window(page)[0] > closer[0]
    page.keyboard.press("a")
    page.keyboard.press("s")
    assert window(page) == pytest.approx([begin, end])
    x, y = point_at(page, "ops", 0)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(f"chart.end - chart.begin < {end - begin}")
    page.click("#fit")
    assert window(page) == pytest.approx([begin, end])
    page.mouse.move(700, 700)
    page.mouse.down()
    page.mouse.move(500, 700, steps=4)
    page.mouse.up()
    assert window(page)[0] > begin


def test_shift_and_drag_selects_a_span(opened):
    page = opened(Run("a run", timeline_of()))
    before = begin, end = window(page)
    page.keyboard.down("Shift")
    page.mouse.move(400, 700)
    page.mouse.down()
    page.mouse.move(600, 700, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    first, last = page.evaluate("chart.span")
    assert last - first == pytest.approx((end - begin) * 200 / page.evaluate("chart.width - chart.left"), rel=0.02)
    page.keyboard.press("f")
    assert window(page) == pytest.approx([first - 0.3 * (last - first), last + 0.3 * (last - first)])
    page.keyboard.press("Escape")
    page.keyboard.press("0")
    assert (page.evaluate("chart.span"), window(page)) == (None, pytest.approx(before))


def test_a_click_selects_and_shows_what_it_waited_for(opened):
    page = opened(Run("a run", timeline_of()))
    kernel = page.evaluate("Array.from(runs[0].ops.name).findIndex((name) => runs[0].text(name) === 'scale')")
    page.mouse.click(*point_at(page, "ops", kernel))
    assert re.search(r"scale\nkind\nkernel\nlasts\n20 µs", facts(page))
    page.click("#selection button:has-text('h2d')")
    assert facts(page).split("\n")[1] == "h2d"
    page.keyboard.press(".")
    assert facts(page).split("\n")[1] == "scale"
    page.keyboard.press("Escape")
    assert "Click something" in facts(page)


def test_a_wait_leads_to_its_record(opened):
    timeline = timeline_of()
    page = opened(Run("a run", timeline))
    wait = next(index for index, step in enumerate(timeline.steps) if step.kind == "wait" and step.record is not None)
    page.evaluate(f"select({{ kind: 'item', run: runs[0], table: 'steps', row: {wait} }})")
    assert "kind\nwait" in facts(page)
    page.click("#selection button:has-text('copied')")
    assert "kind\nrecord" in facts(page)


def test_the_tip_tells_of_bars_and_gaps(opened):
    page = opened(Run("a run", timeline_of(1)))
    page.mouse.move(*point_at(page, "ops", 0))
    assert page.inner_text("#tip").startswith("h2d")
    gap = page.evaluate(
        """(() => {
            const lane = chart.lanes.find((each) => each.label === "cores");
            const frame = chart.scroller.getBoundingClientRect();
            return [frame.left + chart.xOf((lane.gaps.begin[0] + lane.gaps.end[0]) / 2), frame.top + lane.top + 8];
        })()"""
    )
    page.mouse.move(*gap)
    assert "idle" in page.inner_text("#tip")
    assert "because of" in page.inner_text("#tip")


def test_search_counts_and_goes_from_match_to_match(opened):
    page = opened(Run("a run", timeline_of()))
    page.keyboard.press("/")
    page.keyboard.type("LANE 1")
    found = page.evaluate("search.rows.length")
    assert found > 3
    assert page.inner_text("#matches") == f"{found} found"
    page.keyboard.press("Enter")
    assert page.inner_text("#matches") == f"1 of {found}"
    assert "lane 1" in facts(page)
    page.keyboard.press("Escape")
    assert page.inner_text("#matches") == ""


def test_a_finding_leads_to_its_place(opened):
    timeline = timeline_of()
    op = timeline.ops[-1]
    found = Finding(
        "The last kernel\nis late.", op.site, op.start_ns, op.end_ns, (len(timeline.ops) - 1,), worth_ns=1_500
    )
    page = opened(Run("a run", timeline, [found], since_ns=0))
    lines = ["Findings (1)", op.site, "worth 1.5 µs", "await scale[1, stream]()", "The last kernel", "is late."]
    assert page.inner_text("#findings").split("\n") == lines
    page.click("#findings button")
    begin, end = window(page)
    assert begin < op.start_ns < op.end_ns < end
    assert end - begin < 3 * (op.end_ns - op.start_ns)
    assert page.get_attribute("#findings button", "aria-current") == "true"


def test_the_lines_that_an_edit_changes_are_code(opened):
    timeline = timeline_of()
    op = timeline.ops[-1]
    changed = ["- a.py:1: await one()", "+ behind a.py:1: await other()"]
    text = "\n".join(["It waits.", "- Use another one: see a.py:1", *changed])
    page = opened(Run("a run", timeline, [Finding(text, op.site, op.start_ns, op.end_ns)]))
    assert page.locator("#findings .more code").all_inner_texts() == changed
    assert page.locator("#findings .more span").all_inner_texts() == ["- Use another one: see a.py:1"]


def test_runs_are_compared_on_one_axis(opened):
    page = opened(Run("before", timeline_of(1), since_ns=0), Run("after", timeline_of(3, 1), since_ns=0))
    rows = page.inner_text("#runs").split("\n")
    assert rows[:2] == ["Runs", "before"]
    assert re.search(r"after.*µs\t−[\d.]+ %", page.inner_text("#runs"), re.DOTALL)
    before = page.evaluate("chart.rows.length")
    x, y = page.evaluate("[40, chart.scroller.getBoundingClientRect().top + chart.rows[0].top + 10]")
    page.mouse.click(x, y)  # its heading closes a run
    assert page.evaluate("chart.rows.length") < before


def test_the_critical_path_is_shown_on_demand(opened):
    timeline = timeline_of()
    first = timeline.ops[0]
    path = [
        PathPart(0, first.start_ns, "host", 0),
        PathPart(first.start_ns, first.end_ns, "work", 0),
        PathPart(first.end_ns, timeline.end_ns, "program"),
    ]
    page = opened(Run("a run", timeline, critical=path))
    assert page.evaluate("chart.lanes[0].levels[0].tones") == ["cause-0", "h2d", "program"]
    assert "#d11149" not in pixels(page)
    page.keyboard.press("c")
    assert "#d11149" in pixels(page)


@pytest.mark.parametrize(("scheme", "kernel"), [("light", "#1f7a44"), ("dark", "#2c8a53")])
def test_the_theme_is_that_of_the_system_until_it_is_changed(opened, scheme, kernel):
    page = opened(Run("a run", timeline_of()), scheme=scheme)
    assert kernel in pixels(page)
    page.keyboard.press("t")
    assert kernel not in pixels(page)


def test_a_narrow_screen_has_everything_below_one_another(opened):
    page = opened(Run("a run", timeline_of()))
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("chart.width === 400")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    box = page.locator("aside").bounding_box()
    assert (box["x"], box["width"]) == (0, 400)
    assert "#1f7a44" in pixels(page)


def test_a_frame_on_a_phone_has_its_buttons_in_one_line(opened):
    timeline = timeline_of()
    page = opened(Run("a run", timeline, critical=[PathPart(0, timeline.end_ns, "program")]))  # so no button is hidden
    page.set_viewport_size({"width": 358, "height": 620})
    tops = "new Set([...document.querySelectorAll('.buttons button')].map((each) => each.getBoundingClientRect().top))"
    assert page.evaluate(f"{tops}.size") == 1


def test_paper_has_a_picture_of_each_run_in_light_colours(opened):
    page = opened(Run("one", timeline_of()), Run("two", timeline_of()), scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#paper canvas").count() == 2
    first = page.evaluate("[...document.querySelector('#paper canvas').getContext('2d').getImageData(1, 1, 1, 1).data]")
    assert first == [255, 255, 255, 255]
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#paper canvas").count() == 0


def test_an_empty_run_says_so(opened):
    page = opened(Run("a run", Timeline(device="tiny", rules="cuda")))
    assert page.is_visible("text=Nothing ran")


def test_an_error_is_at_the_top(opened):
    page = opened(Run("a run", replace(timeline_of(), error="deadlock:\n  <b>stream 1</b> waits")))
    assert page.inner_text("#error pre") == "deadlock:\n  <b>stream 1</b> waits"


def test_odd_names_are_shown_as_they_are(opened):
    odd = "</script><b>'ü\" 流"
    timeline = timeline_of()
    page = opened(Run(odd, replace(timeline, ops=[timeline.ops[0]._replace(name=odd, after=None)], calls=[])))
    assert page.inner_text("h1") == odd
    page.keyboard.press(".")
    assert facts(page).split("\n")[1] == odd


def test_a_notebooks_frame_shows_the_page(browser, tmp_path):
    framed = Page([Run("a run", timeline_of())])._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset='utf-8'>{framed}", encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "notebook.html").as_uri())
    assert page.frame_locator("iframe").locator("h1").inner_text() == "a run"
    page.close()


def until(frame, condition):
    """Wait in a *frame* of a page, whose rules let nothing be evaluated there, until *condition* holds."""
    frame.evaluate(f"new Promise((go) => {{ const look = () => {condition} ? go() : setTimeout(look, 10); look(); }})")


def test_a_page_that_is_folded_away_is_drawn_when_it_is_unfolded(opened, tmp_path):
    """As below a picture of a notebook: until then it has no size."""
    run = Run("a run", timeline_of())
    page = opened(run)
    folded = tmp_path / "folded.html"
    folded.write_text(f"<details><summary>more</summary>{Page([run])._repr_html_()}</details>", encoding="utf-8")
    page.goto(folded.as_uri())
    frame = page.locator("iframe").element_handle().content_frame()
    until(frame, "chart.onDraw !== undefined")
    assert frame.evaluate("chart.width * chart.height") == 0
    page.click("summary")
    until(frame, "chart.width * chart.height > 0 && overview.width > 0 && !chart.isWaiting")
    assert COLOURS["kernel"] in pixels(frame)
