"""Words of memory of an Ascend card, for which streams wait no longer than they may."""

from typing import TYPE_CHECKING

from acl_py.card.words import CardWords
from device_model.completions import Completion, Nanoseconds
from device_model.memory import Allocation
from device_model.signals import Compare

if TYPE_CHECKING:
    from acl_py.card.npu.driver import AclDriver
    from device_model.streams import Stream


class NpuWords(CardWords):
    """The words of one card."""

    _driver: "AclDriver"

    def wait(
        self, stream: "Stream", site: object, allocation: Allocation, offset: int, value: int, how: Compare,
        limit_ns: Nanoseconds,
    ) -> Completion:  # fmt: skip
        """Queue a wait in *stream* until the word compares with *value* as *how* says, for at most *limit_ns*."""
        self._driver.limit_waits(limit_ns)
        return super().wait(stream, site, allocation, offset, value, how, limit_ns)
