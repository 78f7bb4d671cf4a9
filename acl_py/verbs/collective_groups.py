"""The calls of all ranks: in groups, if one task makes them, or in a task for each rank.

`ranks` starts a task for each device. Ranks in processes of their own are not simulated. A script that is started once
for each rank becomes a coroutine function that gets its rank.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from acl_py.callers import current_caller
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.collectives import Communicators, Group, check_nccl, drop, joined_by, queue_group
from acl_py.runtime.fold_checks import Diary, parted_for_checks
from acl_py.runtime.folding import check_faults, check_writes, folding
from acl_py.runtime.folds import own_device
from acl_py.runtime.rank_numbers import Watch
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import current_scope
from acl_py.verbs.devices import SetDevice
from acl_py.verbs.launches import HostMemory
from acl_py.waiting.bridge import Bridge
from device_model.integers import Integer, integer

if TYPE_CHECKING:
    from acl_py.waiting.host_queues import OwnHost

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


def ranks(
    count: Integer,
    main: Callable[[int], Awaitable[T]],
    *,
    own_hosts: bool = False,
    fold: bool | str = False,
    alike: Callable[[int], Hashable] | None = None,
) -> Awaitable[list[T]]:
    """Run `main(rank)` in a task for each of *count* ranks; device *rank* is current in it.

    It replaces a script that is started once for each rank. If one task fails, the others are cancelled.

    Args:
        count: How many ranks there are: 1 or more.
        main: A coroutine function that gets the number of its rank.
        own_hosts: Whether each rank has a host of its own, as processes on a server with enough cores do: its calls
            take time of its host only. By default all ranks are threads of one host, whose calls follow one another.
            With hosts of their own, each rank makes its calls in its own task and in tasks that it creates; those
            that are left when it returns are cancelled.
        fold: True: ranks that are alike are one class, and only the first one of each class runs, on a host of its own.
            It needs a run without values. "check": some more ranks of each class run beside the first one, and are
            compared with it.
        alike: A function that gets the number of a rank. Ranks for which it returns equal keys are alike: they make the
            same calls, with equal sizes, and peers at equal distances. By default all ranks are alike: then a
            comparison by which *main* tells ranks apart is an error, which says what to give here.

    Returns:
        What to await. It gives what the tasks have returned, in the order of the ranks; with *fold*, what the first
        rank of its class has returned.

    Raises:
        ExceptionGroup: Tasks have failed.
        RuntimeError: The loop has a real clock, and ranks have hosts of their own; or "check" has found a rank that is
            not like the first one of its class.
        ValueError: *count* is less than 1; *own_hosts* with the measured time of one real host, or on a card; *fold*
            with values, with a sanitizer, or with a *main* that writes what all ranks share; *alike* without *fold*.
    """
    number = integer("count", count)
    if number < 1:
        raise ValueError(f"count must be 1 or more, not {number}")
    if fold not in (False, True, "check"):
        raise ValueError(f"fold must be True, False or 'check', not {fold!r}")
    if alike is not None and not fold:
        raise ValueError("alike= says which ranks are folded: pass fold=True, or fold='check', with it")
    if fold:
        check_writes(main)
        return _run_folded(number, main, alike, is_checked=fold == "check")
    return _run_on_own_hosts(range(number), main) if own_hosts else _run_ranks(number, main)


async def _run_ranks(count: int, main: Callable[[int], Awaitable[T]]) -> list[T]:
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(_run_rank(main, rank), name=f"rank {rank}") for rank in range(count)]
    return [task.result() for task in made]


async def _run_rank(main: Callable[[int], Awaitable[T]], rank: int) -> T:
    await SetDevice(rank)
    return await main(rank)


def _simulated_host(option: str) -> tuple[Runtime, Bridge]:
    """Return the runtime of the calling task, and its bridge; ValueError if its host is real."""
    runtime = current_scope().runtime
    bridge = runtime.bridge
    if type(runtime) is not Runtime or not isinstance(bridge, Bridge):
        raise ValueError(f"{option} needs a simulated host: leave out host_time='measured', and use no card")
    return runtime, bridge


async def _run_on_own_hosts(
    numbers: Iterable[int], main: Callable[[int], Awaitable[T]], name: Callable[[int], str] = "rank {}".format
) -> list[T]:
    from acl_py.waiting.host_queues import OwnHost, current_host

    runtime, bridge = _simulated_host("own_hosts=True")
    if runtime.hooks.parted is not None:
        runtime.hooks.parted()
    with bridge.own_hosts() as turns:
        made = []
        async with asyncio.TaskGroup() as tasks:
            for rank in numbers:
                host, context = OwnHost(name(rank), HostMemory(runtime), turns.queues), copy_context()
                context.run(own_device.set, rank)
                context.run(current_host.set, host)
                program = _run_process(main, rank, host)
                made.append(tasks.create_task(program, name=name(rank), context=context))
        return [task.result() for task in made]


async def _run_process(main: Callable[[int], Awaitable[T]], rank: int, host: "OwnHost") -> T:
    """Run what a process would: tasks that *rank* leaves behind are cancelled at its end."""
    try:
        result = await _run_rank(main, rank)
    except GeneratorExit:  # the coroutine is collected
        raise
    except BaseException:
        await host.cancel_others()
        raise
    await host.cancel_others()
    return result


async def _run_folded(
    count: int, main: Callable[[int], Awaitable[T]], alike: Callable[[int], Hashable] | None, *, is_checked: bool
) -> list[T]:
    runtime, _ = _simulated_host("fold")
    if runtime.values:
        raise ValueError(
            "fold needs a run without values, for those of a rank that does not run are unknown: values=False"
        )
    if runtime.sanitizer is not None:
        raise ValueError("fold leaves out most ranks, so nothing can be said about races: run it without sanitize=")
    runtime.device(count - 1)  # there must be as many
    keys: dict[Hashable, list[int]] = {}
    for rank in range(count):
        keys.setdefault(0 if alike is None else alike(rank), []).append(rank)
    classes, checks = list(keys.values()), dict[int, int]()
    check_faults(runtime, classes)
    if is_checked:
        classes, checks = parted_for_checks(classes)
    diary, watch = Diary(runtime, checks), Watch(classes[0])
    watch.over = alike is not None or len(classes[0]) == 1

    def watched(rank: int) -> Awaitable[T]:
        return main(watch.number() if rank == watch.ranks[0] and not watch.over else rank)

    names = {each[0]: f"rank {each[0]}" + (f" and {len(each) - 1} more" if len(each) > 1 else "") for each in classes}
    first = {rank: each[0] for each in classes for rank in each}
    with folding(runtime, classes), diary:
        try:
            answers = await _run_on_own_hosts(sorted(names), watched, names.__getitem__)
        finally:
            watch.over = True
    diary.compare()
    results = dict(zip(sorted(names), answers, strict=True))
    return [results[first[rank]] for rank in range(count)]
