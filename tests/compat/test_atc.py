"""`acl-py atc`: model files made from ONNX files, in `acl.mdl`, in InferSession and on the command line."""

import struct
from importlib import import_module
from zlib import crc32

import numpy as np
import onnx_models as made_models
import pytest
from card import done, made, module
from onnx.reference import ReferenceEvaluator
from test_onnx import CARDS, assert_like, execute, expected, inputs_of
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.standins.graph_files import MAGIC

CHIPS = {"ascend310p3": "Ascend310P3", "ascend910b3": "Ascend910B3", "ascend310b": "Ascend310B4"}


@pytest.fixture
def atc(tmp_path, monkeypatch):
    """Convert a model with these options in a folder of its own: what the command has printed."""
    monkeypatch.chdir(tmp_path)

    def run(model=None, *options, code=0, chip="Ascend310P3", output="net"):
        if model is not None:
            made_models.onnx.save(model, "net.onnx")
        usual = ["--model=net.onnx", "--framework=5", f"--output={output}", f"--soc_version={chip}"]
        ran = CliRunner().invoke(app, ["atc", *usual, *options])
        assert ran.exit_code == code, ran.output
        assert ran.output.startswith("ATC start working now, please wait for a moment.\n")
        ends = (
            "ATC run success, welcome to the next use." if not code else "ATC run failed, Please check the detail log"
        )
        assert ends in ran.output
        return ran.output

    return run


@pytest.mark.parametrize("card", CARDS)
def test_a_static_model_runs_on_each_card_by_both_interfaces(atc, card):
    model = made_models.resnet50(2, 32, 8, 10)
    assert "the vendor's default is float16; its time is that of float16" in atc(model, chip=CHIPS[card])
    inputs = inputs_of(model)
    wanted = expected(model, inputs)
    with module(card) as acl:
        assert_like(execute(acl, "net.om", [*inputs.values()]), wanted)
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        assert_like(infer.infer([*inputs.values()]), wanted)
        assert list(session().warned) == []


@pytest.mark.parametrize("card", CARDS)
def test_a_batch_is_one_of_the_list(atc, card):
    model = made_models.detector()
    atc(model, "--input_shape=images:-1,3,64,64", "--dynamic_batch_size=1,2,4", chip=CHIPS[card])
    with module(card):
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        assert infer.get_outputs()[0].shape == [4, 240, 8]
        for batch in (1, 4):
            inputs = inputs_of(model, {"images": (batch, 3, 64, 64)})
            assert_like(infer.infer([*inputs.values()], "dymbatch"), expected(model, inputs))
        with pytest.raises(RuntimeError, match="no batch size 3; there are 1, 2, 4"):
            infer.infer([np.ones((3, 3, 64, 64), np.float32)], "dymbatch")


@pytest.mark.parametrize(
    ("options", "mode", "shapes"),
    [
        (["--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,8"], "dymhw", [(1, 3, 4, 6), (1, 3, 8, 8)]),
        (["--input_shape=x:-1,3,-1,4", "--dynamic_dims=1,2;3,5"], "dymdims", [(1, 3, 2, 4), (3, 3, 5, 4)]),
        (["--input_shape=x:1~4,3,-1,-1"], "dymshape", [(2, 3, 5, 7), (4, 3, 2, 2)]),
        (["--input_shape_range=x:[1~4,3,-1,-1]"], "dymshape", [(2, 3, 5, 7)]),
        ([], "dymshape", [(2, 3, 5, 7)]),
    ],
)
def test_sizes_dims_and_shapes_are_those_of_the_options(atc, options, mode, shapes):
    """Of a model in whose Resize onnx loses the batch."""
    model = made_models.resize()
    atc(model, *options)
    with module("ascend310p3"):
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        for shape in shapes:
            inputs = inputs_of(model, {"x": shape})
            assert_like(infer.infer([*inputs.values()], mode, custom_sizes=10_000), expected(model, inputs))


def test_a_range_is_held(atc):
    atc(made_models.resize(), "--input_shape=x:1~4,3,-1,-1")
    with module("ascend310p3"):
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        with pytest.raises(RuntimeError, match="was given"):
            infer.infer([np.ones((5, 3, 2, 2), np.float32)], "dymshape")


def test_the_file_may_be_renamed_moved_and_loaded_from_memory(atc, tmp_path):
    model = made_models.convolution()
    atc(model, output="folder/first")
    inputs = inputs_of(model)
    (tmp_path / "net.onnx").unlink()
    content = (tmp_path / "folder" / "first.om").read_bytes()
    (tmp_path / "other.om").write_bytes(content)
    with module("ascend310p3") as acl:
        assert_like(execute(acl, "other.om", [*inputs.values()]), expected(model, inputs))
        address = acl.util.bytes_to_ptr(content)
        loaded = made(acl.mdl.load_from_mem(address, len(content)))
        desc = acl.mdl.create_desc()
        done(acl.mdl.get_desc(desc, loaded), acl.mdl.get_desc_from_mem(desc, address, len(content)))
        assert made(acl.mdl.get_input_dims(desc, 0)) == {"name": "x", "dimCount": 4, "dims": [1, 3, 8, 8]}
        assert made(acl.mdl.query_size_from_mem(address, len(content)))[1] == 2 * 132  # weights, in float16


def test_the_file_says_what_it_is_and_no_card_takes_it(atc, tmp_path):
    atc(made_models.convolution())
    content = (tmp_path / "net.om").read_bytes()
    assert content.startswith(b"acl-py model 1: an ONNX file for a simulated device. No card can load it.\n")


def test_outputs_may_be_others_and_have_other_types(atc):
    model = made_models.convolution()
    atc(model, "--out_nodes=Relu_1:0;classes:0", "--output_type=classes:0:FP16")
    inputs = inputs_of(model)
    with module("ascend310p3"):
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        relu, classes = infer.infer([*inputs.values()])
        assert (relu.shape, relu.dtype, classes.dtype) == ((1, 4, 8, 8), np.float32, np.float16)
        assert np.allclose(classes, expected(model, inputs)[0], atol=1e-3)
    atc(model, "--output_type=FP16")
    with module("ascend310p3"):
        assert import_module("aclruntime").InferenceSession("net.om").get_outputs()[0].datatype.name == "float16"


def test_aipp_of_a_file_comes_before_the_first_layer(atc, tmp_path):
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 8\n"
        "mean_chn_0: 10 min_chn_0: 1 var_reci_chn_0: 0.5 var_reci_chn_1: 0.25 var_reci_chn_2: 0.125 }"
    )
    model = made_models.convolution()
    atc(model, "--insert_op_conf=aipp.cfg")
    pixels = np.random.default_rng(3).integers(0, 256, (1, 8, 8, 3), np.uint8)
    values = pixels.astype(np.float32) - np.array([11, 0, 0], np.float32)
    values = (values * np.array([0.5, 0.25, 0.125], np.float32)).transpose(0, 3, 1, 2)
    with module("ascend310p3"):
        infer = import_module("ais_bench.infer.interface").InferSession(0, "net.om")
        [desc] = infer.get_inputs()
        assert (desc.datatype.name, desc.size) == ("uint8", 192)
        assert_like(infer.infer([pixels]), ReferenceEvaluator(model).run(None, {"x": values}))


def test_a_model_for_another_chip_is_a_finding(atc):
    atc(made_models.convolution(), chip="Ascend310P3")
    with module("ascend910b3") as acl:
        made(acl.mdl.load_from_file("net.om"))
        [finding] = session().warned
        assert finding.startswith("net.om was made for Ascend310P3, and the card is ascend910b3: make it with")
        assert "--soc_version=Ascend910B3" in finding


def test_options_without_meaning_are_ignored_aloud(atc):
    told = atc(
        made_models.convolution(), "--log=error", "--precision_mode", "allow_fp32_to_fp16", "--auto_tune_mode=RL,GA"
    )
    assert "acl-py: ignored here: --log, --precision_mode, --auto_tune_mode" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--singleop=add.json"], "--singleop is not simulated"),
        (["--mode=1"], "--mode=1 is not simulated"),
        (["--framework=3"], "E10007: --framework=3 (TensorFlow): only 5 is simulated"),
        (["--output="], "E10004: --output is required"),
        (["--soc_version="], "E10001: --soc_version is required"),
        (["--soc_version=310"], "a chip is named as in Ascend310P3"),
        (["--model=gone.onnx"], "gone.onnx: No such file or directory"),
        (["--model=text.onnx"], "text.onnx is no ONNX model, or is cut off"),
        (["--input_format=CHW"], "--input_format=CHW must be one of NCHW"),
        (["--input_shape=y:1,3"], "there is no input y; there are x"),
        (["--input_shape=x"], "'x' must be name:dims"),
        (["--input_shape=x:1,3"], "x has 4 dims, [1, 3, 8, 8], and '1,3' has 2"),
        (["--input_shape=x:1,3,a,8"], "'a' is no number and no range"),
        (["--input_shape=x:1,5,8,8"], "it cannot have inputs of x [1, 5, 8, 8]"),
        (["--dynamic_batch_size=1,2"], "write -1 for the dims of the list"),
        (["--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,b"], "must be numbers, with commas"),
        (["--input_shape=x:-1,3,8,8", "--dynamic_batch_size=0"], "each 1 or more"),
        (["--input_shape=x:-1,3,-1,8", "--dynamic_dims=1"], "dynamic_dims has 1 values per gear"),
        (["--dynamic_batch_size=1", "--dynamic_dims=1"], "exclude each other"),
        (["--out_nodes=Relu_9:0"], "'Relu_9:0' is no result of a node"),
        (["--output_type=FP8"], "'FP8' must be one of FP32, FP16, UINT8, INT8"),
        (["--insert_op_conf=gone.cfg"], "gone.cfg"),
        (["--insert_op_conf=text.onnx"], "text.onnx, line 1: expected aipp_op"),
        (["net.onnx"], "'net.onnx' is no option"),
        (["--input_shape"], "--input_shape needs a value"),
    ],
)
def test_what_cannot_be_made_is_told_and_nothing_is_written(atc, tmp_path, options, told):
    (tmp_path / "text.onnx").write_text("no model at all")
    assert told in " ".join(atc(made_models.convolution(), *options, code=255).split())
    assert not (tmp_path / "net.om").exists()


def test_a_file_that_is_cut_or_damaged_has_the_code_of_a_card(atc, tmp_path, capsys):
    atc(made_models.convolution())
    file = tmp_path / "net.om"
    content = file.read_bytes()
    length = len(MAGIC)
    version = bytearray(content[:-4].replace(b'"soc_version"', b'"sic_version"'))
    damaged = bytearray(content)
    damaged[-9] ^= 1
    with module("ascend310p3") as acl:
        for wrong, told in (
            (content[:-1], "it is cut off"),
            (content[: length + 3], "it is cut off"),
            (bytes(damaged), "it is damaged"),
            (bytes(version) + struct.pack("<I", crc32(version)), "another version of acl-py has written it"),
        ):
            file.write_bytes(wrong)
            assert acl.mdl.load_from_file("net.om") == (0, 145006)
            assert told in capsys.readouterr().err
            assert acl.mdl.load_from_mem(acl.util.bytes_to_ptr(wrong), len(wrong)) == (0, 145006)
