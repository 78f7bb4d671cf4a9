"""The calls of all ranks: in groups, if one task makes them, or in a task for each rank.

`ranks` starts a task for each device. Ranks in processes of their own are not simulated. A script that is started once
for each rank becomes a coroutine function that gets its rank.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from acl_py.callers import current_caller
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.collectives import Communicators, Group, check_nccl, drop, joined_by, queue_group
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import current_scope
from acl_py.verbs.devices import SetDevice
from acl_py.verbs.launches import Launches
from acl_py.waiting.bridge import Bridge
from device_model.integers import Integer, integer

T = TypeVar("T")


@verb(cuda="ncclGroupStart")
async def GroupStart() -> None:
    """Begin a group: the collectives that this task or thread calls from now on are queued by GroupEnd(), all at once.

    Stands for ncclGroupStart. Groups may be inside one another; the outer one counts. `async with group():` cannot be
    left open.

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: For nothing: the call is refused.

    Raises:
        AclError: NOT_SUPPORTED under ACL's rules.
    """
    _, runtime, site, enter = begin()
    check_nccl(runtime, GroupStart.__name__)
    groups = runtime.state(Communicators).groups
    group = groups.get(current_caller())
    if group is None:
        groups[current_caller()] = Group(site)
    else:
        group.depth += 1
    runtime.brief_call(GroupStart.__name__, enter, site)


@verb(cuda="ncclGroupEnd", step="collective")
async def GroupEnd() -> None:
    """End the group of this task or thread, and queue the calls that were made in it.

    Stands for ncclGroupEnd. If a rank has calls in several streams, these are joined before and after the group
    (measured: group-two-streams).

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: For nothing: the call is refused.

    Raises:
        AclError: INVALID_COLLECTIVE if no group is open, or nothing was called in it; INVALID_HANDLE or INVALID_ADDRESS
            if a stream or memory is gone meanwhile: then nothing of the group is queued.
    """
    _, runtime, site, enter = begin()
    check_nccl(runtime, GroupEnd.__name__)
    groups, caller = runtime.state(Communicators).groups, current_caller()
    group = groups.get(caller)
    if group is None:
        raise runtime.error(Kind.INVALID_COLLECTIVE, "GroupEnd() without a group", "call GroupStart() first")
    group.depth -= 1
    if group.depth:
        runtime.brief_call(GroupEnd.__name__, enter, site)
    else:
        del groups[caller]
        if not group.ops:
            raise runtime.error(
                Kind.INVALID_COLLECTIVE,
                f"the group begun at {group.begun} is empty",
                "call collectives between the two",
            )
        try:
            queue_group(runtime, group)
        except BaseException:
            drop(group, runtime.scheduler.now)
            raise
        if runtime.hooks.call is not None:
            runtime.called(GroupEnd.__name__, enter, site, joined_by(group))


@asynccontextmanager
async def group() -> AsyncIterator[None]:
    """Return a block whose collectives are queued at its end, all at once; nothing is queued if it ends with an error.

    async with acl.group():
        for comm, send, recv, stream in zip(comms, sends, receives, streams):
            await acl.AllReduce(send, recv, None, None, acl.ReduceOp.SUM, comm, stream)
    """
    await GroupStart()
    try:
        yield
    except BaseException:
        _give_up()
        raise
    await GroupEnd()


def _give_up() -> None:
    """Forget the group of the calling task: its block has ended with an error."""
    from acl_py.runtime.scopes import current_scope  # imported here: only a block that fails asks

    runtime = current_scope().runtime
    given_up = runtime.state(Communicators).groups.pop(current_caller(), None)
    if given_up is not None:
        drop(given_up, runtime.scheduler.now)


def ranks(count: Integer, main: Callable[[int], Awaitable[T]], *, own_hosts: bool = False) -> Awaitable[list[T]]:
    """Run `main(rank)` in a task for each of *count* ranks; device *rank* is current in it.

    It replaces a script that is started once for each rank. If one task fails, the others are cancelled.

    Args:
        count: How many ranks there are: 1 or more.
        main: A coroutine function that gets the number of its rank.
        own_hosts: Whether each rank has a host of its own, as processes on a server with enough cores do: its calls
            take time of its host only. By default all ranks are threads of one host, whose calls follow one another.
            With hosts of their own, each rank makes its calls in its own task.

    Returns:
        What to await. It gives what the tasks have returned, in the order of the ranks.

    Raises:
        ExceptionGroup: Tasks have failed.
        RuntimeError: *own_hosts*, and the loop has a real clock.
        ValueError: *count* is less than 1; or *own_hosts* with the measured time of one real host, or on a card.
    """
    number = integer("count", count)
    if number < 1:
        raise ValueError(f"count must be 1 or more, not {number}")
    return _run_on_own_hosts(number, main) if own_hosts else _run_ranks(number, main)


async def _run_ranks(count: int, main: Callable[[int], Awaitable[T]]) -> list[T]:
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(_run_rank(main, rank), name=f"rank {rank}") for rank in range(count)]
    return [task.result() for task in made]


async def _run_rank(main: Callable[[int], Awaitable[T]], rank: int) -> T:
    await SetDevice(rank)
    return await main(rank)


async def _run_on_own_hosts(count: int, main: Callable[[int], Awaitable[T]]) -> list[T]:
    from acl_py.waiting.own_hosts import on_own_host  # imported here: few programs need greenlets

    runtime = current_scope().runtime
    if type(runtime) is not Runtime or not isinstance(runtime.bridge, Bridge):
        raise ValueError("own_hosts=True needs a simulated host: leave out host_time='measured', and use no card")

    async def run(rank: int) -> T:
        return await on_own_host(_run_rank(main, rank), _Memory(runtime).swap)

    if runtime.hooks.parted is not None:
        runtime.hooks.parted()
    with runtime.bridge.own_hosts():
        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(run(rank), name=f"rank {rank}") for rank in range(count)]
        return [task.result() for task in made]


class _Memory:
    """What a host remembers: which of its calls take longer next time, and whether it has launched a kernel."""

    __slots__ = ("_begun", "_cold", "_launches", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._launches = runtime.state(Launches)
        self._cold: dict[str, None] = {}
        self._begun = False

    def swap(self) -> None:
        """Change it for what the runtime has now."""
        runtime, launches = self._runtime, self._launches
        self._cold, runtime.cold = runtime.cold, self._cold
        self._begun, launches.begun = launches.begun, self._begun
