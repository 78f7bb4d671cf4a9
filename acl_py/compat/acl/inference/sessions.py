"""Sessions of `aclruntime`: a model file on a device, and its executions.

A session takes what the vendor's takes. It compares the bytes of a feed with those of the input and nothing else, so a
feed may have another type or shape. A type that is not the input's is a finding, except for uint8, the type of files.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from acl_py.compat.acl.face.dtypes import NAMES
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.functions.base import data_buffers
from acl_py.compat.acl.functions.base import tensors as descriptions_of_tensors
from acl_py.compat.acl.functions.mdl import datasets, descriptions, models, preprocessing
from acl_py.compat.acl.functions.rt import memory
from acl_py.compat.acl.inference import opened, shapes
from acl_py.compat.acl.inference import preprocessing as aipp_files
from acl_py.compat.acl.inference.answers import done, made, ms_since, now_ns
from acl_py.compat.acl.inference.tensors import BaseTensor, Tensor, dtype_named, to_new_memory
from acl_py.compat.acl.standins.loading import loaded_model
from acl_py.compat.acl.standins.models import AIPP_INPUT, GEAR_INPUT
from device_model.dtypes import as_dtype

_HUGE_FIRST, _ND = 0, 2


class session_options:  # noqa: N801 - the vendor's name
    """How often each execution is repeated, and what is logged."""

    def __init__(self) -> None:
        self.loop = 1
        self.log_level = 2
        self.acl_json_path = ""


class tensor_desc:  # noqa: N801 - the vendor's name
    """An input or output: *size* is its bytes in the largest gear, *realsize* those in the one that is set."""

    def __init__(self) -> None:
        self.name = ""
        self.datatype: Any = None
        self.format = 0
        self.shape: list[int] = []
        self.size = 0
        self.realsize = 0

    def __repr__(self) -> str:
        kind = getattr(self.datatype, "name", self.datatype)
        return f"{self.name}  {tuple(self.shape)}  {kind}  {self.size}  {self.realsize}"


class sumary:  # noqa: N801 - the vendor's name and spelling
    """What the executions took: a list of milliseconds of simulated time."""

    def __init__(self) -> None:
        self.exec_time_list: list[float] = []


class _Mode(Enum):
    STATIC = "static"
    BATCH = "dymBatch"
    SIZE = "dymHW"
    DIMS = "dymDims"
    SHAPE = "dymShape"


class InferenceSession:
    """A model file that is loaded on a device.

    Raises:
        RuntimeError: The device or the file cannot be used.
    """

    def __init__(self, model_path: str, device_id: int = 0, options: session_options | None = None) -> None:
        self._model = self._desc = self._aipp = 0
        self._beside: list[tuple[int, int, int]] = []  # what says the gear and AIPP: index, address, bytes
        self._device = device_id
        self._options = session_options() if options is None else options
        self._sumary = sumary()
        self._sizes: list[int] = []  # of outputs, if they were given
        self._mode, self._gear = _Mode.STATIC, list[int]()
        self._dims: dict[str, list[int]] = {}
        self._feeds: list[Tensor] = []  # of the last execution, and its results, for inner_run
        self._results: list[Tensor] = []
        path = str(model_path)
        self._runtime = session().runtime
        opened.enter(device_id, self._options.acl_json_path or "")
        self._name = Path(path).name
        self._model = made(models.load_from_file(path), f"the load of {path}")
        here = session()
        here.run(loaded_model(here, self._model).stream())  # made now, so that the first execution does not pay for it
        self._desc = descriptions.create_desc()
        done(descriptions.get_desc(self._desc, self._model), f"the description of {path}")
        count = descriptions.get_num_inputs(self._desc)
        names = [descriptions.get_input_name_by_index(self._desc, place) for place in range(count)]
        beside = [place for place, name in enumerate(names) if name == GEAR_INPUT or name.startswith(AIPP_INPUT)]
        self._inputs = [self._described(place, is_input=True) for place in range(count) if place not in beside]
        self._outputs = [
            self._described(place, is_input=False) for place in range(descriptions.get_num_outputs(self._desc))
        ]
        self._has_gears = GEAR_INPUT in names
        for place in beside:
            nbytes = descriptions.get_input_size_by_index(self._desc, place)
            address = made(memory.malloc(nbytes, _HUGE_FIRST), f"the memory of {names[place]}")
            self._beside.append((place, address, nbytes))

    def _described(self, place: int, *, is_input: bool) -> tensor_desc:
        desc = tensor_desc()
        if is_input:
            dims = made(descriptions.get_input_dims(self._desc, place), f"the dims of input {place}")
            desc.datatype = dtype_named(descriptions.get_input_data_type(self._desc, place))
            desc.format = descriptions.get_input_format(self._desc, place)
            desc.size = descriptions.get_input_size_by_index(self._desc, place)
        else:
            dims = made(descriptions.get_output_dims(self._desc, place), f"the dims of output {place}")
            desc.datatype = dtype_named(descriptions.get_output_data_type(self._desc, place))
            desc.format = descriptions.get_output_format(self._desc, place)
            desc.size = descriptions.get_output_size_by_index(self._desc, place)
        desc.name, desc.shape, desc.realsize = dims["name"], list(dims["dims"]), desc.size
        return desc

    # --- inputs and outputs of the model

    def get_inputs(self) -> list[tensor_desc]:
        """Return the inputs, without the one that says the gear."""
        return self._inputs

    def get_outputs(self) -> list[tensor_desc]:
        """Return the outputs."""
        return self._outputs

    def options(self) -> session_options:
        """Return the options; a change holds for the next execution."""
        return self._options

    def sumary(self) -> sumary:
        """Return what the executions took."""
        return self._sumary

    def reset_sumaryinfo(self) -> int:
        """Forget what the executions took."""
        self._sumary.exec_time_list = []
        return 0

    def __repr__(self) -> str:
        lines = ["<Model>", f"device:\t{self._device}"]
        for title, tensors in (("input:", self._inputs), ("output:", self._outputs)):
            lines += [title, *(f"  #{place}    {each}" for place, each in enumerate(tensors))]
        return "\n".join(lines) + "\n"

    # --- gears and shapes

    def set_staticbatch(self) -> int:
        """Execute the shapes that the model has."""
        self._set(_Mode.STATIC, [])
        return 0

    def set_dynamic_batchsize(self, batch: int) -> int:
        """Execute with this batch size; RuntimeError if the model has no such gear."""
        batches = made(descriptions.get_dynamic_batch(self._desc), "the batch sizes of the model")["batch"]
        self._check_gear(batch, batches, "dynamic_batch_size", "batch size")
        self._set(_Mode.BATCH, [batch])
        self._scale(batch, max(batches))
        return 0

    def get_max_dym_batchsize(self) -> int:
        """Return the largest batch size; 0 if there are none."""
        return max(made(descriptions.get_dynamic_batch(self._desc), "the batch sizes of the model")["batch"], default=0)

    def set_dynamic_hw(self, height: int, width: int) -> int:
        """Execute with images of this size; RuntimeError if the model has no such gear."""
        sizes = made(descriptions.get_dynamic_hw(self._desc, 0), "the sizes of the model")["hw"]
        self._check_gear([height, width], sizes, "dynamic_image_size", "size of images")
        self._set(_Mode.SIZE, [height, width])
        self._scale(height * width, max(map(prod, sizes)))
        return 0

    def set_dynamic_dims(self, text: str) -> int:
        """Execute with these dims, "data:1,600;info:1,600"; RuntimeError if the model has no such gear."""
        dims = shapes.read(text)
        count = made(descriptions.get_input_dynamic_gear_count(self._desc, 0), "the number of gears")
        gears = made(descriptions.get_input_dynamic_dims(self._desc, 0, count), "the gears of the model")
        flat = [dim for each in dims.values() for dim in each]
        self._check_gear(flat, [each["dims"] for each in gears], "dynamic_dims", "list of dims")
        self._set(_Mode.DIMS, flat)
        self._resize(dims)
        return 0

    def set_dynamic_shape(self, text: str) -> int:
        """Execute with inputs of these shapes; RuntimeError if they are not those of all inputs."""
        dims = shapes.read(text)
        shapes.check_names(dims, [each.name for each in self._inputs], "the text of the shapes")
        self._set(_Mode.SHAPE, [])
        self._dims = dims
        self._resize(dims)
        return 0

    def set_custom_outsize(self, sizes: Sequence[int]) -> int:
        """Give the outputs so many bytes, where the model does not say how many they take."""
        self._sizes = [int(each) for each in sizes]
        return 0

    def _set(self, mode: _Mode, gear: list[int]) -> None:
        self._mode, self._gear = mode, gear
        for desc in self._inputs:
            desc.realsize = desc.size

    def _check_gear(self, wanted: Any, gears: Sequence[Any], option: str, what: str) -> None:
        if not gears:
            raise RuntimeError(f"{self._name} was converted without --{option}, so it has no {what} to choose")
        if wanted not in gears:
            raise RuntimeError(f"{self._name} has no {what} {wanted}; there are {', '.join(map(str, gears))}")

    def _scale(self, part: int, whole: int) -> None:
        for desc in self._inputs:
            if -1 in desc.shape:
                desc.realsize = desc.size * part // whole

    def _resize(self, dims: Mapping[str, Sequence[int]]) -> None:
        for desc in self._inputs:
            if desc.name in dims:
                desc.realsize = prod(dims[desc.name]) * _item_bytes(desc)

    # --- AIPP

    def get_dym_aipp_input_exist(self) -> int:
        """Return how many inputs have dynamic AIPP."""
        return len(self._beside) - self._has_gears

    def check_dym_aipp_input_exist(self) -> int:
        """Raise RuntimeError unless one input has dynamic AIPP."""
        if self.get_dym_aipp_input_exist() != 1:
            what = f"{self._name} has {self.get_dym_aipp_input_exist()} inputs with dynamic AIPP"
            raise RuntimeError(f"{what}, and settings can be given for one")
        return 0

    def load_aipp_config(self, path: str, count: int) -> int:
        """Execute with the settings of AIPP in the file *path*, for *count* images."""
        settings = aipp_files.parameters(path, count)
        if self._aipp:
            preprocessing.destroy_aipp(self._aipp)
        self._aipp = settings
        return 0

    # --- executions

    def run(
        self, output_names: Sequence[str], feeds: "Sequence[Tensor | BaseTensor] | Mapping[str, Tensor]"
    ) -> list[Tensor]:
        """Execute with *feeds*, by their order or by name, and return the outputs *output_names*, on the device.

        Raises:
            RuntimeError: A feed does not fit, or the execution fails.
        """
        opened.enter(self._device)
        given = self._in_order(feeds)
        self._named(output_names, self._outputs)
        tensors = [self._on_device(each, place) for place, each in enumerate(given)]
        return self._named(output_names, self._execute(tensors, self._options.loop))

    def first_inner_run(self, output_names: Sequence[str], feeds: "Sequence[Tensor | BaseTensor]") -> list[Tensor]:
        """Execute, and keep feeds and results for `inner_run`."""
        self._named(output_names, self._outputs)
        opened.enter(self._device)
        self._feeds = [self._on_device(each, place) for place, each in enumerate(self._in_order(feeds))]
        self._results = self._execute(self._feeds, self._options.loop)
        return []

    def inner_run(
        self, in_out_list: Sequence[int], output_names: Sequence[str], get_outputs: bool = False, mem_copy: bool = False
    ) -> list[Tensor]:
        """Execute again: an input takes the last result of that index, or with -1 what it had.

        Raises:
            RuntimeError: `first_inner_run` was not called, or the indices do not fit.
        """
        if not self._feeds:
            raise RuntimeError("there is nothing to repeat: call first_inner_run() before inner_run()")
        if len(in_out_list) != len(self._feeds) or not all(-1 <= each < len(self._results) for each in in_out_list):
            what = f"in_out_list {list(in_out_list)} must have an index of an output, or -1, for each"
            raise RuntimeError(f"{what} of {len(self._feeds)} inputs; there are {len(self._results)} outputs")
        opened.enter(self._device)
        for place, source in enumerate(in_out_list):
            if source >= 0:
                self._feeds[place] = self._results[source]
        for place, tensor in enumerate(self._feeds):
            self._check_bytes(tensor.nbytes, place)
        self._results = self._execute(self._feeds, self._options.loop if mem_copy else 1)
        return self._named(output_names, self._results) if get_outputs else []

    def run_pipeline(
        self,
        output_names: Sequence[str],
        feeds_list: "Sequence[Sequence[Tensor | BaseTensor]]",
        shapes_list: Sequence[Sequence[Sequence[int]]],
        auto_shape: bool = False,
        auto_dims: bool = False,
    ) -> list[list[Tensor]]:
        """Execute with each of several lists of feeds, and return the outputs of each, on the host."""
        outputs = []
        for feeds, dims in zip(feeds_list, shapes_list, strict=True):
            text = shapes.write([each.name for each in self._inputs], dims)
            if auto_shape:
                self.set_dynamic_shape(text)
            elif auto_dims:
                self.set_dynamic_dims(text)
            outputs.append(self.run(output_names, feeds))
            for tensor in outputs[-1]:
                tensor.to_host()
        return outputs

    def _in_order(self, feeds: "Sequence[Tensor | BaseTensor] | Mapping[str, Tensor]") -> "list[Tensor | BaseTensor]":
        names = [each.name for each in self._inputs]
        if isinstance(feeds, Mapping):
            shapes.check_names(dict.fromkeys(feeds, ()), names, "the feeds")
            return [feeds[name] for name in names]
        if len(feeds) != len(names):
            raise RuntimeError(f"{self._name} has {len(names)} inputs, {', '.join(names)}, and {len(feeds)} were fed")
        if self._has_gears and not self._gear:
            what = f"{self._name} was made for several batches, sizes or dims, and none of them is set"
            raise RuntimeError(
                f"{what}: say which, by the mode of infer(), a set_dynamic function or --dymBatch and kin"
            )
        return list(feeds)

    def _on_device(self, feed: "Tensor | BaseTensor", place: int) -> Tensor:
        desc = self._inputs[place]
        if isinstance(feed, BaseTensor):
            self._check_bytes(feed.size, place)
            return Tensor.on_device(to_new_memory(feed.buf, feed.size), [feed.size], 4, self._device)
        if not isinstance(feed, Tensor):
            raise TypeError(f"input {desc.name}: a Tensor or BaseTensor is fed, not {type(feed).__name__}")
        self._check_bytes(feed.nbytes, place)
        check_type(self._name, desc, str(feed.kind))
        return feed

    def _check_bytes(self, nbytes: int, place: int) -> None:
        desc = self._inputs[place]
        if nbytes != desc.realsize:
            known = self._dims.get(desc.name, desc.shape) if self._mode is _Mode.SHAPE else desc.shape
            gear = f" with {self._mode.value} {self._gear}" if self._gear else ""
            what = f"{desc.name} of {self._name} takes {desc.realsize} bytes{gear}"
            raise RuntimeError(f"input {what} ({_name(desc)} {list(known)}), and {nbytes} were fed")

    def _execute(self, tensors: Sequence[Tensor], loop: int) -> list[Tensor]:
        """Execute *loop* times, and return the results."""
        results = list[tuple[int, int]]()
        given, wanted = datasets.create_dataset(), datasets.create_dataset()
        try:
            for tensor in tensors:
                _add(given, tensor.address, tensor.nbytes)
            self._set_gear(given)
            for place, desc in enumerate(self._outputs):
                nbytes = self._sizes[place] if place < len(self._sizes) else desc.size
                if not nbytes:
                    what = f"the bytes of output {desc.name} of {self._name} are not known beforehand"
                    raise RuntimeError(f"{what}: say them, with custom_sizes, set_custom_outsize() or --outputSize")
                results.append((made(memory.malloc(nbytes, _HUGE_FIRST), f"the memory of output {desc.name}"), nbytes))
                _add(wanted, *results[-1])
            for _ in range(max(loop, 1)):
                begin = now_ns()
                ret = models.execute(self._model, given, wanted)
                done(ret, f"the execution of {self._name}")
                self._sumary.exec_time_list.append(ms_since(begin))
            dims = [self._result_dims(wanted, place) for place in range(len(self._outputs))]
        except BaseException:
            for address, _ in results:
                memory.free(address)
            raise
        finally:
            _destroy(given)
            _destroy(wanted)
        return [
            Tensor.on_device(address, shape, int(desc.datatype), self._device)
            for (address, _), shape, desc in zip(results, dims, self._outputs, strict=True)
        ]

    def _set_gear(self, given: int) -> None:
        """Say the gear, the shapes and the settings of AIPP of the dataset *given*."""
        place = len(self._inputs)
        for index, address, nbytes in self._beside:
            _add(given, address, nbytes)
            if not self._has_gears or index > place:
                if not self._aipp:
                    raise RuntimeError(f"{self._name} has dynamic AIPP: call load_aipp_config_file(), or --aipp_config")
                settings = preprocessing.set_input_aipp(self._model, given, index, self._aipp)
                done(settings, f"the settings of AIPP of {self._name}")
        what = f"the choice of {self._mode.value} {self._gear} of {self._name}"
        if self._mode is _Mode.BATCH:
            done(models.set_dynamic_batch_size(self._model, given, place, *self._gear), what)
        elif self._mode is _Mode.SIZE:
            done(models.set_dynamic_hw_size(self._model, given, place, *self._gear), what)
        elif self._mode is _Mode.DIMS:
            dims = {"name": "", "dimCount": len(self._gear), "dims": list(self._gear)}
            done(models.set_input_dynamic_dims(self._model, given, place, dims), what)
        elif self._mode is _Mode.SHAPE:
            for index, desc in enumerate(self._inputs):
                shape = list(self._dims[desc.name])
                described = descriptions_of_tensors.create_tensor_desc(int(desc.datatype), shape, _ND)
                _, ret = datasets.set_dataset_tensor_desc(given, described, index)
                descriptions_of_tensors.destroy_tensor_desc(described)
                done(ret, f"the shape {shape} of {desc.name}")

    def _result_dims(self, wanted: int, place: int) -> list[int]:
        described = datasets.get_dataset_tensor_desc(wanted, place)
        if described:
            count = descriptions_of_tensors.get_tensor_desc_num_dims(described)
            return [descriptions_of_tensors.get_tensor_desc_dim(described, each) for each in range(count)]
        dims: list[int] = made(descriptions.get_cur_output_dims(self._desc, place), "the dims of a result")["dims"]
        if -1 in dims:  # they depend on values: all that there may be
            desc = self._outputs[place]
            nbytes = self._sizes[place] if place < len(self._sizes) else desc.size
            return [nbytes // _item_bytes(desc)]
        return dims

    def _named(self, names: Sequence[str], results: Sequence[Any]) -> list[Any]:
        known = [each.name for each in self._outputs]
        for name in names:
            if name not in known:
                raise RuntimeError(f"{self._name} has no output {name!r}; its outputs are {', '.join(known)}")
        return [results[known.index(name)] for name in names]

    def create_tensor_from_fileslist(self, desc: tensor_desc, files: Sequence[str]) -> Tensor:
        """Return a tensor on the device with the bytes of *files*, one behind the other."""
        content = b"".join(Path(each).read_bytes() for each in files)
        if len(content) != desc.realsize:
            raise RuntimeError(f"input {desc.name} takes {desc.realsize} bytes, and the files have {len(content)}")
        tensor = Tensor(np.frombuffer(content, np.uint8))
        tensor.to_device(self._device)
        return tensor

    # --- the end

    def free_resource(self) -> None:
        """Unload the model, and free its memory. A second time it does nothing."""
        model, self._model = self._model, 0
        if not model:
            return
        opened.enter(self._device)
        self._feeds, self._results = [], []
        if self._desc:
            descriptions.destroy_desc(self._desc)
        for _, address, _ in self._beside:
            memory.free(address)
        if self._aipp:
            preprocessing.destroy_aipp(self._aipp)
        done(models.unload(model), f"the end of {self._name}")

    def __del__(self) -> None:
        if getattr(self, "_model", 0) and self._runtime.closed is None:
            self.free_resource()

    def finalize(self) -> int:
        """Unload the model, reset the devices that sessions use, and end acl."""
        self.free_resource()
        opened.leave_all()
        return 0


def check_type(model: str, desc: tensor_desc, kind: str) -> None:
    """Note a finding if a feed has another type than the input; uint8 is that of bytes from a file."""
    if kind not in (_name(desc), "uint8"):
        session().warn_once(
            f"input {desc.name} of {model} is {_name(desc)}, and was fed {kind}: its bytes are taken as they are"
        )


def _name(desc: tensor_desc) -> str:
    return NAMES[int(desc.datatype)]


def _item_bytes(desc: tensor_desc) -> int:
    return as_dtype(_name(desc)).itemsize


def _add(dataset: int, address: int, nbytes: int) -> None:
    buffer = data_buffers.create_data_buffer(address, nbytes)
    _, ret = datasets.add_dataset_buffer(dataset, buffer)
    done(ret, "a data buffer")


def _destroy(dataset: int) -> None:
    for place in range(datasets.get_dataset_num_buffers(dataset)):
        data_buffers.destroy_data_buffer(datasets.get_dataset_buffer(dataset, place))
    datasets.destroy_dataset(dataset)
