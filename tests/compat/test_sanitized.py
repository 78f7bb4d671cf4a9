"""The sanitizer and the module acl: what scripts do through ptr_to_numpy(), and what functions write themselves."""

import numpy as np
import pytest
from card import D2H, H2D, done, made, module
from pictures import NV12, Hardware

from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.host_arrays.host_view import HostView
from acl_py.host_arrays.views import UNSEEN
from acl_py.parts import parts_of
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


READS = {
    "ptr_to_bytes": lambda acl, host: acl.util.ptr_to_bytes(host, 64),
    "a view of a view": lambda acl, host: acl.util.ptr_to_numpy(host, (64,), UBYTE).reshape(8, 8)[0:, 0].sum(),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("waits", [True, False])
def test_a_read_before_the_synchronisation_is_a_finding(name, waits):
    with watching(parts_of("host")) as watch, module() as acl:
        host, device = made(acl.rt.malloc_host(64)), made(acl.rt.malloc(64, 0))
        stream = made(acl.rt.create_stream())
        done(acl.rt.memcpy_async(host, 64, device, 64, D2H, stream))
        if waits:
            done(acl.rt.synchronize_stream(stream))
        READS[name](acl, host)
    found = [(each.kind, [access.what for access in each.accesses]) for each in watch.findings]
    assert found == ([] if waits else [("race", ["d2h", "host read"])])


def test_making_a_view_is_no_read():
    with watching(parts_of("host")) as watch, module() as acl:
        host, device = made(acl.rt.malloc_host(64)), made(acl.rt.malloc(64, 0))
        done(acl.rt.memcpy_async(host, 64, device, 64, D2H, made(acl.rt.create_stream())))
        view = acl.util.ptr_to_numpy(host, (64,), UBYTE).view(np.uint16).reshape(4, 8).T[1:]
    assert (view.shape, watch.findings) == ((7, 4), [])


def test_a_program_that_has_only_plain_arrays_gets_the_note_about_them():
    with watching(parts_of("host")) as watch, module() as acl:
        array = np.zeros(64, np.uint8)
        done(acl.rt.memcpy(made(acl.rt.malloc(64, 0)), 64, array.ctypes.data, 64, H2D))
    assert watch.notes == [UNSEEN]


def pictures(acl):
    """The image processor with a picture of 32x32 pixels and an empty one of 64x64, whose bytes nothing has written."""
    hardware = Hardware(acl)
    small, large = hardware.picture(NV12, 32, 32, (32, 32)), hardware.picture(NV12, 64, 64, (64, 64))
    done(acl.media.dvpp_set_pic_desc_data(large, made(acl.media.dvpp_malloc(64 * 96))))
    return hardware, small, large


@pytest.mark.parametrize("is_filled", [False, True])
def test_an_unwritten_border_is_the_finding_of_the_model_that_reads_it_and_not_of_the_paste(tmp_path, is_filled):
    path = tmp_path / "sum.om"
    path.write_bytes(bytes(100))
    register_model(path.name, [Tensor("x", "uint8", (64 * 96,))], [Tensor("y", "uint8", (1,))])(lambda x: x[:1])
    try:
        with watching(parts_of("device,uninitialised")) as watch, module() as acl:
            hardware, small, large = pictures(acl)
            data = acl.media.dvpp_get_pic_desc_data(large)
            if is_filled:
                done(acl.rt.memset(data, 64 * 96, 128, 64 * 96))
            areas = hardware.area(0, 31, 0, 31), hardware.area(0, 63, 8, 55)
            done(acl.media.dvpp_vpc_crop_and_paste_async(hardware.channel, small, large, *areas, hardware.stream))
            done(hardware.wait())
            assert watch.findings == []
            model = made(acl.mdl.load_from_file(str(path)))
            datasets = []
            for address, nbytes in ((data, 64 * 96), (made(acl.rt.malloc(1, 0)), 1)):
                datasets.append(acl.mdl.create_dataset())
                made(acl.mdl.add_dataset_buffer(datasets[-1], acl.create_data_buffer(address, nbytes)))
            done(acl.mdl.execute(model, *datasets))
    finally:
        unregister_model(path.name)
    luma, chroma = [(0, 8 * 64), (56 * 64, 68 * 64)], [(92 * 64, 96 * 64)]
    assert [[(span.start, span.stop) for span in each.spans] for each in watch.findings] == (
        [] if is_filled else [luma + chroma]
    )
    assert all("'sum'" in each.accesses[1].what for each in watch.findings)


@pytest.mark.parametrize(("begin", "kinds"), [(32, []), (16, ["race"])])
def test_two_streams_may_paste_side_by_side(begin, kinds):
    with watching(parts_of("device,uninitialised")) as watch, module() as acl:
        hardware, small, large = pictures(acl)
        whole, paste = hardware.area(0, 31, 0, 31), acl.media.dvpp_vpc_crop_and_paste_async
        other = made(acl.rt.create_stream())
        done(paste(hardware.channel, small, large, whole, hardware.area(0, 31, 0, 31), hardware.stream))
        done(paste(hardware.channel, small, large, whole, hardware.area(begin, begin + 31, 0, 31), other))
        done(hardware.wait(), acl.rt.synchronize_stream(other))
    assert [str(each.kind) for each in watch.findings] == kinds


def test_each_area_that_a_line_pastes_counts():
    with watching(parts_of("device,uninitialised")) as watch, module() as acl:
        hardware, small, large = pictures(acl)
        whole, paste = hardware.area(0, 31, 0, 31), acl.media.dvpp_vpc_crop_and_paste_async
        other = made(acl.rt.create_stream())
        for begin in (0, 32):
            place = hardware.area(begin, begin + 31, 0, 31)
            done(paste(hardware.channel, small, large, whole, place, hardware.stream))
        done(paste(hardware.channel, small, large, whole, hardware.area(0, 31, 0, 31), other))
        done(hardware.wait(), acl.rt.synchronize_stream(other))
    (race,) = watch.findings
    assert {(span.start % 64, span.stop % 64) for span in race.spans} == {(0, 32)}
