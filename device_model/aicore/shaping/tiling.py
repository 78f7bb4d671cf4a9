"""Tilings: how a length is divided over blocks and tiles; and tiling keys, the numbers of a kernel's variants.

The host makes a tiling from a shape and passes it to the kernel as an argument. Each block asks it for its part. If the
units do not divide evenly, the first blocks have one unit more than the others. As in the tiling structures of Ascend
C, those are called former blocks and the others tail blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BlockTiling:
    """*length* elements divided over *block_num* blocks in units of *unit* elements, and into tiles of up to *tile*.

    Make one with `block_tiling`. The first *former_num* blocks have *tail_units* + 1 units, the others *tail_units*.
    The parts of the blocks follow each other. If *length* is not a multiple of *unit*, the last unit is shorter.

    Raises:
        ValueError: A size is below 1, *tile* is not a multiple of *unit*, or the units do not add up to *length*.
    """

    length: int
    unit: int
    tile: int
    block_num: int
    former_num: int
    tail_units: int

    def __post_init__(self) -> None:
        if min(self.length, self.unit, self.tile, self.block_num) < 1 or not 0 <= self.former_num <= self.block_num:
            raise ValueError(f"{self!r}: sizes must be 1 or more, former_num 0 to block_num")
        if self.tile % self.unit:
            raise ValueError(f"a tile of {self.tile} elements is not a multiple of the unit, {self.unit}")
        given = self.former_num + self.block_num * self.tail_units
        if given != self.units:
            raise ValueError(f"{self!r} gives out {given} units, and there are {self.units}; use block_tiling()")

    @property
    def units(self) -> int:
        """The number of units, including a short last one."""
        return -(-self.length // self.unit)

    @property
    def tail(self) -> int:
        """The number of elements in the last unit."""
        return self.length - (self.units - 1) * self.unit

    @property
    def tail_num(self) -> int:
        """The number of tail blocks."""
        return self.block_num - self.former_num

    @property
    def former_length(self) -> int:
        """The number of elements of a former block."""
        return (self.tail_units + 1) * self.unit

    @property
    def tail_length(self) -> int:
        """The number of elements of a tail block; the last one may have fewer."""
        return self.tail_units * self.unit

    def part(self, block: int) -> tuple[int, int]:
        """Return the first element and the number of elements of *block*; blocks from *block_num* on have none."""
        if block < 0:
            raise ValueError(f"block {block}: blocks are numbered from 0")
        first = min(self.length, (block * self.tail_units + min(block, self.former_num)) * self.unit)
        count = self.former_length if block < self.former_num else self.tail_length
        return first, min(count, self.length - first)

    def tiles(self, block: int) -> Iterator[tuple[int, int]]:
        """Return the tiles of *block* as (first element, number of elements); elements count from the whole's start."""
        first, count = self.part(block)
        for offset in range(0, count, self.tile):
            yield first + offset, min(self.tile, count - offset)


def block_tiling(length: int, cores: int, *, unit: int = 1, tile: int | None = None) -> BlockTiling:
    """Divide *length* elements over up to *cores* blocks as evenly as whole units allow.

    Args:
        length: Elements in all.
        cores: The largest number of blocks. If there are fewer units than that, there are fewer blocks.
        unit: Elements that stay together. DataCopy needs units of at least 32 bytes; units of 512 bytes keep all parts
            aligned to lines of the L2.
        tile: Elements of a tile, a multiple of *unit*; by default a block has one tile.

    Returns:
        The tiling. Host and kernel may both use it; `part(block)` and `tiles(block)` are what a block needs.

    Raises:
        ValueError: A number is below 1, or *tile* is not a multiple of *unit*.
    """
    if min(length, cores, unit) < 1:
        raise ValueError(f"{length} elements in units of {unit} on {cores} cores: all must be 1 or more")
    units = -(-length // unit)
    block_num = min(cores, units)
    tail_units, former_num = divmod(units, block_num)
    most = (tail_units + bool(former_num)) * unit
    return BlockTiling(length, unit, most if tile is None else tile, block_num, former_num, tail_units)


class TilingKey:
    """Numbers for the variants of a kernel, as operators of CANN have them: a leading 1, then a digit for each axis.

        KEY = TilingKey(kind=("full_load", "split"), dtype=("float16", "float32"))
        KEY(kind="split", dtype="float16")  # 110
        KEY.choice(110)  # {"kind": "split", "dtype": "float16"}

    An axis is a choice between variants. Its digit is the index of the chosen value.

    Args:
        axes: The values of each axis, 1 to 10 of them.

    Raises:
        ValueError: An axis has no values, or more than ten.
    """

    def __init__(self, **axes: Sequence[Any]) -> None:
        for name, values in axes.items():
            if not 1 <= len(values) <= 10:
                raise ValueError(
                    f"axis {name} of a tiling key has {len(values)} values; give 1 to 10, one for each digit"
                )
        self.axes = {name: tuple(values) for name, values in axes.items()}

    def __repr__(self) -> str:
        return f"TilingKey({', '.join(f'{name}={values!r}' for name, values in self.axes.items())})"

    def __call__(self, **choice: Any) -> int:
        """Return the key of the variant with these values.

        Args:
            choice: A value for each axis.

        Raises:
            TypeError: An axis is missing, or there is no such axis.
            ValueError: An axis does not have that value.
        """
        if choice.keys() != self.axes.keys():
            raise TypeError(f"{self!r} takes {', '.join(self.axes)}, not {', '.join(choice)}")
        key = 1
        for name, values in self.axes.items():
            if choice[name] not in values:
                raise ValueError(f"{name}={choice[name]!r} is not one of {', '.join(map(repr, values))}")
            key = 10 * key + values.index(choice[name])
        return key

    def choice(self, key: int) -> dict[str, Any]:
        """Return the values that *key* stands for, by axis.

        Raises:
            ValueError: It has the wrong number of digits, or a digit that its axis does not have.
        """
        digits = str(key)
        if len(digits) != 1 + len(self.axes) or digits[0] != "1":
            raise ValueError(f"{key} is not a key of {self!r}, which has a 1 and {len(self.axes)} digits")
        chosen = {}
        for digit, (name, values) in zip(digits[1:], self.axes.items(), strict=True):
            if int(digit) >= len(values):
                raise ValueError(
                    f"{key} is not a key of {self!r}: {name} has {len(values)} values, and its digit is {digit}"
                )
            chosen[name] = values[int(digit)]
        return chosen
