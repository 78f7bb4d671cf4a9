"""Where binaries of kernels come from: sidecars, registrations, bytes in memory; and what a broken one is told of."""

from functools import partial

import numpy as np
import pytest
from card import done, made, module
from kernel_launches import ADD, VECTORS, appended, binary_of, download, function_of, kernels_run, upload

from acl_py.compat.acl import Parameter, register_kernel, unregister_kernel
from acl_py.compat.acl.standins.kernel_files import read
from acl_py.compat.acl.standins.sidecars import SidecarError, sidecar_of

X = np.arange(8, dtype=np.int32)
CONTENT = b"the bytes of a binary"


@pytest.fixture
def path(tmp_path):
    """A binary with the kernels add and fill."""
    return binary_of(tmp_path)


def test_a_binary_without_a_sidecar_is_told_the_one_to_write(acl, tmp_path, capsys):
    path = tmp_path / "mul-custom.o"
    assert acl.rt.binary_load_from_file(str(path), []) == (0, 107000)
    told = capsys.readouterr().err
    assert "there is no such file" in told
    assert f"describe its kernels in {path}.toml, which may look like this:" in told
    assert "has no sidecar mul-custom.o.toml" in acl.get_recent_err_msg()
    path.write_bytes(CONTENT)
    assert acl.rt.binary_load_from_file(str(path), []) == (0, 107000)
    assert "a binary of kernels cannot run here" in capsys.readouterr().err


def test_what_is_told_can_be_used(acl, tmp_path, capsys):
    path = tmp_path / "mul-custom.o"
    acl.rt.binary_load_from_file(str(path), [])
    _, _, template = capsys.readouterr().err.partition("look like this:\n")
    sidecar_of(path).write_text(template)
    (tmp_path / "mul_custom.py").write_text("def mul_custom(x, y, z, length):\n    z[...] = x * y\n")
    function = function_of(acl, str(path), "mul_custom")
    x, z = upload(acl, np.arange(8, dtype=np.float16)), upload(acl, np.zeros(8, np.float16))
    args = appended(acl, function, x, x, z, np.uint32(8))
    done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
    assert download(acl, z, np.float16, 8) == [0, 1, 4, 9, 16, 25, 36, 49]
    assert kernels_run() == [("mul_custom", 10000, 48)]


def test_a_binary_is_found_by_its_content(acl, tmp_path, monkeypatch, capsys):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "vectors.o").write_bytes(CONTENT)
    binary_of(tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    address = acl.util.bytes_to_ptr(CONTENT)
    loaded = made(acl.rt.binary_load_from_data(address, len(CONTENT), []))
    described = acl.rt.create_binary(address, len(CONTENT))
    other = made(acl.rt.binary_load(described))
    done(acl.rt.destroy_binary(described))
    names = [acl.rt.get_function_name(made(acl.rt.binary_get_function(each, "fill")), 16) for each in (loaded, other)]
    assert names == [("fill", 0), ("fill", 0)]
    assert acl.rt.binary_load(described) == (0, 107017)
    assert acl.rt.destroy_binary(described) == 107017
    assert capsys.readouterr().err == ""
    assert acl.rt.binary_load_from_data(address, len(CONTENT) - 1, []) == (0, 107000)
    assert f"no binary with these {len(CONTENT) - 1} bytes" in capsys.readouterr().err


def test_content_may_be_registered(acl):
    register_kernel("c.o", [Parameter("n", "int32")], name="one", content=CONTENT)(print)
    register_kernel("c.o", [Parameter("n", "int32")], name="two")(print)
    try:
        binary = made(acl.rt.binary_load_from_data(acl.util.bytes_to_ptr(CONTENT), len(CONTENT), []))
        made(acl.rt.binary_get_function(binary, "one"))
        made(acl.rt.binary_get_function(binary, "two"))
    finally:
        unregister_kernel("c.o")
    with pytest.raises(KeyError):
        unregister_kernel("c.o")


def test_bytes_that_are_not_there(acl):
    device = upload(acl, X)
    assert acl.rt.binary_load_from_data(0, 5, []) == (0, 100000)
    assert acl.rt.binary_load_from_data(acl.util.bytes_to_ptr(CONTENT), 0, []) == (0, 100000)
    assert acl.rt.binary_load_from_data(0xDEAD0, 5, []) == (0, 107000)
    assert acl.rt.binary_load_from_data(device, 32, []) == (0, 107000)
    assert "lies in device memory" in acl.get_recent_err_msg()
    assert acl.rt.create_binary(0, 5) == 0
    assert acl.rt.binary_load(acl.rt.create_binary(0xDEAD0, 5)) == (0, 107000)


def test_options_of_loading(acl, path):
    def load(*options):
        return acl.rt.binary_load_from_file(path, [{"type": kind, "value": value} for kind, value in options])[1]

    assert [load((1, 0)), load((1, 1)), load((1, 1 + 2**32))] == [0, 0, 0]  # lazy or not, in 32 bits
    assert [load((1, 2)), load((2, 0x43554245)), load((4, 0)), load((0, 0))] == [107000] * 4
    assert load((3, 0)) == 207000  # kernels of the AI CPU
    assert "AI CPU" in acl.get_recent_err_msg()
    register_kernel("c.o", [], name="one", content=CONTENT)(lambda: None)
    try:
        magics = [0x43554245, 0x41415246, 0x41494343, 1]
        address = acl.util.bytes_to_ptr(CONTENT)
        options = [[{"type": 2, "value": magic}] for magic in magics]
        codes = [acl.rt.binary_load_from_data(address, len(CONTENT), each)[1] for each in options]
    finally:
        unregister_kernel("c.o")
    assert codes == [0, 0, 0, 107000]
    for wrong in ([1], [{}], [{"type": 1}], [{"type": "1", "value": 0}]):
        with pytest.raises(TypeError, match="is no dict with ints 'type' and 'value'"):
            acl.rt.binary_load_from_file(path, wrong)


def test_what_is_registered_comes_first_and_a_sidecar_may_lie_among_the_models(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    binary_of(tmp_path / "elsewhere")
    with module(models=[tmp_path / "elsewhere"]) as acl:
        made(acl.rt.binary_get_function(made(acl.rt.binary_load_from_file("vectors.o", [])), "add"))
        register_kernel("vectors.o", [], name="mine")(lambda: None)
        try:
            binary = made(acl.rt.binary_load_from_file("vectors.o", []))
            made(acl.rt.binary_get_function(binary, "mine"))
            assert acl.rt.binary_get_function(binary, "add") == (0, 107000)
        finally:
            unregister_kernel("vectors.o")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("[[kernels]]", "[[kernel]]"), "there is no field kernel; the fields are kernels"),
        ((ADD, ""), r"a table \[\[kernels\]\] is needed for each kernel"),
        ((ADD, "kernels = [1]"), r"a table \[\[kernels\]\] is needed for each kernel"),
        (
            ("cost_us = 5", "speed = 5"),
            "there is no field speed; the fields of a kernel are name, compute, parameters, cost_us, flops",
        ),
        (('name = "add"\n', ""), "name is missing"),
        (('name = "fill"', 'name = "add"'), "two kernels are named add; give one another name"),
        (("vectors:add", "vectors"), "compute must be module:name"),
        (("vectors:add", "vectors:sub"), "no attribute 'sub'"),
        (("vectors:add", "vectors:fill"), r"add: the function takes \(z, values\), and is called with \(x, y, z, n\)"),
        (("vectors:add", "vectors:wide"), r'add: x has access "in", and <kernel wide> declares it "inout"'),
        (("vectors:add", "vectors:short"), "add: <kernel short> takes 1 arguments, and 4 are declared"),
        (("cost_us = 5", "cost_us = -5"), "us must be 0 or more"),
        (("cost_us = 5", "cost_us = 5\nflops = 5"), "either us per block, or flops"),
        (("cost_us = 5", 'cost_us = "5 * m"'), r"add: us '5 \* m' is not arithmetic \(\+ - \* //\) with n"),
        (('"uint32" }', '"uint31" }'), "n: dtype must be one of float32"),
        (('access = "out"', 'access = "write"'), 'z: access must be "in", "out" or "inout"'),
        (('dims = ["n"]', 'dims = ["m"]'), r"add: x: the dim 'm' is not arithmetic \(\+ - \* //\) with n"),
        (('dims = ["n"]', "dims = [-1]"), "x: each of dims must be 0 or more, or arithmetic in a string, not -1"),
        (('"uint32" }', '"uint32", dims = ["n"] }'), "n: each of dims must be a number, 0 or more, not 'n'"),
        (('name = "n", ', ""), "each of parameters needs name and dtype"),
        (('"uint32" }', '"uint32", place = 1 }'), "each of parameters needs name and dtype"),
        (('name = "n"', 'name = "x"'), "parameters must have different names; more than one is named x"),
    ],
)
def test_a_sidecar_that_cannot_be_used_says_why(acl, tmp_path, capsys, change, text):
    more = "import acl_py\n\n\n@acl_py.kernel\ndef wide(x, y, z, n): ...\n\n\n@acl_py.kernel\ndef short(x): ...\n"
    path = binary_of(tmp_path, ADD.replace(*change, 1), VECTORS + more)
    assert acl.rt.binary_load_from_file(path, []) == (0, 107000)
    assert "vectors.o.toml: " in capsys.readouterr().err
    with pytest.raises(SidecarError, match=text):
        read(sidecar_of(tmp_path / "vectors.o"))


def test_what_is_registered_has_a_name_and_can_be_called():
    with pytest.raises(ValueError, match="has no name"):
        register_kernel("h.o", [])(partial(print))
    with pytest.raises(ValueError, match="3 is not callable"):
        register_kernel("h.o", [], name="h")(3)


def test_costs_may_be_arithmetic(acl):
    parameters = [Parameter("n", "uint32"), Parameter("m", "uint32")]
    register_kernel("c.o", parameters, name="us", cost_us="n // m")(lambda n, m: None)
    register_kernel("c.o", parameters, name="flops", flops="2 * n * m")(lambda n, m: None)
    try:
        for name in ("us", "flops"):
            function = function_of(acl, "c.o", name)
            args = appended(acl, function, np.uint32(60), np.uint32(20))
            done(acl.rt.launch_kernel_with_config(function, 2, 0, [], args, 0))
        done(acl.rt.synchronize_device())
    finally:
        unregister_kernel("c.o")
    # Four cores do 4 flops in a nanosecond, and the launch has two of them.
    assert kernels_run() == [("us", 3000, 0), ("flops", 1200, 0)]


def test_a_cost_that_comes_to_nothing_good(acl):
    register_kernel("c.o", [Parameter("n", "int32")], name="c", cost_us="8 // n - 2")(lambda n: None)
    try:
        function = function_of(acl, "c.o", "c")
        for count, text in ((0, "'8 // n - 2' divides by 0"), (8, "the cost function for us gave -1")):
            args = appended(acl, function, np.int32(count))
            assert acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0) == 107000
            assert f"<kernel c> has an impossible cost: {text}" in acl.get_recent_err_msg()
    finally:
        unregister_kernel("c.o")


def test_dims_that_come_to_nothing_good(acl, tmp_path):
    path = binary_of(tmp_path, ADD.replace('dims = ["n"]', 'dims = ["8 // n - 2"]', 1))
    add, x = function_of(acl, path, "add"), upload(acl, X)
    for count, text in ((0, "divides by 0"), (8, r"shape (-1,)")):
        args = appended(acl, add, x, x, x, np.uint32(count))
        assert acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0) == 107000
        message = acl.get_recent_err_msg()
        assert text in message
        assert f"check n = {count}" in message


def test_dims_that_divide_by_0_with_some_numbers_only(acl, tmp_path):
    path = binary_of(tmp_path, ADD.replace('dims = ["n"]', 'dims = ["4 // (n - 1)"]', 1))
    add, x, z = function_of(acl, path, "add"), upload(acl, X), upload(acl, X)
    args = appended(acl, add, x, x, z, np.uint32(2))
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0))
    assert acl.rt.synchronize_stream(0) == 507035  # four values and two: the function is to blame, not the sidecar
