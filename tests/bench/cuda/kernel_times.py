"""Times of the kernels of a file on a card: python -m tests.bench.cuda.kernel_times FILE OUT [KERNEL]

FILE is what kernel_rows.py writes. OUT is FILE with what was measured in each row, and is written again as rows are
done. It needs cuda-bindings, NumPy and a driver for CUDA 13.0 or later; KERNEL restricts the rows to those whose kernel
has it in its name.

us_row, us_row_min  one of 100 launches in a row, with events around them: median and least of 9
us_graph            one of 50 nodes of a graph in a row: median of 9
us_cold             alone after a fill of 256 MiB, with events around it (so with the gap of a launch): median of 9
registers, shared, local   as the driver has compiled the kernel: registers of a thread, bytes of a block, of a thread
digest              of the arrays that the first launch has changed, by SHA-256; null in the kernels of `UNORDERED`
sample              of each of these arrays: its place among the arguments, and 8 elements
"""

import hashlib
import json
import re
import statistics
import sys
from itertools import groupby
from pathlib import Path
from time import perf_counter

import numpy as np
from cuda.bindings import driver

from tests.bench.recipes import arrays

RUNS, IN_A_ROW, NODES, FLUSH = 9, 100, 50, 256 << 20
UNORDERED = ("reduce_atomic",)  # floats that are added in any order
LONG_US = 3000  # kernels that take longer are measured in a third of the runs
WHAT = f"one of {IN_A_ROW} launches in a row (us_row), of {NODES} nodes of a graph (us_graph), alone and cold (us_cold)"


def main(source, target, only=""):
    begin = perf_counter()
    given = json.loads(Path(source).read_text(encoding="utf-8"))
    rows = [row for row in given["rows"] if only in row["kernel"]]
    card = Card(given["kernels"])
    for arguments, group in groupby(sorted(rows, key=_arguments), key=_arguments):
        inputs = arrays(json.loads(arguments))
        for row in group:
            row |= card.measured(row, inputs)
            say(f"{perf_counter() - begin:6.1f} s", row)
        measured = [row for row in rows if "us_row" in row]
        out = {"what": f"{WHAT}; {card.name}", "kernels": given["kernels"], "rows": measured}
        Path(target).write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


def _arguments(row):
    return json.dumps(row["args"])


def say(passed, row):
    times = " ".join(f"{row[key]:9.2f}" for key in ("us_row", "us_graph", "us_cold"))
    print(f"{passed} {row['kernel']:20} {row['work']:>9} {times} us, {row['registers']} registers", flush=True)


def call(function, *arguments):
    """What the function of the driver returns besides its code; another code than success is an error."""
    code, *values = function(*arguments)
    if int(code):
        raise RuntimeError(f"{function.__name__}: {code}")
    return values[0] if len(values) == 1 else values


class Card:
    """The first card, with a stream of its own, two events and memory for flushing the L2."""

    def __init__(self, kernels):
        self.kernels, self.functions = kernels, {}
        call(driver.cuInit, 0)
        device = call(driver.cuDeviceGet, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
        title = call(driver.cuDeviceGetName, 96, device).split(b"\0")[0].decode()
        self.name = f"{title}, CUDA {call(driver.cuDriverGetVersion)}"
        self.stream = call(driver.cuStreamCreate, 1)
        self.events = [call(driver.cuEventCreate, 0) for _ in range(2)]
        self.flushed = call(driver.cuMemAlloc, FLUSH)

    def function(self, name):
        """The kernel of that name, loaded once."""
        if name not in self.functions:
            module = call(driver.cuModuleLoadData, self.kernels[name]["ptx"].encode() + b"\0")
            self.functions[name] = call(driver.cuModuleGetFunction, module, name.encode())
        return self.functions[name]

    def measured(self, row, inputs):
        """What the row gets: the facts of the kernel, a digest of the first launch, and the times."""
        function = self.function(row["kernel"])
        held = [upload(each) if isinstance(each, np.ndarray) else each for each in inputs]
        launch = self.launcher(function, held, row)
        launch()
        call(driver.cuStreamSynchronize, self.stream)
        found = attributes(function) | outcome(inputs, held, row["kernel"]) | self.times(launch)
        for each, given in zip(held, inputs, strict=True):
            if isinstance(given, np.ndarray):
                call(driver.cuMemFree, each)
        return found

    def launcher(self, function, held, row):
        """A function that launches the row's kernel, with the parameters packed once."""
        kinds = types(self.kernels[row["kernel"]]["ptx"], row["kernel"])
        values = [np.array([int(value) if kind.kind != "f" else value]).astype(kind)
                  for value, kind in zip(held, kinds, strict=True)]  # fmt: skip
        pointers = np.array([each.ctypes.data for each in values], np.uint64)
        address = pointers.ctypes.data
        shape = [*dimensions(row["grid"]), *dimensions(row["block"]), row.get("dynamic", 0), self.stream]
        return lambda _kept=(values, pointers): call(driver.cuLaunchKernel, function, *shape, address, 0)

    def times(self, launch):
        graph = self.graph(launch)
        once = self.timed(launch)
        runs = RUNS if once < LONG_US else RUNS // 3
        rows = [self.timed(lambda: [launch() for _ in range(IN_A_ROW)]) / IN_A_ROW for _ in range(runs)]
        nodes = [self.timed(lambda: call(driver.cuGraphLaunch, graph, self.stream)) / NODES for _ in range(runs + 1)]
        colds = [self.cold(launch) for _ in range(runs)]
        call(driver.cuGraphExecDestroy, graph)
        return {"us_row": middle(rows), "us_row_min": round(min(rows), 3), "us_graph": middle(nodes[1:]),
                "us_cold": middle(colds)}  # fmt: skip

    def graph(self, launch):
        """A graph of launches one behind the other; the first launch of it, which is slower, counts for nothing."""
        call(driver.cuStreamBeginCapture, self.stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        for _ in range(NODES):
            launch()
        graph = call(driver.cuStreamEndCapture, self.stream)
        executable = call(driver.cuGraphInstantiate, graph, 0)
        call(driver.cuGraphDestroy, graph)
        return executable

    def cold(self, launch):
        call(driver.cuMemsetD8Async, self.flushed, 0, FLUSH, self.stream)
        return self.timed(launch)

    def timed(self, act):
        """Microseconds on the card between two events around the act."""
        first, last = self.events
        call(driver.cuEventRecord, first, self.stream)
        act()
        call(driver.cuEventRecord, last, self.stream)
        call(driver.cuEventSynchronize, last)
        return 1000 * call(driver.cuEventElapsedTime, first, last)


def middle(values):
    return round(statistics.median(values), 3)


def dimensions(sizes):
    return [*sizes, 1, 1][:3]


def types(ptx, name):
    """The types of the parameters, from the head of the entry."""
    head = re.search(rf"\.entry {name}\((.*?)\)", ptx, re.DOTALL)[1]
    return [np.dtype(f"{kind.replace('s', 'i')}{int(bits) // 8}".replace("b", "u"))
            for kind, bits in re.findall(r"\.param \.([usbf])(\d+)", head)]  # fmt: skip


def upload(contents):
    place = call(driver.cuMemAlloc, contents.nbytes)
    call(driver.cuMemcpyHtoD, place, contents.ctypes.data, contents.nbytes)
    return place


def attributes(function):
    names = {"registers": "NUM_REGS", "shared": "SHARED_SIZE_BYTES", "local": "LOCAL_SIZE_BYTES"}
    known = driver.CUfunction_attribute
    return {
        key: call(driver.cuFuncGetAttribute, getattr(known, f"CU_FUNC_ATTRIBUTE_{name}"), function)
        for key, name in names.items()
    }


def outcome(inputs, held, kernel):
    """The digest of the arrays on the card that differ from the inputs, and some of their elements."""
    digest, sample = hashlib.sha256(), []
    for place, given in enumerate(inputs):
        if isinstance(given, np.ndarray):
            made = np.empty_like(given)
            call(driver.cuMemcpyDtoH, made.ctypes.data, held[place], made.nbytes)
            if (made != given).any():
                digest.update(made.tobytes())
                sample.append([place, made[:: max(1, made.size // 8)][:8].tolist()])
    return {"digest": None if kernel in UNORDERED else digest.hexdigest()[:16], "sample": sample}


if __name__ == "__main__":
    main(*sys.argv[1:])
