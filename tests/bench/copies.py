"""What copies cost the host, and which of them wait: the measured programs that ask for it, beside ours."""

from statistics import median

from tests.bench.measure import say, show
from tests.conformance.criteria import counted_calls, measured, replayed, wrong_codes, wrong_costs, wrong_waits

FILES = ("staging", "gaps", "waits", "pageable")
COLD = "pageable"  # copies of bytes that the host had not read lately, which takes twice as long: only waits count


def main():
    rows, wrong = [], []
    for file in FILES:
        runs = [(document, replayed(file, document["id"])) for document in measured(file)]
        far = [_wrong(file, *run) for run in runs]
        rows += [_row(*part) for part in (
            (file, runs, far), ("  even positions", runs[::2], far[::2]), ("  odd positions", runs[1::2], far[1::2])
        )]  # fmt: skip
        wrong += [(document["id"], call) for (document, _), calls in zip(runs, far, strict=True) for call in calls]
    head = ("file", "programs", "codes, waits and costs as there", "calls of 20 us or more", "median error %")
    show("Copies, and what calls cost the host: h200, with the host of each file", head, rows)
    for id_, call in wrong:
        say(f"  {id_}: {call}")
    say("")


def _wrong(file, document, ours):
    costs = [] if file == COLD else wrong_costs(document, ours)
    return [*wrong_codes(document, ours), *wrong_waits(document, ours), *costs]


def _row(name, runs, far):
    same = sum(not calls for calls in far)
    errors = [abs(100 * (here / there - 1)) for run in runs for _, there, here in counted_calls(*run)]
    return name, len(runs), f"{same} ({100 * same / len(runs):.0f} %)", len(errors), f"{median(errors):.1f}"
