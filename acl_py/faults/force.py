"""Fault rules that are in force, and those that are not yet."""

from collections.abc import Callable, Sequence

from acl_py.runtime.runtime import Runtime
from device_model.faults import Rule as Rule
from device_model.frozen import Frozen

End = Callable[[], None]  # takes a rule out of force


class Fault(Frozen):
    """A rule that is not in force yet, for `Simulation.fault`; *made* is the line that made it."""

    text: str
    made: object
    put: Callable[[Runtime, str, object], tuple[Rule, End]]

    def __repr__(self) -> str:
        return f"<Fault {self.text}>"

    def install(self, runtime: Runtime) -> tuple[Rule, End]:
        """Put the rule in force in *runtime*; return it, with its counts, and a function that takes it out of force."""
        return self.put(runtime, self.text, self.made)


class Guard:
    """Rules in force until `remove()` or the end of a `with` block. Each counts what it has seen and struck."""

    def __init__(self, runtime: Runtime, faults: Sequence[Fault]) -> None:
        if not faults:
            raise TypeError("fault() takes one rule or more, as in fault(faults.fail(call='Malloc'))")
        self.rules: list[Rule] = []
        self._ends: list[End] = []
        try:
            for fault in faults:
                rule, end = fault.install(runtime)
                self.rules.append(rule)
                self._ends.append(end)
                runtime.admit(rule)
        except BaseException:
            self.remove()
            raise

    def __repr__(self) -> str:
        return f"<Guard of {', '.join(f'{rule.text}, struck {rule.struck} of {rule.seen}' for rule in self.rules)}>"

    def __enter__(self) -> Rule:
        return self.rules[0]

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take the rules out of force. Their effects stay. A second call does nothing."""
        while self._ends:
            self._ends.pop()()
