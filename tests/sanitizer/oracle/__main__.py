"""`python -m tests.sanitizer.oracle N` prints how many of N random programs each detector gets wrong."""

import sys

from tests.sanitizer.oracle.table import lines, scores

if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print(*lines(count, *scores(count)), sep="\n")
