"""What a runtime, and each of several hosts, remembers of launches and other calls."""

from typing import TYPE_CHECKING

from acl_py.runtime.host import Host
from device_model.completions import Nanoseconds
from device_model.work import Kernel

if TYPE_CHECKING:
    from acl_py.verbs.card_code import CardWork


class Launches:
    """What a runtime remembers of launches: work that is *prepared* for launches with the same arguments, and how long
    a kernel may run (*limit_ns*; 0 is no limit).
    """

    __slots__ = ("limit_ns", "prepared")

    def __init__(self) -> None:
        self.prepared: dict[tuple[object, ...], Kernel | CardWork] = {}
        self.limit_ns: Nanoseconds = 0

    def limit(self, limit_ns: Nanoseconds) -> None:
        """Let kernels that are launched from now on run for *limit_ns* at most; 0 takes the limit away."""
        self.limit_ns = limit_ns
        self.prepared.clear()  # prepared under the old limit


class HostMemory:
    """What a host remembers: which of its calls take longer next time, and whether it has launched a kernel."""

    __slots__ = ("_cold", "_launched", "_runtime")

    def __init__(self, runtime: Host) -> None:
        self._runtime = runtime
        self._cold: dict[str, None] = {}
        self._launched = False

    def swap(self) -> None:
        """Change it for what the runtime has now."""
        runtime = self._runtime
        self._cold, runtime.cold = runtime.cold, self._cold
        self._launched, runtime.has_launched = runtime.has_launched, self._launched

    def follow(self, before: "HostMemory") -> None:
        """Do both at once: change *before* back for what the runtime had, and that for this."""
        runtime = self._runtime
        before._cold, self._cold, runtime.cold = runtime.cold, before._cold, self._cold
        before._launched, self._launched, runtime.has_launched = runtime.has_launched, before._launched, self._launched
