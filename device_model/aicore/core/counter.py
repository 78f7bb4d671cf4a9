"""Numbers that follow from the system counter: they are known when the launch has its times."""

from collections.abc import Callable
from math import inf
from typing import Any, NoReturn, Self

from device_model.aicore.core.program import Instruction
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site

TICKS_PER_US = 50


class SystemCycle:
    """What GetSystemCycle has read, or was computed from it with `+`, `-`, `*`, `/`, `//` and `%`."""

    __slots__ = ("_value",)

    def __init__(self, value: Callable[[], Any]) -> None:
        self._value = value

    @classmethod
    def read_by(cls, instruction: Instruction, mhz: int) -> Self:
        """Return the counter at the start of *instruction*, on a core of *mhz*."""

        def ticks() -> int:
            start = instruction.start
            if start == inf:
                raise KernelError(
                    f"the system counter, read at {instruction.site}, is looked at at {site()}",
                    "times are known after the kernel has run: print it with printf, or write it to GM with SetValue",
                )
            return int(start * TICKS_PER_US / mhz)

        return cls(ticks)

    def __repr__(self) -> str:
        return "<a number from the system counter>"

    def __int__(self) -> int:
        return int(self._value())

    def __float__(self) -> float:
        return float(self._value())

    def _with(self, other: Any, compute: Callable[[Any, Any], Any]) -> "SystemCycle":
        one, two = self._value, other._value if isinstance(other, SystemCycle) else lambda: other
        return SystemCycle(lambda: compute(one(), two()))

    def __add__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a / b)

    def __floordiv__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a // b)

    def __mod__(self, other: Any) -> "SystemCycle":
        return self._with(other, lambda a, b: a % b)

    def _looked_at(self, *_: Any) -> NoReturn:
        """Refuse a comparison: what a kernel does cannot follow from its times."""
        raise KernelError(
            f"a number from the system counter is compared at {site()}",
            "times are known after the kernel has run: print it with printf, or write it to GM with SetValue",
        )

    __bool__ = __index__ = __hash__ = _looked_at
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _looked_at
