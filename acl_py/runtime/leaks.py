"""Leaks: memory that a program never frees and handles that it never destroys, grouped by the line that made them.

`Finalize()`, the reports and the sanitizer all take their leaks from here. A report lists what is alive at that time;
the sanitizer looks at the end of the simulation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from acl_py.runtime.runtime import Runtime
from device_model.errors import listed
from device_model.memory import Allocation, Origin, Space, size_text

_SHOWN = 8  # places where handles of one kind were made
_NEVER = {Origin.REGISTERED: "unregistered", Origin.MAPPED: "unmapped"}


@dataclass(slots=True, eq=False)
class Leak:
    """The things of one kind that one line made and the program never ended.

    Attributes:
        what: What each of them is: "stream", "allocation of device memory".
        never: What the program did not do with them: "destroyed", "freed", "freed before the reset at demo.py:12".
        made: The line; None if it is not known.
        maker: The call that made it: a verb, as "CreateStream", or a function of the module acl, as "acl.rt.malloc".
        ender: The verb that ends it.
        count: How many there are.
        nbytes: The size of all of them; 0 for handles.
        names: Those that the program gave them.
    """

    what: str
    never: str
    made: object
    maker: str = ""
    ender: str = ""
    count: int = 0
    nbytes: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def counted(self) -> str:
        """How many of what, their names and their size: "2 allocations of device memory ('a', 'b'), 8.0 KiB,"."""
        noun, *rest = self.what.split(" of ", 1)
        several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
        what = " of ".join((noun if self.count == 1 else several, *rest))
        if self.names:
            what += f" ({listed(map(repr, self.names), _SHOWN, ', ...')})"
        return f"{self.count:,} {what}" + (f", {size_text(self.nbytes)}," if self.nbytes else "")


class Leaked:
    """Leaks in the order in which their lines made the first of them."""

    __slots__ = ("_leaks",)

    def __init__(self) -> None:
        self._leaks: dict[tuple[str, str, object], Leak] = {}

    def add(
        self,
        what: str,
        never: str,
        made: object,
        maker: str = "",
        ender: str = "",
        name: str | None = None,
        nbytes: int = 0,
    ) -> Leak:
        """Add one thing to the leak of its line, and return that."""
        leak = self._leaks.setdefault((what, never, made), Leak(what, never, made, maker, ender))
        leak.count += 1
        leak.nbytes += nbytes
        if name is not None:
            leak.names.append(name)
        return leak

    def add_memory(self, memory: Allocation) -> Leak:
        """Add an allocation that was never freed, or only by the reset of its device."""
        place = {Space.DEVICE: "device", Space.MANAGED: "managed"}.get(memory.space, "pinned")
        reset = "" if memory.freed is None else f" before the reset at {memory.freed}"
        never = _NEVER.get(memory.origin, "freed") + reset
        what, maker, ender = f"allocation of {place} memory", memory.origin.maker, memory.origin.ender
        return self.add(what, never, memory.made, maker, ender, memory.given_name, memory.nbytes)

    def __iter__(self) -> Iterator[Leak]:
        return iter(self._leaks.values())

    def lines(self) -> list[str]:
        """Return a line for each line of code that leaks memory, and one for each kind of handle."""
        kinds: dict[tuple[object, ...], list[Leak]] = {}
        for leak in self._leaks.values():
            kinds.setdefault((leak.what, leak.never, leak.made if leak.nbytes else None), []).append(leak)
        return [_line(leaks) for leaks in kinds.values()]


def _line(leaks: list[Leak]) -> str:
    """Return the line of *leaks* of one kind."""
    first = leaks[0]
    where = listed([leak.made for leak in leaks if leak.made is not None], _SHOWN, ", ...")
    names = [name for leak in leaks for name in leak.names]
    count = sum(leak.count for leak in leaks)
    whole = Leak(first.what, first.never, None, count=count, nbytes=first.nbytes, names=names)
    return f"{whole.counted} never {first.never}{f', made at {where}' if where else ''}"


def leaks_of(runtime: Runtime) -> list[str]:
    """Return a line for each line of code whose memory was not freed."""
    leaked = Leaked()
    for memory in runtime.memory.leaks():
        leaked.add_memory(memory)
    return leaked.lines()
