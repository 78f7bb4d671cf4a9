"""Published times of kernels, and what the same kernels take here: `python -m tests.bench.aicore_rows [family ...]`.

Kernels move all their bytes and add all their numbers. Rows marked *f* are those on which constants were fitted; on the
others they were not (docs/accuracy.md says more). Rows of one core, or of equal parts, run a part of the work.
"""

import sys

import numpy as np

from tests.bench.rows import adds, attention, banks, copies, matmuls, vector_adds

FAMILIES = {
    "Add": adds.ROWS, "VectorAdd": vector_adds.ROWS, "To UB": copies.TO_UB, "To L1": copies.TO_L1, "Banks": banks.ROWS,
    "Matmul": matmuls.ROWS, "Attention": attention.ROWS,
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
    yield "| kernel | | card | published us | here us | error | of pipes, published : here |\n" + "| --- " * 7 + "|"
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
            "other rows, Matmul and Attention aside",
            [
                row
                for row in errors
                if row.what not in NINE and not row.fitted and row.family not in ("Matmul", "Attention")
            ],
        ),
        ("Matmul", [row for row in errors if row.family == "Matmul"]),
        ("Attention", [row for row in errors if row.family == "Attention"]),
    ):
        if chosen:
            worst = max(chosen, key=lambda row: abs(errors[row]))
            yield (
                f"* {what} ({len(chosen)}): root mean square {rms(errors[row] for row in chosen):.1%}, "
                f"largest {errors[worst]:+.1%} ({worst.family} {worst.what})"
            )


if __name__ == "__main__":
    for line in table(sys.argv[1:] or tuple(FAMILIES)):
        print(line, flush=True)
