"""Core kernels: work whose time is known only from running it; what one answers when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from device_model.completions import Nanoseconds
from device_model.errors import DeviceError, Kind
from device_model.work import FIX_KERNEL, Extent, Work

if TYPE_CHECKING:
    from device_model.kernel.results import Result


class Occupation(NamedTuple):
    """How long a core kernel takes, and when it gives back its AI cores: (nanoseconds after its start, cores) each."""

    duration_ns: Nanoseconds
    released: Sequence[tuple[Nanoseconds, int]]


class Pause(NamedTuple):
    """A core kernel waits: until *until_ns* after its start, if that is not None, or until others change what it looks
    at. Meanwhile it takes *cores* AI cores. *has_shown* is whether its writes so far are visible to others.
    """

    until_ns: Nanoseconds | None
    cores: int
    has_shown: bool = False


class CoreKernel(Work):
    """A kernel whose time is known only from running it; kernel/launch.py makes them.

    It runs at its simulated start, on private copies of what it may write. At its end `perform` publishes what it
    wrote, or raises what stopped it. It takes all its AI *cores* at once. One object serves one operation only.

    One that waits for others returns a `Pause`, and goes on when that is over.
    """

    __slots__ = ()

    granule: ClassVar[int] = 1  # its instructions read memory in blocks of so many bytes
    blocks: int
    cores: int
    failure_kind: Kind = Kind.LAUNCH_FAILURE
    timeout_kind: Kind = Kind.OP_EXECUTE_TIMEOUT
    result: "Result | None"  # what its cores did; None until it has run
    released: Sequence[tuple[Nanoseconds, int]] = ()  # as `Occupation` says, once it has run
    may_wait: bool = False  # whether it can look at memory until others change it
    has_waited: bool = False  # whether it has

    def out_of_time(self, duration_ns: Nanoseconds) -> DeviceError:
        """Return the failure of the kernel, which would have taken *duration_ns*, longer than is allowed."""
        return DeviceError(
            self.timeout_kind,
            f"kernel {self.label} would have run {duration_ns / 1e9:g} s, longer than SetOpExecuteTimeOut() allows",
            "split its work, or set a longer limit",
        )

    def again(self) -> "CoreKernel":
        """Return the work of one more operation that does the same; this object, if operations may share it."""
        return self

    def failure(self, error: BaseException) -> DeviceError:
        """Return the failure of the kernel; one of its blocks raised *error*."""
        return self._raised_in(self.failure_kind, error, FIX_KERNEL)

    @property
    def _what(self) -> str:
        return f"kernel {self.label}"

    def contents_read(self) -> Sequence[Extent]:
        """Return the bytes that its instructions have read before they wrote them, once it has run.

        If that is not known, it is what the arguments declare as read.
        """
        return self.reads()

    def bytes_written(self) -> Sequence[Extent]:
        """Return the bytes that it has written, and all bytes of arguments that it declares as overwritten."""
        return self.writes()

    def foreseen_ns(self) -> Nanoseconds | None:
        """Return how long it takes, if it need not run for that: it then has all its cores to its end."""
        return None

    def run(self, start_ns: Nanoseconds) -> Occupation | Pause:
        """Run all blocks, which start now, at *start_ns*. If one fails, `perform` raises the failure later."""
        raise NotImplementedError  # pragma: no cover - core kernels are made in one place

    def go_on(self, after_ns: Nanoseconds) -> Occupation | Pause:
        """Go on *after_ns* after the start, behind a `Pause`."""
        raise NotImplementedError  # pragma: no cover - few core kernels wait

    def is_over(self) -> bool:
        """Return whether others have changed what it looks at in a `Pause`."""
        raise NotImplementedError  # pragma: no cover - few core kernels wait

    def give_up(self, after_ns: Nanoseconds) -> Occupation:
        """End *after_ns* after the start, in a `Pause` that nothing can end: `perform` raises the failure."""
        raise NotImplementedError  # pragma: no cover - few core kernels wait

    def leave(self, why: str) -> None:
        """Let kernels that wait for this one know that it never runs, or goes on no more, and *why*."""
