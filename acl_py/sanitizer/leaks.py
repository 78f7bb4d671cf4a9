"""Leaks: memory that a program never frees and handles that it never destroys, grouped by the line that made them.

`Finalize()`, the reports and the sanitizer all take their leaks from here. A report lists what is alive at that time;
the sanitizer looks at the end of the simulation.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acl_py.calls.acts import Act, Destroyed, Made
from acl_py.sanitizer.findings import Access, Finding, Findings, Kind
from acl_py.sanitizer.guards import guarded
from acl_py.sanitizer.shadow import Use
from acl_py.sanitizer.wording import HANDLES, end_behind
from acl_py.sites import called_function
from device_model.completions import Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.memory import Allocation, Origin, Space, size_text
from device_model.observe import Observer

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

_SHOWN = 8  # places where handles of one kind were made
UNLISTED = "leaks are not listed, because the program ended with an error"
_NEVER = {Origin.REGISTERED: "unregistered", Origin.MAPPED: "unmapped"}


@dataclass(slots=True)
class Leak:
    """The things of one kind that one line made and the program never ended.

    Attributes:
        what: What each of them is: "stream", "allocation of device memory".
        never: What the program did not do with them: "destroyed", "freed", "freed before the reset at demo.py:12".
        made: The line; None if it is not known.
        maker: The call that made it: a verb, as "CreateStream", or a function of the module acl, as "acl.rt.malloc".
        ender: The verb that ends it.
        last: The last use of one of them, if it is known.
        count: How many there are.
        nbytes: The size of all of them; 0 for handles.
        names: Those that the program gave them.
    """

    what: str
    never: str
    made: object
    maker: str = ""
    ender: str = ""
    last: Use | None = None
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
            names = [*map(repr, self.names[:_SHOWN]), *["..."] * (len(self.names) > _SHOWN)]
            what += f" ({', '.join(names)})"
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
        last: Use | None = None,
    ) -> None:
        """Add one thing to the leak of its line."""
        leak = self._leaks.setdefault((what, never, made), Leak(what, never, made, maker, ender))
        leak.count += 1
        leak.nbytes += nbytes
        if last is not None and (leak.last is None or last.at_ns >= leak.last.at_ns):
            leak.last = last
        if name is not None:
            leak.names.append(name)

    def add_memory(
        self, allocations: Iterable[Allocation], last_use: Callable[[Allocation], Use | None] = lambda _: None
    ) -> None:
        """Add allocations that were never freed, or only by the reset of their device."""
        for each in allocations:
            place = {Space.DEVICE: "device", Space.MANAGED: "managed"}.get(each.space, "pinned")
            reset = "" if each.freed is None else f" before the reset at {each.freed}"
            never = _NEVER.get(each.origin, "freed") + reset
            what, maker, ender = f"allocation of {place} memory", each.origin.maker, each.origin.ender
            self.add(what, never, each.made, maker, ender, each.given_name, each.nbytes, last_use(each))

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
    places = [f"{leak.made}" for leak in leaks if leak.made is not None]
    where = ", ".join([*places[:_SHOWN], *["..."] * (len(places) > _SHOWN)])
    names = [name for leak in leaks for name in leak.names]
    whole = Leak(
        first.what,
        first.never,
        None,
        count=sum(leak.count for leak in leaks),
        nbytes=first.nbytes,
        names=names,
    )
    return f"{whole.counted} never {first.never}{f', made at {where}' if where else ''}"


def leaks_of(runtime: "Runtime") -> list[str]:
    """Return a line for each line of code whose memory was not freed."""
    leaked = Leaked()
    leaked.add_memory(runtime.memory.leaks())
    return leaked.lines()


class Leaks(Observer):
    """Observes *runtime* and adds its leaks to the findings. If it fails itself, it calls *fail*.

    If the program *ended_with_error*, it did not come to the lines that give back what it has; then a note stands for
    all leaks.
    """

    def __init__(
        self, runtime: "Runtime", fail: Callable[[Exception], None], last_use: Callable[[Allocation], Use | None]
    ) -> None:
        """*last_use* returns the last use of an allocation, if it is known."""
        self.fail = fail
        self._last_use = last_use
        self.ended_with_error = False
        self._runtime = runtime
        self._handles: dict[Any, str] = {}  # those made by calls and not destroyed: the verbs that made them

    def __repr__(self) -> str:
        return f"<Leaks: {len(self._handles)} handles>"

    @guarded
    def call(
        self,
        name: str,
        enter_ns: Nanoseconds,  # noqa: ARG002
        exit_ns: Nanoseconds,  # noqa: ARG002
        site: object,  # noqa: ARG002
        act: Act[Any],
    ) -> None:
        """Take up a handle that was made or destroyed."""
        if isinstance(act, Made) and isinstance(act.thing, tuple(HANDLES)):
            self._handles[act.thing] = name
        elif not isinstance(act, Destroyed):
            return
        elif isinstance(act.thing, Context | Device):  # ends all that is in it
            self._handles = {handle: maker for handle, maker in self._handles.items() if not _is_gone(handle)}
        else:
            self._handles.pop(act.thing, None)

    @guarded
    def finish(self) -> None:
        """Add the leaks to the findings: this is the end.

        Memory that no line of the program made is not a leak: a stream program declares such buffers.
        """
        leaked, memory = Leaked(), self._runtime.memory
        leaked.add_memory([*memory.leaks(), *memory.left_to_reset], self._last_use)
        for handle, maker in self._handles.items():
            if not _is_gone(handle):
                word = next(word for kind, word in HANDLES.items() if isinstance(handle, kind))
                ender, name = f"Destroy{word.capitalize()}", getattr(handle, "given_name", None)
                leaked.add(word, "destroyed", handle.made, maker, ender, name)
        findings = self._runtime.state(Findings)
        leaks = [leak for leak in leaked if leak.made is not None]
        if leaks and self.ended_with_error:
            findings.note(UNLISTED)
            leaks = []
        for leak in leaks:
            leak.maker = called_function(leak.made, leak.maker)
            findings.add(_finding(leak))
        self._handles.clear()


def _is_gone(handle: Any) -> bool:
    """Whether *handle* was destroyed, or its context was."""
    context = getattr(handle, "context", None)
    return handle.destroyed is not None or (context is not None and context.destroyed is not None)


def _finding(leak: Leak) -> Finding:
    text = f"{leak.counted} never {leak.never}, made at {leak.made}"
    birth = Access(leak.maker, False, "", "", str(leak.made), (), 0, getattr(leak.made, "file", ""))
    fix = end_behind(leak.ender, leak.names, leak.made, leak.last)
    return Finding(Kind.LEAK, text, (birth,), fix=fix)
