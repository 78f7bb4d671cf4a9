"""Changes of JSON values, as a damaged or a hostile file may have them."""

import random
from typing import Any

VALUES = [-1, 0, 1, 2, 3, -7, 99, 10**6, 2**62, 2**63, 10**30, 1.5, None, True, "", "x", "\ud800", [], [[]], {}]


def mutated(rng: random.Random, value: Any) -> Any:
    """*value* with one change, somewhere in it: another value, one less, one more, or two in each other's place."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        at, other, how = rng.randrange(len(value)), rng.randrange(len(value)), rng.random()
        value = list(value)
        if how < 0.75:
            value[at] = mutated(rng, value[at])
        elif how < 0.85:
            del value[at]
        elif how < 0.93:
            value.insert(at, value[other])
        else:
            value[at], value[other] = value[other], value[at]
        return value
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        value = dict(value)
        if rng.random() < 0.92:
            value[key] = mutated(rng, value[key])
        else:
            del value[key]
        return value
    if type(value) is int and rng.random() < 0.5:
        return value + rng.choice([-1, 1, -1000, 1000])
    return rng.choice(VALUES)
