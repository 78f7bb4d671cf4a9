"""Scalar accesses to GM past the data cache, and the barrier that orders them.

Cores use them to tell each other something through a place in GM: one writes data, calls DataSyncBarrier and writes a
flag; another one reads the flag until it is set. Who has read the flag knows what was done before the barrier.
"""

from collections import deque
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.machine import LINE, Core, Token, park, running
from device_model.aicore.core.names import Pipe
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.flags.crossing import learn_token
from device_model.aicore.flags.sync import barrier_all
from device_model.kernel.findings import KernelError, KernelHangError

_MOST_VAIN = 100  # reads of a place that no core can write any more; a kernel with more of them never ends


class MemDsbT(Enum):
    """The accesses that DataSyncBarrier waits for (Ascend C: MemDsbT)."""

    ALL = 0
    DDR = 1
    UB = 2
    SEQ = 3


class _Look(NamedTuple):
    """What a core knew at its last look at a place: the writes of all cores until then, and its own other work.

    *vain* is how often in a row it has waited there, and no other core could go on.
    """

    writes: int
    work: int
    vain: int


class _Looks:
    """The looks of a core: how often it has done other work between two of them, and the last one at each place."""

    def __init__(self) -> None:
        self.work = 0
        self.issued = -1  # instructions until the last look
        self.places: dict[object, _Look] = {}


def DataSyncBarrier(arg0: MemDsbT) -> None:
    """Let no later instruction of this core begin until its accesses to memory have ended (Ascend C: DataSyncBarrier).

    The scalar pipe waits. Here it waits for all accesses, whatever *arg0* is.

    Args:
        arg0: Which memory.

    Raises:
        KernelError: *arg0* is no MemDsbT.
    """
    if not isinstance(arg0, MemDsbT):
        raise KernelError(f"DataSyncBarrier({arg0!r})", "give it a MemDsbT, such as MemDsbT.DDR")
    core = running()
    barrier_all(core)
    knowledge = dict(core.remote)
    knowledge[core.index] = tuple(core.knowledge_of(Pipe.S))
    core.crossing.mail[_fence(core)] = deque([knowledge])


def WriteGmByPassDCache(addr: GlobalBuffer, value: int) -> None:
    """Write an integer to GM past the data cache (Ascend C: WriteGmByPassDCache), on the scalar pipe.

    Other cores see it with ReadGmByPassDCache. They then know what this core had done before its last DataSyncBarrier.

    Args:
        addr: The place; its type is that of the integer.
        value: The integer.

    Raises:
        KernelError: *addr* is of another type, or not in GM.
    """
    core, at = running(), _checked("WriteGmByPassDCache", addr)
    known = core.crossing.mail.get(_fence(core))
    place = addr.memory.bytes[at : at + addr.dtype.itemsize].view(addr.dtype)

    def store() -> None:
        place[0] = value

    span = addr.memory, at, at + addr.dtype.itemsize
    written = core.issue(Pipe.S, "WriteGmByPassDCache", 0, core.spec.set_value, (), (span,), store)
    addr.memory.flushed[at // LINE] = written, core.crossing
    _writes(core, addr).append(Token((written,), known[0] if known else {}))
    _count(core)[0] += 1


def ReadGmByPassDCache(addr: GlobalBuffer) -> Any:
    """Read an integer from GM past the data cache (Ascend C: ReadGmByPassDCache), on the scalar pipe.

    A core that reads the same place again, and meanwhile has issued only such reads, waits until another core writes to
    any place. What a launch beside this one has written is seen when it is there (`runner.run_beside`).

    Args:
        addr: As for WriteGmByPassDCache.

    Returns:
        The integer.

    Raises:
        KernelError: *addr* is of another type, or not in GM, or the run computes no values.
        KernelHangError: A core reads a place again and again, and no other core can write any more.
    """
    core, at = running(), _checked("ReadGmByPassDCache", addr)
    core.check_values("ReadGmByPassDCache")
    writes, count = _writes(core, addr), _count(core)
    looks: _Looks = core.crossing.mail.setdefault(("looks", core.index), deque([_Looks()]))[0]
    looks.work += looks.issued != len(core.instructions)
    place = addr.memory.key, at
    last, vain = looks.places.get(place), 0
    if last is not None and last[:2] == (count[0], looks.work):
        where = f"ReadGmByPassDCache of {addr!r} at {core.site()}"
        if not park(where, lambda: count[0] > last.writes, can_give_up=True):
            vain = last.vain + 1
        if vain > _MOST_VAIN:
            raise KernelHangError(
                f"{where} waits for a write that does not come",
                "all other cores have ended or wait: let one of them call WriteGmByPassDCache() on this place",
            )
    number = len(core.instructions)
    core.see("ReadGmByPassDCache", addr.memory, at // LINE)
    if writes:
        token: Token = writes[-1]
        if token.sets[0].core != core.index:
            core.note(Pipe.S, Kind.CROSS_WAIT, "ReadGmByPassDCache", token.sets)
            learn_token(core, token)
    if len(core.instructions) == number:
        core.issue(Pipe.S, "ReadGmByPassDCache", 0, core.spec.get_value, (), (), _nothing)
    looks.issued = len(core.instructions)
    looks.places[place] = _Look(count[0], looks.work, vain)
    return addr.memory.bytes[at : at + addr.dtype.itemsize].view(addr.dtype)[0].item()


def _nothing() -> None:
    pass


def _fence(core: Core) -> tuple[object, ...]:
    return "fence", core.index


def _writes(core: Core, addr: GlobalBuffer) -> "deque[Any]":
    return core.crossing.mail.setdefault(("bypass", addr.memory.key, addr.address), deque())


def _count(core: Core) -> "deque[int]":
    """The number of writes of all cores."""
    return core.crossing.mail.setdefault("bypass writes", deque([0]))


def _checked(name: str, addr: GlobalBuffer) -> int:
    if not isinstance(addr, GlobalBuffer) or not np.issubdtype(addr.dtype, np.integer):
        raise KernelError(f"{name} of {addr!r}", "it takes a place of integers in GM: an argument x, or x + n")
    if addr.nbytes < addr.dtype.itemsize:
        raise KernelError(f"{name} of {addr!r}", "there is no element: it begins at the end of the argument")
    return addr.address
