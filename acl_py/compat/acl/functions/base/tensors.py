"""acl: descriptions of tensors."""

import ctypes
from dataclasses import dataclass, field
from math import prod
from typing import Any

from acl_py.compat.acl.face.binding import WrongContainerError, fits, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, session
from acl_py.compat.acl.functions.base.setup import size_of
from device_model.memory import DEVICE_BASE
from device_model.memory.host import is_readable

_NCHW, _NHWC, _NC1HWC0 = 0, 1, 3  # formats
_NOT_SUPPORTED = 200001
_RANGE = 2  # numbers: the least and the largest
_MOST_DIMS = 4096  # that a range is asked for
_BLOCK_BYTES = 32  # of channels in NC1HWC0


@dataclass(eq=False, slots=True)
class TensorDesc:
    """What a tensor is: its aclDataType, its dims (-1 where it is not known), its format.

    *ranges* of the dims and the *constant*, an address and a size, may be set; *values* are the bytes of a constant
    of the host, as they were then. *more* is kept and has no effect here.
    What a handle stands for may be the first of several: *rest* are the others.
    """

    dtype: int
    dims: list[int]
    format: int
    name: str = ""
    ranges: list[list[int]] = field(default_factory=list)
    constant: tuple[int, int] = (0, 0)
    values: bytes = b""
    more: dict[str, Any] = field(default_factory=dict)
    rest: "list[TensorDesc]" = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many elements; 0 while a dim is unknown."""
        return prod(self.dims) if all(dim >= 0 for dim in self.dims) else 0

    @property
    def nbytes(self) -> int:
        """How many bytes."""
        return self.count * size_of(self.dtype)


def _desc(handle: int) -> TensorDesc | None:
    return session().find(handle, TensorDesc)


def _check_ints(name: str, numbers: list[Any]) -> list[int]:
    if not all(isinstance(number, int) for number in numbers):
        raise WrongContainerError(f"acl.{name} args parse failed: argument 2 is not a list of ints")
    if not all(fits(number, 64) for number in numbers):
        raise ValueError(f"acl.{name}: a number of argument 2 has more than 64 bits")
    return list(numbers)


def _check_ranges(name: str, ranges: list[Any]) -> list[list[int]]:
    for each in ranges:
        if not isinstance(each, list) or len(each) != _RANGE:
            raise WrongContainerError(f"acl.{name} args parse failed: argument 2 is not a list of lists of two ints")
        _check_ints(name, each)
    return [list(each) for each in ranges]


@takes("ili")
def create_tensor_desc(dtype: int, dims: list[int], fmt: int) -> int:
    """Describe a tensor."""
    return session().handle(TensorDesc(dtype, _check_ints("create_tensor_desc", dims), fmt))


@takes("k")
def destroy_tensor_desc(handle: int) -> None:
    """End a description."""
    here = session()
    if here.find(handle, TensorDesc) is not None:
        here.forget(handle)


# --- what it says


@takes("k")
def get_tensor_desc_type(handle: int) -> int:
    """The aclDataType; -1 if there is no such description."""
    desc = _desc(handle)
    return -1 if desc is None else desc.dtype


@takes("k")
def get_tensor_desc_format(handle: int) -> int:
    """The format; -1 if there is no such description."""
    desc = _desc(handle)
    return -1 if desc is None else desc.format


@takes("k")
def get_tensor_desc_size(handle: int) -> int:
    """Bytes of the tensor."""
    desc = _desc(handle)
    return 0 if desc is None else desc.nbytes


@takes("k")
def get_tensor_desc_element_count(handle: int) -> int:
    """Elements of the tensor."""
    desc = _desc(handle)
    return 0 if desc is None else desc.count


@takes("k")
def get_tensor_desc_num_dims(handle: int) -> int:
    """How many dims it has."""
    desc = _desc(handle)
    return 0 if desc is None else len(desc.dims)


@takes("kk")
def get_tensor_desc_dim(handle: int, index: int) -> int:
    """One dim; -1 if there is none."""
    desc = _desc(handle)
    return -1 if desc is None or index >= len(desc.dims) else desc.dims[index]


@takes("kk")
def get_tensor_desc_dim_v2(handle: int, index: int) -> tuple[int, int]:
    """One dim, and whether there is one."""
    here = session()
    desc = _desc(handle)
    if desc is None:
        return 0, here.unknown(handle, TensorDesc)
    if index >= len(desc.dims):
        return 0, here.refuse(INVALID_PARAM, f"there is no dim {index}")
    return desc.dims[index], SUCCESS


@takes("kkk")
def get_tensor_desc_dim_range(handle: int, index: int, count: int) -> tuple[list[int] | None, int]:
    """The least and the largest that a dim may be, in a list of *count* numbers; None if that fails."""
    here = session()
    desc = _desc(handle)
    if desc is None:
        return None, here.unknown(handle, TensorDesc)
    if index >= len(desc.dims) or not _RANGE <= count <= _MOST_DIMS:
        return None, here.refuse(INVALID_PARAM, f"there is no range of dim {index} with {count} numbers")
    limits = desc.ranges[index] if index < len(desc.ranges) else [desc.dims[index]] * _RANGE
    return [*limits, *[0] * (count - _RANGE)], SUCCESS


@takes("k")
def get_tensor_desc_name(handle: int) -> str:
    """Its name."""
    desc = _desc(handle)
    return "" if desc is None else desc.name


@takes("k")
def get_tensor_desc_address(handle: int) -> int:
    """The address of its constant; 0 if it has none."""
    desc = _desc(handle)
    return 0 if desc is None else desc.constant[0]


@takes("kk")
def get_tensor_desc_by_index(handle: int, index: int) -> int:
    """One of the descriptions that create_and_get_op_desc has made; 0 if there is none. Any other stands for itself."""
    here, desc = session(), _desc(handle)
    if desc is None or index > len(desc.rest):
        return 0
    return here.handle(desc.rest[index - 1]) if index else handle


# --- changes


@takes("ks")
def set_tensor_desc_name(handle: int, name: str) -> None:
    """Name it."""
    desc = _desc(handle)
    if desc is not None:
        desc.name = name


@takes("kl")
def set_tensor_shape(handle: int, dims: list[int]) -> int:
    """Give it other dims."""
    return _set(handle, "dims", _check_ints("set_tensor_shape", dims))


@takes("ki")
def set_tensor_format(handle: int, fmt: int) -> int:
    """Give it another format."""
    return _set(handle, "format", fmt)


@takes("kl")
def set_tensor_shape_range(handle: int, ranges: list[list[int]]) -> int:
    """Say for each dim the least and the largest that it may be."""
    return _set(handle, "ranges", _check_ranges("set_tensor_shape_range", ranges))


@takes("kkk")
def set_tensor_const(handle: int, address: int, size: int) -> int:
    """Say that it is a constant, which stands at *address*; of host memory a copy is taken."""
    here, desc = session(), _desc(handle)
    if desc is None:
        return here.unknown(handle, TensorDesc)
    if address < DEVICE_BASE:
        here.check_extent(address, size)
    if address < DEVICE_BASE and not (address and is_readable(address, size)):
        return here.refuse(INVALID_PARAM, f"the host has no {size} bytes at {address:#x}")
    desc.constant = address, size
    desc.values = ctypes.string_at(address, size) if address < DEVICE_BASE else b""
    return SUCCESS


@takes("ki")
def set_tensor_storage_format(handle: int, fmt: int) -> int:
    """Note the format in memory, which has no effect here."""
    return _keep(handle, "storage_format", fmt)


@takes("ki")
def set_tensor_origin_format(handle: int, fmt: int) -> int:
    """Note the original format, which has no effect here."""
    return _keep(handle, "origin_format", fmt)


@takes("kl")
def set_tensor_storage_shape(handle: int, dims: list[int]) -> int:
    """Note the dims in memory, which have no effect here."""
    return _keep(handle, "storage_shape", _check_ints("set_tensor_storage_shape", dims))


@takes("kl")
def set_tensor_origin_shape(handle: int, dims: list[int]) -> int:
    """Note the original dims, which have no effect here."""
    return _keep(handle, "origin_shape", _check_ints("set_tensor_origin_shape", dims))


@takes("kl")
def set_tensor_value_range(handle: int, ranges: list[list[int]]) -> int:
    """Note which values are possible, which has no effect here."""
    return _keep(handle, "value_range", _check_ranges("set_tensor_value_range", ranges))


@takes("ks")
def set_tensor_dynamic_input(handle: int, name: str) -> int:
    """Note the name of an input that may come several times, which has no effect here."""
    return _keep(handle, "dynamic_input", name)


@takes("ki")
def set_tensor_place_ment(handle: int, place: int) -> int:
    """Note where the tensor is, which has no effect here."""
    return _keep(handle, "place_ment", place)


def _set(handle: int, name: str, value: object) -> int:
    here = session()
    desc = here.find(handle, TensorDesc)
    if desc is None:
        return here.unknown(handle, TensorDesc)
    setattr(desc, name, value)
    return SUCCESS


def _keep(handle: int, name: str, value: object) -> int:
    here = session()
    desc = here.find(handle, TensorDesc)
    if desc is None:
        return here.unknown(handle, TensorDesc)
    desc.more[name] = value
    return SUCCESS


@takes("ki")
def trans_tensor_desc_format(handle: int, fmt: int) -> tuple[int, int]:
    """A description of the same tensor in another format: NCHW, NHWC, and NC1HWC0 from those two."""
    here = session()
    desc = here.find(handle, TensorDesc)
    if desc is None:
        return 0, here.unknown(handle, TensorDesc)
    dims = _transposed(desc, fmt)
    if dims is None:
        return 0, here.refuse(_NOT_SUPPORTED, f"format {desc.format} of {desc.dims} cannot become {fmt}")
    return here.handle(TensorDesc(desc.dtype, dims, fmt, desc.name)), SUCCESS


def _transposed(desc: TensorDesc, fmt: int) -> list[int] | None:
    if fmt == desc.format:
        return list(desc.dims)
    size = size_of(desc.dtype)
    if desc.format not in (_NCHW, _NHWC) or len(desc.dims) != 4 or not size:
        return None
    n, c, h, w = desc.dims if desc.format == _NCHW else (desc.dims[i] for i in (0, 3, 1, 2))
    block = max(_BLOCK_BYTES // size, 1) if size == 1 else 16
    return {_NCHW: [n, c, h, w], _NHWC: [n, h, w, c], _NC1HWC0: [n, -(-c // block), h, w, block]}.get(fmt)
