"""Executions of models: the gear that a dataset is executed in, and what is launched for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import acl_py as native
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.base.data_buffers import DataBuffer
from acl_py.compat.acl.functions.base.tensors import TensorDesc
from acl_py.compat.acl.functions.mdl.datasets import Dataset
from acl_py.compat.acl.standins.computations import Computation, Output, reachable
from acl_py.compat.acl.standins.loading import GE_PARAM_INVALID, MODEL_ID_INVALID, LoadedModel, scope_here
from acl_py.compat.acl.standins.model_files import cost_of
from acl_py.compat.acl.standins.models import FORMATS, GEAR_INPUT, Gear, Model, Shape, Tensor, nbytes_of
from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.arrays import Array
from acl_py.verbs.kernels import Cost
from device_model.memory import Buffer
from device_model.streams import Stream

INPUT_LENGTH_INVALID, BATCH_SIZE_INVALID = 145012, 145013
MODEL_EXECUTE = 507011
_HOST_TO_DEVICE = 1


# --- gears


async def set_gear(here: Session, loaded: LoadedModel, dataset: Dataset, index: int, gear: Gear, kind: str) -> None:
    """From now on *dataset* is executed in *gear*, which is written to its buffer at *index*, too."""
    runtime, model = scope_here().runtime, loaded.model
    buffer = dataset.buffer(here, index)
    if buffer is None or not buffer.address:
        raise runtime.error(
            Kind.NULL_POINTER,
            f"the dataset has no data buffer with memory at {index}",
            f"add one for the input {GEAR_INPUT}, and ask acl.mdl.get_input_index_by_name() for its index",
            code=INVALID_PARAM,
        )
    if buffer.size < 4 * len(gear):
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"the data buffer at {index} has {buffer.size} bytes",
            f"give it acl.mdl.get_input_size_by_index() bytes: {model.input_size(len(model.inputs))}"
            if model.gears is not None
            else "a model without gears needs none",
            code=INPUT_LENGTH_INVALID,
        )
    gears = model.gears
    if gears is None or gears.kind != kind or gear not in gears.values:
        has = "no gears" if gears is None else f"dynamic_{gears.kind} of {', '.join(map(_words, gears.values))}"
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"{model.name} has {has}, not {_words(gear)}",
            "set one of these",
            code=BATCH_SIZE_INVALID,
        )
    wide = np.int64 if buffer.size >= 8 * len(gear) else np.int32
    values = np.array(gear, wide)
    to = reachable(runtime, buffer.address, values.nbytes, GEAR_INPUT, is_written=True)
    await native.Memcpy(to, values.nbytes, values, values.nbytes, _HOST_TO_DEVICE)
    dataset.gear = loaded.gear = gear


def _words(gear: Gear) -> str:
    return " x ".join(map(str, gear))


def dynamic_part(runtime: Runtime, model: Model, dims: Sequence[int]) -> Gear:
    """What *dims*, those of all inputs one after the other, have where those of *model* are dynamic."""
    own = [dim for tensor in model.inputs for dim in tensor.shown]
    if len(own) != len(dims) or any(-1 < mine != given for mine, given in zip(own, dims, strict=True)):
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"the dims {list(dims)} are not those of {model.name}, {own}",
            "pass the dims of all inputs, one after the other",
            code=INPUT_LENGTH_INVALID,
        )
    return tuple(given for mine, given in zip(own, dims, strict=True) if mine == -1)


# --- executing


@dataclass
class Execution:
    """One execution: what is launched, and what is to be done when it is over."""

    runtime: Runtime
    loaded: LoadedModel
    outputs: list[Output]
    results: list[DataBuffer]
    dataset: Dataset
    computation: Computation | None = None

    def describe(self) -> None:
        """Say in the output dataset which shapes came out."""
        for index, output in enumerate(self.outputs):
            if self.loaded.model.is_free or index in self.dataset.descs:
                tensor = self.loaded.model.outputs[index]
                desc = TensorDesc(tensor.data_type, list(output.came), FORMATS[tensor.format], tensor.name)
                self.dataset.describe(index, desc)

    async def launch(self, stream: Stream | None) -> None:
        """Queue it."""
        assert self.computation is not None, "it was prepared"
        await native.LaunchKernel(self.computation, self.runtime.profile.cores.count, (), stream)

    async def keep_spares(self) -> None:
        """Put results without a buffer into memory that is made for them, which is the caller's from then on."""
        for output, buffer in zip(self.outputs, self.results, strict=True):
            if output.spare is not None and output.spare.nbytes:
                memory = await native.Malloc(output.spare.nbytes)
                await native.Memcpy(memory, memory.nbytes, output.spare, output.spare.nbytes, _HOST_TO_DEVICE)
                buffer.address, buffer.size = memory.address, memory.nbytes


def prepare(here: Session, loaded: LoadedModel, given: Dataset, wanted: Dataset, *, waits: bool) -> Execution:
    """The execution of *loaded* from the dataset *given* to *wanted*.

    Where it *waits*, data buffers of outputs may be empty, and get memory.

    Raises:
        AclError: numbers, sizes, shapes or memory do not fit.
    """
    scope = scope_here()
    runtime, model, device = scope.runtime, loaded.model, scope.context.device.ordinal
    if device != loaded.device:
        raise runtime.error(
            Kind.INVALID_DEVICE,
            f"{loaded!r} is on device {loaded.device}, but device {device} is current",
            "set the device, or a context of it, before it is executed",
            code=MODEL_ID_INVALID,
        )
    gear = _gear(runtime, loaded, given)
    sources = _data_buffers(here, runtime, model, given, model.described, "input")
    results = _data_buffers(here, runtime, model, wanted, model.outputs, "output")
    shapes = _shapes(runtime, model, given, gear)
    inputs = [
        _input(runtime, model, tensor, buffer, shape)
        for tensor, buffer, shape in zip(model.inputs, sources, shapes, strict=False)
    ]
    beside = len(model.described) - len(model.parameters)
    inputs += [
        _input(runtime, model, tensor, buffer, tensor.shown)
        for tensor, buffer in zip(model.parameters, sources[beside:], strict=True)
    ]
    outputs = [
        _output(runtime, model, tensor, buffer, shape, waits=waits)
        for tensor, buffer, shape in zip(model.outputs, results, model.output_shapes(gear), strict=True)
    ]
    execution = Execution(runtime, loaded, outputs, results, wanted)
    execution.computation = Computation(
        model.name,
        model.compute,
        inputs,
        outputs,
        _cost(runtime, model, gear, shapes),
        reads=_own(runtime, loaded, sources[len(model.inputs) : beside]),
        writes=[] if loaded.work is None else [loaded.work],
        then=execution.describe,
        code=MODEL_EXECUTE,
        serial=True,
        of=loaded,
    )
    return execution


def _gear(runtime: Runtime, loaded: LoadedModel, dataset: Dataset) -> Gear | None:
    gears = loaded.model.gears
    if gears is None:
        return None
    gear = next((each for each in (dataset.gear, loaded.gear) if each in gears.values), None)
    if gear is None:
        kind = {"batch": "dynamic_batch_size", "hw": "dynamic_hw_size", "dims": "input_dynamic_dims"}
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"{loaded.model.name} has gears, but none was set for the dataset",
            f"call acl.mdl.set_{kind[gears.kind]}() before each execution",
            code=BATCH_SIZE_INVALID,
        )
    return gear


def _data_buffers(
    here: Session, runtime: Runtime, model: Model, dataset: Dataset, tensors: Sequence[Tensor], what: str
) -> list[DataBuffer]:
    if len(dataset.buffers) != len(tensors):
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"{model.name} has {len(tensors)} {what}s, but the dataset has {len(dataset.buffers)} data buffers",
            f"add one for each of {', '.join(tensor.name for tensor in tensors)}",
            code=GE_PARAM_INVALID,
        )
    buffers: list[DataBuffer] = []
    for index, tensor in enumerate(tensors):
        buffer = dataset.buffer(here, index)
        if buffer is None:
            what = f"the data buffer of {tensor.name} was destroyed"
            raise runtime.error(Kind.INVALID_VALUE, what, "destroy it after the execution", code=INVALID_PARAM)
        buffers.append(buffer)
    return buffers


def _shapes(runtime: Runtime, model: Model, dataset: Dataset, gear: Gear | None) -> list[Shape]:
    """The shapes of the inputs: those of the gear, or those that the descriptions in the dataset say."""
    shapes = model.input_shapes(gear)
    if not model.is_free:
        return shapes
    for index, tensor in enumerate(model.inputs):
        desc = dataset.descs.get(index)
        shape = shapes[index] if desc is None else tuple(desc.dims)
        if -1 in shape or not tensor.takes(shape):
            raise runtime.error(
                Kind.INVALID_VALUE,
                f"input {tensor.name} of {model.name} has dims {list(tensor.shown)}, and was given {list(shape)}",
                "say its dims with acl.mdl.set_dataset_tensor_desc()",
                code=INVALID_PARAM,
            )
        shapes[index] = shape
    return shapes


def _input(runtime: Runtime, model: Model, tensor: Tensor, buffer: DataBuffer, shape: Shape) -> Array:
    needed = nbytes_of(tensor.numpy, shape)
    role = f"input {tensor.name} of {model.name}"
    if buffer.size < needed:
        raise _too_small(runtime, role, buffer, needed)
    return Array(reachable(runtime, buffer.address, needed, role), tensor.numpy, shape)


def _output(runtime: Runtime, model: Model, tensor: Tensor, buffer: DataBuffer, shape: Shape, *, waits: bool) -> Output:
    role = f"output {tensor.name} of {model.name}"
    known = None if -1 in shape else shape
    if waits and not buffer.address:
        return Output(tensor.name, None, tensor.numpy, known)
    needed = buffer.size if known is None else nbytes_of(tensor.numpy, known)
    if buffer.size < needed:
        raise _too_small(runtime, role, buffer, needed)
    return Output(tensor.name, reachable(runtime, buffer.address, needed, role, is_written=True), tensor.numpy, known)


def _too_small(runtime: Runtime, role: str, buffer: DataBuffer, needed: int) -> AclError:
    return runtime.error(
        Kind.INVALID_VALUE,
        f"{role} takes {needed} bytes, but its data buffer has {buffer.size}",
        "make it as large as the model description says",
        code=GE_PARAM_INVALID,
    )


def _own(runtime: Runtime, loaded: LoadedModel, gear_inputs: Sequence[DataBuffer]) -> list[Buffer]:
    """What an execution reads besides its inputs: the weights, and the buffer that says the gear."""
    read = [] if loaded.weights is None else [loaded.weights]
    read += [reachable(runtime, each.address, each.size, GEAR_INPUT) for each in gear_inputs]
    return read


def _cost(runtime: Runtime, model: Model, gear: Gear | None, shapes: Sequence[Shape]) -> Cost:
    if model.flops:
        return cost_of(runtime.profile, model, model.amount(model.flops, gear))
    if model.cost_us:
        return Cost(us=model.amount(model.cost_us, gear))
    if model.counted is None:
        return Cost(flops=0)
    try:
        amounts = model.counted(shapes)
    except ValueError as error:
        remedy = "give the inputs shapes that the graph can have"
        raise runtime.error(Kind.INVALID_VALUE, f"{model.name}: {error}", remedy, code=INVALID_PARAM) from error
    return cost_of(runtime.profile, model, amounts.flops, amounts.nbytes)
