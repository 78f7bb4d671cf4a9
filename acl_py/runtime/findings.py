"""The output and the mistakes of core kernels.

What a kernel prints goes to the standard output when it ends. Its mistakes go to the log if logging is enabled, and
otherwise to the standard error.

A mistake is reported once, however many launches make it; `Simulation.findings` and the report count all of them.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acl_py import log
from device_model.observe import Observer
from device_model.ops import Op

if TYPE_CHECKING:  # most programs have no core kernel, and the package takes as long to import as all the rest
    from device_model.aicore.core.findings import Finding, Rule
    from device_model.aicore.runner import Result


@dataclass(slots=True)
class Mistake:
    """One mistake in a *kernel*.

    Attributes:
        kernel: The name of the kernel.
        rule: The rule that it breaks.
        text: What is wrong and what to do.
        where: The core that made the mistake first.
        sites: The lines of the kernel that are involved.
        count: How often it was made in all launches.
    """

    kernel: str
    rule: "Rule"
    text: str
    where: str
    sites: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"kernel {self.kernel}: {self.rule.name} in {self.where}: {self.text}{times}"


class Speaker(Observer):
    """Observes the core kernels of one simulation, prints their output and collects their mistakes."""

    def __init__(self) -> None:
        self.mistakes: dict[tuple[object, ...], Mistake] = {}

    def ran(self, op: Op, result: "Result") -> None:  # noqa: ARG002 - each line of the output names its kernel
        """Write the output of the kernel to the standard output."""
        if result.output:
            sys.stdout.write(result.output)

    def finding(self, op: Op, finding: "Finding") -> None:
        """Count a mistake, and report it if it is new."""
        sites = tuple(map(str, finding.sites))
        key = (op.work.label, finding.rule, sites, finding.missing)
        known = self.mistakes.get(key)
        if known is not None:
            known.count += finding.count
            return
        mistake = self.mistakes[key] = Mistake(
            op.work.label.name, finding.rule, finding.text, finding.where, sites, finding.count
        )
        if not log.warn(
            "finding", kernel=mistake.kernel, rule=mistake.rule.name, where=mistake.where, text=mistake.text
        ):
            print(mistake, file=sys.stderr)
