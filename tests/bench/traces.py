"""What views of a trace cost, from its packed rows to the file: processor time and memory for each operation."""

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import acl_py
from acl_py.trace import chart, chrome, kineto, msprof, table
from tests.bench.measure import say, show, spread, target
from tests.bench.ring import ours

FEW, MANY = 10_000, 100_000  # operations
STREAMS = 8
RUNS = 5
CHROME_US, CHART_US, FILE_US = 8, 2, 12  # at most


def main():
    traces = {ops: _recorded(ops) for ops in (FEW, MANY)}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace"
        views = {
            "Chrome trace": (lambda trace: chrome.write(trace, file), CHROME_US),
            "Kineto trace": (lambda trace: kineto.write(trace, file), None),
            "msprof's folder": (lambda trace: msprof.write(trace, Path(folder) / "profile"), None),
            "CSV": (lambda trace: table.write(trace, file), None),
            "text chart": (chart.lanes, CHART_US),
            "saved trace": (lambda trace: trace.save(file), FILE_US),
            "row objects": (lambda trace: [len(rows) for rows in (trace.ops, trace.calls, trace.steps)], None),
        }
        measured = {name: _measured(view, traces) for name, (view, _) in views.items()}
    show(
        f"Views of a trace over {STREAMS} streams; memory is the most that the view takes beside the trace",
        ("view", *(f"us per operation of {ops:,}" for ops in traces), *(f"MB for {ops:,}" for ops in traces),
         "bytes per further operation"),
        [
            (name, *map(spread, times.values()), *(f"{peak / 1e6:.1f}" for peak in peaks.values()),
             f"{(peaks[MANY] - peaks[FEW]) / (MANY - FEW):.0f}")
            for name, (times, peaks) in measured.items()
        ],
    )  # fmt: skip
    for name, (_, limit) in views.items():
        if limit is not None:
            say(f"  {name}, us per operation of {MANY:,}  {target(min(measured[name][0][MANY]), limit)}")
    say("")


def _recorded(ops):
    async def program():
        await ours(ops, STREAMS, 1)
        return acl_py.current_simulation().trace

    return acl_py.run(program, workers=1)


def _measured(view, traces):
    """The times in microseconds for each operation, and the peaks in bytes, by the number of operations."""
    view(traces[FEW])  # what is imported and made once
    times = {ops: [_us(view, trace, ops) for _ in range(RUNS)] for ops, trace in traces.items()}
    return times, {ops: _peak(view, trace) for ops, trace in traces.items()}


def _us(view, trace, ops):
    begin = process_time()
    view(trace)
    return (process_time() - begin) / ops * 1e6


def _peak(view, trace):
    tracemalloc.start()
    view(trace)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak
