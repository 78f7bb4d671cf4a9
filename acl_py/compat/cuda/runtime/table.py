"""The functions of the runtime as data: names and arguments, which functions.txt has.

A line has the name, a "+" if the call needs a context or a "-" if it does not, and one of

    = cuEventRecord         the driver's function that has the same arguments and does the same
    event:event flags:u4    its own arguments, as in the driver's functions.txt; a coroutine answers it

There are two more kinds of arguments: `extent` and `pitched`, structures by value.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from acl_py.compat.cuda.library import signatures
from acl_py.compat.cuda.library.signatures import Signature

_FILE = Path(__file__).with_name("functions.txt")
# Their stream 0 is that of the process, even in a program whose default streams are those of threads.
_WITHOUT_TWIN = ("cudaMemcpyPeer", "cudaMemcpyPeerAsync")


class Function(NamedTuple):
    """A function of the runtime.

    Attributes:
        signature: Its name and its arguments.
        needs_context: Whether its call makes the primary context current where no context is.
        same: The driver's function that does the same, or "".
    """

    signature: Signature
    needs_context: bool
    same: str

    @property
    def has_twin(self) -> bool:
        """Whether a program can ask for one that takes the default stream of the thread."""
        return self.signature.name not in _WITHOUT_TWIN


@cache
def read() -> dict[str, Function]:
    """Return all functions by name."""
    return {line.partition(" ")[0]: _function(line) for line in _FILE.read_text().splitlines()}


def function_of(name: str, count: int) -> Function | None:
    """Return the function *name* if the table has it with *count* arguments."""
    function = read().get(name)
    return None if function is None or len(function.signature.parameters) != count else function


def _function(line: str) -> Function:
    name, context, *rest = line.split()
    same = rest[1] if rest[:1] == ["="] else ""
    signature = signatures.read()[same]._replace(name=name) if same else signatures.signature(name, rest)
    return Function(signature, context == "+", same)
