"""Launches of kernels, and of functions of the host."""

import ctypes
from collections.abc import Callable, Coroutine, Sequence
from itertools import accumulate
from struct import Struct, unpack
from typing import Any, NamedTuple

import numpy as np

import acl_py as native
from acl_py.compat.cuda.driver.modules import Function
from acl_py.compat.cuda.driver.streams import stream_of
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.ptx.text.syntax import Variable
from device_model.ptx.text.types import Family

_CONFIG = Struct("<7I4xQQI4x")  # CUlaunchConfig
_ATTRIBUTE = Struct("<I4x64s")  # CUlaunchAttribute
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
ONE_BLOCK = (1, 1, 1)  # the only cluster that is simulated
_END, _BUFFER, _SIZE = range(3)  # of `extra`
_MOST_EXTRA = 8  # entries of it
_DTYPES = {Family.SIGNED: "i", Family.FLOAT: "f"}  # of parameters; those of other families are taken as unsigned


@answers("cuLaunchKernel")
def launch(_: Driver, function: Function, *where: Any) -> Coroutine[Any, Any, Any]:
    """Launch a kernel."""
    stream, arguments, extra = where[7:]
    return launch_on(function, where[:7], stream, arguments, extra)


@answers("cuLaunchCooperativeKernel")
def launch_cooperative(_: Driver, function: Function, *where: Any) -> Coroutine[Any, Any, Any]:
    """Launch a kernel whose blocks all run at the same time."""
    stream, arguments = where[7:]
    return launch_on(function, where[:7], stream, arguments, 0, is_cooperative=True)


@answers("cuLaunchKernelEx")
async def launch_ex(driver: Driver, config: int, function: Function, arguments: int, extra: int) -> None:
    """Launch a kernel as a structure says."""
    given = config_at(config)
    if given.cluster != ONE_BLOCK:
        what = f"a launch with clusters of {given.cluster}"
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, what, "leave them out")
    queue, shape = driver.stream(given.stream), (*given.grid, *given.block, given.shared)
    await launch_on(function, shape, queue, arguments, extra, is_cooperative=given.is_cooperative)


class Config(NamedTuple):
    """How a structure says that a kernel is to be launched."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    cluster: tuple[int, ...]
    is_cooperative: bool


def config_at(address: int) -> Config:
    """Return the launch that the structure at *address* describes."""
    *shape, shared, stream, attributes, count = _CONFIG.unpack(own_memory.read(address, _CONFIG.size))
    known = dict(_ATTRIBUTE.iter_unpack(own_memory.read(attributes, _ATTRIBUTE.size * count)))
    cluster = unpack("<3I", known[_CLUSTER][:12]) if _CLUSTER in known else ONE_BLOCK
    (is_cooperative,) = unpack("<i", known.get(_COOPERATIVE, bytes(4))[:4])
    return Config(tuple(shape[:3]), tuple(shape[3:]), shared, stream, cluster, bool(is_cooperative))


def launch_on(
    function: Function, shape: tuple[int, ...], stream: Any, arguments: int, extra: int, *, is_cooperative: bool = False
) -> Coroutine[Any, Any, Any]:
    """Launch a kernel of a *shape*: grid, block and bytes of shared memory. Its *arguments* are an array of addresses,
    or *extra* names a buffer with all of them.
    """
    raw = _from_buffer(function, extra) if extra else _from_pointers(function, arguments)
    values = [_value(*each) for each in zip(function.kernel.parameters, raw, strict=True)] if raw else ()
    shaped = (function.kernel.cooperative() if is_cooperative else function.kernel).shaped(*shape)
    return native.LaunchKernel(shaped, shaped.blocks, values, stream)


def _from_pointers(function: Function, arguments: int) -> list[bytes]:
    """Return the bytes of each argument; *arguments* is an array with their addresses."""
    sizes, addresses = function.sizes, function.addresses
    if not sizes:
        return []
    places = addresses.unpack(own_memory.read(arguments, addresses.size))
    try:
        data = own_memory.gather(list(zip(places, sizes, strict=True)))
    except own_memory.FaultError as error:
        raise RefusedError(INVALID_VALUE, _unreadable(function, list(zip(places, sizes, strict=True)))) from error
    return [data[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _unreadable(function: Function, places: Sequence[tuple[int, int]]) -> str:
    """Return why a launch cannot read its arguments at *places*, pairs of address and size."""
    number, (address, size) = next(
        (number, place) for number, place in enumerate(places, 1) if not own_memory.is_readable(*place)
    )
    return (
        f"kernel {function.kernel.name} takes {len(places)} argument{'s' * (len(places) > 1)}, and nothing is at "
        f"{address:#x}, where the {size} bytes of argument {number} should be: pass all of them"
    )


def _from_buffer(function: Function, extra: int) -> list[bytes]:
    """Return the bytes of each argument; *extra* names a buffer with all of them."""
    named = {}
    for number in range(_MOST_EXTRA):
        key, value = unpack("<2Q", own_memory.read(extra + 16 * number, 16))
        if key == _END:
            break
        named[key] = value
    if set(named) != {_BUFFER, _SIZE}:
        raise RefusedError(INVALID_VALUE, "extra does not name a buffer and its size")
    (nbytes,) = unpack("<Q", own_memory.read(named[_SIZE], 8))
    data = own_memory.read(named[_BUFFER], nbytes)
    if function.offsets and sum(function.offsets[-1]) > nbytes:
        raise RefusedError(INVALID_VALUE, f"the buffer of arguments has {nbytes} bytes")
    return [data[begin : begin + size] for begin, size in function.offsets]


def _value(parameter: Variable, data: bytes) -> Any:
    """Return *data* as a launch takes it: the bits of a number, or the bytes of a structure."""
    if parameter.shape or parameter.vector > 1:
        return data
    kind = _DTYPES.get(parameter.type.family, "u")
    return np.frombuffer(data, f"{kind}{parameter.type.nbytes}")[0]


# --- functions of the host

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
_StreamCallback = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)


def checked(function: int, make: Callable[[int], Any]) -> Any:
    """Return the C function at *function* as Python calls it."""
    own_memory.read(function, 1)
    return make(function)


@answers("cuLaunchHostFunc")
async def launch_host_function(_: Driver, stream: Any, function: int, data: int) -> None:
    """Queue a call of a function of the host."""
    await native.LaunchHostFunc(stream, checked(function, HostFunction), (data,))


@answers("cuStreamAddCallback")
async def add_callback(driver: Driver, stream: Any, function: int, data: int, flags: int) -> None:
    """Queue a call of a function that gets the stream and a code."""
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")
    handle = driver.handle("stream", stream_of(driver, stream))
    await native.LaunchHostFunc(stream, checked(function, _StreamCallback), (handle, 0, data))
