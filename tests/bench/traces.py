"""What views of a trace cost: processor time and memory for each operation, above the rows that they read."""

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import acl_py
from acl_py.trace import chart, chrome, kineto, msprof, table
from tests.bench.measure import say, show, spread, target
from tests.bench.ring import ours

OPS = 30_000
STREAMS = 8
RUNS = 5
CHROME_US, CHART_US = 8, 2  # at most


def main():
    trace = _recorded()
    rows = trace.timeline()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace"
        views = {
            "reading the rows": (trace.timeline, None),
            "Chrome trace": (lambda: chrome.write(rows, file), CHROME_US),
            "Kineto trace": (lambda: kineto.write(rows, file), None),
            "msprof's folder": (lambda: msprof.write(rows, Path(folder) / "profile"), None),
            "CSV": (lambda: table.write(rows, file), None),
            "text chart": (lambda: chart.lanes(rows), CHART_US),
        }
        measured = {name: ([_us(view) for _ in range(RUNS)], _peak(view)) for name, (view, _) in views.items()}
    show(
        f"Views of a trace of {len(rows.ops):,} operations and {len(rows.calls):,} calls, over {STREAMS} streams",
        ("view", "us per operation", "bytes per operation"),
        [(name, spread(times), f"{peak:.0f}") for name, (times, peak) in measured.items()],
    )
    for name, (_, limit) in views.items():
        if limit is not None:
            say(f"  {name}, us per operation  {target(min(measured[name][0]), limit)}")
    say("")


def _recorded():
    async def program():
        await ours(OPS, STREAMS, 1)
        return acl_py.current_simulation().trace

    return acl_py.run(program, workers=1)


def _us(view):
    begin = process_time()
    view()
    return (process_time() - begin) / OPS * 1e6


def _peak(view):
    tracemalloc.start()
    view()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / OPS
