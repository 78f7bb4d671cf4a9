"""The bytes that a card computes: makes a folder of kernels to run there, and compares what came back.

`python -m tests.ptx card make FOLDER [PART ...] [NAME ...]` writes kernels and their inputs, and a program that runs
them. The folder needs nothing of this project: `python FOLDER/run.py --out DIR` runs them on a machine with a card,
cuda-bindings and NumPy. `python -m tests.ptx card compare FOLDER DIR [PART ...]` runs the same on the device here.
`python -m tests.ptx card narrow FOLDER DIR`, on a machine with a card, prints the random programs that differ with the
lines that the difference needs. `PARTS` are:

programs: the random programs of `programs`.
singles: single instructions over special values.
warps: kernels of two warps, with what lanes do with one another.
approximate: approximate functions over many values.
corpus: the kernels of `corpus`, in the folder that the variable CORPUS names; NAMEs choose repositories.
"""

import sys
from pathlib import Path

PARTS = ("programs", "singles", "warps", "approximate", "corpus")


def main(words):
    if len(words) >= 2 and words[0] == "make":
        from tests.ptx.card import making

        parts = [each for each in words[2:] if each in PARTS]
        making.make(Path(words[1]), parts or PARTS, [each for each in words[2:] if each not in PARTS])
    elif len(words) >= 3 and words[0] == "compare":
        from tests.ptx.card import comparing

        comparing.compare(Path(words[1]), Path(words[2]), words[3:] or PARTS)
    elif len(words) == 3 and words[0] == "narrow":
        from tests.ptx.card import narrowing

        narrowing.narrow(Path(words[1]), Path(words[2]))
    else:
        sys.exit(
            "usage: python -m tests.ptx card make FOLDER [PART ...] [NAME ...] | compare FOLDER RESULTS [PART ...] | "
            "narrow FOLDER RESULTS"
        )
