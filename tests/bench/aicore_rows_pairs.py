"""Pairs of published rows that differ in one choice: which of the two is faster, and by how much, on the card and here.

A choice is a tile, a swizzle, A kept in L1, a split of k, the layout of banks, the order of a matrix, and the like.
"""

import re
from collections import defaultdict
from itertools import combinations

import numpy as np

from tests.bench.measure import markdown, say
from tests.bench.rows.choices import BANKS

LEAST = 0.03  # by which two times on the card differ
_SAME = "kind", "shape", "dtype", "card", "cores", "how"
_CHOICES = r"\bL1 \d+ ?x ?\d+(?: ?x ?\d+)?", r"\bswizzle <\d+, ?\d>"  # that a row may have beside its other words


def pairs_of(rows):
    """Yield pairs of fair rows that differ in one choice of their words alone, and by more than 3 % on the card."""
    alike = defaultdict(list)
    for row in rows:
        if str(row.get("fair", "yes")).startswith("yes"):
            alike[tuple(str(row[name]) for name in _SAME)].append(row)
    for each in alike.values():
        yield from differing(each)


def is_same(one, other):
    """Whether two rows are one published row."""
    return all(one[name] == other[name] for name in ("op", "us", *_SAME))


def differing(rows):
    """Yield pairs of *rows* that differ in one choice, and by more than 3 % on the card."""
    for one, other in combinations(rows, 2):
        choices = zip(_chosen(one["op"]), _chosen(other["op"]), strict=True)
        if sum(a != b for a, b in choices) == 1 and abs(one["measured"] / other["measured"] - 1) > LEAST:
            yield one, other


def _chosen(op):
    """Return the tile and the swizzle that *op* names, and its other words."""
    found = []
    for choice in _CHOICES:
        found.append(re.findall(choice, op))
        op = re.sub(rf"[, ]*{choice}", "", op)
    return *found, op


def show_pairs(pairs):
    """Print both ratios of each pair, and how many have the sign of the card."""
    lines, errors = [], {}
    for one, other in pairs:
        card, here = (one[time] / other[time] for time in ("measured", "predicted"))
        sign = "" if (card > 1) == (here > 1) else "wrong"
        errors[len(lines)] = abs(here / card - 1)
        lines.append((f"{one['op']} / {other['op']}", str(one["shape"]), f"{card:.2f}", f"{here:.2f}", sign))
    if not lines:
        return
    markdown("Pairs that differ in one choice: ratio of their times", ("rows", "shape", "card", "here", "sign"), lines)
    others = [place for place, line in enumerate(lines) if line[1] != BANKS]
    for what, places in (("", list(errors)), (" in other choices than bank layouts", others)):
        right = sum(not lines[place][-1] for place in places)
        if places:
            say(
                f"{right} of {len(places)} pairs{what} ({right / len(places):.0%}) have the measured sign; "
                f"median error of the ratio {np.median([errors[place] for place in places]):.1%}"
            )
