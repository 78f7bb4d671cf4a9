"""acl.op as its vendor would test it: single operators by name and by handle, attributes, casts, and what is wrong."""

import numpy as np
import pytest
from card import H2D, content, done, made, work

FLOAT, FLOAT16, INT32, ND = 0, 1, 3, 2
NUMPY = {FLOAT: np.float32, FLOAT16: np.float16, INT32: np.int32}
GARBAGE = 0xDEAD0


class Tensor:
    """An array on the device, with its description and data buffer."""

    def __init__(self, acl, values, dtype=FLOAT):
        array = np.ascontiguousarray(values, NUMPY[dtype])
        self.acl, self.shape, self.dtype, self.size = acl, array.shape, array.dtype, array.nbytes
        self.address = made(acl.rt.malloc(max(self.size, 1), 0))
        done(acl.rt.memcpy(self.address, self.size, array.ctypes.data, self.size, H2D))
        self.desc = acl.create_tensor_desc(dtype, list(array.shape), ND)
        self.buffer = acl.create_data_buffer(self.address, self.size)

    @property
    def value(self):
        return np.frombuffer(content(self.acl, self.address, self.size), self.dtype).reshape(self.shape)


def execute(acl, name, inputs, outputs, attr=0, stream=0, function="execute_v2"):
    return getattr(acl.op, function)(
        name, [t.desc for t in inputs], [t.buffer for t in inputs], [t.desc for t in outputs],
        [t.buffer for t in outputs], attr, stream,
    )  # fmt: skip


@pytest.mark.parametrize("function", ["execute", "execute_v2"])
def test_add(acl, function):
    x, y, z = Tensor(acl, [1, 2, 3]), Tensor(acl, [10, 20, 30]), Tensor(acl, [0, 0, 0])
    stream = made(acl.rt.create_stream())
    work("before", 100, stream)
    done(execute(acl, "Add", [x, y], [z], stream=stream, function=function))
    assert z.value.tolist() == [0, 0, 0]  # queued
    done(acl.rt.synchronize_stream(stream))
    assert z.value.tolist() == [11, 22, 33]


@pytest.mark.parametrize(("name", "result"), [
    ("Mul", [4, 10, 18]), ("Sub", [-3, -3, -3]), ("Maximum", [4, 5, 6]), ("Minimum", [1, 2, 3]),
])  # fmt: skip
def test_element_wise_operators(acl, name, result):
    x, y, z = Tensor(acl, [1, 2, 3]), Tensor(acl, [4, 5, 6]), Tensor(acl, [0, 0, 0])
    done(execute(acl, name, [x, y], [z]), acl.rt.synchronize_stream(0))
    assert z.value.tolist() == result


def test_matmul_and_softmax(acl):
    a, b, c = Tensor(acl, np.eye(2)), Tensor(acl, [[1, 2], [3, 4]]), Tensor(acl, np.zeros((2, 2)))
    done(execute(acl, "MatMul", [a, b], [c]), acl.rt.synchronize_stream(0))
    assert c.value.tolist() == [[1, 2], [3, 4]]
    x, y = Tensor(acl, [[0, 0]]), Tensor(acl, [[9, 9]])
    done(execute(acl, "SoftmaxV2", [x], [y]), acl.rt.synchronize_stream(0))
    assert y.value.tolist() == [[0.5, 0.5]]


def test_cast(acl):
    x, y = Tensor(acl, [1.5, -2.5, 3]), Tensor(acl, [0, 0, 0], FLOAT16)
    done(acl.op.cast(x.desc, x.buffer, y.desc, y.buffer, 0, 0), acl.rt.synchronize_stream(0))
    assert y.value.tolist() == [1.5, -2.5, 3]
    handle = made(acl.op.create_handle_for_cast(x.desc, y.desc, 0))
    done(acl.op.execute_with_handle(handle, [x.buffer], [y.buffer], 0), acl.rt.synchronize_stream(0))
    assert acl.op.destroy_handle(handle) is None


def test_handles(acl):
    x, y, z = Tensor(acl, [1, 2]), Tensor(acl, [3, 4]), Tensor(acl, [0, 0])
    handle = made(acl.op.create_handle("Add", [x.desc, y.desc], [z.desc], 0))
    for _ in range(2):
        done(acl.op.execute_with_handle(handle, [x.buffer, y.buffer], [z.buffer], 0), acl.rt.synchronize_stream(0))
        assert z.value.tolist() == [4, 6]
    assert acl.op.destroy_handle(handle) is None
    assert acl.op.execute_with_handle(handle, [x.buffer, y.buffer], [z.buffer], 0) != 0
    assert acl.op.destroy_handle(handle) is None


def test_an_operator_that_is_not_there(acl):
    x = Tensor(acl, [1])
    assert execute(acl, "NoSuchOperator", [x], [x]) == 100024
    assert acl.op.create_handle("NoSuchOperator", [x.desc], [x.desc], 0) == (0, 100024)
    assert "NoSuchOperator" in acl.get_recent_err_msg()


def test_lists_that_do_not_fit(acl):
    x, y, z = Tensor(acl, [1, 2]), Tensor(acl, [3, 4]), Tensor(acl, [0, 0])
    assert execute(acl, "Add", [x], [z]) != 0
    assert execute(acl, "Add", [x, y], []) != 0
    assert acl.op.execute_v2("Add", [x.desc, y.desc], [x.buffer], [z.desc], [z.buffer], 0, 0) != 0
    assert acl.op.execute_v2("Add", [x.desc, GARBAGE], [x.buffer, y.buffer], [z.desc], [z.buffer], 0, 0) == 100000
    assert acl.op.execute_v2("Add", [x.desc, y.desc], [x.buffer, 0], [z.desc], [z.buffer], 0, 0) == 100000


def test_lists_are_lists(acl):
    x, y, z = Tensor(acl, [1, 2]), Tensor(acl, [3, 4]), Tensor(acl, [0, 0])
    good = ["Add", [x.desc, y.desc], [x.buffer, y.buffer], [z.desc], [z.buffer], 0, 0]
    for place in range(1, 5):
        for wrong in (None, tuple(good[place]), 1):
            with pytest.raises((TypeError, ValueError)):
                acl.op.execute_v2(*good[:place], wrong, *good[place + 1 :])
    with pytest.raises(TypeError):
        acl.op.execute_v2(None, *good[1:])


def test_bad_streams(acl):
    x, z = Tensor(acl, [1, 2]), Tensor(acl, [0, 0])
    assert execute(acl, "Abs", [x], [z], stream=GARBAGE) == 107017
    stream = made(acl.rt.create_stream())
    made(acl.rt.create_context(0))
    assert execute(acl, "Abs", [x], [z], stream=stream) == 107003


def test_a_buffer_that_is_too_small_or_gone(acl):
    x, z = Tensor(acl, [1, 2, 3, 4]), Tensor(acl, [0, 0, 0, 0])
    done(acl.update_data_buffer(x.buffer, x.address, 8))
    assert execute(acl, "Abs", [x], [z]) != 0
    done(acl.update_data_buffer(x.buffer, x.address, 16), acl.rt.free(x.address))
    assert execute(acl, "Abs", [x], [z]) != 0


# --- attributes


def test_attributes(acl):
    attr = acl.op.create_attr()
    assert (type(attr), attr != 0) == (int, True)
    done(
        acl.op.set_attr_bool(attr, "b", 1), acl.op.set_attr_int(attr, "i", -(2**40)),
        acl.op.set_attr_float(attr, "f", 0.5), acl.op.set_attr_string(attr, "s", "text"),
        acl.op.set_attr_list_int(attr, "li", [1, 2]), acl.op.set_attr_list_float(attr, "lf", [1.0, 2.5]),
        acl.op.set_attr_list_bool(attr, "lb", [1, 0]), acl.op.set_attr_list_string(attr, "ls", ["a", "b"]),
        acl.op.set_attr_list_list_int(attr, "lli", [[1], [2, 3]]),
    )  # fmt: skip
    assert acl.op.set_attr_data_type(attr, "dt", FLOAT) == (attr, 0)
    assert acl.op.destroy_attr(attr) is None


def test_attributes_that_are_none(acl):
    gone = acl.op.create_attr()
    acl.op.destroy_attr(gone)
    for bad in (0, gone, GARBAGE):
        assert acl.op.set_attr_int(bad, "i", 1) == 100000
        assert acl.op.set_attr_string(bad, "s", "x") == 100000
        assert acl.op.destroy_attr(bad) is None
    for args in ((None, "i", 1), (gone, 1, 1), (gone, "i", "1"), (gone, "i", 1 << 63)):
        with pytest.raises((TypeError, OverflowError)):
            acl.op.set_attr_int(*args)


def test_an_attribute_that_the_operator_takes(acl):
    x, z, attr = Tensor(acl, [[1, 2], [3, 4]]), Tensor(acl, [3, 7]), acl.op.create_attr()
    done(acl.op.set_attr_list_int(attr, "axes", [1]), acl.op.set_attr_bool(attr, "keep_dims", 0))
    done(execute(acl, "ReduceSumD", [x], [z], attr=attr), acl.rt.synchronize_stream(0))
    assert z.value.tolist() == [3, 7]


def test_an_attribute_that_the_operator_has_not(acl):
    x, y, z, attr = Tensor(acl, [1]), Tensor(acl, [2]), Tensor(acl, [0]), acl.op.create_attr()
    done(acl.op.set_attr_int(attr, "no_such", 1))
    assert execute(acl, "Add", [x, y], [z], attr=attr) == 100023
    assert execute(acl, "Add", [x, y], [z], attr=GARBAGE) == 100000


# --- compiled operators


def test_set_model_dir(acl, tmp_path):
    done(acl.op.set_model_dir(str(tmp_path)))
    assert acl.op.set_model_dir(str(tmp_path / "missing")) != 0
    with pytest.raises(TypeError):
        acl.op.set_model_dir(None)
