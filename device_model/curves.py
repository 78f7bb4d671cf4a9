"""The time of a transfer by its size. It is linear between given points, because a transfer has a fixed cost and a cost
per byte, and a few of each over all sizes.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from device_model.completions import Nanoseconds
from device_model.kernel.ranges import MOST

_MEMO = 4096  # sizes whose times a curve remembers


class Curve(dict[int, Nanoseconds]):
    """The time of a transfer by its size, `curve[nbytes]`: straight lines between points `(bytes, ns)`.

    Beyond the last point the last line goes on, so it must not fall. It is a dict of the times asked for so far,
    because a program copies the same few sizes again and again, and a dict answers without a call of Python code.
    """

    __slots__ = ("points",)

    def __init__(self, points: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        if len(points) < 2:
            raise ValueError("a curve needs two points or more")
        if any(b <= a for (a, _), (b, _) in pairwise(points)):
            raise ValueError("the sizes of a curve must increase")
        if any(size < 0 or time < 0 for size, time in points):
            raise ValueError("sizes and times of a curve must not be negative")
        if any(max(point) > MOST for point in points):
            raise ValueError("sizes and times of a curve must not be more than 2**62")
        if points[-1][1] < points[-2][1]:
            raise ValueError("the last line of a curve goes on for larger sizes, so its time must not decrease")
        self.points = tuple(points)

    def __repr__(self) -> str:
        return f"Curve({list(self.points)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Curve) and self.points == other.points

    def __ne__(self, other: object) -> bool:  # dict has an __ne__ of its own
        return not self == other

    def __missing__(self, nbytes: int) -> Nanoseconds:
        if len(self) >= _MEMO:
            self.clear()
        points = self.points
        index = min(max(bisect_left(points, (nbytes, 0)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[index - 1], points[index]
        time = self[nbytes] = max(0, y0 + (y1 - y0) * (nbytes - x0) // (x1 - x0))
        return time
