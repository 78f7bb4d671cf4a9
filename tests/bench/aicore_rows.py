"""Published times of kernels, and what the same kernels take here: `python -m tests.bench aicore_rows [family ...]`, or
with `--rows FILE [--json OUT]` the rows of a file (rows/published.py). `--pairs` also compares choices.

Kernels move all their bytes and add all their numbers. Rows marked *f* are those on which constants were fitted; on the
others they were not (docs/accuracy.md says more). Rows of one core, or of equal parts, run a part of the work.
"""

import argparse
import json
import sys
from pathlib import Path

from acl_py.many.crew import Crew
from tests.bench.aicore_rows_file import predict_rows, rms, rows_of, show_rows, show_unknown
from tests.bench.aicore_rows_pairs import differing, is_same, pairs_of, show_pairs
from tests.bench.measure import say
from tests.bench.rows import adds, attention, banks, choices, copies, matmuls, overlapped, vector_adds

FAMILIES = {
    "Add": adds.ROWS, "VectorAdd": vector_adds.ROWS, "To UB": copies.TO_UB, "To L1": copies.TO_L1, "Banks": banks.ROWS,
    "Matmul": matmuls.ROWS, "Attention": attention.ROWS, "Beside": overlapped.ROWS,
}  # fmt: skip
# The nine rows of element-wise kernels that any model of these cores is first held against.
NINE = {*(row.what for row in adds.ROWS[1:5]), *(row.what for row in vector_adds.ROWS[:5])}


def measure(families=tuple(FAMILIES), crew=None):
    """Each row with its error, and the times of its pipes."""
    rows = [row for name in families for row in FAMILIES[name]]
    points = [(row.family, row.what) for row in rows]
    for row, (us, pipes) in zip(rows, (crew or Crew(workers=1)).in_order(_run, points), strict=True):
        yield row, us, us / row.published - 1, pipes


def _run(point):
    """Run the row of a family, which a worker finds by its words: it cannot be sent to another process."""
    family, what = point
    return next(row for row in FAMILIES[family] if row.what == what).us()


def table(families=tuple(FAMILIES), crew=None):
    """A row for each, then the root mean squares of the errors."""
    yield (
        "| kernel | fitted on: *f* | card | published us | here us | error | of pipes, published : here |\n"
        + "| --- " * 7
        + "|"
    )
    errors = {}
    for row, us, error, pipes in measure(families, crew):
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


def pairs_of_families(crew):
    """Pairs of rows of the families that differ in one choice, and by more than 3 % on the card."""
    names = {family for _, family, _ in choices.FAMILIES}
    times = {(row.family, row.what): (row.published, us) for row, us, _, _ in measure(sorted(names), crew)}
    for choice, family, whats in choices.FAMILIES:
        rows = [
            {"op": f"{family}: {what}", "shape": choice, "measured": times[family, what][0],
             "predicted": times[family, what][1]}
            for what in whats
        ]  # fmt: skip
        yield from differing(rows)


def main(arguments=()):
    """Print the table of the families, or that of a file; exit with 4 if a row of the file was not predicted."""
    parser = argparse.ArgumentParser("python -m tests.bench aicore_rows", description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--rows", metavar="FILE", type=Path, help="a file of rows")
    parser.add_argument("--json", metavar="OUT", type=Path, help="where to write the rows of the file, as they end")
    parser.add_argument("--resume", action="store_true", help="keep the rows that OUT has")
    parser.add_argument("--limit-us", type=float, default=10_000, help="leave out longer rows (10,000)")
    parser.add_argument("--pairs", action="store_true", help="compare all pairs that differ in one choice, here, too")
    parser.add_argument("--workers", type=int, default=1, help="how many rows run at the same time (1)")
    options = parser.parse_args(arguments)
    for family in options.families:
        if family not in FAMILIES:
            parser.error(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
    if options.families and (options.rows or options.pairs):
        parser.error("a FAMILY is for the table of the families: leave it out with --rows and --pairs")
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: one or more rows run at the same time")
    if options.resume and not options.json:
        parser.error("--resume keeps rows of OUT: name it with --json OUT")
    with Crew(workers=options.workers) as crew:
        if options.rows or options.pairs:
            sys.exit(0 if _predict(options, crew) else 4)
        for line in table(options.families or tuple(FAMILIES), crew):
            print(line, flush=True)


def _predict(options, crew):
    """Show the rows of a file, and the pairs of it, of other rows, too, if asked; return whether all have a kernel."""
    kept = json.loads(options.json.read_text(encoding="utf-8")) if options.resume and options.json.exists() else ()
    rows = rows_of(options.rows) if options.rows else []
    done, unknown, left = predict_rows(rows, options.limit_us, crew, options.json, kept)
    if rows:
        show_rows(done)
    pairs = list(pairs_of(done))
    if options.pairs:
        others = [row for row in choices.PRODUCTS if not any(is_same(row, each) for each in rows)]
        pairs = [*pairs_of([*done, *predict_rows(others, options.limit_us, crew)[0]]), *pairs_of_families(crew)]
    show_pairs(pairs)
    show_unknown(unknown, left)
    if options.json:
        say(f"{len(done)} rows are in {options.json}")
    return not unknown


if __name__ == "__main__":
    main(sys.argv[1:])
