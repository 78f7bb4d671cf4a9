"""Times kernels of cuBLAS and torch on the card, and writes rows as library_calls.json has them.

python library_calls.py kernels.json out.json, on a machine with an NVIDIA card and torch.

Many calls of one kind are captured in a CUDA graph, so the host takes no part. The shapes are those of the first file
and others of the same kinds; a profiler gives the names and grids of the kernels.
"""

import json
import random
import statistics
import sys
from itertools import product
from math import prod

import torch
from torch.profiler import ProfilerActivity, profile

TYPES = {"float32": torch.float32, "tf32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SIZES = (32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
FIELDS = ("kind", "type", "batch", "m", "n", "k", "elements", "rows", "columns")
GRAPH_US, MOST = 3000, 300  # a graph has calls for so long, and so many at most
TRACED = 300  # calls in one trace


def shapes(given):
    """The shapes of *given*, and random ones."""
    rnd = random.Random(21)
    rows = [{key: row[key] for key in FIELDS if key in row} for row in given]
    for dtype in ("float32", "float16", "bfloat16"):
        for exponent in range(10, 29):
            rows += [{"kind": kind, "type": dtype, "elements": 1 << exponent} for kind in ("copy", "add", "exp", "sum")]
        for height in (128, 512, 1024, 4096, 16384, 65536, 262144):
            for width in (64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536):
                if height * width <= 1 << 26:
                    for kind in ("softmax", "layernorm", "transpose", "gather"):
                        rows.append({"kind": kind, "type": dtype, "rows": height, "columns": width})
    for dtype in ("float32", "float16"):
        for order in product((1, 8, 64), (128, 512, 2048), (4, 8, 16), (8, 16, 32, 64, 128, 256)):
            if 1 << 14 <= prod(order) <= 1 << 26:
                rows.append({"kind": "permute", "type": dtype, "elements": prod(order), "order": order})
    for dtype in TYPES:
        most = 4e10 if dtype == "float32" else 3e11
        products = [(1, 8192, 8192), *((rows, 4096, 4096) for rows in (8, 16, 32, 64, 256))]
        while len(products) < 156:
            m, n, k = (rnd.choice(SIZES) for _ in range(3))
            if 2 * m * n * k <= most:
                products.append((m, n, k))
        rows += [{"kind": "matmul", "type": dtype, "m": m, "n": n, "k": k} for m, n, k in products]
        for _ in range(45):
            batch, k = rnd.choice((8, 32, 128, 512)), rnd.choice((32, 64, 128, 256))
            m, n = (rnd.choice((64, 128, 256, 512)) for _ in range(2))
            rows.append({"kind": "batched_matmul", "type": dtype, "batch": batch, "m": m, "n": n, "k": k})
    return list({json.dumps(row): row for row in rows}.values())


def call_of(row):
    """A function that makes the call of *row*."""
    kind, dtype = row["kind"], TYPES[row["type"]]
    torch.backends.cuda.matmul.allow_tf32 = row["type"] == "tf32"

    def new(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    if kind in ("matmul", "batched_matmul"):
        batch = (row["batch"],) if "batch" in row else ()
        a, b, c = (new(*batch, *shape) for shape in ((row["m"], row["k"]), (row["k"], row["n"]), (row["m"], row["n"])))
        return lambda: (torch.bmm if batch else torch.mm)(a, b, out=c)
    if kind == "permute":
        batch, length, heads, width = row["order"]
        a, c = new(batch, length, heads, width), new(batch, heads, length, width)
        return lambda: c.copy_(a.transpose(1, 2))
    if "elements" in row:
        a, b, c = (new(row["elements"]) for _ in range(3))
        total = torch.empty((), device="cuda", dtype=dtype)
        return {
            "copy": lambda: c.copy_(a),
            "add": lambda: torch.add(a, b, out=c),
            "exp": lambda: torch.exp(a, out=c),
            "sum": lambda: torch.sum(a, 0, out=total),
        }[kind]
    height, width = row["rows"], row["columns"]
    a, c, turned = new(height, width), new(height, width), new(width, height)
    weight, bias = new(width), new(width)
    index = torch.randint(0, height, (height,), device="cuda")
    return {
        "softmax": lambda: torch.softmax(a, -1, out=c),
        "layernorm": lambda: torch.nn.functional.layer_norm(a, (width,), weight, bias),
        "transpose": lambda: turned.copy_(a.t()),
        "gather": lambda: torch.index_select(a, 0, index, out=c),
    }[kind]


def timed(call):
    """Microseconds of one call in a graph of many: the median and the least of 7 launches."""
    stream, begin, end = torch.cuda.Stream(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        call()
        begin.record()
        call()
        end.record()
        stream.synchronize()
        count = max(4, min(MOST, int(GRAPH_US / max(1e3 * begin.elapsed_time(end), 2))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                call()
        times = []
        for _ in range(8):
            begin.record()
            graph.replay()
            end.record()
            stream.synchronize()
            times.append(1e3 * begin.elapsed_time(end) / count)
    return statistics.median(times[1:]), min(times[1:])


def named(rows, file):
    """Note the kernels of *rows*: the first one's name and grid, and how many nodes a call has."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for row in rows:
            call = call_of(row)
            torch.cuda._sleep(1000)  # a mark before the call
            call()
            torch.cuda._sleep(1000)
            torch.cuda.synchronize()
    profiler.export_chrome_trace(file)
    with open(file) as trace:
        events = [
            each for each in json.load(trace)["traceEvents"] if each.get("cat", "").startswith(("kernel", "gpu_"))
        ]
    groups = []
    for event in sorted((each for each in events if "args" in each), key=lambda each: each["ts"]):
        if "spin_kernel" in event["name"]:
            groups.append([])
        elif groups:
            groups[-1].append(event)
    for row, group in zip(rows, groups[::2], strict=True):
        kernels = [each for each in group if each["cat"] == "kernel"]
        if kernels:
            row |= {"kernel": kernels[0]["name"], "grid": kernels[0]["args"]["grid"]}
        row["kernels"] = len(group)


def main(given, out):
    """Time all shapes."""
    with open(given) as file:
        rows = shapes(json.load(file)["rows"])
    for row in rows:
        row["us"], row["min_us"] = (round(us, 3) for us in timed(call_of(row)))
    for first in range(0, len(rows), TRACED):
        named(rows[first : first + TRACED], f"{out}.trace")
    with open(out, "w") as file:
        json.dump({"rows": rows}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
