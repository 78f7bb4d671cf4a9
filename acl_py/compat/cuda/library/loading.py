"""Libraries that are written and loaded: whatever asks the loader for their soname then gets them."""

import ctypes
import os
import platform
from collections.abc import Sequence
from contextlib import suppress

from acl_py.compat.cuda.library.elf import ANSWER, ENTRIES, TABLE, entry_bytes, shared_object
from acl_py.compat.cuda.library.machine import MACHINES


class Library:
    """A library in this process, with the functions *names* and one or more *sonames*.

    It is never unloaded. A function for which `put` has not given an address returns the *answer*. If it
    *takes_capsules*, its functions take a capsule, and get the class of what it holds, and with that: see machine.py.
    If it *is_private*, nobody finds its functions but by `address`.

    Raises:
        RuntimeError: This process can load no such library; the message says why.
    """

    def __init__(
        self,
        sonames: Sequence[str],
        names: Sequence[str],
        answer: int,
        *,
        takes_capsules: bool = False,
        is_private: bool = False,
    ) -> None:
        first, *others = sonames
        machine = _machine()
        file = shared_object(
            first, names, machine, answer=answer, takes_capsules=takes_capsules, is_private=is_private
        )  # fmt: skip
        self._library = _loaded(file)
        for soname in others:  # the loader searches them, and then the first one
            _loaded(shared_object(soname, (), machine, needed=(first,)))
        self._places = {name: place for place, name in enumerate(names)}
        self._answer = ctypes.c_int.in_dll(self._library, ANSWER)
        self._table = (ctypes.c_void_p * len(names)).in_dll(self._library, TABLE)
        self._entries = ctypes.addressof(ctypes.c_char.in_dll(self._library, ENTRIES))
        self._entry_bytes = entry_bytes(takes_capsules=takes_capsules)

    def put(self, name: str, address: int) -> None:
        """Let calls of the function *name* go to *address* from now on."""
        self._table[self._places[name]] = address

    def has(self, name: str) -> bool:
        """Whether calls of the function *name* go anywhere."""
        return bool(self._table[self._places[name]])

    def clear(self, answer: int) -> None:
        """Let all functions return *answer* from now on."""
        self._answer.value = answer
        ctypes.memset(self._table, 0, ctypes.sizeof(self._table))

    def address(self, name: str) -> int:
        """Return the address of the function *name* in the library."""
        return self._entries + self._entry_bytes * self._places[name]


def _machine() -> str:
    """Return the kind of processor; RuntimeError if there are no libraries for it, or no glibc."""
    machine = platform.machine()
    if machine not in MACHINES or platform.libc_ver()[0] != "glibc" or platform.python_implementation() != "CPython":
        found = f"{platform.python_implementation()} on {platform.system()} {machine}"
        raise RuntimeError(
            f"the CUDA driver needs CPython on Linux with glibc, on {' or '.join(MACHINES)}; this is {found}, "
            f"with {platform.libc_ver()[0] or 'no glibc'}"
        )
    return machine


def _loaded(content: bytes) -> ctypes.CDLL:
    """Load a library from memory, or by a temporary file where the system refuses that."""
    with suppress(OSError):
        descriptor = os.memfd_create("acl_py")
        os.write(descriptor, content)
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}", ctypes.RTLD_GLOBAL)  # it stays open: the path is its name
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(content)
            file.flush()
            return ctypes.CDLL(file.name, ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise RuntimeError(
            f"the system loads no library from memory or from {tempfile.gettempdir()}: {error}; "
            "let TMPDIR name a folder whose files may be executed"
        ) from error
