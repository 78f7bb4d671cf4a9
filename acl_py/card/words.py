"""Words of device memory that streams of a card write and wait for."""

from typing import TYPE_CHECKING

from acl_py.card.streams import CardStream
from device_model.completions import Completion, Nanoseconds
from device_model.memory import Allocation
from device_model.signals import Compare, Words

if TYPE_CHECKING:
    from acl_py.card.driver import Driver
    from device_model.streams import Stream


class CardWords(Words):
    """The words of one card."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver

    def write(self, stream: "Stream", site: object, allocation: Allocation, offset: int, value: int) -> Completion:  # noqa: ARG002
        """Queue a write of *value* in *stream*, and return its completion."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        address = allocation.address + offset
        return stream.take(lambda: self._driver.write_word(stream.handle, address, value))

    def wait(
        self, stream: "Stream", site: object, allocation: Allocation, offset: int, value: int, how: Compare,  # noqa: ARG002
        limit_ns: Nanoseconds,  # noqa: ARG002 - only ACL has limits
    ) -> Completion:  # fmt: skip
        """Queue a wait in *stream* until the word compares with *value* as *how* says; return its completion."""
        assert isinstance(stream, CardStream), f"{stream!r} is not of a card"
        address = allocation.address + offset
        return stream.take(lambda: self._driver.wait_for_word(stream.handle, address, value, how))
