"""Model files of the vendor's compiler: their inputs and outputs save the writing of a sidecar.

The files here are made to the published layout; no file of the compiler's was at hand.
"""

import struct

import pytest
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.compat.acl.standins.vendor_files import VendorFileError, read


def field(number, value):
    """A field of a protobuf message: an int, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def desc(dtype, dims, layout=b"NCHW", *, packed=True):
    shape = field(1, b"".join(map(varint, dims))) if packed else b"".join(field(1, dim) for dim in dims)
    return field(1, b"x") + field(2, dtype) + field(3, shape) + field(4, layout)


def op(name, kind, *, index=None, inputs=(), given=(), made=()):
    parts = [field(1, name.encode()), field(2, kind.encode())]
    parts += [field(5, each.encode()) for each in inputs]
    if index is not None:
        parts.append(field(10, field(1, b"index") + field(2, field(3, index))))
    return b"".join([*parts, *(field(33, each) for each in given), *(field(34, each) for each in made)])


def graph(*, packed=True):
    """Two inputs, in the other order, and two outputs."""
    ops = [
        op("ids", "Data", index=1, made=[desc(8, [-1, 16], b"ND", packed=packed)]),
        op("image", "Data", index=0, made=[desc(1, [1, 3, 224, 224], packed=packed)]),
        op("ascend_mbatch_shape_data", "Data", index=2, made=[desc(8, [1], b"ND")]),
        op("Conv_1", "Conv2D", given=[desc(1, [1, 3, 224, 224])], made=[desc(2, [1, 8, 224, 224])]),
        op("out", "NetOutput", inputs=["Conv_1:0", "Softmax_9:1"],
           given=[desc(2, [1, 8, 224, 224], b"NC1HWC0"), desc(1, [1, 1000], b"strange")]),
    ]  # fmt: skip
    return field(1, b"net") + field(7, b"".join(field(6, each) for each in ops))


def alone(dtype):
    """A graph of one input."""
    return field(7, field(6, op("x", "Data", index=0, made=[desc(dtype, [1])])))


def file(model=None, *, wide=False, encrypted=0, length=None):
    """A model file with this graph, and weights behind it; newer ones have *wide* numbers in their table."""
    model = graph() if model is None else model
    letter, weights = ("Q" if wide else "I"), b"w" * 40
    table = struct.pack(f"<{letter}", 2)
    table += struct.pack(f"<3{letter}", 0, 0, len(model)) + struct.pack(f"<3{letter}", 1, len(model), len(weights))
    body = table + model + weights
    head = bytearray(256)
    head[:12] = struct.pack("<4sII", b"IMOD", 256, 0x10000000)
    struct.pack_into("<IB", head, 76, len(body) if length is None else length, encrypted)
    return bytes(head) + body


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_data_operators_are_the_inputs_and_the_operands_of_netoutput_the_outputs(wide, packed):
    tensors = read(file(graph(packed=packed), wide=wide))
    assert [(each.name, each.dtype, each.dims, each.format) for each in tensors.inputs] == [
        ("image", "float32", (1, 3, 224, 224), "NCHW"), ("ids", "int64", (-1, 16), "ND"),
    ]  # fmt: skip
    assert [(each.name, each.dtype, each.dims, each.format) for each in tensors.outputs] == [
        ("Conv_1:0", "float16", (1, 8, 224, 224), "NC1HWC0"), ("Softmax_9:1", "float32", (1, 1000), "ND"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "told", "is_cut"),
    [
        (b"PK\3\4 a zip", "does not begin with IMOD", True),
        (file()[:100], "it has 100 bytes, and the header alone 256: it is cut off", True),
        (file()[:-1], "it is cut off, or damaged", True),
        (file(encrypted=1), "it is encrypted", False),
        (file(b"\xff" * 30), "not in the form that this reader knows", False),
        (file(field(1, b"no graph")), "it has no graph", False),
        (file(alone(1)), "no operators Data and NetOutput", False),
        (file(alone(77)), "x has elements of the unknown", False),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_a_sentence(content, told, is_cut):
    with pytest.raises(VendorFileError, match=told) as error:
        read(content)
    assert error.value.is_cut is is_cut


def test_every_cut_and_every_changed_byte_of_the_graph_is_read_or_told():
    whole = file()
    for end in range(len(whole)):
        with pytest.raises(VendorFileError):
            read(whole[:end])
    for place in range(256, len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        try:
            read(bytes(changed))
        except VendorFileError:
            continue


def test_the_command_takes_the_tensors_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.om").write_bytes(file())
    wrote = CliRunner().invoke(app, ["model", "init", "net.om"])
    assert wrote.exit_code == 0
    assert "net.om says its inputs and outputs" in wrote.output
    text = (tmp_path / "net.om.toml").read_text()
    assert 'name = "image"\ndtype = "float32"\ndims = [1, 3, 224, 224]\nformat = "NCHW"' in text
    assert 'name = "Softmax_9:1"' in text
    assert "def infer(image, ids):" in (tmp_path / "net.py").read_text()


def test_a_load_without_a_sidecar_prints_the_tensors_of_the_file(acl, tmp_path, capsys):
    path = tmp_path / "net.om"
    path.write_bytes(file())
    assert acl.mdl.load_from_file(str(path)) == (0, 145002)
    assert 'name = "ids"\ndtype = "int64"' in capsys.readouterr().err
    path.write_bytes(file(encrypted=1))
    assert acl.mdl.load_from_file(str(path)) == (0, 145002)
    assert "this one does not say its inputs: it is encrypted" in capsys.readouterr().err
    path.write_bytes(file()[:-1])
    assert acl.mdl.load_from_file(str(path)) == (0, 145006)
    assert "a card takes no such file: its header says" in capsys.readouterr().err
