"""How work is cut: over blocks, with the remainder spread, and each block's part into tiles; and which variant does it.

Host and kernel share the tiling: the host makes it from a shape and passes it as an argument, a block asks it for its
part. Names follow the tiling structures of Ascend C: former blocks have one unit more than tail blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BlockTiling:
    """*length* elements on *block_num* blocks, in whole units of *unit* elements, and tiles of up to *tile*.

    The first *former_num* blocks have a unit more than the others, which have *tail_units* each. Where *length* is no
    whole number of units, the last unit is short. Blocks have consecutive parts.
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
            raise ValueError(f"a tile of {self.tile} elements is no whole number of units of {self.unit}")
        given = self.former_num + self.block_num * self.tail_units
        if given != self.units:
            raise ValueError(f"{self!r} gives out {given} units, and there are {self.units}; use block_tiling()")

    @property
    def units(self) -> int:
        """Units in all, the short one included."""
        return -(-self.length // self.unit)

    @property
    def tail(self) -> int:
        """Elements of the last unit."""
        return self.length - (self.units - 1) * self.unit

    @property
    def tail_num(self) -> int:
        """Blocks without the additional unit."""
        return self.block_num - self.former_num

    @property
    def former_length(self) -> int:
        """Elements of a former block."""
        return (self.tail_units + 1) * self.unit

    @property
    def tail_length(self) -> int:
        """Elements of a tail block; the last one may have fewer."""
        return self.tail_units * self.unit

    def part(self, block: int) -> tuple[int, int]:
        """First element and number of elements of *block*; blocks from *block_num* on have none."""
        if block < 0:
            raise ValueError(f"block {block}: blocks are numbered from 0")
        first = min(self.length, (block * self.tail_units + min(block, self.former_num)) * self.unit)
        count = self.former_length if block < self.former_num else self.tail_length
        return first, min(count, self.length - first)

    def tiles(self, block: int) -> Iterator[tuple[int, int]]:
        """The tiles of *block*: first element, counted from the beginning of all, and number of elements."""
        first, count = self.part(block)
        for start in range(first, first + count, self.tile):
            yield start, min(self.tile, first + count - start)


def block_tiling(length: int, cores: int, *, unit: int = 1, tile: int | None = None) -> BlockTiling:
    """Spread *length* elements over up to *cores* blocks as evenly as whole units of *unit* elements allow.

    Give a unit of 32 bytes or more where tiles are copied by DataCopy; 512 bytes keep all parts aligned for the L2. A
    part goes through the core in tiles of *tile* elements, by default all at once. Where there are fewer units than
    cores, there are fewer blocks.
    """
    if min(length, cores, unit) < 1:
        raise ValueError(f"{length} elements in units of {unit} on {cores} cores: all must be 1 or more")
    units = -(-length // unit)
    block_num = min(cores, units)
    tail_units, former_num = divmod(units, block_num)
    most = (tail_units + bool(former_num)) * unit
    return BlockTiling(length, unit, most if tile is None else tile, block_num, former_num, tail_units)


class TilingKey:
    """Numbers for the variants of a kernel: a digit for each axis behind a leading 1, as operators of CANN have them.

        KEY = TilingKey(kind=("full_load", "split"), dtype=("float16", "float32"))
        KEY(kind="split", dtype="float16")  # 110
        KEY.choice(110)  # {"kind": "split", "dtype": "float16"}

    An axis has up to ten values; the digit is the place of the value among them.
    """

    def __init__(self, **axes: Sequence[Any]) -> None:
        for name, values in axes.items():
            if not 1 <= len(values) <= 10:
                raise ValueError(f"axis {name} of a tiling key has {len(values)} values; a digit tells 1 to 10 apart")
        self.axes = {name: tuple(values) for name, values in axes.items()}

    def __repr__(self) -> str:
        return f"TilingKey({', '.join(f'{name}={values!r}' for name, values in self.axes.items())})"

    def __call__(self, **choice: Any) -> int:
        """The key of the variant that has these values; one for each axis."""
        if choice.keys() != self.axes.keys():
            raise TypeError(f"{self!r} takes {', '.join(self.axes)}, not {', '.join(choice)}")
        key = 1
        for name, values in self.axes.items():
            if choice[name] not in values:
                raise ValueError(f"{name}={choice[name]!r} is none of {', '.join(map(repr, values))}")
            key = 10 * key + values.index(choice[name])
        return key

    def choice(self, key: int) -> dict[str, Any]:
        """What *key* stands for."""
        digits = str(key)
        if len(digits) != 1 + len(self.axes) or digits[0] != "1":
            raise ValueError(f"{key} is no key of {self!r}: a 1 and {len(self.axes)} digits")
        chosen = {}
        for digit, (name, values) in zip(digits[1:], self.axes.items(), strict=True):
            if int(digit) >= len(values):
                raise ValueError(f"{key} is no key of {self!r}: {name} has {len(values)} values, and digit {digit}")
            chosen[name] = values[int(digit)]
        return chosen
