"""Five public programs for boards without a host, in outline, from their start to their end.

The programs are in the folder `boards`. Each asks for the run mode, and copies or reads in place as that says. So they
also run on a card in a host, with the same results.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from video import plain

from acl_py.compat.acl.standins import pyav
from tests import forks

HERE = Path(__file__).parent
SAMPLES = HERE.parent.parent / "samples" / "acl"
MODELS, PICTURE = str(SAMPLES / "models"), str(SAMPLES / "pictures" / "quarters.jpg")
CARDS = [("ascend310", 0), ("ascend310b", 0), ("ascend310p3", 1)]


def run(name, device, *arguments):
    """What a program prints; it must end well, without leaks, findings and failed calls."""
    acl_py = "-W", "ignore::DeprecationWarning", "-m", "acl_py"
    done = forks.run(*acl_py, "run", "--device", device, HERE / "boards" / f"{name}.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"acl-py: {device}, rules acl: " in done.stderr
    told = [line for line in done.stderr.splitlines() if re.search("failed|leak|finding|Traceback", line)]
    assert told == []
    return done.stdout.splitlines()


def quarters(number):
    """A frame of 128x128 in NV12 whose quarter *number* is light."""
    frame = plain(40)
    frame[64 * (number // 2) :][:64, 64 * (number % 2) :][:, :64] = 200
    return frame


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("device", "mode"), CARDS)
def test_an_encoder_of_pictures(tmp_path, device, mode):
    picture, video = tmp_path / "picture.yuv", tmp_path / "picture.h265"
    quarters(1).tofile(picture)
    assert run("venc_image", device, picture, 128, 128, video) == [
        f"run mode: {'ACL_HOST' if mode else 'ACL_DEVICE'}",
        "frames encoded: 16",
        "the first one is the largest: True",
    ]
    decode = pyav.create_decoder("h265")
    frames = [frame for data in (video.read_bytes(), None) for frame in decode(data)]
    assert np.abs(frames[0][:128].astype(int) - quarters(1)[:128]).mean() < 2


@pytest.mark.parametrize(("device", "mode"), CARDS)
def test_a_classification_of_a_picture(device, mode):
    assert run("image_classification", device, PICTURE, MODELS) == [
        f"run mode: {mode}",
        "decoded: 320 x 240",
        "bytes of the picture for the model: 6144",
        "scores: [200, 40, 90, 140] the best one is 0",
    ]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("device", "mode"), CARDS)
def test_a_model_on_each_frame_of_a_video(tmp_path, device, mode):
    encode = pyav.create_encoder("h264", 128, 128, 4, 25, 400_000)
    video = tmp_path / "video.h264"
    video.write_bytes(b"".join(encode(quarters(number % 4), False) for number in range(6)) + encode(None, False))
    assert run("video_inference", device, video, MODELS) == [
        f"run mode: {mode}",
        *(f"frame {number}: {[200 if place == number % 4 else 40 for place in range(4)]}" for number in range(6)),
    ]


TEMPORARY = r"^  finding: acl\.util\.bytes_to_ptr\(\) at \w+\.py:\d+ takes the address of a temporary, .*$"


def run_with_finding(name, *arguments):
    """What a program prints on a board that runs well and takes the address of temporaries, at one line."""
    acl_py = "-W", "ignore::DeprecationWarning", "-m", "acl_py"
    done = forks.run(*acl_py, "run", "--device", "ascend310b", HERE / "boards" / f"{name}.py", *arguments)
    assert done.returncode == 0, done.stderr
    [told] = [line for line in done.stderr.splitlines() if re.search("failed|leak|finding|Traceback", line)]
    assert re.fullmatch(TEMPORARY, told), told
    return done.stdout.splitlines()


def test_a_data_buffer_of_a_board_may_lie_in_memory_of_python():
    """The slices of a picture go to the model by `bytes_to_ptr(item.tobytes())`."""
    light = [[200.0 if place == number else 0.0 for place in range(4)] for number in range(3)]
    assert run_with_finding("slice_detection", MODELS) == [f"slice {number}: {light[number]}" for number in range(3)]


SIDECAR = """
compute = "vla:{name}"
cost_us = 10.0
inputs = [{inputs}]
outputs = [{{ name = "y", dtype = "float32", dims = {dims} }}]
"""


def test_models_in_a_row_pass_arrays_of_python_on_a_board(tmp_path):
    """The pattern of programs that run OpenVLA: inputs and outputs of each model are arrays."""
    x = '{ name = "x", dtype = "float32", dims = [2, 3] }'
    step = '{ name = "step", dtype = "int64", dims = [1] }'
    for name, inputs, dims in (("eyes", x, [2, 3]), ("language", f"{x}, {step}", [2, 3]), ("action", x, [2])):
        (tmp_path / f"{name}.om.toml").write_text(SIDECAR.format(name=name, inputs=inputs, dims=dims))
    (tmp_path / "vla.py").write_text(
        "def eyes(x): return x * x\n"
        "def language(x, step): return x + step.astype('float32')\n"
        "def action(x): return x.sum(axis=1)\n"
    )
    assert run_with_finding("chained_models", tmp_path) == ["step 0: [5.0, 50.0]", "step 1: [8.0, 53.0]"]
