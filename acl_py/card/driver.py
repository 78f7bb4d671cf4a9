"""What a run on a card needs of a vendor's driver: the same few calls, whatever the vendor calls them.

`cuda.driver` makes them with cuda.bindings, and `npu.driver` with pyACL, the module `acl`. Handles of streams, events
and contexts are the vendor's, and nothing here looks into them. Each call raises AclError if the driver refuses it, or
if work has failed before it.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from acl_py.errors import AclError, DeviceError, Kind
from acl_py.runtime.runtime import Runtime
from device_model.errors import CodedError
from device_model.ops import Op
from device_model.signals import Compare
from device_model.work import Label

if TYPE_CHECKING:
    from acl_py.card.streams import CardStream

_FORKED = "this is a child of fork, and a card belongs to its parent: begin processes with spawn"


class Standing:
    """How this process stands with the driver of one vendor."""

    def __init__(self) -> None:
        self.has_begun = False
        self.lost: DeviceError | None = None  # what has lost the process its card
        self.runs: WeakSet[Runtime] = WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._end)

    def _end(self) -> None:
        """Let every verb refuse in a child of fork if its parent has begun with the driver: it does not work there."""
        if self.has_begun:
            self.lost = CodedError(Kind.NOT_INITIALIZED, _FORKED, "", None)
            for runtime in list(self.runs):
                runtime.shut(_FORKED)


class Driver(Protocol):
    """The driver of one vendor."""

    standing: Standing
    fail: Callable[..., AclError]
    new_process: str  # what to do when the card is lost

    # --- the card that calls of this thread are about

    def make_current(self, context: Any) -> None:
        """Let calls of this thread be about the card of *context*."""

    def synchronize(self) -> None:
        """Wait for all work of the current card, without an error: for a thread of its own."""

    def memory_info(self) -> tuple[int, int]:
        """Return the free bytes and all bytes of the current card."""

    # --- streams

    def create_stream(self, *, nonblocking: bool, priority: int) -> Any:
        """Return a new stream; a *nonblocking* one is outside the default-stream rule."""

    def destroy_stream(self, stream: Any) -> None:
        """Destroy a stream; its work completes."""

    def is_idle(self, stream: Any) -> bool:
        """Return whether all work of *stream* is done."""

    # --- events

    def create_event(self, *, timing: bool) -> Any:
        """Return a new event of the current card, of which a stream may record one stand after the other."""

    def destroy_event(self, event: Any) -> None:
        """Destroy an event; a record that is pending counts."""

    def record(self, event: Any, stream: Any) -> None:
        """Let *event* stand for all work of *stream* so far."""

    def is_reached(self, event: Any) -> bool:
        """Return whether the work that *event* stands for is done."""

    def synchronize_event(self, event: Any) -> None:
        """Wait for the work that *event* stands for."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds between two events that are reached."""

    def wait(self, stream: Any, event: Any) -> None:
        """Let later work of *stream* wait for what *event* stands for."""

    # --- memory

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory on the current card."""

    def free(self, address: int) -> None:
        """Free memory of a card."""

    def allocate_host(self, nbytes: int) -> tuple[int, Callable[[], None]]:
        """Return the address of new pinned memory, and what frees it: in any thread, also after the run."""

    def register_host(self, address: int, nbytes: int) -> None:
        """Pin memory of the host."""

    def unregister_host(self, address: int) -> None:
        """Unpin it."""

    # --- work of streams

    def copy_bytes(self, dst: int, src: int, nbytes: int, way: Label, stream: Any) -> None:
        """Queue a copy between two addresses; *way* is the label of such copies."""

    def copy(self, stream: "CardStream", op: Op) -> None:
        """Queue a copy."""

    def copy_rows(self, stream: "CardStream", op: Op) -> None:
        """Queue a copy of rows."""

    def fill(self, stream: "CardStream", op: Op) -> None:
        """Queue a fill."""

    def write_word(self, stream: Any, address: int, value: int) -> None:
        """Queue a write of eight bytes."""

    def wait_for_word(self, stream: Any, address: int, value: int, how: Compare) -> None:
        """Let later work of *stream* wait until the eight bytes at *address* compare with *value* as *how* says."""


def give_back(call: Callable[..., object], *args: Any) -> None:
    """Make a call that gives something back at the end of a run. Its errors are left out: a card that has failed
    refuses all such calls, and the error of the failure is known.
    """
    with suppress(AclError):
        call(*args)
