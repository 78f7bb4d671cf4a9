"""The part of a convolution that one core computes: what it needs of the input, and where that lies."""

from collections.abc import Iterator
from typing import NamedTuple

from device_model.aicore.cube.conv3d_tiling import C0, TConv3DApiTiling
from device_model.aicore.cube.mmad import SIDE, fractals


class Rows(NamedTuple):
    """The rows of a plane of the input that places need: *high* from *first* on, and the zeros around them."""

    first: int
    high: int
    above: int
    below: int


class Part(NamedTuple):
    """Output channels, planes and places of one core.

    Planes of 16 channels are counted over the planes of the filter: the first ones belong to its first plane.

    Attributes:
        tiling: The whole convolution.
        depth: The first plane of the filter's first place, counted from the first plane of padding on.
        place: The first place in each plane of the output.
        co: Output channels.
        do: Planes of the output.
        m: Places of each.
        spread: How far apart the planes, rows and columns of the input lie, with zeros between them.
    """

    tiling: TConv3DApiTiling
    depth: int
    place: int
    co: int
    do: int
    m: int
    spread: tuple[int, int, int] = (1, 1, 1)

    def inside(self, plane: int) -> list[int]:
        """Return the planes of the filter that lie on planes of the input, at plane *plane* of this part."""
        tiling = self.tiling
        first = self.depth + plane * tiling.stride_d - tiling.pad_head
        at = {kd: first + kd * tiling.dilation_d for kd in range(tiling.kernel_d)}
        return [kd for kd, depth in at.items() if 0 <= depth < tiling.org_di and depth % self.spread[0] == 0]

    def planes(self, plane: int) -> range:
        """Return the planes of 16 channels that plane *plane* sums over: those that are not all padding.

        If all are padding, the first plane of the filter stays.
        """
        inside = self.inside(plane) or [0]
        return range(inside[0] * self.tiling.ci1, (inside[-1] + 1) * self.tiling.ci1)

    def sums(self, plane: int) -> list[range]:
        """Return the planes of 16 channels that plane *plane* sums over, as ranges without zeros between them."""
        if self.spread[0] == 1:
            return [self.planes(plane)]
        ci1 = self.tiling.ci1
        return [range(kd * ci1, (kd + 1) * ci1) for kd in self.inside(plane) or [0]]

    def source(self, plane: int, number: int) -> int:
        """Return which plane of 16 channels in GM is number *number* of those that plane *plane* sums over.

        The input of this part begins with number 0, which is in the first plane that is no padding.
        """
        tiling = self.tiling
        kd, channels = divmod(number, tiling.ci1)
        depth = self.depth + plane * tiling.stride_d - tiling.pad_head + kd * tiling.dilation_d
        return (depth - max(self.depth - tiling.pad_head, 0)) * tiling.ci1 + channels

    @property
    def first_row(self) -> int:
        """The row with which the input of this part begins."""
        tiling = self.tiling
        return max(self.place // tiling.org_wo * tiling.stride_h - tiling.pad_up, 0)

    def rows(self, first: int, places: int) -> Rows:
        """Return the rows that *places* places need, from place *first* of this part on; none if all are padding."""
        tiling, at = self.tiling, self.place + first
        top = at // tiling.org_wo * tiling.stride_h - tiling.pad_up
        bottom = (at + places - 1) // tiling.org_wo * tiling.stride_h - tiling.pad_up
        bottom += (tiling.kernel_h - 1) * tiling.dilation_h
        upper, lower = max(top, 0), min(bottom, tiling.org_hi - 1)
        return Rows(upper, max(lower - upper + 1, 0), upper - top, bottom - lower)

    def runs(self, planes: range) -> Iterator[range]:
        """Yield those of *planes* that follow each other in GM."""
        if self.tiling.dilation_d == 1:
            yield planes
            return
        ci1 = self.tiling.ci1
        start = planes.start
        while start < planes.stop:
            stop = min((start // ci1 + 1) * ci1, planes.stop)
            yield range(start, stop)
            start = stop

    def elements(self) -> dict[str, int]:
        """Return how many elements of each operand this part needs, from its first one on."""
        tiling = self.tiling
        area, columns = tiling.org_ho * tiling.org_wo, fractals(tiling.org_co) * SIDE
        rows = self.rows(0, self.m)
        seen = [self.source(plane, self.planes(plane)[-1]) for plane in range(self.do) if self.inside(plane)]
        pixels = max(seen) * tiling.org_hi + rows.first - self.first_row + rows.high if seen and rows.high else 0
        return {
            "input": pixels * tiling.org_wi * C0,
            "weight": ((tiling.planes * tiling.taps - 1) * columns + fractals(self.co) * SIDE) * C0,
            "bias": self.co,
            "output": (((self.do - 1) * (columns // SIDE) + fractals(self.co) - 1) * area + self.m) * C0,
        }
