"""Three public programs for boards without a host, in outline, from their start to their end.

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
    """What a program prints; it must end well, without leaks, findings and failed calls.

    One call may fail, as on a card: process_report() of a thread that began before its channel, or ends after it.
    """
    acl_py = "-W", "ignore::DeprecationWarning", "-m", "acl_py"
    done = forks.run(*acl_py, "run", "--device", device, HERE / "boards" / f"{name}.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"acl-py: {device}, rules acl: " in done.stderr
    told = [line for line in done.stderr.splitlines() if re.search("failed|leak|finding|Traceback", line)]
    assert all(re.search(r"^  failed: acl\.rt\.process_report\(\) .* \(107012\): ", line) for line in told), told
    return done.stdout.splitlines()


def quarters(number):
    """A frame of 128x128 in NV12 whose quarter *number* is light."""
    frame = plain(40)
    frame[64 * (number // 2) :][:64, 64 * (number % 2) :][:, :64] = 200
    return frame


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


@pytest.mark.parametrize(("device", "mode"), CARDS)
def test_a_model_on_each_frame_of_a_video(tmp_path, device, mode):
    encode = pyav.create_encoder("h264", 128, 128, 4, 25, 400_000)
    video = tmp_path / "video.h264"
    video.write_bytes(b"".join(encode(quarters(number % 4), False) for number in range(6)) + encode(None, False))
    assert run("video_inference", device, video, MODELS) == [
        f"run mode: {mode}",
        *(f"frame {number}: {[200 if place == number % 4 else 40 for place in range(4)]}" for number in range(6)),
    ]
