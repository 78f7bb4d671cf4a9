"""Contents of arrays for kernels, made from a seed: a card and the simulated device get the same ones.

An array is `{"dtype", "n"}`, and `make` names how its contents are made. Without it, floats are normal, bytes are all
that there are, and other integers are from 1 to 2**20. This module needs NumPy only, so that it runs beside a card.
"""

import numpy as np

SEED = 1  # of the arrays of a row, which are made one after the other


def arrays(arguments, kernel=""):
    """The arrays among the arguments of a row; numbers stay as they are."""
    random = np.random.default_rng(SEED)
    return [array(each, random, kernel) if isinstance(each, dict) else each for each in arguments]


def array(value, random, kernel=""):
    """An array of the type, the size and the contents that `value` says."""
    dtype, size = np.dtype(value["dtype"]), value["n"]
    made = MAKERS[value.get("make") or _usual(dtype, kernel)](random, size, value)
    return made.astype(dtype, copy=False)


def _usual(dtype, kernel):
    if dtype.kind == "f":
        return "normal"
    if kernel == "gather":  # of a file whose arrays have no `make`
        return "permutation"
    return "bytes" if dtype.itemsize == 1 else "integers"


def _offsets(random, size, value):
    """Where each row of a sparse matrix begins: from 0 to `to`, with rows of random lengths."""
    inner = np.sort(random.integers(0, value["to"] + 1, size - 2))
    return np.concatenate([[0], inner, [value["to"]]])


MAKERS = {
    "zeros": lambda random, size, value: np.zeros(size, np.uint8),
    "normal": lambda random, size, value: random.standard_normal(size),
    "integers": lambda random, size, value: random.integers(value.get("from", 1), value.get("to", 1 << 20), size),
    "bytes": lambda random, size, value: random.integers(0, 256, size),
    "halves": lambda random, size, value: random.standard_normal(size).astype(np.float16).view(np.uint16),
    "permutation": lambda random, size, value: random.permutation(size),
    "offsets": _offsets,
}
