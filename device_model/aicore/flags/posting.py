"""IBSet and IBWait: one core tells another one something through a place in GM, of 32 bytes for each core and event.

IBSet waits until the place is clear and posts there; IBWait waits until something is posted and clears the place. A
core knows what another one has done only if it waits for it, as with cross-core flags.
"""

from collections import deque
from operator import index as integer

from device_model.aicore.core.machine import Core, Token, park, running
from device_model.aicore.core.names import CoreType, Pipe, Space
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int32
from device_model.aicore.flags.crossing import learn_token
from device_model.aicore.flags.sync import barrier_all, check_waits
from device_model.kernel.findings import KernelError

SLOT = 32  # bytes of a place


def IBSet(gm_workspace: GlobalTensor, ub_workspace: LocalTensor, block_idx: int, event_id: int) -> None:
    """Tell a core that waits with the same arguments that all pipes of this one are done (Ascend C: IBSet).

    The scalar pipe waits for all pipes, and until an earlier IBSet of this place was waited for.

    Args:
        gm_workspace: int32 in GM, the same for both cores and zero before the launch: 32 bytes for each core and event.
        ub_workspace: int32 in UB, 32 bytes or more.
        block_idx: A core, 0 to their number less 1, whose place is used.
        event_id: An event, 0 or more.

    Raises:
        KernelError: The core has no UB, a workspace is too small, of the wrong type or not zero, or a number is
            impossible.
        KernelHangError: Nobody waits for the IBSet before this one.
    """
    core = running()
    place = _place("IBSet", core, gm_workspace, ub_workspace, block_idx, event_id)
    posted = core.crossing.posted.setdefault(place, deque())
    barrier_all(core)
    if posted:
        park(f"IBSet at {core.site()}", lambda: not posted)
    instruction = core.note(Pipe.S, Kind.CROSS_SET, "IBSet")
    knowledge = dict(core.remote)
    knowledge[core.index] = tuple(core.knowledge_of(Pipe.S))
    posted.append(Token((instruction,), knowledge))


def IBWait(gm_workspace: GlobalTensor, ub_workspace: LocalTensor, block_idx: int, event_id: int) -> None:
    """Wait until a core has called IBSet with the same arguments (Ascend C: IBWait).

    The scalar pipe waits, so nothing is issued to any pipe of this core meanwhile.

    Args:
        gm_workspace: As for IBSet.
        ub_workspace: As for IBSet.
        block_idx: As for IBSet.
        event_id: As for IBSet.

    Raises:
        KernelError: As for IBSet.
        KernelHangError: No core calls IBSet with these arguments.
    """
    core = running()
    place = _place("IBWait", core, gm_workspace, ub_workspace, block_idx, event_id)
    posted = core.crossing.posted.setdefault(place, deque())
    check_waits(core)
    while not posted:
        park(f"IBWait({block_idx}, {event_id}) at {core.site()}", lambda: bool(posted))
    token = posted.popleft()
    core.note(Pipe.S, Kind.CROSS_WAIT, "IBWait", token.sets)
    core.count_wait()
    learn_token(core, token)


def _place(
    name: str, core: Core, gm: GlobalTensor, ub: LocalTensor, block_idx: int, event_id: int
) -> tuple[object, int, int, int]:
    """Check the arguments, and return the place in GM that they mean."""
    if core.core_type is not CoreType.AIV:
        raise KernelError(f"{name} on {core.program}", "only vector cores have it: put it under `if ASCEND_IS_AIV:`")
    cores = sum(each.core_type is CoreType.AIV for each in core.crossing.cores)
    block, event = integer(block_idx), integer(event_id)
    if not 0 <= block < cores or event < 0:
        raise KernelError(
            f"{name} with block_idx {block_idx} and event_id {event_id}",
            f"a block_idx is 0 to {cores - 1}, and an event_id 0 or more",
        )
    start = (cores * event + block) * SLOT
    for role, tensor, space, nbytes in (
        ("gm_workspace", gm, Space.GM, start + SLOT),
        ("ub_workspace", ub, Space.UB, SLOT),
    ):
        if tensor.memory.space is not space or tensor.dtype != int32 or tensor.nbytes < nbytes:
            raise KernelError(f"{name} with {role} {tensor!r}", f"give it {nbytes} bytes of int32 in {space}")
    if core.values and gm.view[start // int32.itemsize] != 0:
        raise KernelError(f"{name} with gm_workspace {gm!r}, which is not zero", "fill it with zeros before the launch")
    return gm.memory.key, gm.address, block, event
