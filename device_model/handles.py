"""Handles: what a program holds of a simulation, such as a stream, an event or a buffer.

A handle has a meaning in its simulation only. `copy` and `pickle` would make another one that the simulation does not
know, so both are refused. For the program a handle is an opaque thing with a few `public` attributes; the others are
for the rooms of the device and the host, and are not listed where somebody looks at the handle.
"""

from collections.abc import Iterable
from typing import ClassVar, NoReturn


class Handle:
    """Base of the handles."""

    __slots__ = ()
    public: ClassVar[tuple[str, ...] | None] = None  # what dir() lists besides special methods; None: everything

    def __dir__(self) -> Iterable[str]:
        names = super().__dir__()
        return names if self.public is None else [name for name in names if name[:2] == "__" or name in self.public]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled or copied, because it belongs to a simulation of this process; "
            "use it as it is, or send NumPy arrays to the other process and create streams, events and memory there"
        )
