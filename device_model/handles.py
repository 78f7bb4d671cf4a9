"""Handles: what a program holds of a simulation, such as a stream, an event or a buffer.

A handle has a meaning in its simulation only. `copy` and `pickle` would make another one that the simulation does not
know, so both are refused.

Rooms of the device and of the host read many fields of a stream or an event, which say nothing to a program. So each of
the two has a class here with what a program may look at. The verbs give and take these classes, and the model has
subclasses of them: editors complete the few names that are here, and so does `dir`.
"""

from collections.abc import Iterable
from typing import NoReturn


class Handle:
    """Base of the handles."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled or copied, because it belongs to a simulation of this process; "
            "use it as it is, or send NumPy arrays to the other process and create streams, events and memory there"
        )


class _OpaqueType(type):
    """The type of the classes below, for completers that ask the class of an object too."""

    @property
    def __bases__(cls) -> tuple[type, ...]:  # type: ignore[override]
        """The bases that are for programs: a completer looks at their names, too."""
        bases: tuple[type, ...] = type.__dict__["__bases__"].__get__(cls)
        return tuple(base for base in bases if isinstance(base, _OpaqueType)) or bases

    def __dir__(cls) -> Iterable[str]:
        public = cls.__mro__[cls.__mro__.index(Opaque) - 1] if cls is not Opaque else cls
        return type.__dir__(public)


class Opaque(Handle, metaclass=_OpaqueType):
    """Base of the handles whose fields are not for programs: `dir` lists what their public class has."""

    __slots__ = ()

    def __init__(self) -> None:
        name = type(self).__name__
        raise TypeError(f"a program does not make a {name} itself: Create{name}() returns one")

    def __dir__(self) -> Iterable[str]:
        return dir(type(self))


class Stream(Opaque):
    """A stream, as CreateStream() returns it: its work runs in the order in which it was queued."""

    __slots__ = ()

    @property
    def id(self) -> int:
        """Its number in its context; a default stream has 0."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def name(self) -> str:
        """As messages and charts call it."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def priority(self) -> int:
        """Its priority; smaller is more urgent."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def idle(self) -> bool:
        """Whether all of its work is done."""
        raise NotImplementedError  # pragma: no cover - the model has it


class Event(Opaque):
    """An event, as CreateEvent() returns it: it marks a place in the work of a stream."""

    __slots__ = ()

    @property
    def id(self) -> int:
        """Its number in its context."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def name(self) -> str:
        """As messages call it, whatever its state."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def timing(self) -> bool:
        """Whether it can be asked for its time."""
        raise NotImplementedError  # pragma: no cover - the model has it

    @property
    def done(self) -> bool:
        """Whether all work that was recorded has completed; also True if there was no record."""
        raise NotImplementedError  # pragma: no cover - the model has it
