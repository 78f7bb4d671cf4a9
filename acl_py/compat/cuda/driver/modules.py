"""Modules: texts in PTX that are loaded in a context."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from struct import Struct, pack
from typing import Any

from acl_py import ptx
from acl_py.compat.cuda.driver.device_runtime import with_device_runtime
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import FILE_NOT_FOUND, NOT_FOUND, RefusedError
from acl_py.compat.cuda.face.images import refused, text_at, text_in
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.runtime.scopes import current_scope
from acl_py.verbs.ptx_kernels import PtxKernel
from acl_py.verbs.ptx_modules import PtxModule
from device_model.contexts import Context
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse


class Function:
    """A kernel of a module that is loaded in a context."""

    def __init__(self, module: "Module", kernel: PtxKernel) -> None:
        self.module = module
        self.kernel = kernel
        self.settings: dict[int, int] = {}  # attributes that were set, by number
        self.sizes = [parameter.nbytes for parameter in kernel.parameters]
        self.addresses = Struct(f"<{len(self.sizes)}Q")  # the array of addresses that a launch gets

    @property
    def context(self) -> Context:
        """The context of the module."""
        return self.module.context

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """Where in parameter memory each parameter begins, and its bytes."""
        found, end = [], 0
        for parameter in self.kernel.parameters:
            begin = -(-end // parameter.align) * parameter.align
            end = begin + parameter.nbytes
            found.append((begin, parameter.nbytes))
        return found


class Module:
    """A module that is *loaded* in the current context."""

    def __init__(self, loaded: PtxModule) -> None:
        self.loaded = loaded
        self.context = current_scope().context
        self._functions: dict[str, Function] = {}

    def function(self, name: str) -> Function:
        """Return the kernel *name*; `RefusedError` with 500 if there is none."""
        if name not in self.loaded:
            raise RefusedError(NOT_FOUND, f"there is no kernel {name!r}; there is {', '.join(self.loaded) or 'none'}")
        if name not in self._functions:
            try:
                self._functions[name] = Function(self, self.loaded[name])
            except PtxError as error:
                raise refused(error) from error
        return self._functions[name]

    @property
    def functions(self) -> Iterable[Function]:
        """The kernels that were asked for."""
        return self._functions.values()

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and the bytes of the variable *name*."""
        try:
            buffer = self.loaded.variable(name)
        except KeyError as error:
            raise RefusedError(NOT_FOUND, str(error.args[0])) from error
        return buffer.address, buffer.nbytes


async def end(driver: Driver, module: Module) -> None:
    """End *module*, whose handles and those of its functions stand for nothing then."""
    await module.loaded.unload()
    for thing in (*module.functions, module):
        driver.handles.forget(thing)


async def load(text: str) -> Module:
    """Load *text* in the current context."""
    try:
        return Module(await ptx.load(with_device_runtime(text)))
    except PtxError as error:
        raise refused(error) from error


def text_of_file(name: str) -> str:
    """Return the PTX in the file *name*."""
    with reading(name) as file:
        return text_in(file)


@contextmanager
def reading(name: str) -> Iterator[Path]:
    """Give the block the path *name*; a file that cannot be read there is refused."""
    try:
        yield Path(name)
    except OSError as error:
        raise RefusedError(FILE_NOT_FOUND, f"{name}: {error.strerror}") from error


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the kernels in *text*, which need no context."""
    try:
        return tuple(parse(text).entries)
    except PtxError as error:
        raise refused(error) from error


@answers("cuModuleLoadData")
async def load_data(_: Driver, image: int) -> Module:
    """Load an image."""
    return await load(text_at(image))


@answers("cuModuleLoadDataEx")
async def load_data_ex(_: Driver, image: int, *_options: int) -> Module:
    """Load an image; options are about a compilation that does not take place."""
    return await load(text_at(image))


@answers("cuModuleLoadFatBinary")
async def load_fat_binary(_: Driver, image: int) -> Module:
    """Load a collection of machine code, which is refused."""
    return await load(text_at(image))


@answers("cuModuleLoad")
async def load_file(_: Driver, name: str) -> Module:
    """Load a file."""
    return await load(text_of_file(name))


@answers("cuModuleUnload")
async def unload(driver: Driver, module: Module) -> None:
    """End a module, its kernels and its variables."""
    await end(driver, module)


@answers("cuModuleGetFunction")
async def module_function(_: Driver, module: Module, name: str) -> Function:
    """A kernel by its name."""
    return module.function(name)


@answers("cuModuleGetGlobal_v2")
async def module_variable(_: Driver, module: Module, name: str) -> tuple[int, int]:
    """A variable by its name."""
    return module.variable(name)


@answers("cuModuleGetFunctionCount")
async def module_count(_: Driver, module: Module) -> int:
    """How many kernels a module has."""
    return len(module.loaded)


@answers("cuModuleEnumerateFunctions")
async def module_functions(driver: Driver, place: int, count: int, module: Module) -> None:
    """Write the handles of the first kernels."""
    functions = [module.function(name) for name in module.loaded][:count]
    write_handles(driver, place, "function", functions)


def write_handles(driver: Driver, place: int, kind: str, things: Iterable[Any]) -> None:
    """Write the handles of *things* at *place*."""
    own_memory.write(place, b"".join(pack("<Q", driver.handle(kind, each)) for each in things))


@answers("cuModuleGetLoadingMode")
async def loading_mode(_: Driver) -> int:
    """Lazy: kernels are compiled when they are first asked for."""
    return 2
