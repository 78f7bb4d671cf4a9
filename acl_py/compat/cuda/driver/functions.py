"""Functions: kernels in a context, with their parameters and attributes."""

from acl_py.compat.cuda.driver.modules import Function, Module
from acl_py.compat.cuda.face.calls import answers, function_of
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.texts import c_text


@answers("cuFuncGetName")
async def function_name(driver: Driver, handle: int) -> int:
    """The name of a function. Where others say that 0 is no handle, this one says that it is no value."""
    if not handle:
        raise RefusedError(INVALID_VALUE, "0 is no function")
    return c_text(function_of(driver, handle).kernel.name)


@answers("cuFuncGetModule")
async def function_module(_: Driver, function: Function) -> Module:
    """The module of a function."""
    return function.module


@answers("cuFuncIsLoaded")
async def function_is_loaded(*_: object) -> int:
    """Whether a function is loaded: it is."""
    return 1


@answers("cuFuncGetParamInfo")
async def function_parameter(_: Driver, function: Function, index: int) -> tuple[int, int]:
    """Where a parameter begins, and its bytes."""
    return parameter_of(function, index)


def parameter_of(function: Function, index: int) -> tuple[int, int]:
    """Return where the parameter *index* of *function* begins, and its bytes."""
    if index >= len(function.offsets):
        raise RefusedError(INVALID_VALUE, f"{function.kernel.name} has {len(function.offsets)} parameters")
    return function.offsets[index]


@answers("cuFuncGetAttribute")
async def function_attribute(driver: Driver, number: int, function: Function) -> int:
    """An attribute of a function."""
    return attribute_of(driver, number, function)


@answers("cuFuncSetAttribute")
async def set_function_attribute(_: Driver, function: Function, number: int, value: int) -> None:
    """Set an attribute of a function."""
    set_attribute(function, number, value)


_MAX_DYNAMIC = 8
_SETTABLE = range(_MAX_DYNAMIC, 16)
_ATTRIBUTES = range(16)  # CUfunction_attribute


def attribute_of(driver: Driver, number: int, function: Function) -> int:
    """Return the attribute *number* of *function*."""
    if number not in _ATTRIBUTES:
        raise RefusedError(INVALID_VALUE, f"there is no attribute {number} of functions")
    needs = function.kernel.needs(driver.runtime)
    known = (
        needs.block_threads, needs.shared_bytes, needs.constant_bytes, needs.local_bytes, needs.registers,
        needs.ptx_version, 90, 0, needs.dynamic_shared, -1,
    )  # fmt: skip
    return function.settings.get(number, known[number] if number < len(known) else 0)


def set_attribute(function: Function, number: int, value: int) -> None:
    """Set the attribute *number* of *function*."""
    if number not in _SETTABLE:
        raise RefusedError(INVALID_VALUE, f"the attribute {number} of functions cannot be set")
    if number == _MAX_DYNAMIC:
        function.kernel.allow_shared(value)
    function.settings[number] = value
