"""Calls of a library: their shapes and types, and how long their kernels take.

Sizes are in elements unless a name says bytes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from device_model.integers import integer
from device_model.library.spec import LibrarySpec

# The types of matrix products, with the bytes of an element. In tf32, float32 data is multiplied with 10 bits.
PRODUCT_TYPES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


class NoSuchTypeError(LookupError):
    """A card does not multiply matrices of that type."""


class Plan(NamedTuple):
    """How many SMs (AI cores) a kernel occupies, and for how many nanoseconds."""

    sms: int
    ns: float


class Call:
    """A call of a library."""

    __slots__ = ()

    def plan(self, spec: LibrarySpec, sms: int, all_sms: int) -> Plan:
        """Return how the kernel runs on *sms* of the *all_sms* of a card.

        Raises:
            NoSuchTypeError: The card has no such kernel.
        """
        raise NotImplementedError  # pragma: no cover - each call has its own


def _size(call: str, name: str, value: object, unit: str = "elements") -> int:
    """Return a size; refuse one that is not a whole number, 1 or more."""
    size = integer(f"{name} of {call}", value, f"a whole number of {unit}")
    if size < 1:
        raise ValueError(f"{name} of {call} must be 1 or more {unit}, not {value}")
    return size


def _item(call: str, dtype: object) -> int:
    """Return the bytes of an element."""
    if isinstance(dtype, str) and dtype in PRODUCT_TYPES:
        return PRODUCT_TYPES[dtype]
    try:
        return np.dtype(dtype).itemsize  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise TypeError(f"dtype of {call} must be a dtype of NumPy or its name, not {dtype!r}") from None


@dataclass(frozen=True, slots=True)
class Matmul(Call):
    """C = A B for *batch* pairs: A has m x k elements, B has k x n."""

    m: int
    n: int
    k: int
    dtype: str
    batch: int

    def plan(self, spec: LibrarySpec, sms: int, all_sms: int) -> Plan:
        """Return how the kernel runs."""
        rate = getattr(spec.products, self.dtype)
        if rate is None:
            raise NoSuchTypeError(self.dtype)
        item = PRODUCT_TYPES[self.dtype]
        nbytes = self.batch * item * (self.m * self.k + self.k * self.n + self.m * self.n)
        flops = 2 * self.batch * self.m * self.n * self.k
        return Plan(sms, max(1e9 * flops / rate, _moving_ns(spec, nbytes)) * all_sms / sms + spec.ramp)


def matmul(m: object, n: object, k: object, dtype: Any, batch: object) -> Matmul:
    """Return *batch* products of m x k and k x n elements."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    if name not in PRODUCT_TYPES:
        raise ValueError(f"dtype of matmul must be one of {', '.join(PRODUCT_TYPES)}, not {dtype!r}")
    return Matmul(
        _size("matmul", "m", m),
        _size("matmul", "n", n),
        _size("matmul", "k", k),
        name,
        _size("matmul", "batch", batch, "products"),
    )


@dataclass(frozen=True, slots=True)
class Pass(Call):
    """A kernel that goes through memory: it reads and writes so many bytes."""

    reads: int
    writes: int

    def plan(self, spec: LibrarySpec, sms: int, all_sms: int) -> Plan:
        """Return how the kernel runs."""
        return Plan(sms, _moving_ns(spec, self.reads + self.writes) * all_sms / sms + spec.ramp)


def elementwise(reads: object, writes: object) -> Pass:
    """Return a kernel with one result for each element, which reads and writes so many bytes."""
    return Pass(_size("elementwise", "reads", reads, "bytes"), _size("elementwise", "writes", writes, "bytes"))


def reduction(elements: object, dtype: Any) -> Pass:
    """Return the sum, or the like, of *elements*."""
    item = _item("reduction", dtype)
    return Pass(_size("reduction", "elements", elements) * item, item)


def rowwise(call: str, rows: object, columns: object, dtype: Any) -> Pass:
    """Return a kernel that reads and writes each element of *rows* times *columns*."""
    nbytes = _size(call, "rows", rows) * _size(call, "columns", columns) * _item(call, dtype)
    return Pass(nbytes, nbytes)


def _moving_ns(spec: LibrarySpec, nbytes: int) -> float:
    rate = spec.l2_bytes_per_second if nbytes <= spec.l2_bytes else spec.memory_bytes_per_second
    return 1e9 * nbytes / rate
