"""Malformed pictures: every file, however broken, gives codes; no exception, no warning, no image out of thin air."""

import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from card import made
from pictures import NV12, UNKNOWN, Hardware, file_of, gradient
from PIL import Image

INFO = {0, 500001}  # read, or no such file
PREDICT = {0, 500001, 100000, 148052}  # and out of range, and of a variety that the decoder has not
DECODE = {0, 507018}


class Victim:
    """Hardware that is given anything."""

    def __init__(self, acl):
        self.acl = acl
        self.hardware = Hardware(acl)
        self.memory = made(acl.media.dvpp_malloc(1 << 16))
        self.picture = self.hardware.picture(UNKNOWN, size=1 << 16)

    def codes(self, kind, data):
        """What all functions say of a file, in the order of INFO, PREDICT and DECODE."""
        media, where = self.acl.media, (self.acl.util.bytes_to_ptr(data), len(data))
        *_, info = getattr(media, f"dvpp_{kind}_get_image_info")(*where)
        if kind == "jpeg":
            *_, version2 = media.dvpp_jpeg_get_image_info_v2(*where)
            assert version2 == info
        _, predicted = getattr(media, f"dvpp_{kind}_predict_dec_size")(*where, UNKNOWN)
        assert self.acl.rt.memcpy(self.memory, 1 << 16, *where, 1) == 0
        for about, value in (("format", UNKNOWN), ("width_stride", 0), ("height_stride", 0), ("size", 1 << 16)):
            assert getattr(media, f"dvpp_set_pic_desc_{about}")(self.picture, value) == 0  # the last one changed them
        decode = getattr(media, f"dvpp_{kind}_decode_async")
        assert decode(self.hardware.channel, self.memory, len(data), self.picture, self.hardware.stream) == 0
        decoded = self.hardware.wait()
        failed = self.acl.media.dvpp_get_pic_desc_ret_code(self.picture)
        assert (decoded == 0) == (failed == 0)
        return info, predicted, decoded


@pytest.fixture
def victim(acl):
    return Victim(acl)


def check(codes):
    info, predicted, decoded = codes
    assert info in INFO
    assert predicted in PREDICT
    assert decoded in DECODE
    assert info == 0 or (predicted, decoded) == (500001, 507018)  # what is no file is none to all functions


def exif(entries):
    """The segment of a JPEG file with these entries: tag, type, count and four bytes each."""
    body = struct.pack("<2sHLH", b"II", 42, 8, len(entries)) + b"".join(
        struct.pack("<HHL4s", *each) for each in entries
    )
    body = b"Exif\0\0" + body + bytes(4)
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def jpeg(segment=b"", **options):
    data = file_of(gradient(48, 32), "JPEG", **options)
    return data[:2] + segment + data[2:]


def chunk(kind, body):
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def png(*chunks, width=48, height=32, depth=8, color=2):
    head = chunk(b"IHDR", struct.pack(">LLBBBBB", width, height, depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IEND", b"")


LUMA = gradient(48, 32)[..., 0]
FILES = {
    "jpeg": [jpeg(), jpeg(exif([(0x0112, 3, 1, b"\6\0\0\0")])), jpeg(subsampling=2), file_of(LUMA, "JPEG")],
    "png": [file_of(gradient(48, 32), "PNG"), file_of(np.dstack((gradient(48, 32), LUMA)), "PNG")],
}


@pytest.mark.parametrize("kind", FILES)
def test_a_truncated_picture_gives_codes(victim, kind, capsys):
    for data in FILES[kind]:
        whole = victim.codes(kind, data)
        assert whole == (0, 0, 0)
        for length in {*range(1, 64), *range(64, len(data), 61), len(data) - 1}:
            check(victim.codes(kind, data[:length]))
    assert "Error" not in capsys.readouterr().err


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", FILES)
def test_a_picture_with_flipped_bits_gives_codes(victim, kind, seed, capsys):
    random = np.random.default_rng(seed)
    for data in FILES[kind]:
        for flips in (1, 1, 3, 10) * 10:
            broken = np.frombuffer(data, np.uint8).copy()
            # Half of them in the head, where lengths, sizes and tags are.
            reach = random.choice([min(len(data), 200), len(data)])
            broken[random.integers(0, reach, flips)] ^= np.uint8(1) << random.integers(0, 8, flips).astype(np.uint8)
            check(victim.codes(kind, broken.tobytes()))
    assert "Traceback" not in capsys.readouterr().err


def sized(data, width, height):
    """The JPEG file, but its head tells another size."""
    place = data.index(b"\xff\xc0") + 5
    return data[:place] + struct.pack(">HH", height, width) + data[place + 4 :]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("jpeg", lambda: sized(jpeg(), 65500, 65500)),
        ("jpeg", lambda: sized(jpeg(), 10000, 10000)),  # Pillow warns
        ("png", lambda: png(chunk(b"IDAT", zlib.compress(bytes(1 << 20))), width=20000, height=20000)),  # Pillow raises
        ("png", lambda: png(width=2**31 - 1, height=2**31 - 1)),
        ("png", lambda: png(width=10000, height=10000)),
    ],
)
def test_a_picture_of_huge_size_is_described_but_not_decoded(victim, kind, data):
    info, predicted, decoded = victim.codes(kind, data())
    assert (info, predicted, decoded) == (0, 100000, 507018)
    assert "pixels" in victim.acl.get_recent_err_msg()


@pytest.mark.parametrize(
    "segment",
    [
        exif([(0x0112, 3, 1, b"\6\0\0\0")])[:-20],
        exif([(0x0112, 2, 4, b"six\0")]),  # a text
        exif([(0x0112, 3, 0, bytes(4))]),
        exif([(0x0112, 5, 1 << 30, b"\xff\xff\xff\x7f")]),  # far beyond the file: Pillow warns
        exif([(0x8769, 4, 1, b"\x08\0\0\0")] * 3),  # directories in a circle
        exif([(0x011A, 5, 1, b"\xff\0\0\0"), (0x0128, 3, 1, b"\2\0\0\0")]),
        b"\xff\xe1\0\x0aExif\0\0xx",
        b"\xff\xe2\0\x10MPF\0II*\0\xff\xff\xff\xff\0\0",  # several pictures in one file: Pillow warns
        b"\xff\xee\0\x0eAdobe\0\0\0\0\0\0\0",
    ],
)
def test_broken_metadata_of_a_jpeg_picture_give_codes(victim, segment):
    check(victim.codes("jpeg", jpeg(segment)))


def test_sampling_factors_of_zero_are_a_variety_that_is_refused(victim):
    data = bytearray(jpeg())
    place = data.index(b"\xff\xc0") + 10
    data[place + 4], data[place + 7] = 0, 0
    info, predicted, decoded = victim.codes("jpeg", bytes(data))
    assert (predicted, decoded) in ((148052, 507018), (500001, 507018))
    assert info in INFO


@pytest.mark.parametrize(
    "data",
    [
        lambda: png(),  # no pixels
        lambda: png(chunk(b"IDAT", b"no zlib")),
        lambda: png(chunk(b"IDAT", zlib.compress(bytes(10)))),
        lambda: png(chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(64 << 20))), chunk(b"IDAT", b"")),  # a text of 64 MiB
        lambda: png(chunk(b"iCCP", b"p\0\0" + zlib.compress(bytes(64 << 20)))),
        lambda: png(chunk(b"acTL", bytes(8)), chunk(b"fcTL", bytes(26))),
        lambda: png(chunk(b"tRNS", b"\1")),
        lambda: png(width=0),
        lambda: png(depth=7),
        lambda: png(color=9),
    ],
)
def test_broken_chunks_of_a_png_picture_give_codes(victim, data):
    """Each file is made by its test: to make them all takes a second, which every process of a run would spend."""
    info, predicted, decoded = victim.codes("png", data())
    check((info, predicted, decoded))
    assert decoded == 507018


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_obeyed(hardware_image, orientation):
    data = jpeg(exif([(0x0112, 3, 1, bytes([orientation, 0, 0, 0]))]), quality=95)
    ours, theirs = hardware_image(data), np.asarray(_turned(data, orientation))[..., 0]
    assert ours.shape == theirs.shape
    assert (ours == theirs).all()


def _turned(data, orientation):
    """By the words of the Exif standard: where the first row and the first column of the file are."""
    file = Image.open(BytesIO(data))
    file.draft("YCbCr", None)
    pixels = np.asarray(file)
    if orientation >= 5:  # rows of the file are columns
        pixels = pixels.swapaxes(0, 1)
    rows_up, columns_left = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    return pixels[:: -1 if rows_up else 1, :: -1 if columns_left else 1]


@pytest.fixture
def hardware_image(acl):
    def decode(data):
        hardware = Hardware(acl)
        pic = hardware.picture(NV12, size=1 << 16)
        where = hardware.upload(data), len(data)
        assert acl.media.dvpp_jpeg_decode_async(hardware.channel, *where, pic, hardware.stream) == 0
        assert hardware.wait() == 0
        return hardware.luma(pic)

    return decode
