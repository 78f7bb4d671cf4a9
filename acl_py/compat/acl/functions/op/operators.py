"""acl.op: single operators, which are Python functions here (operators.py).

Each runs as an ordinary kernel in its stream, on all AI cores. An operator is found by its name; what the vendor's
compiler makes of one (set_model_dir, load) is accepted and not needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import acl_py as native
from acl_py.compat.acl.face.binding import check_ints, gives, runs, takes
from acl_py.compat.acl.face.dtypes import NAMES, dtype_of
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, Session, session
from acl_py.compat.acl.functions.base.data_buffers import DataBuffer
from acl_py.compat.acl.functions.base.tensors import TensorDesc
from acl_py.compat.acl.functions.op.attributes import attributes_of
from acl_py.compat.acl.standins.computations import Computation, Output, reachable, warn
from acl_py.compat.acl.standins.model_files import bytes_at
from acl_py.compat.acl.standins.models import Tensor, nbytes_of
from acl_py.compat.acl.standins.operators import Operator, operator_of
from acl_py.compat.acl.standins.skeletons import different, operator_skeleton
from acl_py.verbs.arrays import Access, Array
from acl_py.verbs.kernels import Cost
from device_model.memory import DEVICE_BASE

OP_INPUT_NOT_MATCH, OP_OUTPUT_NOT_MATCH, OP_ATTR_NOT_MATCH, OP_NOT_FOUND = 100021, 100022, 100023, 100024
UNSUPPORTED_DATA_TYPE = 100026
OP_UNSUPPORTED_DYNAMIC = 148050
_UNDEFINED = -1  # the aclDataType of an input that is left out


@dataclass(eq=False, slots=True)
class OpHandle:
    """An operator with its descriptions and attributes."""

    operator: Operator
    inputs: list[TensorDesc]
    outputs: list[TensorDesc]
    attributes: dict[str, Any]


@takes("s")
def set_model_dir(path: str) -> int:
    """Say where compiled operators are; they are not needed here."""
    here = session()
    if path and Path(path).is_dir():
        return SUCCESS
    what = "is a file" if Path(path).is_file() else "is not there"
    return here.refuse(INVALID_PARAM, f"set_model_dir takes the directory of compiled operators, and {path!r} {what}")


@runs("kk")
async def load(here: Session, address: int, size: int) -> None:
    """Take a compiled operator from memory; it is not needed here."""
    bytes_at(here, address, size)


@takes("k")
def set_max_op_queue_num(count: int) -> int:
    """Say how many compiled operators may be kept; none are."""
    here = session()
    return SUCCESS if count else here.refuse(INVALID_PARAM, "the number must be 1 or more")


# --- finding what was meant


def _find(here: Session, name: str, inputs: Sequence[int], outputs: Sequence[int], attr: int) -> Operator:
    """Return the operator *name*. If there is none, print what to write for such a call, and raise AclError."""
    operator = operator_of(name)
    if operator is None:
        given, wanted = _tensors(here, inputs, "x"), _tensors(here, outputs, "y")
        skeleton = operator_skeleton(name, given, wanted, list(attributes_of(here, attr) or ()))
        warn(f"there is no operator {name!r} here; register it, in the script or in a file for --register:", skeleton)
        raise here.error(OP_NOT_FOUND, f"there is no operator {name!r}: see register_op()")
    return operator


def _tensors(here: Session, handles: Sequence[int], prefix: str) -> list[Tensor]:
    """Return what the descriptions with these *handles* say, as far as they can be read."""
    descs = [here.find(each, TensorDesc) or TensorDesc(_UNDEFINED, [], 0) for each in handles]
    names = different((desc.name for desc in descs), prefix)
    return [
        Tensor(name, NAMES.get(desc.dtype, "float32"), tuple(max(dim, -1) for dim in desc.dims))
        for name, desc in zip(names, descs, strict=True)
    ]


def _descs(here: Session, handles: Sequence[int]) -> list[TensorDesc]:
    return [here.known(each, TensorDesc) for each in handles]


def _buffers(here: Session, handles: Sequence[int]) -> list[DataBuffer]:
    return [here.known(each, DataBuffer) for each in handles]


def _attributes(here: Session, handle: int) -> dict[str, Any]:
    attributes = attributes_of(here, handle)
    if attributes is None:
        what = f"{handle:#x} is not a set of attributes: see acl.op.create_attr()"
        raise here.error(INVALID_PARAM, what)
    return attributes


def _check(here: Session, operator: Operator, inputs: int, outputs: int, attributes: dict[str, Any]) -> None:
    if not operator.takes(inputs):
        what = f"{operator.name} does not take {inputs} inputs"
        raise here.error(OP_INPUT_NOT_MATCH, what)
    if outputs != operator.outputs:
        what = f"{operator.name} has {operator.outputs} outputs, not {outputs}"
        raise here.error(OP_OUTPUT_NOT_MATCH, what)
    known = operator.attributes
    unknown = [name for name in attributes if name not in known]
    missing = [name for name, required in known.items() if required and name not in attributes]
    if unknown or missing:
        what = f"has no attribute {unknown[0]!r}" if unknown else f"needs the attribute {missing[0]!r}"
        raise here.error(OP_ATTR_NOT_MATCH, f"{operator.name} {what}")


def _dtype(here: Session, desc: TensorDesc) -> np.dtype[Any]:
    dtype = dtype_of(desc.dtype)
    if dtype is None:
        raise here.error(UNSUPPORTED_DATA_TYPE, f"data type {desc.dtype} is not simulated")
    return dtype


# --- executing


async def _launch(
    here: Session, handle: OpHandle, sources: Sequence[DataBuffer], results: Sequence[DataBuffer], stream: int
) -> None:
    operator, attributes = handle.operator, handle.attributes
    _check(here, operator, len(handle.inputs), len(handle.outputs), attributes)
    if len(sources) != len(handle.inputs) or len(results) != len(handle.outputs):
        raise here.error(INVALID_PARAM, "there must be one data buffer for each description")
    values = [_input(here, operator, *each) for each in zip(handle.inputs, sources, strict=True)]
    outputs = [_output(here, operator, *each) for each in zip(handle.outputs, results, strict=True)]
    queue = here.streams[stream]

    def function(*arrays: np.ndarray[Any, Any]) -> Any:
        rest = iter(arrays)
        given = (next(rest) if isinstance(value, Array) else value for value in values)
        with np.errstate(all="ignore"):  # a card divides by zero without a word
            return operator.function(*given, **attributes)

    def describe() -> None:
        for desc, output in zip(handle.outputs, outputs, strict=True):
            desc.dims = list(output.came)

    arrays = [value for value in values if isinstance(value, Array)]
    cost = _cost(here, operator, values, attributes)
    work = Computation(operator.name, function, arrays, outputs, cost, then=describe, serial=False)
    await native.LaunchKernel(work, here.runtime.profile.cores.count, (), queue)


def _cost(here: Session, operator: Operator, values: Sequence[Any], attributes: dict[str, Any]) -> Cost:
    if operator.flops is None:
        return Cost(flops=0)
    try:
        return Cost(flops=operator.flops(*values, **attributes))
    except Exception as error:  # whatever it has against the shapes
        what = f"{operator.name} cannot say what these inputs cost: {error}"
        raise here.error(OP_INPUT_NOT_MATCH, what) from error


def _input(here: Session, operator: Operator, desc: TensorDesc, buffer: DataBuffer) -> Any:
    """An input for the device, one that the host has already, or None for one that is left out."""
    if desc.dtype == _UNDEFINED and not buffer.address:
        return None
    role = f"an input of {operator.name}"
    if any(dim < 0 for dim in desc.dims):
        raise here.error(OP_UNSUPPORTED_DYNAMIC, f"{role} has dims {desc.dims}: say them all")
    dtype = _dtype(here, desc)
    nbytes = nbytes_of(dtype, desc.dims)
    address, size = (buffer.address, buffer.size) if buffer.address else desc.constant
    if size < nbytes:
        raise here.error(INVALID_PARAM, f"{role} has {nbytes} bytes, and its buffer {size}")
    if not buffer.address and desc.values:
        return np.frombuffer(desc.values, dtype, nbytes // dtype.itemsize).reshape(desc.dims)
    if address < DEVICE_BASE and (not buffer.address or desc.more.get("place_ment")):
        return _host_array(here, desc, address, role).copy()
    return Array(reachable(here.runtime, address, nbytes, role), dtype, desc.dims)


def _host_array(here: Session, desc: TensorDesc, address: int, role: str) -> np.ndarray[Any, Any]:
    dtype = _dtype(here, desc)
    place = here.place(address, nbytes_of(dtype, desc.dims), role)
    return Array(place, dtype, desc.dims).view(Access.IN)


def _output(here: Session, operator: Operator, desc: TensorDesc, buffer: DataBuffer) -> Output:
    dtype, role = _dtype(here, desc), f"an output of {operator.name}"
    shape = None if any(dim < 0 for dim in desc.dims) else tuple(desc.dims)
    nbytes = buffer.size if shape is None else nbytes_of(dtype, shape)
    if buffer.size < nbytes:
        raise here.error(INVALID_PARAM, f"{role} has {nbytes} bytes, and its buffer {buffer.size}")
    place = reachable(here.runtime, buffer.address, nbytes, role, is_written=True)
    return Output(desc.name or "0", place, dtype, shape, converts=operator.converts)


@runs("sllllkk")
def execute(
    here: Session, name: str, inputs: list[int], sources: list[int], outputs: list[int], results: list[int], attr: int,
    stream: int,
) -> Running:  # fmt: skip
    """Queue an operator: descriptions and data buffers of its inputs, then of its outputs, attributes and stream."""
    return _execute(here, name, inputs, sources, outputs, results, attr, stream)


@runs("sllllkk")
def execute_v2(
    here: Session, name: str, inputs: list[int], sources: list[int], outputs: list[int], results: list[int], attr: int,
    stream: int,
) -> Running:  # fmt: skip
    """execute; once it is over the descriptions of the outputs say which shapes came out."""
    return _execute(here, name, inputs, sources, outputs, results, attr, stream)


def _execute(
    here: Session, name: str, inputs: list[int], sources: list[int], outputs: list[int], results: list[int], attr: int,
    stream: int,
) -> Running:  # fmt: skip
    check_ints(inputs, sources, outputs, results)
    operator = _find(here, name, inputs, outputs, attr)
    handle = OpHandle(operator, _descs(here, inputs), _descs(here, outputs), _attributes(here, attr))
    return _launch(here, handle, _buffers(here, sources), _buffers(here, results), stream)


def _copies(descs: Sequence[TensorDesc]) -> list[TensorDesc]:
    return [replace(desc, dims=list(desc.dims)) for desc in descs]


@gives("sllk")
def create_handle(here: Session, name: str, inputs: list[int], outputs: list[int], attr: int) -> int:
    """Choose an operator once, for several calls; descriptions and attributes are copied."""
    check_ints(inputs, outputs)
    operator, attributes = _find(here, name, inputs, outputs, attr), _attributes(here, attr)
    _check(here, operator, len(inputs), len(outputs), attributes)
    handle = OpHandle(operator, _copies(_descs(here, inputs)), _copies(_descs(here, outputs)), attributes)
    return here.handle(handle)


@runs("kllk")
def execute_with_handle(here: Session, handle: int, sources: list[int], results: list[int], stream: int) -> Running:
    """Queue the operator of a handle."""
    check_ints(sources, results)
    prepared = here.find(handle, OpHandle)
    if prepared is None:
        raise here.error(INVALID_PARAM, f"{handle:#x} is not an operator's handle: see acl.op.create_handle()")
    return _launch(here, prepared, _buffers(here, sources), _buffers(here, results), stream)


@takes("k")
def destroy_handle(handle: int) -> None:
    """End a handle; what it has queued goes on."""
    here = session()
    if here.find(handle, OpHandle) is not None:
        here.forget(handle)


@runs("kkkkik")
def cast(here: Session, src_desc: int, src: int, dst_desc: int, dst: int, _: int, stream: int) -> Running:
    """Queue a conversion to the data type of the second description."""
    return _execute(here, "Cast", [src_desc], [src], [dst_desc], [dst], 0, stream)


@takes("kki")
def create_handle_for_cast(src_desc: int, dst_desc: int, _: int) -> tuple[int, int]:
    """A handle for a conversion."""
    handle: tuple[int, int] = create_handle("Cast", [src_desc], [dst_desc], 0)
    return handle


@runs("sllilk")
async def infer_shape(
    here: Session, name: str, inputs: list[int], sources: list[int], count: int, outputs: list[int], attr: int
) -> None:
    """Find the shapes of the outputs, from inputs in host memory, and write them into the descriptions."""
    check_ints(inputs, sources, outputs)
    operator, attributes = _find(here, name, inputs, outputs, attr), _attributes(here, attr)
    given, wanted = _descs(here, inputs), _descs(here, outputs)
    buffers = _buffers(here, sources)
    if len(buffers) != len(given) or len(wanted) != count:
        raise here.error(INVALID_PARAM, "there must be one data buffer for each description")
    _check(here, operator, len(given), count, attributes)
    arrays = [
        _host_array(here, desc, buffer.address, f"an input of {name}")
        for desc, buffer in zip(given, buffers, strict=True)
    ]
    try:
        with np.errstate(all="ignore"):
            computed = operator.function(*arrays, **attributes)
    except Exception as error:  # whatever the operator has against them
        raise here.error(OP_INPUT_NOT_MATCH, f"{name}: {error}") from error
    shapes = [np.shape(each) for each in (computed if isinstance(computed, tuple) else (computed,))]
    for desc, shape in zip(wanted, shapes, strict=True):
        desc.dims = list(shape)
