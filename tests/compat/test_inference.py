"""`aclruntime` and `ais_bench.infer.interface`: sessions of model files in all modes, over the functions of `acl`."""

import gc
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from card import made, module

from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import report

DIMS = (1, 2, 3)
KINDS = {
    "static": (DIMS, {}),
    "dymbatch": ((-1, 2, 3), {"dynamic_batch": [1, 2, 4]}),
    "dymhw": ((1, 2, -1, -1), {"dynamic_hw": [[2, 3], [4, 6]]}),
    "dymdims": ((-1, 2, -1), {"dynamic_dims": [[1, 3, 1, 3], [2, 5, 2, 5]]}),
    "dymshape": ((-1, 2, -1), {}),
}
SHAPES = {"static": DIMS, "dymbatch": (2, 2, 3), "dymhw": (1, 2, 4, 6), "dymdims": (2, 2, 5), "dymshape": (3, 2, 7)}


@pytest.fixture
def models():
    """Model files that add two inputs, one for each mode, and one of two outputs with other types."""
    for mode, (dims, options) in KINDS.items():
        tensors = [Tensor(name, "float32", dims) for name in ("a", "b", "sum")]
        register_model(f"{mode}.om", tensors[:2], tensors[2:], cost_us=20, **options)(lambda a, b: a + b)
    pair = Tensor("x", "int32", (4,)), Tensor("twice", "int32", (4,)), Tensor("half", "float16", (2,))
    register_model("pair.om", pair[:1], pair[1:], cost_us=20)(lambda x: (2 * x, (x[:2] / 2).astype(np.float16)))
    yield
    for name in (*KINDS, "pair"):
        unregister_model(f"{name}.om")


@pytest.fixture
def vendor(acl, models):
    """The vendor's modules on two tiny devices, and the simulation's."""
    names = SimpleNamespace(acl=acl, aclruntime=import_module("aclruntime"))
    names.interface = import_module("ais_bench.infer.interface")
    return names


def arrays(mode, value=1):
    return [np.full(SHAPES[mode], value + place, np.float32) for place in range(2)]


@pytest.mark.parametrize("mode", KINDS)
def test_each_mode_has_the_results_of_the_feeds_own_shape(vendor, mode):
    session = vendor.interface.InferSession(0, f"{mode}.om")
    for value in (1, 5):
        [result] = session.infer(arrays(mode, value), mode)
        assert result.shape == SHAPES[mode]
        assert result.dtype == np.float32
        assert (result == 2 * value + 1).all()


def test_the_descriptions_say_the_bytes_of_the_gear_that_is_set(vendor):
    session = vendor.interface.InferSession(0, "dymbatch.om")
    first, _ = session.get_inputs()
    assert (first.name, first.shape, first.size, first.realsize) == ("a", [-1, 2, 3], 96, 96)
    assert (first.datatype, str(first.datatype), first.format) == (0, "dtype.float32", 2)
    session.set_dynamic_batchsize(2)
    assert [each.realsize for each in session.get_inputs()] == [48, 48]
    assert [each.name for each in session.get_outputs()] == ["sum"]
    assert session.get_max_dym_batchsize() == 4
    assert str(session.session).startswith("<Model>\ndevice:\t0\ninput:\n  #0    a  (-1, 2, 3)  float32  96  48\n")


def test_outputs_have_their_types_and_stay_on_the_device_if_no_arrays_are_asked_for(vendor):
    session = vendor.interface.InferSession(0, "pair.om")
    twice, half = session.infer([np.arange(4, dtype=np.int32)])
    assert (twice.tolist(), half.tolist(), half.dtype) == ([0, 2, 4, 6], [0, 0.5], np.float16)
    tensors = session.infer([np.arange(4, dtype=np.int32)], out_array=False)
    assert [(each.device, each.shape, str(each.dtype)) for each in tensors] == [
        (0, [4], "dtype.int32"), (0, [2], "dtype.float16"),
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="tensor is in npu"):
        np.array(tensors[0])
    tensors[0].to_host()
    assert (tensors[0].device, np.array(tensors[0]).tolist()) == (-1, [0, 2, 4, 6])


def test_the_times_of_executions_are_those_of_the_device(vendor):
    """A call takes 1 us on the tiny device, the model 20 us, a wake-up 2 us."""
    session = vendor.interface.InferSession(0, "static.om", loop=3)
    session.infer(arrays("static"))
    times = session.summary().exec_time_list
    assert times == pytest.approx([0.023] * 3)
    assert session.sumary().exec_time_list == times
    session.reset_summaryinfo()
    assert session.summary().exec_time_list == []
    summary = vendor.interface.MemorySummary
    assert len(summary.get_h2d_time_list()) == 2
    assert len(summary.get_d2h_time_list()) == 1
    assert min(summary.get_h2d_time_list()) > 0
    summary.reset()
    assert summary.get_h2d_time_list() == []


def test_what_a_feed_may_be(vendor):
    """An array that is not contiguous, a NumPy scalar, a tensor on the device, and a tensor of torch."""
    register_model("one.om", [Tensor("x", "float32", (1,))], [Tensor("y", "float32", (1,))])(lambda x: -x)
    one = vendor.interface.InferSession(0, "one.om")
    assert one.infer([np.float32(3)])[0].tolist() == [-3]
    unregister_model("one.om")
    session = vendor.interface.InferSession(0, "pair.om")
    assert session.infer([np.arange(8, dtype=np.int32)[::2]])[0].tolist() == [0, 4, 8, 12]
    tensor = session.create_tensor_from_arrays_to_device(np.full(4, 7, np.int32))
    assert session.infer([tensor])[0].tolist() == [14] * 4
    torch = SimpleNamespace(type=lambda: "torch.IntTensor", numpy=lambda: np.full(4, 3, np.int32))
    assert session.infer([torch])[0].tolist() == [6] * 4
    for wrong in ([1, 2, 3, 4], "text", np.array([1])[0].dtype):
        with pytest.raises(RuntimeError, match="invalid: feed an array"):
            session.infer([wrong])


def test_bytes_are_all_that_static_compares_and_another_type_is_a_finding(vendor):
    """The vendor's samples feed np.frombuffer(bytearray(realsize)), which is float64."""
    from acl_py.compat.acl.face.session import session as here

    session = vendor.interface.InferSession(0, "pair.om")
    [desc] = session.get_inputs()
    assert session.infer([np.zeros(desc.realsize, np.uint8)])[0].tolist() == [0] * 4
    assert list(here().warned) == []
    assert session.infer([np.frombuffer(bytearray(desc.realsize))])[0].tolist() == [0] * 4
    assert list(here().warned) == ["input x of pair.om is int32, and was fed float64: its bytes are taken as they are"]


def test_a_pipeline_gives_the_outputs_of_each_list_of_feeds(vendor):
    session = vendor.interface.InferSession(0, "dymshape.om")
    feeds = [[np.full((count, 2, 3), value, np.float32)] * 2 for count, value in ((1, 2), (3, 4))]
    outputs = session.infer_pipeline(feeds, "dymshape", 100_000)
    assert [(each.shape, each.max()) for [each] in outputs] == [((1, 2, 3), 4), ((3, 2, 3), 8)]


def test_an_iteration_feeds_outputs_into_inputs(vendor):
    """b is replaced by the sum nine times: 1 + 9 * 1."""
    session = vendor.interface.InferSession(0, "static.om")
    feeds = [np.ones(DIMS, np.float32), np.ones(DIMS, np.float32)]
    [result] = session.infer_iteration(feeds, [-1, 0], 9)
    assert (result == 10).all()
    assert len(session.summary().exec_time_list) == 9
    [once] = session.infer_iteration(feeds)
    assert (once == 2).all()


def test_several_devices_run_at_once_on_one_clock(models):
    with module(devices=2) as acl:
        many = import_module("ais_bench.infer.interface").MultiDeviceSession("static.om")
        feeds = {device: [arrays("static", value) for value in (1, 2)] for device in (0, 1)}
        outputs = many.infer(feeds)
        assert {device: [float(each.max()) for [each] in lists] for device, lists in outputs.items()} == {
            0: [3, 5], 1: [3, 5],
        }  # fmt: skip
        kernels = [op for op in session().trace.ops if op.kind == "kernel"]
        assert sorted(op.device for op in kernels) == [0, 0, 1, 1]
        assert set(many.summary()) == {0, 1}
        assert made(acl.rt.get_device()) == 0


def test_a_device_that_fails_is_logged_and_has_no_outputs(vendor, caplog):
    many = vendor.interface.MultiDeviceSession("static.om")
    outputs = many.infer({0: [arrays("static")], 9: [arrays("static")]})
    assert list(outputs) == [0]
    assert "device 9" in caplog.text


def test_a_session_gives_back_what_it_took(models, capsys):
    with module() as acl:
        before = made(acl.rt.get_mem_info(1))
        interface = import_module("ais_bench.infer.interface")
        one = interface.InferSession(0, "dymbatch.om")
        one.infer(arrays("dymbatch"), "dymbatch")
        one.free_resource()
        one.free_resource()
        another = interface.InferSession(0, "static.om")
        another.infer(arrays("static"))
        del another
        gc.collect()
        assert made(acl.rt.get_mem_info(1)) == before
        interface.InferSession.finalize()
        assert acl.finalize() == 100037
        assert "leak" not in report(session())


def test_a_script_may_use_acl_besides(models):
    """The session calls acl.init() if the script has not, and leaves its device current."""
    from acl_py.compat.acl import install, uninstall

    acl = install(device="tiny", replace=True)
    try:
        interface = import_module("ais_bench.infer.interface")
        interface.InferSession(1, "static.om").infer(arrays("static"))
        assert acl.rt.get_device() == (1, 0)
        assert acl.init() == 100002
    finally:
        uninstall()
    assert "ais_bench" not in sys.modules
    assert "aclruntime" not in sys.modules


def fed(name, shapes=None, mode="static", sizes=100_000):
    """Feed zeros of these shapes to a model."""

    def act(vendor):
        feeds = [np.zeros(shape, np.float32) for shape in shapes or [SHAPES[name]] * 2]
        return vendor.interface.InferSession(0, f"{name}.om").infer(feeds, mode, sizes)

    return act


def inner(vendor, name):
    return vendor.aclruntime.InferenceSession(f"{name}.om", 0)


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda made: made.interface.InferSession(0, "gone.om"), "the load of gone.om failed with 145002"),
        (lambda made: made.interface.InferSession(99, "static.om"), "device 99 failed with 107001"),
        (fed("static", [DIMS]), "2 inputs, a, b, and 1 were fed"),
        (fed("static", [(3,)] * 2), "a of static.om takes 24 bytes .* and 12 were fed"),
        (fed("static", mode="fast"), "no mode 'fast'; use one of static, dymbatch"),
        (fed("dymbatch", [(3, 2, 3)] * 2, "dymbatch"), "batch size 3; there are 1, 2, 4"),
        (fed("static", mode="dymbatch"), "not a dymbatch model"),
        (fed("dymbatch", [(2, 2, 4)] * 2, "dymbatch"), "a of dymbatch.om takes 48 bytes with dymBatch"),
        (fed("static", mode="dymhw"), "not a dymhw model"),
        (fed("dymhw", [(1, 2, 3, 3)] * 2, "dymhw"), r"size of images \[3, 3\]; there are \[2, 3\], \[4, 6\]"),
        (fed("dymdims", [(3, 2, 3)] * 2, "dymdims"), r"no list of dims \[3, 2, 3, 3, 2, 3\]"),
        (fed("static", mode="dymdims"), "converted without --dynamic_dims"),
        (fed("dymshape", mode="dymshape", sizes="9"), "custom_sizes must be a number"),
        (fed("dymshape", mode="dymshape", sizes=8), "the result has|bytes, but its buffer only 8|failed with 507011"),
        (fed("dymbatch"), "none of them is set: say which, by the mode of infer"),
        (lambda made: inner(made, "static").run(["none"], []), "no output 'none'|0 were fed"),
        (lambda made: inner(made, "static").inner_run([0], ["sum"]), "nothing to repeat"),
        (lambda made: inner(made, "dymshape").set_dynamic_shape("a:1,2"), "the inputs of the model are a, b"),
        (lambda made: inner(made, "dymshape").set_dynamic_shape("a"), "must be the name of an input and its dims"),
    ],
)  # fmt: skip
def test_what_a_session_cannot_do_is_a_runtime_error_that_says_why(vendor, act, told):
    with pytest.raises(RuntimeError, match=told):
        act(vendor)


def test_an_inner_session_takes_names_tensors_and_addresses(vendor):
    runtime = vendor.aclruntime
    inner = runtime.InferenceSession("static.om", 0, runtime.session_options())
    first, second = arrays("static")
    tensors = {"a": runtime.Tensor(first), "b": runtime.Tensor(second)}
    for tensor in tensors.values():
        tensor.to_device(0)
    [result] = inner.run(["sum"], tensors)
    result.to_host()
    assert (np.array(result) == 3).all()
    feeds = [runtime.BaseTensor(each.ctypes.data, each.nbytes) for each in (first, second)]
    [result] = inner.run(["sum"], feeds)
    result.to_host()
    assert (np.array(result) == 3).all()
    assert len(inner.sumary().exec_time_list) == 2
    inner.reset_sumaryinfo()
    assert inner.sumary().exec_time_list == []
    assert runtime.dtype.float32 == 0
    assert runtime.model("pair.om").get_inputs()[0].name == "x"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has no __buffer__ before 3.12")
def test_a_tensor_is_a_buffer(vendor):
    assert bytes(memoryview(vendor.aclruntime.Tensor(np.arange(3, dtype=np.uint8)))) == b"\0\1\2"


AIPP = "aipp_op { aipp_mode: dynamic max_src_image_size: 200 }"
SETTINGS = """[aipp_op]
input_format = RGB888_U8
src_image_size_w = 4
src_image_size_h = 2
mean_chn_0 = 10
var_reci_chn_0 = 0.5
var_reci_chn_1 = 1
var_reci_chn_2 = 1
"""


def test_settings_of_dynamic_aipp_come_from_a_file(vendor, tmp_path):
    (tmp_path / "aipp.cfg").write_text(AIPP)
    image, same = Tensor("image", "float32", (1, 3, 2, 4), "NCHW"), Tensor("same", "float32", (1, 3, 2, 4), "NCHW")
    register_model("aipp.om", [image], [same], aipp=tmp_path / "aipp.cfg")(lambda image: image)
    infer = vendor.interface.InferSession(0, "aipp.om")
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    feed = np.zeros(200, np.uint8)
    feed[:24] = pixels.reshape(-1)
    try:
        assert [(each.name, each.size) for each in infer.get_inputs()] == [("image", 200)]
        assert infer.get_dym_aipp_input_exist() == 1
        infer.check_dym_aipp_input_exist()
        with pytest.raises(RuntimeError, match=r"has dynamic AIPP: call load_aipp_config_file\(\)"):
            infer.infer([feed])
        (tmp_path / "settings.config").write_text(SETTINGS)
        infer.load_aipp_config_file(str(tmp_path / "settings.config"), 1)
        [result] = infer.infer([feed])
    finally:
        unregister_model("aipp.om")
    wanted = (pixels - np.array([10, 0, 0], np.float32)) * np.array([0.5, 1, 1], np.float32)
    assert np.array_equal(result[0], wanted.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read"),
        ("[other]", r"it needs one section \[aipp_op\], and has other"),
        ("aipp_op", "wrong aipp config file content!"),
        ("[aipp_op]", "input_format must be one of YUV420SP_U8, XRGB8888_U8, RGB888_U8, YUV400_U8, not nothing"),
        (SETTINGS + "mean_chn_1 = 1.5", "mean_chn_1 = 1.5 is no whole number"),
        (SETTINGS + "mean_chn_1 = 300", "failed with 100000: .*means must be 0 to 255"),
        (SETTINGS.replace("src_image_size_w = 4", ""), "failed with 100000: .*the width must be 2 to 4096"),
    ],
)
def test_a_wrong_file_of_settings_is_told(vendor, tmp_path, text, told):
    path = tmp_path / "settings.config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RuntimeError, match=told):
        vendor.interface.InferSession(0, "static.om").load_aipp_config_file(str(path), 1)
