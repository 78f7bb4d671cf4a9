"""`python -m ais_bench`: its options, the lines of its summary, and the files of its results."""

import json
import re

import numpy as np
import pytest

from tests import forks

MODELS = """
import numpy as np
from acl_py.compat.acl import Tensor, register_model

def twice(x):
    return 2 * x, x[:1] + 1

for name, dims, options in (
    ("net.om", (2, 4), {}),
    ("gears.om", (-1, 4), {"dynamic_batch": [1, 2, 4]}),
    ("sizes.om", (1, 1, -1, -1), {"dynamic_hw": [[2, 3], [4, 6]]}),
    ("dims.om", (1, -1), {"dynamic_dims": [[4], [8]]}),
    ("free.om", (-1, 4), {}),
):
    first = dims if "hw" in str(options) or "dims" in str(options) else (1, *dims[1:])
    tensors = [Tensor("x", "float32", dims), Tensor("twice", "float32", dims), Tensor("first", "float32", first)]
    register_model(name, tensors[:1], tensors[1:], cost_us=100, **options)(twice)
"""


@pytest.fixture
def bench(tmp_path):
    """Run `python -m ais_bench` with these arguments on two tiny devices: return the process that has ended."""
    (tmp_path / "models.py").write_text(MODELS)
    options = ("--device", "tiny", "--devices", "2", "--register", "models.py")

    def run(*arguments):
        return forks.run("-m", "acl_py", "run", *options, "-m", "ais_bench", *arguments, cwd=tmp_path)

    run.folder = tmp_path
    return run


def lines(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_summary_has_the_vendors_lines_in_simulated_time(bench):
    """103 us: the model takes 100 us, the call 1 us and the wake-up 2 us."""
    assert lines(bench("--model", "net.om", "--loop", "100")) == [
        "[INFO] try get model batchsize:2",
        "[INFO] warm up 1 done",
        "[INFO] -----------------Performance Summary------------------",
        "[INFO] NPU_compute_time (ms): min = 0.103, max = 0.103, mean = 0.103, median = 0.103, percentile(99%) = 0.103",
        "[INFO] throughput 1000*batchsize.mean(2)/NPU_compute_time.mean(0.103): 19417.47572815534",
        "[INFO] ------------------------------------------------------",
    ]


@pytest.mark.parametrize(
    ("arguments", "batch"),
    [
        (("gears.om", "--dymBatch", "4"), 4),
        (("sizes.om", "--dymHW", "4,6"), 1),
        (("dims.om", "--dymDims", "x:1,8"), 1),
        (("free.om", "--dymShape", "x:3,4", "--outputSize", "48,16"), 3),
        (("net.om", "--batchsize", "8"), 8),
    ],
)
def test_gears_and_shapes_are_those_of_the_options(bench, arguments, batch):
    told = lines(bench("--model", *arguments, "--warmup_count", "0"))
    assert f"batchsize.mean({batch})" in told[-2]


@pytest.mark.parametrize("form", ["NPY", "BIN", "TXT"])
def test_results_are_files_named_after_those_of_the_inputs(bench, form):
    """Four rows make two batches of two files each; the results of both outputs are divided again."""
    for number in range(4):
        np.save(bench.folder / f"row{number}.npy", np.full((1, 4), number, np.float32))
    rows = ",".join(f"row{number}.npy" for number in range(4))
    options = ("--output", "out", "--output_dirname", "here", "--outfmt", form)
    register = MODELS.replace("x[:1] + 1", "x + 1").replace("first = dims if", "first = dims if True or")
    (bench.folder / "models.py").write_text(register)
    told = lines(bench("--model", "net.om", "--input", rows, *options))
    assert told[0] == "[INFO] output path:out/here"
    folder = bench.folder / "out" / "here"
    ending = form.lower()
    assert sorted(each.name for each in folder.iterdir()) == [
        f"row{number}_{place}.{ending}" for number in range(4) for place in range(2)
    ]
    read = {"NPY": np.load, "TXT": np.loadtxt, "BIN": lambda path: np.fromfile(path, np.float32)}[form]
    assert read(folder / f"row3_0.{ending}").reshape(-1).tolist() == [6] * 4
    assert read(folder / f"row2_1.{ending}").reshape(-1).tolist() == [3] * 4
    summary = json.loads((bench.folder / "out" / "here_summary.json").read_text())
    assert summary["NPU_compute_time"]["count"] == 2
    assert summary["filesinfo"]["3"] == {
        "infiles": ["row3.npy"], "outfiles": [f"out/here/row3_0.{ending}", f"out/here/row3_1.{ending}"],
    }  # fmt: skip


def test_folders_of_bytes_are_filled_up_to_a_batch(bench):
    (bench.folder / "rows").mkdir()
    for number in range(3):
        np.full(4, number, np.float32).tofile(bench.folder / "rows" / f"{number}.bin")
    (bench.folder / "models.py").write_text(MODELS.replace(", x[:1] + 1", ", x").replace("(1, *dims[1:])", "dims"))
    lines(bench("--model", "net.om", "--input", "rows", "--output", "out", "--output_dirname", "here"))
    results = bench.folder / "out" / "here"
    assert sorted(each.name for each in results.iterdir()) == [
        f"{n}_{place}.bin" for n in range(3) for place in range(2)
    ]
    assert np.fromfile(results / "2_0.bin", np.float32).tolist() == [4] * 4


def test_without_a_name_results_go_to_a_folder_of_the_time(bench):
    lines(bench("--model", "net.om", "--output", "out"))
    [folder] = [each for each in (bench.folder / "out").iterdir() if each.is_dir()]
    assert re.fullmatch(r"\d{4}_\d\d_\d\d-\d\d_\d\d_\d\d", folder.name)
    assert [each.name for each in sorted(folder.iterdir())] == ["pure_infer_data_0.bin", "pure_infer_data_1.bin"]


def test_several_devices_run_at_once_and_their_throughput_adds_up(bench):
    told = lines(bench("--model", "net.om", "--device", "0,1"))
    assert [each.split()[1] for each in told if each.startswith("i:")] == ["device_0", "device_1"]
    single = [float(each.rpartition(" ")[2]) for each in told if each.startswith("[INFO] throughput")]
    assert told[-1] == f"[INFO] summary throughput:{sum(single)}"


def test_files_may_say_the_shapes(bench):
    np.save(bench.folder / "three.npy", np.ones((3, 4), np.float32))
    options = ("--input", "three.npy", "--auto_set_dymshape_mode", "1", "--outputSize", "1000,1000")
    assert "batchsize.mean(3.0)" in lines(bench("--model", "free.om", *options))[-2]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((), 2, "--model"),
        (("--model", "net.onnx"), 2, "a model file ends in .om"),
        (("--model", "gone.om"), 1, "the load of gone.om failed with 145002"),
        (("--model", "net.om", "--device", "7"), 1, "device 7: the choice of device 7 failed with 107001"),
        (("--model", "net.om", "--loop", "0"), 2, "0 is less than 1"),
        (("--model", "gears.om"), 1, "none of them is set"),
        (("--model", "gears.om", "--dymBatch", "3"), 1, "no batch size 3; there are 1, 2, 4"),
        (("--model", "sizes.om", "--dymHW", "4"), 1, "must be height and width"),
        (("--model", "sizes.om", "--dymHW", "4,4"), 1, "no size of images [4, 4]"),
        (("--model", "dims.om", "--dymDims", "x:1,5"), 1, "no list of dims [1, 5]"),
        (("--model", "free.om", "--dymShape", "y:1,4"), 1, "the inputs of the model are x"),
        (("--model", "free.om", "--dymShape", "x:1,4"), 1, "the bytes of output twice of free.om are not known"),
        (("--model", "net.om", "--input", "gone.bin"), 2, "there is no such file or folder"),
        (("--model", "net.om", "--input", "models.py"), 1, "models.py has"),
        (("--model", "net.om", "--profiler", "1"), 2, "--profiler is not simulated"),
    ],
)
def test_what_cannot_be_done_is_told_with_an_exit_code(bench, arguments, code, told):
    done = bench(*arguments)
    assert done.returncode == code
    assert told in done.stdout + done.stderr
