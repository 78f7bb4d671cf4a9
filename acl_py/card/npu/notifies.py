"""Notifies of an Ascend card: binary semaphores that streams set and wait for."""

from typing import TYPE_CHECKING

from acl_py.card.npu.streams import NpuStream
from device_model.completions import Completion, Nanoseconds
from device_model.signals import Notify

if TYPE_CHECKING:
    from acl_py.card.npu.contexts import NpuDevice
    from device_model.streams import Stream


class NpuNotify(Notify):
    """A notify of the card."""

    __slots__ = ("handle",)
    device: "NpuDevice"

    def __init__(self, device: "NpuDevice", id_: int, made: object, name: str | None = None) -> None:
        self.handle = device.driver.create_notify()
        super().__init__(device, id_, made, name)

    def record(self, stream: "Stream", site: object) -> Completion:  # noqa: ARG002 - the card needs no line
        """Queue the setting of the notify in *stream*, and return its completion."""
        assert isinstance(stream, NpuStream), f"{stream!r} is not of a card"
        return stream.take(lambda: self.device.driver.record_notify(self.handle, stream.handle), may_last=False)

    def wait(self, stream: "Stream", site: object, limit_ns: Nanoseconds) -> Completion:  # noqa: ARG002
        """Queue a wait in *stream* until the notify is set, which clears it, for at most *limit_ns*."""
        assert isinstance(stream, NpuStream), f"{stream!r} is not of a card"
        return stream.take(lambda: self.device.driver.wait_for_notify(self.handle, stream.handle, limit_ns))

    def reset(self) -> None:
        """Clear the notify at once."""
        self.device.driver.reset_notify(self.handle)

    def destroy(self, site: object) -> None:
        """Destroy the notify; streams that wait for it keep waiting."""
        super().destroy(site)
        del self.device.notifies[self]
        self.device.driver.destroy_notify(self.handle)
