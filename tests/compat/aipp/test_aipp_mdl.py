"""AIPP through acl.mdl: parameters that a card would refuse, and models whose AIPP file is wrong."""

import numpy as np
import pytest
from card import BOARD, content, done, made, module

from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.compat.acl.aipp.pixels import AippError

LOAD_MODEL, MODEL_EXECUTE = 545001, 507011
IMAGES = Tensor("images", "float32", (2, 3, 4, 6), "NCHW")
DYNAMIC = "aipp_op { aipp_mode: dynamic max_src_image_size: 400 }"
GOOD = {"set_aipp_input_format": (3,), "set_aipp_src_image_size": (6, 4)}


@pytest.fixture
def net(acl, tmp_path):
    """A loaded model with dynamic AIPP, a dataset for it, and one for its output."""
    (tmp_path / "a.cfg").write_text(DYNAMIC)

    @register_model("net.om", [IMAGES], [Tensor("sum", "float32", (2,))], cost_us=5, aipp=tmp_path / "a.cfg")
    def net(images):
        return images.sum((1, 2, 3))

    given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset, size in ((given, 400), (given, 256), (wanted, 8)):
        address = made(acl.rt.malloc(size, 0))
        done(acl.rt.memset(address, size, 1, size))
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
    yield made(acl.mdl.load_from_file("net.om")), given, wanted
    unregister_model("net.om")


def parameters(acl, count=2, **calls):
    """Parameters of RGB images of 6x4, but for these *calls*, whose arguments None leaves out."""
    aipp = acl.mdl.create_aipp(count)
    for name, arguments in (GOOD | calls).items():
        if arguments is not None:
            done(getattr(acl.mdl, name)(aipp, *arguments))
    return aipp


def test_parameters_lie_in_the_data_buffer_and_hold_until_others_are_set(acl, net):
    model, given, wanted = net
    aipp = parameters(acl)
    done(acl.mdl.set_input_aipp(model, given, 1, aipp))
    done(acl.mdl.set_aipp_pixel_var_reci(aipp, 2, 2, 2, 2, 1), acl.mdl.execute(model, given, wanted))
    assert sums(acl, wanted) == [72, 72]
    done(acl.mdl.set_aipp_by_input_index(model, given, 0, aipp), acl.mdl.destroy_aipp(aipp))
    done(acl.mdl.execute(model, given, wanted), acl.mdl.execute(model, given, wanted))
    assert sums(acl, wanted) == [72, 144]


def sums(acl, wanted):
    """What the model gave."""
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(wanted, 0))
    return np.frombuffer(content(acl, address, 8), np.float32).tolist()


def test_an_execution_without_parameters_fails_and_says_what_to_call(acl, net, capsys):
    model, given, wanted = net
    address = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(given, 1))
    done(acl.rt.memset(address, 256, 0, 256))
    assert acl.mdl.execute(model, given, wanted) == MODEL_EXECUTE
    assert "call acl.mdl.set_input_aipp() before the execution" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("calls", "complaint"),
    [
        ({"set_aipp_input_format": None}, "the format of the source was not set; call acl.mdl.set_aipp_input_format()"),
        ({"set_aipp_src_image_size": None}, "the size of the source was not set; call acl.mdl.set_aipp_src_image_size"),
        ({"set_aipp_src_image_size": (8, 4)}, "AIPP makes images of 8x4 pixels, and input images takes 6x4"),
        ({"set_aipp_input_format": (1,), "set_aipp_src_image_size": (7, 4)}, "in YUV420SP_U8 both must be even"),
        ({"set_aipp_src_image_size": (10, 10), "set_aipp_crop_params": (1, 0, 0, 6, 4, 0)},
         "image 0 becomes 6x4 pixels, and image 1 10x10"),
        ({"set_aipp_crop_params": (1, 1, 0, 6, 4, 1)}, "6x4 pixels from 1, 0; stay within the source, which has 6x4"),
        ({"set_aipp_scf_params": (1, 16, 16, 16, 16, 0)}, "does not resize; leave out set_aipp_scf_params()"),
        ({"set_aipp_input_format": (4,), "set_aipp_csc_params": (1, *[0] * 15)}, "no colours to convert"),
        ({"set_aipp_src_image_size": (20, 20), "set_aipp_crop_params": (0, 0, 0, 0, 0, 0)},
         "2 images of 20x20 in RGB888_U8 have 2400 bytes; max_src_image_size is 400"),
        ({"count": 1}, "for 1 images, and input images takes 2; pass that number to acl.mdl.create_aipp()"),
        ({"count": 1 << 20}, "for 1048576 images"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_go_with_the_model(acl, net, calls, complaint):
    model, given, _ = net
    aipp = parameters(acl, **calls)
    assert acl.mdl.set_input_aipp(model, given, 1, aipp) == 100000
    assert complaint in acl.get_recent_err_msg()


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("set_aipp_input_format", (5,), "these cards read the formats 1 YUV420SP_U8, 2 XRGB8888_U8, "),
        ("set_aipp_src_image_size", (1, 4), "the width must be 2 to 4096, not 1"),
        ("set_aipp_src_image_size", (6, 5000), "the height must be 1 to 4096, not 5000"),
        ("set_aipp_csc_params", (2, *[0] * 15), "the switch must be 0 to 1, not 2"),
        ("set_aipp_csc_params", (1, 40000, *[0] * 14), "weights must be -32677 to 32676, not 40000, 0"),
        ("set_aipp_csc_params", (1, *[0] * 14, 256), "biases must be 0 to 255"),
        ("set_aipp_rbuv_swap_switch", (7,), "the switch must be 0 to 1, not 7"),
        ("set_aipp_ax_swap_switch", (-1,), "the switch must be 0 to 1, not -1"),
        ("set_aipp_crop_params", (1, 0, 0, 0, 4, 0), "the sides to cut out must be 1 to 4096, not 0, 4"),
        ("set_aipp_padding_params", (1, 33, 0, 0, 0, 0), "borders must be 0 to 32, not 33, 0, 0, 0"),
        ("set_aipp_dtc_pixel_mean", (256, 0, 0, 0, 0), "means must be 0 to 255, not 256, 0, 0, 0"),
        ("set_aipp_dtc_pixel_min", (-0.5, 0.0, 0.0, 0.0, 0), "least values must be 0 to 255, not -0.5"),
        ("set_aipp_pixel_var_reci", (1e6, 1.0, 1.0, 1.0, 0), "factors must be -65504 to 65504, not 1000000.0"),
        ("set_aipp_pixel_var_reci", (float("nan"), 1.0, 1.0, 1.0, 0), "factors must be -65504 to 65504, not nan"),
        ("set_aipp_scf_params", (1, 8, 16, 16, 16, 0), "sides must be 16 to 4096, not 8, 16, 16"),
        ("set_aipp_dtc_pixel_mean", (0, 0, 0, 0, 2), "there is no image 2: the parameters were made for 2"),
    ],
)
def test_values_that_no_card_takes(acl, net, name, arguments, complaint):
    model, given, _ = net
    aipp = parameters(acl)
    assert getattr(acl.mdl, name)(aipp, *arguments) == 100000
    assert complaint in acl.get_recent_err_msg()
    if "switch" not in complaint:
        done(acl.mdl.set_input_aipp(model, given, 1, aipp) if name != "set_aipp_scf_params" else 0)


def test_the_wrong_input(acl, net):
    model, given, _ = net
    aipp = parameters(acl)
    assert acl.mdl.set_input_aipp(model, given, 0, aipp) == 100000
    assert "input 1 has those of input 0" in acl.get_recent_err_msg()
    assert acl.mdl.set_aipp_by_input_index(model, given, 1, aipp) == 500001
    assert acl.mdl.set_aipp_by_input_index(model, given, 2, aipp) == 100000
    assert acl.mdl.set_input_aipp(model + 1, given, 1, aipp) == 145003
    assert acl.mdl.set_input_aipp(model, aipp, 1, aipp) == 100000
    assert acl.mdl.create_aipp(0) == 0


def test_a_data_buffer_that_is_too_small_or_has_no_memory(acl, net):
    model, given, _ = net
    aipp, buffer = parameters(acl), acl.mdl.get_dataset_buffer(given, 1)
    done(acl.update_data_buffer(buffer, acl.get_data_buffer_addr(buffer), 255))
    assert acl.mdl.set_input_aipp(model, given, 1, aipp) == 145012
    assert "has 255 bytes, and the parameters have 256" in acl.get_recent_err_msg()
    done(acl.update_data_buffer(buffer, 0, 0))
    assert acl.mdl.set_input_aipp(model, given, 1, aipp) == 100000


def test_info_of_dynamic_aipp_tells_what_the_model_takes(acl, net):
    model, _, _ = net
    info = made(acl.mdl.get_first_aipp_info(model, 0))
    assert (info["srcFormat"], info["srcDatatype"], info["srcDimNum"], info["shapeCount"]) == (0, 0, 4, 1)
    assert info["outDims"][0]["aippOutdims"]["dims"] == [2, 3, 4, 6]
    assert acl.mdl.get_first_aipp_info(model, 1) == (None, 145015)


SIDECAR = """
compute = "net:infer"
aipp = "a.cfg"
inputs = [{ name = "images", dtype = "float32", dims = [1, 3, 4, 6] }, { name = "number", dtype = "int32", dims = [1] }]
outputs = [{ name = "sum", dtype = "float32", dims = [1] }]
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file"),
        ("aipp_op {", "a.cfg, line 1: the file ends where } should be"),
        (f"{DYNAMIC}\n{DYNAMIC}", "line 2: input images has AIPP already; leave one aipp_op for it"),
        ("aipp_op { aipp_mode: dynamic max_src_image_size: 1 related_input_rank: 2 }",
         "the model has no input 2; its inputs are 0 images, 1 number"),
        ('aipp_op { aipp_mode: dynamic max_src_image_size: 1 related_input_name: "x" }', "the model has no input 'x'"),
        ("aipp_op { aipp_mode: dynamic max_src_image_size: 1 related_input_rank: 1 }", "input number is int32; AIPP"),
    ],
)  # fmt: skip
def test_a_sidecar_with_a_wrong_aipp_file(acl, tmp_path, capsys, text, complaint):
    (tmp_path / "net.om.toml").write_text(SIDECAR)
    (tmp_path / "net.py").write_text("def infer(images, number):\n    return images.sum()\n")
    if text is not None:
        (tmp_path / "a.cfg").write_text(text)
    assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, LOAD_MODEL)
    assert complaint in capsys.readouterr().err


def test_dynamic_aipp_takes_no_gears(tmp_path):
    (tmp_path / "a.cfg").write_text(DYNAMIC)
    images = Tensor("images", "float32", (-1, 3, 4, 6), "NCHW")
    with pytest.raises(AippError, match="input images has -1 images; dynamic AIPP takes 1 to 127, and no gears"):
        register_model("g.om", [images], [Tensor("y", "int8", (1,))], dynamic_batch=[1, 2], aipp=tmp_path / "a.cfg")(
            lambda images: images
        )


def test_images_on_a_board_lie_in_memory_of_the_program(tmp_path):
    """Without a host, the parameters go straight into the buffer."""
    (tmp_path / "a.cfg").write_text(DYNAMIC)
    with module(BOARD) as acl:
        register_model("net.om", [IMAGES], [Tensor("sum", "float32", (2,))], cost_us=5, aipp=tmp_path / "a.cfg")(
            lambda images: images.sum((1, 2, 3))
        )
        arrays = np.ones(400, np.uint8), np.zeros(256, np.uint8), np.zeros(2, np.float32)
        given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for dataset, array in zip((given, given, wanted), arrays, strict=True):
            buffer = acl.create_data_buffer(array.ctypes.data, array.nbytes)
            acl.mdl.add_dataset_buffer(dataset, buffer)
        model = made(acl.mdl.load_from_file("net.om"))
        assert acl.mdl.set_input_aipp(model, given, 1, parameters(acl)) == 0, acl.get_recent_err_msg()
        done(acl.mdl.execute(model, given, wanted))
        assert arrays[2].tolist() == [72, 72]
        unregister_model("net.om")
