"""Digests: sources of copies that change between the call and the copy.

The check for races sees accesses through views only. This one compares the bytes themselves. It takes those of a pinned
source when the copy is queued and when it ends, those of a pageable source when its staging begins and ends. So it also
finds what a program writes through an ordinary array that it has registered, through an address, or in C.

What operations, host functions and watched accesses write in between is left to the check for races: after each of them
the digests are taken again.
"""

from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

from acl_py.calls.acts import Act, Queued
from acl_py.findings import Access, Finding, Kind, Span
from acl_py.runtime.runtime import Runtime
from acl_py.sanitizer.check import Check, guarded
from acl_py.sanitizer.finding_texts import buffer_text, work_text
from device_model.completions import Nanoseconds
from device_model.memory import Allocation, Space
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import Copy, Extent, HostFunction


class _Source(NamedTuple):
    """What a pending copy reads: its bytes, their digest at the last look, and what a finding says of the copy."""

    extents: tuple[Extent, ...]
    digest: bytes
    access: Access


class Digests(Check):
    """Adds changed sources to the findings."""

    def __init__(self, runtime: Runtime, fail: Callable[[Exception], None]) -> None:
        super().__init__(runtime, fail)
        self._sources: dict[Hashable, _Source] = {}  # by operation, or by copy if it is staged

    def __repr__(self) -> str:
        return f"<Digests: {len(self._sources)} sources>"

    @guarded
    def op_queued(self, op: Op) -> None:
        """Look at the source of a copy from pinned memory."""
        if isinstance(op.work, Copy) and op.work.src.space is Space.PINNED:
            self._begin(op, op.work, op.stream, op.site)

    @guarded
    def op_ended(self, op: Op) -> None:
        """Compare the source of a copy, and look again at those that the operation may have written."""
        source = self._sources.pop(op, None)
        if source is not None and op.error is None:
            self._compare(source)
        if isinstance(op.work, HostFunction):
            self._look_again({allocation for each in self._sources.values() for allocation, _, _ in each.extents})
        elif self._sources:
            written = {allocation for allocation, _, _ in op.work.writes() if allocation.space is not Space.DEVICE}
            if written:
                self._look_again(written)

    @guarded
    def staged(self, copy: Copy, stream: Stream, site: object) -> None:
        """Look at a pageable source before it is staged."""
        if copy.src.space is Space.PAGEABLE:
            self._begin(copy, copy, stream, site)

    @guarded
    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Act[Any]) -> None:
        """Compare a pageable source when the call returns: it is staged."""
        source = self._sources.pop(act.work, None) if isinstance(act, Queued) and isinstance(act.work, Copy) else None
        if source is not None:
            self._compare(source)

    @guarded
    def host_wrote(self, allocation: Allocation) -> None:
        """Look again at sources in *allocation*, which the host has written through a view."""
        self._look_again({allocation})

    def _begin(self, key: Hashable, copy: Copy, stream: Stream, site: object) -> None:
        access = self._access_by_host(work_text(copy, writes=False), site, stream=stream.name)
        extents = tuple(copy.read_rows())
        self._sources[key] = _Source(extents, self._digest(extents), access)

    def _look_again(self, written: set[Allocation]) -> None:
        for key, source in self._sources.items():
            if any(allocation in written for allocation, _, _ in source.extents):
                self._sources[key] = source._replace(digest=self._digest(source.extents))

    def _compare(self, source: _Source) -> None:
        allocation = source.extents[0][0] if source.extents else None
        if allocation is None or allocation.is_dropped or self._digest(source.extents) == source.digest:
            return
        name = buffer_text(allocation) if allocation.serial >= 0 else "an array"
        access = source.access
        text = (
            f"{access.what} at {access.site} copies {name}, which the host changed between the call and the copy; "
            "change it after the copy has ended, or copy from other memory"
        )
        spans = tuple(Span(name, start, stop) for _, start, stop in source.extents)
        self._findings.add(Finding(Kind.RACE, text, (access,), spans))

    def _digest(self, extents: Iterable[Extent]) -> bytes:
        self._runtime.workers.join_all()  # a body that is over in simulated time may still run in a thread
        state = blake2b()
        for allocation, start, stop in extents:
            state.update(allocation.view[start:stop])
        return state.digest()
