"""Flags between the pipes of a core, their event ids, and barriers.

A flag is one bit for each HardEvent and event id. SetFlag is an instruction of the event's source pipe: it sets the
flag when all earlier instructions of that pipe have finished. WaitFlag is an instruction of the destination pipe: it
stops that pipe until the flag is set, and clears the flag.

    DataCopy(x, x_gm, n)                  # MTE2
    SetFlag(HardEvent.MTE2_V, EVENT_ID0)  # MTE2 sets the flag when the copy has finished
    WaitFlag(HardEvent.MTE2_V, EVENT_ID0) # V does not start before
    Relu(y, x, n)                         # V

The scalar pipe issues both and does not wait itself, so a WaitFlag may be issued before its SetFlag. That works on a
card, and is reported as LATE_SET: results are computed in the order of the program here. If the SetFlag can never run,
because it stands behind the WaitFlag in its own pipe or is never issued, the pipes hang, and the kernel ends with a
KernelHangError.
"""

from collections import deque
from collections.abc import Mapping

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import EVENT_IDS, Core, running
from device_model.aicore.core.names import PIPES, CoreType, HardEvent, Pipe
from device_model.aicore.core.program import Instruction, Kind
from device_model.kernel.findings import KernelError, KernelHangError


def SetFlag(event: HardEvent, event_id: int) -> None:
    """Set a flag when all earlier instructions of the event's source pipe have finished (Ascend C: SetFlag).

    Runs on the source pipe of *event*. Later instructions of that pipe go on.

    Args:
        event: The kind of flag; "MTE2_V" is set by MTE2 and waited for by V.
        event_id: Which flag of this kind, 0 to 7.

    Raises:
        KernelError: This type of core has no such event, or the id is not 0 to 7.

    A second SetFlag before the WaitFlag is the finding DOUBLE_SET; a flag still set at the end, FLAG_LEFT_SET.
    """
    set_flag(running(), event, event_id)


def WaitFlag(event: HardEvent, event_id: int, *, timeout_us: float | None = None) -> bool:
    """Hold the event's destination pipe until a flag is set, then clear the flag (Ascend C: WaitFlag).

    Runs on the destination pipe of *event*. The scalar pipe goes on at once, unless it is the destination itself.

    Args:
        event: The kind of flag; "MTE2_V" is set by MTE2 and waited for by V.
        event_id: Which flag of this kind, 0 to 7.
        timeout_us: In microseconds: if no SetFlag was issued before this wait, the pipe gives up after this time and
            the finding WAIT_TIMEOUT is made. Ascend C has no such limit.

    Returns:
        True; False if the time limit passed.

    Raises:
        KernelError: This type of core has no such event, or the id is not 0 to 7.
        KernelHangError: The flag can never be set. It is raised where the scalar pipe waits next: for a flag,
            for another core, in PipeBarrier(Pipe.ALL), or at the end of the block.
    """
    core = running()
    if timeout_us is None or core.flags[_slot(core, event, event_id)] is not None:
        wait_flag(core, event, event_id)
        return True
    instruction = core.note(event.destination, Kind.WORK, event.wait_name)
    instruction.cycles = round(timeout_us * core.spec.mhz)
    core.find(
        Rule.WAIT_TIMEOUT,
        f"{instruction} gave up after {timeout_us:g} us: no SetFlag<{event}>({event_id}) was issued before it",
        instruction,
        missing=str(event),
    )
    return False


def PipeBarrier(pipe: Pipe) -> None:
    """Let later instructions of a pipe start only when all its earlier ones have finished (Ascend C: PipeBarrier).

    Args:
        pipe: The pipe that waits for itself: V, M, MTE1, MTE2, MTE3 or FIX. With Pipe.ALL the scalar pipe stops
            until all pipes of the core have finished.

    Raises:
        KernelError: *pipe* is Pipe.S, which is always in order.
        KernelHangError: With Pipe.ALL, a pipe waits for a flag that can never be set.
    """
    core = running()
    if pipe is Pipe.ALL:
        barrier_all(core)
        return
    if pipe is Pipe.S or pipe not in PIPES:
        raise KernelError(f"PipeBarrier({pipe!r})", "the scalar pipe needs none; name another pipe, or Pipe.ALL")
    core.note(pipe, Kind.BARRIER, f"PipeBarrier<{pipe.name}>")
    clock = core.clocks[pipe]
    if clock[pipe] < core.seqs[pipe]:
        clock[pipe] = core.seqs[pipe]


def AllocEventID(event: HardEvent) -> int:
    """Reserve the lowest free id of an event (Ascend C: TPipe::AllocEventID); no pipe waits.

    Give it back with ReleaseEventID.

    Args:
        event: The event of which an id is needed.

    Returns:
        The id, 0 to 7.

    Raises:
        KernelError: All 8 ids are taken, or this type of core has no such event.
    """
    return alloc_event(running(), event)


def FetchEventID(event: HardEvent) -> int:
    """Return the lowest free id of an event without reserving it (Ascend C: TPipe::FetchEventID); no pipe waits.

    The next fetch returns the same id. That is well as long as a flag with this id is waited for before the id is set
    again. If two of them are set at once, that is the finding FETCHED_TWICE.

    Args:
        event: The event of which an id is needed.

    Returns:
        The id, 0 to 7.

    Raises:
        KernelError: All 8 ids are taken, or this type of core has no such event.
    """
    core = running()
    event_id = _free_id(core, event)
    core.fetched.setdefault(_slot(core, event, event_id), []).append(core.site())
    return event_id


def ReleaseEventID(event: HardEvent, event_id: int) -> None:
    """Give back an id that AllocEventID reserved (Ascend C: TPipe::ReleaseEventID); no pipe waits.

    Args:
        event: The event that the id belongs to.
        event_id: The id, 0 to 7. An id that is not reserved is the finding RELEASED_TWICE.

    Raises:
        KernelError: This type of core has no such event, or the id is not 0 to 7.
    """
    core = running()
    _slot(core, event, event_id)
    if not core.allocated[event] >> event_id & 1:
        core.find(
            Rule.RELEASED_TWICE, f"ReleaseEventID({event}, {event_id}): this id is not allocated; release an id once"
        )
    release_event(core, event, event_id)


# The same functions for callers in this package, which know their core.


def set_flag(core: Core, event: HardEvent, event_id: int) -> None:
    """Set a flag on *core*, as SetFlag does."""
    if event not in core.events or not 0 <= event_id < EVENT_IDS:
        _slot(core, event, event_id)  # raises the error
    slot = event * EVENT_IDS + event_id
    instruction = core.note(event.source, Kind.SET, event.set_name)
    if core.stuck:
        waits = core.stuck.get(slot)
        if waits:
            core.late.append((waits.popleft(), instruction))
            return
    earlier = core.flags[slot]
    if earlier is not None:
        _report_double_set(core, slot, instruction, earlier)
        return
    core.flags[slot] = instruction
    if core.hazards:
        core.flag_clocks[slot] = core.knowledge_of(event.source)


def _report_double_set(core: Core, slot: int, instruction: Instruction, earlier: Instruction) -> None:
    """Report that *instruction* sets a flag that *earlier* has set; name the fetches that gave both the same id."""
    event_id = slot % EVENT_IDS
    text = f"{instruction} sets id {event_id} again, which {earlier} has set and no WaitFlag has cleared; "
    fetches = core.fetched.get(slot, ())
    if len(fetches) < 2:
        remedy = "one wait clears both sets and a second one hangs, so wait once for each set"
        core.find(Rule.DOUBLE_SET, text + remedy, instruction, earlier)
        return
    places = " and ".join(dict.fromkeys(map(str, fetches[-2:])))
    core.find(
        Rule.FETCHED_TWICE,
        f"{text}FetchEventID() at {places} gave this id twice; call AllocEventID(), which reserves an id, or wait for "
        "the first flag before you set the second",
        instruction,
        earlier,
    )


def wait_flag(core: Core, event: HardEvent, event_id: int) -> None:
    """Wait for a flag on *core*, as WaitFlag without a time limit does."""
    if event not in core.events or not 0 <= event_id < EVENT_IDS:
        _slot(core, event, event_id)  # raises the error
    slot = event * EVENT_IDS + event_id
    setter = core.flags[slot]
    pipe = event.destination
    if setter is None:
        instruction = core.note(pipe, Kind.WAIT, event.wait_name)
        core.stuck.setdefault(slot, deque()).append(instruction)
        if pipe is Pipe.S:
            check_waits(core)
        return
    core.note(pipe, Kind.WAIT, event.wait_name, (setter,))
    core.flags[slot] = None
    if core.fetched:
        core.fetched.pop(slot, None)
    clock = core.flag_clocks[slot]
    if clock is not None:
        core.flag_clocks[slot] = None
        core.learn(pipe, clock)
    if pipe is Pipe.S and core.stuck:
        check_waits(core)


def pass_flag(event: HardEvent) -> None:
    """Let the destination of *event* wait for its source, with an event id of its own."""
    event_id = AllocEventID(event)
    SetFlag(event, event_id)
    WaitFlag(event, event_id)
    ReleaseEventID(event, event_id)


def barrier_all(core: Core) -> None:
    """Stop all issue on *core* until its pipes have finished, as PipeBarrier(Pipe.ALL) does."""
    core.note(Pipe.S, Kind.BARRIER_ALL, "PipeBarrier<ALL>")
    check_waits(core)
    for pipe in PIPES:
        core.learn(pipe, core.seqs)


def alloc_event(core: Core, event: HardEvent) -> int:
    """Reserve an event id on *core*, as AllocEventID does."""
    event_id = _free_id(core, event)
    core.allocated[event] |= 1 << event_id
    return event_id


def release_event(core: Core, event: HardEvent, event_id: int) -> None:
    """Give back an event id on *core*, as ReleaseEventID does."""
    core.allocated[event] &= ~(1 << event_id)


def _free_id(core: Core, event: HardEvent) -> int:
    taken = core.allocated[event]
    if not taken & 1:
        return 0
    free = ~taken & (taken + 1)  # the lowest clear bit
    event_id = free.bit_length() - 1
    if event_id >= EVENT_IDS:
        raise KernelError(
            f"all {EVENT_IDS} event ids of {event} on {core.program} are taken",
            "release ids that are no longer needed, or keep fewer tensors in flight",
        )
    return event_id


def _slot(core: Core, event: HardEvent, event_id: int) -> int:
    if not isinstance(event, HardEvent):
        raise TypeError(f"an event is a HardEvent such as HardEvent.MTE2_V, not {event!r}")
    if event not in core.events:
        raise KernelError(
            f"{event} does not exist on {core.program}",
            f"a core of type {core.core_type} has {', '.join(str(each) for each in HardEvent if each in core.events)}",
        )
    if not 0 <= event_id < EVENT_IDS:
        raise KernelError(f"event id {event_id} of {event}", f"ids are 0 to {EVENT_IDS - 1}")
    return event * EVENT_IDS + event_id


# Hangs


def check_waits(core: Core) -> None:
    """Check that each wait that was issued before its set can end; raise KernelHangError if one cannot."""
    if not core.stuck:
        return
    sets = {id(wait): setter for wait, setter in core.late}
    hung = _hung(core.instructions, sets)
    if hung:
        raise KernelHangError(
            f"{core.program} hangs: " + "; ".join(_why(head, sets.get(id(head))) for head in hung),
            "set each flag before the wait for it, and before a loop the flags that its first turn waits for",
            tuple((core.program, head) for head in hung),
        )
    for wait, setter in core.late:
        core.find(
            Rule.LATE_SET,
            f"{wait} was issued before {setter}, which it waits for; on a card the instructions after the wait run "
            "later than here, where results are computed in the order of the program; issue the SetFlag first",
            wait,
            setter,
        )
    core.late.clear()
    core.stuck.clear()


def _hung(instructions: list[Instruction], sets: Mapping[int, Instruction]) -> list[Instruction]:
    """Return the waits at which pipes stop for good when each runs its instructions in order.

    *sets* has the sets that were issued after their waits, by the id() of the wait.
    """
    queues: list[deque[Instruction]] = [deque() for _ in PIPES]
    for instruction in instructions:
        queues[instruction.pipe].append(instruction)
    done: dict[int, bool] = {}
    moved = True
    while moved:
        moved = False
        for queue in queues:
            while queue:
                head = queue[0]
                if head.kind is Kind.WAIT:
                    setter = head.waits[0] if head.waits else sets.get(id(head))
                    if setter is None or id(setter) not in done:
                        break
                done[id(queue.popleft())] = True
                moved = True
    return [queue[0] for queue in queues if queue]


def _why(head: Instruction, late: Instruction | None) -> str:
    event = head.name.removeprefix("WaitFlag")
    setter = head.waits[0] if head.waits else late
    if setter is None:
        return f"{head.pipe} waits in {head.name} at {head.site} for SetFlag{event}, which is never issued"
    return (
        f"{head.pipe} waits in {head.name} at {head.site} for {setter}, which comes after a wait that hangs in "
        f"{setter.pipe}"
    )


# The end of a block


def finish(core: Core) -> None:
    """Report flags that a block leaves set, and lines of the scalar data cache that it did not flush."""
    check_waits(core)
    for event in HardEvent:
        for event_id in range(EVENT_IDS):
            setter = core.flags[event * EVENT_IDS + event_id]
            if setter is not None:
                core.find(
                    Rule.FLAG_LEFT_SET,
                    f"{setter} has set id {event_id} and no WaitFlag cleared it, so the next kernel on this core finds "
                    "it set; wait for it before the kernel ends",
                    setter,
                    missing=event.wait_name,
                )
    for written in core.dirty_lines.values():
        core.find(
            Rule.NOT_FLUSHED,
            f"{written} wrote to GM through the scalar data cache, and the line was never written back; "
            "call DataCacheCleanAndInvalid()",
            written,
            missing="DataCacheCleanAndInvalid",
        )


def preset_events(core: Core) -> tuple[tuple[HardEvent, int], ...]:
    """Return the flags that a new TPipe sets on a cube core: ids 0 to 2 of M_MTE1."""
    return tuple((HardEvent.M_MTE1, event_id) for event_id in range(3)) if core.core_type is CoreType.AIC else ()
