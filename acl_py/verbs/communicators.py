"""Communicators: which devices make collectives together. A program holds one for each rank, as with HCCL and NCCL."""

from collections.abc import Sequence
from typing import TypeVar

from acl_py.calls.acts import Destroyed, Made
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.collective_variables import CONNECT_TIMEOUT, EXEC_TIMEOUT, forced_by_hccl, forced_by_nccl, seconds
from acl_py.runtime.collectives import Communicators, check_nccl, check_rank
from acl_py.runtime.folds import Folds
from acl_py.runtime.runtime import Limit, Runtime
from acl_py.sites import Site
from device_model.collectives.cliques import Clique, Communicator
from device_model.collectives.folds import fold_clique
from device_model.collectives.playing import Player
from device_model.completions import Need
from device_model.device import Device
from device_model.errors import listed, shown
from device_model.handles import Handle
from device_model.integers import Integer, integer
from device_model.names import check_name
from device_model.rules import CollectiveRules

T = TypeVar("T")


class RootInfo(Handle):
    """What GetRootInfo() returns: it names one communicator that is to be made. *made* is the line that asked."""

    __slots__ = ("devices", "joined", "made", "ranks", "runtime", "size")

    def __init__(self, runtime: Runtime, made: object) -> None:
        self.runtime = runtime
        self.made = made
        self.size = 0  # as the first rank has it
        self.devices: dict[int, Device] = {}  # by rank, of those that have called
        self.ranks: Sequence[Communicator] = ()  # once all have called
        self.joined = Need("all ranks call CommInitRootInfo()", lambda: None, "let the other ranks call it")

    def __repr__(self) -> str:
        return f"<root info made at {self.made}, {len(self.devices)} of {self.size or '?'} ranks>"

    def say_who_lacks(self) -> None:
        """Let a report of a hang name the ranks that have not called."""
        missing = [rank for rank in range(self.size) if rank not in self.devices]
        one = f"rank {missing[0]} of {self.size} calls" if len(missing) == 1 else ""
        self.joined.what = f"{one or f'ranks {listed(missing)} of {self.size} call'} CommInitRootInfo()"


@verb(acl="HcclGetRootInfo", cuda="ncclGetUniqueId")
async def GetRootInfo() -> RootInfo:
    """Return what CommInitRootInfo() needs on all ranks of one new communicator.

    Stands for HcclGetRootInfo and ncclGetUniqueId.

    Waits:
        all rules: For nothing.

    Returns:
        The root info, for one communicator.

    Raises:
        AclError: The kind of the failure if the context has failed.
    """
    _, runtime, site, enter = begin()
    runtime.brief_call(GetRootInfo.__name__, enter, site)
    return RootInfo(runtime, site)


@verb(acl="HcclCommInitRootInfo", cuda="ncclCommInitRank", step="comm_init_rank")
async def CommInitRootInfo(
    n_ranks: Integer, root_info: RootInfo, rank: Integer, *, name: str | None = None
) -> Communicator:
    """Make the communicator of *rank*, on the current device, together with the other ranks.

    Stands for HcclCommInitRootInfo and ncclCommInitRank.

    Args:
        n_ranks: How many ranks there are: 1 or more.
        root_info: What GetRootInfo() returned, the same on all ranks.
        rank: The number of this rank, from 0 to *n_ranks* - 1. Each rank has a device of its own.
        name: What messages, charts and traces call it instead of its number; that of the last rank counts.

    Waits:
        cuda, cuda_per_thread: Only for the calls of the other ranks.
        acl: Only for the calls of the other ranks, for HCCL_CONNECT_TIMEOUT seconds at most (120 by default).

    Returns:
        The communicator of this rank.

    Raises:
        AclError: INVALID_COLLECTIVE if *rank* is out of range or taken, its device has a rank already, *n_ranks* is not
            that of another rank, or *root_info* has been used; COLLECTIVE_TIMEOUT if ranks are missing for too long.
        DeadlockError: The other ranks never call.
        TypeError: *root_info* is no root info, or a number is not an int.
        ValueError: *name* is empty, too long or not printable.
    """
    scope, runtime, site, enter = begin()
    check_name(name)
    _refuse_folded(runtime, "CommInitRootInfo()")
    device = scope.context.device
    size, number = integer("n_ranks", n_ranks), integer("rank", rank)
    info = _check_root_info(runtime, root_info, size, number, device)
    info.size = size
    info.devices[number] = device
    if len(info.devices) == size:
        devices = [info.devices[each] for each in range(size)]
        info.ranks = _clique(runtime, devices, site, name).ranks
        info.joined.complete(runtime.scheduler.now)
    elif not info.joined.done:
        info.say_who_lacks()
        try:
            await _until_joined(runtime, info, number, site)
        except BaseException:
            if not info.ranks:  # this rank may try again
                del info.devices[number]
                info.say_who_lacks()
            raise
    made = info.ranks[number]
    made.made = site
    runtime.pay(runtime.costs.create_communicator)
    runtime.called(CommInitRootInfo.__name__, enter, site, Made(None, made))
    return made


def _refuse_folded(runtime: Runtime, call: str) -> None:
    """Refuse a *call* that all ranks must make, where most of them do not run."""
    if runtime.state(Folds).now is not None:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{call} of folded ranks, of which most make no call",
            "make the communicators before ranks(fold=), with CommInitAll()",
        )


async def _until_joined(runtime: Runtime, info: RootInfo, number: int, site: Site) -> None:
    limit = None
    if runtime.rules.collectives is CollectiveRules.HCCL:
        limit_s = seconds(CONNECT_TIMEOUT)
        limit = Limit(limit_s * 10**9, Kind.COLLECTIVE_TIMEOUT) if limit_s else None
    what = f"CommInitRootInfo() of rank {number} waits for the other ranks"
    await runtime.wait(info.joined, what, site, limit_ns=None if limit is None else limit.ns)
    if limit is not None and not info.joined.done:
        there = ", ".join(map(str, sorted(info.devices)))
        raise runtime.error(
            limit.kind,
            f"rank {number} has waited {limit.ns // 10**9} s for others; of {info.size} ranks only {there} have called",
            f"let all ranks call CommInitRootInfo(), or allow more time with {CONNECT_TIMEOUT}",
        )


def _check_root_info(runtime: Runtime, info: object, size: int, number: int, device: Device) -> RootInfo:
    if not isinstance(info, RootInfo):
        raise TypeError(f"root_info must be what GetRootInfo() gave, not {shown(info)}")

    def wrong(what: str, remedy: str) -> Exception:
        return runtime.error(Kind.INVALID_COLLECTIVE, what, remedy)

    if info.runtime is not runtime:
        raise wrong(f"{info!r} belongs to another simulation", "make one in the simulation that uses it")
    if size < 1:
        raise wrong(f"a communicator of {size} ranks", "n_ranks must be 1 or more")
    if not 0 <= number < size:
        raise wrong(f"there is no rank {number} of {size}", f"ranks have the numbers 0 to {size - 1}")
    if info.ranks:
        raise wrong(f"{info!r} has its communicator already", "call GetRootInfo() once for each communicator")
    if info.size not in (0, size):
        raise wrong(
            f"rank {number} says {size} ranks, and another one {info.size}", "pass the same n_ranks on all ranks"
        )
    if number in info.devices:
        raise wrong(f"rank {number} has called already, on {info.devices[number]!r}", "give each rank its own number")
    taken = next((rank for rank, each in info.devices.items() if each is device), None)
    if taken is not None:
        raise wrong(f"{device!r} has rank {taken} already", "SetDevice() to another device for each rank")
    return info


@verb(acl="HcclCommInitAll", cuda="ncclCommInitAll", step="comm_init")
async def CommInitAll(devices: Sequence[Integer] | Integer, *, name: str | None = None) -> list[Communicator]:
    """Make the communicators of all ranks at once; rank i is on the i-th of *devices*.

    Stands for HcclCommInitAll and ncclCommInitAll.

    Args:
        devices: The numbers of the devices, each once; or how many, for the devices from 0 on.
        name: What messages, charts and traces call them instead of their number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing but the call itself (50 to 100 ms on the measured cards).

    Returns:
        The communicators, in the order of the ranks.

    Raises:
        AclError: INVALID_COLLECTIVE if there are no devices, or one is there twice; INVALID_DEVICE for a device that
            there is not.
        TypeError: A number is not an int.
        ValueError: *name* is empty, too long or not printable.

    Example:
        comms = await CommInitAll([0, 1])
        for device, comm in enumerate(comms):
            await SetDevice(device)
            await Barrier(comm)
    """
    _, runtime, site, enter = begin()
    check_name(name)
    asked = devices if isinstance(devices, Sequence) else range(integer("devices", devices))
    numbers = [integer("a device", number) for number in asked]
    if not numbers:
        raise runtime.error(Kind.INVALID_COLLECTIVE, "a communicator without devices", "pass one device or more")
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"device {twice} is there {numbers.count(twice)} times",
            "give each rank a device of its own",
        )
    ranks = _clique(runtime, [runtime.device(number) for number in numbers], site, name).ranks
    runtime.pay(runtime.costs.create_communicator)
    runtime.called(CommInitAll.__name__, enter, site, Made(None, ranks[0], tuple(ranks[1:])))
    return list(ranks)


def _clique(runtime: Runtime, devices: Sequence[Device], site: Site, name: str | None) -> Clique:
    spec = runtime.profile.collectives
    if spec is None:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"profile {runtime.profile.name} has no table [collectives]",
            "use one that has it, such as h200 or ascend910b3, or add the table to yours",
        )
    hccl = runtime.rules.collectives is CollectiveRules.HCCL
    forced = forced_by_hccl() if hccl else forced_by_nccl()
    state = runtime.state(Communicators)
    state.made += 1
    play = Player(spec, runtime.links, [device.ordinal for device in devices], *forced)
    limit_s, buffer_bytes = 0.0, spec.pairs.buffer_bytes
    if hccl:  # NCCL has no time limit
        buffer_bytes = 0
        given = runtime.hccl_timeout_s
        limit_s = seconds(EXEC_TIMEOUT) if given is None else given
    clique = Clique(
        state.made,
        devices,
        site,
        play=play,
        limit_ns=round(limit_s * 10**9),
        buffer_bytes=buffer_bytes,
        name=name,
        values=runtime.values,
    )
    state.alive[clique] = None
    fold = runtime.state(Folds).now
    if fold is not None:
        fold_clique(clique, fold)
    for rank in clique.ranks:
        if rank.device.primary.error is not None:  # it can make no call, so others would wait for it in vain
            clique.lose(rank, "its device has failed before the communicator was made")
    return clique


@verb(cuda="ncclCommSplit")
async def CommSplit(comm: Communicator, color: Integer, key: Integer) -> Communicator | None:
    """Make a communicator of the ranks of *comm* that pass the same *color*, in the order of their *key*.

    Stands for ncclCommSplit. All ranks of *comm* call it.

    Args:
        comm: The communicator of this rank.
        color: 0 or more; -1 for a rank that takes part in no new communicator.
        key: Where this rank stands among those of its color; equal ones in the order of the ranks.

    Waits:
        cuda, cuda_per_thread: Only for the calls of the other ranks of *comm*.
        acl: For nothing: the call is refused.

    Returns:
        The new communicator of this rank; None for color -1.

    Raises:
        AclError: NOT_SUPPORTED under ACL's rules; INVALID_COLLECTIVE for a color below -1, or a communicator that
            cannot be used.
        DeadlockError: Another rank never calls.
        TypeError: *comm* is no communicator, or a number is not an int.
    """
    _, runtime, site, enter = begin()
    check_nccl(runtime, CommSplit.__name__)
    rank = check_rank(runtime, comm)
    color, key = integer("color", color), integer("key", key)
    if color < -1:
        raise runtime.error(Kind.INVALID_COLLECTIVE, f"color {color}", "0 or more, or -1 to take no part")
    _refuse_folded(runtime, "CommSplit()")
    split = _split_of(runtime, rank)
    split.asked[rank] = color, key
    if len(split.asked) == len(rank.clique):
        runtime.state(_Splits).open.pop(rank.clique)
        split.make(runtime, site)
    elif not split.joined.done:
        await runtime.wait(split.joined, f"CommSplit() of rank {rank.index} waits for the other ranks", site)
    made = split.made.get(rank)
    runtime.pay(runtime.costs.create_communicator)
    if made is not None:
        made.made = site
        runtime.called(CommSplit.__name__, enter, site, Made(rank, made))
    else:
        runtime.called(CommSplit.__name__, enter, site)
    return made


class _Split:
    """A split in progress: which color and key each rank has *asked* for, and the communicators *made*."""

    __slots__ = ("asked", "joined", "made")

    def __init__(self) -> None:
        self.asked: dict[Communicator, tuple[int, int]] = {}
        self.made: dict[Communicator, Communicator] = {}
        self.joined = Need("all ranks call CommSplit()", lambda: None, "let the other ranks call it")

    def make(self, runtime: Runtime, site: Site) -> None:
        """Make the communicators: all ranks have asked."""
        for color in sorted({color for color, _ in self.asked.values()} - {-1}):
            members = [(key, rank.index, rank) for rank, (asked, key) in self.asked.items() if asked == color]
            old = [rank for _, _, rank in sorted(members, key=lambda each: each[:2])]
            new = _clique(runtime, [rank.device for rank in old], site, None).ranks
            self.made.update(zip(old, new, strict=True))
        self.joined.complete(runtime.scheduler.now)


class _Splits:
    """The splits of a runtime that not all ranks have joined."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: dict[Clique, _Split] = {}


def _split_of(runtime: Runtime, rank: Communicator) -> _Split:
    split = runtime.state(_Splits).open.setdefault(rank.clique, _Split())
    if rank in split.asked:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE, f"{rank!r} has called CommSplit() already", "let the other ranks call it first"
        )
    return split


@verb(acl="HcclCommDestroy", cuda="ncclCommDestroy", step="comm_destroy")
async def CommDestroy(comm: Communicator) -> None:
    """Destroy the communicator of one rank.

    Stands for HcclCommDestroy and ncclCommDestroy.

    Args:
        comm: The communicator.

    Waits:
        all rules: Until all that was queued with it is done (and 500 ms for the call itself, on the measured cards).

    Raises:
        AclError: INVALID_COLLECTIVE if it cannot be used; the kind of the failure if a collective has failed.
        DeadlockError: A collective that was queued can never end.
        TypeError: *comm* is no communicator.
    """
    _, runtime, site, enter = begin()
    rank = check_rank(runtime, comm)
    await runtime.wait(rank.tail, f"CommDestroy() waits for {rank.clique.name}", site, (rank.tail,), sleeps=False)
    runtime.pay(runtime.costs.destroy_communicator)
    _leave(runtime, rank, site)
    runtime.called(CommDestroy.__name__, enter, site, Destroyed(rank))
    if rank.clique.error is not None:
        raise runtime.operation_error(rank.clique.error)


@verb(cuda="ncclCommAbort")
async def CommAbort(comm: Communicator) -> None:
    """Destroy the communicator of one rank at once; what is queued with it, on all ranks, ends with an error.

    Stands for ncclCommAbort. That the other ranks get an error is assumed.

    Args:
        comm: The communicator.

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: For nothing: the call is refused.

    Raises:
        AclError: NOT_SUPPORTED under ACL's rules; INVALID_COLLECTIVE if *comm* cannot be used.
        TypeError: *comm* is no communicator.
    """
    _, runtime, site, enter = begin()
    check_nccl(runtime, CommAbort.__name__)
    rank = check_rank(runtime, comm)
    runtime.pay(runtime.costs.other)
    rank.clique.lose(rank, f"it was aborted at {site}")
    runtime.scheduler.settle()
    _leave(runtime, rank, site)
    runtime.called(CommAbort.__name__, enter, site, Destroyed(rank, 1))


def _leave(runtime: Runtime, rank: Communicator, site: Site) -> None:
    for seat in rank.clique.seats.get(rank.index, (rank.index,)):
        rank.clique.ranks[seat].destroy(site)
    if all(each.destroyed is not None for each in rank.clique.ranks):
        runtime.state(Communicators).alive.pop(rank.clique, None)


@verb(acl="HcclGetRankSize", cuda="ncclCommCount")
async def GetRankSize(comm: Communicator) -> int:
    """Return how many ranks *comm* has.

    Stands for HcclGetRankSize and ncclCommCount.

    Args:
        comm: The communicator of any rank.

    Waits:
        all rules: For nothing.

    Returns:
        The number of ranks.

    Raises:
        AclError: INVALID_COLLECTIVE if *comm* cannot be used.
        TypeError: *comm* is no communicator.
    """
    _, runtime, site, enter = begin()
    size = len(check_rank(runtime, comm).clique)
    runtime.brief_call(GetRankSize.__name__, enter, site)
    return size


@verb(acl="HcclGetRankId", cuda="ncclCommUserRank")
async def GetRankId(comm: Communicator) -> int:
    """Return the number of the rank that *comm* is for.

    Stands for HcclGetRankId and ncclCommUserRank.

    Args:
        comm: The communicator.

    Waits:
        all rules: For nothing.

    Returns:
        The rank, from 0 on.

    Raises:
        AclError: INVALID_COLLECTIVE if *comm* cannot be used.
        TypeError: *comm* is no communicator.
    """
    _, runtime, site, enter = begin()
    index = check_rank(runtime, comm).index
    runtime.brief_call(GetRankId.__name__, enter, site)
    return index


@verb(acl="HcclGetCommAsyncError", cuda="ncclCommGetAsyncError")
async def GetCommAsyncError(comm: Communicator) -> Kind | None:
    """Return with what kind of error the collectives of *comm* have ended; None if all is well.

    Stands for HcclGetCommAsyncError and ncclCommGetAsyncError.

    Args:
        comm: The communicator.

    Waits:
        all rules: For nothing.

    Returns:
        REMOTE_FAILURE if a rank has failed, COLLECTIVE_TIMEOUT if ranks have waited too long, or None.

    Raises:
        AclError: INVALID_COLLECTIVE if *comm* cannot be used.
        TypeError: *comm* is no communicator.
    """
    _, runtime, site, enter = begin()
    error = check_rank(runtime, comm).clique.error
    runtime.brief_call(GetCommAsyncError.__name__, enter, site)
    return None if error is None else error.kind
