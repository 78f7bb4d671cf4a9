"""The rows of a file: predicted one by one or in several processes, kept as they end, and shown kind by kind."""

import json
from collections import defaultdict

import numpy as np

from acl_py.whole_files import write_text
from tests.bench.measure import markdown, say
from tests.bench.rows.published import UnknownRowError, predicted

LONG_US = 80


def rows_of(path):
    """The rows of a file, which is a list or has one."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return document["rows"] if isinstance(document, dict) else document


def predict_rows(rows, limit_us, crew, out=None, kept=()):
    """Predict the rows that have a kernel and are not longer than *limit_us*, without those that are in *kept*.

    Return the predicted rows, the ones without a kernel, and the long ones, each with what is to be said of it. The
    predicted rows are in *out* as soon as they are known: long files take long.
    """
    done = {place: old for place, row in enumerate(rows) if (old := _kept(row, kept))}
    new = [place for place in range(len(rows)) if place not in done]
    left = [(rows[place], f"longer than {limit_us:,.0f} us") for place in new if rows[place]["us"] > limit_us]
    places = [place for place in new if rows[place]["us"] <= limit_us]
    if not crew.is_here:
        places.sort(key=lambda place: -rows[place]["us"])  # a long row that begins last would run alone
    unknown = {}
    for number, (row, error) in crew.as_they_end(_outcome, [rows[place] for place in places]):
        place = places[number]
        if error:
            unknown[place] = row, error
            continue
        done[place] = row
        say(f"{row['op']} {row['shape']}: {row['us']:,.1f} us, here {row['predicted']:,.1f}")
        if out:
            write_text(out, json.dumps([done[each] for each in sorted(done)]))
    return [done[place] for place in sorted(done)], [unknown[place] for place in sorted(unknown)], left


def _outcome(row):
    try:
        return predicted(row), ""
    except UnknownRowError as error:
        return row, str(error)


def _kept(row, kept):
    """Return the row of *kept* that predicts *row*, or None."""
    return next((old for old in kept if {name: old.get(name) for name in row} == row), None)


def show_rows(done):
    """Print the rows of each kind, then the errors of the fair ones."""
    kinds = defaultdict(list)
    for row in done:
        kinds[row["kind"]].append(row)
    for kind, rows in kinds.items():
        markdown(f"{kind}, microseconds", ("row", "shape", "card", "cores", "published", "here", "error"), [
            (row["op"], row["shape"], row["card"], row["cores"], f"{row['measured']:,.1f}", f"{row['predicted']:,.1f}",
             f"{error_of(row):+.1%}")
            for row in rows
        ])  # fmt: skip
    fair = {
        kind: [row for row in rows if str(row.get("fair", "yes")).startswith("yes")] for kind, rows in kinds.items()
    }
    fair["all"] = [row for rows in fair.values() for row in rows]
    fair[f"longer than {LONG_US} us"] = [row for row in fair["all"] if row["measured"] > LONG_US]
    header = "fair rows", "number", "root mean square", "mean", "largest"
    lines = []
    for kind, rows in fair.items():
        if errors := [error_of(row) for row in rows]:
            largest = max(errors, key=abs)
            lines.append((kind, len(errors), f"{rms(errors):.1%}", f"{np.mean(errors):+.1%}", f"{largest:+.1%}"))
    markdown("Errors", header, lines)


def show_unknown(unknown, left):
    """Print the rows that were not predicted, and why."""
    lines = [(row["op"], row["shape"], why) for row, why in (*unknown, *left)]
    if lines:
        markdown("Not predicted", ("row", "shape", "why"), lines)


def error_of(row):
    return row["predicted"] / row["measured"] - 1


def rms(errors):
    return np.sqrt(np.mean(np.square(list(errors))))
