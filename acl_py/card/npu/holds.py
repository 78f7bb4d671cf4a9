"""Holds: streams of an Ascend card that wait for what the host does, a callback of the program.

The stream waits for a notify of ours. When the host is done, another stream of ours sets it.
"""

from typing import TYPE_CHECKING, Any

from acl_py.card.driver import give_back
from device_model.completions import Completion, Then

if TYPE_CHECKING:
    from acl_py.card.npu.contexts import NpuContext
    from acl_py.card.npu.streams import NpuStream


class Holds:
    """The holds of one context."""

    def __init__(self, context: "NpuContext") -> None:
        self._context = context
        self._driver = context.driver
        self._setting: Any = None  # the stream that sets notifies
        self._notifies: list[Any] = []
        self._spare: list[Any] = []  # those that nothing waits for
        self._held: dict[NpuStream, dict[Any, None]] = {}  # those that a stream waits for

    def hold(self, stream: "NpuStream", until: Completion) -> None:
        """Let later work of *stream* wait until *until* is done."""
        notify = self._spare.pop() if self._spare else self._new()
        self._driver.limit_waits(0)
        passed = stream.take(lambda: self._driver.wait_for_notify(notify, stream.handle, 0))
        self._held.setdefault(stream, {})[notify] = None
        passed.add_waiter(Then(lambda _: self._note_passed(stream, notify)))
        until.add_waiter(Then(lambda _: self._release(stream, notify)))

    def forget(self, stream: "NpuStream") -> None:
        """Forget the holds of *stream*, whose work is dropped. Their notifies are not used again."""
        self._held.pop(stream, None)

    def _release(self, stream: "NpuStream", notify: Any) -> None:
        if notify in self._held.get(stream, ()):
            self._driver.record_notify(notify, self._setting)

    def _note_passed(self, stream: "NpuStream", notify: Any) -> None:
        if notify in self._held.get(stream, ()):
            del self._held[stream][notify]
            self._spare.append(notify)

    def _new(self) -> Any:
        if self._setting is None:
            self._setting = self._driver.create_stream(nonblocking=True, priority=0)
        notify = self._driver.create_notify()
        self._notifies.append(notify)
        return notify

    def close(self) -> None:
        """Give back the notifies and the stream."""
        for notify in self._notifies:
            give_back(self._driver.destroy_notify, notify)
        if self._setting is not None:
            give_back(self._driver.destroy_stream, self._setting)
