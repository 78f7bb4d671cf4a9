"""SIMD instructions of video: what is done with the bytes or the halves of words, each for itself.

Names and rules are those of the PTX ISA (SIMD video instructions), for all lanes of the words in their order. A result
is cut off to its lane, or with *sat* clamped to it; with *add* the results are added to a third word.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.values.packed import split
from device_model.ptx.values.rounding import Array, in_pieces

OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@in_pieces(4096)
def simd(
    a: Array, b: Array, c: Array, operation: str, dtypes: tuple[Any, Any, Any], *, sat: bool = False, add: bool = False
) -> Array:  # fmt: skip
    """Return words whose lanes are what *operation* gives for the lanes of a and b.

    Args:
        a: Words.
        b: Words.
        c: What *add* adds the lanes to.
        operation: One of `OPERATIONS` or `COMPARISONS`.
        dtypes: Of the lanes of the result, of a and of b.
        sat: Whether a lane is clamped.
        add: Whether the lanes are added.
    """
    to, *sources = dtypes
    x, y = (split(word, source).astype(np.int64) for word, source in zip((a, b), sources, strict=True))
    function = OPERATIONS.get(operation) or COMPARISONS[operation]
    lanes = np.asarray(function(x, y)).astype(np.int64)
    if add:
        return np.asarray((lanes.sum(-1) + c.astype(np.int64)).astype(np.uint32))
    if sat:
        bounds = np.iinfo(to)
        lanes = np.minimum(np.maximum(lanes, bounds.min), bounds.max)
    return np.ascontiguousarray(lanes.astype(to)).view(np.uint32)[..., 0]
