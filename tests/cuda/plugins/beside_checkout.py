"""Runs an example of cuda.bindings, with helpers that lie in its checkout and that the wheel does not bring.

python beside_checkout.py EXAMPLE ...
"""

import runpy
import sys
from pathlib import Path

import cuda.bindings

sys.argv = sys.argv[1:]
example = Path(sys.argv[0]).resolve()
checkout = next(each for each in example.parents if each.name == "cuda_bindings")
cuda.bindings.__path__.append(str(checkout / "cuda" / "bindings"))
sys.path[0] = str(example.parent)
runpy.run_path(str(example), run_name="__main__")
