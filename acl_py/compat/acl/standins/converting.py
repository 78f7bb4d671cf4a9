"""What `acl-py atc` does: it makes a model file from an ONNX file, with the options of the vendor's converter.

Options of the vendor's that change how fast or how exact a card computes have no meaning here; they are ignored, and
named. Any other option is refused by its name, because the model that it asks for would be another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from acl_py.compat.acl.aipp import files as aipp_files
from acl_py.compat.acl.standins.graph_files import Description, pack
from acl_py.compat.acl.standins.graphs import packages, protos
from acl_py.compat.acl.standins.graphs.building import model_in
from acl_py.compat.acl.standins.models import FORMATS, Tensor
from acl_py.whole_files import writing

_ONNX = "5"
_FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}
_LAYOUTS = ("NCHW", "NHWC", "ND", "NCDHW", "NDHWC")
_GEARS = {"dynamic_batch_size": "dynamic_batch", "dynamic_image_size": "dynamic_hw", "dynamic_dims": "dynamic_dims"}
_USED = ("model", "framework", "output", "input_shape", "input_format", "soc_version", "output_type", "out_nodes",
         "insert_op_conf", "input_shape_range", "mode", *_GEARS)  # fmt: skip
_TYPES = {"FP32": "FLOAT", "FP16": "FLOAT16", "UINT8": "UINT8", "INT8": "INT8"}
IGNORED = (
    "log", "precision_mode", "precision_mode_v2", "modify_mixlist", "op_select_implmode", "optypelist_for_implmode",
    "op_precision_mode", "allow_hf32", "keep_dtype", "customize_dtypes", "auto_tune_mode", "op_bank_path",
    "op_compiler_cache_dir", "op_compiler_cache_mode", "op_debug_level", "op_debug_config", "debug_dir", "core_type",
    "aicore_num", "buffer_optimize", "enable_small_channel", "fusion_switch_file", "enable_single_stream",
    "enable_scope_fusion_passes", "enable_compress_weight", "compress_weight_conf", "sparsity",
    "compression_optimize_conf", "mdl_bank_path", "tiling_schedule_optimize", "oo_level", "optimization_switch",
    "display_model_info", "deterministic", "deterministic_level", "external_weight", "host_env_os", "host_env_cpu",
    "virtual_type", "atomic_clean_policy", "disable_reuse_memory", "shape_generalized_build_mode",
    "save_original_model", "check_report", "op_name_map", "quant_dumpable", "status_check", "ac_parallel_enable",
)  # fmt: skip


class ConversionError(ValueError):
    """A model that cannot be made; the message begins with the vendor's code where it has one."""


@dataclass
class Options:
    """The options of a conversion, by name as the vendor's converter has them; *ignored* are those without meaning."""

    values: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)

    def get(self, name: str) -> str:
        """The value of an option, "" if it was not given."""
        return self.values.get(name, "")


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options in *arguments*, each as --name=value, or --name and value.

    Raises:
        ConversionError: There is no such option, or a value is missing.
    """
    options, rest = Options(), list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not name:
            raise ConversionError(f"{argument!r} is no option: write --name=value, and values with spaces in quotes")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ConversionError(f"--{name} needs a value: --{name}=...")
            value = rest.pop(0)
        if name in IGNORED:
            options.ignored.append(name)
        elif name not in _USED:
            raise ConversionError(
                f"--{name} is not simulated: leave it out if the results may do without; known are "
                f"{', '.join(f'--{each}' for each in _USED)}"
            )
        else:
            options.values[name] = value.strip().strip("\"'")
    return options


def convert(options: Options) -> tuple[Path, Any]:
    """Make the model file that *options* ask for. Return its path, and the model in it.

    Raises:
        ConversionError: It cannot be made; nothing was written.
        OSError: It cannot be written.
    """
    path, output, chip = _check(options)
    try:
        model = protos.read(Path(path))
        model = _with_outputs(model, options.get("out_nodes"))
        model = _with_type(model, options.get("output_type"))
        inputs = _inputs(model, options)
        description = Description(
            output.name,
            inputs,
            chip,
            aipp=_aipp(options.get("insert_op_conf")),
            **{name: _numbers(option, options.get(option)) for option, name in _GEARS.items()},
        )
        content = model.SerializeToString()
        made = model_in(description, content, output.name)
    except ConversionError:
        raise
    except ValueError as error:
        raise ConversionError(str(error) if str(error).startswith(path) else f"{path}: {error}") from error
    file = output if output.suffix == ".om" else output.with_name(f"{output.name}.om")
    file.parent.mkdir(parents=True, exist_ok=True)
    with writing(file) as opened:
        opened.write(pack(description, content))
    return file, made


def _check(options: Options) -> tuple[str, Path, str]:
    if options.get("mode") not in ("", "0"):
        raise ConversionError(f"--mode={options.get('mode')} is not simulated: only 0, which makes a model file")
    if not (path := options.get("model")):
        raise ConversionError("E10054: --model is required: the ONNX file")
    framework = options.get("framework")
    if framework != _ONNX:
        kind = _FRAMEWORKS.get(framework)
        what = f"--framework={framework} ({kind})" if kind else f"--framework={framework or 'nothing'}"
        raise ConversionError(f"E10007: {what}: only 5 is simulated, ONNX; export the model to ONNX first")
    if not (output := options.get("output")):
        raise ConversionError("E10004: --output is required: the path of the model file without .om")
    if not (chip := options.get("soc_version")):
        raise ConversionError("E10001: --soc_version is required: the chip, as in Ascend310P3 or Ascend910B3")
    if not chip.startswith("Ascend"):
        raise ConversionError(f"E10001: --soc_version={chip}: a chip is named as in Ascend310P3 or Ascend910B3")
    layout = options.get("input_format")
    if layout and layout not in _LAYOUTS:
        raise ConversionError(f"E10002: --input_format={layout} must be one of {', '.join(_LAYOUTS)}")
    given = [option for option in _GEARS if options.get(option)]
    if len(given) > 1:
        raise ConversionError(f"E10009: {' and '.join(f'--{each}' for each in given)} exclude each other")
    return path, Path(output), chip


def _aipp(path: str) -> str:
    """Return the text of the AIPP file *path*, which must be one."""
    if not path:
        return ""
    aipp_files.read(path)
    return Path(path).read_text(encoding="utf-8")


# --- shapes


def _inputs(model: Any, options: Options) -> tuple[Tensor, ...]:
    layout = options.get("input_format") or "NCHW"
    named = protos.with_format(protos.inputs_of(model), layout if layout in FORMATS else "NCHW")
    tensors = {each.name: each for each in named}
    shapes = _split_shapes(options.get("input_shape") or options.get("input_shape_range"))
    for name, text in shapes.items():
        known = tensors.get(name)
        if known is None:
            raise ConversionError(f"E10016: --input_shape: there is no input {name}; there are {', '.join(tensors)}")
        tensors[name] = _shaped(known, text)
    given = protos.tensors_with(model, tensors)
    dynamic = [each.name for each in given if each.is_dynamic]
    has_gears = any(options.get(option) for option in _GEARS)
    if has_gears and not dynamic:
        raise ConversionError("E10040: no dim of --input_shape is -1: write -1 for the dims of the list of values")
    return given


def _split_shapes(text: str) -> Mapping[str, str]:
    shapes = dict[str, str]()
    for entry in filter(None, text.split(";")):
        name, colon, dims = entry.rpartition(":")
        if not colon or not name.strip():
            raise ConversionError(f'E10003: --input_shape: {entry!r} must be name:dims, as in "data:1,3,224,224"')
        shapes[name.strip()] = dims.strip().strip("[]")
    return shapes


def _shaped(tensor: Tensor, text: str) -> Tensor:
    """Return *tensor* with the dims in *text*: numbers, -1, and ranges as in 1~8."""
    dims, ranges = list[int](), list[tuple[int, int]]()
    for part in filter(None, (each.strip() for each in text.split(","))):
        low, tilde, high = part.partition("~")
        try:
            least, most = int(low), int(high or low)
        except ValueError as error:
            raise ConversionError(
                f"E10003: --input_shape: {tensor.name}: {part!r} is no number and no range"
            ) from error
        dims.append(-1 if tilde else least)
        ranges.append((least, most) if tilde else (1, -1) if least == -1 else (least, least))
    if len(dims) != len(tensor.dims):
        what = f"{tensor.name} has {len(tensor.dims)} dims, {list(tensor.dims)}, and {text!r} has {len(dims)}"
        raise ConversionError(f"E10003: --input_shape: {what}")
    has_ranges = "~" in text
    return replace(tensor, dims=tuple(dims), ranges=tuple(ranges) if has_ranges else ())


def _numbers(option: str, text: str) -> Any:
    """Return a list of batches, or of lists: "1,2,4" or "224,224;448,448"."""
    try:
        if option == "dynamic_batch_size":
            return [int(each) for each in text.split(",") if each.strip()]
        return [[int(each) for each in entry.split(",")] for entry in text.split(";") if entry.strip()]
    except ValueError as error:
        raise ConversionError(f"E10033: --{option}={text}: must be numbers, with commas: {error}") from error


# --- outputs


def _with_outputs(model: Any, text: str) -> Any:
    """Return *model* with other outputs: results of nodes as in "Conv_3:0;Relu_7:0", or names of tensors."""
    if not text:
        return model
    nodes = {node.name: node for node in model.graph.node}
    names = {name for node in model.graph.node for name in node.output}
    wanted = list[str]()
    for entry in filter(None, text.split(";")):
        node, _, place = entry.strip().rpartition(":")
        if entry.strip() in names:
            wanted.append(entry.strip())
        elif node in nodes and place.isdigit() and int(place) < len(nodes[node].output):
            wanted.append(nodes[node].output[int(place)])
        else:
            raise ConversionError(f"E10017: --out_nodes: {entry!r} is no result of a node: write node:0, or a tensor")
    inferred = packages.onnx("shape_inference").infer_shapes(model)
    known = {each.name: each for each in (*inferred.graph.value_info, *inferred.graph.output)}
    missing = [each for each in wanted if each not in known]
    if missing:
        raise ConversionError(f"--out_nodes: onnx cannot tell the type of {', '.join(missing)}")
    outputs = [known[each] for each in wanted]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    return packages.onnx("utils").Extractor(model).extract_model([each.name for each in model.graph.input], wanted)


def _with_type(model: Any, text: str) -> Any:
    """Return *model* with outputs of other types: "FP16" for all, or "Conv_3:0:FP16;Relu_7:0:UINT8" for some."""
    onnx = packages.onnx()
    for output, kind in _types(model, text):
        before = f"{output.name}_before_output_type"
        for node in model.graph.node:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    if name == output.name:
                        names[place] = before
        number = onnx.TensorProto.DataType.Value(kind)
        model.graph.node.append(packages.onnx("helper").make_node("Cast", [before], [output.name], to=number))
        output.type.tensor_type.elem_type = number
    return model


def _types(model: Any, text: str) -> list[tuple[Any, str]]:
    """Return the outputs that --output_type names, each with the type of ONNX that it is to have."""
    if not text:
        return []
    if text in _TYPES:
        return [(output, _TYPES[text]) for output in model.graph.output]
    results = {f"{node.name}:{place}": name for node in model.graph.node for place, name in enumerate(node.output)}
    outputs = {output.name: output for output in model.graph.output}
    found = []
    for entry in filter(None, text.split(";")):
        node, _, kind = entry.strip().rpartition(":")
        output = outputs.get(results.get(node, node))
        if output is None or kind not in _TYPES:
            what = f"{entry!r} must be one of {', '.join(_TYPES)}, or an output with one, as in Conv_3:0:FP16"
            raise ConversionError(f"E10001: --output_type: {what}")
        found.append((output, _TYPES[kind]))
    return found
