"""What core kernels have to say when they end: what they printed goes to the standard output, what is wrong with them
to the standard error, and to the log if there is one.

A mistake is told once, however many launches make it; `Simulation.findings` and the report count them all.
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
    """One mistake in a *kernel*: which *rule* it breaks, what to do (*text*), at which lines (*sites*), and how often
    it was made in all launches.
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
    """Listens to the core kernels of one simulation."""

    def __init__(self) -> None:
        self.mistakes: dict[tuple[object, ...], Mistake] = {}

    def ran(self, op: Op, result: "Result") -> None:  # noqa: ARG002 - the lines say who speaks
        """Pass on what was printed."""
        if result.output:
            sys.stdout.write(result.output)

    def finding(self, op: Op, finding: "Finding") -> None:
        """Count a mistake; tell of a new one."""
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
