"""Libraries: texts in PTX that are loaded in each context in which they are used, and their kernels, which become
functions there.
"""

from acl_py.compat.cuda.driver.functions import attribute_of, parameter_of, set_attribute
from acl_py.compat.cuda.driver.modules import Function, Module, end, load, names_in, text_of_file, write_handles
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_FOUND, RefusedError
from acl_py.compat.cuda.face.images import text_at
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.texts import c_text
from device_model.contexts import Context


class Library:
    """A library: a text, which is a module in each context that uses it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.modules: dict[Context, Module] = {}
        self.kernels: dict[str, Kernel] = {}


class Kernel:
    """A kernel of a library, in whichever context."""

    def __init__(self, library: Library, name: str) -> None:
        self.library = library
        self.name = name

    def function(self, context: Context) -> Function:
        """Return the kernel in *context*; `RefusedError` if the library is not loaded there."""
        if context not in self.library.modules:
            raise RefusedError(NOT_FOUND, f"the library of {self.name!r} is not loaded in {context!r}")
        return self.library.modules[context].function(self.name)


async def module_in(driver: Driver, library: Library) -> Module:
    """Return the module that *library* is in the current context; it is loaded at the first use."""
    context = driver.thread.context
    if context not in library.modules:
        library.modules[context] = await load(library.text)
    return library.modules[context]


@answers("cuLibraryLoadData")
async def load_library(driver: Driver, image: int, *_options: int) -> Library:
    """Load an image as a library."""
    return await _library(driver, text_at(image))


@answers("cuLibraryLoadFromFile")
async def load_library_file(driver: Driver, name: str, *_options: int) -> Library:
    """Load a file as a library."""
    return await _library(driver, text_of_file(name))


async def _library(driver: Driver, text: str) -> Library:
    library = Library(text)
    if driver.thread.has_context:
        await module_in(driver, library)
    return library


@answers("cuLibraryUnload")
async def unload_library(driver: Driver, library: Library) -> None:
    """End a library with its kernels, in each context where it is a module."""
    for context, module in library.modules.items():
        with driver.thread.inside(context):
            await end(driver, module)
    for thing in (*library.kernels.values(), library):
        driver.handles.forget(thing)


@answers("cuLibraryGetKernel")
async def library_kernel(driver: Driver, library: Library, name: str) -> Kernel:
    """A kernel by its name."""
    if driver.thread.has_context:
        (await module_in(driver, library)).function(name)
    elif name not in names_in(library.text):
        raise RefusedError(NOT_FOUND, f"there is no kernel {name!r}")
    return library.kernels.setdefault(name, Kernel(library, name))


@answers("cuLibraryGetKernelCount")
async def library_count(driver: Driver, library: Library) -> int:
    """How many kernels a library has."""
    return len((await module_in(driver, library)).loaded)


@answers("cuLibraryEnumerateKernels")
async def library_kernels(driver: Driver, place: int, count: int, library: Library) -> None:
    """Write the handles of the first kernels."""
    module = await module_in(driver, library)
    kernels = [await library_kernel(driver, library, name) for name in module.loaded]
    write_handles(driver, place, "kernel", kernels[:count])


@answers("cuLibraryGetModule")
async def library_module(driver: Driver, library: Library) -> Module:
    """The module that a library is in the current context."""
    return await module_in(driver, library)


@answers("cuLibraryGetGlobal", "cuLibraryGetManaged")
async def library_variable(driver: Driver, library: Library, name: str) -> tuple[int, int]:
    """A variable by its name."""
    return (await module_in(driver, library)).variable(name)


@answers("cuKernelGetFunction")
async def kernel_function(driver: Driver, kernel: Kernel) -> Function:
    """What a kernel is in the current context."""
    return (await module_in(driver, kernel.library)).function(kernel.name)


@answers("cuKernelGetLibrary")
async def kernel_library(_: Driver, kernel: Kernel) -> Library:
    """The library of a kernel."""
    return kernel.library


@answers("cuKernelGetName")
async def kernel_name(driver: Driver, handle: int) -> int:
    """The name of a kernel. Where others say that 0 is no handle, this one says that it is no value."""
    if not handle:
        raise RefusedError(INVALID_VALUE, "0 is no kernel")
    kernel: Kernel = driver.find("kernel", handle)
    return c_text(kernel.name)


@answers("cuKernelGetParamInfo")
async def kernel_parameter(driver: Driver, kernel: Kernel, index: int) -> tuple[int, int]:
    """Where a parameter begins, and its bytes."""
    return parameter_of(await kernel_function(driver, kernel), index)


@answers("cuKernelGetAttribute")
async def kernel_attribute(driver: Driver, number: int, kernel: Kernel, _device: int) -> int:
    """An attribute of a kernel."""
    return attribute_of(driver, number, await kernel_function(driver, kernel))


@answers("cuKernelSetAttribute")
async def set_kernel_attribute(driver: Driver, number: int, value: int, kernel: Kernel, _device: int) -> None:
    """Set an attribute of a kernel."""
    set_attribute(await kernel_function(driver, kernel), number, value)
