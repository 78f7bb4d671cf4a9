"""What computes a kernel on a real card: CUDA C, or a function that calls torch, CuPy or numba.

    TEXT = '''
    extern "C" __global__ void scale(const float *x, float *y, int n, float by)
    {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            y[i] = x[i] * by;
    }
    '''

    @kernel(cost=Cost(us=5), card=TEXT)
    def scale(x: In, y: Out, n: int, by: float) -> None:
        y[:n] = x[:n] * by

The model runs the body, and checks of the text what can be checked without a compiler. A card runs the text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Signature, signature
from math import prod
from typing import Any

from acl_py.verbs.arrays import Access
from device_model.errors import shown
from device_model.integers import integer
from device_model.sm.names import Dim3
from device_model.work import Extent, Label, Work

_THREADS = 256  # of a block, if nothing says how many
_MOST_THREADS = 1024
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEAD = re.compile(r"__global__[^;{}]*?\b(\w+)\s*\(([^{};]*)\)\s*\{")
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)")


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: launches look it up
class CudaKernel:
    """A kernel in CUDA C, which NVRTC compiles for the card of a run.

    A launch has as many blocks as that of the kernel in Python. Memory arrives as pointers, numbers as the types that
    the text declares.

    Args:
        text: The source; the kernel in it is `extern "C"`.
        entry: The name of the kernel in the text. By default that of the function in Python.
        threads: The threads of a block, or up to three numbers of them. By default those of `cta.kernel`, and 256 for
            an array kernel.
        shared: The bytes of dynamic shared memory of a block.
        options: Options of NVRTC, such as "--use_fast_math". The architecture is that of the card.
        arguments: A function of the arguments of a launch that returns those of the text, such as
            `lambda x, y: (x, y, x.size)`: pointers have no shape. By default they are the same.

    Raises:
        TypeError: One of them is of another type.
        ValueError: A number is one that no card takes, or the text has no kernel of that name.
    """

    text: str
    entry: str | None = None
    threads: int | tuple[int, ...] | None = None
    shared: int = 0
    options: Sequence[str] = ()
    arguments: Callable[..., Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a CudaKernel is made of CUDA C, a str, not of {shown(self.text)}")
        if isinstance(self.options, str):
            raise TypeError(f"options={self.options!r} of a CudaKernel: give a tuple, ({self.options!r},)")
        object.__setattr__(self, "options", tuple(self.options))
        if integer("shared", self.shared) < 0:
            raise ValueError(f"shared={self.shared} of a CudaKernel: give 0 bytes or more")
        if self.threads is not None:
            _check_threads(self.block(None))

    def block(self, threads: int | None) -> Dim3:
        """Return the threads of a block in each direction; by default *threads* in one row."""
        given = self.threads or threads or _THREADS
        lengths = given if isinstance(given, tuple) else (given,)
        if not 1 <= len(lengths) <= 3:
            raise TypeError(f"threads={given} of a CudaKernel: give one to three numbers")
        x, y, z = (*(integer("threads", length) for length in lengths), *[1] * (3 - len(lengths)))
        return x, y, z

    def named(self, name: str) -> str:
        """Return the name of the kernel in the text of a kernel in Python that is called *name*."""
        return self.entry or name

    def check(self, name: str, parameters: Sequence[str], threads: int | None) -> None:
        """Check what can be checked without a compiler, for a kernel *name* with *parameters* and *threads*."""
        text, entry = _COMMENT.sub(" ", self.text), self.named(name)
        if 'extern "C"' not in text:
            raise ValueError(
                f'card= of kernel {name}: put extern "C" in front of __global__, so that the card finds {entry} by name'
            )
        heads = {head[1]: head[2] for head in _HEAD.finditer(_BOUNDS.sub(" ", text))}
        if entry not in heads and not re.search(rf"\b{re.escape(entry)}\s*\(", text):
            raise ValueError(
                f"card= of kernel {name}: the CUDA C has no kernel {entry!r}; it has {', '.join(heads) or 'none'}; "
                "CudaKernel(text, entry=...) names another"
            )
        if self.arguments is not None:
            _check_function(self.arguments, f"arguments= of the CUDA C of kernel {name}", parameters)
        elif entry in heads and (count := _count(heads[entry])) != len(parameters):
            raise ValueError(
                f"card= of kernel {name}: {entry} takes {count} arguments in CUDA C, and the function takes "
                f"{len(parameters)}, {', '.join(parameters)}"
            )
        if threads is not None and prod(self.block(threads)) != threads:
            raise ValueError(f"card= of kernel {name} has blocks of {self.threads} threads, and the kernel {threads}")


CardCode = str | CudaKernel | Callable[..., object]


class CardWork(Work):
    """A launch of a kernel whose *code* computes it on a card.

    Attributes:
        code: CUDA C, or the function that makes the calls.
        entry: The name of the kernel in CUDA C.
        grid: The blocks in each direction.
        block: The threads of a block in each direction.
        names: Those of the arguments.
        args: Memory as arrays, and numbers.
        packed: The arguments as the card takes them; the card sets it at the first launch.
    """

    __slots__ = ("_read", "_written", "args", "block", "code", "entry", "grid", "label", "names", "nbytes", "packed",
                 "touched")  # fmt: skip

    def __init__(
        self,
        label: Label,
        code: CudaKernel | Callable[..., object],
        grid: Dim3,
        threads: int | None,
        names: Sequence[str],
        args: Sequence[Any],
        extents: Sequence[tuple[Extent, Access]],
    ) -> None:
        self.label = label
        self.code = code
        self.grid = grid
        self.entry = code.named(label.name) if isinstance(code, CudaKernel) else ""
        self.block = code.block(threads) if isinstance(code, CudaKernel) else (1, 1, 1)
        self.names = names
        self.args = args
        self.packed: Any = None
        self.nbytes = sum(stop - start for (_, start, stop), _ in extents)
        self._read = tuple(extent for extent, access in extents if access is not Access.OUT)
        self._written = tuple(extent for extent, access in extents if access is not Access.IN)
        self.touched = tuple(dict.fromkeys(extent[0] for extent, _ in extents))

    def __repr__(self) -> str:
        return f"what computes kernel {self.label} on a card"

    def reads(self) -> Sequence[Extent]:
        """Return the bytes that the arguments declare as read."""
        return self._read

    def writes(self) -> Sequence[Extent]:
        """Return the bytes that the arguments declare as written."""
        return self._written


def card_code(
    given: CardCode | None, name: str, parameters: Sequence[str], threads: int | None = None
) -> CudaKernel | Callable[..., object] | None:
    """Return what `card=` of a kernel *name* gives, checked for a kernel with these *parameters*.

    Raises:
        TypeError: It is no text, no CudaKernel and no function, or a function that takes other arguments.
        ValueError: It has no such kernel, or one that takes other arguments.
    """
    if given is None:
        return None
    code = CudaKernel(given) if isinstance(given, str) else given
    if isinstance(code, CudaKernel):
        code.check(name, parameters, threads)
    elif callable(code):
        _check_function(code, f"card= of kernel {name}", ("stream", *parameters))
    else:
        raise TypeError(f"card= of kernel {name} is CUDA C, a CudaKernel or a function, not {shown(given)}")
    return code


def _check_function(function: Callable[..., object], what: str, parameters: Sequence[str]) -> None:
    """Refuse a *function*, of which *what* tells, that cannot be called with so many arguments."""
    try:
        takes: Signature = signature(function)
    except (TypeError, ValueError):  # one of C, which tells nothing
        return
    try:
        takes.bind(*parameters)
    except TypeError as error:
        raise TypeError(f"{what} is called with ({', '.join(parameters)}): {error}") from None


def _check_threads(block: Dim3) -> None:
    if min(block) < 1 or prod(block) > _MOST_THREADS or block[2] > 64:
        raise ValueError(f"threads={block} of a CudaKernel: a block has 1 to {_MOST_THREADS} threads, and z up to 64")


def _count(parameters: str) -> int:
    """Return how many *parameters* a text declares, with commas between them."""
    if parameters.strip() in ("", "void"):
        return 0
    depth = count = 0
    for letter in parameters:
        depth += (letter in "(<[{") - (letter in ")>]}")
        count += letter == "," and not depth
    return count + 1
