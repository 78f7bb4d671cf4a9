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
_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype
_TYPES = {  # by the kind of a copy, those of its source and its destination
    MemcpyKind.HOST_TO_HOST: (_HOST, _HOST),
    MemcpyKind.HOST_TO_DEVICE: (_HOST, _DEVICE),
    MemcpyKind.DEVICE_TO_HOST: (_DEVICE, _HOST),
    MemcpyKind.DEVICE_TO_DEVICE: (_DEVICE, _DEVICE),
    MemcpyKind.DEFAULT: (_UNIFIED, _UNIFIED),
}


def planes_of_driver(ends: Sequence[int], kind: MemcpyKind = MemcpyKind.DEFAULT) -> bytes:
    """Return the driver's structure of a copy: *ends* are the fields of the runtime's, without the kind."""
    src, dst, extent = ends[:_END], ends[_END : 2 * _END], ends[2 * _END :]
    on_src, on_dst = _TYPES[kind]
    return DRIVER_PLANES.pack(*_end_of_driver(src, on_src), *_end_of_driver(dst, on_dst), *extent)


def _end_of_driver(end: Sequence[int], kind: int) -> list[int]:
    array, x, y, z, address, pitch, _, height = end
    kind = _ARRAY if array else kind
    host, device = (address, 0) if kind == _HOST else (0, address)
    return [x, y, z, 0, kind, host, device, array, 0, pitch, height]


def bytes_of_driver(dst: int, src: int, nbytes: int, kind: MemcpyKind) -> bytes:
    """Return the driver's structure of a copy of bytes."""
    ends = [[0, 0, 0, 0, address, nbytes, nbytes, 1] for address in (src, dst)]
    return planes_of_driver([*ends[0], *ends[1], nbytes, 1, 1], kind)


def planes_of_runtime(data: bytes) -> bytes:
    """Return the runtime's structure of a copy, of the driver's."""
    fields = DRIVER_PLANES.unpack(data)
    src, dst, extent = fields[:_DRIVER_END], fields[_DRIVER_END : 2 * _DRIVER_END], fields[2 * _DRIVER_END :]
    types = src[4], dst[4]
    kind = next((kind for kind, each in _TYPES.items() if each == types), MemcpyKind.DEFAULT)
    return PLANES.pack(*_end_of_runtime(src), *_end_of_runtime(dst), *extent, kind)


def _end_of_runtime(end: Sequence[int]) -> list[int]:
    x, y, z, _, _, host, device, array, _, pitch, height = end
    return [array, x, y, z, host or device, pitch, pitch, height]


def kernel_of_driver(data: bytes, *, is_kernel: bool) -> bytes:
    """Return the driver's structure of a launch; *is_kernel* says that it names a kernel and no function."""
    function, *rest = KERNEL.unpack(data)
    named = (0, function) if is_kernel else (function, 0)
    return DRIVER_KERNEL.pack(named[0], *rest, named[1], 0)


def kernel_of_runtime(data: bytes) -> bytes:
    """Return the runtime's structure of a launch, of the driver's."""
    function, *rest, kernel, _ = DRIVER_KERNEL.unpack(data)
    return KERNEL.pack(function or kernel, *rest)
