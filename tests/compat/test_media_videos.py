"""Videos: frames that are decoded and encoded in a channel, and the callbacks that its thread runs."""

import sys
import threading

import card
import numpy as np
import pytest
from card import done, made
from video import DECODE_NS, ENCODE_NS, NV12_BYTES, Decoder, Encoder, H, Reports, W, download, plain

from acl_py import DeadlockError
from acl_py.compat.acl import register_decoder, register_encoder, unregister_decoder, unregister_encoder
from acl_py.compat.acl.face.session import session
from acl_py.parts import parts_of
from acl_py.sanitizer.watch import watching


@pytest.fixture
def reports(acl):
    """The thread that runs callbacks."""
    thread = Reports(acl)
    yield thread
    if thread.runs:
        thread.end()


@pytest.fixture
def without_pyav(monkeypatch):
    """As on a machine where PyAV is not installed."""
    monkeypatch.setitem(sys.modules, "av", None)


@pytest.fixture
def codec():
    """A codec of the test's own for H.264: an encoded frame is the value of its luma, in one byte."""

    @register_decoder("h264")
    def decoder(settings):
        def decode(data):
            return [] if data is None else [plain(data[0], settings.width, settings.height)]

        return decode

    @register_encoder("h264")
    def encoder(_):
        def encode(frame, is_key):
            return b"" if frame is None else bytes([frame[0, 0], is_key])

        return encode

    yield
    unregister_decoder("h264")
    unregister_encoder("h264")


def videos():
    """Kind, start and end of the operations of the video hardware."""
    return [(op.name, op.start_ns, op.end_ns) for op in session().trace.ops if op.name.startswith("v")]


# --- what comes out


def test_frames_come_out_in_order_with_their_data(acl, reports, codec):
    decoder = Decoder(acl, reports)
    done(*(decoder.send(bytes([value]), f"frame {value}") for value in (10, 20, 30)), decoder.end())
    assert decoder.told == [(f"frame {value}", 0, (W, H), value) for value in (10, 20, 30)]
    decoder.close()


def test_the_end_of_a_stream_waits_for_the_last_callback(acl, reports, codec):
    decoder = Decoder(acl, reports)
    done(decoder.send(b"\x07"))
    done(decoder.end())
    assert len(decoder.told) == 1
    decoder.close()


def test_a_channel_is_destroyed_when_its_callbacks_have_returned(acl, reports, codec):
    decoder = Decoder(acl, reports)
    done(*(decoder.send(b"\x07") for _ in range(3)))
    decoder.close()
    assert len(decoder.told) == 3


def test_what_is_encoded_can_be_decoded_again(acl, reports):
    encoder = Encoder(acl, reports)
    done(*(encoder.send(plain(value), value) for value in (40, 80, 120)), encoder.end())
    decoder = Decoder(acl, reports)
    done(*(decoder.send(data, value) for value, _, data in encoder.told), decoder.end())
    assert [told[:3] for told in decoder.told] == [(value, 0, (W, H)) for value in (40, 80, 120)]
    assert np.abs([told[3] - told[0] for told in decoder.told]).max() <= 2
    encoder.close()
    decoder.close()


@pytest.mark.parametrize(("entype", "first"), [(0, b"\0\0\0\1\x40"), (1, b"\0\0\0\1\x67"), (3, b"\0\0\0\1\x67")])
def test_the_format_of_the_stream_chooses_the_codec(acl, reports, entype, first):
    encoder = Encoder(acl, reports, entype)
    done(encoder.send(plain(90)), encoder.end())
    [(_, code, data)] = encoder.told
    assert (code, data[:5]) == (0, first)
    decoder = Decoder(acl, reports, entype)
    done(decoder.send(data), decoder.end())
    assert abs(decoder.told[0][3] - 90) <= 2
    encoder.close()
    decoder.close()


def test_a_picture_is_resized_to_the_size_that_is_wanted(acl, reports, codec):
    @register_decoder("h264")
    def decoder_of_halves(_):
        return lambda data: [] if data is None else [np.hstack([plain(10, 64), plain(200, 64)])]

    decoder = Decoder(acl, reports, size=(64, 32), room=64 * 32 * 3 // 2)
    done(decoder.send(b"x"), decoder.end())
    assert decoder.told == [(None, 0, (64, 32), 10)]
    decoder.close()


def test_a_skipped_frame_is_decoded_and_its_callback_gets_no_picture(acl, reports):
    seen = []

    @register_decoder("h264")
    def decoder_that_notes(_):
        def decode(data):
            seen.append(data)
            return [] if data is None else [plain(data[0])]

        return decode

    try:
        decoder = Decoder(acl, reports)
        done(decoder.send(b"\x01", "a"), decoder.skip(b"\x02", "b"), decoder.send(b"\x03", "c"), decoder.end())
        assert decoder.told == [("a", 0, (W, H), 1), ("b", 0, None, 0), ("c", 0, (W, H), 3)]
        assert seen == [b"\x01", b"\x02", b"\x03", None]
        decoder.close()
    finally:
        unregister_decoder("h264")


def test_pictures_that_come_late_go_to_the_oldest_frame(acl, reports):
    @register_decoder("h264")
    def decoder_one_frame_behind(_):
        held = []

        def decode(data):
            if data is not None:
                held.append(plain(data[0]))
            return [held.pop(0)] if data is None or len(held) > 1 else []

        return decode

    try:
        decoder = Decoder(acl, reports)
        done(*(decoder.send(bytes([value]), value) for value in (1, 2, 3)), decoder.end())
        assert [(told[0], told[3]) for told in decoder.told] == [(1, 1), (2, 2), (3, 3)]
        decoder.close()
    finally:
        unregister_decoder("h264")


def test_pictures_that_come_early_are_kept_for_the_frames_to_come(acl, reports, codec):
    @register_decoder("h264")
    def decoder_two_at_a_time(_):
        return lambda data: [plain(data[0] + step) for step in (0, 1)] if data and data[0] % 2 else []

    decoder = Decoder(acl, reports)
    done(*(decoder.send(bytes([value]), value) for value in (1, 2, 3, 4)), decoder.end())
    assert [(told[0], told[3]) for told in decoder.told] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    decoder.close()


def test_a_surplus_picture_is_not_that_of_the_next_stream(acl, reports, codec):
    register_decoder("h264")(lambda _: lambda data: [] if data is None else [plain(data[0]), plain(99)])
    decoder = Decoder(acl, reports)
    done(decoder.send(b"\x01"), decoder.end(), decoder.send(b"\x02"), decoder.end())
    assert [told[3] for told in decoder.told] == [1, 2]
    decoder.close()


def test_channels_give_back_what_they_took(acl, reports, codec):
    def left():
        return acl.rt.get_stream_available_num(), acl.rt.get_mem_info(0)

    before = left()
    decoder, encoder = Decoder(acl, reports), Encoder(acl, reports)
    done(decoder.send(b"x"), encoder.send(plain(1)))
    assert left() != before
    decoder.close()
    encoder.close()
    assert left() == before


def test_a_channel_whose_thread_cannot_be_subscribed_gives_back_its_stream(acl, codec):
    before = acl.rt.get_stream_available_num()
    other = Reports(acl)
    done(acl.rt.set_device(1))
    stream = made(acl.rt.create_stream())
    done(acl.rt.subscribe_report(other.thread, stream), acl.rt.set_device(0))
    assert Encoder(acl, other).created == 107012
    assert acl.rt.get_stream_available_num() == before
    other.end()


def test_after_the_end_of_a_stream_another_one_may_follow(acl, reports):
    encoder = Encoder(acl, reports)
    done(encoder.send(plain(50)), encoder.end(), encoder.send(plain(60)), encoder.end())
    decoder = Decoder(acl, reports)
    for _, _, data in encoder.told:
        done(decoder.send(data), decoder.end())
    assert [abs(told[3] - value) <= 2 for told, value in zip(decoder.told, (50, 60), strict=True)] == [True, True]
    encoder.close()
    decoder.close()


def test_key_frames_come_first_and_when_they_are_forced(acl, reports, codec):
    encoder = Encoder(acl, reports)
    done(encoder.send(plain(5)), encoder.send(plain(6)), encoder.send(plain(7), key=1), encoder.end())
    assert [data for _, _, data in encoder.told] == [b"\x05\x01", b"\x06\x00", b"\x07\x01"]
    encoder.close()


def test_the_script_may_give_the_buffer_of_the_encoder(acl, reports, codec):
    address = made(acl.rt.malloc(4096, 0))
    encoder = Encoder(acl, reports, buf_addr=address, buf_size=4096)
    done(encoder.send(plain(9)), encoder.end())
    assert encoder.told == [(None, 0, b"\x09\x01")]
    encoder.close()
    done(acl.rt.free(address))


# --- without a codec


def test_without_a_decoder_frames_are_grey_and_that_is_a_finding(acl, reports, without_pyav):
    decoder = Decoder(acl, reports)
    done(*(decoder.send(b"anything", number) for number in range(4)), decoder.end())
    assert decoder.told == [(number, 0, (W, H), 128) for number in range(4)]
    [finding] = session().warned
    assert finding.startswith(
        "acl.media.vdec_send_frame() decodes to plain grey, because nothing decodes h264: install"
    )
    assert "register_decoder('h264')" in finding
    decoder.close()


def test_grey_frames_need_a_size(acl, reports, without_pyav):
    decoder = Decoder(acl, reports, size=(0, 0))
    assert decoder.send(b"anything") == 100000
    assert "no size is set for grey frames; install PyAV" in acl.get_recent_err_msg()
    decoder.close()


@pytest.mark.parametrize(("entype", "head"), [(0, b"\0\0\0\1\x4c\x01"), (2, b"\0\0\0\1\x0c")])
def test_without_an_encoder_there_is_filler_of_the_size_of_the_bit_rate(acl, reports, without_pyav, entype, head):
    encoder = Encoder(acl, reports, entype, max_bit_rate=800, src_rate=25)
    done(encoder.send(plain(1)), encoder.send(plain(2)), encoder.end())
    assert [(len(data), data[: len(head)]) for _, _, data in encoder.told] == [(4000, head)] * 2
    [finding] = session().warned
    assert finding.startswith("acl.media.venc_send_frame() gives filler, because nothing encodes")
    encoder.close()


# --- times


def test_the_time_of_a_frame_follows_from_its_pixels_and_the_profile(acl, reports, codec):
    decoder, encoder = Decoder(acl, reports), Encoder(acl, reports)
    done(decoder.send(b"\x01"), decoder.end(), encoder.send(plain(2)), encoder.end())
    spans = [(name, end - start) for name, start, end in videos()]
    assert spans == [("vdec", DECODE_NS), ("vdec_end", 0), ("venc", ENCODE_NS), ("venc_end", 0)]
    decoder.close()
    encoder.close()


def test_two_channels_decode_side_by_side(acl, reports, codec):
    first, second = Decoder(acl, reports), Decoder(acl, reports)
    streams = [(each, each.stream(b"\x01"), each.picture()) for each in (first, second)]
    done(*(acl.media.vdec_send_frame(each.channel, *ends, 0, None) for each, *ends in streams))
    done(first.end(), second.end())
    (_, start, end), (_, other, _) = [span for span in videos() if span[0] == "vdec"]
    assert start < other < end
    first.close()
    second.close()


# --- what goes wrong


def test_a_decoder_that_raises_fails_its_frame_and_no_other(acl, reports, capfd):
    @register_decoder("h264")
    def decoder_with_a_bug(_):
        def decode(data):
            if data == b"bad":
                raise ZeroDivisionError("a bug")
            return [] if data is None else [plain(data[0])]

        return decode

    try:
        decoder = Decoder(acl, reports)
        done(decoder.send(b"\x01", "a"), decoder.send(b"bad", "b"), decoder.send(b"\x03", "c"), decoder.end())
        assert [told[:2] for told in decoder.told] == [("a", 0), ("b", 1), ("c", 0)]
        assert "acl: video decoding failed: ZeroDivisionError: a bug\nTraceback" in capfd.readouterr().err
        decoder.close()
    finally:
        unregister_decoder("h264")


def test_rubbish_is_a_code_in_the_picture(acl, reports, capfd):
    decoder = Decoder(acl, reports)
    done(decoder.send(b"rubbish"), decoder.end())
    assert [told[1] for told in decoder.told] == [1]
    assert "acl: video decoding failed: " in capfd.readouterr().err
    decoder.close()


def test_a_frame_for_which_no_picture_comes_out_is_told_at_the_end(acl, reports, capfd):
    @register_decoder("h264")
    def decoder_of_nothing(_):
        return lambda _: []

    try:
        decoder = Decoder(acl, reports)
        done(decoder.send(b"x", "lost"), decoder.end())
        assert decoder.told == [("lost", 1, (W, H), 0)]
        assert "no picture came out for a frame\ncheck that each frame was sent whole" in capfd.readouterr().err
        decoder.close()
    finally:
        unregister_decoder("h264")


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (np.zeros((3, 5), np.uint8), "the decoder gave an array of uint8 and shape (3, 5)"),
        (np.zeros((192, 128)), "the decoder gave an array of float64 and shape (192, 128)"),
        (None, "the decoder gave an array of object and shape ()"),
    ],
)
def test_a_decoder_must_give_nv12(acl, reports, codec, capfd, frame, text):
    register_decoder("h264")(lambda _: lambda data: [] if data is None else [frame])
    decoder = Decoder(acl, reports)
    done(decoder.send(b"x"), decoder.end())
    assert [told[1] for told in decoder.told] == [1]
    assert text in capfd.readouterr().err
    decoder.close()


def test_a_picture_that_does_not_fit_says_how_large_it_is(acl, reports, codec, capfd):
    decoder = Decoder(acl, reports, room=NV12_BYTES - 1)
    done(decoder.send(b"x"), decoder.end())
    assert [told[1] for told in decoder.told] == [1]
    assert "the destination has a size of 24575 bytes, and the picture takes 24576" in capfd.readouterr().err
    decoder.close()


def test_a_frame_gives_its_bytes_when_it_is_sent(acl, reports, codec):
    """A program of acllite copies each of 30 packets into one buffer, and frees it when the last one is sent."""
    decoder = Decoder(acl, reports)
    buffer, told, send = made(acl.media.dvpp_malloc(1)), [], acl.media.vdec_send_frame

    def told_of(_, picture, number):
        address = acl.media.dvpp_get_pic_desc_data(picture)
        told.append((number, acl.media.dvpp_get_pic_desc_ret_code(picture), download(acl, address, 1)[0]))
        done(acl.media.dvpp_free(address))

    done(acl.media.vdec_set_channel_desc_callback(decoder.channel, told_of))
    stream = acl.media.dvpp_create_stream_desc()
    done(acl.media.dvpp_set_stream_desc_data(stream, buffer), acl.media.dvpp_set_stream_desc_size(stream, 1))
    with reports.paused():
        for number in range(30):
            packet = bytes([100 + number])
            done(acl.rt.memcpy(buffer, 1, acl.util.bytes_to_ptr(packet), 1, 1))
            done(send(decoder.channel, stream, decoder.picture(), 0, number))
        done(acl.media.dvpp_free(buffer))
    done(decoder.end())
    assert told == [(number, 0, 100 + number) for number in range(30)]
    decoder.close()


def test_a_frame_that_was_never_written_is_a_finding(codec):
    with watching(parts_of("uninitialised")) as watch, card.module() as acl:
        reports = Reports(acl)
        decoder = Decoder(acl, reports)
        stream = acl.media.dvpp_create_stream_desc()
        done(acl.media.dvpp_set_stream_desc_data(stream, made(acl.media.dvpp_malloc(8))))
        done(acl.media.dvpp_set_stream_desc_size(stream, 8))
        done(acl.media.vdec_send_frame(decoder.channel, stream, decoder.picture(), 0, None), decoder.end())
        decoder.close()
        reports.end()
    assert [(each.accesses[1].what, each.spans[0].start, each.spans[0].stop) for each in watch.findings] == [
        ("host read", 0, 8)
    ]


def test_a_frame_whose_picture_was_freed_fails(acl, reports, codec, capfd):
    decoder = Decoder(acl, reports)
    told, picture, stream = [], decoder.picture(), decoder.stream(b"x")
    done(acl.media.vdec_set_channel_desc_callback(decoder.channel, lambda *args: told.append(args)))
    with reports.paused():  # else the frame may be decoded before its memory is freed
        done(acl.media.vdec_send_frame(decoder.channel, stream, picture, 0, "gone"))
        done(acl.media.dvpp_free(acl.media.dvpp_get_pic_desc_data(picture)))
    assert decoder.end() == 507053
    assert (told, acl.media.dvpp_get_pic_desc_ret_code(picture)) == ([(stream, picture, "gone")], 1)
    assert "the memory of a picture was gone before its frame was decoded" in capfd.readouterr().err
    decoder.close()


def test_an_encoder_that_raises_fails_its_frame(acl, reports, codec, capfd):
    @register_encoder("h264")
    def encoder_with_a_bug(_):
        def encode(frame, _):
            return b"" if frame is None else 1 // 0

        return encode

    encoder = Encoder(acl, reports)
    done(encoder.send(plain(1)), encoder.end())
    assert encoder.told == [(None, 1, b"")]
    assert "acl: video encoding failed: ZeroDivisionError" in capfd.readouterr().err
    encoder.close()


def test_bytes_that_do_not_fit_into_the_buffer_say_so(acl, reports, codec, capfd):
    register_encoder("h264")(lambda _: lambda frame, _: b"" if frame is None else bytes(100))
    encoder = Encoder(acl, reports, buf_size=64)
    done(encoder.send(plain(1)), encoder.end())
    assert encoder.told == [(None, 1, b"")]
    assert "the encoded frame has 100 bytes, and there is room for 64" in capfd.readouterr().err
    encoder.close()


def test_a_callback_that_raises_is_printed_and_the_next_one_is_called(acl, reports, codec, capfd):
    decoder = Decoder(acl, reports)
    told = []

    def callback(_, __, data):
        told.append(data)
        raise KeyError(data)

    done(acl.media.vdec_set_channel_desc_callback(decoder.channel, callback))
    done(decoder.send(b"x", 1), decoder.send(b"x", 2), decoder.end())
    assert told == [1, 2]
    assert capfd.readouterr().err.count("KeyError: ") == 2
    decoder.close()


def test_an_end_that_no_thread_can_report_is_a_deadlock(acl, codec):
    """The channel's thread is this one, which waits and so cannot call process_report()."""

    class Here:
        thread = threading.get_ident()

    decoder = Decoder(acl, Here)
    done(decoder.send(b"x"))
    with pytest.raises(DeadlockError, match=r"let the stream's subscriber call ProcessReport\(\)$"):
        decoder.end()


# --- what is refused


@pytest.mark.parametrize("kind", ["vdec", "venc"])
def test_a_channel_needs_a_callback_and_a_thread(acl, kind):
    media = acl.media
    channel = getattr(media, f"{kind}_create_channel_desc")()
    if kind == "venc":
        done(media.venc_set_channel_desc_pic_width(channel, W), media.venc_set_channel_desc_pic_height(channel, H))
    assert getattr(media, f"{kind}_create_channel")(channel) == 100000
    assert "needs a callback, and the thread that runs it" in acl.get_recent_err_msg()


@pytest.mark.parametrize("kind", ["vdec", "venc"])
def test_what_there_is_not(acl, kind):
    media = acl.media
    create, destroy = getattr(media, f"{kind}_create_channel"), getattr(media, f"{kind}_destroy_channel")
    channel = getattr(media, f"{kind}_create_channel_desc")()
    assert (create(0), destroy(channel), destroy(77)) == (100000, 100000, 100000)
    assert f"call acl.media.{kind}_create_channel() first" in acl.get_recent_err_msg()
    assert getattr(media, f"{kind}_send_frame")(channel, 0, 0, 0, None) == 100000


def test_a_frame_without_data_does_not_end_a_stream(acl, reports, codec):
    decoder, encoder = Decoder(acl, reports), Encoder(acl, reports)
    assert decoder.send(b"") == 100000
    assert "the frame has no data, or no size, and does not end the stream" in acl.get_recent_err_msg()
    done(acl.media.venc_set_frame_config_eos(encoder.config, 0))
    assert acl.media.venc_send_frame(encoder.channel, 0, 0, encoder.config, None) == 100000
    assert "there is no picture, and the stream does not end" in acl.get_recent_err_msg()
    assert decoder.told == encoder.told == []
    decoder.close()
    encoder.close()


@pytest.mark.parametrize("entype", [-1, 4])
def test_a_format_of_streams_that_there_is_not(acl, reports, entype):
    encoder = Encoder(acl, reports, entype)
    assert encoder.created == 100000
    assert f"there is no video format {entype}" in acl.get_recent_err_msg()


@pytest.mark.parametrize(
    ("attribute", "value", "code"), [("pic_width", 0, 100000), ("pic_height", 127, 100000), ("pic_format", 12, 100027)]
)
def test_pictures_that_cannot_be_encoded(acl, reports, attribute, value, code):
    assert Encoder(acl, reports, **{attribute: value}).created == code


def test_a_picture_that_is_too_small_is_refused_at_once(acl, reports, codec):
    encoder = Encoder(acl, reports)
    assert encoder.send(plain(1, H // 2)) == 100000
    assert "128x128 pixels need 24576 bytes" in acl.get_recent_err_msg()
    encoder.close()


def test_pixel_formats_that_are_not_decoded_to(acl, reports, codec):
    decoder = Decoder(acl, reports)
    picture = decoder.picture()
    done(acl.media.dvpp_set_pic_desc_format(picture, 5))
    assert acl.media.vdec_send_frame(decoder.channel, decoder.stream(b"x"), picture, 0, None) == 100027
    decoder.close()


def test_a_description_lives_as_long_as_its_channel(acl, reports, codec):
    decoder = Decoder(acl, reports)
    assert acl.media.vdec_create_channel(decoder.channel) == 100000
    assert acl.media.vdec_destroy_channel_desc(decoder.channel) == 148051
    decoder.close()


def test_a_codec_that_there_is_not():
    with pytest.raises(ValueError, match=r"^there is no codec 'vp9'; there are h264, h265$"):
        register_decoder("vp9")
    with pytest.raises(KeyError):
        unregister_encoder("h264")


# --- descriptions

ATTRIBUTES = {
    "vdec": (
        "channel_id", "thread_id", "entype", "out_pic_format", "out_pic_width", "out_pic_height", "ref_frame_num",
        "out_mode", "bit_depth",
    ),
    "venc": (
        "thread_id", "entype", "pic_format", "pic_width", "pic_height", "key_frame_interval", "buf_addr", "buf_size",
        "max_bit_rate", "rc_mode", "src_rate",
    ),
}  # fmt: skip
PAIRS = [(kind, name) for kind, names in ATTRIBUTES.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_an_attribute_is_read_as_it_was_set_and_no_other_changes(acl, kind, name):
    def read(attribute):
        return getattr(acl.media, f"{kind}_get_channel_desc_{attribute}")(channel)

    channel = getattr(acl.media, f"{kind}_create_channel_desc")()
    assign = getattr(acl.media, f"{kind}_set_channel_desc_{name}")
    done(assign(channel, 77))
    assert [each for each in ATTRIBUTES[kind] if read(each) == 77] == [name]
    assert assign(0, 77) == 100000


@pytest.mark.parametrize("kind", ["vdec", "venc"])
def test_a_callback_is_a_function(acl, kind):
    channel = getattr(acl.media, f"{kind}_create_channel_desc")()
    assign, read = (getattr(acl.media, f"{kind}_{verb}_channel_desc_callback") for verb in ("set", "get"))
    assert read(channel) is None
    done(assign(channel, print))
    assert (read(channel), read(0), assign(0, print)) == (print, None, 100000)
    with pytest.raises(TypeError, match="parameter must be callable"):
        assign(channel, 5)


def test_frame_configurations(acl):
    media = acl.media
    config = media.venc_create_frame_config()
    done(media.venc_set_frame_config_eos(config, 1), media.venc_set_frame_config_force_i_frame(config, 2))
    assert (media.venc_get_frame_config_eos(config), media.venc_get_frame_config_force_i_frame(config)) == (1, 2)
    done(media.venc_destroy_frame_config(config), media.vdec_destroy_frame_config(media.vdec_create_frame_config()))
    assert media.venc_destroy_frame_config(config) == 100000


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "thread_id"), (2, "pic_format"), (3, "entype"), (4, "pic_width"), (5, "pic_height"),
     (6, "key_frame_interval"), (7, "buf_addr"), (8, "buf_size"), (9, "rc_mode"), (10, "src_rate"),
     (11, "max_bit_rate")],
)  # fmt: skip
def test_the_attributes_of_an_encoder_have_numbers(acl, number, name):
    media = acl.media
    channel = media.venc_create_channel_desc()
    done(media.venc_set_channel_desc_param(channel, number, 31))
    assert media.venc_get_channel_desc_param(channel, number) == (31, 0)
    assert getattr(media, f"venc_get_channel_desc_{name}")(channel) == 31
    with pytest.raises(TypeError, match="must be an int"):
        media.venc_set_channel_desc_param(channel, number, "31")


def test_the_callback_of_an_encoder_has_number_1_and_13_is_nothing(acl):
    media = acl.media
    channel = media.venc_create_channel_desc()
    done(media.venc_set_channel_desc_param(channel, 1, print))
    assert media.venc_get_channel_desc_param(channel, 1) == (print, 0)
    assert (media.venc_set_channel_desc_param(channel, 13, 1), media.venc_set_channel_desc_param(0, 1, 1)) == (
        100000,
    ) * 2
    assert (media.venc_get_channel_desc_param(channel, -1), media.venc_get_channel_desc_param(0, 1)) == (
        (0, 100000),
    ) * 2


# --- cards


@pytest.mark.parametrize(("card_name", "decodes", "encodes"), [("ascend910b3", 0, 207000), ("h200", 207000, 207000)])
def test_cards_without_such_hardware_say_so(card_name, decodes, encodes):
    with card.module(card_name, rules="acl") as acl:
        reports, media = Reports(acl), acl.media
        channel = media.vdec_create_channel_desc()
        done(media.vdec_set_channel_desc_thread_id(channel, reports.thread))
        done(media.vdec_set_channel_desc_callback(channel, print))
        assert media.vdec_create_channel(channel) == decodes
        assert Encoder(acl, reports).created == encodes
        assert f"{card_name} has no hardware to encode videos; choose another card" in acl.get_recent_err_msg()
        if not decodes:
            done(media.vdec_destroy_channel(channel))
        reports.end()
