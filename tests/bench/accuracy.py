"""How close simulated times come to those of the card: makespans of the measured programs, and single kernels."""

from math import ceil, floor
from statistics import mean

from tests.bench.measure import say, show, target
from tests.conformance.criteria import (
    distribution,
    is_capture,
    makespan_error,
    measured,
    replayed,
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
    _groups(errors)
    _histogram(list(errors.values()))
    _worst(documents, errors)
    inside = sum(_is_within_noise(document, runs[document["id"]].makespan_us) for document in documents)
    say(f"{inside} of {len(documents)} makespans lie between the card's fastest and slowest run.")
    _kernels(documents, runs)
    _semantics()


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
    show("Error of the makespan, %", ("programs", "number", "median", "p90", "max", "mean, signed"), rows)


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


def _is_within_noise(document, makespan_us):
    observed = document["observed"]
    return observed["makespan_min_us"] <= makespan_us <= observed["makespan_max_us"]


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
