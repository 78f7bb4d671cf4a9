"""acl.himpi: its codes, the channels that it knows by number, and the structures that scripts give as dicts.

A dict stands for a structure. As in the vendor's binding, a key that is missing, or whose value is no int, counts as 0,
and what is no dict is a TypeError. The work itself is that of acl.media's image hardware: each channel has a stream,
and a channel of acl.media.
"""

from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import acl_py as native
from acl_py.compat.acl.face.lookups import wait_within_call
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.media.descriptions import Channel, Picture
from acl_py.compat.acl.functions.media.tasks import AICPU_EXCEPTION, FORMAT_NOT_MATCH
from acl_py.errors import AclError, Kind
from device_model.streams import Stream

# The parts of the system, and what they answer: a code is the sum of both.
SYS, VDEC, VPC = 0xA0028000, 0xA0058000, 0xA0078000
INVALID_CHANNEL, ILLEGAL, EXISTS, MISSING, NULL, NOT_PERMITTED, EMPTY, NOT_READY = 2, 3, 4, 5, 6, 9, 0xE, 0x10
_CHANNELS = range(256)
_WORD = 0xFFFFFFFF


class Fields:
    """A structure of this *name*, which *given* stands for."""

    def __init__(self, given: object, name: str) -> None:
        if not isinstance(given, dict):
            raise TypeError(f"the {name} argument is not dict")
        self._given = given

    def number(self, key: str) -> int:
        """A number without a sign."""
        value = self._given.get(key)
        if not isinstance(value, int):
            return 0
        if value < 0:
            raise ValueError("PyLong_AsUnsignedLong failed")
        return value

    def part(self, key: str, name: str) -> "Fields":
        """The structure of this *name* within."""
        return Fields(self._given.get(key, {}), name)


def elements(given: object, name: str, many: int) -> list[Fields]:
    """The structures of this *name*, of which a list must hold as *many*."""
    if not isinstance(given, list):
        raise TypeError(f"{name} argument is not list")
    if len(given) != many:
        raise TypeError("the lenth of crop info is not equal with count!")  # the binding's spelling
    return [Fields(each, name) for each in given]


@dataclass(eq=False, slots=True)
class Line:
    """Where the work of a channel goes: a stream, and a channel of acl.media, by their handles."""

    stream: Stream
    stream_handle: int
    way: int

    async def wait(self, timeout_ms: int) -> bool:
        """Wait for the work, at most *timeout_ms*: 0 only asks, -1 has no limit. Return whether the work has ended.

        That it has failed is no error here: its picture says so.
        """
        try:
            if timeout_ms == 0:
                return bool(await native.StreamQuery(self.stream) is native.Status.COMPLETE)
            await wait_within_call(self.stream, max(timeout_ms, -1))
        except AclError as error:
            if error.kind is Kind.STREAM_TIMEOUT:
                return False
            if error.code != AICPU_EXCEPTION:
                raise
        return True


@dataclass(eq=False, slots=True)
class Sent:
    """A JPEG file that a decoder has been sent, as the script described it, and the picture it becomes."""

    stream: dict[str, int]
    picture: Picture


@dataclass(eq=False, slots=True)
class Decoder:
    """A channel of vdec_create_chn."""

    line: Line
    attributes: dict[str, Any]
    parameters: dict[str, Any]
    receiving: bool = False
    sent: deque[Sent] = field(default_factory=deque)
    received: int = 0
    taken: int = 0
    failed: int = 0


@dataclass(eq=False, slots=True)
class Processor:
    """A channel of vpc_create_chn, and the pictures of its tasks by their numbers."""

    line: Line
    tasks: dict[int, list[Picture]] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=lambda: count(1))


class System:
    """What acl.himpi knows of one run."""

    def __init__(self) -> None:
        self.started = False
        self.decoders: dict[int, Decoder] = {}
        self.processors: dict[int, Processor] = {}


def system(here: Session) -> System:
    """Return the system of the run."""
    runtime: Any = here.runtime
    found: System = runtime.state(System)
    return found


def check_new(here: Session, part: int, number: int, channels: dict[int, Any]) -> None:
    """Raise AclError unless a channel of this *number* can be made among *channels*."""
    if not system(here).started:
        raise here.error(part | NOT_READY, "the media system is not initialized; call acl.himpi.sys_init() first")
    if number not in _CHANNELS:
        raise here.error(part | INVALID_CHANNEL, f"there is no channel {number}; they have numbers from 0 to 255")
    if number in channels:
        raise here.error(part | EXISTS, f"channel {number} exists already; destroy it first")


def new_line(here: Session) -> Line:
    """Make what a channel of the current device needs."""
    stream: Stream = here.run(native.CreateStream())
    return Line(stream, here.handle(stream), here.handle(Channel(exists=True)))


async def end_line(here: Session, line: Line) -> None:
    """End it."""
    await native.DestroyStream(line.stream)
    here.forget(line.stream_handle)
    here.forget(line.way)


def submit(here: Session, part: int, work: Coroutine[Any, Any, object]) -> None:
    """Queue *work* of acl.media; what it refuses is refused with the code of this *part*."""
    with translated(here, part):
        here.run(work)


@contextmanager
def translated(here: Session, part: int) -> Iterator[None]:
    """Give what acl.media refuses in here the code of this *part*."""
    try:
        yield
    except AclError as error:
        if error.code not in (INVALID_PARAM, FORMAT_NOT_MATCH):
            raise
        raise here.error(part | ILLEGAL, error.what) from None
