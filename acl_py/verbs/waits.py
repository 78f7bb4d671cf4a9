"""How a host waits for work and asks about it: the limits of waits, and the answers of queries."""

from enum import Enum
from typing import NoReturn

from acl_py.errors import Kind
from acl_py.runtime.runtime import Limit, Runtime, Subjects
from acl_py.runtime.scopes import Scope
from acl_py.waiting.deadlocks import Poll
from device_model.completions import Completion
from device_model.integers import Integer, integer


class Status(Enum):
    """The answer of a query.

    It is neither true nor false: in C the answer "complete" is 0, and in PyTorch it is True.
    """

    COMPLETE = "complete"
    NOT_READY = "not ready"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is neither true nor false: ask whether the answer `is Status.COMPLETE`")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            raise TypeError(
                f"{self} is not a number to compare with {other!r}: ask whether the answer `is Status.COMPLETE`"
            )
        return super().__eq__(other)

    __hash__ = Enum.__hash__  # a class with an __eq__ of its own has none otherwise


async def answered(scope: Scope, known: Completion | None, poll: Poll, subjects: Subjects) -> None:
    """Follow up the answer of a query of *subjects*. *known* is the completion that it proved to be done, or None.

    None lets other tasks run, and raises DeadlockError if such answers can never change; *poll* describes the query.
    """
    runtime = scope.runtime
    if known is None:
        runtime.bridge.poll_failed(poll)
        await runtime.bridge.breathe()
        return
    runtime.bridge.poll_succeeded()
    await runtime.wait(known, None, None, subjects, sleeps=False)


def limit_of(runtime: Runtime, timeout: Integer, kind: Kind) -> Limit | None:
    """Return the limit of a wait of *timeout* milliseconds; None for -1, which is no limit."""
    timeout = integer("timeout", timeout, "a whole number of milliseconds")
    if timeout == 0 or timeout < -1:
        raise runtime.error(
            Kind.INVALID_VALUE, f"a time-out of {timeout} ms", "use -1 for no limit, or a number above 0"
        )
    return None if timeout == -1 else Limit(runtime.limit_ns("timeout", timeout, 10**6), kind)
