"""Calls that no program should make: addresses that are not there or not aligned, memory that was freed, handles of
nothing, of other kinds and of other sessions, numbers out of range, and all that in several threads.

Each call must return a code of the driver. What it must not do is crash, hang or raise.
"""

import ctypes
import mmap
import random
import threading
from collections import Counter

from acl_py.compat.cuda.face.calls import answered
from acl_py.compat.cuda.face.codes import NAMES
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.signatures import Parameter, Signature, read
from tests.cuda.calling import OUT, Cuda, pointers

_NUMBERS = (0, 1, 2, 3, 7, 8, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63, 2**64 - 1)
# They call an address that the program gives: one that holds no code is the end of any process.
_CALLING = ("cuLaunchHostFunc", "cuStreamAddCallback", "cuOccupancyMaxPotentialBlockSize")


def fenced_page(content: bytes) -> tuple[int, object]:
    """Return the address of a page with *content*, between two that cannot be used, and what keeps it."""
    pages = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    first = ctypes.c_char.from_buffer(pages)
    address = ctypes.addressof(first)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for page in (address, address + 2 * mmap.PAGESIZE):
        assert protect(page, mmap.PAGESIZE, 0) == 0
    ctypes.memmove(address + mmap.PAGESIZE, content, mmap.PAGESIZE)
    return address + mmap.PAGESIZE, first


def lose_context(cuda: Cuda) -> None:
    """Let a kernel write where there is no memory: the context is lost for good."""
    values = pointers(ctypes.c_uint64(64), ctypes.c_uint32(5), ctypes.c_uint32(1))
    assert cuda("cuLaunchKernel", cuda.function(), 1, 1, 1, 32, 1, 1, 0, 0, values, None) == 0
    assert cuda("cuCtxSynchronize") == 700


class Hostile:
    """A program that calls functions at random, with the *seed*."""

    def __init__(self, cuda: Cuda, seed: int) -> None:
        self._cuda = cuda
        self._random = random.Random(seed)
        self._area, self._kept = fenced_page(self._random.randbytes(mmap.PAGESIZE))
        cuda("cuMemHostRegister_v2", self._area, mmap.PAGESIZE, 0)  # so there is memory of the host that devices reach
        self._handles = [0, 1, 2]
        known = [read()[name] for name in sorted(answered()) if not name.startswith(_CALLING)]
        self._functions = known * 4 + [each for each in read().values() if each.name not in answered()]

    def foreign(self, handles: list[int]) -> None:
        """Use *handles* of another session, too."""
        self._handles += handles

    @property
    def handles(self) -> list[int]:
        """Handles and addresses that calls gave out."""
        return self._handles

    def run_in_threads(self, count: int, threads: int) -> "Counter[int]":
        """Make *count* calls in each of some *threads*, in the current context, and return how often each code came."""
        codes: Counter[int] = Counter()
        _, context = self._cuda.get("cuCtxGetCurrent", OUT)

        def run() -> None:
            self._cuda("cuCtxSetCurrent", context)
            codes.update(self.run(count))

        running = [threading.Thread(target=run) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert codes.total() == count * threads
        return codes

    def run(self, count: int) -> "Counter[int]":
        """Make *count* calls, and return how often each code came."""
        codes: Counter[int] = Counter()
        for _ in range(count):
            signature = self._random.choice(self._functions)
            code = self.call(signature)
            assert code in NAMES, f"{signature.name}: {code}"
            codes[code] += 1
        return codes

    def call(self, signature: Signature) -> int:
        """Call a function with arguments of which most are wrong."""
        arguments = [self._argument(parameter) for parameter in signature.parameters]
        code, *results = self._cuda.get(self._random.choice(signature.names), *arguments)
        if code == 0:
            self._handles += results
        return code

    def _argument(self, parameter: Parameter) -> object:
        chance = self._random.random()
        if parameter.is_out and chance < 0.9:
            return OUT
        if parameter.kind == "f4":
            return ctypes.c_float(chance)
        if parameter.kind == "b64":
            return (ctypes.c_ubyte * 64)()
        if parameter.kind == "text" and chance < 0.8:
            return b"add"
        place = self._area + self._random.choice((0, 8, 61, 4095))
        known = self._random.choice(self._handles)
        near = known + self._random.choice((-8, 1, 3, 8, 4096))
        wrong = self._random.choice((known, near & (2**64 - 1)))
        return self._random.choice((place, self._random.choice(_NUMBERS), place if _is_mapped(wrong) else wrong))


def _is_mapped(address: int) -> bool:
    """Whether the process has memory there. A call may write to it, as in every library, and what is there is lost."""
    try:
        return bool(own_memory.read(address, 1))
    except own_memory.FaultError:
        return False
