"""Predicted changes: measured programs that differ by one edit, and how the makespan changes on the card and here."""

from collections import defaultdict
from statistics import median

from tests.bench.measure import say, show
from tests.conformance.changes import FILES, changes

KINDS = {
    "us": "time of kernels",
    "bytes": "size of copies",
    "src": "memory that copies read",
    "dst": "memory that copies write",
    "stream": "stream, or its flags",
    "op": "another call",
    "step": "one call more or less",
}


def main():
    pairs = [change for name in FILES for change in changes(name)]
    certain = [change for change in pairs if change.is_certain]
    right = sum(change.is_sign_right for change in certain)
    say(f"{len(pairs)} pairs of measured programs differ by one edit. In {len(certain)} of them, each run of the one")
    say("on the card was faster than each run of the other. Of these")
    say(f"  {right} of {len(certain)} predicted changes have the measured sign;")
    say(f"  median error {median(change.error for change in certain):.1f} % of the measured change\n")
    _kinds(certain)
    _wrong(certain)


def _kinds(certain):
    groups = defaultdict(list)
    for change in certain:
        groups[change.field].append(change)
    rows = [
        (
            what,
            len(groups[field]),
            sum(change.is_sign_right for change in groups[field]),
            f"{median(change.error for change in groups[field]):.1f}",
            f"{median(abs(change.there_us) for change in groups[field]):,.1f}",
        )
        for field, what in KINDS.items()
    ]
    show("By what was edited", ("edit", "pairs", "same sign", "median error %", "median change there us"), rows)


def _wrong(certain):
    rows = [
        (f"{change.before}, {change.after}", f"{change.there_us:+.1f}", f"{change.here_us:+.1f}")
        for change in certain
        if not change.is_sign_right
    ]
    show("Another sign than on the card", ("programs", "change there us", "here us"), rows)
