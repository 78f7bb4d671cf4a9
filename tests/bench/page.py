"""The page of a timeline: its size, and how smoothly a browser moves it.

The browser is Chromium, driven by Playwright: `apt-get install chromium; pip install -e '.[browser]'`.
"""

import asyncio
import shutil
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import acl_py
from acl_py.trace.page import Page, Run
from tests.bench.measure import say, show, target

SIZES = (10_000, 100_000)
MOST_OPENING_S = 3  # until the largest page is drawn
SHARES = (1, 0.3, 0.1, 0.01)  # of the whole time that the window shows
STREAMS = 8
SIZE = 10_000  # bytes of a copy
MOST_BYTES = 1_000_000  # for 10,000 operations
LEAST_FRAMES = 30  # a second

# Moves the window 60 times, each time when the browser asks for the next frame.
PAN = """async (share) => {
    const [begin, end] = chart.home();
    const span = (end - begin) * share;
    const [frames, started] = [60, performance.now()];
    let drawing = 0;
    for (let frame = 0; frame < frames; frame++) {
        await new Promise(requestAnimationFrame);
        const from = begin + ((end - begin - span) * frame) / frames + frame;
        const before = performance.now();
        [chart.begin, chart.end] = [from, from + span];
        chart.draw();
        drawing += performance.now() - before;
    }
    return [(1000 * frames) / (performance.now() - started), drawing / frames];
}"""


@acl_py.kernel(cost=acl_py.Cost(us=20))
def scale():
    pass


async def _pipeline(ops):
    async with acl_py.simulate(device="h200") as sim:
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        streams = [await acl_py.CreateStream() for _ in range(STREAMS)]
        for number in range(-(-ops // 3)):
            stream = streams[number % STREAMS]
            await acl_py.MemcpyAsync(device, SIZE, host, SIZE, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
            await scale[1, stream]()
            await acl_py.MemcpyAsync(host, SIZE, device, SIZE, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.SynchronizeDevice()
    return sim.trace.timeline()


def main():
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{ops}.html") for ops in SIZES]
        show(
            "The page of a timeline",
            ("operations", "bytes", "made in"),
            [_write(*each) for each in zip(SIZES, files, strict=True)],
        )
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if browser is None or find_spec("playwright") is None:
            say("frames per second: needs Chromium and Playwright\n")
            return
        opening, adding, rows = _frames(browser, files[-1])
        show(
            f"Opening {SIZES[-1]:,} operations",
            ("until they are drawn", "the table of all of them"),
            [(target(opening, MOST_OPENING_S, form="{:.2f} s"), f"{adding:.2f} s")],
        )
        show(
            f"Moving {SIZES[-1]:,} operations", ("share of the time in view", "frames per second", "drawing one"), rows
        )


def _write(ops, file):
    timeline = asyncio.run(_pipeline(ops))
    begin = process_time()
    Page([Run("the page", timeline)]).write(file)
    seconds = process_time() - begin
    size = file.stat().st_size
    shown = target(size, MOST_BYTES, form="{:,}") if ops == SIZES[0] else f"{size:,}"
    return f"{len(timeline.ops):,}", shown, f"{seconds:.2f} s"


def _frames(browser, file):
    """How long the page takes to open, and its table; and the frames per second at several widths of the window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = started.new_page(viewport={"width": 1400, "height": 900})
        began = perf_counter()
        page.goto(file.as_uri())
        page.evaluate("new Promise(requestAnimationFrame)")
        opening = perf_counter() - began
        page.evaluate("chooseView()")
        adding = perf_counter() - began - opening
        page.evaluate("chooseSpan(null)")
        results = [(share, *page.evaluate(PAN, share)) for share in SHARES]
        started.close()
    return (
        opening,
        adding,
        [
            (f"{share:.0%}", target(frames, LEAST_FRAMES, at_least=True, form="{:.0f}"), f"{drawing:.1f} ms")
            for share, frames, drawing in results
        ],
    )


if __name__ == "__main__":
    main()
