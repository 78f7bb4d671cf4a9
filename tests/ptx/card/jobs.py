"""Kernels to be run on a card, in files: their texts, launches and arrays."""

import json
from dataclasses import dataclass, field

import numpy as np

from tests.ptx.programs import Program


@dataclass
class Part:
    """Kernels with what they share. `run` reads the files and says what the arguments of a job are."""

    jobs: list = field(default_factory=list)
    texts: list = field(default_factory=list)
    arrays: dict = field(default_factory=dict)

    def text(self, text):
        """Return the number of a text."""
        if not self.texts or self.texts[-1] != text:
            self.texts.append(text)
        return len(self.texts) - 1

    def array(self, name, values):
        """Return an argument that is an array with the bytes of *values*."""
        self.arrays.setdefault(name, np.frombuffer(bytes(values), np.uint8))
        return "array", name

    def add(self, name, text, grid, block, arguments, *, entry="k", shared=0):
        """Add a kernel. Its module is loaded again if it has variables that a kernel before may have changed."""
        self.jobs.append({
            "name": name, "text": self.text(text), "entry": entry, "grid": grid, "block": block, "shared": shared,
            "arguments": arguments, "is_fresh": ".global .align" in text,
        })  # fmt: skip

    def write(self, path):
        listing = np.frombuffer(json.dumps({"jobs": self.jobs, "texts": self.texts}).encode(), np.uint8)
        np.savez_compressed(path, jobs=listing, **self.arrays)


def value(data):
    """Return an argument that is passed itself."""
    return "value", bytes(data).hex()


def zeros(nbytes):
    """Return an argument that is an empty array."""
    return "zeros", nbytes


def program(part, job):
    """Return a job of a part that `run.read` gave as a program, which the device and the oracle run."""
    from tests.ptx.card.run import initial

    arguments = [bytes.fromhex(given) if kind == "value" else bytearray(initial(part, (kind, given)))
                 for kind, given in job["arguments"]]  # fmt: skip
    return Program(part["texts"][job["text"]], tuple(job["grid"]), tuple(job["block"]), arguments, job["shared"])
