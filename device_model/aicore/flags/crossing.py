"""Flags between cores: CrossCoreSetFlag, CrossCoreWaitFlag and SyncAll.

Each core has a counter for each flag id. CrossCoreSetFlag counts up the counters of other cores, and the mode says of
which ones:

    mode 0    when all cores of a type have set the flag, the counter of each of them goes up
    mode 1    when all vector cores of one block have set it, the counter of each of them goes up
    mode 2    the cube core counts up each of its vector cores; when all vector cores of a block have set the flag,
              the counter of their cube core goes up

CrossCoreWaitFlag stops all issue on its core until the counter is above 0, and then counts it down by one.
"""

from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import Core, Knowledge, Token, park, running
from device_model.aicore.core.names import PIPES, CoreType, Pipe, Space
from device_model.aicore.core.program import Instruction, Kind
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int32
from device_model.aicore.flags.sync import barrier_all, check_waits
from device_model.kernel.findings import KernelError, KernelHangError

IDS = 16
MAX_COUNT = 15
_SYNC_ALL = 16  # the internal id of SyncAll
_SOFT_SYNC = 17  # the internal id of SyncAll with a workspace, which uses no flag on a card
_RESERVED = range(11, 15)  # the ids that SyncAll uses on a card
_SLOT = 32  # bytes of a core in the workspaces of SyncAll


class Crossing:
    """The cross-core flags of a launch."""

    def __init__(self, chip: Mapping[CoreType, int]) -> None:
        self._chip = chip  # the number of cores of each type
        self.cores: list[Core] = []
        self.mail: dict[Hashable, deque[Any]] = {}  # messages between cores that need no flag
        self.counted: Counter[Hashable] = Counter()  # arrivals at SyncAll, by workspace and core
        self.posted: dict[Hashable, deque[Token]] = {}  # what IBSet has posted, by its place in GM
        self.servers: Sequence[Any] = ()  # of HCCL, one for each communicator of the launch
        self._meeting: Instruction | None = None  # the first arrival at a SyncAll
        self._borrowed: tuple[Core, Instruction, int] | None = None  # the first set of an id that SyncAll uses
        self._pending: dict[tuple[int, tuple[int, ...], int], dict[int, deque[tuple[Instruction, Knowledge]]]] = {}
        self._groups: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def groups(self, core: Core, mode: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the cores that set a flag of *mode* together with *core*, and those that receive it, as indices."""
        key = (core.index, mode)
        groups = self._groups.get(key)
        if groups is None:
            groups = self._groups[key] = self._find_groups(core, mode)
        return groups

    def _find_groups(self, core: Core, mode: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        block = core.program.block
        kind = core.core_type
        if mode == 0:
            everyone = tuple(each.index for each in self.cores if each.core_type is kind)
            return everyone, everyone
        own = [each for each in self.cores if each.program.block == block]
        cubes = tuple(each.index for each in own if each.core_type is CoreType.AIC)
        vectors = tuple(each.index for each in own if each.core_type is CoreType.AIV)
        if mode == 1:
            if kind is CoreType.AIC:
                raise KernelError(f"cross-core mode 1 on {core.program}", "only the vector cores of a block have it")
            return vectors, vectors
        if not cubes or not vectors:
            raise KernelError(
                f"cross-core mode 2 on {core.program}, whose kernel is not mixed",
                "launch it as MIX_AIC_1_1 or MIX_AIC_1_2",
            )
        return (cubes, vectors) if kind is CoreType.AIC else (vectors, cubes)

    def check_fits(self, core: Core, what: str) -> None:
        """Raise KernelHangError if *what*, which needs all blocks at once, has more blocks than there are cores."""
        kind = core.core_type
        cores = sum(each.core_type is kind for each in self.cores)
        physical = self._chip[kind]
        if cores > physical:
            raise KernelHangError(
                f"{what} on {core.program} never ends: the launch has {cores} blocks on {kind} and the chip "
                f"{physical} cores, so the last blocks start only when the first have ended",
                f"launch at most {physical} blocks",
            )

    def set(
        self, core: Core, members: tuple[int, ...], receivers: tuple[int, ...], flag: int, pipe: Pipe, name: str
    ) -> None:
        """Set *flag* for *core* when all earlier instructions of *pipe* have finished."""
        instruction = core.note(pipe, Kind.CROSS_SET, name)
        if flag == _SYNC_ALL:
            self._meeting = self._meeting or instruction
        elif flag in _RESERVED:
            self._borrowed = self._borrowed or (core, instruction, flag)
        knowledge = dict(core.remote)
        knowledge[core.index] = tuple(core.knowledge_of(pipe))
        pending = self._pending.get((flag, members, receivers[0]))
        if pending is None:
            pending = self._pending[flag, members, receivers[0]] = {member: deque() for member in members}
        pending[core.index].append((instruction, knowledge))
        if not all(pending.values()):
            return
        arrived = [pending[member].popleft() for member in members]
        token = Token(tuple(each for each, _ in arrived), _merged([known for _, known in arrived]))
        for receiver in receivers:
            other = self.cores[receiver]
            tokens = other.tokens.setdefault(flag, deque())
            tokens.append(token)
            self._check_count(core, other, flag, instruction, len(tokens))

    def _check_count(self, core: Core, other: Core, flag: int, instruction: Instruction, count: int) -> None:
        """Report a counter of *other* that may pass its maximum; *count* is its value now.

        This does not depend on timing: enough waits must be known to be finished before the set.
        """
        done = other.waits_done.get(flag, ())
        needed = len(done) + count - MAX_COUNT  # waits that must have ended before this set
        if needed <= 0:
            return
        if needed <= len(done):
            known = core.seqs if other is core else core.remote.get(other.index)
            if known is not None and done[needed - 1] <= known[Pipe.ALL]:
                return
        core.find(
            Rule.CROSS_OVERFLOW,
            f"{instruction} may count flag {flag} of {other.program} up beyond {MAX_COUNT}; "
            "let the setting core wait for a flag from the other one now and then",
            instruction,
        )

    def wait(self, core: Core, flag: int, name: str, *, timeout_us: float | None = None) -> bool:
        """Wait on *core* for a count of *flag* while other blocks run; return False if the time limit passed."""
        check_waits(core)
        tokens = core.tokens.setdefault(flag, deque())
        while not tokens:
            if not park(f"{name} at {core.site()}", lambda: bool(tokens), can_give_up=timeout_us is not None):
                return False
        token = tokens.popleft()
        core.note(Pipe.S, Kind.CROSS_WAIT, name, token.sets)
        core.waits_done.setdefault(flag, []).append(core.count_wait())
        learn_token(core, token)
        return True

    def finish(self) -> None:
        """Report counters still above 0 after all blocks, and flags that the kernel shares with SyncAll."""
        if self._meeting is not None and self._borrowed is not None:
            core, setter, flag = self._borrowed
            core.find(
                Rule.RESERVED_FLAG,
                f"{setter} sets flag {flag}, which {self._meeting} uses too; beside SyncAll(), use flags 0 to 10",
                setter,
                self._meeting,
            )
        for core in self.cores:
            for flag, tokens in core.tokens.items():
                if tokens and flag < IDS:
                    setter = tokens[0].sets[-1]
                    core.find(
                        Rule.CROSS_LEFT_SET,
                        f"cross-core flag {flag} of {core.program} is left at {len(tokens)}, set by {setter}; "
                        "wait for it as often as it is set",
                        setter,
                    )
        for posted in self.posted.values():
            for token in posted:
                (setter,) = token.sets
                self.cores[setter.core].find(
                    Rule.CROSS_LEFT_SET, f"nobody waits for {setter}; call IBWait as often as IBSet", setter
                )


def learn_token(core: Core, token: Token) -> None:
    """Let *core*, which has waited for *token*, know what the cores that set it knew."""
    own = token.knowledge.get(core.index)
    if own is not None:
        core.learn(Pipe.S, own)
    _learn(core.remote, token.knowledge, core.index)


def _merged(each: Sequence[Knowledge]) -> Knowledge:
    merged: Knowledge = {}
    for knowledge in each:
        _learn(merged, knowledge)
    return merged


def _learn(mine: Knowledge, other: Knowledge, skipped: int = -1) -> None:
    for core, clock in other.items():
        known = mine.get(core)
        if core == skipped or known is clock:
            continue
        mine[core] = clock if known is None else tuple(map(max, known, clock))


def CrossCoreSetFlag(mode: int, pipe: Pipe, flag: int) -> None:
    """Count up a flag of other cores when *pipe* has finished its instructions (Ascend C: CrossCoreSetFlag).

    Runs on *pipe* and stops nothing.

    Args:
        mode: Which cores set the flag together and which receive it. 0: all cores of this type. 1: the vector cores
            of this block. 2: the cube core for its vector cores, and these together for the cube core.
        pipe: The pipe whose earlier instructions must have finished.
        flag: The flag's id, 0 to 15; 0 to 10 in a kernel that calls SyncAll.

    Raises:
        KernelError: The id, the mode or the pipe does not exist, or the kernel's type does not have the mode.
        KernelHangError: Mode 0 with more blocks than the chip has cores.

    A counter that may pass 15 is the finding CROSS_OVERFLOW; one above 0 at the end, CROSS_LEFT_SET.
    """
    core = running()
    _check(core, flag)
    if mode not in (0, 1, 2):
        raise KernelError(
            f"cross-core mode {mode}", "modes are 0 (all of a type), 1 (vector cores of a block) and 2 (mixed)"
        )
    if pipe not in PIPES:
        raise KernelError(f"CrossCoreSetFlag on pipe {pipe!r}", "name one pipe")
    crossing = core.crossing
    if mode == 0:
        crossing.check_fits(core, "CrossCoreSetFlag of mode 0")
    members, receivers = crossing.groups(core, mode)
    crossing.set(core, members, receivers, flag, pipe, f"CrossCoreSetFlag<{mode}, {pipe}>({flag})")


def CrossCoreWaitFlag(flag: int, *, timeout_us: float | None = None) -> bool:
    """Wait until a flag of this core is above 0 and count it down (Ascend C: CrossCoreWaitFlag).

    The scalar pipe waits, so nothing is issued to any pipe of this core meanwhile.

    Args:
        flag: The flag's id, 0 to 15.
        timeout_us: In microseconds: if no other core can set the flag any more, the wait ends after this time with the
            finding WAIT_TIMEOUT. Ascend C has no such limit.

    Returns:
        True; False if the time limit passed.

    Raises:
        KernelError: The id is not 0 to 15.
        KernelHangError: Without a time limit, no core can set the flag any more.
    """
    core = running()
    _check(core, flag)
    name = f"CrossCoreWaitFlag({flag})"
    if core.crossing.wait(core, flag, name, timeout_us=timeout_us):
        return True
    assert timeout_us is not None
    instruction = core.note(Pipe.S, Kind.WORK, name)
    instruction.cycles = round(timeout_us * core.spec.mhz)
    core.find(
        Rule.WAIT_TIMEOUT,
        f"{instruction} gave up after {timeout_us:g} us: no core set the flag",
        instruction,
        missing=f"CrossCoreSetFlag({flag})",
    )
    return False


def SyncAll(
    gm_workspace: GlobalTensor | None = None,
    ub_workspace: LocalTensor | None = None,
    used_cores: int = 0,
    *,
    aiv_only: bool = True,
) -> None:
    """Wait until all cores have arrived here and finished their earlier instructions (Ascend C: SyncAll).

    The scalar pipe waits, first for all pipes of its own core and then for the other cores.

    Args:
        gm_workspace: For the version that counts in memory instead of with flags: int32 in GM, 32 bytes for each
            core, zero before the launch.
        ub_workspace: For the same version: int32 in UB, of the same size.
        used_cores: With workspaces, only this many cores meet, from number 0 on; 0 means all.
        aiv_only: Whether only cores of the caller's type meet. False: in a mixed kernel those of both types.

    Raises:
        KernelError: A workspace is missing, too small, of the wrong type or not zero, or this core is not one of
            *used_cores*.
        KernelHangError: There are more blocks than cores, or a core never arrives.
    """
    core = running()
    crossing = core.crossing
    crossing.check_fits(core, "SyncAll")
    everyone = tuple(each.index for each in crossing.cores if not aiv_only or each.core_type is core.core_type)
    if gm_workspace is None and ub_workspace is None and not used_cores:
        flag = _SYNC_ALL
    else:
        everyone = everyone[: used_cores or None]
        _count_in(core, gm_workspace, ub_workspace, everyone)
        flag = _SOFT_SYNC
    barrier_all(core)
    pipe = Pipe.MTE3
    crossing.set(core, everyone, everyone, flag, pipe, "SyncAll")
    crossing.wait(core, flag, "SyncAll")


def _count_in(core: Core, gm: GlobalTensor | None, ub: LocalTensor | None, everyone: tuple[int, ...]) -> None:
    """Check the workspaces of a SyncAll of the cores *everyone*, and count the arrival of *core* there."""
    nbytes = len(everyone) * _SLOT
    for name, tensor, space in (("gm_workspace", gm, Space.GM), ("ub_workspace", ub, Space.UB)):
        if tensor is None or tensor.memory.space is not space or tensor.dtype != int32 or tensor.nbytes < nbytes:
            raise KernelError(
                f"SyncAll of {len(everyone)} cores with {name} {tensor!r}",
                f"give it {nbytes} bytes of int32 in {space}",
            )
    assert gm is not None
    if core.index not in everyone:
        raise KernelError(
            f"SyncAll of {len(everyone)} cores on {core.program}", f"used_cores are those from 0 to {len(everyone) - 1}"
        )
    slot = everyone.index(core.index) * _SLOT // int32.itemsize
    place = gm.memory.key, gm.address, core.index
    if core.values and gm.view[slot] != core.crossing.counted[place]:
        raise KernelError(
            f"SyncAll with gm_workspace {gm!r}, which is not zero", "fill it with zeros before the launch"
        )
    core.crossing.counted[place] += 1
    if core.values:
        gm.view[slot] += 1


def _check(core: Core, flag: int) -> None:
    if not 0 <= flag < IDS:
        raise KernelError(f"cross-core flag {flag} on {core.program}", f"ids are 0 to {IDS - 1}")
