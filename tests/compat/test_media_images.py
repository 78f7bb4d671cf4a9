"""JPEG and PNG through acl.media, against what Pillow makes of the same files."""

import subprocess
import sys
import textwrap
from io import BytesIO

import numpy as np
import pytest
from card import content, done, made, now
from pictures import NV12, NV21, RGB, RGBA, UNKNOWN, Hardware, file_of, gradient, noise, nv12, yuv_of
from PIL import Image

H444, H422, H420 = 0, 1, 2  # Pillow's subsampling; also acldvppJpegFormat


@pytest.fixture
def hardware(acl):
    return Hardware(acl)


def host(acl, data):
    return acl.util.bytes_to_ptr(data), len(data)


def decode(hardware, data, form=NV12, size=1 << 20, strides=(0, 0), kind="jpeg"):
    """Decode, wait, and give the picture with the code of the wait."""
    pic = hardware.picture(form, strides=strides, size=size)
    verb = getattr(hardware.media, f"dvpp_{kind}_decode_async")
    done(verb(hardware.channel, hardware.upload(data), len(data), pic, hardware.stream))
    return pic, hardware.wait()


# --- what a file says


@pytest.mark.parametrize(("subsampling", "sampling"), [(H444, 0), (H422, 1), (H420, 2)])
def test_a_jpeg_file_tells_its_size_and_its_sampling(acl, subsampling, sampling):
    data = file_of(gradient(200, 120), "JPEG", subsampling=subsampling)
    assert acl.media.dvpp_jpeg_get_image_info(*host(acl, data)) == (200, 120, 3, 0)
    assert acl.media.dvpp_jpeg_get_image_info_v2(*host(acl, data)) == (200, 120, 3, sampling, 0)


def test_a_grey_jpeg_file_has_one_component(acl):
    data = file_of(gradient(64, 48)[..., 0], "JPEG")
    assert acl.media.dvpp_jpeg_get_image_info_v2(*host(acl, data)) == (64, 48, 1, 3, 0)


@pytest.mark.parametrize(("mode", "components"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4), ("P", 3)])
def test_a_png_file_tells_its_size_and_its_components(acl, mode, components):
    stream = BytesIO()
    Image.fromarray(gradient(40, 50)).convert("RGB").convert(mode).save(stream, "PNG")
    assert acl.media.dvpp_png_get_image_info(*host(acl, stream.getvalue())) == (40, 50, components, 0)


def test_other_bytes_are_no_image(acl):
    png = file_of(gradient(64, 48), "PNG")
    assert acl.media.dvpp_jpeg_get_image_info(*host(acl, png)) == (0, 0, 0, 500001)
    assert acl.media.dvpp_jpeg_get_image_info_v2(*host(acl, png)) == (0, 0, 0, 0, 500001)
    assert acl.media.dvpp_jpeg_predict_dec_size(*host(acl, png), NV12) == (0, 500001)
    assert acl.media.dvpp_png_get_image_info(*host(acl, b"no image at all")) == (0, 0, 0, 500001)


def test_files_are_looked_at_in_host_memory(acl, hardware):
    """A host function on a card would read device memory and crash."""
    data = file_of(gradient(64, 48), "JPEG")
    assert acl.media.dvpp_jpeg_get_image_info(hardware.upload(data), len(data)) == (0, 0, 0, 107000)
    assert "copy it to the host first" in acl.get_recent_err_msg()
    assert acl.media.dvpp_jpeg_get_image_info(0, 10) == (0, 0, 0, 100000)
    assert acl.media.dvpp_jpeg_get_image_info(acl.util.bytes_to_ptr(data), 0) == (0, 0, 0, 100000)


@pytest.mark.parametrize(
    ("size", "form", "expected"),
    [
        ((200, 120), NV12, 256 * 128 * 3 // 2),
        ((200, 120), NV21, 256 * 128 * 3 // 2),
        ((1920, 1080), NV12, 1920 * 1088 * 3 // 2),
        ((200, 120), 5, 256 * 128 * 3),
        ((200, 120), UNKNOWN, 256 * 128 * 3),  # as the file has it: 4:4:4
    ],
)
def test_the_size_of_a_decoded_jpeg_is_known_before(acl, size, form, expected):
    data = file_of(gradient(*size), "JPEG", subsampling=H444)
    assert acl.media.dvpp_jpeg_predict_dec_size(*host(acl, data), form) == (expected, 0)


def test_sizes_of_decoded_jpeg_that_are_not_predicted(acl):
    predict = acl.media.dvpp_jpeg_predict_dec_size
    assert predict(*host(acl, file_of(gradient(64, 48), "JPEG")), RGB) == (0, 100027)
    assert predict(*host(acl, file_of(gradient(30, 48), "JPEG")), NV12) == (0, 100000)
    assert predict(*host(acl, file_of(gradient(64, 48), "JPEG", progressive=True)), NV12) == (0, 148052)


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [(RGB, 3, 256 * 3 * 128), (RGBA, 4, 256 * 4 * 128), (UNKNOWN, 3, 256 * 3 * 128), (UNKNOWN, 4, 256 * 4 * 128)],
)
def test_the_size_of_a_decoded_png_is_known_before(acl, form, values, expected):
    data = file_of(noise(200, 120, values), "PNG")
    assert acl.media.dvpp_png_predict_dec_size(*host(acl, data), form) == (expected, 0)
    assert acl.media.dvpp_png_predict_dec_size(*host(acl, data), NV12) == (0, 100027)


# --- decoding


def test_jpeg_becomes_nv12_with_the_strides_of_the_hardware(hardware):
    data = file_of(gradient(200, 120), "JPEG", quality=95)
    size, ret = hardware.media.dvpp_jpeg_predict_dec_size(*host(hardware.acl, data), NV12)
    pic, waited = decode(hardware, data, size=size)
    done(ret, waited, hardware.media.dvpp_get_pic_desc_ret_code(pic))
    assert hardware.shape(pic) == (200, 120, 256, 128)
    assert hardware.media.dvpp_get_pic_desc_size(pic) == size
    theirs = yuv_of(data).astype(int)
    assert (hardware.luma(pic) == theirs[..., 0]).all()
    means = theirs[..., 1:].reshape(60, 2, 100, 2, 2).mean((1, 3))
    assert np.abs(hardware.chroma(pic) - means).max() <= 0.5


def test_nv21_is_nv12_with_v_before_u(hardware):
    data = file_of(noise(64, 48), "JPEG")
    one, other = decode(hardware, data, NV12)[0], decode(hardware, data, NV21)[0]
    assert (hardware.luma(one) == hardware.luma(other)).all()
    assert (hardware.chroma(one) == hardware.chroma(other)[..., ::-1]).all()


def test_a_picture_says_where_its_strides_are(hardware):
    data = file_of(noise(64, 48), "JPEG")
    wide, ret = decode(hardware, data, strides=(192, 64))
    done(ret)
    assert hardware.shape(wide) == (64, 48, 192, 64)
    assert (hardware.luma(wide) == hardware.luma(decode(hardware, data)[0])).all()


@pytest.mark.parametrize(("subsampling", "form"), [(H444, 6), (H422, 4), (H420, 2)])
def test_unknown_keeps_the_format_of_the_file(hardware, subsampling, form):
    data = file_of(noise(64, 48), "JPEG", subsampling=subsampling)
    pic, ret = decode(hardware, data, UNKNOWN)
    done(ret)
    assert hardware.media.dvpp_get_pic_desc_format(pic) == form


def test_444_keeps_all_of_its_chroma(hardware):
    data = file_of(noise(64, 48), "JPEG", subsampling=H444)
    pic, ret = decode(hardware, data, 5)
    done(ret)
    pairs = hardware.memory(pic)[128 * 48 :].reshape(48, 256)[:, :128].reshape(48, 64, 2)
    assert (pairs == yuv_of(data)[..., 1:]).all()


def test_grey_becomes_nv12_without_colour(hardware):
    data = file_of(noise(64, 48)[..., 0], "JPEG")
    pic, ret = decode(hardware, data)
    done(ret)
    assert (hardware.luma(pic) == np.asarray(Image.open(BytesIO(data)))).all()
    assert (hardware.chroma(pic) == 128).all()


def test_odd_sizes_lose_their_last_row_and_column(hardware):
    """As the vendor says: in YUV 4:2:0 the decoder rounds down to even sizes."""
    data = file_of(noise(65, 49), "JPEG", subsampling=H444)
    pic, ret = decode(hardware, data)
    done(ret)
    assert hardware.shape(pic) == (64, 48, 128, 48)
    assert (hardware.luma(pic) == yuv_of(data)[:48, :64, 0]).all()


def test_an_image_is_turned_as_its_tag_says(acl, hardware):
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    data = file_of(gradient(64, 48), "JPEG", exif=exif)
    assert acl.media.dvpp_jpeg_get_image_info(*host(acl, data)) == (48, 64, 3, 0)
    pic, ret = decode(hardware, data)
    done(ret)
    assert hardware.shape(pic) == (48, 64, 128, 64)
    assert (hardware.luma(pic) == np.rot90(yuv_of(data)[..., 0], -1)).all()


def test_png_becomes_rgb(hardware):
    image = noise(100, 40)
    pic, ret = decode(hardware, file_of(image, "PNG"), RGB, kind="png")
    done(ret)
    assert hardware.shape(pic) == (100, 40, 128 * 3, 48)
    assert (hardware.pixels(pic) == image).all()


def test_png_with_alpha_becomes_rgba_or_loses_it(hardware):
    image = noise(100, 40, 4)
    for form in (RGBA, UNKNOWN):
        pic, ret = decode(hardware, file_of(image, "PNG"), form, kind="png")
        done(ret)
        assert hardware.shape(pic) == (100, 40, 128 * 4, 48)
        assert (hardware.pixels(pic, 4) == image).all()
    pic, ret = decode(hardware, file_of(image, "PNG"), RGB, kind="png")
    done(ret)
    assert (hardware.pixels(pic) == image[..., :3]).all()


def test_grey_png_becomes_rgb(hardware):
    image = noise(100, 40)[..., 0]
    pic, ret = decode(hardware, file_of(image, "PNG"), UNKNOWN, kind="png")
    done(ret)
    assert (hardware.pixels(pic) == image[..., None]).all()


# --- encoding


def encode(hardware, pic, level=100, room=1 << 21):
    """Encode, wait, and give the bytes with the code of the wait."""
    acl, media = hardware.acl, hardware.media
    config = media.dvpp_create_jpege_config()
    done(media.dvpp_set_jpege_config_level(config, level))
    out, word = made(media.dvpp_malloc(room)), np.array([room], np.int32).tobytes()
    done(media.dvpp_jpeg_encode_async(hardware.channel, pic, out, acl.util.bytes_to_ptr(word), config, hardware.stream))
    ret = hardware.wait()
    return content(acl, out, int(np.frombuffer(word, np.int32)[0])), ret


def test_nv12_becomes_jpeg_420(hardware):
    image = yuv_of(file_of(gradient(64, 48), "JPEG", quality=100, subsampling=H444))
    chroma = image[::2, ::2, 1:]
    pic = hardware.picture(NV12, 64, 48, (64, 48), nv12(image[..., 0], chroma))
    data, ret = encode(hardware, pic)
    done(ret, hardware.media.dvpp_get_pic_desc_ret_code(pic))
    assert hardware.media.dvpp_jpeg_get_image_info_v2(*host(hardware.acl, data)) == (64, 48, 3, 2, 0)
    assert np.abs(yuv_of(data)[..., 0].astype(int) - image[..., 0]).max() <= 2


def test_yuyv_becomes_jpeg_422(hardware):
    rows = np.zeros((48, 128), np.uint8)
    rows[:, 0::2] = gradient(64, 48)[..., 1]
    rows[:, 1::2] = 128
    data, ret = encode(hardware, hardware.picture(7, 64, 48, (128, 48), rows.tobytes()))
    done(ret)
    assert hardware.media.dvpp_jpeg_get_image_info_v2(*host(hardware.acl, data)) == (64, 48, 3, 1, 0)
    assert np.abs(yuv_of(data)[..., 0].astype(int) - rows[:, 0::2]).max() <= 2


def test_a_higher_level_is_better_and_0_is_best(hardware):
    luma = noise(64, 48)[..., 0]
    pic = hardware.picture(NV12, 64, 48, (64, 48), nv12(luma, np.full((24, 32, 2), 128, np.uint8)))
    sizes = {level: len(encode(hardware, pic, level)[0]) for level in (1, 50, 100, 0)}
    assert sizes[1] < sizes[50] < sizes[100] == sizes[0]


def test_what_was_decoded_can_be_encoded(hardware):
    data = file_of(gradient(200, 120), "JPEG", quality=95)
    pic, ret = decode(hardware, data)
    again, encoded = encode(hardware, pic)
    done(ret, encoded)
    assert np.abs(yuv_of(again)[..., 0].astype(int) - yuv_of(data)[..., 0]).max() <= 2


@pytest.mark.parametrize(
    ("height", "strides", "expected"),
    [
        (120, (208, 120), 1),
        (120, (256, 128), 1),
        (120, (2048, 1024), 2),
        (1820, (768, 1820), 2),  # 512 bytes less than a page: the head of the file does not fit
        (120, (200, 120), None),
        (120, (208, 122), None),
    ],
)
def test_the_room_for_a_jpeg_is_whole_pages(acl, height, strides, expected):
    pic = acl.media.dvpp_create_pic_desc()
    config = acl.media.dvpp_create_jpege_config()
    names = "format", "width", "height", "width_stride", "height_stride"
    for name, value in zip(names, (NV12, 200, height, *strides), strict=True):
        done(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(pic, value))
    answer = (0, 100000) if expected is None else (expected << 21, 0)
    assert acl.media.dvpp_jpeg_predict_enc_size(pic, config) == answer
    done(acl.media.dvpp_set_pic_desc_format(pic, RGB))
    assert acl.media.dvpp_jpeg_predict_enc_size(pic, config) == (0, 100027)
    assert acl.media.dvpp_jpeg_predict_enc_size(pic, 0) == (0, 100000)


# --- work in a stream


def test_a_call_only_queues(hardware):
    """The picture hears of its size when the work is done, and not before."""
    data = file_of(gradient(200, 120), "JPEG")
    pic = hardware.picture(NV12, size=1 << 16)
    address = hardware.upload(data)
    begin = now()
    done(hardware.media.dvpp_jpeg_decode_async(hardware.channel, address, len(data), pic, hardware.stream))
    queued = now()
    assert hardware.shape(pic) == (0, 0, 0, 0)
    done(hardware.wait())
    assert hardware.shape(pic) == (200, 120, 256, 128)
    least = (1 << 16) / 1.5 / (1920 * 1080 * 512) * 1e9  # 512 images of 1080p in a second
    assert now() - queued >= least > queued - begin


def test_the_default_stream_and_others_keep_their_order(hardware):
    """The copy back waits for the decoder, as it stands behind it in the stream."""
    acl, data = hardware.acl, file_of(noise(64, 48), "JPEG")
    pic, out = hardware.picture(NV12, size=1 << 14), made(acl.rt.malloc_host(1 << 14))
    done(
        hardware.media.dvpp_jpeg_decode_async(hardware.channel, hardware.upload(data), len(data), pic, hardware.stream),
        acl.rt.memcpy_async(
            out, 1 << 14, hardware.media.dvpp_get_pic_desc_data(pic), 128 * 48 * 3 // 2, 2, hardware.stream
        ),
        hardware.wait(),
    )
    rows = np.frombuffer(content(acl, out, 128 * 48), np.uint8).reshape(48, 128)
    assert (rows[:, :64] == yuv_of(data)[..., 0]).all()
    pic = hardware.picture(NV12, size=1 << 14)
    done(hardware.media.dvpp_jpeg_decode_async(hardware.channel, hardware.upload(data), len(data), pic, 0))
    done(acl.rt.synchronize_stream(0))
    assert hardware.shape(pic)[:2] == (64, 48)


def test_what_is_described_later_is_too_late(hardware):
    data = file_of(noise(64, 48), "JPEG")
    pic = hardware.picture(NV12, size=1 << 14)
    done(
        hardware.media.dvpp_jpeg_decode_async(hardware.channel, hardware.upload(data), len(data), pic, hardware.stream),
        hardware.media.dvpp_set_pic_desc_format(pic, RGB),
        hardware.wait(),
    )
    assert hardware.media.dvpp_get_pic_desc_format(pic) == NV12


# --- what fails


def test_calls_with_nothing_are_refused(acl, hardware):
    data = file_of(noise(64, 48), "JPEG")
    pic, address = hardware.picture(NV12, size=1 << 14), hardware.upload(data)
    verb, channel, stream = acl.media.dvpp_jpeg_decode_async, hardware.channel, hardware.stream
    assert verb(0, address, len(data), pic, stream) == 100000
    assert verb(acl.media.dvpp_create_channel_desc(), address, len(data), pic, stream) == 100000  # not created
    assert verb(channel, 0, len(data), pic, stream) == 100000
    assert verb(channel, address, 0, pic, stream) == 100000
    assert verb(channel, address, len(data), 0, stream) == 100000
    assert verb(channel, address, len(data), pic, 12345) == 107017
    assert verb(channel, address, len(data), hardware.picture(RGB, size=10), stream) == 100027
    assert verb(channel, address, len(data), hardware.picture(NV12, data=b"x"), stream) == 0
    assert hardware.wait() == 507018
    done(acl.media.dvpp_set_pic_desc_size(pic, 0))
    assert verb(channel, address, len(data), pic, stream) == 100000
    done(acl.media.dvpp_destroy_channel(channel))
    assert verb(channel, address, len(data), pic, stream) == 100000


def test_memory_that_the_device_does_not_reach_is_refused(acl, hardware):
    data = file_of(noise(64, 48), "JPEG")
    pic = hardware.picture(NV12, size=1 << 14)
    address, size = host(acl, data)
    assert acl.media.dvpp_jpeg_decode_async(hardware.channel, address, size, pic, hardware.stream) == 107000
    assert "reaches device and pinned memory only" in acl.get_recent_err_msg()


@pytest.mark.parametrize(
    ("make", "options", "story"),
    [
        (lambda: file_of(noise(64, 48), "JPEG"), {"size": 100}, "has a size of 100 bytes, and the image takes 9216"),
        (lambda: file_of(noise(64, 48), "JPEG"), {"strides": (72, 48)}, "a width stride of 72 for 64 pixels; use 128"),
        (lambda: file_of(noise(64, 48), "JPEG"), {"strides": (128, 50)}, "a height stride of 50 for 48 rows; use 48"),
        (lambda: file_of(noise(64, 48), "JPEG"), {"form": 5}, "cannot become YUV444SP; choose one of YUV420SP NV12"),
        (lambda: file_of(noise(30, 48), "JPEG"), {}, "a JPEG image of 30x48 pixels"),
        (lambda: file_of(noise(64, 48), "JPEG", progressive=True), {}, "a progressive JPEG image"),
        (lambda: file_of(noise(64, 48), "JPEG")[:1500], {}, "the JPEG image is damaged"),
        (lambda: file_of(noise(64, 48), "PNG"), {}, "no JPEG file"),
        (lambda: file_of(noise(64, 48), "PNG"), {"form": RGBA, "kind": "png"}, "no alpha to become RGBA8888"),
        (lambda: file_of(noise(64, 48), "PNG")[:900], {"form": RGB, "kind": "png"}, "the PNG image is damaged"),
    ],
)
def test_what_the_decoder_refuses_fails_the_stream(hardware, make, options, story):
    pic, ret = decode(hardware, make(), **options)
    assert ret == 507018
    assert story in hardware.acl.get_recent_err_msg()
    assert hardware.media.dvpp_get_pic_desc_ret_code(pic) == 1
    pic, ret = decode(hardware, file_of(noise(64, 48), "JPEG"))  # the stream goes on
    done(ret, hardware.media.dvpp_get_pic_desc_ret_code(pic))


@pytest.mark.parametrize(
    ("shape", "options", "story"),
    [
        ((64, 48, 64, 48), {"level": 101}, "JPEG level 101"),
        ((64, 48, 64, 48), {"room": 100}, "there is room for 100"),
        ((64, 48, 72, 48), {}, "a width stride of 72 for 64 pixels; use 64"),
        ((16, 48, 16, 48), {}, "takes 32 to 8192 either way"),
        ((64, 47, 64, 48), {}, "multiples of 2 and 2"),
        ((64, 48, 64, 64), {}, "a size of 4608 bytes; its strides make 6144"),
    ],
)
def test_what_the_encoder_refuses_fails_the_stream(hardware, shape, options, story):
    width, height, *strides = shape
    pic = hardware.picture(NV12, width, height, strides, bytes(64 * 48 * 3 // 2))
    _, ret = encode(hardware, pic, **options)
    assert ret == 507018
    assert story in hardware.acl.get_recent_err_msg()
    assert hardware.media.dvpp_get_pic_desc_ret_code(pic) == 1


def test_the_size_of_a_jpeg_is_told_in_host_memory(acl, hardware):
    pic = hardware.picture(NV12, 64, 48, (64, 48))
    config, out = acl.media.dvpp_create_jpege_config(), made(acl.media.dvpp_malloc(1 << 16))
    word = np.array([1 << 16], np.int32).tobytes()
    verb, stream = acl.media.dvpp_jpeg_encode_async, hardware.stream
    assert verb(hardware.channel, pic, out, hardware.upload(word), config, stream) == 107000
    assert verb(hardware.channel, pic, out, 0, config, stream) == 100000
    assert verb(hardware.channel, pic, out, acl.util.bytes_to_ptr(word), 0, stream) == 100000
    assert verb(hardware.channel, pic, 0, acl.util.bytes_to_ptr(word), config, stream) == 100000
    assert np.frombuffer(word, np.int32)[0] == 1 << 16


@pytest.mark.slow
def test_without_pillow_files_are_not_supported():
    """Everything else still works; the extra is named once, on the standard error where there is no log."""
    program = """
        import sys
        sys.modules["PIL"] = None
        from acl_py.compat.acl import install
        install()
        import acl
        acl.init(); acl.rt.set_device(0)
        media = acl.media
        data = bytes(100)
        ptr = acl.util.bytes_to_ptr(data)
        pic, config = media.dvpp_create_pic_desc(), media.dvpp_create_jpege_config()
        print(
            media.dvpp_jpeg_get_image_info(ptr, 100), media.dvpp_jpeg_get_image_info_v2(ptr, 100),
            media.dvpp_jpeg_predict_dec_size(ptr, 100, 1), media.dvpp_jpeg_decode_async(0, ptr, 100, pic, 0),
            media.dvpp_png_get_image_info(ptr, 100), media.dvpp_png_predict_dec_size(ptr, 100, 12),
            media.dvpp_png_decode_async(0, ptr, 100, pic, 0), media.dvpp_jpeg_encode_async(0, pic, ptr, ptr, config, 0),
        )
        print(media.dvpp_malloc(10)[1], media.dvpp_set_pic_desc_width(pic, 5))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=60
    )
    lines = run.stdout.splitlines()
    assert (
        "(0, 0, 0, 207000) (0, 0, 0, 0, 207000) (0, 207000) 207000 (0, 0, 0, 207000) (0, 207000) 207000 207000" in lines
    )
    assert lines[-1] == "0 0"
    assert run.stderr == (
        "acl: acl.media needs Pillow for JPEG and PNG, and it is not installed\npip install 'acl-py[media]'\n"
    )
