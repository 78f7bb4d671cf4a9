"""Calls of a library: their shapes and types, and which part of a card their kernels occupy for how long.

Sizes are in elements unless a name says bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from device_model.integers import integer
from device_model.kernel.ranges import MOST
from device_model.library import passes
from device_model.library.products import BYTES, Shape, choose
from device_model.library.spec import LibrarySpec


class NoSuchTypeError(LookupError):
    """A card does not multiply matrices of that type."""


class Plan(NamedTuple):
    """How many cores a kernel occupies, and for how many nanoseconds."""

    cores: int
    ns: float


class Call:
    """A call of a library."""

    __slots__ = ()

    def plan(self, spec: LibrarySpec, cores: int, all_cores: int) -> Plan:
        """Return how the kernel runs on at most *cores* of a card that has *all_cores*.

        The time is without what every kernel takes: the gap before it, the start of a block and the end of the kernel.

        Raises:
            NoSuchTypeError: The card has no such kernel.
        """
        raise NotImplementedError  # pragma: no cover - each call has its own


@dataclass(frozen=True, slots=True)
class Matmul(Call):
    """C = A B for *batch* pairs: A has m x k elements, B has k x n."""

    m: int
    n: int
    k: int
    dtype: str
    batch: int

    def plan(self, spec: LibrarySpec, cores: int, all_cores: int) -> Plan:
        """Return how the kernel runs."""
        if getattr(spec.products, self.dtype) is None:
            raise NoSuchTypeError(self.dtype)
        shape = Shape(self.m, self.n, self.k, self.batch)
        choice = choose(spec.products, spec.traffic, shape, self.dtype, cores, all_cores)
        return Plan(min(choice.blocks, cores), choice.ns)


@dataclass(frozen=True, slots=True)
class Elementwise(Call):
    """One result for each element; *reads* and *writes* are bytes."""

    reads: int
    writes: int

    def plan(self, spec: LibrarySpec, cores: int, all_cores: int) -> Plan:
        """Return how the kernel runs."""
        blocks, ns = passes.elementwise(passes.Share(spec, cores, all_cores), self.reads, self.writes)
        return Plan(min(blocks, cores), ns)


@dataclass(frozen=True, slots=True)
class Reduction(Call):
    """One result for all elements, of *item* bytes each."""

    elements: int
    item: int

    def plan(self, spec: LibrarySpec, cores: int, all_cores: int) -> Plan:
        """Return how the kernel runs."""
        blocks, ns = passes.reduction(passes.Share(spec, cores, all_cores), self.elements, self.item)
        return Plan(min(blocks, cores), ns)


@dataclass(frozen=True, slots=True)
class Rowwise(Call):
    """The call *name* on rows of *columns* elements, of *item* bytes each."""

    name: str
    rows: int
    columns: int
    item: int

    def plan(self, spec: LibrarySpec, cores: int, all_cores: int) -> Plan:
        """Return how the kernel runs."""
        share = passes.Share(spec, cores, all_cores)
        blocks, ns = _ROWWISE[self.name](share, self.rows, self.columns, self.item)
        return Plan(min(blocks, cores), ns)


_ROWWISE: dict[str, Callable[[passes.Share, int, int, int], tuple[int, float]]] = {
    "softmax": passes.softmax,
    "layernorm": passes.layernorm,
    "transpose": passes.transpose,
    "permute": passes.permute,
    "gather": passes.gather,
}


def matmul(m: object, n: object, k: object, dtype: Any, batch: object) -> Matmul:
    """Return *batch* products of m x k and k x n elements."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    if name not in BYTES:
        raise ValueError(f"dtype of matmul must be one of {', '.join(BYTES)}, not {dtype!r}")
    return Matmul(
        _size("matmul", "m", m),
        _size("matmul", "n", n),
        _size("matmul", "k", k),
        name,
        _size("matmul", "batch", batch, "products"),
    )


def elementwise(reads: object, writes: object) -> Elementwise:
    """Return a call with one result for each element, which reads and writes so many bytes."""
    return Elementwise(_size("elementwise", "reads", reads, "bytes"), _size("elementwise", "writes", writes, "bytes"))


def reduction(elements: object, dtype: Any) -> Reduction:
    """Return the sum, or the like, of *elements*."""
    return Reduction(_size("reduction", "elements", elements), _item("reduction", dtype))


def permute(elements: object, dtype: Any) -> Rowwise:
    """Return a copy of *elements* into another order of their dimensions."""
    return Rowwise("permute", _size("permute", "elements", elements), 1, _item("permute", dtype))


def rowwise(call: str, rows: object, columns: object, dtype: Any) -> Rowwise:
    """Return the softmax, layernorm, transpose or gather of *rows* times *columns* elements."""
    return Rowwise(call, _size(call, "rows", rows), _size(call, "columns", columns), _item(call, dtype))


def _size(call: str, name: str, value: object, unit: str = "elements") -> int:
    """Return a size; refuse one that is not a whole number, 1 or more, or that no memory holds."""
    size = integer(f"{name} of {call}", value, f"a whole number of {unit}")
    if size < 1:
        raise ValueError(f"{name} of {call} must be 1 or more {unit}, not {value}")
    if size > MOST:
        raise ValueError(f"{name} of {call} must be at most 2**62 {unit}")
    return size


def _item(call: str, dtype: Any) -> int:
    """Return the bytes of an element."""
    if isinstance(dtype, str) and dtype in BYTES:
        return BYTES[dtype]
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    # NumPy takes None for float64; objects, texts and records are no elements that a library computes with.
    if dtype is None or found is None or found.hasobject or found.names or found.kind in "SU" or not found.itemsize:
        raise TypeError(f"dtype of {call} must be a dtype of numbers of NumPy, or its name, not {dtype!r}")
    return int(found.itemsize)
