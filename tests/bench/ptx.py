"""Times of kernels in PTX: `python -m tests.bench ptx FILE [--json OUT]`.

FILE has `{"kernels": {name: {"ptx": TEXT}}, "rows": [{"kernel", "grid", "block", "args"}]}`; an argument is a number,
or `{"dtype", "n"}` for an array, whose contents tests/bench/recipes.py makes. Rows may have what was measured:
`us_graph` (one of many nodes of a graph, with a warm L2), `us_cold` (alone, with events around it), `registers`. OUT
gets the rows with `graph`, `cold` and `own_registers`. Kernels whose names have the same stem, which is what stands
before the last underscore, are variants: of each pair at one size the page says which is faster, and so did the card.

The constants of the model were read from every second kernel of rows/ptx_h200.json, in the order of names, and from
those of `READ`; the last lines tell these kernels from the others.
"""

import argparse
import json
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from time import perf_counter

import numpy as np

from device_model.profile import load
from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Space
from device_model.ptx.timing.estimate import Timing, Touched
from device_model.ptx.timing.plan import Card, Plan
from device_model.touches import Touches
from tests.bench.measure import say
from tests.bench.recipes import arrays

NODE_US = 0.64  # of a kernel in a graph besides its blocks
COLD_US = 2.6  # more, alone, with events around it


# Kernels of the other half that constants were read from, too: none of the first half has what they show.
READ = ("atomic_one", "atomic_warp", "half_pair", "reduce_atomic", "hist_global")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.bench ptx")
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="rows of kernels that have this in their names")
    parser.add_argument("--sizes", type=int, default=sys.maxsize, help="so many rows of each kernel, the first ones")
    options = parser.parse_args(arguments)
    given = json.loads(options.file.read_text(encoding="utf-8"))
    rows = [row for row in _first(given["rows"], options.sizes) if options.only in row["kernel"]]
    for row in rows:
        begin = perf_counter()
        row |= predict(given["kernels"][row["kernel"]]["ptx"], row)
        row["host_s"] = round(perf_counter() - begin, 3)
        say(_line(row))
    names = sorted(given["kernels"])
    say(summary(rows, {*names[::2], *READ}))
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


def _first(rows, count):
    """The first rows of each kernel."""
    seen = Counter()
    for row in rows:
        seen[row["kernel"]] += 1
        if seen[row["kernel"]] <= count:
            yield row


def summary(rows, read):
    """Errors of the rows, of the kernels that constants were read from and of the others, and the pairs of variants."""
    lines = []
    for kind in ("graph", "cold"):
        known = [row for row in rows if row.get(f"us_{kind}")]
        halves = [row for row in known if row["kernel"] in read], [row for row in known if row["kernel"] not in read]
        for name, part in zip(("all rows", "kernels with constants", "other kernels"), (known, *halves), strict=True):
            if part:
                errors = [abs(row[kind] / row[f"us_{kind}"] - 1) for row in part]
                lines.append(f"{kind}, {len(part)} of {name}: median error {np.median(errors):.1%}, "
                             f"90th percentile {np.quantile(errors, 0.9):.1%}")  # fmt: skip
    pairs = list(variants(rows))
    if pairs:
        right = [_gain(*pair, "graph") * _gain(*pair, "us_graph") > 0 for pair in pairs]
        apart = [each for each, pair in zip(right, pairs, strict=True) if abs(_gain(*pair, "us_graph")) >= 0.05]
        lines.append(f"the faster of two variants: {sum(right)} of {len(right)} pairs; "
                     f"{sum(apart)} of {len(apart)} that are 5 % apart or more")  # fmt: skip
        lines += [f"  {one['kernel']} and {other['kernel']}, {size_of(one)}: {_gain(one, other, 'graph'):+.0%}, "
                  f"measured {_gain(one, other, 'us_graph'):+.0%}"
                  for (one, other), is_right in zip(pairs, right, strict=True) if not is_right]  # fmt: skip
    return "\n".join(lines)


def variants(rows):
    """Each two rows of kernels with one stem that do work of one size, and were measured."""
    for one, other in combinations([row for row in rows if row.get("us_graph")], 2):
        same = one["kernel"].rpartition("_")[0] == other["kernel"].rpartition("_")[0] != ""
        if same and one["kernel"] != other["kernel"] and size_of(one) == size_of(other):
            yield one, other


def size_of(row):
    return row.get("work", row["args"])


def _gain(one, other, kind):
    """How much longer the one takes than the other."""
    return one[kind] / other[kind] - 1


def _line(row):
    size = next((each["n"] for each in row["args"] if isinstance(each, dict)), "")
    known = [f"{row[kind]:8.2f} ({row[f'us_{kind}']:7.2f}, {row[kind] / row[f'us_{kind}'] - 1:+4.0%})"
             if row.get(f"us_{kind}") else f"{row[kind]:8.2f}" for kind in ("graph", "cold")]  # fmt: skip
    return (f"{row['kernel']:16} {size:>9} {' '.join(known)}  {row['own_registers']} ({row.get('registers')}) "
            f"registers, {row['resident']} blocks, {row['busy']:.0%}, {row['time_s']:.2f} of {row['host_s']:.2f} s"
            )  # fmt: skip


def predict(text, row):
    """Run the kernel of a row, and say how long it takes."""
    module = parse(text)
    memory, addresses = ArrayMemory(), {}
    for variable in module.variables.values():
        if variable.space in (Space.GLOBAL, Space.CONST):
            contents = np.zeros(max(16, -(-variable.nbytes // 16) * 16), np.uint8)
            contents[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
            addresses[variable.name] = memory.add(contents)
    program = compile_kernel(module, row["kernel"], addresses)
    given = parameters(module.functions[row["kernel"]], program, row, memory)
    made = Launch(_dim(row["grid"]), _dim(row["block"]), given, memory, row.get("dynamic", 0))
    profile = load("h200")
    traffic = profile.library.traffic
    card = Card(profile.sm, profile.cores.count, traffic.kept_bytes, traffic.lost_bytes)
    timing = Timing(Plan(program, card, made.blocks, made.threads, made.dynamic_shared), made)
    clock = made.clock = timing.clock
    made.watches = (timing.watch,) if clock is None else (clock, timing.watch)
    run(program, made)
    touched = Touched.of(*(
        Touches([(each, getattr(each, how)()) for each in memory.regions]) for how in ("read", "written")
    ))  # fmt: skip
    begin = perf_counter()
    warm, cold = timing.estimate(touched), timing.estimate(touched, is_cold=True)
    us = 1000 / profile.sm.khz
    graph, alone = (each.cycles if clock is None else clock.whole(each.cycles) for each in (warm, cold))
    return {"graph": round(NODE_US + graph * us, 3), "cold": round(NODE_US + COLD_US + alone * us, 3),
            "own_registers": warm.registers, "resident": warm.resident, "busy": round(warm.busy, 2),
            "time_s": round((perf_counter() - begin) / 2, 3)}  # fmt: skip


def _dim(sizes):
    return tuple([*sizes, 1, 1][:3])


def parameters(function, program, row, memory):
    """The bytes of the parameters: arrays are random, the same ones in every run."""
    held = np.zeros(max(16, -(-program.parameter_bytes // 16) * 16), np.uint8)
    at = 0
    for parameter, value in zip(function.parameters, arrays(row["args"], row["kernel"]), strict=True):
        at = -(-at // parameter.align) * parameter.align
        number = np.uint64(memory.add(value)) if isinstance(value, np.ndarray) else value
        raw = np.array([number]).astype(parameter.type.dtype).view(np.uint8)
        held[at : at + len(raw)] = raw
        at += parameter.nbytes
    return held


if __name__ == "__main__":
    main(sys.argv[1:])
