"""Advice on the kernels that a program launches: what would make them faster, and how much."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from acl_py.compat.acl.face import session as sessions
from acl_py.compat.cuda.face.state import CARD, RULES
from device_model.observe import Observer
from device_model.ops import Op

if TYPE_CHECKING:
    from device_model.ptx.results import Result


class Advice(Observer):
    """The last launch of each kernel in PTX, since it began to watch; str() gives its advice."""

    def __init__(self) -> None:
        self._last: dict[str, Result] = {}

    def op_ended(self, op: Op) -> None:
        """Keep the result of a kernel."""
        from device_model.ptx.results import Result  # imported here: most programs ask for no advice

        result = getattr(op.work, "result", None)
        if isinstance(result, Result) and result.timeline is not None:
            self._last[op.work.label.name] = result

    def times_us(self) -> dict[str, float]:
        """Return what the last launch of each kernel took on its SMs, in microseconds."""
        return {name: result.timeline.duration_ns / 1000 for name, result in self._last.items() if result.timeline}

    def __str__(self) -> str:
        from device_model.ptx.advice import advise  # imported here, too

        return "\n".join(
            "\n".join([f"{name}, {self.times_us()[name]:.2f} us:", *map(str, advise(result))])
            for name, result in self._last.items()
        )


@contextmanager
def advising() -> Iterator[Advice]:
    """Watch the kernels that a block launches and waits for; it gets their `Advice`, to be printed behind the block.

    samples/cuda/coalescing.py shows it.
    """
    sessions.prefer(CARD, RULES)
    hooks, advice = sessions.session().runtime.hooks, Advice()
    hooks.add(advice)
    try:
        yield advice
    finally:
        hooks.remove(advice)
