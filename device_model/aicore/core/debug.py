"""Debugging a kernel: printf, DumpTensor and assert_.

They cost no simulated time, so they do not change what they observe. A breakpoint() in a kernel works too, because a
kernel is plain Python. Instructions get their times after the kernel has run, so the cycle of a message is looked up
when the message is read.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from device_model.aicore.core.counter import SystemCycle
from device_model.aicore.core.findings import KernelAssertionError
from device_model.aicore.core.machine import running
from device_model.aicore.core.names import Pipe
from device_model.aicore.core.packed import int4b_t, unpack
from device_model.aicore.core.program import Kind, Message
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.kernel.findings import KernelError
from device_model.kernel.printing import formatted


def printf(text: str, *args: Any) -> None:
    """Write a message to the result of the launch (Ascend C: printf); no pipe waits, and it takes no simulated time.

    Args:
        text: The message, in which `%d`, `%lld`, `%f`, `%s` and the like stand for *args*. It ends in a newline
            whether *text* has one or not.
        args: The values.
    """
    if any(isinstance(each, SystemCycle) for each in args):
        _say("printf", lambda: formatted(text, args))
        return
    said = formatted(text, args)
    _say("printf", lambda: said)


def DumpTensor(tensor: LocalTensor | GlobalTensor, desc: int, size: int) -> None:
    """Write elements of a tensor to the result of the launch (Ascend C: DumpTensor).

    No pipe waits, and it takes no simulated time: the values are those that the order of the program gives.

    Args:
        tensor: The tensor, local or in GM.
        desc: A number that tells dumps apart in the output.
        size: How many elements, from the first one on.
    """
    running().check_values(f"DumpTensor of {tensor!r}")
    view = unpack(tensor.view) if tensor.dtype is int4b_t else tensor.view
    said = f"DumpTensor desc={desc} {tensor!r}: {view[:size].tolist()}"
    _say("DumpTensor", lambda: said)


def assert_(condition: object, text: str = "", *args: Any) -> None:
    """End the kernel unless a condition is true (Ascend C: assert); no pipe waits.

    Args:
        condition: Any value; the kernel ends if it is false.
        text: The message, with `%d` and the like for *args*.
        args: The values.

    Raises:
        KernelAssertionError: *condition* is false. It names the line, the core and the cycle.
    """
    if condition:
        return
    said = formatted(text, args)
    message = _say("assert_", lambda: said)
    raise KernelAssertionError(message)


def Trap() -> NoReturn:
    """End the kernel (Ascend C: Trap), as a card ends it: the launch fails.

    Raises:
        KernelError: Always. Its traceback has the line.
    """
    _say("Trap", lambda: "Trap()")
    raise KernelError(f"Trap() on {running().program}", "the kernel calls it where it cannot go on")


def _say(name: str, make_text: Callable[[], str]) -> Message:
    core = running()
    message = Message(core.program, core.note(Pipe.S, Kind.WORK, name), make_text)
    core.messages.append(message)
    return message
