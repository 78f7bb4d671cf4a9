"""Structures that the driver has in another form: copies of planes, and what kernel nodes launch."""

from collections.abc import Sequence
from struct import Struct

from acl_py.verbs.copies import MemcpyKind

PLANES = Struct("<8Q8Q3QI4x")  # cudaMemcpy3DParms: two ends, an extent and a kind
PEER_PLANES = Struct("<8Q8x8Q8x3Q")  # cudaMemcpy3DPeerParms, without the devices
KERNEL = Struct("<Q7I4xQQ")  # cudaKernelNodeParams
DRIVER_PLANES = Struct("<4QI4x6Q4QI4x6Q3Q")  # CUDA_MEMCPY3D
DRIVER_KERNEL = Struct("<Q7I4xQQQQ")  # CUDA_KERNEL_NODE_PARAMS of version 2
_END, _DRIVER_END = 8, 11  # fields of an end
_HANDLE = 7  # which of the driver's has the array
_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype
_TYPES = {  # by the kind of a copy, those of its source and its destination
    MemcpyKind.HOST_TO_HOST: (_HOST, _HOST),
    MemcpyKind.HOST_TO_DEVICE: (_HOST, _DEVICE),
    MemcpyKind.DEVICE_TO_HOST: (_DEVICE, _HOST),
    MemcpyKind.DEVICE_TO_DEVICE: (_DEVICE, _DEVICE),
    MemcpyKind.DEFAULT: (_UNIFIED, _UNIFIED),
}


def planes_of_driver(
    ends: Sequence[int], kind: MemcpyKind = MemcpyKind.DEFAULT, elements: tuple[int, int] = (1, 1)
) -> bytes:
    """Return the driver's structure of a copy: *ends* are the fields of the runtime's, without the kind.

    The driver counts bytes. The runtime counts *elements* of arrays: so many bytes each, of source and destination.
    """
    src, dst, (width, height, depth) = ends[:_END], ends[_END : 2 * _END], ends[2 * _END :]
    on_src, on_dst = _TYPES[kind]
    fields = _end_of_driver(src, on_src, elements[0]), _end_of_driver(dst, on_dst, elements[1])
    return DRIVER_PLANES.pack(*fields[0], *fields[1], width * max(elements), height, depth)


def _end_of_driver(end: Sequence[int], kind: int, element: int) -> list[int]:
    array, x, y, z, address, pitch, _, height = end
    kind = _ARRAY if array else kind
    host, device = (address, 0) if kind == _HOST else (0, address)
    return [x * element, y, z, 0, kind, host, device, array, 0, pitch, height]


def arrays_of_runtime(ends: Sequence[int]) -> tuple[int, int]:
    """Return the handles of the arrays in the runtime's structure: of source and destination, 0 for memory."""
    return ends[0], ends[_END]


def arrays_of_driver(data: bytes) -> tuple[int, int]:
    """Return the handles of the arrays in the driver's structure."""
    fields = DRIVER_PLANES.unpack(data)
    return fields[_HANDLE], fields[_DRIVER_END + _HANDLE]


def bytes_of_driver(dst: int, src: int, nbytes: int, kind: MemcpyKind) -> bytes:
    """Return the driver's structure of a copy of bytes."""
    ends = [[0, 0, 0, 0, address, nbytes, nbytes, 1] for address in (src, dst)]
    return planes_of_driver([*ends[0], *ends[1], nbytes, 1, 1], kind)


def planes_of_runtime(data: bytes, elements: tuple[int, int] = (1, 1)) -> bytes:
    """Return the runtime's structure of a copy, of the driver's; *elements* as for `planes_of_driver`."""
    fields = DRIVER_PLANES.unpack(data)
    src, dst, extent = fields[:_DRIVER_END], fields[_DRIVER_END : 2 * _DRIVER_END], fields[2 * _DRIVER_END :]
    types = [_DEVICE if end[4] == _ARRAY else end[4] for end in (src, dst)]
    kind = next((kind for kind, each in _TYPES.items() if list(each) == types), MemcpyKind.DEFAULT)
    ends = _end_of_runtime(src, elements[0]), _end_of_runtime(dst, elements[1])
    return PLANES.pack(*ends[0], *ends[1], extent[0] // max(elements), *extent[1:], kind)


def _end_of_runtime(end: Sequence[int], element: int) -> list[int]:
    x, y, z, _, _, host, device, array, _, pitch, height = end
    return [array, x // element, y, z, host or device, pitch, pitch, height]


def kernel_of_driver(data: bytes, *, is_kernel: bool) -> bytes:
    """Return the driver's structure of a launch; *is_kernel* says that it names a kernel and no function."""
    function, *rest = KERNEL.unpack(data)
    named = (0, function) if is_kernel else (function, 0)
    return DRIVER_KERNEL.pack(named[0], *rest, named[1], 0)


def kernel_of_runtime(data: bytes) -> bytes:
    """Return the runtime's structure of a launch, of the driver's."""
    function, *rest, kernel, _ = DRIVER_KERNEL.unpack(data)
    return KERNEL.pack(function or kernel, *rest)
