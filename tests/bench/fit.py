"""How honest the fit is: the fitted latencies fitted again on one half of the programs and tried on the other.

python -m tests.bench.fit
"""

from dataclasses import replace as changed
from statistics import mean

from acl_py.programs.replay import replay
from device_model.profile import load
from tests.bench.measure import show
from tests.conformance.criteria import distribution, makespan_error, measured, program

# The values that were fitted, and what a search tries for each: a coarse grid, for finer ones are noise.
GRID = {
    ("latency", "engines"): (3000, 4000, 4500, 5000, 5500, 6000, 7000),
    ("latency", "submit_kernel"): (1000, 2000, 3000, 4000),
    ("latency", "submit_copy"): (1000, 2200, 3000, 4000),
    ("latency", "kernel_other_stream"): (500, 1000, 1500, 2500),
    ("latency", "copy_gap"): (200, 600, 1000, 1400),
    ("host", "wake"): (2000, 3000, 4200, 5000, 6000),
}


def main():
    card = load("h200")
    pairs = [(document, program(document)) for document in measured("timelines")]
    even, odd = pairs[::2], pairs[1::2]
    rows = []
    for name, ours, others in (("even, tried on odd", even, odd), ("odd, tried on even", odd, even)):
        fitted = _fit(card, ours)
        values = ", ".join(str(getattr(getattr(fitted, section), value)) for section, value in GRID)
        rows.append((name, *(f"{size:.2f}" for size in distribution(_errors(fitted, others))), values))
    for name, half in (("as shipped, on odd", odd), ("as shipped, on even", even)):
        values = ", ".join(str(getattr(getattr(card, section), value)) for section, value in GRID)
        rows.append((name, *(f"{size:.2f}" for size in distribution(_errors(card, half))), values))
    show("Error of the makespan, %", ("fitted on", "median", "p90", "max", "ns"), rows)


def _fit(card, pairs):
    """Coordinate descent on the mean error, from the middle of each grid."""
    best = card
    for (section, value), grid in GRID.items():
        best = _with(best, section, value, grid[len(grid) // 2])
    for _ in range(2):
        for (section, value), grid in GRID.items():
            candidates = [_with(best, section, value, number) for number in grid]
            best = min(candidates, key=lambda profile: mean(map(abs, _errors(profile, pairs))))
    return best


def _with(card, section, value, number):
    return changed(card, **{section: changed(getattr(card, section), **{value: number})})


def _errors(card, pairs):
    return [makespan_error(document, replay(each, device=card)) for document, each in pairs]


if __name__ == "__main__":
    main()
