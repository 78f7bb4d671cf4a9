"""CUDA arrays, and copies to and from them."""

from struct import Struct
from typing import Any

from acl_py.compat.cuda.driver import copies, cuda_arrays
from acl_py.compat.cuda.driver.copies import Box, End
from acl_py.compat.cuda.driver.cuda_arrays import CudaArray, Form, copy_bytes, copy_in, copy_out
from acl_py.compat.cuda.face.codes import NOT_SUPPORTED, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.callbacks import Extent
from acl_py.compat.cuda.runtime.copies import kind_of
from acl_py.compat.cuda.runtime.entries import answers

_CHANNELS = Struct("<4iI")  # cudaChannelFormatDesc: the bits of each channel, and the kind of its numbers
_EXTENT, _FLAGS = Struct("<3Q"), Struct("<I")
_INVALID_CHANNEL_DESCRIPTOR = 20
_LAST_PLAIN = 3  # cudaChannelFormatKind; those behind it pack, compress or split the channels
_FORMATS = {  # CUarray_format: the kind of numbers, and their bits
    1: (1, 8), 2: (1, 16), 3: (1, 32), 8: (0, 8), 9: (0, 16), 10: (0, 32), 0x10: (2, 16), 0x20: (2, 32),
}  # fmt: skip
_NUMBERS = {numbers: format_ for format_, numbers in _FORMATS.items()}


@answers("cudaMallocArray")
async def allocate(_: Driver, channels: int, width: int, height: int, flags: int) -> CudaArray:
    """Make an array of one or two dimensions."""
    return await cuda_arrays.make(Form(width, height, 0, *_format_at(channels), flags))


@answers("cudaMalloc3DArray")
async def allocate_planes(_: Driver, channels: int, extent: Extent, flags: int) -> CudaArray:
    """Make an array of up to three dimensions, or of layers."""
    form = Form(extent.width, extent.height, extent.depth, *_format_at(channels), flags)
    return await cuda_arrays.make(form)


def _format_at(address: int) -> tuple[int, int]:
    """Return the driver's format and the number of channels that a structure describes."""
    *bits, kind = _CHANNELS.unpack(own_memory.read(address, _CHANNELS.size))
    if kind > _LAST_PLAIN:
        raise RefusedError(NOT_SUPPORTED, f"arrays of channels of the kind {kind} are not simulated")
    used = [each for each in bits if each]
    format_ = _NUMBERS.get((kind, bits[0]))
    if format_ is None or bits != [bits[0]] * len(used) + [0] * (4 - len(used)) or len(used) not in (1, 2, 4):
        raise RefusedError(_INVALID_CHANNEL_DESCRIPTOR, f"there are no channels of {bits} bits of the kind {kind}")
    return format_, len(used)


@answers("cudaFreeArray")
async def free(driver: Driver, handle: int) -> None:
    """End an array; 0 is none, and nothing happens."""
    if handle:
        await cuda_arrays.destroy(driver, driver.find("array", handle))


@answers("cudaArrayGetInfo")
async def info(_: Driver, channels: int, extent: int, flags: int, array: CudaArray) -> None:
    """Write the form of an array to each address that is not null."""
    form = array.form
    if extent:
        own_memory.write(extent, _EXTENT.pack(form.width, form.height, form.depth))
    if flags:
        own_memory.write(flags, _FLAGS.pack(form.flags))
    if channels:
        own_memory.write(channels, _packed(form))


@answers("cudaGetChannelDesc")
async def channels_of(_: Driver, place: int, array: CudaArray) -> None:
    """Write what the channels of an array are."""
    own_memory.write(place, _packed(array.form))


def _packed(form: Form) -> bytes:
    kind, bits = _FORMATS[form.format]
    return _CHANNELS.pack(*[bits] * form.channels, *[0] * (4 - form.channels), kind)


# --- copies of rows; the offset is in bytes and rows


def _of_array(driver: Driver, array: CudaArray, x: int, y: int) -> End:
    return End(x, y, 0, 0, copies.ARRAY, 0, 0, driver.handle("array", array), 0, 0, 0)


def _of_address(address: int, pitch: int) -> End:
    return End(0, 0, 0, 0, 0, 0, address, 0, 0, pitch, 0)


@answers("cudaMemcpy2DToArray", "cudaMemcpy2DToArrayAsync")
async def copy_rows_to(
    driver: Driver,
    to: CudaArray,
    x: int,
    y: int,
    src: int,
    pitch: int,
    width: int,
    height: int,
    kind: int,
    *stream: Any,
) -> None:
    """Copy rows to an array, in *stream* if there is one."""
    box = Box(_of_address(src, pitch), _of_array(driver, to, x, y), width, height, 1)
    await copies.copy_box(driver, box, *stream, kind=kind_of(kind))


@answers("cudaMemcpy2DFromArray", "cudaMemcpy2DFromArrayAsync")
async def copy_rows_from(
    driver: Driver,
    dst: int,
    pitch: int,
    src: CudaArray,
    x: int,
    y: int,
    width: int,
    height: int,
    kind: int,
    *stream: Any,
) -> None:
    """Copy rows from an array, in *stream* if there is one."""
    box = Box(_of_array(driver, src, x, y), _of_address(dst, pitch), width, height, 1)
    await copies.copy_box(driver, box, *stream, kind=kind_of(kind))


@answers("cudaMemcpy2DArrayToArray")
async def copy_rows_between(
    driver: Driver,
    dst: CudaArray,
    to_x: int,
    to_y: int,
    src: CudaArray,
    x: int,
    y: int,
    width: int,
    height: int,
    kind: int,
) -> None:
    """Copy rows from one array to another."""
    box = Box(_of_array(driver, src, x, y), _of_array(driver, dst, to_x, to_y), width, height, 1)
    await copies.copy_box(driver, box, kind=kind_of(kind))


# --- copies of bytes, which go on in the next row


@answers("cudaMemcpyToArray", "cudaMemcpyToArrayAsync")
async def copy_to(
    driver: Driver, dst: CudaArray, x: int, y: int, src: int, nbytes: int, kind: int, *stream: Any
) -> None:
    """Copy bytes to an array, in *stream* if there is one."""
    await copy_in(driver, dst.bytes_from(y * dst.form.pitch + x, nbytes), src, kind_of(kind), *stream)


@answers("cudaMemcpyFromArray", "cudaMemcpyFromArrayAsync")
async def copy_from(
    driver: Driver, dst: int, src: CudaArray, x: int, y: int, nbytes: int, kind: int, *stream: Any
) -> None:
    """Copy bytes from an array, in *stream* if there is one."""
    await copy_out(driver, dst, src.bytes_from(y * src.form.pitch + x, nbytes), kind_of(kind), *stream)


@answers("cudaMemcpyArrayToArray")
async def copy_between(
    _: Driver, dst: CudaArray, to_x: int, to_y: int, src: CudaArray, x: int, y: int, nbytes: int, kind: int
) -> None:
    """Copy bytes from one array to another."""
    to, source = dst.bytes_from(to_y * dst.form.pitch + to_x, nbytes), src.bytes_from(y * src.form.pitch + x, nbytes)
    await copy_bytes(to, source, kind_of(kind))
