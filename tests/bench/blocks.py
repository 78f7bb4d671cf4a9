"""Measured rows of one SM, and what the model says: `python -m tests.bench blocks [FILE ...] [--json OUT]`.

A file has `{"rows": [...]}` in one of the forms of tests/cta/data; without one, those there are summed up. Rows without
a measured value are predicted too. `--json` writes all rows in this form, each with `measured` and `predicted`: cycles,
or the words of a product, lane by lane.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median

import ml_dtypes
import numpy as np

from device_model.profile import load
from device_model.sm import banks
from device_model.sm.fragments import mma_m16n8k16
from tests.bench.card_samples import Samples
from tests.bench.measure import say
from tests.bench.pipelines import Bursts, Cycles, Latencies, Pipelines

DATA = Path(__file__).parents[1] / "cta" / "data"
FILES = "*.json"  # those of DATA that are summed up
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
WIDTHS = {"ld4": 4, "ld8": 8, "ld16": 16, "st4": 4, "st8": 8, "st16": 16}

# The programs that were measured: loops of 256 accesses, 16 between two branches. The next address of a load is a sum
# of the last one and all registers loaded: one addition of up to three numbers, or two in a chain.
ADDITION = 4
ADDITIONS = {"ld4": 1, "ld8": 1, "ld16": 2, "ldm": 2, "ldmt": 2}
STORE = 5.33  # cycles from one store of a warp to its next, with the instructions between them
ENTRY = 0.5  # a part of entering and leaving the loop, for each access
BRANCH = 0.375  # 6 cycles; they pass unseen where memory is the limit
QUEUED = 0.1175  # of the phases of a store: the clock is read when the last 15 are queued, two cycles a phase


class SharedMemory(Cycles):
    """Rows of shared_memory.json: cycles per access of shared memory, by the byte offset of each lane."""

    @staticmethod
    def has(row):
        return "offsets" in row

    @staticmethod
    def measured(row):
        return row.get("cycles")

    @staticmethod
    def name(row):
        return f"{row['kind']}, {row['pattern']}, {row['threads']} threads"

    @staticmethod
    def predict(rows):
        spec = load("h200").sm
        return [round(float(SharedMemory._cycles(spec, row)), 2) for row in rows]

    @staticmethod
    def _cycles(spec, row):
        kind, offsets, warps = row["kind"], np.array(row["offsets"]), -(-row["threads"] // 32)
        if kind.startswith("st"):
            traffic = banks.store(offsets, WIDTHS[kind])
            return max(STORE, banks.store_cycles(spec, traffic, warps) + ENTRY - QUEUED * traffic.phases)
        traffic = banks.load(offsets, WIDTHS[kind]) if kind in WIDTHS else banks.load_matrices(offsets, 4)
        return ENTRY + banks.load_cycles(spec, traffic, warps, ADDITIONS[kind] * ADDITION + BRANCH)

    @staticmethod
    def summary(rows):
        sizes = [abs(SharedMemory.error(row["measured"], row["predicted"])) for row in rows]
        within = sum(size <= 0.05 for size in sizes)
        return (
            f"{within} of {len(sizes)} rows within 5 % ({within / len(sizes):.1%}), median error {median(sizes):.2%}, "
            f"largest {max(sizes):.2%}"
        )


class Products:
    """Rows of mma.json: products of the tensor core, bit for bit."""

    @staticmethod
    def has(row):
        return {"a", "b", "c"} <= row.keys()

    @staticmethod
    def measured(row):
        return row.get("d")

    @staticmethod
    def name(row):
        return ", ".join(str(row[key]) for key in ("type", "mode") if key in row)

    @staticmethod
    def predict(rows):
        return [Products._words(row) for row in rows]

    @staticmethod
    def _words(row):
        a, b, c = (np.array(row[key], np.uint32).reshape(32, -1) for key in "abc")
        dtype = DTYPES[row["type"]]
        result = mma_m16n8k16(a.view(dtype), b.view(dtype), c.view(np.float32))
        return result.view(np.uint32).reshape(-1).tolist()

    @staticmethod
    def columns(row, error):
        first = "-" if row["measured"] is None else f"{row['measured'][0]:08x}..."
        return f"{first} {row['predicted'][0]:08x}... {'' if error is None else f'{error} words differ'}"

    @staticmethod
    def error(measured, predicted):
        return sum(one != other for one, other in zip(measured, predicted, strict=True))

    @staticmethod
    def summary(rows):
        errors = [Products.error(row["measured"], row["predicted"]) for row in rows]
        return (
            f"{sum(not error for error in errors)} of {len(errors)} products have every bit, {sum(errors)} words differ"
        )


FORMS = (Samples, SharedMemory, Products, Pipelines, Latencies, Bursts)


def predicted(rows):
    """The rows with `measured` (None where there is no value) and `predicted`, in their order, and the form of each."""
    forms = [next((form for form in FORMS if form.has(row)), None) for row in rows]
    if None in forms:
        number = forms.index(None)
        known = "; ".join(form.__doc__ for form in FORMS)
        sys.exit(f"row {number} has fields {', '.join(rows[number])}: none of the forms that are known. {known}")
    values = [None] * len(rows)
    for form in FORMS:
        places = [place for place, each in enumerate(forms) if each is form]
        for place, value in zip(places, form.predict([rows[place] for place in places]), strict=True):
            values[place] = value
    return [
        row | {"measured": form.measured(row), "predicted": value}
        for row, form, value in zip(rows, forms, values, strict=True)
    ], forms


def main(arguments=()):
    parser = argparse.ArgumentParser("python -m tests.bench blocks", description=__doc__.splitlines()[0])
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument("--json", metavar="OUT", type=Path, help="where to write the rows")
    options = parser.parse_args(arguments)
    written = []
    for file in options.files or sorted(DATA.glob(FILES)):
        rows, forms = predicted(json.loads(file.read_text())["rows"])
        written += rows
        if options.files:
            say(f"{file.name}: measured, predicted, error")
        for form in FORMS:
            own = [row for row, each in zip(rows, forms, strict=True) if each is form]
            if options.files:
                _show(own, form)
            measured = [row for row in own if row["measured"] is not None]
            if measured:
                say(f"{file.name}: {form.summary(measured)}\n")
    if options.json:
        options.json.write_text(json.dumps({"rows": written}))


def _show(rows, form):
    for row in rows:
        error = None if row["measured"] is None else form.error(row["measured"], row["predicted"])
        say(f"  {form.name(row):<52} {form.columns(row, error)}")


if __name__ == "__main__":
    main(sys.argv[1:])
