"""The output and the mistakes of core kernels.

What a kernel prints goes to the standard output when it ends. Its mistakes are findings of the simulation, each once
however many launches make it.
"""

import sys
from typing import TYPE_CHECKING

from acl_py.findings import Finding, Findings, Kind, access_at
from device_model.observe import Observer
from device_model.ops import Op

if TYPE_CHECKING:  # most programs have no core kernel, and the package takes as long to import as all the rest
    from device_model.kernel.findings import Finding as Mistake
    from device_model.kernel.results import Result


class Speaker(Observer):
    """Observes the core kernels of one simulation, prints their output and adds their mistakes to its *findings*."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def ran(self, op: Op, result: "Result") -> None:  # noqa: ARG002 - each line of the output names its kernel
        """Write the output of the kernel to the standard output."""
        if result.output:
            sys.stdout.write(result.output)

    def finding(self, op: Op, finding: "Mistake") -> None:
        """Add a mistake to the findings."""
        self._findings.add(_finding_of(op, finding))


def _finding_of(op: Op, mistake: "Mistake") -> Finding:
    """Return the *mistake* of a core kernel in the form of all findings; its accesses are lines of the kernel."""
    kernel = op.work.label.name
    sites = [*mistake.sites]
    if sites and not getattr(sites[-1], "file", True):  # a line of PTX without a source: reports show the launch
        sites.append(op.site)
    accesses = tuple(access_at(site, f"kernel {kernel!r}", stream=op.stream.name, at_ns=op.called_ns) for site in sites)
    return Finding(
        Kind.KERNEL,
        mistake.text,
        accesses,
        missing=mistake.missing,
        count=mistake.count,
        rule=mistake.rule,
        kernel=kernel,
        where=mistake.where,
    )
