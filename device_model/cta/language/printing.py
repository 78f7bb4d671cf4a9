"""printf: what the threads of a kernel print. It takes no simulated time, so it does not change what it observes.

A breakpoint() in a kernel works, too, because a kernel is plain Python.
"""

from typing import Any

import numpy as np

from device_model.cta.block import Message, running
from device_model.cta.language.registers import check_known
from device_model.kernel.findings import KernelError
from device_model.kernel.printing import formatted
from device_model.kernel.sites import site


def printf(text: str, *args: Any) -> None:
    """Write a message of each active thread to the result of the launch (CUDA: printf); it takes no simulated time.

    Args:
        text: The message, in which `%d`, `%lld`, `%f`, `%s` and the like stand for *args*. It ends in a newline
            whether *text* has one or not.
        args: The values: registers, of which each thread prints its own, or plain values.

    Raises:
        KernelError: An array has no element for each thread.
        TypeError: *text* has other formats than there are *args*.
    """
    block = running()
    for arg in args:
        if isinstance(arg, np.ndarray) and arg.shape[:1] != (block.threads,):
            raise KernelError(
                f"printf() at {site()} of an array of shape {arg.shape}; the first axis of a register is the "
                f"{block.threads} threads"
            )
        check_known(arg, "printf()")
    rows = len(block.rows)
    for thread in block.active.tolist():
        own = tuple(np.asarray(arg)[thread].tolist() if isinstance(arg, np.ndarray) else arg for arg in args)
        block.messages.append(Message(block.number, thread, rows, formatted(text, own)))
