"""One of the measures: `python -m tests.measures NAME ...`; `PARTS` has the names."""

import sys
from importlib import import_module

PARTS = ("literals", "entered", "lines", "outputs")

if __name__ == "__main__":
    name, *arguments = sys.argv[1:] or ["nothing"]
    if name not in PARTS:
        sys.exit(f"there is no measure {name!r}; there are {', '.join(PARTS)}")
    import_module(f"tests.measures.{name}").main(arguments)
