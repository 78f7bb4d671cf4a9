"""Registers of a core that a kernel reads or sets: the system counter, the control register, and facts of the card.

The counter counts ticks of 50 MHz on Atlas A2 and A3. Times are worked out after a kernel has run, so what it reads is
a `SystemCycle`, a number that is known only then. Here the counter begins at 0 with the launch.
"""

from operator import index as integer
from typing import Final

from device_model.aicore.core.counter import SystemCycle
from device_model.aicore.core.machine import running
from device_model.aicore.core.names import BLOCK, CoreType, Pipe
from device_model.aicore.core.program import Kind
from device_model.kernel.findings import KernelError

SATURATION: Final = 48  # the only bit of the control register that Atlas A2 and A3 document
PRELOAD_BYTES = 2048  # the unit of ICachePreLoad
ICACHE_BYTES = {CoreType.AIC: 32_768, CoreType.AIV: 16_384}


def GetSystemCycle() -> SystemCycle:
    """Return the system counter, in ticks of 20 ns from the start of the launch (Ascend C: GetSystemCycle).

    The scalar pipe reads it, so put PipeBarrier(PIPE_ALL) in front to include the work of other pipes. The result can
    be computed with, printed with printf, and written to GM with SetValue.
    """
    core = running()
    read = core.note(Pipe.S, Kind.WORK, "GetSystemCycle")
    core.scalar += round(core.spec.system_cycle_ns * core.spec.mhz / 1000)
    return SystemCycle.read_by(read, core.spec.mhz)


def GetDataBlockSizeInBytes() -> int:
    """Return the bytes of a DataBlock, 32 (Ascend C: GetDataBlockSizeInBytes)."""
    return BLOCK


def ICachePreLoad(pre_fetch_len: int) -> None:
    """Ask for instructions to be loaded ahead (Ascend C: ICachePreLoad).

    It changes no time here, because fetches of instructions are not modelled.

    Args:
        pre_fetch_len: How much, in units of 2 KiB: less than the instruction cache, of 32 KiB on a cube core and 16 KiB
            on a vector core.

    Raises:
        KernelError: *pre_fetch_len* is below 1 or too large.
    """
    core = running()
    most = ICACHE_BYTES[core.core_type] // PRELOAD_BYTES - 1
    if not 0 < integer(pre_fetch_len) <= most:
        raise KernelError(
            f"ICachePreLoad({pre_fetch_len})", f"pre_fetch_len is 1 to {most} on {core.core_type}: units of 2 KiB"
        )


def SetNextTaskStart() -> None:
    """Allow the next task to start (Ascend C: SetNextTaskStart).

    It works only between the kernels of a SuperKernel; in a launch by itself, as here, it does nothing.
    """


def WaitPreTaskEnd() -> None:
    """Wait for the end of the task before (Ascend C: WaitPreTaskEnd).

    It works only between the kernels of a SuperKernel; in a launch by itself, as here, it does nothing.
    """


def SetCtrlSpr(start_bit: int, end_bit: int, value: int) -> None:
    """Set bits of the control register (Ascend C: SetCtrlSpr), of which Atlas A2 and A3 have bit 48.

    With 0 there, results of half and bfloat16 saturate: infinity becomes the largest number, and NaN becomes 0. With 1,
    which is how a kernel begins, they stay. It holds for vector instructions that work element by element.

    Args:
        start_bit: The first bit, 48.
        end_bit: The last bit, 48.
        value: 0 or 1.

    Raises:
        KernelError: It is another bit, or a value that does not fit.
    """
    _check_bits("SetCtrlSpr", start_bit, end_bit)
    if value not in (0, 1):
        raise KernelError(f"SetCtrlSpr of {value!r}", "bit 48 is 0 or 1")
    running().saturates = not value


def GetCtrlSpr(start_bit: int, end_bit: int) -> int:
    """Return bits of the control register (Ascend C: GetCtrlSpr); see SetCtrlSpr.

    Args:
        start_bit: The first bit, 48.
        end_bit: The last bit, 48.

    Raises:
        KernelError: It is another bit.
    """
    _check_bits("GetCtrlSpr", start_bit, end_bit)
    return int(not running().saturates)


def SetSaturationFlag(*, is_saturated: bool) -> None:
    """Let results of half and bfloat16 saturate, or not (Ascend C: SetSaturationFlag); bit 48 of SetCtrlSpr.

    Args:
        is_saturated: Whether they do.
    """
    running().saturates = bool(is_saturated)


def GetSaturationFlag() -> bool:
    """Return whether results of half and bfloat16 saturate (Ascend C: GetSaturationFlag); see SetCtrlSpr."""
    return running().saturates


def _check_bits(name: str, start_bit: int, end_bit: int) -> None:
    if (start_bit, end_bit) != (SATURATION, SATURATION):
        raise KernelError(
            f"{name} of bits {start_bit} to {end_bit}",
            f"Atlas A2 and A3 have bit {SATURATION}, of saturation; the others are those of Ascend 950",
        )
