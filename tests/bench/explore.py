"""What exploring costs: processor time for each operation, off, under the default schedule, and with weak effects."""

import gc
from contextlib import nullcontext
from time import process_time

import acl_py
from acl_py.schedules import Replay, Schedule, following
from tests.bench.measure import interleaved, show, spread
from tests.bench.ring import ours

OPS = 4_000
RUNS = 3
STREAMS = 8
WAYS = {  # a block to run in, and options
    "off": (nullcontext, {}),
    "a schedule without deviations": (lambda: following(Schedule(Replay(()))), {}),
    "weak effects": (nullcontext, {"effects": "weak"}),
}


def main():
    seconds = interleaved({name: (name,) for name in WAYS}, RUNS, _seconds)
    rows = [(name, spread([run / OPS * 1e6 for run in seconds[name]])) for name in WAYS]
    show(f"Exploring, over {OPS:,} operations in {STREAMS} streams", ("exploring", "us per operation"), rows)


def _seconds(way):
    block, options = WAYS[way]
    gc.collect()
    begin = process_time()
    with block():
        acl_py.run(ours, OPS, STREAMS, 1, workers=1, trace=False, **options)
    return process_time() - begin
