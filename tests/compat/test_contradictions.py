"""Calls that a card lets pass although what they say of memory is wrong: kinds of copies, and the memory of DVPP."""

from itertools import product

import card
import numpy as np
import pytest
from card import D2D, D2H, DEFAULT, H2D, H2H, done, made
from pictures import NV12, Hardware, file_of, gradient

from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import findings

N = 64


def told(word):
    """The findings with this word, without lines."""
    return [each.replace("test_contradictions.py:", "line ") for each in findings(session()) if word in each]


def memories(acl):
    """Memory of each place, and whether it is on the device."""
    array = np.zeros(N, np.uint8)
    pageable, _ = acl.util.numpy_contiguous_to_ptr(array)
    device, pinned = made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
    return array, [(device, True), (pinned, False), (pageable, False)]


def test_a_copy_kind_that_contradicts_both_ends_is_a_finding(acl):
    host, device, stream = made(acl.rt.malloc_host(N)), made(acl.rt.malloc(N, 0)), made(acl.rt.create_stream())
    done(acl.rt.memset(host, N, 1, N))
    for _ in range(3):
        done(acl.rt.memcpy(device, N, host, N, D2H))
    done(acl.rt.memcpy_async(host, N, device, N, H2D, stream))
    done(acl.rt.memcpy2d(device, 8, host, 8, 8, 8, D2H))
    done(acl.rt.memcpy2d_async(host, 8, device, 8, 8, 8, H2D, stream))
    done(acl.rt.synchronize_stream(stream))
    ends = [each.partition(" at line ")[::2] for each in told("says")]
    swap = "or swap the addresses if"
    to_device = f"says DEVICE_TO_HOST (2), but copies HOST_TO_DEVICE: use kind 1, {swap} DEVICE_TO_HOST is meant"
    to_host = f"says HOST_TO_DEVICE (1), but copies DEVICE_TO_HOST: use kind 2, {swap} HOST_TO_DEVICE is meant"
    assert [(name, text.partition(" ")[2]) for name, text in ends] == [
        ("acl.rt.memcpy()", to_device),
        ("acl.rt.memcpy_async()", to_host),
        ("acl.rt.memcpy2d()", to_device),
        ("acl.rt.memcpy2d_async()", to_host),
    ]


@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D, DEFAULT, 5, 6, 7])
def test_of_all_kinds_only_those_that_are_wrong_about_both_ends_are_findings(acl, kind):
    says = {H2H: (False, False), H2D: (True, False), D2H: (False, True), 5: (True, False), DEFAULT: None}
    _array, places = memories(acl)
    for (dst, to_device), (src, from_device) in product(places, places):
        if dst != src:
            session().warned.clear()
            done(acl.rt.memcpy(dst, N, src, N, kind))
            said = says.get(kind, (True, True))
            is_wrong = said is not None and said[0] is not to_device and said[1] is not from_device
            assert len(told("says")) == is_wrong, (kind, to_device, from_device)


def test_a_kind_that_the_card_refuses_is_a_failure_and_no_finding(acl):
    _array, ((device, _), (pinned, _), (pageable, _)) = memories(acl)
    stream, other = made(acl.rt.create_stream()), made(acl.rt.malloc_host(N))
    assert acl.rt.memcpy_async(device, N, pageable, N, D2H, stream)
    assert acl.rt.memcpy_async(pinned, N, other, N, D2D, stream)
    assert told("says") == []


def test_on_a_board_all_memory_is_the_devices():
    with card.module(device="ascend310b") as acl:
        _array, places = memories(acl)
        for (dst, _), (src, _), kind in product(places, places, (H2H, H2D, D2H, D2D)):
            if dst != src:
                done(acl.rt.memcpy(dst, N, src, N, kind))
        assert told("says") == []


@pytest.mark.parametrize("role", ["the source", "the destination"])
def test_the_image_processor_on_memory_that_is_not_of_dvpp_is_a_finding(acl, role):
    hardware = Hardware(acl)
    src, dst = (hardware.picture(NV12, 32, 32, (32, 32)) for _ in range(2))
    done(acl.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    assert (hardware.wait(), told("dvpp_malloc")) == (0, [])
    plain = made(acl.rt.malloc(1536, 0))
    done(acl.rt.memset(plain, 1536, 0, 1536))
    done(acl.media.dvpp_set_pic_desc_data({"the source": src, "the destination": dst}[role], plain))
    for _ in range(2):
        done(acl.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    assert hardware.wait() == 0
    (finding,) = told("dvpp_malloc")
    assert finding.startswith("acl.media.dvpp_vpc_resize_async() at line ")
    assert f": {role} is not in memory of acl.media.dvpp_malloc(), which the image hardware needs" in finding


def test_a_jpeg_file_in_memory_that_is_not_of_dvpp_is_a_finding(acl):
    hardware = Hardware(acl)
    data = file_of(gradient(32, 32), "JPEG")
    plain = made(acl.rt.malloc(len(data), 0))
    done(acl.rt.memcpy(plain, len(data), acl.util.bytes_to_ptr(data), len(data), H2D))
    dst = hardware.picture(NV12, size=64 * 64 * 3 // 2)
    done(acl.media.dvpp_jpeg_decode_async(hardware.channel, plain, len(data), dst, hardware.stream))
    assert hardware.wait() == 0
    (finding,) = told("dvpp_malloc")
    assert "acl.media.dvpp_jpeg_decode_async() at line " in finding
    assert "the JPEG file is not in memory of" in finding


def test_memory_of_dvpp_is_so_until_it_is_freed(acl):
    hardware = Hardware(acl)
    src, dst = (hardware.picture(NV12, 32, 32, (32, 32)) for _ in range(2))
    done(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(src)))
    done(acl.media.dvpp_set_pic_desc_data(src, made(acl.rt.malloc(1536, 0))))
    done(acl.rt.memset(acl.media.dvpp_get_pic_desc_data(src), 1536, 0, 1536))
    done(acl.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    assert (hardware.wait(), len(told("dvpp_malloc"))) == (0, 1)
