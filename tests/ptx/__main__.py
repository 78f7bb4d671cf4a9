"""Runs one of `PARTS`: `python -m tests.ptx corpus DIR`, `python -m tests.ptx mutated`."""

import sys
from importlib import import_module

PARTS = ("corpus", "card", "mutated")


def main(words):
    if not words or words[0] not in PARTS:
        sys.exit(f"usage: python -m tests.ptx {'|'.join(PARTS)} ...")
    import_module(f"tests.ptx.{words[0]}").main(words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
