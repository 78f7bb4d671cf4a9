"""Looking into a kernel: printf, DumpTensor, assert_.

A breakpoint() in a kernel works as everywhere. They cost no simulated time, so that looking changes nothing. At which
cycle a message was made is known when the launch has been timed, so it is filled in when the message is read.
"""

import re
from typing import Any

from device_model.aicore.findings import KernelAssertionError
from device_model.aicore.machine import running
from device_model.aicore.names import Pipe
from device_model.aicore.program import Instruction, Kind, Program
from device_model.aicore.tensors import GlobalTensor, LocalTensor


class Message:
    """What a kernel said: *text*, by which *program* and at which *instruction*."""

    __slots__ = ("instruction", "program", "text")

    def __init__(self, program: Program, instruction: Instruction, text: str) -> None:
        self.program = program
        self.instruction = instruction
        self.text = text

    @property
    def cycle(self) -> float | None:
        """When the scalar pipe came to it; None if the launch was not timed."""
        return getattr(self.instruction, "start", None)

    def __str__(self) -> str:
        cycle = self.cycle
        when = "" if cycle is None else f", cycle {cycle:.0f}"
        return f"[{self.program}{when}] {self.text}"

    def __repr__(self) -> str:
        return f"<Message {self}>"


def printf(text: str, *args: Any) -> None:
    """Say *text*, in which `%d`, `%lld`, `%f`, `%s` ... stand for *args*; each message has a newline at its end."""
    _say("printf", _formatted(text, args))


def DumpTensor(tensor: LocalTensor | GlobalTensor, desc: int, size: int) -> None:
    """Say what the first *size* elements of *tensor* are, in the order of the program; *desc* tells dumps apart."""
    _say("DumpTensor", f"DumpTensor desc={desc} {tensor!r}: {tensor.view[:size].tolist()}")


def assert_(condition: object, text: str = "", *args: Any) -> None:
    """Stop the kernel with a KernelAssertionError unless *condition* holds."""
    if condition:
        return
    message = _say("assert_", _formatted(text, args))
    raise KernelAssertionError(message)


_LENGTHS = re.compile(r"(%[-+ #0]*[\d*]*(?:\.[\d*]*)?)(?:hh|ll|[zjt])(?=[a-zA-Z])")  # of C, beyond those Python knows


def _formatted(text: str, args: tuple[Any, ...]) -> str:
    return _LENGTHS.sub(r"\1", text) % args if args else text


def _say(name: str, text: str) -> Message:
    core = running()
    message = Message(core.program, core.note(Pipe.S, Kind.WORK, name), text.removesuffix("\n"))
    core.messages.append(message)
    return message
