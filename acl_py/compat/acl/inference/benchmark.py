"""`python -m ais_bench`: executes a model file with zeros or with files, and prints how long that takes on the card.

The options, the lines of the summary and the names of the files of results are the vendor's. Times are simulated.
"""

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.inference import shapes
from acl_py.compat.acl.inference.answers import now_ns
from acl_py.compat.acl.inference.interface import InferSession, MemorySummary
from acl_py.compat.acl.inference.sessions import tensor_desc

logger = logging.getLogger("ais_bench")

_ZEROS = "pure_infer_data"  # in the place of a file, and in the names of results
_PADDING = "padding_infer_fake_file"
_SCALE = 99  # the percentile of the summary
# Options of the vendor's that are not simulated, with the value that they may have.
_OFF = {
    "profiler": False, "dump": False, "energy_consumption": False, "perf": False, "pipeline": False, "dump_npy": False,
    "divide_input": False, "dymShape_range": None, "backend": None, "thread": 1,
}  # fmt: skip
_HAVE_NO_EFFECT = {"npu_id": 0, "profiler_rename": True}

Array = npt.NDArray[Any]


# --- options


def _truth(text: str) -> bool:
    if text.lower() in ("yes", "true", "t", "y", "1"):
        return True
    if text.lower() in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError("Boolean value expected true, 1, false, 0 with case insensitive.")


def _from(least: int, text: str) -> int:
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


_positive, _not_negative = partial(_from, 1), partial(_from, 0)


def _devices(text: str) -> list[int]:
    devices = [int(each) for each in text.split(",")]
    if not all(0 <= each <= 255 for each in devices):
        raise argparse.ArgumentTypeError(f"device {text} is invalid: a number from 0 to 255, or several with commas")
    return devices


def _model(text: str) -> str:
    """Return the path of a model file. It need not exist where a sidecar or a registration says what it computes."""
    if not text.endswith(".om"):
        raise argparse.ArgumentTypeError(f"om path:{text} is illegal: a model file ends in .om")
    return text


def _files(text: str) -> list[str]:
    for each in text.split(","):
        if not os.path.exists(each):
            raise argparse.ArgumentTypeError(f"input path:{each} is illegal: there is no such file or folder")
    return text.split(",")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ais_bench", description="Execute a model file, and time it.")
    add = parser.add_argument
    add("--model", "-m", type=_model, required=True, help="the model file")
    add("--input", "-i", type=_files, help="files (npy, bin) or a folder for each input; zeros without it")
    add("--output", "-o", help="a folder for results, in a new folder with the time")
    add("--output_dirname", help="the name of that new folder")
    add("--outfmt", default="BIN", choices=["NPY", "BIN", "TXT"], help="the form of results")
    add("--loop", "-l", type=_positive, default=1, help="how often each execution is repeated")
    add("--debug", type=_truth, default=False, help="print the model's inputs and outputs, too")
    add("--device", "-d", type=_devices, default=[0], help="a device, or several with commas")
    add("--dymBatch", type=_positive, default=0, help="the batch size")
    add("--dymHW", help='height and width, as in "300,500"')
    add("--dymDims", help='the dims of a gear, as in "data:1,600;img_info:1,600"')
    add("--dymShape", "--dym-shape", help='the shapes of all inputs, as in "data:1,600;img_info:1,600"')
    add("--outputSize", help='the bytes of each output, as in "10000,10000"')
    add("--auto_set_dymshape_mode", type=_truth, default=False, help="take the shapes from npy files")
    add("--auto_set_dymdims_mode", type=_truth, default=False, help="take the dims of the gear from npy files")
    add("--batchsize", type=_positive, help="the batch size for the throughput; by default that of the model")
    add("--pure_data_type", default="zero", choices=["zero", "random"], help="what is fed without --input")
    add("--aipp_config", help="a file with the settings of dynamic AIPP")
    add("--acl_json_path", help="a file for acl.init()")
    add("--output_batchsize_axis", type=_not_negative, default=0, help="the axis that divides results among files")
    add("--run_mode", default="array", choices=["array", "files", "tensor", "full"], help="how inputs are handed over")
    add("--display_all_summary", type=_truth, default=False, help="print the times of copies, too")
    add("--warmup_count", "--warmup-count", type=_not_negative, default=1, help="executions that are not counted")
    for name, usual in (_OFF | _HAVE_NO_EFFECT).items():
        kind: Any = _truth if isinstance(usual, bool) else type(usual) if usual is not None else str
        add(f"--{name}", type=kind, default=usual, help=argparse.SUPPRESS)
    return parser


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name, usual in _OFF.items():
        if getattr(options, name) != usual:
            parser.error(f"--{name} is not simulated; acl-py run has --trace, --report and --explain instead")
    return options


# --- executions


@dataclass
class _Run:
    """The executions on one device: their session, what they took, and where their results go."""

    options: argparse.Namespace
    device: int
    folder: Path | None
    session: InferSession = field(init=False)
    batches: list[int] = field(default_factory=list)  # of executions whose shapes follow the files
    files: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    batch: int = 0
    throughput: float = 0.0
    begin_ns: int = 0
    end_ns: int = 0

    def open(self) -> None:
        """Load the model, and set the gear or the shapes."""
        options = self.options
        self.session = session = InferSession(
            self.device, options.model, options.acl_json_path, options.debug, options.loop
        )
        if options.dymBatch:
            session.set_dynamic_batchsize(options.dymBatch)
        elif options.dymHW:
            session.set_dynamic_hw(*_two(options.dymHW))
        elif options.dymDims:
            session.set_dynamic_dims(options.dymDims)
        elif options.dymShape:
            session.set_dynamic_shape(options.dymShape)
        else:
            session.set_staticbatch()
        if options.outputSize:
            session.set_custom_outsize([int(each) for each in options.outputSize.split(",")])
        self.batch = options.batchsize or self._batch()
        if options.batchsize is None:
            logger.info("try get model batchsize:%s", self.batch)
        logger.debug("session info:%s", session.session)
        if session.get_dym_aipp_input_exist():
            session.check_dym_aipp_input_exist()
            if not options.aipp_config:
                raise RuntimeError("aipp model without aipp config! --aipp_config says what its dynamic AIPP does")
            session.load_aipp_config_file(options.aipp_config, session.get_max_dym_batchsize() or self.batch)

    def _batch(self) -> int:
        options, inputs = self.options, self.session.get_inputs()
        if options.dymBatch:
            return int(options.dymBatch)
        text = options.dymDims or options.dymShape
        dims = next(iter(shapes.read(text).values())) if text else inputs[0].shape if inputs else []
        return dims[0] if dims else 1

    def go(self) -> None:
        """Warm up, execute, and write the results."""
        inputs = self.session.get_inputs()
        groups = _groups(self.options.input, inputs)
        first = self._feeds(groups[0], inputs)
        self.session.set_loop_count(1)
        for _ in range(self.options.warmup_count):
            self._execute(first)
        self.session.set_loop_count(self.options.loop)
        self.session.reset_summaryinfo()
        MemorySummary.reset()
        self.batches.clear()
        logger.info("warm up %s done", self.options.warmup_count)
        self.begin_ns = now_ns()
        for number, files in enumerate(groups):
            outputs = self._execute(self._feeds(files, inputs))
            self.session.convert_tensors_to_host(outputs)
            if self.folder is not None:
                self._save(number, files, self.session.convert_tensors_to_arrays(outputs))
        self.end_ns = now_ns()

    def _feeds(self, files: Sequence[Sequence[str]], inputs: Sequence[tensor_desc]) -> list[Array]:
        random = np.random.default_rng(0) if self.options.pure_data_type == "random" else None
        return [
            _content(names, desc, random, combine=not self._follows_files)
            for names, desc in zip(files, inputs, strict=True)
        ]

    @property
    def _follows_files(self) -> bool:
        return bool(self.options.auto_set_dymshape_mode or self.options.auto_set_dymdims_mode)

    def _execute(self, feeds: Sequence[Array]) -> list[Any]:
        if self._follows_files:
            names = [each.name for each in self.session.get_inputs()]
            text = shapes.write(names, [each.shape for each in feeds])
            if self.options.auto_set_dymshape_mode:
                self.session.set_dynamic_shape(text)
            else:
                self.session.set_dynamic_dims(text)
            self.batches.append(feeds[0].shape[0])
        if self.options.run_mode == "array":
            return self.session.run(list(feeds))
        return self.session.run([self.session.create_tensor_from_arrays_to_device(each) for each in feeds])

    def _save(self, number: int, files: Sequence[Sequence[str]], outputs: Sequence[Array]) -> None:
        assert self.folder is not None, "results are wanted"
        count, axis = len(files[0]), self.options.output_batchsize_axis
        for place, output in enumerate(outputs):
            if count > 1 and (axis >= output.ndim or output.shape[axis] % count):
                what = f"output {place} has shape {output.shape}, and {count} files make a batch"
                raise RuntimeError(f"{what}: its axis {axis} cannot be divided; see --output_batchsize_axis")
            parts = np.array_split(output, count, axis) if count > 1 else [output]
            for index, part in enumerate(parts):
                group = [each[index] for each in files]
                if group[0] == _PADDING:
                    continue
                stem = os.path.basename(group[0]).split(".")[0]
                path = self.folder / f"{stem}_{place}.{self.options.outfmt.lower()}"
                _write(path, part)
                entry = self.files.setdefault(number * count + index, {"infiles": group, "outfiles": []})
                entry["outfiles"].append(str(path))

    def report(self, arguments: Sequence[str]) -> None:
        """Print the summary, and write it beside the folder of results."""
        times = list(self.session.summary().exec_time_list)
        batch = sum(self.batches) / len(self.batches) if self.batches else self.batch
        computing = _figures(times)
        self.throughput = 1000 * batch / computing["mean"] if computing["mean"] else 0.0
        copies = {"H2D_latency": MemorySummary.get_h2d_time_list(), "D2H_latency": MemorySummary.get_d2h_time_list()}
        logger.info("-----------------Performance Summary------------------")
        if self.options.display_all_summary:
            logger.info("H2D_latency (ms): %s", _line(_figures(copies["H2D_latency"])))
        logger.info("NPU_compute_time (ms): %s", _line(computing))
        if self.options.display_all_summary:
            logger.info("D2H_latency (ms): %s", _line(_figures(copies["D2H_latency"])))
        mean = computing["mean"]
        logger.info("throughput 1000*batchsize.mean(%s)/NPU_compute_time.mean(%s): %s", batch, mean, self.throughput)
        logger.info("------------------------------------------------------")
        if self.folder is None:
            return
        document = {
            "filesinfo": self.files,
            "args": list(arguments),
            "NPU_compute_time": {**computing, "count": len(times)},
            **{name: {**_figures(each), "count": len(each)} for name, each in copies.items()},
            "throughput": self.throughput,
            "npu_compute_time_list": times,
            "pid": os.getpid(),
        }
        self.folder.with_name(f"{self.folder.name}_summary.json").write_text(json.dumps(document), encoding="utf-8")


def _two(text: str) -> tuple[int, int]:
    try:
        first, second = (int(each) for each in text.split(","))
    except ValueError:
        raise RuntimeError(f'--dymHW {text} must be height and width, as in "300,500"') from None
    return first, second


def _groups(paths: Sequence[str] | None, inputs: Sequence[tensor_desc]) -> list[list[list[str]]]:
    """Return the files of each execution: for each input those that make its batch; the last one is filled up."""
    if paths is None:
        return [[[_ZEROS] for _ in inputs]]
    if all(os.path.isdir(each) for each in paths):
        lists = [sorted(str(file) for file in Path(each).iterdir() if file.is_file()) for each in paths]
    else:
        each_has = len(paths) // len(inputs) or 1
        lists = [list(paths[begin : begin + each_has]) for begin in range(0, len(paths), each_has)]
    if len(lists) != len(inputs) or len({len(each) for each in lists}) != 1 or not lists[0]:
        counts = ", ".join(str(len(each)) for each in lists)
        raise RuntimeError(
            f"--input gives {len(lists)} lists of files ({counts}), and the model has {len(inputs)} inputs: give as "
            "many files, or a folder, for each input"
        )
    nbytes = _nbytes_of(lists[0][0])
    batch = inputs[0].realsize // nbytes if nbytes and inputs[0].realsize % nbytes == 0 else 0
    if not batch and inputs[0].realsize and -1 not in inputs[0].shape:
        raise RuntimeError(f"{lists[0][0]} has {nbytes} bytes, and input {inputs[0].name} takes {inputs[0].realsize}")
    batch = batch or 1
    padded = [each + [_PADDING] * (-len(each) % batch) for each in lists]
    return [[each[begin : begin + batch] for each in padded] for begin in range(0, len(padded[0]), batch)]


def _nbytes_of(file: str) -> int:
    return int(np.load(file).nbytes) if file.lower().endswith(".npy") else os.path.getsize(file)


def _content(files: Sequence[str], desc: tensor_desc, random: np.random.Generator | None, *, combine: bool) -> Array:
    """Return what *files* have in them for an input: bytes, unless they are npy; without files, zeros or noise."""
    if files[0] == _ZEROS:
        if random is None:
            return np.zeros(desc.realsize, np.uint8)
        return random.integers(0, 256, desc.realsize, np.uint8)
    arrays = [_loaded(files[0] if each == _PADDING else each) for each in files]
    if not combine or len(arrays) == 1:
        return arrays[0]
    whole = np.concatenate([each.reshape(-1) for each in arrays])
    if whole.nbytes != desc.realsize:
        raise RuntimeError(f"{len(files)} files have {whole.nbytes} bytes, and input {desc.name} takes {desc.realsize}")
    return whole


def _loaded(file: str) -> Array:
    try:
        return np.ascontiguousarray(np.load(file)) if file.lower().endswith(".npy") else np.fromfile(file, np.uint8)
    except (OSError, ValueError) as error:
        raise RuntimeError(f"{file} cannot be read: {error}") from error


def _write(path: Path, array: Array) -> None:
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".bin":
        array.tofile(path)
    else:
        np.savetxt(path, array if array.ndim == 1 else array.reshape(array.shape[0], -1))


def _figures(times: Sequence[float]) -> dict[str, float]:
    names = ("min", "max", "mean", "median", f"percentile({_SCALE}%)")
    if not times:
        return dict.fromkeys(names, 0.0)
    values = np.min(times), np.max(times), np.mean(times), np.median(times), np.percentile(times, _SCALE)
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _line(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in figures.items())


# --- the command


def _folder(options: argparse.Namespace, place: int) -> Path | None:
    """Make the folder of results of the device at *place*."""
    if options.output is None:
        return None
    folder = Path(options.output, options.output_dirname or time.strftime("%Y_%m_%d-%H_%M_%S"))
    if len(options.device) > 1:
        folder /= f"device{options.device[place]}_{place}"
    folder.mkdir(parents=True, exist_ok=True)
    logger.info("output path:%s", folder)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute as *arguments* say, by default those of the process. Return the exit code: 1 if something failed."""
    options = _read(arguments)
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
    logger.setLevel(logging.DEBUG if options.debug else logging.INFO)
    runs = [_Run(options, device, _folder(options, place)) for place, device in enumerate(options.device)]
    given = [*sys.argv[:1], *(sys.argv[1:] if arguments is None else arguments)]
    if len(runs) == 1:
        return 0 if _one(runs[0], given) else 1
    return _all(runs, given)


def _one(run: _Run, arguments: Sequence[str]) -> bool:
    try:
        run.open()
        run.go()
        run.report(arguments)
        run.session.free_resource()
    except RuntimeError as error:
        logger.error("device %s: %s", run.device, error)
        return False
    return True


def _all(runs: Sequence[_Run], arguments: Sequence[str]) -> int:
    """Execute on several devices at once, a thread for each."""
    worked: dict[int, bool] = {}

    def work(place: int) -> None:
        worked[place] = _one(runs[place], arguments)

    threads = [
        threading.Thread(target=work, args=(place,), name=f"device {runs[place].device}") for place in range(len(runs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, run in enumerate(runs):
        if worked[place]:
            begin, end = run.begin_ns / 1e9, run.end_ns / 1e9
            print(f"i:{place} device_{run.device} throughput:{run.throughput} start_time:{begin} end_time:{end}")
    logger.info("summary throughput:%s", sum(run.throughput for place, run in enumerate(runs) if worked[place]))
    return 0 if all(worked.values()) else 1
