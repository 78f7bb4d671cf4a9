"""All benches, or those named: `python -m tests.bench NAME ...`; `PARTS` has the names.

`aicore_rows --rows FILE` predicts the rows of a file, and `blocks`, `kernels`, `collectives` and `ptx` may have files
behind them: `python -m tests.bench kernels FILE [--json
OUT]`; the last two need one, but for `collectives --speed`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter

from tests.bench.measure import machine, say

PARTS = ("start", "count", "instructions", "exponents", "dispatch", "speed", "waits", "explain", "advice", "clock",
         "aicore", "large_product", "acl", "traces", "page", "accuracy", "copies", "lanes", "graphs", "changes",
         "sanitizer", "explore", "blocks", "attention", "kernels", "sweeps", "crews", "values", "fold")  # fmt: skip


def main(names):
    if names[:1] in (["aicore_rows"], ["blocks"], ["collectives"], ["kernels"], ["ptx"]):
        import_module(f"tests.bench.{names[0]}").main(names[1:])
        return
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.exit(f"there is no bench {unknown[0]!r}; there are {', '.join(PARTS)}")
    say(machine())
    say("Medians, with the range in brackets. The machine drifts: compare within a table.\n")
    begin = perf_counter()
    for name in names or PARTS:
        if find_spec(f"tests.bench.{name}") is None:
            say(f"{name}: there is no tests/bench/{name}.py yet\n")
            continue
        import_module(f"tests.bench.{name}").main()
    say(f"all of it took {perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
