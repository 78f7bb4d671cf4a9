"""The sanitizer: observers that look at one thing each, for the parts that the program asked for."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from acl_py.findings import FAILURE, Findings
from acl_py.host_arrays.views import UNSEEN, Views
from acl_py.parts import SanitizerPart
from acl_py.ranges import Ranges
from acl_py.runtime.runtime import Runtime
from acl_py.sanitizer.check import Stacks, guarded
from acl_py.sanitizer.digests import Digests
from acl_py.sanitizer.leaks import Leaks
from acl_py.sanitizer.lifetimes import Lifetimes
from acl_py.sanitizer.op_reads import OpReads
from acl_py.sanitizer.races import Races
from acl_py.sanitizer.reversed_effects import ReversedEffects
from acl_py.sanitizer.shadow import Use
from acl_py.sanitizer.unwritten import Unwritten
from acl_py.sites import is_in_model
from device_model.completions import Completion
from device_model.memory import Allocation
from device_model.observe import Observer
from device_model.ops import Op


class Sanitizer(Observer):
    """Observes *runtime* and adds to its findings.

    It never changes a time, a byte or a result of the program. If it fails itself, `fail` ends it with a note.
    """

    def __init__(self, runtime: Runtime, parts: frozenset[SanitizerPart]) -> None:
        self.runtime = runtime
        self.parts = parts
        self.findings = runtime.state(Findings)
        self._observers: list[Observer] = [self]
        self._watches = True
        self.lifetimes = Lifetimes(runtime, self.fail)
        self.races: Races | None = None
        self.unwritten: Unwritten | None = None
        self.views: Views | None = None
        self.op_reads: OpReads | None = None
        self.leaks: Leaks | None = None
        self.digests: Digests | None = None
        self.effects = runtime.workers if isinstance(runtime.workers, ReversedEffects) else None
        if SanitizerPart.DEVICE in parts:
            self._observers.append(self.lifetimes)
        if SanitizerPart.DEVICE in parts or self.effects is not None:
            told = self.findings if SanitizerPart.DEVICE in parts else Findings(is_quiet=True)
            self.races = Races(runtime, self.fail, told)
            self._observers.append(self.races)
            if self.effects is not None:
                self.effects.begin(self.races, runtime.memory)
                self._observers.append(self.effects)
        if SanitizerPart.UNINITIALISED in parts:
            self.unwritten = Unwritten(runtime, self.fail)
            self._observers.append(self.unwritten)
            runtime.memory.watch_view = self.unwritten.view_unwatched
        if SanitizerPart.HOST in parts:
            self.views = Views(self.host_access, self.host_exported)
            runtime.memory.watch_view = self._give_view
            self.op_reads = OpReads(runtime)
            self._observers.append(self.op_reads)
            if self.races is not None:
                self.races.tell_pageable(partial(self.findings.note, UNSEEN))
        if SanitizerPart.LEAKS in parts:
            self.leaks = Leaks(runtime, self.fail, self._last_use)
            self._observers.append(self.leaks)
        if SanitizerPart.DIGEST in parts:
            self.digests = Digests(runtime, self.fail)
            self._observers.append(self.digests)
        for observer in self._observers[1:]:
            runtime.hooks.add(observer)
        self.tell()

    def end_with_error(self) -> None:
        """Learn that the program ends with an error: leaks will not be listed."""
        if self.leaks is not None:
            self.leaks.ended_with_error = True

    def launched(self, op: Op, launch: Any, made: Sequence[Completion]) -> None:
        """Learn that a card was given a *launch* of a graph, the operation *op*; *made* stands for its nodes."""
        if self.races is not None:
            self.races.launched(op, launch, made)

    def finish(self) -> None:
        """Look for what is only known at the end of the simulation. A second call does nothing."""
        self._let_go()
        if self.leaks is not None:
            self.leaks.finish()
            self.leaks = None

    def fail(self, error: Exception) -> None:
        """Note that the sanitizer has failed with *error*, and watch no more; the program goes on."""
        self.findings.note(f"{FAILURE}: {type(error).__name__}: {error}; what it found until then is kept")
        while self._observers:
            self.runtime.hooks.remove(self._observers.pop())
        self._let_go()
        self._watches = False
        self.tell()

    def tell(self) -> None:
        """Tell observers what of the program is watched from now on."""
        if self.runtime.hooks.sanitized is not None:
            handovers = self.races is not None and self.races.hosts.are_watched
            self.runtime.hooks.sanitized(self._watches and self.views is not None, self._watches and handovers)

    def _last_use(self, allocation: Allocation) -> Use | None:
        """Return the last use of *allocation*, if there was one and uses are watched."""
        return None if self.races is None else self.races.last_use(allocation)

    def _let_go(self) -> None:
        if self.effects is not None:
            self.effects.end()
        self.runtime.memory.watch_view = None
        if self.races is not None:
            self.races.close()
        if self.views is not None:
            self.views.close()
        if self.op_reads is not None:
            self.op_reads.close()

    # --- the host

    def _give_view(self, allocation: Allocation, array: Any) -> Any:
        """Return a view of *array*, which lies in *allocation*."""
        assert self.views is not None, "the host is watched"
        if self.runtime.hooks.viewed is not None:
            self.runtime.hooks.viewed(allocation)
        return self.views.watch(allocation, array)

    @guarded
    def host_access(self, allocation: Allocation, ranges: Ranges, writes: bool, site: object) -> None:
        """The host has read or written the bytes *ranges* of *allocation* at *site*, through a view."""
        self.findings.note(UNSEEN)
        if self.runtime.defers(partial(self.host_access, allocation, ranges, writes, site)):
            self.runtime.state(Stacks).note(site)
            return
        by = self.runtime.calling
        if by is not None and is_in_model(site):  # the host function is a method of the view
            site = by.site
        if by is None and self.races is not None:
            self.races.hosts.current()  # a thread knows what others did before its access is recorded
        if self.runtime.hooks.host_touched is not None:
            self.runtime.hooks.host_touched(allocation, ranges, writes, site, by)
        if allocation.freed is not None:
            self.lifetimes.touched(allocation, ranges, writes, site)
            return
        if self.races is not None:
            self.races.host_access(allocation, ranges, writes, site)
        if self.unwritten is not None:
            self.unwritten.host_access(allocation, ranges, writes, site)
        if self.digests is not None and writes:
            self.digests.host_wrote(allocation)

    @guarded
    def host_exported(self, allocation: Allocation, ranges: Ranges, site: object) -> None:
        """From now on the program may read and write the bytes *ranges* of *allocation* unseen: *site* got at them."""
        if self.runtime.hooks.exported is not None:
            self.runtime.hooks.exported(allocation, ranges, site)
        if self.unwritten is not None:
            self.unwritten.host_exported(allocation, ranges)
