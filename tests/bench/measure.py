"""How the benches measure and print.

The machine's speed drifts, by up to a factor of two within minutes, so configurations that are to be compared run in
turn, round and round, and medians are taken: believe ratios inside one table, not numbers of two.
"""

import json
import os
import platform
import re
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from tests.bench.ring import Result

# A pipe is as wide as what it gets: no line of a table is to be broken in a log.
_NUMBER = re.compile(r"[-+]?[\d,.]+%?")
console = Console(width=None if sys.stdout.isatty() else 160)


def fresh(model, ops, streams):
    """Run one configuration of the ring in a process of its own, where no other run's memory and garbage count."""
    command = [sys.executable, "-m", "tests.bench.ring", model, str(ops), str(streams)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Result(**json.loads(done.stdout))


def processor_seconds(command, **environment):
    """The processor time, of all threads, that a Python process with *command* takes from its start to its end."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], env=os.environ | environment, capture_output=True, text=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def interleaved(configurations, runs, run):
    """Call *run* with the arguments of each configuration, in turn, *runs* times: what it returned, by name."""
    results = {name: [] for name in configurations}
    for _ in range(runs):
        for name, arguments in configurations.items():
            results[name].append(run(*arguments))
    return results


def ratio(these, those):
    """The median ratio of runs that were made one after the other."""
    return median(this / that for this, that in zip(these, those, strict=True))


def spread(values, form="{:.2f}"):
    """The median, with the range behind it."""
    low, mid, high = (form.format(value) for value in (min(values), median(values), max(values)))
    return f"{mid} [{low} to {high}]"


def target(value, limit, *, at_least=False, form="{:.2f}"):
    """A number beside its target."""
    met = value >= limit if at_least else value <= limit
    shown, bound = form.format(value), form.format(limit)
    return f"{shown} (target: at {'least' if at_least else 'most'} {bound}, {'met' if met else 'MISSED'})"


def show(title, header, rows):
    """Print one table; all but its first column stand at the right."""
    say(title)
    table = Table(box=box.SIMPLE_HEAD)
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def markdown(title, header, rows):
    """Print one table as a page has it; columns of numbers stand at the right."""
    lines = [tuple(map(str, row)) for row in rows]
    columns = zip(*lines, strict=True)
    rule = ["--:" if all(map(_NUMBER.fullmatch, column)) else "---" for column in columns]
    print(f"{title}\n")
    for line in (header, rule, *lines):
        print(f"| {' | '.join(line)} |")
    print(flush=True)


def say(text):
    console.print(text, highlight=False)


def machine():
    """One line about what the numbers were measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "uvloop", "simpy"))
    load = f"; load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{cores} cores, {_processor()}, {platform.system()}; {python}, {packages}{load}"


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
