"""Kernels of libraries."""

from struct import Struct

from acl_py.compat.cuda.driver.functions import attribute_of, set_attribute
from acl_py.compat.cuda.driver.libraries import Kernel, set_kernel_attribute
from acl_py.compat.cuda.driver.modules import Function
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.runtime.entries import answers

_ATTRIBUTES = Struct("<3Q15i")  # cudaFuncAttributes, up to what is reserved
# CUfunction_attribute of each of its fields.
_NUMBERS = (1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)
_RESERVED = 60


@answers("cudaGetKernel")
async def kernel(_: Driver, given: Kernel) -> Kernel:
    """The kernel that a program has already: this runtime has no functions in C++."""
    return given


@answers("cudaFuncGetAttributes")
async def attributes(driver: Driver, place: int, function: Function) -> None:
    """Write what is known of a kernel."""
    values = [attribute_of(driver, number, function) for number in _NUMBERS]
    own_memory.write(place, _ATTRIBUTES.pack(*values, 0, 0) + bytes(_RESERVED))


@answers("cudaFuncSetAttribute")
async def set_function_attribute(_: Driver, function: Function, number: int, value: int) -> None:
    """Set an attribute of a kernel in the current context."""
    set_attribute(function, number, value)


@answers("cudaKernelSetAttributeForDevice")
async def set_attribute_for_device(driver: Driver, given: Kernel, number: int, value: int, device: int) -> None:
    """Set an attribute of a kernel on a device."""
    await set_kernel_attribute(driver, number, value, given, device)


@answers("cudaFuncGetParamCount")
async def parameter_count(_: Driver, function: Function) -> int:
    """How many parameters a kernel has."""
    return len(function.offsets)
