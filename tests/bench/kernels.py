"""Kernels of a library, measured and predicted: `python -m tests.bench kernels [FILE] [--json OUT]`.

A file has `{"rows": [...]}` in the form of tests/conformance/data/kernels.json, which is taken without FILE: a *kind*
with its *type* and sizes, and `us` of one kernel among many of its kind in a CUDA graph. Each row is predicted from
such a graph here. Rows without `us` are predicted too. `--json` writes all rows, each with `measured` and `predicted`.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean

import acl_py as acl
from device_model.profile import load
from tests.bench.measure import show
from tests.conformance.criteria import distribution

CARD = load("h200")
DEFAULT = acl.MemcpyKind.DEFAULT
DATA = Path(__file__).parents[1] / "conformance" / "data"
SIZES = ("batch", "m", "n", "k", "elements", "rows", "columns")
BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}
PRODUCTS = ("matmul", "batched_matmul")
PASSES = ("softmax", "softmax_long", "layernorm", "transpose", "permute", "gather")
NEVER = 1 << 50  # a rate or a time that changes nothing, or everything
ABLATION = True  # whether to show what each mechanism contributes, if no file is named
CHAIN = 3  # kernels of a graph; the time from the start of one to the start of the next is a row's
MEDIAN, P90 = 10, 25  # per cent, of each kind


def cost_of(row):
    """What a row costs by the library."""
    kind, dtype = row["kind"], row["type"]
    if kind in ("matmul", "batched_matmul"):
        return acl.Cost.matmul(row["m"], row["n"], row["k"], dtype, row.get("batch", 1))
    if kind == "sum":
        return acl.Cost.reduction(row["elements"], dtype)
    if kind == "permute":
        return acl.Cost.permute(row["elements"], dtype)
    if kind in ("add", "exp"):
        nbytes = row["elements"] * BYTES[dtype]
        return acl.Cost.elementwise((2 if kind == "add" else 1) * nbytes, nbytes)
    if kind in ("softmax", "layernorm", "transpose", "gather"):
        return getattr(acl.Cost, kind)(row["rows"], row["columns"], dtype)
    known = "matmul, batched_matmul, copy, add, exp, sum, permute, softmax, layernorm, transpose and gather"
    sys.exit(f"row {row} has a kind that nothing here predicts; there are {known}")


def without(spec):
    """*spec* with one mechanism less, by what is left out."""
    products, traffic = spec.products, spec.traffic
    types = {name: getattr(products, name) for name in products.types}

    def each(**values):
        return replace(products, **{name: replace(own, **values) for name, own in types.items()})

    passes = {name: replace(getattr(spec, name), chain=0, column_ps=0, row_ps=0, element_ps=0) for name in PASSES}
    return {
        "split sums": replace(spec, products=replace(products, split=NEVER)),
        "the latency of a step": replace(spec, products=each(step_ps=1)),
        "the operands' way to the cores": replace(spec, products=each(core_read=NEVER)),
        "storing the results": replace(spec, products=each(core_write=NEVER)),
        "the counter of blocks": replace(spec, products=replace(products, counter=0)),
        "what a call takes besides": replace(spec, elementwise=0, products=replace(products, fixed=0)),
        "an L2": replace(spec, traffic=replace(traffic, kept_bytes=1, lost_bytes=2)),
        "memory slower than the L2": replace(spec, traffic=replace(traffic, kept_bytes=NEVER, lost_bytes=2 * NEVER)),
        "the work on rows": replace(spec, **passes),
    }


async def _predicted(rows):
    """The time of each row: how far apart its kernels start in a graph."""
    sim = acl.current_simulation()
    stream = await acl.CreateStream()
    for row in rows:
        copied = row["elements"] * BYTES[row["type"]] if row["kind"] == "copy" else 0
        buffers = [await acl.Malloc(copied) for _ in range(2)] if copied else []
        queue = _queueing(row, buffers, stream)
        await acl.BeginCapture(stream)
        for _ in range(CHAIN):
            await queue()
        graph = await acl.EndCapture(stream)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
        await acl.SynchronizeStream(stream)
        for buffer in buffers:
            await acl.Free(buffer)
    starts = [op.start_ns for op in sim.trace.ops]
    return [(starts[i + CHAIN - 1] - starts[i]) / (CHAIN - 1) / 1000 for i in range(0, len(starts), CHAIN)]


def _queueing(row, buffers, stream):
    """A function that queues what was measured in *stream*: a copy between *buffers*, or a kernel."""
    if buffers:  # torch copies contiguous memory with a MemcpyAsync
        there, here = buffers
        return lambda: acl.MemcpyAsync(there, here.nbytes, here, here.nbytes, DEFAULT, stream)
    kernel = acl.kernel(cost=cost_of(row))(lambda: None)
    return lambda: kernel[CARD.cores.count, stream]()


def predicted(rows, card=CARD):
    """*rows*, each with `measured` and `predicted` in microseconds."""
    times = acl.run(_predicted, rows, device=card)
    return [{**row, "measured": row.get("us"), "predicted": round(us, 3)} for row, us in zip(rows, times, strict=True)]


def error(row):
    """How much longer the prediction of a row is than its measurement, in per cent."""
    return 100 * (row["predicted"] / row["measured"] - 1)


def by_kind(rows):
    """The measured ones of *rows* by their kind."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return {
        kind: [row for row in rows if row["kind"] == kind and row["measured"] is not None]
        for kind in kinds
        if any(row["kind"] == kind and row["measured"] is not None for row in rows)
    }


def main(arguments=()):
    """Print the kinds of a file, and each row if the file is named."""
    parser = argparse.ArgumentParser("python -m tests.bench kernels", description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path)
    parser.add_argument("--json", metavar="OUT", type=Path, help="where to write the rows")
    options = parser.parse_args(arguments)
    file = options.file or DATA / "kernels.json"
    rows = predicted(json.loads(file.read_text())["rows"])
    if options.file:
        _show(rows)
    errors = {kind: [error(row) for row in own] for kind, own in by_kind(rows).items()}
    kinds = [
        (kind, len(own), *(f"{size:.1f}" for size in distribution(own)), f"{mean(own):+.1f}")
        for kind, own in errors.items()
    ]
    show(f"{file.name}: error in %", ("kind", "rows", "median", "p90", "largest", "mean, signed"), kinds)
    if ABLATION and not options.file:
        _ablation(rows)
    if options.json:
        options.json.write_text(json.dumps({"rows": rows}))


def _ablation(rows):
    """Print the errors of each group of kinds with one mechanism less."""
    specs = {"as it is": CARD.library} | {f"without {name}": spec for name, spec in without(CARD.library).items()}
    table = []
    for name, spec in specs.items():
        own = predicted(rows, replace(CARD, library=spec))
        errors = [[error(row) for row in own if (row["kind"] in PRODUCTS) == products] for products in (True, False)]
        table.append((name, *(f"{size:.1f}" for group in errors for size in distribution(group)[:2])))
    show("Error in %: products of matrices, and the others", ("model", "median", "p90", "median", "p90"), table)


def _show(rows):
    table = [
        (
            " ".join([row["kind"], row["type"], *(f"{name}={row[name]}" for name in SIZES if name in row)]),
            "" if row["measured"] is None else f"{row['measured']:,.2f}",
            f"{row['predicted']:,.2f}",
            "" if row["measured"] is None else f"{error(row):+.1f}",
        )
        for row in rows
    ]
    show("Microseconds, and the error in %", ("row", "measured", "predicted", "error"), table)


if __name__ == "__main__":
    main(sys.argv[1:])
