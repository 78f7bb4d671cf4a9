"""acl.rt: binaries of kernels, their functions, and launches with arguments in device memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import _getframe
from typing import Any, ClassVar

import acl_py as native
from acl_py.compat.acl.face.binding import WrongContainerError, gives, runs, takes
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, PARAM_INVALID, Session, session
from acl_py.compat.acl.standins import kernel_files
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.kernels import ALIGNMENT, BinaryKernel
from acl_py.compat.acl.standins.loading import scope_here
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site, site_of
from acl_py.verbs.kernels import Launchable, Launches
from device_model import memory
from device_model.memory import Buffer, Space
from device_model.streams import Stream
from device_model.work import Work

_LAZY_LOAD, _MAGIC, _CPU_KERNEL_MODE = 1, 2, 3  # aclrtBinaryLoadOptionType
_MAGICS = (0x43554245, 0x41415246, 0x41494343)  # of binaries for AI cores, vector cores and cube cores
_LONGEST_NAME = 1024  # that the binding has room for
_CODE = 1 << 63  # addresses of code, at which there is no memory

_Arguments = Callable[[Runtime], tuple[bytes, Mapping[int, Buffer]]]


@dataclass(eq=False, slots=True)
class Binary:
    """What create_binary made: where the bytes of a binary are."""

    address: int
    size: int
    made: Site


@dataclass(eq=False)
class LoadedBinary:
    """A binary that is loaded, and its functions that were asked for."""

    ending: ClassVar[str] = "unloaded"
    name: str
    kernels: Mapping[str, BinaryKernel]
    made: Site
    functions: dict[str, "Function"] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<binary {self.name} loaded at {self.made}>"


@dataclass(eq=False)
class Function:
    """A kernel of a loaded binary, as a script holds it; it ends with the binary."""

    ending: ClassVar[None] = None
    binary: LoadedBinary
    kernel: BinaryKernel

    def __repr__(self) -> str:
        return f"<function {self.kernel.name} of {self.binary!r}>"


# --- loading


@gives("sl")
def binary_load_from_file(here: Session, path: str, options: list[dict[str, int]]) -> int:
    """Load a binary, which has a sidecar or was registered; the file itself is not read."""
    _check_options(here, "binary_load_from_file", options, from_file=True)
    return here.handle(LoadedBinary(Path(path).name, kernel_files.find(here, path), site_of(_getframe(1))))


@gives("kkl")
def binary_load_from_data(here: Session, address: int, size: int, options: list[dict[str, int]]) -> int:
    """Load a binary whose bytes are in host memory: those of a file with a sidecar, or registered ones."""
    _check_options(here, "binary_load_from_data", options, from_file=False)
    return _from_memory(here, address, size, site_of(_getframe(1)))


@takes("kk")
def create_binary(address: int, size: int) -> int:
    """Say where the bytes of a binary are, for binary_load; 0 if the address is."""
    here = session()
    if not address:
        here.refuse(INVALID_PARAM, "the binary is NULL")
        return 0
    return here.handle(Binary(address, size, site_of(_getframe(1))))


@runs("k")
async def destroy_binary(here: Session, handle: int) -> None:
    """End what create_binary made, which loaded binaries do not need any more."""
    here.thing(handle, Binary)
    here.forget(handle)


@gives("k")
def binary_load(here: Session, handle: int) -> int:
    """Load the binary that create_binary described."""
    binary = here.thing(handle, Binary)
    return _from_memory(here, binary.address, binary.size, site_of(_getframe(1)))


@runs("k")
async def binary_unload(here: Session, handle: int) -> None:
    """Unload a binary: the handles of its functions end. Launches that have not ended run on, unlike on a card."""
    binary = here.thing(handle, LoadedBinary)
    labels = [function.kernel.launchable.label for function in binary.functions.values()]
    running = [op for op in here.runtime.unfinished() if op.work.label in labels] if labels else []
    if running:
        at = site_of(_getframe(1))
        here.warn_once(f"acl.rt.binary_unload() at {at} unloads the code of {running[0]!r}, which has not ended")
    for function in binary.functions.values():
        here.forget(here.handle(function))
    here.forget(handle)


def _from_memory(here: Session, address: int, size: int, site: Site) -> int:
    content = kernel_files.content_at(here, address, size, "the binary")
    return here.handle(LoadedBinary(f"of {size} bytes", kernel_files.find_content(here, content), site))


def _check_options(here: Session, name: str, options: list[dict[str, int]], *, from_file: bool) -> None:
    """Refuse options of loading that there are not."""
    for kind, value in pairs(name, options, "type"):
        if kind == _CPU_KERNEL_MODE:
            raise here.error(NOT_SUPPORTED, "kernels of the AI CPU are not simulated")
        lazy, magic = kind == _LAZY_LOAD and value in (0, 1), kind == _MAGIC and value in _MAGICS and not from_file
        if not (lazy or magic):
            raise here.error(PARAM_INVALID, f"the option {kind} cannot be {value:#x} in acl.rt.{name}")


def pairs(name: str, entries: list[dict[str, int]], key: str) -> list[tuple[int, int]]:
    """The numbers under *key* and "value" in each of the dicts that *name* takes; TypeError if one has none."""
    for entry in entries:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(each), int) for each in (key, "value")):
            what = f"acl.rt.{name} args parse failed: {entry!r} is no dict with ints {key!r} and 'value'"
            raise WrongContainerError(what)
    return [(entry[key], entry["value"] & 0xFFFFFFFF) for entry in entries]


# --- functions


@gives("ks")
def binary_get_function(here: Session, handle: int, name: str) -> int:
    """The handle of a kernel, by its name: the same one each time."""
    binary = here.thing(handle, LoadedBinary)
    kernel = binary.kernels.get(name)
    if kernel is None:
        known = ", ".join(binary.kernels) or "none"
        warn(
            f"{binary!r} has no kernel {name!r}; its kernels are {known}",
            "add a table [[kernels]] of that name to its sidecar",
        )
        raise here.error(PARAM_INVALID, f"{binary!r} has no kernel {name!r}; its kernels are {known}")
    return here.handle(binary.functions.setdefault(name, Function(binary, kernel)))


@gives("ku", failure="")
def get_function_name(here: Session, handle: int, length: int) -> str:
    """The name of a function, for which there is room for *length* characters with the end."""
    if length >= _LONGEST_NAME:
        raise ValueError(f"acl.rt.get_function_name: maxLen should be less than {_LONGEST_NAME}, not {length}")
    name = here.thing(handle, Function).kernel.name
    if len(name.encode()) >= length:
        raise here.error(PARAM_INVALID, f"{name} does not fit into {length} characters")
    return name


@gives("k", failure=(0, 0))
def get_function_addr(here: Session, handle: int) -> tuple[int, int]:
    """Where the code for AI (cube) cores is, and that for vector cores: 0 if it does not run there. Nothing can be read
    there.
    """
    kind, address = here.thing(handle, Function).kernel.launchable.kernel_type, _CODE + handle
    if kind is None:
        return address, 0
    return (address if kind.cubes else 0), (address if kind.vectors else 0)


@gives("kss")
def register_cpu_func(here: Session, handle: int, function: str, kernel: str) -> int:
    """Refuse: this is for binaries of the AI CPU, and those cannot be loaded."""
    if not function or not kernel:
        raise ValueError("acl.rt.register_cpu_func args parse failed: argument 2 or 3 must not be empty")
    raise here.error(PARAM_INVALID, f"{here.thing(handle, LoadedBinary)!r} is not a binary of the AI CPU")


# --- launching


class Limited(Launchable[...]):
    """A kernel that may run for *limit_ns*, whatever acl.rt.set_op_execute_time_out() says."""

    def __init__(self, kernel: Launchable[...], limit_ns: int) -> None:
        # Not super().__init__(): it stands for *kernel*.
        self.name, self.label = kernel.name, kernel.label
        self._kernel = kernel
        self._limit_ns = limit_ns

    def __repr__(self) -> str:
        return repr(self._kernel)

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Work:
        """What the kernel does."""
        launches = runtime.state(Launches)
        usual, launches.limit_ns = launches.limit_ns, self._limit_ns
        try:
            return self._kernel.work(runtime, blocks, args)
        finally:
            launches.limit_ns = usual


async def launch(
    here: Session, function: Function, blocks: int, arguments: _Arguments, stream: Stream | None, limit_ns: int = 0
) -> None:
    """Queue *function*; *arguments* gives them as `BinaryKernel.arguments` takes them."""
    runtime, kernel = scope_here().runtime, function.kernel
    block, held = arguments(runtime)
    values = kernel.arguments(runtime, block, held)
    if len(block) >= kernel.nbytes + ALIGNMENT:
        here.warn_once(
            f"{function!r} takes {kernel.nbytes} bytes of arguments, and got {len(block)}: is one undeclared?"
        )
    launchable = kernel.launchable_for(values)
    await native.LaunchKernel(Limited(launchable, limit_ns) if limit_ns else launchable, blocks, values, stream)


@runs("kukkk")
def launch_kernel(here: Session, handle: int, blocks: int, args: int, size: int, stream: int) -> Running:
    """Queue a kernel whose arguments lie in device memory; they are read at once, so they must have been written."""
    function, queue = here.thing(handle, Function), here.streams[stream]
    if not args:
        raise here.error(INVALID_PARAM, "the address of the arguments is 0")

    def arguments(runtime: Runtime) -> tuple[bytes, Mapping[int, Buffer]]:
        place = runtime.memory.at(args, size, "the arguments")
        if place.allocation.space is Space.PAGEABLE:
            raise runtime.error(
                Kind.INVALID_ADDRESS,
                f"the arguments of {function!r} are in host memory that the device cannot reach",
                "copy them to device memory, or use kernel_args_init() and launch_kernel_with_config()",
            )
        _check_written(runtime, place)
        return memory.array(place.allocation, place.offset, "u1", size).tobytes(), {}

    return launch(here, function, blocks, arguments, queue)


def _check_written(runtime: Runtime, place: Buffer) -> None:
    """Refuse arguments that queued work has yet to write: a card would read them when the kernel starts."""
    stop = place.offset + place.nbytes
    for op in runtime.unfinished():
        for allocation, first, end in op.work.writes():
            if allocation is place.allocation and first < stop and place.offset < end:
                raise runtime.error(
                    Kind.NOT_SUPPORTED,
                    f"the arguments at {place!r} are yet to be written by {op!r}",
                    "synchronise before launch_kernel(): here arguments are read when a kernel is launched",
                )
