"""The driver of Ascend: functions of pyACL, the vendor's module `acl`, and what their codes mean."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from acl_py.card.driver import Standing
from acl_py.errors import AclError, DeadlockError, Kind
from acl_py.late_imports import import_late
from acl_py.runtime.routes import MemcpyKind
from acl_py.verbs.events import EventFlag
from device_model.completions import Nanoseconds
from device_model.ops import P2P
from device_model.rules import ACL
from device_model.signals import Compare
from device_model.work import D2D, D2H, H2D, H2H, BlindCopy, Copy, Fill, Label, PitchedCopy

if TYPE_CHECKING:
    from acl_py.card.streams import CardStream
    from device_model.ops import Op

NEW_PROCESS = "the card is as the failure has left it: start a new process"
_INSTALL = "the module acl, which comes with CANN: install that, and run its set_env.sh"
_KINDS = {code.value: kind for kind, code in reversed([*ACL.codes.items()])}
_REMEDIES: Mapping[Kind, str] = {
    Kind.OUT_OF_MEMORY: "free memory that is no longer used, or ask for less",
    Kind.INVALID_DEVICE: "`npu-smi info` lists the devices; ASCEND_RT_VISIBLE_DEVICES hides some",
}
_COMPLETE, _RECORDED, _WAITED = 0, 1, 0  # answers of stream_query, query_event_status and query_event_wait_status
_HUGE_FIRST = 0  # a policy of malloc
_MAPPED = 0  # a type of host_register
_HBM = 1  # a kind of memory
_BLOCK = 1  # of a callback: later work of the stream waits for its end
_WAYS = {
    H2H.kind: MemcpyKind.HOST_TO_HOST,
    H2D.kind: MemcpyKind.HOST_TO_DEVICE,
    D2H.kind: MemcpyKind.DEVICE_TO_HOST,
    D2D.kind: MemcpyKind.DEVICE_TO_DEVICE,
    P2P.kind: MemcpyKind.DEVICE_TO_DEVICE,
}


def binding() -> ModuleType:
    """Return the module `acl`.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return import_late("acl")
    except ImportError as error:
        raise ImportError(f"device='npu:N' needs {_INSTALL}") from error


class AclDriver:
    """The functions of pyACL; `rt` is the module that has most of them."""

    standing = Standing()
    new_process = NEW_PROCESS

    def __init__(self, fail: Callable[..., AclError]) -> None:
        self.acl = binding()
        self.rt = self.acl.rt
        self.fail = fail
        self._limit_s = 0  # of waits of streams

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call *function* and return what it gives beside its code: nothing, a value, or a tuple.

        Raises:
            AclError: It has answered with a code of failure.
        """
        answer = function(*args)
        if isinstance(answer, int):
            if answer:
                raise self.error(answer, function.__name__)
            return None
        if answer[-1]:
            raise self.error(answer[-1], function.__name__)
        return answer[0] if len(answer) == 2 else answer[:-1]

    def code_of(self, function: Callable[..., int], *args: Any) -> int:
        """Call *function* and return its code."""
        return function(*args)

    def error(self, code: int, call: str) -> AclError:
        """Return the error for *code*, which *call* has answered."""
        kind = _KINDS.get(code, Kind.UNKNOWN)
        text = self.acl.get_recent_err_msg() or "a code without a text"
        what = f"acl.rt.{call}() answers {code}: {text.splitlines()[0]}"
        return self.fail(kind, what, _REMEDIES.get(kind) or f"see acl.rt.{call} in the manual of pyACL", code=code)

    # --- what a run needs of every vendor

    def make_current(self, context: Any) -> None:
        """Let calls of this thread be about the card of *context*."""
        self(self.rt.set_context, context)

    def synchronize(self) -> None:
        """Wait for all work of the current card, without an error: for a thread of its own."""
        with suppress(DeadlockError):  # of the drop-in module; the run sees by itself that nothing ends
            self.code_of(self.rt.synchronize_device)

    def memory_info(self) -> tuple[int, int]:
        """Return the free bytes and all bytes of the current card."""
        free, total = self(self.rt.get_mem_info, _HBM)
        return free, total

    def create_stream(self, *, nonblocking: bool, priority: int) -> Any:  # noqa: ARG002 - all are
        """Return a new stream."""
        return self(self.rt.create_stream_with_config, priority, 0) if priority else self(self.rt.create_stream)

    def destroy_stream(self, stream: Any) -> None:
        """Wait for the work of a stream and destroy it."""
        self(self.rt.destroy_stream, stream)

    def is_idle(self, stream: Any) -> bool:
        """Return whether all work of *stream* is done."""
        return bool(self(self.rt.stream_query, stream) == _COMPLETE)

    def create_event(self, *, timing: bool) -> Any:
        """Return a new snapshot event of the current card."""
        flag = EventFlag.SYNC | EventFlag.TIME_LINE if timing else EventFlag.SYNC
        return self(self.rt.create_event_ex_with_flag, flag)

    def destroy_event(self, event: Any) -> None:
        """Destroy an event; a record that is pending counts."""
        self(self.rt.destroy_event, event)

    def record(self, event: Any, stream: Any) -> None:
        """Let *event* stand for all work of *stream* so far; set the flag of a flag event when the stream is there."""
        self(self.rt.record_event, event, stream)

    def is_reached(self, event: Any) -> bool:
        """Return whether the last record of *event* has taken place."""
        return bool(self(self.rt.query_event_status, event) == _RECORDED)

    def synchronize_event(self, event: Any) -> None:
        """Wait for the last record of *event*."""
        self(self.rt.synchronize_event, event)

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds between two events that are reached."""
        return float(self(self.rt.event_elapsed_time, start, end))

    def wait(self, stream: Any, event: Any) -> None:
        """Let later work of *stream* wait for what *event* stands for."""
        self(self.rt.stream_wait_event, stream, event)

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory on the current card."""
        return int(self(self.rt.malloc, nbytes, _HUGE_FIRST))

    def free(self, address: int) -> None:
        """Free memory of a card."""
        self(self.rt.free, address)

    def allocate_host(self, nbytes: int) -> tuple[int, Callable[[], None]]:
        """Return the address of new pinned memory, and what frees it: in any thread, also after the run."""
        address, context = int(self(self.rt.malloc_host, nbytes)), self(self.rt.get_context)
        return address, partial(_free_host, self.rt, context, address)

    def register_host(self, address: int, nbytes: int) -> None:
        """Pin memory of the host."""
        self(self.rt.host_register, address, nbytes, _MAPPED)

    def unregister_host(self, address: int) -> None:
        """Unpin it."""
        self(self.rt.host_unregister, address)

    def copy_bytes(self, dst: int, src: int, nbytes: int, way: Label, stream: Any) -> None:
        """Queue a copy between two addresses; *way* is the label of such copies."""
        self(self.rt.memcpy_async, dst, nbytes, src, nbytes, _WAYS[way.kind], stream)

    def copy(self, stream: "CardStream", op: "Op") -> None:
        """Queue a copy."""
        work: Any = op.work
        dst, src = work.dst.address + work.dst_offset, work.src.address + work.src_offset
        way = D2D if isinstance(work, BlindCopy) else work.label  # the program has said so, and the device finds out
        self.copy_bytes(dst, src, work.nbytes, way, stream.handle)

    def copy_rows(self, stream: "CardStream", op: "Op") -> None:
        """Queue a copy of rows."""
        rows: Any = op.work
        self(self.rt.memcpy2d_async, *_rows(rows), stream.handle)

    def fill(self, stream: "CardStream", op: "Op") -> None:
        """Queue a fill with bytes."""
        work: Any = op.work
        address = work.dst.address + work.offset
        self(self.rt.memset_async, address, work.nbytes, work.value, work.nbytes, stream.handle)

    def write_word(self, stream: Any, address: int, value: int) -> None:
        """Queue a write of eight bytes."""
        self(self.rt.value_write, address, value, 0, stream)

    def wait_for_word(self, stream: Any, address: int, value: int, how: Compare) -> None:
        """Let later work of *stream* wait until the eight bytes at *address* compare with *value* as *how* says."""
        self(self.rt.value_wait, address, value, int(how), stream)

    # --- what ACL has besides

    def at_once(self, work: Copy | Fill) -> None:
        """Copy or fill outside all streams, and wait for the end."""
        if isinstance(work, Fill):
            address = work.dst.address + work.offset
            self(self.rt.memset, address, work.nbytes, work.value, work.nbytes)
        elif isinstance(work, PitchedCopy):
            self(self.rt.memcpy2d, *_rows(work))
        else:
            dst, src = work.dst.address + work.dst_offset, work.src.address + work.src_offset
            self(self.rt.memcpy, dst, work.nbytes, src, work.nbytes, _WAYS[work.label.kind])

    def destroy_context(self, context: Any) -> None:
        """Destroy a context that create_context() made; all its work is done."""
        self(self.rt.destroy_context, context)

    def failure_of(self, stream: Any) -> AclError | None:
        """Return the failure of work of *stream*, which is idle, since the last such question, or None."""
        code = self.code_of(self.rt.synchronize_stream, stream)
        return self.error(code, self.rt.synchronize_stream.__name__) if code else None

    def stop_on_failure(self, stream: Any) -> None:
        """Let a failure of work of *stream* stop its whole context."""
        self(self.rt.set_stream_failure_mode, stream, 1)

    def abort(self, stream: Any) -> None:
        """Drop the work of *stream*."""
        self(self.rt.stream_abort, stream)

    def create_recorded_event(self) -> Any:
        """Return a new event that must be recorded before a stream waits for it."""
        return self(self.rt.create_event)

    def create_flag_event(self, flag: int) -> Any:
        """Return a new event that is a level."""
        return self(self.rt.create_event_with_flag, flag)

    def reset_event(self, event: Any, stream: Any) -> None:
        """Clear the flag of *event* when *stream* is there."""
        self(self.rt.reset_event, event, stream)

    def is_waited_for(self, event: Any) -> bool:
        """Return whether a stream still waits for *event*."""
        return bool(self(self.rt.query_event_wait_status, event) != _WAITED)

    def timestamp_ns(self, event: Any) -> Nanoseconds:
        """Return when the last record of *event* took place, by the card's clock, in steps of a microsecond."""
        return int(self(self.rt.event_get_timestamp, event)) * 1000

    def limit_waits(self, limit_ns: Nanoseconds) -> None:
        """Limit how long a stream may wait for what it is told to wait for from now on; 0 is no limit."""
        seconds = limit_ns // 10**9
        if seconds != self._limit_s:
            self(self.rt.set_op_wait_timeout, seconds)
            self._limit_s = seconds

    def create_notify(self) -> Any:
        """Return a new notify."""
        return self(self.rt.create_notify)

    def destroy_notify(self, notify: Any) -> None:
        """Destroy a notify."""
        self(self.rt.destroy_notify, notify)

    def record_notify(self, notify: Any, stream: Any) -> None:
        """Set *notify* when *stream* is there."""
        self(self.rt.record_notify, notify, stream)

    def wait_for_notify(self, notify: Any, stream: Any, limit_ns: Nanoseconds) -> None:
        """Let later work of *stream* wait for *notify*, and clear it then; 0 is no limit."""
        self(self.rt.wait_and_reset_notify, notify, stream, limit_ns // 10**9)

    def reset_notify(self, notify: Any) -> None:
        """Clear *notify* at once."""
        self(self.rt.notify_batch_reset, [notify])

    def subscribe(self, thread: int, stream: Any) -> None:
        """Let the *thread* of this number run the callbacks of *stream*."""
        self(self.rt.subscribe_report, thread, stream)

    def unsubscribe(self, thread: int, stream: Any) -> None:
        """Let it run them no longer."""
        self(self.rt.unsubscribe_report, thread, stream)

    def call_back(self, function: Callable[[Any], object], stream: Any) -> None:
        """Queue a call of *function* in the thread that has subscribed; later work of *stream* waits for its end."""
        self(self.rt.launch_callback, function, None, _BLOCK, stream)


def _rows(work: PitchedCopy) -> tuple[int, ...]:
    dst, src = work.dst.address + work.dst_offset, work.src.address + work.src_offset
    return dst, work.dst_pitch, src, work.src_pitch, work.width, work.height, _WAYS[work.label.kind]


def _free_host(rt: ModuleType, context: Any, address: int) -> None:
    """Free pinned memory, in whichever thread; not if the card is lost, or the drop-in module was taken out again."""
    if AclDriver.standing.lost is not None or sys.modules.get("acl.rt") is not rt:
        return
    before, is_without = rt.get_context()
    rt.set_context(context)
    rt.free_host(address)
    if not is_without:
        rt.set_context(before)
