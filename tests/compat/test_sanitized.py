"""The sanitizer and the module acl: what scripts do through ptr_to_numpy(), and what functions write themselves."""

import numpy as np
import pytest
from card import D2H, H2D, done, made, module

from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.sanitizer.host_view import HostView
from acl_py.sanitizer.parts import parts_of
from acl_py.sanitizer.watch import watching

UBYTE = 2


def test_ptr_to_numpy_gives_a_view_and_its_accesses_count():
    with watching(parts_of("host,uninitialised")) as watch, module() as acl:
        host, device = made(acl.rt.malloc_host(64)), made(acl.rt.malloc(64, 0))
        view = acl.util.ptr_to_numpy(host, (8, 8), UBYTE)
        assert type(view) is HostView
        view[0] = 1
        done(acl.rt.memcpy(device, 64, host, 8, H2D))
        with pytest.warns(DeprecationWarning, match="bytes_to_ptr"):
            assert acl.util.numpy_to_ptr(view[1:]) == host + 8
        done(acl.rt.memcpy(device, 64, host, 12, H2D))
        assert view[0].tolist() == [1] * 8
        assert view[2, 2:4].tolist()
    assert [(each.accesses[1].what, [(span.start, span.stop) for span in each.spans]) for each in watch.findings] == [
        ("h2d", [(8, 12)]),
        ("host read", [(18, 20)]),
    ]


def test_without_the_sanitizer_it_is_an_array():
    with module() as acl:
        assert type(acl.util.ptr_to_numpy(made(acl.rt.malloc_host(64)), (64,), UBYTE)) is np.ndarray


def test_the_weights_of_a_loaded_model_are_there(tmp_path):
    path = tmp_path / "twice.om"
    path.write_bytes(bytes(100))
    x, y = Tensor("x", "float32", (4,)), Tensor("y", "float32", (4,))
    register_model(path.name, [x], [y], weight_size=64)(lambda x: 2 * x)
    try:
        with watching(parts_of("uninitialised")) as watch, module() as acl:
            model = made(acl.mdl.load_from_file(str(path)))
            device, result = made(acl.rt.malloc(16, 0)), np.zeros(4, np.float32)
            done(acl.rt.memcpy(device, 16, acl.util.bytes_to_ptr(np.ones(4, np.float32).tobytes()), 16, H2D))
            datasets = []
            for _ in range(2):
                datasets.append(acl.mdl.create_dataset())
                made(acl.mdl.add_dataset_buffer(datasets[-1], acl.create_data_buffer(device, 16)))
            done(acl.mdl.execute(model, *datasets))
            done(acl.rt.memcpy(result.ctypes.data, 16, device, 16, D2H))
    finally:
        unregister_model(path.name)
    assert result.tolist() == [2] * 4
    assert watch.findings == []
