"""The check for leaks: memory and handles that are alive at the end of the simulation."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from acl_py.calls.acts import Act, Destroyed, Made
from acl_py.findings import Finding, Kind, access_at
from acl_py.runtime.leaks import Leak, Leaked
from acl_py.runtime.runtime import Runtime
from acl_py.sanitizer.check import Check, guarded
from acl_py.sanitizer.finding_texts import HANDLES, end_behind
from acl_py.sanitizer.shadow import Use
from acl_py.sites import called_function
from device_model.collectives.cliques import Communicator
from device_model.completions import Completion, Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.faults import Rule
from device_model.memory import Allocation

UNLISTED = "leaks are not listed, because the program ended with an error"


class Leaks(Check):
    """Adds leaks to the findings.

    If the program *ended_with_error*, it did not come to the lines that give back what it has; then a note stands for
    all leaks.
    """

    def __init__(
        self, runtime: Runtime, fail: Callable[[Exception], None], last_use: Callable[[Allocation], Use | None]
    ) -> None:
        """*last_use* returns the last use of an allocation, if it is known."""
        super().__init__(runtime, fail)
        self._last_use = last_use
        self.ended_with_error = False
        self._handles: dict[Any, str] = {}  # those made by calls and not destroyed: the verbs that made them
        self._made: dict[Any, int] = {}  # by memory and handle: how many times fault rules had struck then
        self._struck: list[Rule] = []

    def __repr__(self) -> str:
        return f"<Leaks: {len(self._handles)} handles>"

    @guarded
    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Act[Any]) -> None:
        """Take up a handle that was made or destroyed."""
        if isinstance(act, Made) and isinstance(act.thing, tuple(HANDLES)):
            for thing in (act.thing, *(part for part in act.parts if isinstance(part, Communicator))):
                self._handles[thing] = name
                self._made[thing] = len(self._struck)
        elif not isinstance(act, Destroyed):
            return
        elif isinstance(act.thing, Context | Device):  # ends all that is in it
            self._handles = {handle: maker for handle, maker in self._handles.items() if not _is_gone(handle)}
        else:
            self._handles.pop(act.thing, None)
            self._made.pop(act.thing, None)

    @guarded
    def allocated(self, allocation: Allocation, since: Completion) -> None:
        """Take up memory that was allocated."""
        self._made[allocation] = len(self._struck)

    @guarded
    def freed(self, allocation: Allocation, until: Completion) -> None:
        """Forget memory that was freed."""
        self._made.pop(allocation, None)

    @guarded
    def fault(self, rule: Rule, subject: object, at_ns: Nanoseconds) -> None:
        """Take up that a fault rule struck: the program may leave out what it does otherwise."""
        self._struck.append(rule)

    @guarded
    def finish(self) -> None:
        """Add the leaks to the findings: this is the end.

        Memory that no line of the program made is not a leak: a stream program declares such buffers.
        """
        by_rule: dict[Rule | None, Leaked] = defaultdict(Leaked)
        memory, last_uses = self._runtime.memory, dict[Leak, Use]()
        for allocation in (*memory.leaks(), *memory.left_to_reset):
            leak, use = by_rule[self._rule_behind(allocation)].add_memory(allocation), self._last_use(allocation)
            if use is not None and (leak not in last_uses or use.at_ns >= last_uses[leak].at_ns):
                last_uses[leak] = use
        for handle, maker in self._handles.items():
            if not _is_gone(handle):
                word = next(word for kind, word in HANDLES.items() if isinstance(handle, kind))
                name = getattr(handle, "given_name", None)
                ender = "CommDestroy" if isinstance(handle, Communicator) else f"Destroy{word.capitalize()}"
                by_rule[self._rule_behind(handle)].add(word, "destroyed", handle.made, maker, ender, name)
        leaks = [(leak, rule) for rule, leaked in by_rule.items() for leak in leaked if leak.made is not None]
        if leaks and self.ended_with_error:
            self._findings.note(UNLISTED)
            leaks = []
        for leak, rule in leaks:
            leak.maker = called_function(leak.made, leak.maker)
            self._findings.add(_finding(leak, last_uses.get(leak), rule))
        self._handles.clear()
        self._made.clear()

    def _rule_behind(self, thing: Any) -> Rule | None:
        """Return the first fault rule that struck after *thing* was made; None if none did."""
        return next(iter(self._struck[self._made.get(thing, len(self._struck)) :]), None)


def _is_gone(handle: Any) -> bool:
    """Whether *handle* was destroyed, or its context was."""
    context = getattr(handle, "context", None)
    return handle.destroyed is not None or (context is not None and context.destroyed is not None)


def _finding(leak: Leak, last: Use | None, rule: Rule | None) -> Finding:
    text = f"{leak.counted} never {leak.never}, made at {leak.made}"
    if rule is not None:
        text += f"; then the fault rule {rule.text} struck: the code behind it does not give this back"
    fix = end_behind(leak.ender, leak.names, leak.made, last)
    return Finding(Kind.LEAK, text, (access_at(leak.made, leak.maker),), fix=fix)
