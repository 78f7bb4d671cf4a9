"""Flags between the pipes of a core, their event ids, and barriers.

A flag is one bit for each HardEvent and id. SetFlag stands in the source pipe and sets it once all before it there has
finished; WaitFlag stands in the destination pipe, holds it until the flag is set, and clears it. The scalar pipe only
issues both, so a wait may be issued before its set; if no set can ever run, the pipes hang, and so does the kernel.
"""

from collections import deque
from collections.abc import Mapping

from device_model.aicore.findings import KernelError, KernelHangError, Rule
from device_model.aicore.machine import EVENT_IDS, Core, running
from device_model.aicore.names import PIPES, CoreType, HardEvent, Pipe
from device_model.aicore.program import Instruction, Kind


def SetFlag(event: HardEvent, event_id: int) -> None:
    """Set flag *event_id* (0 to 7) of *event* once all before it in the event's source pipe has finished."""
    set_flag(running(), event, event_id)


def WaitFlag(event: HardEvent, event_id: int, *, timeout_us: float | None = None) -> bool:
    """Hold the event's destination pipe until flag *event_id* of *event* is set, and clear it.

    With *timeout_us* a flag that nobody has set is given up after that time: the wait is reported as a finding, the
    flag is reset, and False is returned.
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
    """What is issued to *pipe* from now on starts when all before it there has finished; with Pipe.ALL, everything."""
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
    """Take the lowest free id of *event*; give it back with ReleaseEventID."""
    return alloc_event(running(), event)


def FetchEventID(event: HardEvent) -> int:
    """The lowest free id of *event*, without taking it: the next fetch gives the same."""
    core = running()
    event_id = _free_id(core, event)
    slot = _slot(core, event, event_id)
    earlier = core.fetched.get(slot)
    if earlier is not None:
        core.find(
            Rule.FETCHED_TWICE,
            f"FetchEventID({event}) gives id {event_id}, fetched at {earlier} and not used up since; "
            "AllocEventID() takes an id, fetching does not",
            site=core.site(),
        )
    core.fetched[slot] = core.site()
    return event_id


def ReleaseEventID(event: HardEvent, event_id: int) -> None:
    """Give back an id that AllocEventID took."""
    core = running()
    _slot(core, event, event_id)
    if not core.allocated[event] >> event_id & 1:
        core.find(Rule.RELEASED_TWICE, f"ReleaseEventID({event}, {event_id}): this id is not allocated")
    release_event(core, event, event_id)


# For queues and others of this package, which know their core.


def set_flag(core: Core, event: HardEvent, event_id: int) -> None:
    """SetFlag on *core*."""
    if event not in core.events or not 0 <= event_id < EVENT_IDS:
        _slot(core, event, event_id)  # which says what is wrong
    slot = event * EVENT_IDS + event_id
    instruction = core.note(event.source, Kind.SET, event.set_name)
    if core.stuck:
        waiting = core.stuck.get(slot)
        if waiting:
            core.late.append((waiting.popleft(), instruction))
            return
    earlier = core.flags[slot]
    if earlier is not None:
        core.find(
            Rule.DOUBLE_SET,
            f"{instruction} sets id {event_id} again, which {earlier} has set and nobody has waited for; "
            "one wait ends both sets, the other hangs",
            instruction,
            earlier,
        )
        return
    core.flags[slot] = instruction
    if core.hazards:
        core.flag_clocks[slot] = core.knowledge_of(event.source)


def wait_flag(core: Core, event: HardEvent, event_id: int) -> None:
    """WaitFlag on *core*."""
    if event not in core.events or not 0 <= event_id < EVENT_IDS:
        _slot(core, event, event_id)  # which says what is wrong
    slot = event * EVENT_IDS + event_id
    setter = core.flags[slot]
    pipe = event.destination
    if setter is None:
        instruction = core.note(pipe, Kind.WAIT, event.wait_name)
        core.stuck.setdefault(slot, deque()).append(instruction)
        if pipe is Pipe.S:
            settle(core)
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
        settle(core)


def barrier_all(core: Core) -> None:
    """PipeBarrier<ALL> on *core*."""
    core.note(Pipe.S, Kind.BARRIER_ALL, "PipeBarrier<ALL>")
    settle(core)
    for pipe in PIPES:
        core.learn(pipe, core.seqs)


def alloc_event(core: Core, event: HardEvent) -> int:
    """AllocEventID on *core*."""
    event_id = _free_id(core, event)
    core.allocated[event] |= 1 << event_id
    return event_id


def release_event(core: Core, event: HardEvent, event_id: int) -> None:
    """ReleaseEventID on *core*."""
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


def settle(core: Core) -> None:
    """Find out whether waits that were issued before their sets can ever end; a KernelHangError if not."""
    if not core.stuck:
        return
    sets = {id(wait): setter for wait, setter in core.late}
    hung = _hung(core.instructions, sets)
    if hung:
        raise KernelHangError(
            f"{core.program} hangs: " + "; ".join(_why(head, sets.get(id(head))) for head in hung),
            "set each flag before it is waited for, preset what the first turn of a loop waits for",
            tuple((core.program, head) for head in hung),
        )
    for wait, setter in core.late:
        core.find(
            Rule.LATE_SET,
            f"{wait} was issued before {setter}, which it waits for; a card does the work behind it later than "
            "here, where work is done in the order of the program; set first",
            wait,
            setter,
        )
    core.late.clear()
    core.stuck.clear()


def _hung(instructions: list[Instruction], sets: Mapping[int, Instruction]) -> list[Instruction]:
    """The waits at the heads of pipes that never get further, when pipes run in order.

    *sets* are those that came after their waits, by the id() of the wait.
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
        f"{head.pipe} waits in {head.name} at {head.site} for {setter}, which stands behind what hangs in {setter.pipe}"
    )


# The end of a block


def finish(core: Core) -> None:
    """Check what a block leaves behind."""
    settle(core)
    for event in HardEvent:
        for event_id in range(EVENT_IDS):
            setter = core.flags[event * EVENT_IDS + event_id]
            if setter is not None:
                core.find(
                    Rule.FLAG_LEFT_SET,
                    f"{setter} has set id {event_id} and nobody waited for it; "
                    "the next kernel on this core finds it set",
                    setter,
                    missing=event.wait_name,
                )
    for written in core.dirty_lines.values():
        core.find(
            Rule.NOT_FLUSHED,
            f"{written} wrote to GM through the scalar data cache and nothing wrote the line back; "
            "call DataCacheCleanAndInvalid()",
            written,
            missing="DataCacheCleanAndInvalid",
        )


def preset_events(core: Core) -> tuple[tuple[HardEvent, int], ...]:
    """What a TPipe sets on a cube core when it is made: M_MTE1 0 to 2."""
    return tuple((HardEvent.M_MTE1, event_id) for event_id in range(3)) if core.core_type is CoreType.AIC else ()
