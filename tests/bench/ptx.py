"""Times of kernels in PTX: `python -m tests.bench ptx FILE [--json OUT]`.

FILE has `{"kernels": {name: {"ptx": TEXT}}, "rows": [{"kernel", "grid", "block", "args"}]}`; an argument is a number,
or `{"dtype", "n"}` for an array, whose contents tests/bench/recipes.py makes. Rows may have what was measured:
`us_graph` (one of many nodes of a graph, with a warm L2), `us_cold` (alone, with events around it), `registers`. OUT
gets the rows with `graph`, `cold` and `own_registers`.
"""

import argparse
import json
import sys
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
from device_model.ptx.timing.estimate import Card, Timing, Touched
from tests.bench.measure import say
from tests.bench.recipes import arrays

NODE_US = 0.75  # of a kernel in a graph besides its blocks
COLD_US = 2.25  # more, alone, with events around it
SECTOR = 32


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.bench ptx")
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    given = json.loads(options.file.read_text(encoding="utf-8"))
    rows = [row for row in given["rows"] if options.only in row["kernel"]]
    errors = {"graph": [], "cold": []}
    for row in rows:
        begin = perf_counter()
        row |= predict(given["kernels"][row["kernel"]]["ptx"], row)
        row["host_s"] = round(perf_counter() - begin, 3)
        say(_line(row))
        for kind, found in errors.items():
            if row.get(f"us_{kind}"):
                found.append(abs(row[kind] / row[f"us_{kind}"] - 1))
    for kind, found in errors.items():
        if found:
            for name, part in (("all", found), ("even", found[::2]), ("odd", found[1::2])):
                ninth = np.quantile(part, 0.9)
                say(f"{kind}, {name} rows: median error {np.median(part):.1%}, 90th percentile {ninth:.1%}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


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
    timing = Timing(program, card, made)
    made.watches = (timing.watch,)
    run(program, made)
    touched = Touched(*(sum(sectors(getattr(each, how)()) for each in memory.regions) for how in ("read", "written")))
    begin = perf_counter()
    warm, cold = timing.estimate(touched), timing.estimate(touched, is_cold=True)
    us = 1000 / profile.sm.khz
    return {"graph": round(NODE_US + warm.cycles * us, 3), "cold": round(NODE_US + COLD_US + cold.cycles * us, 3),
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


def sectors(ranges):
    """How many sectors of memory these ranges of bytes touch."""
    if not ranges:
        return 0
    edges = np.array(ranges)
    first, last = edges[:, 0] // SECTOR, (edges[:, 1] - 1) // SECTOR
    return int((last - first + 1).sum() - (first[1:] == last[:-1]).sum())


if __name__ == "__main__":
    main(sys.argv[1:])
