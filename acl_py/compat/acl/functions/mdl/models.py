"""acl.mdl: models are loaded, executed and unloaded.

A model file of the vendor's compiler cannot run here. A sidecar (standins/sidecars.py) or a registration in Python
(standins/models.py) says what it computes. An execution is an ordinary kernel launch; execute waits for it,
execute_async does not.
"""

from dataclasses import dataclass, field
from operator import index as as_int
from typing import Any

from acl_py.compat.acl.face.binding import does, gives, runs, takes
from acl_py.compat.acl.face.lookups import Running, wait_within_call
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, Session, session
from acl_py.compat.acl.functions.mdl import executions
from acl_py.compat.acl.functions.mdl.datasets import Dataset
from acl_py.compat.acl.functions.mdl.executions import Execution
from acl_py.compat.acl.standins import loading, model_files
from acl_py.compat.acl.standins.loading import LoadedModel, loaded_model
from acl_py.compat.acl.standins.models import Gear, Model
from acl_py.errors import AclError
from device_model.streams import Stream

INVALID_BUNDLE_MODEL_ID = 148053


# --- loading


def _load(here: Session, model: Model, *memory: tuple[int, int]) -> int:
    return here.handle(here.run(loading.load(model, *memory)))


@gives("s")
def load_from_file(here: Session, path: str) -> int:
    """Load the model that the file *path* stands for."""
    return _load(here, model_files.find(here, path))


@gives("kk")
def load_from_mem(here: Session, address: int, size: int) -> int:
    """Load the model whose file is in host memory."""
    return _load(here, model_files.find_in_memory(here, address, size))


@gives("skkkk")
def load_from_file_with_mem(here: Session, path: str, work: int, work_size: int, weights: int, weight_size: int) -> int:
    """load_from_file, into device memory of the caller's; NULL is for memory of the model's own."""
    return _load(here, model_files.find(here, path), (work, work_size), (weights, weight_size))


@gives("kkkkkk")
def load_from_mem_with_mem(
    here: Session, address: int, size: int, work: int, work_size: int, weights: int, weight_size: int
) -> int:
    """load_from_mem, into device memory of the caller's; NULL is for memory of the model's own."""
    return _load(here, model_files.find_in_memory(here, address, size), (work, work_size), (weights, weight_size))


@runs("u")
async def unload(here: Session, model: int) -> None:
    """Unload a model, and free what it owns."""
    loaded = loaded_model(here, model)
    if any(loaded in each.models for each in here.objects.values() if isinstance(each, Bundle)):
        raise here.error(INVALID_PARAM, f"{loaded!r} belongs to a bundle: use acl.mdl.bundle_unload()")
    await _unload(here, loaded)


async def _unload(here: Session, loaded: LoadedModel) -> None:
    await loading.unload(loaded)
    here.forget(here.handle(loaded))


@gives("s", failure=(0, 0))
def query_size(here: Session, path: str) -> tuple[int, int]:
    """Bytes of work memory and of weights that a model takes."""
    model = model_files.find(here, path)
    return model.work_bytes, model.weight_size


@gives("kk", failure=(0, 0))
def query_size_from_mem(here: Session, address: int, size: int) -> tuple[int, int]:
    """Return the bytes of work memory and of weights of a model whose file is in host memory."""
    model = model_files.find_in_memory(here, address, size)
    return model.work_bytes, model.weight_size


# --- configured loading


_PRIORITY, _LOAD_TYPE, _PATH, _ADDRESS, _SIZE, _WEIGHTS, _WEIGHT_SIZE, _WORK, _WORK_SIZE = range(9)
_LAST_ATTRIBUTE = 17
_FROM_FILE, _FROM_FILE_WITH_MEM, _FROM_MEM, _FROM_MEM_WITH_MEM, _FROM_FILE_WITH_QUEUE, _FROM_MEM_WITH_QUEUE = range(
    1, 7
)
_NEEDED = {
    _FROM_FILE: (_PATH,), _FROM_FILE_WITH_MEM: (_PATH,), _FROM_MEM: (_ADDRESS, _SIZE),
    _FROM_MEM_WITH_MEM: (_ADDRESS, _SIZE),
}  # fmt: skip


@dataclass(eq=False, slots=True)
class LoadConfig:
    """The configuration of load_with_config: values by aclmdlConfigAttr."""

    values: dict[int, Any] = field(default_factory=dict)


@takes("")
def create_config_handle() -> int:
    """Make an empty configuration for load_with_config."""
    return session().handle(LoadConfig())


@does("k")
def destroy_config_handle(here: Session, handle: int) -> None:
    """End a configuration."""
    _end(here, handle, LoadConfig)


def _end(here: Session, handle: int, kind: type) -> None:
    here.known(handle, kind)
    here.forget(handle)


@does("kiO")
def set_config_opt(here: Session, handle: int, attribute: int, value: Any) -> None:
    """Set one attribute: a path is a text, everything else an int. TypeError if it is not."""
    if attribute == _PATH:
        if not isinstance(value, str):
            raise TypeError(f"set_config_opt args parse failed: a path must be str, not {type(value).__name__}")
    elif attribute == _PRIORITY:
        value = as_int(value)
    elif not isinstance(value, int):
        raise TypeError(f"set_config_opt args parse failed: an int is required, not {type(value).__name__}")
    config = here.known(handle, LoadConfig)
    if not 0 <= attribute <= _LAST_ATTRIBUTE:
        raise here.error(INVALID_PARAM, f"there is no attribute {attribute}")
    if attribute == _PRIORITY and not 0 <= value <= 7:
        raise here.error(INVALID_PARAM, f"a priority is 0 to 7, not {value}")
    if attribute == _LOAD_TYPE and not _FROM_FILE <= value <= _FROM_MEM_WITH_QUEUE:
        raise here.error(INVALID_PARAM, f"load type {value} does not exist")
    config.values[attribute] = value


@gives("k")
def load_with_config(here: Session, handle: int) -> int:
    """Load a model as the configuration says."""
    values = here.known(handle, LoadConfig).values
    way = values.get(_LOAD_TYPE, 0)
    if way in (_FROM_FILE_WITH_QUEUE, _FROM_MEM_WITH_QUEUE):
        here.warn_unsupported("acl.mdl.load_with_config with queues")
        raise here.error(NOT_SUPPORTED, "queues of models are not simulated")
    if any(values.get(each) is None for each in _NEEDED.get(way, (_LOAD_TYPE,))):
        raise here.error(
            INVALID_PARAM, f"the configuration has no load type, or lacks an attribute that load type {way} needs"
        )
    if way in (_FROM_FILE, _FROM_FILE_WITH_MEM):
        model = model_files.find(here, values[_PATH])
    else:
        model = model_files.find_in_memory(here, values[_ADDRESS], values[_SIZE])
    if way in (_FROM_FILE, _FROM_MEM):
        return _load(here, model)
    work = values.get(_WORK, 0), values.get(_WORK_SIZE, 0)
    return _load(here, model, work, (values.get(_WEIGHTS, 0), values.get(_WEIGHT_SIZE, 0)))


# --- executing


def _prepared(here: Session, model: int, inputs: int, outputs: int, *, waits: bool) -> Execution:
    """Look up the handles and prepare the execution."""
    given, wanted = here.known(inputs, Dataset), here.known(outputs, Dataset)
    return executions.prepare(here, loaded_model(here, model), given, wanted, waits=waits)


async def _run(execution: Execution, stream: Stream, timeout_ms: int = -1) -> None:
    await execution.launch(stream)
    await wait_within_call(stream, timeout_ms)
    await execution.keep_spares()


@runs("ukk")
async def execute(here: Session, model: int, inputs: int, outputs: int) -> None:
    """Execute a model and wait for it; 507011 if what it computes fails."""
    execution = _prepared(here, model, inputs, outputs, waits=True)
    await _run(execution, await execution.loaded.stream())


@runs("ukkk")
async def execute_async(here: Session, model: int, inputs: int, outputs: int, stream: int) -> None:
    """Queue the execution of a model in a stream."""
    await _prepared(here, model, inputs, outputs, waits=False).launch(here.streams[stream])


@runs("ukkkk")
async def execute_v2(here: Session, model: int, inputs: int, outputs: int, stream: int, handle: int) -> None:
    """Execute a model in a stream, by default its own, and wait for it no longer than the configuration says."""
    config = here.known(handle, ExecConfig)
    execution = _prepared(here, model, inputs, outputs, waits=True)
    await _run(execution, here.streams[stream] or await execution.loaded.stream(), config.stream_ms)


@dataclass(eq=False, slots=True)
class ExecConfig:
    """How long execute_v2 waits for the stream and for events, in milliseconds; -1 is no limit."""

    stream_ms: int = -1
    event_ms: int = -1


@takes("")
def create_exec_config_handle() -> int:
    """Make a configuration for execute_v2."""
    return session().handle(ExecConfig())


@does("k")
def destroy_exec_config_handle(here: Session, handle: int) -> None:
    """End a configuration."""
    _end(here, handle, ExecConfig)


@does("kku")
def set_exec_config_opt(here: Session, handle: int, attribute: int, value: int) -> None:
    """Set a time limit in milliseconds: attribute 0 that of the stream, 1 that of events."""
    config = here.known(handle, ExecConfig)
    value = (value & 0xFFFFFFFF) - (1 << 32 if value & 0x80000000 else 0)  # it is an int32
    if attribute not in (0, 1) or value < -1:
        raise here.error(INVALID_PARAM, f"attribute {attribute} cannot be {value}")
    if attribute == 0:
        config.stream_ms = value
    else:
        config.event_ms = value


# --- gears


async def _set_gear(here: Session, model: int, handle: int, index: int, gear: Gear, kind: str) -> None:
    dataset = here.known(handle, Dataset)
    if not all(gear):
        raise here.error(INVALID_PARAM, f"{list(gear)} must be 1 or more")
    await executions.set_gear(here, loaded_model(here, model), dataset, index, gear, kind)


@runs("ukkk")
def set_dynamic_batch_size(here: Session, model: int, dataset: int, index: int, batch: int) -> Running:
    """Execute *dataset* with this batch size; *index* is that of the input "ascend_mbatch_shape_data"."""
    return _set_gear(here, model, dataset, index, (batch,), "batch")


@runs("ukkkk")
def set_dynamic_hw_size(here: Session, model: int, dataset: int, index: int, height: int, width: int) -> Running:
    """Execute *dataset* with images of this size; *index* is that of the input "ascend_mbatch_shape_data"."""
    return _set_gear(here, model, dataset, index, (height, width), "hw")


@runs("ukkd")
async def set_input_dynamic_dims(here: Session, model: int, handle: int, index: int, dims: dict[str, Any]) -> None:
    """Execute the dataset with these dims of all inputs, {"name", "dimCount", "dims"}; *index* is that of the input
    "ascend_mbatch_shape_data".
    """
    values = _dims(dims)
    dataset = here.known(handle, Dataset)
    if not values:
        raise here.error(INVALID_PARAM, "dimCount is 0")
    loaded = loaded_model(here, model)
    gear = executions.dynamic_part(here.runtime, loaded.model, values)
    await executions.set_gear(here, loaded, dataset, index, gear, "dims")


def _dims(dims: dict[str, Any]) -> list[int]:
    """The first dimCount of dims, which must be a list of ints."""
    count, values = dims.get("dimCount"), dims.get("dims")
    if not isinstance(count, int) or not isinstance(values, list):
        raise TypeError("set_input_dynamic_dims args parse failed: dimCount must be an int, and dims a list")
    if count > len(values) or not all(isinstance(each, int) for each in values[:count]):
        raise TypeError(f"set_input_dynamic_dims args parse failed: dims must be a list of {count} ints")
    return values[:count]


# --- bundles


@dataclass(eq=False, slots=True)
class Bundle:
    """Several models that are loaded together."""

    models: list[LoadedModel]


def _bundle(here: Session, files: list[str]) -> int:
    models: list[LoadedModel] = []
    try:
        for file in files:
            loaded = here.run(loading.load(model_files.find(here, file)))
            here.handle(loaded)
            models.append(loaded)
    except AclError:
        for each in models:
            here.ret(_unload(here, each))
        raise
    return here.handle(Bundle(models))


@gives("s")
def bundle_load_from_file(here: Session, path: str) -> int:
    """Load all models of a bundle."""
    return _bundle(here, model_files.find_bundle(here, path))


@gives("kk")
def bundle_load_from_mem(here: Session, address: int, size: int) -> int:
    """Load all models of a bundle whose file is in host memory."""
    return _bundle(here, model_files.find_bundle_in_memory(here, address, size))


def _models(here: Session, handle: int) -> list[LoadedModel]:
    bundle = here.find(handle, Bundle)
    if bundle is None:
        raise here.error(INVALID_BUNDLE_MODEL_ID, f"{handle} is not the id of a bundle")
    return bundle.models


@gives("u")
def bundle_get_model_num(here: Session, handle: int) -> int:
    """How many models a bundle has."""
    return len(_models(here, handle))


@gives("uk")
def bundle_get_model_id(here: Session, handle: int, index: int) -> int:
    """The id of a model of a bundle."""
    models = _models(here, handle)
    if index >= len(models):
        raise here.error(INVALID_PARAM, f"index {index} is out of range: the bundle has {len(models)} models")
    return here.handle(models[index])


@runs("u")
async def bundle_unload(here: Session, handle: int) -> None:
    """Unload all models of a bundle."""
    for loaded in _models(here, handle):
        await _unload(here, loaded)
    here.forget(handle)
