"""The image processor: resize, crop, paste and convert colours, against NumPy and Pillow."""

import numpy as np
import pytest
from card import done, launch, now
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import BGR, NV12, NV21, RGB, Hardware, file_of, gradient, noise, nv12, packed, yuv_of
from PIL import Image

import acl_py
from acl_py.compat.acl.functions.media.formats import FORMATS


@pytest.fixture
def hardware(acl):
    return Hardware(acl)


def planes(width, height, seed=7):
    """Luma and chroma of a noisy picture in YUV 4:2:0."""
    values = noise(width, height, seed=seed)
    return values[..., 0], np.ascontiguousarray(values[::2, ::2, 1:])


def source(hardware, width, height, form=NV12, seed=7):
    """A picture, and its planes."""
    luma, chroma = planes(width, height, seed)
    width_stride = -(-width // 16) * 16
    data = nv12(luma, chroma, (width_stride, height))
    return hardware.picture(form, width, height, (width_stride, height), data), luma, chroma


def target(hardware, width, height, form=NV12, fill=None):
    width_stride = -(-width // 16) * 16 * (3 if form in (RGB, BGR) else 1)
    data = None if fill is None else bytes([fill]) * (width_stride * height * 3 // 2)
    return hardware.picture(form, width, height, (width_stride, height), data)


# --- resize


@pytest.mark.parametrize(("width", "height"), [(128, 96), (64, 24), (32, 48), (16, 6)])
def test_resize_is_bilinear_as_opencv_has_it(hardware, width, height):
    src, luma, _ = source(hardware, 64, 48)
    dst = target(hardware, width, height)
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    done(hardware.wait(), hardware.media.dvpp_get_pic_desc_ret_code(dst))
    scale = 64 / width, 0, 0, 0, 48 / height, 0
    theirs = Image.fromarray(luma).transform((width, height), Image.Transform.AFFINE, scale, Image.Resampling.BILINEAR)
    assert np.abs(hardware.luma(dst).astype(int) - np.asarray(theirs)).max() <= 1


def test_nearest_neighbour_takes_whole_pixels(hardware):
    src, luma, _ = source(hardware, 64, 48)
    dst = target(hardware, 32, 24)
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(2), hardware.stream))
    done(hardware.wait())
    assert (hardware.luma(dst) == luma[::2, ::2]).all()


def test_a_plain_colour_stays_plain(hardware):
    chroma = np.full((24, 32, 2), (30, 200), np.uint8)
    src = hardware.picture(NV12, 64, 48, (64, 48), nv12(np.full((48, 64), 90, np.uint8), chroma))
    dst = target(hardware, 80, 60)
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    done(hardware.wait())
    assert (hardware.luma(dst) == 90).all()
    assert (hardware.chroma(dst) == (30, 200)).all()


# --- crop and paste


def test_crop_cuts_out_exactly(hardware):
    src, luma, chroma = source(hardware, 64, 48)
    dst = target(hardware, 32, 20)
    area = hardware.area(10, 41, 8, 27)
    done(hardware.media.dvpp_set_pic_desc_ret_code(dst, 9))  # of some failure before
    done(hardware.media.dvpp_vpc_crop_async(hardware.channel, src, dst, area, hardware.stream), hardware.wait())
    assert hardware.media.dvpp_get_pic_desc_ret_code(dst) == 0
    assert (hardware.luma(dst) == luma[8:28, 10:42]).all()
    assert (hardware.chroma(dst) == chroma[4:14, 5:21]).all()


def test_crop_resizes_where_sizes_differ(hardware):
    src, luma, _ = source(hardware, 64, 48)
    plain, resized = target(hardware, 64, 40), target(hardware, 64, 40)
    area = hardware.area(10, 41, 8, 27)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    done(media.dvpp_vpc_crop_async(channel, src, plain, area, stream))
    done(media.dvpp_vpc_crop_resize_async(channel, src, resized, area, hardware.resizing(2), stream))
    done(hardware.wait())
    assert (hardware.luma(resized) == luma[8:28, 10:42].repeat(2, 0).repeat(2, 1)).all()
    theirs = Image.fromarray(luma[8:28, 10:42]).resize((64, 40), Image.Resampling.BILINEAR)
    assert np.abs(hardware.luma(plain).astype(int) - np.asarray(theirs)).max() <= 1


def test_paste_leaves_the_rest_as_it_is(hardware):
    """A letterbox: the picture in the middle, grey bars above and below."""
    src, luma, chroma = source(hardware, 64, 48)
    dst = target(hardware, 64, 64, fill=128)
    whole, middle = hardware.area(0, 63, 0, 47), hardware.area(0, 63, 8, 55)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    done(media.dvpp_vpc_crop_and_paste_async(channel, src, dst, whole, middle, stream), hardware.wait())
    expected = np.full((64, 64), 128, np.uint8)
    expected[8:56] = luma
    assert (hardware.luma(dst) == expected).all()
    colours = np.full((32, 32, 2), 128, np.uint8)
    colours[4:28] = chroma
    assert (hardware.chroma(dst) == colours).all()


def test_two_pastes_make_one_picture(hardware):
    left, luma, _ = source(hardware, 32, 32, seed=1)
    right, other, _ = source(hardware, 32, 32, seed=2)
    dst = target(hardware, 64, 32)
    whole = hardware.area(0, 31, 0, 31)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    for src, begin in ((left, 0), (right, 32)):
        place = hardware.area(begin, begin + 31, 0, 31)
        done(media.dvpp_vpc_crop_and_paste_async(channel, src, dst, whole, place, stream))
    done(hardware.wait())
    assert (hardware.luma(dst) == np.hstack((luma, other))).all()


@pytest.mark.parametrize("number", FORMATS)
def test_a_paste_writes_the_bytes_of_its_area_and_no_others(hardware, number):
    """Also in formats where pixels share chroma, or have alpha: zeros stay zeros beside it, and ones stay ones."""
    src, _, _ = source(hardware, 32, 32)
    form = FORMATS[number]
    strides = form.strides(80, 64)
    whole, place = hardware.area(0, 31, 0, 31), hardware.area(16, 47, 8, 39)
    before, after = [], []
    for fill in (0, 255):
        dst = hardware.picture(number, 80, 64, strides, bytes([fill]) * form.nbytes(*strides))
        paste = hardware.media.dvpp_vpc_crop_and_paste_async
        done(paste(hardware.channel, src, dst, whole, place, hardware.stream), hardware.wait())
        after.append(hardware.memory(dst))
        before.append(np.full_like(after[-1], fill))
    area = np.zeros(form.nbytes(*strides), bool)
    for start, stop in form.rows(16, 47, 8, 39, *strides):
        area[start:stop] = True
    assert ((after[0] == after[1]) == area).all()
    assert all((new[~area] == old[~area]).all() for new, old in zip(after, before, strict=True))


def test_crop_resize_paste_uses_its_interpolation(hardware):
    src, luma, _ = source(hardware, 64, 48)
    dst = target(hardware, 96, 96, fill=7)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    areas = hardware.area(0, 31, 0, 15), hardware.area(16, 79, 32, 63)
    done(media.dvpp_vpc_crop_resize_paste_async(channel, src, dst, *areas, hardware.resizing(2), stream))
    done(hardware.wait())
    expected = np.full((96, 96), 7, np.uint8)
    expected[32:64, 16:80] = luma[:16, :32].repeat(2, 0).repeat(2, 1)
    assert (hardware.luma(dst) == expected).all()


@settings(max_examples=25)
@given(
    left=st.integers(0, 20),
    top=st.integers(0, 15),
    width=st.integers(5, 11),
    height=st.integers(3, 8),
    form=st.sampled_from((NV12, NV21)),
)
def test_any_crop_is_a_slice(acl, left, top, width, height, form):
    hardware = Hardware(acl)
    src, luma, chroma = source(hardware, 64, 48, form)
    dst = target(hardware, 2 * width, 2 * height, form)
    area = hardware.area(2 * left, 2 * (left + width) - 1, 2 * top, 2 * (top + height) - 1)
    done(hardware.media.dvpp_vpc_crop_async(hardware.channel, src, dst, area, hardware.stream), hardware.wait())
    assert (hardware.luma(dst) == luma[2 * top : 2 * (top + height), 2 * left : 2 * (left + width)]).all()
    assert (hardware.chroma(dst) == chroma[top : top + height, left : left + width]).all()


# --- colours


def test_nv12_becomes_rgb_and_bgr(hardware):
    luma, chroma = planes(64, 48)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    src = hardware.picture(NV12, 64, 48, (64, 48), nv12(luma, chroma))
    rgb, bgr = target(hardware, 64, 48, RGB), target(hardware, 64, 48, BGR)
    done(media.dvpp_vpc_convert_color_async(channel, src, rgb, stream))
    done(media.dvpp_vpc_convert_color_async(channel, src, bgr, stream), hardware.wait())
    values = np.dstack((luma, chroma.repeat(2, 0).repeat(2, 1)))
    theirs = np.asarray(Image.frombytes("YCbCr", (64, 48), values.tobytes()).convert("RGB")).astype(int)
    assert np.abs(hardware.pixels(rgb) - theirs).max() <= 1
    assert (hardware.pixels(bgr) == hardware.pixels(rgb)[..., ::-1]).all()


def test_a_target_without_size_takes_that_of_its_source(hardware):
    src, luma, chroma = source(hardware, 50, 48)
    dst = hardware.picture(NV21, size=64 * 48 * 3 // 2)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    done(media.dvpp_vpc_convert_color_async(channel, src, dst, stream), hardware.wait())
    assert hardware.shape(dst) == (50, 48, 64, 48)
    assert (hardware.luma(dst) == luma).all()
    assert (hardware.chroma(dst) == chroma[..., ::-1]).all()


def test_another_matrix_gives_other_colours(hardware):
    src = hardware.picture(RGB, 16, 6, (48, 6), packed(np.full((6, 16, 3), 255, np.uint8)))
    dst = target(hardware, 16, 6)
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    lumas = []
    for matrix in (0, 1):
        assert media.dvpp_set_channel_desc_param(channel, 0, matrix) == (channel, 0)
        done(media.dvpp_vpc_convert_color_async(channel, src, dst, stream), hardware.wait())
        lumas.append(int(hardware.luma(dst)[0, 0]))
    assert lumas == [255, 235]  # wide, narrow


def test_resize_converts_on_its_way(hardware):
    src = hardware.picture(RGB, 64, 48, (192, 48), packed(gradient(64, 48)))
    dst = target(hardware, 64, 48)
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    done(hardware.wait())
    theirs = np.asarray(Image.fromarray(gradient(64, 48)).convert("YCbCr")).astype(int)
    assert np.abs(hardware.luma(dst) - theirs[..., 0]).max() <= 1


# --- batches


def batch_of(hardware, pictures):
    """A batch that describes what these pictures do."""
    media = hardware.media
    batch = media.dvpp_create_batch_pic_desc(len(pictures))
    for index, pic in enumerate(pictures):
        mine = media.dvpp_get_pic_desc(batch, index)
        for name in ("data", "size", "format", "width", "height", "width_stride", "height_stride"):
            done(getattr(media, f"dvpp_set_pic_desc_{name}")(mine, getattr(media, f"dvpp_get_pic_desc_{name}")(pic)))
    return batch


def test_a_batch_cuts_so_many_areas_out_of_each(hardware):
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    first, one, _ = source(hardware, 64, 48, seed=1)
    second, two, _ = source(hardware, 64, 48, seed=2)
    pictures = [target(hardware, 32, 16) for _ in range(3)]
    areas = [hardware.area(0, 31, 0, 15), hardware.area(32, 63, 0, 15), hardware.area(0, 31, 32, 47)]
    srcs, dsts = batch_of(hardware, [first, second]), batch_of(hardware, pictures)
    assert media.dvpp_vpc_batch_crop_async(channel, srcs, [2, 1], dsts, areas, stream) == (dsts, 0)
    done(hardware.wait())
    expected = [one[:16, :32], one[:16, 32:], two[32:, :32]]
    for pic, luma in zip(pictures, expected, strict=True):
        assert (hardware.luma(pic) == luma).all()


def test_batches_paste_and_resize_too(hardware):
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    src, luma, _ = source(hardware, 64, 48)
    half, quarter = hardware.area(0, 31, 0, 15), hardware.area(16, 47, 0, 15)
    twice = hardware.area(0, 63, 0, 31)
    pasted, resized, both = (target(hardware, 64, 32, fill=9) for _ in range(3))
    srcs = batch_of(hardware, [src])
    dsts = batch_of(hardware, [pasted])
    assert media.dvpp_vpc_batch_crop_and_paste_async(channel, srcs, [1], dsts, [half], [quarter], stream) == (dsts, 0)
    config = hardware.resizing(2)
    done(
        media.dvpp_vpc_batch_crop_resize_async(
            channel, srcs, [1], batch_of(hardware, [resized]), [half], config, stream
        )
    )
    done(
        media.dvpp_vpc_batch_crop_resize_paste_async(
            channel, srcs, [1], batch_of(hardware, [both]), [half], [twice], config, stream
        ),
        hardware.wait(),
    )
    expected = np.full((32, 64), 9, np.uint8)
    expected[:16, 16:48] = luma[:16, :32]
    assert (hardware.luma(pasted) == expected).all()
    larger = luma[:16, :32].repeat(2, 0).repeat(2, 1)
    assert (hardware.luma(resized) == larger).all()
    assert (hardware.luma(both) == larger).all()


def test_a_batch_that_does_not_add_up_is_refused_whole(hardware):
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    src, _, _ = source(hardware, 64, 48)
    pictures = [target(hardware, 32, 16, fill=9) for _ in range(2)]
    srcs, dsts, area = batch_of(hardware, [src]), batch_of(hardware, pictures), hardware.area(0, 31, 0, 15)
    verb = media.dvpp_vpc_batch_crop_async
    for counts, areas in (([1, 1], [area] * 2), ([0], [area]), ([3], [area] * 3), ([2], [area]), ([2], [area, 12345])):
        assert verb(channel, srcs, counts, dsts, areas, stream) == (dsts, 100000)
    assert verb(channel, 0, [1], dsts, [area], stream) == (dsts, 100000)
    done(hardware.wait())
    assert all((hardware.luma(pic) == 9).all() for pic in pictures)


def test_batches_take_lists_of_areas(hardware):
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    with pytest.raises(TypeError, match="argument 3 is not list"):
        media.dvpp_vpc_batch_crop_async(channel, 0, (1,), 0, [1], stream)
    with pytest.raises(TypeError, match="argument 5"):
        media.dvpp_vpc_batch_crop_resize_async(channel, 0, [1], 0, ["a"], 0, stream)
    for counts, areas in (([1], []), ([1], [1] * 257), ([257], [1]), ([], [1])):
        with pytest.raises(ValueError, match="number of crop areas must be between 1 and 256"):
            media.dvpp_vpc_batch_crop_async(channel, 0, counts, 0, areas, stream)
    with pytest.raises(ValueError, match="number of crop areas"):
        media.dvpp_vpc_batch_crop_and_paste_async(channel, 0, [1], 0, [1], [1, 2], stream)


# --- work in a stream


def test_the_time_follows_from_the_larger_picture(hardware):
    """1440 pictures of 1080p in a second, whichever side is larger."""
    small, large = target(hardware, 64, 48, fill=1), target(hardware, 640, 480, fill=1)
    times = []
    for src, dst in ((large, small), (small, large), (small, small)):
        begin = now()
        done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
        done(hardware.wait())
        times.append(now() - begin)
    apart = (640 * 480 - 64 * 48) / (1920 * 1080 * 1440) * 1e9
    assert times[0] == times[1]
    assert abs(times[0] - times[2] - apart) <= 1


def test_a_picture_waits_for_work_before_it(hardware):
    """The kernel that makes the source stands before the processor in the stream."""

    @acl_py.kernel(cost=acl_py.Cost(us=50))
    def fill(out: acl_py.Out):
        out[:] = 77

    src, dst = target(hardware, 64, 48, fill=1), target(hardware, 32, 24)
    launch(fill, hardware.stream, hardware.media.dvpp_get_pic_desc_data(src))
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    done(hardware.wait())
    assert (hardware.luma(dst) == 77).all()


def test_work_is_called_by_its_name_in_the_trace(acl, hardware):
    src, _, _ = source(hardware, 64, 48)
    verb = hardware.media.dvpp_vpc_crop_async
    area = hardware.area(0, 31, 0, 63)
    done(verb(hardware.channel, src, target(hardware, 32, 16), area, hardware.stream))
    assert hardware.wait() == 507018
    assert "vpc_crop on stream" in acl.get_recent_err_msg()


# --- what fails


def test_calls_with_nothing_are_refused(acl, hardware):
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    src, _, _ = source(hardware, 64, 48)
    dst, config, area = target(hardware, 64, 48), hardware.resizing(), hardware.area(0, 31, 0, 31)
    resize, crop = media.dvpp_vpc_resize_async, media.dvpp_vpc_crop_async
    refused = [
        resize(0, src, dst, config, stream),
        resize(channel, 0, dst, config, stream),
        resize(channel, src, 0, config, stream),
        resize(channel, src, dst, 0, stream),
        resize(channel, src, dst, hardware.resizing(5), stream),
        crop(channel, src, dst, 0, stream),
        media.dvpp_vpc_crop_and_paste_async(channel, src, dst, area, 0, stream),
        resize(channel, src, media.dvpp_create_pic_desc(), config, stream) - 27,  # its format comes first
    ]
    assert refused == [100000] * 8
    assert resize(channel, src, dst, config, 12345) == 107017
    done(media.dvpp_set_pic_desc_format(dst, 18))
    assert resize(channel, src, dst, config, stream) == 100027
    done(media.dvpp_set_pic_desc_format(dst, NV12), media.dvpp_set_pic_desc_data(dst, 0))
    assert resize(channel, src, dst, config, stream) == 100000
    other = target(hardware, 32, 48)
    assert media.dvpp_vpc_convert_color_async(channel, src, other, stream) == 100000


@pytest.mark.parametrize(
    ("shape", "story"),
    [
        ((64, 48, 72, 48), "the destination has width stride 72 for 64 pixels of 1 bytes; use 64"),
        ((64, 48, 64, 49), "the destination has height stride 49 for 48 rows; use 48"),
        ((64, 48, 64, 46), "the destination has height stride 46"),
        ((63, 48, 64, 48), "63x48 pixels in YUV420SP NV12; make them multiples of 2 and 2"),
        ((8, 48, 16, 48), "the destination has 8x48 pixels; keep between 10x6 and 4096x8192"),
        ((64, 64, 64, 64), "the destination has a size of 4608 bytes; its strides make 6144"),
    ],
)
def test_pictures_that_the_processor_refuses_fail_the_stream(acl, hardware, shape, story):
    src, _, _ = source(hardware, 64, 48)
    width, height, *strides = shape
    dst = hardware.picture(NV12, width, height, strides, size=64 * 48 * 3 // 2)
    done(hardware.media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    assert hardware.wait() == 507018
    assert story in acl.get_recent_err_msg()
    assert hardware.media.dvpp_get_pic_desc_ret_code(dst) == 1


@pytest.mark.parametrize(
    ("crop", "paste", "story"),
    [
        ((1, 31, 0, 31), (0, 31, 0, 31), "the area to crop is 1 to 31, 0 to 31; begin at even and end at odd places"),
        ((0, 30, 0, 31), (0, 31, 0, 31), "begin at even and end at odd places"),
        ((0, 65, 0, 31), (0, 31, 0, 31), "stay within 64x48"),
        ((32, 31, 0, 31), (0, 31, 0, 31), "stay within 64x48"),
        ((0, 31, 0, 31), (8, 39, 0, 31), "the area to paste begins at 8; begin at a multiple of 16"),
        ((0, 1, 0, 31), (0, 63, 0, 31), "width 2 would become 64; stay between 1/32 and 16 times"),
        ((0, 31, 0, 1), (0, 31, 0, 47), "height 2 would become 48"),
    ],
)
def test_areas_that_the_processor_refuses_fail_the_stream(acl, hardware, crop, paste, story):
    src, _, _ = source(hardware, 64, 48)
    dst = target(hardware, 64, 48, fill=3)
    media = hardware.media
    areas = hardware.area(*crop), hardware.area(*paste)
    done(media.dvpp_vpc_crop_and_paste_async(hardware.channel, src, dst, *areas, hardware.stream))
    assert hardware.wait() == 507018
    assert story in acl.get_recent_err_msg()
    assert (hardware.luma(dst) == 3).all()


def test_what_is_freed_too_early_is_told(acl, hardware):
    """free waits for nothing: the processor finds its memory gone."""
    media = hardware.media
    src, _, _ = source(hardware, 64, 48)
    dst = target(hardware, 64, 48)
    done(media.dvpp_vpc_resize_async(hardware.channel, src, dst, hardware.resizing(), hardware.stream))
    done(media.dvpp_free(media.dvpp_get_pic_desc_data(dst)))
    assert hardware.wait() == 507053
    assert "was gone before it ran" in acl.get_recent_err_msg()


@pytest.mark.parametrize("name", ["pyr_down", "equalize_hist", "make_border", "calc_hist"])
def test_the_rest_is_not_supported(acl, name):
    assert getattr(acl.media, f"dvpp_vpc_{name}_async")(0, 0, 0, 0, 0) == 207000


def test_an_image_goes_all_the_way(hardware):
    """Decode and resize in one stream, with one wait at the end, as samples do."""
    media, channel, stream = hardware.media, hardware.channel, hardware.stream
    data = file_of(gradient(200, 120), "JPEG", quality=95)
    decoded = hardware.picture(NV12, size=256 * 128 * 3 // 2)
    done(media.dvpp_jpeg_decode_async(channel, hardware.upload(data), len(data), decoded, stream))
    for name, value in (("width", 200), ("height", 120), ("width_stride", 256), ("height_stride", 128)):
        done(getattr(media, f"dvpp_set_pic_desc_{name}")(decoded, value))
    resized = target(hardware, 112, 112)
    done(media.dvpp_vpc_resize_async(channel, decoded, resized, hardware.resizing(), stream))
    done(hardware.wait())
    luma = yuv_of(data)[..., 0]
    scale = 200 / 112, 0, 0, 0, 120 / 112, 0
    theirs = Image.fromarray(luma).transform((112, 112), Image.Transform.AFFINE, scale, Image.Resampling.BILINEAR)
    assert np.abs(hardware.luma(resized).astype(int) - np.asarray(theirs)).max() <= 1
