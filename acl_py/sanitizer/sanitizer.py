"""The sanitizer: one observer, which hands what it sees to the parts that the program asked for."""

from typing import TYPE_CHECKING

from acl_py.sanitizer.findings import Findings
from acl_py.sanitizer.parts import Part
from acl_py.sanitizer.races import Races
from device_model.observe import Observer

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime


class Sanitizer(Observer):
    """Observes *runtime* and adds to its findings.

    It never changes a time, a byte or a result of the program. If it fails itself, `fail` ends it with a note.
    """

    def __init__(self, runtime: "Runtime", parts: frozenset[Part]) -> None:
        self.runtime = runtime
        self.parts = parts
        self.findings = runtime.state(Findings)
        self.races: Races | None = None
        if Part.DEVICE in parts:
            self.races = Races(runtime, self.fail)
            runtime.hooks.add(self.races)

    def finish(self) -> None:
        """Look for what is only known at the end of the simulation. A second call does nothing."""

    def fail(self, error: Exception) -> None:
        """Note that the sanitizer has failed with *error*, and watch no more; the program goes on."""
        self.findings.note(f"the sanitizer failed: {type(error).__name__}: {error}; what it found until then is kept")
        self.runtime.hooks.remove(self)
        if self.races is not None:
            self.runtime.hooks.remove(self.races)
