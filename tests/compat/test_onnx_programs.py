"""Programs and READMEs in the form of public ones, on models that `acl-py atc` has made: InferSession and ais_bench."""

import re
import shutil
from pathlib import Path

import numpy as np
import onnx_models as made_models
import pytest
from PIL import Image
from test_onnx import assert_like, expected

from acl_py.compat.acl.standins.converting import convert, read_options
from tests import forks

PROGRAMS = Path(__file__).parent / "onnx_programs"


CONVERSIONS = {
    "resnet50": ("resnet50", "--input_format=NCHW", "--input_shape=data:1,3,32,32"),
    "net": ("net",),
    "square": ("square",),
    "det": ("det", "--input_shape=images:-1,3,64,64", "--dynamic_batch_size=1,2,4"),
    "sizes": ("resize", "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,8"),
    "free": ("resize", "--input_shape=x:1~4,3,-1,-1"),
    "product": ("product", "--input_shape=a:-1,4,6;b:-1,6,5", "--dynamic_dims=1,1;3,3", "--input_format=ND"),
}
pytestmark = pytest.mark.timeout(300)  # several processes one after the other


@pytest.fixture(scope="module")
def made_files(tmp_path_factory):
    """A folder with the programs, ONNX files, what `acl-py atc` makes of them, and a picture."""
    folder = tmp_path_factory.mktemp("made")
    for path in PROGRAMS.iterdir():
        shutil.copy(path, folder)
    helper, small = made_models.helper, {"a": [3, 3], "b": [3, 3]}
    made = made_models.Made()
    made.nodes.append(helper.make_node("MatMul", ["a", "b"], ["c"], name="c"))
    models = {
        "resnet50": made_models.resnet50(1, 32, 8, 10), "det": made_models.detector(), "net": made_models.convolution(),
        "resize": made_models.resize(), "product": made_models.matmul(), "square": made.model(small, {"c": [3, 3]}),
    }  # fmt: skip
    for name, model in models.items():
        made_models.onnx.save(model, folder / f"{name}.onnx")
    for output, (name, *options) in CONVERSIONS.items():
        usual = f"--model={folder}/{name}.onnx", "--framework=5", f"--output={folder}/{output}"
        convert(read_options([*usual, "--soc_version=Ascend310P3", *options]))
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "cat.png")
    return folder


@pytest.fixture
def folder(made_files, tmp_path):
    """A copy of that folder."""
    return Path(shutil.copytree(made_files, tmp_path / "work"))


def ran(folder, *arguments):
    done = forks.run("-m", "acl_py", *arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def run(folder, script, *arguments):
    return ran(folder, "run", "--strict", "--device", "ascend310p3", "--devices", "3", script, *arguments)


def test_a_classifier(folder):
    told = run(folder, "classify.py")
    assert told[:2] == [
        "input: data [1, 3, 32, 32] dtype.float32 12288", "output: prob [1, 10] dtype.float32",
    ]  # fmt: skip
    assert [line.split()[0] for line in told[2:5]] == ["class"] * 3
    pixels = np.asarray(Image.open(folder / "cat.png"), np.float32) / 255
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    wanted = expected(made_models.resnet50(1, 32, 8, 10), {"data": ((pixels - mean) / std).transpose(2, 0, 1)[None]})
    assert_like([np.load(folder / "scores.npy")], wanted)


def test_a_detector_with_a_dynamic_batch(folder):
    assert run(folder, "detect.py") == ["1 8 True", "2 8 True", "2 8 True"]


def test_pictures_of_several_sizes(folder):
    assert run(folder, "upscale.py", "sizes.om", "free.om") == [
        "(1, 2, 8, 12) True", "(1, 2, 16, 16) True", "[(2, 2, 10, 14)]", "refused: True",
    ]  # fmt: skip


def test_sequences_of_several_lengths(folder):
    assert run(folder, "sequences.py") == [
        "(1, 4, 5) True True", "(3, 4, 5) True True", "4", "(1, 4, 5) (1, 4, 5)", "(3, 4, 5) (3, 4, 5)", "True",
        "[1.0, 16.0, 81.0]",
    ]  # fmt: skip


def test_all_cards_at_once(folder):
    assert run(folder, "devices.py") == [line for device in range(3) for line in [f"{device} [1, 5] True"] * 2 + ["6"]]


BENCHES = {
    "loops": "python3 -m ais_bench --model net.om --loop 100",
    "files": "python3 -m ais_bench --model net.om --input pictures --output out --output_dirname here --outfmt NPY",
    "batch": "python3 -m ais_bench --model det.om --dymBatch 2 --device 0 --display_all_summary 1",
    "sizes": "python3 -m ais_bench --model sizes.om --dymHW 4,6 --outfmt BIN --output out",
    "shapes": 'python3 -m ais_bench --model free.om --dymShape "x:2,3,5,7" --outputSize "10000" --device 0,1',
}


@pytest.mark.parametrize("name", BENCHES)
def test_the_commands_of_ais_bench_in_a_shell(folder, name):
    (folder / "pictures").mkdir()
    pictures = [np.random.default_rng(seed).random((1, 3, 8, 8), np.float32) for seed in range(3)]
    for number, picture in enumerate(pictures):
        picture.tofile(folder / "pictures" / f"{number}.bin")
    told = ran(folder, "shell", "--device", "ascend310p3", "--devices", "2", BENCHES[name])
    assert any(re.fullmatch(r"\[INFO\] NPU_compute_time \(ms\): min = [\d.]+, .*percentile\(99%\) = [\d.]+", line)
               for line in told)  # fmt: skip
    assert any(line.startswith("[INFO] throughput 1000*batchsize.mean(") for line in told)
    if name == "files":
        results = [np.load(folder / "out" / "here" / f"{number}_0.npy") for number in range(3)]
        assert_like(results, [expected(made_models.convolution(), {"x": each})[0] for each in pictures])


READMES = sorted(path.name for path in PROGRAMS.glob("*.md"))


@pytest.mark.parametrize("name", READMES)
def test_the_commands_of_a_readme_run_in_a_shell(folder, name):
    commands = re.findall(r"^```(?:bash|shell)\n(.*?)^```", (folder / name).read_text(), re.MULTILINE | re.DOTALL)
    for path in folder.glob("*.om"):
        path.unlink()
    told = ran(folder, "shell", "--device", "ascend310p3", "set -e\n" + "".join(commands))
    assert sum(line == "ATC run success, welcome to the next use." for line in told) >= 1
    assert any(line.startswith("[INFO] throughput") for line in told)
    assert told[-1].startswith("done")


def test_there_are_three_readmes():
    assert len(READMES) == 3
