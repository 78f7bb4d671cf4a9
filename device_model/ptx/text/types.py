"""The scalar types of PTX: how many bits each has, and the NumPy type that holds it.

NumPy has no bfloat16, so a register of that type holds its bits, as one of 16 bits without a type does.
"""

from enum import Enum
from typing import Any, NamedTuple

import numpy as np


class Family(Enum):
    """How the bits of a value are read."""

    BITS = "b"
    UNSIGNED = "u"
    SIGNED = "s"
    FLOAT = "f"
    BRAIN = "bf"
    PREDICATE = "pred"


class Type(NamedTuple):
    """A scalar type: its *name* in PTX, its *family*, its *bits*, and the *dtype* that a register of it has."""

    name: str
    family: Family
    bits: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The bytes of a value in memory."""
        return self.bits // 8


def _types() -> dict[str, Type]:
    types = {"pred": Type("pred", Family.PREDICATE, 1, np.dtype(np.bool_))}
    for bits in (8, 16, 32, 64):
        unsigned = np.dtype(f"u{bits // 8}")
        types[f"b{bits}"] = Type(f"b{bits}", Family.BITS, bits, unsigned)
        types[f"u{bits}"] = Type(f"u{bits}", Family.UNSIGNED, bits, unsigned)
        types[f"s{bits}"] = Type(f"s{bits}", Family.SIGNED, bits, np.dtype(f"i{bits // 8}"))
    types |= {f"f{bits}": Type(f"f{bits}", Family.FLOAT, bits, np.dtype(f"f{bits // 8}")) for bits in (16, 32, 64)}
    types["bf16"] = Type("bf16", Family.BRAIN, 16, np.dtype("u2"))
    for name, family in (("f16x2", Family.FLOAT), ("bf16x2", Family.BRAIN), ("s16x2", Family.SIGNED),
                         ("u16x2", Family.UNSIGNED), ("tf32", Family.BITS)):  # fmt: skip
        types[name] = Type(name, family, 32, np.dtype("u4"))
    types["b128"] = Type("b128", Family.BITS, 128, np.dtype([("low", "u8"), ("high", "u8")]))
    return types


TYPES = _types()
