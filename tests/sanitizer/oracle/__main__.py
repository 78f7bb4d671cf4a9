"""`python -m tests.sanitizer.oracle N` runs N random programs, and prints how many each detector gets wrong."""

import sys

from tests.sanitizer.oracle.table import Table

if __name__ == "__main__":
    table = Table()
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        table.add(seed)
    print(*table.lines(), sep="\n")
