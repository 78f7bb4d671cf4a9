"""CUDA arrays: memory of a device that programs reach by copies only, because its layout is the card's own.

Here rows lie one behind the other, without gaps. Textures and surfaces, for which arrays are made, are not simulated.
"""

from struct import Struct
from typing import Any, NamedTuple

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_SUPPORTED, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.runtime.scopes import current_scope
from acl_py.verbs.copies import MemcpyKind
from device_model.memory import Buffer

_ROWS = Struct("<QQII")  # CUDA_ARRAY_DESCRIPTOR
_PLANES = Struct("<QQQIII4x")  # CUDA_ARRAY3D_DESCRIPTOR
_CHANNEL = {1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 0x10: 2, 0x20: 4}  # CUarray_format: bytes of a channel
_PACKED = 0x50  # formats from here on pack, compress or split the channels
_LAYERED, _CUBEMAP, _GATHER = 0x1, 0x4, 0x8
_KNOWN, _NOT_SIMULATED = 0x1FF, 0x1D0  # flags; those for depths, sparse arrays, mapping later, and video
_FACES = 6


class Form(NamedTuple):
    """What an array holds: elements of *channels*, and how many in each dimension; 0 if there is no such dimension."""

    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int = 0

    @property
    def element(self) -> int:
        """The bytes of an element."""
        return _CHANNEL[self.format] * self.channels

    @property
    def pitch(self) -> int:
        """The bytes of a row."""
        return self.width * self.element

    @property
    def rows(self) -> int:
        """The rows of a plane."""
        return max(self.height, 1)

    @property
    def planes(self) -> int:
        """The planes, or layers."""
        return max(self.depth, 1)

    @property
    def fits(self) -> bool:
        """Whether a card takes such an array."""
        sizes = (self.width, self.height, self.depth)
        return any(all(size <= most for size, most in zip(sizes, each, strict=True)) for each in self._most)

    @property
    def _most(self) -> tuple[tuple[int, int, int], ...]:
        """The largest dimensions (measured on a card of compute capability 9.0, where it was asked)."""
        is_layered = self.flags & _LAYERED
        if self.flags & _CUBEMAP:
            return ((32768, 32768, 2046 if is_layered else _FACES),)
        if is_layered:
            return ((32768, 32768, 2048),)
        if self.flags & _GATHER:
            return ((32768, 32768, 0),)
        return ((16384,) * 3, (8192, 8192, 32768)) if self.depth else ((131072, 65536, 0),)

    @property
    def is_shape(self) -> bool:
        """Whether the dimensions fit together, and to the flags."""
        if self.flags & _CUBEMAP:
            layers = self.depth % _FACES == 0 and self.depth > 0
            return self.width == self.height and layers
        if self.flags & _LAYERED:
            return self.depth > 0
        if self.flags & _GATHER:
            return self.height > 0 and not self.depth
        return self.height > 0 or not self.depth


class CudaArray:
    """An array of the current context: its *form*, and the memory that it takes."""

    def __init__(self, form: Form, memory: Buffer) -> None:
        self.form = form
        self.memory = memory
        self.context = current_scope().context

    def bytes_from(self, offset: int, nbytes: int) -> Buffer:
        """Return so many bytes of the array; `RefusedError` if it has less."""
        if offset + nbytes > self.memory.nbytes:
            raise RefusedError(
                INVALID_VALUE, f"{nbytes} bytes from {offset} on, and the array has {self.memory.nbytes}"
            )
        return self.memory[offset : offset + nbytes]

    def plane(self, at: tuple[int, int, int], size: tuple[int, int, int], number: int) -> Buffer:
        """Return where the plane *number* of a box begins, which lies *at* bytes, rows and planes and has a *size* of
        these.
        """
        form = self.form
        ends = [first + count for first, count in zip(at, size, strict=True)]
        if any(end > most for end, most in zip(ends, (form.pitch, form.rows, form.planes), strict=True)):
            raise RefusedError(INVALID_VALUE, f"a box at {at} with {size} bytes, rows and planes lies not in {form}")
        start = ((at[2] + number) * form.rows + at[1]) * form.pitch + at[0]
        return self.memory[start : start + form.pitch * (size[1] - 1) + size[0]]


async def make(form: Form) -> CudaArray:
    """Make an array of the current device."""
    _check(form)
    return CudaArray(form, await native.Malloc(form.pitch * form.rows * form.planes))


def _check(form: Form) -> None:
    if form.format not in _CHANNEL:
        code = NOT_SUPPORTED if form.format >= _PACKED else INVALID_VALUE
        raise RefusedError(code, f"arrays of the format {form.format:#x} are not simulated")
    if form.flags & _NOT_SIMULATED:
        raise RefusedError(NOT_SUPPORTED, f"arrays with the flags {form.flags:#x} are not simulated")
    if form.channels not in (1, 2, 4) or form.flags & ~_KNOWN or not form.width or not form.is_shape:
        raise RefusedError(INVALID_VALUE, f"there are no arrays of {form}")
    if not form.fits:
        raise RefusedError(INVALID_VALUE, f"no card has an array as large as {form}")


@answers("cuArrayCreate_v2")
async def create(_: Driver, address: int) -> CudaArray:
    """Make an array of one or two dimensions."""
    width, height, format_, channels = _ROWS.unpack(own_memory.read(address, _ROWS.size))
    return await make(Form(width, height, 0, format_, channels))


@answers("cuArray3DCreate_v2")
async def create_planes(_: Driver, address: int) -> CudaArray:
    """Make an array of up to three dimensions, or of layers."""
    return await make(Form(*_PLANES.unpack(own_memory.read(address, _PLANES.size))))


@answers("cuArrayGetDescriptor_v2")
async def describe(_: Driver, place: int, array: CudaArray) -> None:
    """Write the form of an array, as for `create`."""
    form = array.form
    own_memory.write(place, _ROWS.pack(form.width, form.height, form.format, form.channels))


@answers("cuArray3DGetDescriptor_v2")
async def describe_planes(_: Driver, place: int, array: CudaArray) -> None:
    """Write the form of an array, as for `create_planes`."""
    own_memory.write(place, _PLANES.pack(*array.form))


@answers("cuArrayDestroy")
async def destroy(driver: Driver, array: CudaArray) -> None:
    """End an array, and give its memory back."""
    await native.Free(array.memory)
    driver.handles.forget(array)


# --- copies of bytes; those of rows and planes are with all others


async def copy_in(driver: Driver, to: Buffer, src: int, kind: MemcpyKind, *stream: Any) -> None:
    """Copy as many bytes as *to* has from the address *src*, in *stream* if there is one."""
    if to.nbytes:
        await copy_bytes(to, driver.runtime.memory.at(src, to.nbytes, "src"), kind, *stream)


async def copy_out(driver: Driver, dst: int, source: Buffer, kind: MemcpyKind, *stream: Any) -> None:
    """Copy *source* to the address *dst*, in *stream* if there is one."""
    if source.nbytes:
        await copy_bytes(driver.runtime.memory.at(dst, source.nbytes, "dst"), source, kind, *stream)


async def copy_bytes(dst: Buffer, src: Buffer, kind: MemcpyKind, *stream: Any) -> None:
    """Copy as many bytes as *dst* has, in *stream* if there is one."""
    verb: Any = native.MemcpyAsync if stream else native.Memcpy
    await verb(dst, dst.nbytes, src, src.nbytes, kind, *stream)


def _line(array: CudaArray, offset: int, nbytes: int) -> Buffer:
    """Return bytes of the first row, the only one that these copies reach (measured)."""
    if offset + nbytes > array.form.pitch:
        raise RefusedError(INVALID_VALUE, f"{nbytes} bytes from {offset} on, and a row of {array.form} is shorter")
    return array.bytes_from(offset, nbytes)


@answers("cuMemcpyDtoA_v2")
async def copy_from_device(driver: Driver, array: CudaArray, offset: int, src: int, nbytes: int) -> None:
    """Copy from memory of a device to an array."""
    await copy_in(driver, _line(array, offset, nbytes), src, MemcpyKind.DEVICE_TO_DEVICE)


@answers("cuMemcpyAtoD_v2")
async def copy_to_device(driver: Driver, dst: int, array: CudaArray, offset: int, nbytes: int) -> None:
    """Copy from an array to memory of a device."""
    await copy_out(driver, dst, _line(array, offset, nbytes), MemcpyKind.DEVICE_TO_DEVICE)


@answers("cuMemcpyHtoA_v2", "cuMemcpyHtoAAsync_v2")
async def copy_from_host(driver: Driver, array: CudaArray, offset: int, src: int, nbytes: int, *stream: Any) -> None:
    """Copy from the host to an array, in *stream* if there is one."""
    await copy_in(driver, _line(array, offset, nbytes), src, MemcpyKind.DEFAULT, *stream)


@answers("cuMemcpyAtoH_v2", "cuMemcpyAtoHAsync_v2")
async def copy_to_host(driver: Driver, dst: int, array: CudaArray, offset: int, nbytes: int, *stream: Any) -> None:
    """Copy from an array to the host, in *stream* if there is one."""
    await copy_out(driver, dst, _line(array, offset, nbytes), MemcpyKind.DEFAULT, *stream)


@answers("cuMemcpyAtoA_v2")
async def copy_between(_: Driver, dst: CudaArray, to: int, src: CudaArray, from_: int, nbytes: int) -> None:
    """Copy from one array to another."""
    await copy_bytes(_line(dst, to, nbytes), _line(src, from_, nbytes), MemcpyKind.DEVICE_TO_DEVICE)
