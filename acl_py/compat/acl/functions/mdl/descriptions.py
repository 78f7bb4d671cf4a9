"""acl.mdl: what a model's inputs and outputs are, and which gears it has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acl_py.compat.acl.aipp.inputs import StaticInput
from acl_py.compat.acl.face.binding import does, gives, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, Session, session
from acl_py.compat.acl.standins import model_files
from acl_py.compat.acl.standins.loading import MODEL_ID_INVALID, LoadedModel, loaded_model
from acl_py.compat.acl.standins.models import FORMATS, GEAR_INPUT, Model, Tensor

API_NOT_SUPPORT = 200001
_UNDEFINED = -1
_MOST_GEARS = 4096  # that the binding makes room for

Dims = dict[str, Any]


@dataclass(eq=False, slots=True)
class ModelDesc:
    """What get_desc has found out: nothing, a model, or one that is loaded and so has a current gear."""

    model: Model | None = None
    loaded: LoadedModel | None = None

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The inputs, with the one that says the gear."""
        return () if self.model is None else self.model.described

    @property
    def outputs(self) -> Sequence[Tensor]:
        """The outputs."""
        return () if self.model is None else self.model.outputs


# --- making them


@takes("")
def create_desc() -> int:
    """Make an empty description of a model."""
    return session().handle(ModelDesc())


@does("k")
def destroy_desc(here: Session, handle: int) -> None:
    """End a description."""
    here.known(handle, ModelDesc)
    here.forget(handle)


def _emptied(here: Session, handle: int) -> ModelDesc:
    desc = here.known(handle, ModelDesc)
    desc.loaded = desc.model = None
    return desc


@does("ku")
def get_desc(here: Session, handle: int, model: int) -> None:
    """Describe a loaded model."""
    desc = _emptied(here, handle)
    desc.loaded = loaded_model(here, model)
    desc.model = desc.loaded.model


@does("ks")
def get_desc_from_file(here: Session, handle: int, path: str) -> None:
    """Describe a model without loading it."""
    desc = _emptied(here, handle)
    desc.model = model_files.find(here, path)


@does("kkk")
def get_desc_from_mem(here: Session, handle: int, address: int, size: int) -> None:
    """Describe a model whose file is in host memory."""
    desc = _emptied(here, handle)
    desc.model = model_files.find_in_memory(here, address, size)


# --- inputs and outputs


def _desc(handle: int) -> ModelDesc:
    """The description with this handle; an empty one if there is none."""
    return session().find(handle, ModelDesc) or ModelDesc()


@takes("k")
def get_num_inputs(handle: int) -> int:
    """How many inputs there are, with the one that says the gear; 0 if there is no such description."""
    return len(_desc(handle).inputs)


@takes("k")
def get_num_outputs(handle: int) -> int:
    """How many outputs there are; 0 if there is no such description."""
    return len(_desc(handle).outputs)


@takes("kk")
def get_input_size_by_index(handle: int, index: int) -> int:
    """The bytes of an input in the largest gear; 0 if there is none, or its size is not known beforehand."""
    desc = _desc(handle)
    if desc.model is None or index >= len(desc.inputs):
        return 0
    return desc.model.input_size(index)


@takes("kk")
def get_output_size_by_index(handle: int, index: int) -> int:
    """The bytes of an output in the largest gear; 0 if there is none, or its size is not known beforehand."""
    desc = _desc(handle)
    if desc.model is None or index >= len(desc.outputs):
        return 0
    return desc.model.output_size(index)


@takes("kk")
def get_input_name_by_index(handle: int, index: int) -> str:
    """The name of an input; "" if there is none."""
    tensors = _desc(handle).inputs
    return tensors[index].name if index < len(tensors) else ""


@takes("kk")
def get_output_name_by_index(handle: int, index: int) -> str:
    """The name of an output; "" if there is none."""
    tensors = _desc(handle).outputs
    return tensors[index].name if index < len(tensors) else ""


@takes("kk")
def get_input_format(handle: int, index: int) -> int:
    """The aclFormat of an input; -1 if there is none."""
    tensors = _desc(handle).inputs
    return FORMATS[tensors[index].format] if index < len(tensors) else _UNDEFINED


@takes("kk")
def get_output_format(handle: int, index: int) -> int:
    """The aclFormat of an output; -1 if there is none."""
    tensors = _desc(handle).outputs
    return FORMATS[tensors[index].format] if index < len(tensors) else _UNDEFINED


@takes("kk")
def get_input_data_type(handle: int, index: int) -> int:
    """The aclDataType of an input; -1 if there is none."""
    tensors = _desc(handle).inputs
    return tensors[index].data_type if index < len(tensors) else _UNDEFINED


@takes("kk")
def get_output_data_type(handle: int, index: int) -> int:
    """The aclDataType of an output; -1 if there is none."""
    tensors = _desc(handle).outputs
    return tensors[index].data_type if index < len(tensors) else _UNDEFINED


def _index_of(handle: int, name: str, tensors: Sequence[Tensor]) -> tuple[int, int]:
    here = session()
    if here.find(handle, ModelDesc) is None:
        return 0, here.unknown(handle, ModelDesc)
    for index, tensor in enumerate(tensors):
        if tensor.name == name:
            return index, SUCCESS
    known = ", ".join(tensor.name for tensor in tensors) or "none"
    # Programs ask every model for this one: without it, the model has no gears.
    what = f"there is no tensor {name!r}; the names are {known}"
    return 0, here.refuse(INVALID_PARAM, what, is_answer=name == GEAR_INPUT)


@takes("ks")
def get_input_index_by_name(handle: int, name: str) -> tuple[int, int]:
    """Which input has this name; "ascend_mbatch_shape_data" is that of the input that says the gear."""
    return _index_of(handle, name, _desc(handle).inputs)


@takes("ks")
def get_output_index_by_name(handle: int, name: str) -> tuple[int, int]:
    """Which output has this name."""
    return _index_of(handle, name, _desc(handle).outputs)


@takes("ks")
def get_tensor_real_name(handle: int, name: str) -> str | None:
    """The full name of what is called *name* in dims, which is the same here; None if there is nothing of that name."""
    tensors = (*_desc(handle).inputs, *_desc(handle).outputs)
    return next((tensor.name for tensor in tensors if tensor.name == name), None)


# --- dims


def _dims(name: str, shape: Sequence[int]) -> Dims:
    return {"name": name, "dimCount": len(shape), "dims": list(shape)}


def _check_index(here: Session, index: int, tensors: Sequence[Tensor]) -> None:
    if index >= len(tensors):
        raise here.error(INVALID_PARAM, f"index {index} is out of range: there are {len(tensors)} tensors")


def _input_of(here: Session, handle: int, index: int) -> tuple[Model, Tensor]:
    desc = here.known(handle, ModelDesc)
    _check_index(here, index, desc.inputs)
    assert desc.model is not None, "it has inputs"
    return desc.model, desc.inputs[index]


@gives("kk", failure={})
def get_input_dims(here: Session, handle: int, index: int) -> Dims:
    """The dims of an input, -1 where they are dynamic: {"name", "dimCount", "dims"}; {} if there is none. With static
    AIPP they are those of the images that are passed.
    """
    model, tensor = _input_of(here, handle, index)
    aipp = model.aipp[index] if index < len(model.aipp) else None
    return _dims(tensor.name, aipp.image_dims if isinstance(aipp, StaticInput) else tensor.shown)


@gives("kk", failure={})
def get_input_dims_v2(here: Session, handle: int, index: int) -> Dims:
    """get_input_dims; with static AIPP, the dims of the bytes that are passed: their product is the size."""
    _, tensor = _input_of(here, handle, index)
    return _dims(tensor.name, tensor.shown)


def _output_dims(here: Session, handle: int, index: int, *, current: bool) -> Dims:
    desc = here.known(handle, ModelDesc)
    if current and (desc.loaded is None or desc.loaded.unloaded):
        raise here.error(MODEL_ID_INVALID, "the description is not that of a loaded model: call get_desc() first")
    _check_index(here, index, desc.outputs)
    model = desc.model
    assert model is not None, "it has outputs"
    if current and model.is_free:
        what = f"the shapes of {model.name} are known only after an execution: see get_dataset_tensor_desc()"
        raise here.error(API_NOT_SUPPORT, what)
    gear = desc.loaded.gear if current and desc.loaded is not None else None
    shape = model.output_shapes(model.largest if gear is None else gear)[index]
    return _dims(model.outputs[index].name, shape)


@gives("kk", failure={})
def get_output_dims(here: Session, handle: int, index: int) -> Dims:
    """The dims of an output in the largest gear, -1 where they are not known beforehand."""
    return _output_dims(here, handle, index, current=False)


@gives("kk", failure={})
def get_cur_output_dims(here: Session, handle: int, index: int) -> Dims:
    """The dims of an output in the gear that was set last; 200001 for models whose shapes each execution says."""
    return _output_dims(here, handle, index, current=True)


@gives("kk", failure={"rangeCount": 0, "range": []})
def get_input_dims_range(here: Session, handle: int, index: int) -> dict[str, Any]:
    """The least and the largest value of each dim, -1 for no limit: {"rangeCount", "range"}."""
    desc = here.known(handle, ModelDesc)
    _check_index(here, index, desc.inputs)
    model, tensor = desc.model, desc.inputs[index]
    assert model is not None, "it has inputs"
    if model.gears is not None and tensor.is_dynamic:
        shapes = [model.input_shapes(gear)[index] for gear in model.gears.values]
        ranges = [[min(dims), max(dims)] for dims in zip(*shapes, strict=True)]
    elif tensor.ranges:
        ranges = [list(each) for each in tensor.ranges]
    else:
        ranges = [[1, -1] if dim == -1 else [dim, dim] for dim in tensor.shown]
    return {"rangeCount": len(ranges), "range": ranges}


# --- gears


def _gears(desc: ModelDesc, kind: str) -> list[list[int]]:
    gears = None if desc.model is None else desc.model.gears
    return [list(gear) for gear in gears.values] if gears is not None and gears.kind == kind else []


@gives("k", failure={})
def get_dynamic_batch(here: Session, handle: int) -> dict[str, Any]:
    """The batch sizes that a model was made for: {"batchCount", "batch"}; none is no failure."""
    batches = [batch for (batch,) in _gears(here.known(handle, ModelDesc), "batch")]
    return {"batchCount": len(batches), "batch": batches}


@gives("kk", failure={})
def get_dynamic_hw(here: Session, handle: int, _: int) -> dict[str, Any]:
    """The sizes of images that a model was made for: {"hwCount", "hw"}, each [height, width]; none is no failure."""
    sizes = _gears(here.known(handle, ModelDesc), "hw")
    return {"hwCount": len(sizes), "hw": sizes}


@gives("kk")
def get_input_dynamic_gear_count(here: Session, handle: int, _: int) -> int:
    """How many sets of dims a model was made for; 0 if none."""
    return len(_gears(here.known(handle, ModelDesc), "dims"))


@takes("kkk")
def get_input_dynamic_dims(handle: int, _: int, count: int) -> tuple[list[Dims | None] | None, int]:
    """The first *count* sets of dims that a model was made for; each has those of all inputs, one after the other."""
    here = session()
    if count > _MOST_GEARS:
        return None, here.refuse(INVALID_PARAM, f"{count} gears are more than {_MOST_GEARS}")
    desc = here.find(handle, ModelDesc)
    if desc is None:
        return [None] * count, here.unknown(handle, ModelDesc)
    gears = _gears(desc, "dims")
    if count > len(gears):
        return [None] * count, here.refuse(INVALID_PARAM, f"there are {len(gears)} gears, not {count}")
    assert desc.model is not None or not count, "it has gears"
    return [_dims("", _joined(desc.model, tuple(gear))) for gear in gears[:count] if desc.model is not None], SUCCESS


def _joined(model: Model, gear: tuple[int, ...]) -> list[int]:
    return [dim for shape in model.input_shapes(gear) for dim in shape]
