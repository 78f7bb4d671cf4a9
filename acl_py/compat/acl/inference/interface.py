"""`ais_bench.infer.interface`: InferSession executes a model file with arrays; MultiDeviceSession, on several ones."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.inference import opened, shapes
from acl_py.compat.acl.inference import tensors as own
from acl_py.compat.acl.inference.sessions import (
    InferenceSession,
    check_type,
    session_options,
    sumary,
    tensor_desc,
)
from acl_py.compat.acl.inference.tensors import BaseTensor, Tensor

logger = logging.getLogger(__name__)

_SCALARS = (
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.float64,
)  # fmt: skip
_TORCH = {f"torch.{name}Tensor" for name in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Long",
                                             "Bool", "Int")}  # fmt: skip
_MODES = ("static", "dymbatch", "dymhw", "dymdims", "dymshape")
_LEAST_SIZE = 100_000  # bytes of an output of unknown shape, unless more are asked for

Array = npt.NDArray[Any]
Feed = Any  # an array, a NumPy scalar, a Tensor or a tensor of torch
Sizes = int | Sequence[int] | None


class InferSession:
    """A model file on a device, executed with arrays.

    Args:
        device_id: The device.
        model_path: The model file.
        acl_json_path: A file for acl.init().
        debug: Whether more is logged.
        loop: How often each execution is repeated.

    Raises:
        RuntimeError: The device or a file cannot be used.
    """

    def __init__(
        self, device_id: int, model_path: str, acl_json_path: str | None = None, debug: bool = False, loop: int = 1
    ) -> None:
        self.device_id = device_id
        self.model_path = model_path
        self.acl_json_path = acl_json_path
        self.debug = debug
        self.loop = loop
        self.options = session_options()
        self.options.acl_json_path = acl_json_path or ""
        self.options.log_level = 1 if debug else 2
        self.options.loop = loop
        self.session = InferenceSession(model_path, device_id, self.options)
        self.outputs_names = [each.name for each in self.session.get_outputs()]
        self.intensors_desc = self.session.get_inputs()
        self.outtensors_desc = self.session.get_outputs()

    # --- inputs and outputs of the model

    def get_inputs(self) -> list[tensor_desc]:
        """Return the inputs: name, datatype, format, shape, size and realsize of each."""
        return self.session.get_inputs()

    def get_outputs(self) -> list[tensor_desc]:
        """Return the outputs."""
        return self.session.get_outputs()

    def summary(self) -> sumary:
        """Return what the executions took: exec_time_list, in milliseconds of simulated time."""
        return self.session.sumary()

    sumary = summary  # older releases have this spelling, newer ones both

    def reset_summaryinfo(self) -> None:
        """Forget what the executions took."""
        self.session.reset_sumaryinfo()

    reset_sumaryinfo = reset_summaryinfo

    # --- gears and shapes

    def set_loop_count(self, loop: int) -> None:
        """Repeat each execution so often."""
        self.session.options().loop = loop

    def set_staticbatch(self) -> None:
        """Execute the shapes that the model has."""
        self.session.set_staticbatch()

    def set_dynamic_batchsize(self, dym_batch: int) -> None:
        """Execute with this batch size; RuntimeError if the model has no such gear."""
        self.session.set_dynamic_batchsize(int(dym_batch))

    def get_max_dym_batchsize(self) -> int:
        """Return the largest batch size; 0 if there are none."""
        return self.session.get_max_dym_batchsize()

    def set_dynamic_hw(self, w: int, h: int) -> None:
        """Execute with images of this size: the height comes first, whatever the names say, as in the vendor's."""
        self.session.set_dynamic_hw(int(w), int(h))

    def set_dynamic_dims(self, dym_dims: str) -> None:
        """Execute with these dims, as in "data:1,600"; RuntimeError if the model has no such gear."""
        self.session.set_dynamic_dims(dym_dims)

    def set_dynamic_shape(self, dym_shape: str) -> None:
        """Execute with inputs of these shapes, as in "data:1,600"."""
        self.session.set_dynamic_shape(dym_shape)

    def set_custom_outsize(self, custom_sizes: Sequence[int]) -> None:
        """Give the outputs so many bytes."""
        self.session.set_custom_outsize(custom_sizes)

    # --- AIPP

    def get_dym_aipp_input_exist(self) -> int:
        """Return how many inputs have dynamic AIPP."""
        return self.session.get_dym_aipp_input_exist()

    def check_dym_aipp_input_exist(self) -> None:
        """Raise RuntimeError unless one input has dynamic AIPP."""
        self.session.check_dym_aipp_input_exist()

    def load_aipp_config_file(self, config_file: str, batchsize: int) -> int:
        """Execute with the settings of AIPP in a file with a section [aipp_op]; RuntimeError if it is wrong."""
        return self.session.load_aipp_config(config_file, batchsize)

    # --- tensors

    def create_tensor_from_fileslist(self, desc: tensor_desc, files: Sequence[str]) -> Tensor:
        """Return a tensor on the device with the bytes of *files*."""
        return self.session.create_tensor_from_fileslist(desc, files)

    def create_tensor_from_arrays_to_device(self, arrays: npt.ArrayLike) -> Tensor:
        """Return a tensor on the device with these values."""
        tensor = Tensor(arrays)
        tensor.to_device(self.device_id)
        return tensor

    @staticmethod
    def convert_tensors_to_host(tensors: Sequence[Tensor]) -> None:
        """Move *tensors* to the host."""
        for tensor in tensors:
            tensor.to_host()

    @staticmethod
    def convert_tensors_to_arrays(tensors: Sequence[Tensor]) -> list[Array]:
        """Return the values of *tensors* on the host."""
        return [np.array(tensor) for tensor in tensors]

    # --- executions

    def run(self, feeds: Sequence[Any], out_array: bool = False) -> list[Any]:
        """Execute with arrays, or with tensors on the device, in the shapes that were set.

        Returns:
            Tensors on the device; arrays if *out_array*.
        """
        if len(feeds) and isinstance(feeds[0], np.ndarray):
            given: Sequence[Any] = [_borrowed(each) for each in feeds]
        else:
            given = feeds
        outputs = self.session.run(self.outputs_names, given)
        if not out_array:
            return outputs
        self.convert_tensors_to_host(outputs)
        return self.convert_tensors_to_arrays(outputs)

    def infer(
        self, feeds: Sequence[Feed], mode: str = "static", custom_sizes: Sizes = _LEAST_SIZE, out_array: bool = True
    ) -> list[Any]:
        """Execute with *feeds*, which give the shapes in all modes but "static".

        Args:
            feeds: An array, a NumPy scalar, a Tensor or a tensor of torch for each input.
            mode: "static", "dymbatch", "dymhw", "dymdims" or "dymshape".
            custom_sizes: In "dymshape" the bytes of each output, or of all.
            out_array: Whether arrays are returned; else tensors on the device.

        Returns:
            The outputs.

        Raises:
            RuntimeError: A feed is something else or does not fit, there is no such mode, or the execution fails.
        """
        given, dims = self._given(feeds)
        self._prepare(mode, dims, custom_sizes)
        return self._outputs_of(self.session.run(self.outputs_names, _all_of(given)), out_array=out_array)

    def infer_pipeline(
        self, feeds_list: Sequence[Sequence[Feed]], mode: str = "static", custom_sizes: Sizes = _LEAST_SIZE
    ) -> list[list[Array]]:
        """Execute with each of several lists of feeds, and return the outputs of each. In "static" the gear or the
        shapes are those that were set; in the other modes they follow each list of feeds.
        """
        _check_mode(mode)
        outputs = []
        for feeds in feeds_list:
            given, dims = self._given(feeds)
            if mode != "static":
                self._prepare(mode, dims, custom_sizes)
            outputs.append(self._outputs_of(self.session.run(self.outputs_names, _all_of(given)), out_array=True))
        return outputs

    def infer_iteration(
        self,
        feeds: Sequence[Feed],
        in_out_list: Sequence[int] | None = None,
        iteration_times: int = 1,
        mode: str = "static",
        custom_sizes: Sizes = None,
        mem_copy: bool = True,
    ) -> list[Array]:
        """Execute *iteration_times* times; an input takes the output of the index in *in_out_list* of the time before,
        or with -1 stays. Return the last outputs.
        """
        sizes = custom_sizes or _LEAST_SIZE
        if iteration_times == 1:
            return self.infer(feeds, mode, sizes)
        self.first_inner_run(feeds, mode, sizes)
        for _ in range(iteration_times - 2):
            self.inner_run(in_out_list or (), False, mem_copy)
        return self._outputs_of(self.inner_run(in_out_list or (), True, mem_copy), out_array=True)

    def first_inner_run(self, feeds: Sequence[Feed], mode: str = "static", custom_sizes: Sizes = _LEAST_SIZE) -> None:
        """Execute, and keep inputs and outputs on the device for `inner_run`."""
        given, dims = self._given(feeds)
        self._prepare(mode, dims, custom_sizes)
        self.session.first_inner_run(self.outputs_names, _all_of(given))

    def inner_run(self, in_out_list: Sequence[int], get_outputs: bool = False, mem_copy: bool = True) -> list[Tensor]:
        """Execute again: an input takes the last output of that index, or with -1 stays."""
        return self.session.inner_run(in_out_list, self.outputs_names, get_outputs, mem_copy)

    def _outputs_of(self, outputs: list[Tensor], *, out_array: bool) -> list[Any]:
        if not out_array:
            return outputs
        self.convert_tensors_to_host(outputs)
        return self.convert_tensors_to_arrays(outputs)

    def _given(self, feeds: Sequence[Feed]) -> tuple[list[Any], list[list[int]]]:
        """Return *feeds* as arrays and tensors, and their shapes."""
        given, dims = list[Any](), list[list[int]]()
        for place, feed in enumerate(feeds):
            array = _array(feed)
            if array is None:
                given.append(feed)
                dims.append(list(feed.shape))
                continue
            array = np.ascontiguousarray(array).reshape(array.shape)
            if place < len(self.intensors_desc):
                check_type(str(self.model_path), self.intensors_desc[place], str(array.dtype))
            given.append(array)
            dims.append(list(array.shape) if isinstance(feed, np.ndarray) or array.ndim else [array.size])
        return given, dims

    def _prepare(self, mode: str, dims: Sequence[Sequence[int]], custom_sizes: Sizes) -> None:
        """Set gear or shapes to those of the feeds."""
        _check_mode(mode)
        inputs = self.get_inputs()
        if mode == "static":
            self.session.set_staticbatch()
            return
        if len(dims) != len(inputs):
            raise RuntimeError(f"the model has {len(inputs)} inputs, and {len(dims)} were fed")
        if mode == "dymbatch":
            self.session.set_dynamic_batchsize(_batch(inputs, dims))
        elif mode == "dymhw":
            self.session.set_dynamic_hw(*_size(inputs, dims))
        elif mode == "dymdims":
            self.session.set_dynamic_dims(shapes.write([each.name for each in inputs], dims))
        else:
            self.session.set_dynamic_shape(shapes.write([each.name for each in inputs], dims))
            self.session.set_custom_outsize(self._sizes(custom_sizes))

    def _sizes(self, given: Sizes) -> Sequence[int]:
        if isinstance(given, int):
            return [given] * len(self.get_outputs())
        if not isinstance(given, list):
            raise RuntimeError(f"custom_sizes must be a number of bytes or a list of them, not {given!r}")
        return given

    # --- the end

    def free_resource(self) -> None:
        """Unload the model, and free its memory."""
        self.session.free_resource()

    free_device = free_resource  # the name in older releases

    @staticmethod
    def finalize() -> None:
        """Reset the devices that sessions use, and end acl."""
        opened.leave_all()


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise RuntimeError(f"there is no mode {mode!r}; use one of {', '.join(_MODES)}")


def _array(feed: Feed) -> Array | None:
    """Return a feed as an array; None if it is a tensor on the device."""
    if type(feed) is np.ndarray:
        return feed
    if type(feed) in _SCALARS:
        return np.asarray(feed)
    if type(feed) is Tensor:
        return None
    kind = getattr(feed, "type", None)
    if callable(kind) and kind() in _TORCH:
        array: Array = feed.numpy()
        return array
    raise RuntimeError(
        f"type:{type(feed)} invalid: feed an array, a NumPy scalar, an aclruntime.Tensor or a tensor of torch"
    )


def _borrowed(array: Array) -> BaseTensor:
    """Return the memory of *array*, which must live on until it was copied."""
    return BaseTensor(array.ctypes.data, array.nbytes)


def _all_of(given: Sequence[Any]) -> list[Any]:
    return [_borrowed(each) if isinstance(each, np.ndarray) else each for each in given]


def _batch(inputs: Sequence[tensor_desc], dims: Sequence[Sequence[int]]) -> int:
    """Return what stands in the place of the first -1."""
    for desc, shape in zip(inputs, dims, strict=True):
        if len(shape) != len(desc.shape):
            raise RuntimeError(f"input {desc.name} has dims {desc.shape}, and was fed {list(shape)}")
        for own_dim, dim in zip(desc.shape, shape, strict=True):
            if own_dim < 0:
                return dim
            if own_dim != dim:
                raise RuntimeError(f"input {desc.name} has dims {desc.shape}, and was fed {list(shape)}")
    raise RuntimeError("not a dymbatch model: no dim of an input is -1")


def _size(inputs: Sequence[tensor_desc], dims: Sequence[Sequence[int]]) -> tuple[int, int]:
    for desc, shape in zip(inputs, dims, strict=True):
        if len(desc.shape) == 4 and len(shape) == 4:
            if desc.shape[2] < 0 and desc.shape[3] < 0:
                return shape[2], shape[3]
            if desc.shape[1] < 0 and desc.shape[2] < 0:  # NHWC
                return shape[1], shape[2]
    raise RuntimeError("not a dymhw model: no input has -1 for height and width")


class MultiDeviceSession:
    """A model file on several devices at once: a thread for each list of feeds, all on the clock of one simulation."""

    def __init__(self, model_path: str, acl_json_path: str | None = None, debug: bool = False, loop: int = 1) -> None:
        self.model_path = model_path
        self.acl_json_path = acl_json_path
        self.debug = debug
        self.loop = loop
        self._summaries: dict[int, list[list[float]]] = {}

    def infer(
        self,
        device_feeds: Mapping[int, Sequence[Sequence[Feed]]],
        mode: str = "static",
        custom_sizes: Sizes = _LEAST_SIZE,
    ) -> dict[int, list[list[Array]]]:
        """Execute each list of feeds on its device: {device: [feeds, ...]}. Return the outputs, in the order of the
        feeds; what fails is logged, and has none.
        """
        return self._all(device_feeds, lambda session, feeds: session.infer(feeds, mode, custom_sizes))

    def infer_pipeline(
        self,
        device_feeds_list: Mapping[int, Sequence[Sequence[Sequence[Feed]]]],
        mode: str = "static",
        custom_sizes: Sizes = _LEAST_SIZE,
    ) -> dict[int, list[list[list[Array]]]]:
        """Do `InferSession.infer_pipeline` with each list of lists of feeds: {device: [feeds_list, ...]}."""
        return self._all(device_feeds_list, lambda session, feeds: session.infer_pipeline(feeds, mode, custom_sizes))

    def infer_iteration(
        self,
        device_feeds: Mapping[int, Sequence[Sequence[Feed]]],
        in_out_list: Sequence[int] | None = None,
        iteration_times: int = 1,
        mode: str = "static",
        custom_sizes: Sizes = None,
        mem_copy: bool = True,
    ) -> dict[int, list[list[Array]]]:
        """Do `InferSession.infer_iteration` with each list of feeds: {device: [feeds, ...]}."""

        def run(session: InferSession, feeds: Sequence[Feed]) -> list[Array]:
            return session.infer_iteration(feeds, in_out_list, iteration_times, mode, custom_sizes, mem_copy)

        return self._all(device_feeds, run)

    def summary(self) -> dict[int, list[list[float]]]:
        """Return the milliseconds of the executions of the last call, by device, a list for each list of feeds."""
        return self._summaries

    def _all(self, device_feeds: Mapping[int, Sequence[Any]], run: Any) -> dict[int, list[Any]]:
        results: dict[tuple[int, int], tuple[Any, list[float]]] = {}

        def work(device: int, place: int, feeds: Any) -> None:
            try:
                session = InferSession(device, self.model_path, self.acl_json_path, self.debug, self.loop)
                outputs = run(session, feeds)
                results[device, place] = outputs, list(session.summary().exec_time_list)
                session.free_resource()
            except RuntimeError as error:
                logger.error("device %s: %s", device, error)

        threads = [
            threading.Thread(target=work, args=(device, place, feeds), name=f"device {device}, feeds {place}")
            for device, lists in device_feeds.items()
            for place, feeds in enumerate(lists)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = {device: [results[key] for key in sorted(results) if key[0] == device] for device in device_feeds}
        self._summaries = {device: [times for _, times in each] for device, each in kept.items() if each}
        return {device: [outputs for outputs, _ in each] for device, each in kept.items() if each}


class MemorySummary:
    """How long the copies of tensors took, in milliseconds of simulated time."""

    @staticmethod
    def get_h2d_time_list() -> list[float]:
        """Return those to devices."""
        return own.MemorySummary().H2D_time_list

    @staticmethod
    def get_d2h_time_list() -> list[float]:
        """Return those to the host."""
        return own.MemorySummary().D2H_time_list

    @staticmethod
    def reset() -> None:
        """Forget them."""
        own.MemorySummary().reset()
