"""Skeletons: Python code to begin with, for the functions that a program must add. Each runs, and returns zeros."""

import re
from collections.abc import Iterable, Sequence
from itertools import count
from keyword import iskeyword

from acl_py.compat.acl.standins.models import Tensor

_MODEL = """\
\"""What {file} computes.\"""

import numpy as np


def infer({arguments}):
    \"""Compute {outputs} of {inputs}.\"""
    # Replace the zeros by what the model does.
{zeros}
    return {results}
"""
_OPERATOR = """\
import numpy as np
from acl_py.compat.acl import register_op


@register_op("{name}"{options})
def {function}({arguments}):
    \"""Compute {outputs} of {inputs}.\"""
    # Replace the zeros by what the operator does.
{zeros}
    return {results}"""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")  # where the next word of AddCustom begins


def model_skeleton(file: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Return a Python file with the function of the model *file*."""
    names = [identifier(tensor.name) for tensor in inputs]
    return _MODEL.format(file=file, arguments=", ".join(names), **_body(names, inputs, outputs))


def operator_skeleton(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], attributes: Sequence[str]) -> str:
    """Return the registration of the operator *name*, as it was called."""
    names = [identifier(tensor.name) for tensor in inputs]
    return _OPERATOR.format(
        name=name,
        options=f", outputs={len(outputs)}" if len(outputs) != 1 else "",
        function=identifier(_WORD.sub("_", name).lower()),
        arguments=", ".join([*names, *["*"] * bool(attributes), *attributes]),
        **_body(names, inputs, outputs),
    )


def _body(names: Sequence[str], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[str, str]:
    results = [identifier(tensor.name) for tensor in outputs]
    zeros = [
        f"    {name} = np.zeros({_shape(names, tensor)}, {_plain(tensor)!r})"
        for name, tensor in zip(results, outputs, strict=True)
    ]
    return {
        "inputs": _listed(inputs),
        "outputs": _listed(outputs),
        "zeros": "\n".join(zeros),
        "results": ", ".join(results) or "()",
    }


def _shape(names: Sequence[str], tensor: Tensor) -> str:
    """Return the shape as Python text; a dynamic dim is that of the first input, if there is one."""
    dims = [
        str(dim) if isinstance(dim, int) and dim >= 0 else f"{names[0]}.shape[{place}]" if names else "1"
        for place, dim in enumerate(tensor.dims)
    ]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def _plain(tensor: Tensor) -> str:
    """Return a dtype that NumPy has by itself."""
    return "float32" if tensor.numpy.kind == "V" else tensor.dtype


def _listed(tensors: Sequence[Tensor]) -> str:
    return " and ".join(f"{tensor.name} ({tensor.dtype} {list(tensor.dims)})" for tensor in tensors) or "nothing"


def identifier(text: str) -> str:
    """Return *text* as a name in Python."""
    name = "".join(each if each.isalnum() else "_" for each in text)
    return f"_{name}" if iskeyword(name) or not name.isidentifier() else name


def different(names: Iterable[str], prefix: str) -> list[str]:
    """Return *names*, with numbered ones in the place of those that are empty or were there before."""
    numbered = (f"{prefix}{number}" for number in count(1))
    different: dict[str, None] = {}
    for name in names:
        known = name
        while not known or known in different:
            known = next(numbered)
        different[known] = None
    return list(different)
