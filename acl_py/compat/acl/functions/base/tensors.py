"""acl: descriptions of tensors."""

import ctypes
from dataclasses import dataclass, field
from math import prod
from typing import Any

from acl_py.compat.acl.face.binding import WrongContainerError, does, fits, gives, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
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


_NOTHING = TensorDesc(-1, [], -1)  # what a handle says that is not a description's


def _desc(handle: int) -> TensorDesc:
    return session().find(handle, TensorDesc) or _NOTHING


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
    return _desc(handle).dtype


@takes("k")
def get_tensor_desc_format(handle: int) -> int:
    """The format; -1 if there is no such description."""
    return _desc(handle).format


@takes("k")
def get_tensor_desc_size(handle: int) -> int:
    """Bytes of the tensor."""
    desc = session().find(handle, TensorDesc)
    return 0 if desc is None else desc.nbytes


@takes("k")
def get_tensor_desc_element_count(handle: int) -> int:
    """Elements of the tensor."""
    desc = session().find(handle, TensorDesc)
    return 0 if desc is None else desc.count


@takes("k")
def get_tensor_desc_num_dims(handle: int) -> int:
    """How many dims it has."""
    return len(_desc(handle).dims)


@takes("kk")
def get_tensor_desc_dim(handle: int, index: int) -> int:
    """One dim; -1 if there is none."""
    dims = _desc(handle).dims
    return dims[index] if index < len(dims) else -1


@gives("kk")
def get_tensor_desc_dim_v2(here: Session, handle: int, index: int) -> int:
    """One dim, and whether there is one."""
    dims = here.known(handle, TensorDesc).dims
    if index >= len(dims):
        raise here.error(INVALID_PARAM, f"there is no dim {index}")
    return dims[index]


@gives("kkk", failure=None)
def get_tensor_desc_dim_range(here: Session, handle: int, index: int, count: int) -> list[int] | None:
    """The least and the largest that a dim may be, in a list of *count* numbers; None if that fails."""
    desc = here.known(handle, TensorDesc)
    if index >= len(desc.dims) or not _RANGE <= count <= _MOST_DIMS:
        raise here.error(INVALID_PARAM, f"there is no range of dim {index} with {count} numbers")
    limits = desc.ranges[index] if index < len(desc.ranges) else [desc.dims[index]] * _RANGE
    return [*limits, *[0] * (count - _RANGE)]


@takes("k")
def get_tensor_desc_name(handle: int) -> str:
    """Its name."""
    return _desc(handle).name


@takes("k")
def get_tensor_desc_address(handle: int) -> int:
    """The address of its constant; 0 if it has none."""
    return _desc(handle).constant[0]


@takes("kk")
def get_tensor_desc_by_index(handle: int, index: int) -> int:
    """One of the descriptions that create_and_get_op_desc has made; 0 if there is none. Any other stands for itself."""
    here = session()
    desc = here.find(handle, TensorDesc)
    if desc is None or index > len(desc.rest):
        return 0
    return here.handle(desc.rest[index - 1]) if index else handle


# --- changes


@takes("ks")
def set_tensor_desc_name(handle: int, name: str) -> None:
    """Name it."""
    desc = session().find(handle, TensorDesc)
    if desc is not None:
        desc.name = name


@does("kl")
def set_tensor_shape(here: Session, handle: int, dims: list[int]) -> None:
    """Give it other dims."""
    here.known(handle, TensorDesc).dims = _check_ints("set_tensor_shape", dims)


@does("ki")
def set_tensor_format(here: Session, handle: int, fmt: int) -> None:
    """Give it another format."""
    here.known(handle, TensorDesc).format = fmt


@does("kl")
def set_tensor_shape_range(here: Session, handle: int, ranges: list[list[int]]) -> None:
    """Say for each dim the least and the largest that it may be."""
    here.known(handle, TensorDesc).ranges = _check_ranges("set_tensor_shape_range", ranges)


@does("kkk")
def set_tensor_const(here: Session, handle: int, address: int, size: int) -> None:
    """Say that it is a constant, which stands at *address*; of host memory a copy is taken."""
    desc = here.known(handle, TensorDesc)
    if address < DEVICE_BASE:
        here.check_extent(address, size)
    if address < DEVICE_BASE and not (address and is_readable(address, size)):
        raise here.error(INVALID_PARAM, f"the host has no {size} bytes at {address:#x}")
    desc.constant = address, size
    desc.values = ctypes.string_at(address, size) if address < DEVICE_BASE else b""


@does("ki")
def set_tensor_storage_format(here: Session, handle: int, fmt: int) -> None:
    """Note the format in memory, which has no effect here."""
    here.known(handle, TensorDesc).more["storage_format"] = fmt


@does("ki")
def set_tensor_origin_format(here: Session, handle: int, fmt: int) -> None:
    """Note the original format, which has no effect here."""
    here.known(handle, TensorDesc).more["origin_format"] = fmt


@does("kl")
def set_tensor_storage_shape(here: Session, handle: int, dims: list[int]) -> None:
    """Note the dims in memory, which have no effect here."""
    here.known(handle, TensorDesc).more["storage_shape"] = _check_ints("set_tensor_storage_shape", dims)


@does("kl")
def set_tensor_origin_shape(here: Session, handle: int, dims: list[int]) -> None:
    """Note the original dims, which have no effect here."""
    here.known(handle, TensorDesc).more["origin_shape"] = _check_ints("set_tensor_origin_shape", dims)


@does("kl")
def set_tensor_value_range(here: Session, handle: int, ranges: list[list[int]]) -> None:
    """Note which values are possible, which has no effect here."""
    here.known(handle, TensorDesc).more["value_range"] = _check_ranges("set_tensor_value_range", ranges)


@does("ks")
def set_tensor_dynamic_input(here: Session, handle: int, name: str) -> None:
    """Note the name of an input that may come several times, which has no effect here."""
    here.known(handle, TensorDesc).more["dynamic_input"] = name


@does("ki")
def set_tensor_place_ment(here: Session, handle: int, place: int) -> None:
    """Note where the tensor is, which has no effect here."""
    here.known(handle, TensorDesc).more["place_ment"] = place


@gives("ki")
def trans_tensor_desc_format(here: Session, handle: int, fmt: int) -> int:
    """A description of the same tensor in another format: NCHW, NHWC, and NC1HWC0 from those two."""
    desc = here.known(handle, TensorDesc)
    dims = _transposed(desc, fmt)
    if dims is None:
        raise here.error(_NOT_SUPPORTED, f"format {desc.format} of {desc.dims} cannot become {fmt}")
    return here.handle(TensorDesc(desc.dtype, dims, fmt, desc.name))


def _transposed(desc: TensorDesc, fmt: int) -> list[int] | None:
    if fmt == desc.format:
        return list(desc.dims)
    size = size_of(desc.dtype)
    if desc.format not in (_NCHW, _NHWC) or len(desc.dims) != 4 or not size:
        return None
    n, c, h, w = desc.dims if desc.format == _NCHW else (desc.dims[i] for i in (0, 3, 1, 2))
    block = max(_BLOCK_BYTES // size, 1) if size == 1 else 16
    return {_NCHW: [n, c, h, w], _NHWC: [n, h, w, c], _NC1HWC0: [n, -(-c // block), h, w, block]}.get(fmt)
