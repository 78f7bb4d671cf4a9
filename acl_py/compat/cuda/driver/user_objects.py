"""User objects: what a program wants to keep until no graph, executable or launch needs it any more."""

import ctypes
from collections import Counter
from collections.abc import Iterable
from typing import Any

from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.completions import Completion, Then
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph

_NO_SYNC = 1  # the flag that each object has: nothing waits for the end of its destructor
_MOVE = 1  # the flag of a graph that takes over references of the caller
_MOST = 2**31 - 1  # references
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class UserObject:
    """Something of the program, which its *destroy* function ends when there are no *references* to it."""

    def __init__(self, data: int, destroy: Any, references: int) -> None:
        self.data = data
        self.destroy = destroy
        self.references = references

    def release(self, driver: Driver, count: int) -> None:
        """Give *count* references back; the destructor is called when this call of the driver is over."""
        self.references -= count
        if not self.references:
            driver.handles.forget(self)
            driver.session.make_due(lambda: self.destroy(self.data))


class Held:
    """The references of graphs and executables."""

    def __init__(self) -> None:
        self.counts: dict[Graph | Executable, Counter[UserObject]] = {}

    @classmethod
    def of(cls, driver: Driver) -> "Held":
        """Return those of *driver*."""
        held: Held = driver.notes.setdefault("user objects", cls())
        return held

    def share(self, source: Graph, other: Graph | Executable) -> None:
        """Let *other*, which was made from *source*, hold what that holds."""
        for item in +self.counts.get(source, Counter()):  # those of which it has not given back all
            self.counts.setdefault(other, Counter())[item] += 1
            item.references += 1

    def drop(self, driver: Driver, owner: Graph | Executable) -> None:
        """Give back all references of *owner*."""
        for item, count in (+self.counts.pop(owner, Counter())).items():
            item.release(driver, count)


def share(driver: Driver, source: Graph, other: Graph | Executable) -> None:
    """Let *other*, which was made from *source*, hold what that holds: each of its bodies what the same one of *source*
    does, and an executable all of it.
    """
    held, sources = Held.of(driver), [source, *source.bodies]
    others: list[Graph | Executable] = [other] * len(sources)
    if isinstance(other, Graph):
        others = [other, *other.bodies]
    for each, copy in zip(sources, others, strict=True):
        held.share(each, copy)


def drop_behind(driver: Driver, executable: Executable, last: Completion) -> None:
    """Give back the references of *executable* when its *last* launch is over."""
    counts = +Held.of(driver).counts.pop(executable, Counter())

    def drop(_: Completion) -> None:
        for item, count in counts.items():
            item.release(driver, count)

    if last.done:
        drop(last)
    else:
        last.add_waiter(Then(drop))


def forget_graphs(driver: Driver, graphs: Iterable[Graph]) -> None:
    """End the handles of *graphs* and of their nodes, and give back the references of these graphs."""
    held = Held.of(driver)
    for graph in graphs:
        held.drop(driver, graph)
        for thing in (graph, *graph.nodes):
            driver.handles.forget(thing)
        for node in graph.nodes:
            driver.notes.pop(("parameters", node.first), None)


@answers("cuUserObjectCreate")
async def create(_: Driver, data: int, destroy: int, references: int, flags: int) -> UserObject:
    """Make a user object with some references."""
    if flags != _NO_SYNC:
        raise RefusedError(INVALID_VALUE, f"the flags of a user object are {_NO_SYNC}, not {flags}")
    _check_count(references)
    own_memory.read(destroy, 1)
    return UserObject(data, _Destructor(destroy), references)


def _check_count(count: int) -> None:
    if not 1 <= count <= _MOST:
        raise RefusedError(INVALID_VALUE, f"{count} references")


@answers("cuUserObjectRetain")
async def retain(_: Driver, item: UserObject, count: int) -> None:
    """Take more references."""
    _check_count(count)
    item.references += count


@answers("cuUserObjectRelease")
async def release(driver: Driver, item: UserObject, count: int) -> None:
    """Give references back."""
    _check_count(count)
    if count > item.references:
        raise RefusedError(INVALID_VALUE, f"{count} references, and there are {item.references}")
    item.release(driver, count)


@answers("cuGraphRetainUserObject")
async def retain_by_graph(driver: Driver, graph: Graph, item: UserObject, count: int, flags: int) -> None:
    """Let a graph hold references: those of the caller, or more."""
    _check_count(count)
    if flags & ~_MOVE:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of references")
    Held.of(driver).counts.setdefault(graph, Counter())[item] += count
    if not flags:
        item.references += count


@answers("cuGraphReleaseUserObject")
async def release_by_graph(driver: Driver, graph: Graph, item: UserObject, count: int) -> None:
    """Give back references of a graph."""
    _check_count(count)
    counts = Held.of(driver).counts.get(graph, Counter[UserObject]())
    if count > counts[item]:
        raise RefusedError(INVALID_VALUE, f"the graph holds {counts[item]} references")
    counts[item] -= count
    item.release(driver, count)
