"""Run samples, and save the trace of each simulation: `python -m tests.fast.traced FOLDER SAMPLE...`."""

import runpy
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

from acl_py import trace

made = []


class Kept(trace.Trace):
    """A trace that is still there when its simulation has ended."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        made.append(self)


def main():
    folder = Path(sys.argv[1])
    trace.Trace = Kept
    for sample in map(Path, sys.argv[2:]):
        made.clear()
        out = folder / f"{sample.stem}.out"
        with out.open("w", encoding="utf-8") as file, redirect_stdout(file), suppress(SystemExit):
            runpy.run_path(str(sample), run_name="__main__")
        for number, kept in enumerate(made):
            kept.save(folder / f"{sample.stem}.{number}")


if __name__ == "__main__":
    main()
