"""How close simulated times come to those of the card: makespans of the measured programs, and single kernels.

Each program runs with the host of its file (tests/conformance/hosts). What lies between the fastest and the slowest run
of the card is no error.
"""

import json
from math import ceil, floor
from statistics import mean

from tests.bench.copies import FILES
from tests.bench.kernels import DATA, by_kind, error, predicted
from tests.bench.measure import say, show, target
from tests.conformance.criteria import (
    counted_calls,
    distribution,
    is_capture,
    is_within_runs,
    late_starts,
    makespan_error,
    measured,
    replayed,
    uses,
    wrong_codes,
    wrong_overlaps,
    wrong_waits,
)

WORST = 10


def main():
    documents = measured("timelines")
    runs = {document["id"]: replayed("timelines", document["id"]) for document in documents}
    errors = {document["id"]: makespan_error(document, runs[document["id"]]) for document in documents}
    median, p90, _ = distribution(list(errors.values()))
    say(f"Makespans of {len(errors)} random programs, h200, against the card's medians of 9 runs:")
    say(f"  median error {target(median, 3)} %, 90th percentile {target(p90, 10)} %\n")
    _families()
    _groups(errors)
    _histogram(list(errors.values()))
    _worst(documents, errors)
    inside = sum(is_within_runs(document, runs[document["id"]].makespan_us) for document in documents)
    say(f"{inside} of {len(documents)} makespans lie between the card's fastest and slowest run.")
    _kernels(documents, runs)
    _semantics()


def _families():
    """All families of measured numbers: how many, how far off, and whether anything was fitted to them."""
    rows = []
    for file, fitted in (("timelines", "six latencies"), ("timelines2", "no")):
        runs = [(document, replayed(file, document["id"])) for document in measured(file)]
        rows += [_family(f"makespans, {file}{name}", own, fitted) for name, own in _parts(runs).items() if own]
    starts = [pair for document in measured("timelines2")
              for pair in late_starts(document, replayed("timelines2", document["id"]))]  # fmt: skip
    late = [here - there for there, here in starts]
    close = sum(abs(here - there) <= max(3, 0.03 * there) for there, here in starts)
    for file in FILES:
        errors = [100 * (here / there - 1) for document in measured(file)
                  for _, there, here in counted_calls(document, replayed(file, document["id"]))]  # fmt: skip
        rows.append(_row(f"calls of 20 us and more, {file}", errors, "no"))
    for kind, own in by_kind(predicted(json.loads((DATA / "kernels.json").read_text())["rows"])).items():
        rows.append(_row(f"library kernels, {kind}", [error(row) for row in own], "on even positions"))
    head = ("family", "number", "median", "p90", "largest", "mean, signed", "fitted")
    show("Error, %", head, rows)
    median, p90, largest = distribution(late)
    say(f"Of {len(starts)} kernels of timelines2, {close} start within 3 us or 3 % of the card's time; ours start")
    say(f"{median:.1f} us (median), {p90:.0f} us (90th percentile) and {largest:.0f} us (largest) off.\n")


def _parts(runs):
    """The programs of one file: all, each half, and by what they use."""
    parts = {"": runs, ", even positions": runs[::2], ", odd positions": runs[1::2]}
    for name, wanted in (
        (", neither pageable memory nor host functions", (False, False)),
        (", pageable memory", (True, False)),
        (", host functions", (False, True)),
        (", both", (True, True)),
    ):
        parts[name] = [run for run in runs if uses(run[0]) == wanted]
    return parts


def _family(name, runs, fitted):
    errors = [
        0.0 if is_within_runs(document, ours.makespan_us) else makespan_error(document, ours) for document, ours in runs
    ]
    return _row(name, errors, fitted)


def _row(name, errors, fitted):
    return name, len(errors), *(f"{size:.2f}" for size in distribution(errors)), f"{mean(errors):+.2f}", fitted


def _groups(errors):
    values = list(errors.values())
    kinds = {
        kind: [error for id_, error in errors.items() if f"-{kind}-" in id_] for kind in ("pipeline", "dag", "mixed")
    }
    groups = {"all": values, "even positions": values[::2], "odd positions": values[1::2], **kinds}
    rows = [
        (name, len(group), *(f"{size:.2f}" for size in distribution(group)), f"{mean(group):+.2f}")
        for name, group in groups.items()
    ]
    show(
        "Error of the makespan of the first generation against the median run, %",
        ("programs", "number", "median", "p90", "max", "mean, signed"),
        rows,
    )


def _histogram(values):
    say("Error, % (negative: ours is shorter)")
    low, high = floor(min(values)), ceil(max(values))
    for edge in range(low, high):
        count = sum(edge <= value < edge + 1 for value in values)
        say(f"  {edge:>4} to {edge + 1:>3}  {count:>3}  {'█' * count}".rstrip())
    say("")


def _worst(documents, errors):
    there = {document["id"]: document["observed"]["makespan_us"] for document in documents}
    worst = sorted(errors, key=lambda id_: -abs(errors[id_]))[:WORST]
    rows = [
        (id_, f"{there[id_]:,.1f}", f"{there[id_] * (1 + errors[id_] / 100):,.1f}", f"{errors[id_]:+.2f}")
        for id_ in worst
    ]
    show(f"The {WORST} worst", ("program", "card us", "ours us", "error %"), rows)


def _kernels(documents, runs):
    """Kernels stamp their own clock, untraced: from the start of the first block to the end of the last."""
    off = [
        abs(ours.end_us - ours.start_us - (end - start))
        for document in documents
        for id_, (start, end) in document["observed"]["kernel_stamps_us"].items()
        for ours in [runs[document["id"]].device[id_]]
    ]
    close = sum(each <= 4 for each in off)
    say(f"{close} of {len(off)} kernels last as long as by their own clock, within 4 us.")


def _semantics():
    documents = [document for document in measured("semantics") if not is_capture(document)]
    same = 0
    for document in documents:
        ours = replayed("semantics", document["id"])
        same += not (wrong_codes(document, ours) or wrong_waits(document, ours) or wrong_overlaps(document, ours))
    say(f"{same} of {len(documents)} semantics programs behave as on the card (codes, waits, overlaps).\n")
