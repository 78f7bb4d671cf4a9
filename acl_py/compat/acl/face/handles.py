"""Handles: plain ints that stand for objects, and what is known of handles whose object has ended."""

from collections import OrderedDict
from itertools import count
from typing import Any, TypeVar

from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime
from device_model.contexts import Context
from device_model.events import CountedEvent, Event, FlagEvent, RecordedEvent
from device_model.memory import Buffer, Physical
from device_model.signals import Notify
from device_model.streams import Stream

INVALID_PARAM, INVALID_HANDLE = 100000, 107017

_FIRST = 0x10000000
_STEP = 0x10
_REMEMBERED = 1000  # ended handles that messages can still explain
_T = TypeVar("_T")


class Things(dict[int, _T]):
    """The objects of one *kind* by handle. A missing handle raises an AclError: 107017, or 100000 for the handle 0."""

    def __init__(self, handles: "Handles", kind: type) -> None:
        super().__init__()
        self._handles = handles
        self._kind = kind

    def __missing__(self, handle: int) -> _T:
        raise self._handles.missing(handle, self._kind)


class Handles:
    """The objects of a script by handle. A handle is never used again for another object."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.objects: dict[int, Any] = {}  # all of them
        self.contexts: Things[Context] = Things(self, Context)
        self.events: Things[Event] = Things(self, Event)
        self.notifies: Things[Notify] = Things(self, Notify)
        self.physicals: Things[Physical] = Things(self, Physical)
        self.streams: Things[Stream | None] = Things(self, Stream)
        self.streams[0] = None  # the default one
        self.buffers: dict[int, Buffer] = {}  # the allocations by address, for copies to find them fast
        self._tables: dict[type, dict[int, Any]] = {
            Context: self.contexts, Notify: self.notifies, Physical: self.physicals, Stream: self.streams,
            **dict.fromkeys((Event, CountedEvent, FlagEvent, RecordedEvent), self.events),
        }  # fmt: skip
        self._handles: dict[int, int] = {}  # by the identity of the object, which `objects` keeps alive
        self._numbers = count(_FIRST, _STEP)
        self._over: OrderedDict[int, tuple[type, object]] = OrderedDict()  # its type, and the line that ended it

    def error(self, code: int, what: str) -> AclError:
        """Return an AclError with *code* for the caller to raise; it becomes the thread's last error."""
        return self.runtime.error(Kind.INVALID_VALUE, what, "", code=code)

    def handle(self, thing: Any) -> int:
        """Return the handle of *thing*, a new one at the first call; it is kept alive until `forget`."""
        known = self._handles.get(id(thing))
        if known is None:
            number = next(self._numbers)
            self.objects[number] = thing
            known = self._handles.setdefault(id(thing), number)
            if known != number:  # another thread was faster
                del self.objects[number]
            elif (table := self._tables.get(type(thing))) is not None:
                table[number] = thing
        return known

    def find(self, handle: int, kind: type[_T]) -> _T | None:
        """Return the *kind* that *handle* stands for; None if it has ended or never was one."""
        thing = self.objects.get(handle)
        return thing if isinstance(thing, kind) else None

    def thing(self, handle: int, kind: type[_T]) -> _T:
        """Return the *kind* that *handle* stands for; if there is none, raise the AclError of `Things`."""
        thing = self.find(handle, kind)
        if thing is None:
            raise self.missing(handle, kind)
        return thing

    def known(self, handle: int, kind: type[_T]) -> _T:
        """Return the *kind* that *handle* stands for, as the C layer looks it up: if there is none, that is 100000."""
        thing = self.find(handle, kind)
        if thing is None:
            raise self.error(INVALID_PARAM, self.explain(handle, kind))
        return thing

    def missing(self, handle: int, kind: type) -> AclError:
        """Return the AclError for a *handle* that does not stand for a *kind*."""
        return self.error(INVALID_HANDLE if handle else INVALID_PARAM, self.explain(handle, kind))

    def forget(self, handle: int) -> None:
        """End *handle*: its object has been destroyed."""
        thing = self.objects.pop(handle, None)
        if thing is None:
            return
        self._handles.pop(id(thing), None)
        self._tables.get(type(thing), self.objects).pop(handle, None)
        self._over[handle] = type(thing), getattr(thing, "destroyed", None)
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)

    def forget_reset(self) -> None:
        """End the handles of default contexts that a reset has ended, and of their default streams."""
        for number, context in list(self.contexts.items()):
            if context.primary and context.destroyed is not None:
                self.forget(number)
        for number, stream in list(self.streams.items()):
            if stream is not None and stream is stream.context.default and stream.context.destroyed is not None:
                self.forget(number)

    def explain(self, handle: int, kind: type) -> str:
        """Return a sentence that says why *handle* does not stand for a *kind*."""
        word = word_for(kind)
        if handle in self.objects:
            return f"{handle:#x} is {_a(word_for(type(self.objects[handle])))}, not {_a(word)}"
        over = self._over.get(handle)
        if over is not None:
            where = "" if over[1] is None else f" at {over[1]}"
            was = word_for(over[0])
            if was == word:
                return f"{handle:#x} is no longer {_a(word)}: it was destroyed{where}"
            return f"{handle:#x} is not {_a(word)}: it was {_a(was)}, destroyed{where}"
        if handle in self.buffers:
            return f"{handle:#x} is the address of memory, not {_a(word)}"
        return f"{handle:#x} is not {_a(word)}, nor any other handle" if handle else f"the {word} is 0"


def word_for(kind: type) -> str:
    """Return the name of a class in words: "data buffer" for DataBuffer, "tensor description" for TensorDesc, and
    "event" for each class of events.
    """
    if issubclass(kind, Event):
        return "event"
    if kind is Physical:
        return "physical block"
    name = kind.__name__.removesuffix("Desc") + "Description" * kind.__name__.endswith("Desc")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
