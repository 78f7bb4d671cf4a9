"""What the tests of acl.media share: the image hardware with a channel and a stream, and pictures in its memory."""

from io import BytesIO

import numpy as np
from card import H2D, content, done, made
from PIL import Image

NV12, NV21, RGB, BGR, RGBA, UNKNOWN = 1, 2, 12, 13, 16, 10000


def gradient(width, height):
    """A smooth image in three values, with hard edges nowhere but where a value wraps."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack((x % 256, (2 * y) % 256, (255 - x) % 256), -1).astype(np.uint8)


def noise(width, height, values=3, seed=7):
    """An image that no two codecs agree on."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, values), np.uint8)


def file_of(image, kind, **options):
    """A file of this kind, "JPEG" or "PNG", as Pillow writes it."""
    stream = BytesIO()
    Image.fromarray(image).save(stream, kind, **options)
    return stream.getvalue()


def yuv_of(data):
    """What Pillow decodes a JPEG file to, in YUV."""
    file = Image.open(BytesIO(data))
    file.draft("YCbCr", None)
    return np.asarray(file)


class Hardware:
    """A channel and a stream of `acl`."""

    def __init__(self, acl):
        self.acl = acl
        self.media = acl.media
        self.channel = self.media.dvpp_create_channel_desc()
        done(self.media.dvpp_create_channel(self.channel))
        self.stream = made(acl.rt.create_stream())

    def upload(self, data):
        """The address of a copy of *data* in device memory."""
        data = bytes(data)
        address = made(self.media.dvpp_malloc(len(data)))
        done(self.acl.rt.memcpy(address, len(data), self.acl.util.bytes_to_ptr(data), len(data), H2D))
        return address

    def picture(self, form, width=0, height=0, strides=(0, 0), data=None, size=None):
        """A description over a copy of *data*, or over *size* bytes of zeros; `size_of` them where nothing is said."""
        media = self.media
        if data is None:
            data = bytes(size if size is not None else size_of(form, *strides))
        pic = media.dvpp_create_pic_desc()
        done(
            media.dvpp_set_pic_desc_data(pic, self.upload(data)),
            media.dvpp_set_pic_desc_size(pic, len(bytes(data))),
            media.dvpp_set_pic_desc_format(pic, form),
            media.dvpp_set_pic_desc_width(pic, width),
            media.dvpp_set_pic_desc_height(pic, height),
            media.dvpp_set_pic_desc_width_stride(pic, strides[0]),
            media.dvpp_set_pic_desc_height_stride(pic, strides[1]),
        )
        return pic

    def area(self, left, right, top, bottom):
        return self.media.dvpp_create_roi_config(left, right, top, bottom)

    def resizing(self, interpolation=0):
        config = self.media.dvpp_create_resize_config()
        done(self.media.dvpp_set_resize_config_interpolation(config, interpolation))
        return config

    def wait(self):
        """The code of what the stream has done since the last wait."""
        return self.acl.rt.synchronize_stream(self.stream)

    def shape(self, pic):
        """Width, height, width stride, height stride."""
        names = "width", "height", "width_stride", "height_stride"
        return tuple(getattr(self.media, f"dvpp_get_pic_desc_{name}")(pic) for name in names)

    def memory(self, pic):
        """All bytes of a picture."""
        media = self.media
        return np.frombuffer(
            content(self.acl, media.dvpp_get_pic_desc_data(pic), media.dvpp_get_pic_desc_size(pic)), np.uint8
        )

    def luma(self, pic):
        """The first plane of a picture, without its padding."""
        width, height, width_stride, height_stride = self.shape(pic)
        return self.memory(pic)[: width_stride * height_stride].reshape(height_stride, width_stride)[:height, :width]

    def chroma(self, pic):
        """The second plane of a picture in YUV 4:2:0, without its padding."""
        width, height, width_stride, height_stride = self.shape(pic)
        plane = self.memory(pic)[width_stride * height_stride :].reshape(height_stride // 2, width_stride)
        return plane[: height // 2, :width].reshape(height // 2, width // 2, 2)

    def pixels(self, pic, values=3):
        """A packed picture."""
        width, height, width_stride, height_stride = self.shape(pic)
        rows = self.memory(pic)[: width_stride * height_stride].reshape(height_stride, width_stride)
        return rows[:height, : values * width].reshape(height, width, values)


def size_of(form, width_stride, height_stride):
    """The bytes of a picture in a format that the tests use."""
    return width_stride * height_stride * 3 // 2 if form in (NV12, NV21) else width_stride * height_stride


def nv12(luma, chroma, strides=None, fill=0):
    """The bytes of an NV12 picture with these planes: (height, width) and (height / 2, width / 2, 2)."""
    height, width = luma.shape
    width_stride, height_stride = strides or (-(-width // 16) * 16, height)
    rows = np.full((height_stride * 3 // 2, width_stride), fill, np.uint8)
    rows[:height, :width] = luma
    rows[height_stride : height_stride + height // 2, :width] = chroma.reshape(height // 2, width)
    return rows.tobytes()


def packed(image, width_stride=None):
    """The bytes of a packed picture."""
    height, width, values = image.shape
    rows = np.zeros((height, width_stride or -(-width // 16) * 16 * values), np.uint8)
    rows[:, : width * values] = image.reshape(height, width * values)
    return rows.tobytes()
