"""What a runtime remembers of launches."""

from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.work import Kernel

if TYPE_CHECKING:
    from acl_py.verbs.card_code import CardWork


class Launches:
    """What a runtime remembers of launches: work that is *prepared* for launches with the same arguments, whether the
    first launch, which costs more, has *begun*, and how long a kernel may run (*limit_ns*; 0 is no limit).
    """

    __slots__ = ("begun", "limit_ns", "prepared")

    def __init__(self) -> None:
        self.prepared: dict[tuple[object, ...], Kernel | CardWork] = {}
        self.begun = False
        self.limit_ns: Nanoseconds = 0

    def limit(self, limit_ns: Nanoseconds) -> None:
        """Let kernels that are launched from now on run for *limit_ns* at most; 0 takes the limit away."""
        self.limit_ns = limit_ns
        self.prepared.clear()  # prepared under the old limit
