"""Swizzles: where the elements of a tile go in shared memory, so that columns do not conflict."""

from typing import NamedTuple, Self

from device_model.sm.names import MATRIX_ROW, Ints

_LINE = 128  # bytes that all banks hold together


class Swizzle(NamedTuple):
    """An exclusive or on byte offsets: `bits` bits above `base` with those that are `shift` places higher.

    It permutes the pieces of 2**base bytes among places with the same higher bits, and is its own inverse. Swizzle(3,
    4, 3) is the usual one of rows of 128 bytes: piece p of row r goes to place `p ^ (r % 8)`.

    Attributes:
        bits: How many bits change.
        base: The lowest of them; offsets below 2**base stay together.
        shift: The distance to the bits that they are combined with.
    """

    bits: int
    base: int
    shift: int

    @classmethod
    def of_rows(cls, row_bytes: int) -> Self:
        """Return the swizzle with which ldmatrix has no conflicts in tiles with rows of so many bytes.

        Raises:
            ValueError: The rows have less than 32 bytes, or no power of two.
        """
        if row_bytes < 2 * MATRIX_ROW or row_bytes & (row_bytes - 1):
            raise ValueError(f"rows to swizzle have a power of two of bytes, 32 or more, not {row_bytes}")
        base = MATRIX_ROW.bit_length() - 1
        pieces = min(row_bytes, _LINE) // MATRIX_ROW
        return cls(pieces.bit_length() - 1, base, max(row_bytes, _LINE).bit_length() - 1 - base)

    def place(self, offsets: Ints) -> Ints:
        """Return where the bytes at these offsets of the tile are: byte offsets too.

        Raises:
            ValueError: The bits overlap those that they are combined with, or a number is negative.
        """
        if min(self) < 0 or self.shift < self.bits:
            raise ValueError(f"{self} needs bits, base and shift of 0 or more, and a shift of at least its bits")
        mask = (1 << self.bits) - 1 << self.base
        return offsets ^ (offsets >> self.shift & mask)
