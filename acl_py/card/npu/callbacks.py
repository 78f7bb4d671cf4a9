"""Python functions in streams of an Ascend card: pyACL calls them in a thread that processes the stream's reports.

pyACL has no host functions. It has callbacks, which run in the thread that has subscribed to their stream. So a stream
gets a thread with its first function. The functions of all streams still run one at a time, as those of a thread of the
runtime would.
"""

from collections.abc import Callable
from threading import Lock, Thread
from time import sleep
from typing import TYPE_CHECKING, Any

from acl_py.card.driver import give_back
from acl_py.card.host_functions import HostFunctions
from acl_py.errors import Kind
from acl_py.log import note
from device_model.rules import ACL

if TYPE_CHECKING:
    from acl_py.card.npu.contexts import NpuDevice
    from acl_py.card.npu.driver import AclDriver
    from acl_py.card.streams import CardStream
    from device_model.ops import Op

_WAIT_MS = 100  # for a report; then the thread looks whether it is over
_PATIENCE_MS = 1000  # for the end of a thread
_NAP_S = 0.0005
_GOING_ON = 0, ACL.codes[Kind.REPORT_TIMEOUT].value
_NOT_YET = ACL.codes[Kind.NOT_A_SUBSCRIBER].value


class Callbacks(HostFunctions):
    """Queues Python functions in streams of one *context*, by its handle."""

    def __init__(self, device: "NpuDevice", context: Any) -> None:
        super().__init__(device)
        self._driver = device.driver
        self._context = context
        self._reporters: dict[CardStream, _Reporter] = {}
        self._turn = Lock()

    def call(self, stream: "CardStream", function: Callable[[], None]) -> None:
        """Queue a call of *function*, in the thread of *stream*."""
        reporter = self._reporters.get(stream)
        if reporter is None:
            reporter = self._reporters[stream] = _Reporter(self._driver, self._context, stream.handle)
        self._driver.call_back(lambda _: function(), stream.handle)

    def _perform(self, op: "Op") -> None:
        with self._turn:
            super()._perform(op)

    def leave(self, stream: "CardStream") -> None:
        """End the thread of *stream*, which is idle and about to be destroyed."""
        reporter = self._reporters.pop(stream, None)
        if reporter is not None:
            reporter.close()

    def close(self) -> None:
        """End all threads."""
        for stream in [*self._reporters]:
            self.leave(stream)


class _Reporter:
    """A thread that runs the callbacks of one stream, by its *handle*, in its *context*."""

    def __init__(self, driver: "AclDriver", context: Any, handle: Any) -> None:
        self._driver = driver
        self._handle = handle
        self._is_over = False
        self._has_subscribed = False
        self._thread = Thread(target=self._run, args=(context,), name=f"callbacks of stream {handle}", daemon=True)
        self._thread.start()
        assert self._thread.ident is not None, "a thread that has started has a number"
        driver.subscribe(self._thread.ident, handle)
        self._has_subscribed = True

    def _run(self, context: Any) -> None:
        rt, code_of = self._driver.rt, self._driver.code_of
        code_of(rt.set_context, context)
        while not self._is_over:
            code = code_of(rt.process_report, _WAIT_MS)
            if code == _NOT_YET and not self._has_subscribed:  # the call that does it may wait for this thread
                sleep(_NAP_S)
            elif code not in _GOING_ON and not self._is_over:
                note("warning", "callbacks end", because=f"acl.rt.process_report() answers {code}")
                return

    def _end(self, _: object) -> None:
        self._is_over = True

    def close(self) -> None:
        """End the thread, by a last callback; a function that does not end keeps it."""
        give_back(self._driver.call_back, self._end, self._handle)
        self._driver.code_of(self._driver.rt.synchronize_stream_with_timeout, self._handle, _PATIENCE_MS)
        self._thread.join(_PATIENCE_MS / 1000)
        self._is_over = True
        give_back(self._driver.unsubscribe, self._thread.ident, self._handle)
