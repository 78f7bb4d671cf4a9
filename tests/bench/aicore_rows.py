"""Published times of kernels, and what the same kernels take here: `python -m tests.bench aicore_rows [family ...]`, or
with `--rows FILE [--json OUT]` the rows of a file (rows/published.py).

Kernels move all their bytes and add all their numbers. Rows marked *f* are those on which constants were fitted; on the
others they were not (docs/accuracy.md says more). Rows of one core, or of equal parts, run a part of the work.
"""

import argparse
import json
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np

from tests.bench.measure import say, show
from tests.bench.rows import adds, attention, banks, copies, matmuls, overlapped, vector_adds
from tests.bench.rows.published import UnknownRowError, predicted

FAMILIES = {
    "Add": adds.ROWS, "VectorAdd": vector_adds.ROWS, "To UB": copies.TO_UB, "To L1": copies.TO_L1, "Banks": banks.ROWS,
    "Matmul": matmuls.ROWS, "Attention": attention.ROWS, "Beside": overlapped.ROWS,
}  # fmt: skip
# The nine rows of element-wise kernels that any model of these cores is first held against.
NINE = {*(row.what for row in adds.ROWS[1:5]), *(row.what for row in vector_adds.ROWS[:5])}


def measure(families=tuple(FAMILIES)):
    """Each row with its error, and the times of its pipes."""
    for name in families:
        for row in FAMILIES[name]:
            us, pipes = row.us()
            yield row, us, us / row.published - 1, pipes


def rms(errors):
    return np.sqrt(np.mean(np.square(list(errors))))


def table(families=tuple(FAMILIES)):
    """A row for each, then the root mean squares of the errors."""
    yield (
        "| kernel | fitted on: *f* | card | published us | here us | error | of pipes, published : here |\n"
        + "| --- " * 7
        + "|"
    )
    errors = {}
    for row, us, error, pipes in measure(families):
        errors[row] = error
        columns = ", ".join(
            f"{pipe} {of:,.0f} : {pipes.get(pipe, 0):,.0f}" for pipe, of in row.columns.items() if of >= 1
        )
        fitted = "*f*" if row.fitted else ""
        yield (
            f"| {row.family} {row.what} | {fitted} | {row.card} | {row.published:,.1f} | {us:,.1f} | {error:+.1%} | "
            f"{columns} |"
        )
    yield ""
    for what, chosen in (
        ("the five of the first nine that were fitted on", [row for row in errors if row.what in NINE and row.fitted]),
        ("the other four of them", [row for row in errors if row.what in NINE and not row.fitted]),
        ("all nine", [row for row in errors if row.what in NINE]),
        ("other fitted rows", [row for row in errors if row.what not in NINE and row.fitted]),
        (
            "other rows, Matmul, Attention and Beside aside",
            [
                row
                for row in errors
                if row.what not in NINE and not row.fitted and row.family not in ("Matmul", "Attention", "Beside")
            ],
        ),
        ("Matmul", [row for row in errors if row.family == "Matmul"]),
        ("Attention", [row for row in errors if row.family == "Attention"]),
        ("Beside, of which one is fitted", [row for row in errors if row.family == "Beside"]),
    ):
        if chosen:
            worst = max(chosen, key=lambda row: abs(errors[row]))
            yield (
                f"* {what} ({len(chosen)}): root mean square {rms(errors[row] for row in chosen):.1%}, "
                f"largest {errors[worst]:+.1%} ({worst.family} {worst.what})"
            )


def predict_file(path, limit_us, out):
    """Predict the rows of a file that have a kernel and are not too long; return whether all have one."""
    document = json.loads(path.read_text(encoding="utf-8"))
    done, left, unknown = [], [], []
    for row in document["rows"] if isinstance(document, dict) else document:
        if row["us"] > limit_us:
            left.append((row["op"], row["shape"], f"longer than {limit_us:,.0f} us"))
            continue
        try:
            done.append(predicted(row))
        except UnknownRowError as error:
            unknown.append((row["op"], row["shape"], str(error)))
            continue
        # Long files take long: what is known so far is kept.
        say(f"{row['op']} {row['shape']}: {row['us']:,.1f} us, here {done[-1]['predicted']:,.1f}")
        if out:
            out.write_text(json.dumps(done), encoding="utf-8")
    show("Microseconds, and the error in %", ("row", "shape", "measured", "predicted", "error"), [
        (row["op"], str(row["shape"]), f"{row['measured']:,.1f}", f"{row['predicted']:,.1f}", f"{_error(row):+.1%}")
        for row in done
    ])  # fmt: skip
    kinds = defaultdict(list)
    for row in done:
        if str(row.get("fair", "yes")).startswith("yes"):
            kinds[row["kind"]].append(_error(row))
            kinds["all"].append(_error(row))
    show("Errors of the fair rows", ("kind", "rows", "root mean square", "mean", "largest"), [
        (kind, str(len(each)), f"{rms(each):.1%}", f"{np.mean(each):+.1%}", f"{max(each, key=abs):+.1%}")
        for kind, each in kinds.items()
    ])  # fmt: skip
    _show_pairs(done)
    show("Not predicted", ("row", "shape", "why"), [(op, str(shape), why) for op, shape, why in (*unknown, *left)])
    if out:
        out.write_text(json.dumps(done), encoding="utf-8")
        say(f"{len(done)} rows are in {out}")
    return not unknown


def pairs_of(rows):
    """Yield pairs of fair rows that differ in their words alone, and by more than 3 % on the card."""
    alike = defaultdict(list)
    for row in rows:
        if str(row.get("fair", "yes")).startswith("yes"):
            alike[tuple(str(row[name]) for name in ("kind", "shape", "dtype", "card", "cores", "how"))].append(row)
    for each in alike.values():
        for one, other in combinations(each, 2):
            if one["op"] != other["op"] and abs(one["measured"] / other["measured"] - 1) > 0.03:
                yield one, other


def _show_pairs(rows):
    lines, right, off = [], 0, []
    for one, other in pairs_of(rows):
        card, here = (one[time] / other[time] for time in ("measured", "predicted"))
        right += (card > 1) == (here > 1)
        off.append(abs(here / card - 1))
        lines.append((f"{one['op']} / {other['op']}", str(one["shape"]), f"{card:.2f}", f"{here:.2f}"))
    if lines:
        show("Pairs that differ in one choice: ratio of their times", ("rows", "shape", "card", "here"), lines)
        say(f"{right} of {len(lines)} pairs have the measured sign; median error of the ratio {np.median(off):.1%}")


def _error(row):
    return row["predicted"] / row["measured"] - 1


def main(arguments=()):
    """Print the table of the families, or that of a file; exit with 4 if a row of the file was not predicted."""
    parser = argparse.ArgumentParser("python -m tests.bench aicore_rows", description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--rows", metavar="FILE", type=Path, help="a file of rows")
    parser.add_argument("--json", metavar="OUT", type=Path, help="where to write the rows of the file")
    parser.add_argument("--limit-us", type=float, default=10_000, help="leave out longer rows (10,000)")
    options = parser.parse_args(arguments)
    if options.rows:
        sys.exit(0 if predict_file(options.rows, options.limit_us, options.json) else 4)
    for line in table(options.families or tuple(FAMILIES)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
