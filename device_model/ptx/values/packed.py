"""Integers of 8 and 16 bits that share a word: pairs in s16x2 and u16x2, and the dot products dp4a and dp2a."""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.values.rounding import Array, in_pieces


def word_of(halves: Array) -> Array:
    """Return the words of pairs along the last axis."""
    return np.ascontiguousarray(halves).view(np.uint32)[..., 0]


def split(word: Array, dtype: Any) -> Array:
    """Return words of 32 bits as values of a narrower dtype along a new last axis, the lowest first."""
    return np.ascontiguousarray(word)[..., np.newaxis].view(dtype) if word.ndim else word.reshape(1).view(dtype)


def by_pair(function: Callable[..., Array], dtype: Any, *operands: Array, **options: bool) -> Array:
    """Return words whose halves are what a function of `integers` gives for the halves of the operands."""
    return word_of(function(*(split(operand, dtype) for operand in operands), **options))


@in_pieces(4096)
def dp4a(a: Array, b: Array, c: Array, *, a_signed: bool, b_signed: bool) -> Array:
    """Return c plus the sum of the four products of the bytes of a and b; it wraps."""
    left = split(a, np.int8 if a_signed else np.uint8).astype(np.int32)
    right = split(b, np.int8 if b_signed else np.uint8).astype(np.int32)
    return _dot(left, right, c)


@in_pieces(4096)
def dp2a(a: Array, b: Array, c: Array, *, a_signed: bool, b_signed: bool, hi: bool = False) -> Array:
    """Return c plus the sum of the products of the halves of a with the lower or the upper two bytes of b; it wraps."""
    left = split(a, np.int16 if a_signed else np.uint16).astype(np.int32)
    right = split(b, np.int8 if b_signed else np.uint8).astype(np.int32)
    return _dot(left, right[..., 2:] if hi else right[..., :2], c)


def _dot(left: Array, right: Array, c: Array) -> Array:
    total = c.view(np.int32)
    for place in range(left.shape[-1]):
        total = total + left[..., place] * right[..., place]
    return np.asarray(total).view(c.dtype)
