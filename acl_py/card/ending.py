"""The end of a run: it waits for the work of its cards, and frees what the driver gave it.

Work that does not end is dropped, where the vendor has a call for that. CUDA has none, and its driver would wait for
the work in each call that frees something: the run leaves everything as it is, and asks for a new process.
"""

from asyncio import current_task
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from acl_py.errors import Kind
from acl_py.waiting.browser import running_loop
from device_model.errors import CodedError, DeviceError

if TYPE_CHECKING:
    from acl_py.card.contexts import CardDevice
    from acl_py.card.runtime import CardRuntime

_PAUSE_S = 0.01


def give_back(runtime: "CardRuntime") -> None:
    """Wait for the work, and free all that *runtime* has got from the driver. The cards are not reset."""
    is_lost = runtime.driver.standing.lost is not None
    try:
        if not _is_over(runtime) and not runtime.drop_work():
            _leave(runtime)
            return
    except DeviceError:
        is_lost = True  # by work that nothing has waited for; its error is in `Standing.lost`
    except BaseException:
        _leave(runtime)
        raise
    runtime.note_end()
    runtime.memory.close(is_lost=is_lost)
    for card in runtime.cards:
        card.give_back(is_lost=is_lost)


def _is_over(runtime: "CardRuntime") -> bool:
    """Wait until all work is done. Return False if nothing has ended for as long as the program wants to wait for
    something, or if it is interrupted.

    Raises:
        AclError: Work has failed.
    """
    return all(_waits_for(card, runtime.hang_after) for card in runtime.cards) and not _count_work(runtime)


def _waits_for(card: "CardDevice", patience_s: float | None) -> bool:
    """Wait until all work of *card* is done, in a thread: a call of the driver that waits cannot be interrupted."""
    interrupts, since_s, left = _interrupts(), monotonic(), card.count_work()
    if not left:
        return True
    thread = Thread(target=card.wait, name="end of a run on a card", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_PAUSE_S)
        if patience_s is not None and monotonic() - since_s > patience_s:
            before, left, since_s = left, card.count_work(), monotonic()
            if left == before:
                return False
        if _interrupts() > interrupts:
            return False
    return True


def _count_work(runtime: "CardRuntime") -> int:
    return sum(card.count_work() for card in runtime.cards)


def _interrupts() -> int:
    """Return how often the calling task was cancelled: the first Ctrl-C in asyncio.run() does nothing else."""
    task = None if running_loop() is None else current_task()
    return 0 if task is None else task.cancelling()


def _leave(runtime: "CardRuntime") -> None:
    """Note that the card is still at work, so that this run and later ones know it."""
    ops = ", ".join(map(repr, runtime.unfinished()[:3])) or "a wait of a stream"
    what = f"the card still has work of a run that is over: {ops}"
    standing, code = runtime.driver.standing, runtime.rules.codes[Kind.OP_EXECUTE_TIMEOUT].value
    standing.lost = standing.lost or CodedError(Kind.OP_EXECUTE_TIMEOUT, what, runtime.driver.new_process, code)
