"""How fast the image hardware is: by channels, as the vendor publishes it for an Ascend 310."""

import numpy as np
import pytest
from card import done, made, module
from pictures import NV12, Hardware, file_of

from acl_py.compat.acl.face.session import session

WIDTH, HEIGHT = 1920, 1088
NBYTES = WIDTH * HEIGHT * 3 // 2


def images_per_second(count, kind):
    """What each of *count* channels of an Ascend 310 does that begin together, in images of 1080p a second."""
    with module("ascend310") as acl:
        channels = [Hardware(acl) for _ in range(count)]
        blank = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        data = file_of(blank, "JPEG")
        for each in channels:
            memory = made(acl.media.dvpp_malloc(NBYTES))
            done(acl.rt.memset(memory, NBYTES, 0, NBYTES))
            large, small = each.picture(NV12, size=1), each.picture(NV12, 64, 64, (64, 64), size=64 * 96)
            done(acl.media.dvpp_set_pic_desc_data(large, memory), acl.media.dvpp_set_pic_desc_size(large, NBYTES))
            if kind == "vpc_resize":
                media = acl.media
                done(media.dvpp_set_pic_desc_width(large, WIDTH), media.dvpp_set_pic_desc_width_stride(large, WIDTH))
                done(
                    media.dvpp_set_pic_desc_height(large, HEIGHT), media.dvpp_set_pic_desc_height_stride(large, HEIGHT)
                )
                each.call = media.dvpp_vpc_resize_async, (each.channel, large, small, each.resizing(), each.stream)
            else:
                each.call = acl.media.dvpp_jpeg_decode_async, (
                    each.channel, each.upload(data), len(data), large, each.stream,
                )  # fmt: skip
        for each in channels:
            function, arguments = each.call
            done(function(*arguments))
        for each in channels:
            done(each.wait())
        ops = [op for op in session().trace.ops if op.name == kind]
    return [round(1e9 * WIDTH * HEIGHT / (1920 * 1080) / (op.end_ns - op.start_ns)) for op in ops]


@pytest.mark.parametrize(("count", "rate"), [(1, 360), (4, 360)])
def test_each_of_four_channels_of_a_310_resizes_360_images_a_second(count, rate):
    assert images_per_second(count, "vpc_resize") == [rate] * count


def test_more_channels_share_what_four_do():
    """A fifth one that begins beside four at work gets 4/5 of a channel's rate."""
    assert images_per_second(5, "vpc_resize") == [360, 360, 360, 360, 288]


def test_a_channel_of_a_310_decodes_128_jpegs_a_second_and_two_or_more_256():
    assert images_per_second(1, "jpeg_decode") == [128]
    assert images_per_second(2, "jpeg_decode") == [128, 128]
    assert images_per_second(3, "jpeg_decode") == [128, 128, 85]
