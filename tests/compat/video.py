"""What the tests of videos share: a channel with its thread, and frames whose times are known.

A frame of 128x128 pixels has 16384 of the 2073600 pixels of 1080p. On the tiny device a channel decodes 1000 frames of
1080p in a second, so it takes 7,901 ns for one of these, and encodes 500, so it takes 15,802 ns.
"""

from contextlib import contextmanager
from threading import Event

import numpy as np
from card import D2D, DEFAULT, done, made

W = H = 128
NV12_BYTES = W * H * 3 // 2
DECODE_NS, ENCODE_NS = 7_901, 15_802


class Reports:
    """A thread that runs the callbacks of a channel, as scripts have one, until `end`.

    While it waits for reports, simulated time may go on. It does not while the thread is paused.
    """

    def __init__(self, acl):
        self.acl = acl
        self.goes_on, self.is_idle = Event(), Event()
        self.goes_on.set()
        self.context = made(acl.rt.get_context())
        self.runs = True
        self.thread = made(acl.util.start_thread(self._run, [10]))

    def _run(self, args):
        assert self.acl.rt.set_context(self.context) == 0
        while self.runs:
            if not self.goes_on.is_set():
                self.is_idle.set()
                self.goes_on.wait()
            self.acl.rt.process_report(args[0])

    @contextmanager
    def paused(self):
        self.is_idle.clear()
        self.goes_on.clear()
        self.is_idle.wait()
        try:
            yield
        finally:
            self.goes_on.set()

    def end(self):
        self.runs = False
        done(self.acl.util.stop_thread(self.thread))


def upload(acl, data):
    """Device memory with *data* in it."""
    address = made(acl.media.dvpp_malloc(len(data)))
    done(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
    return address


def download(acl, address, count):
    out = bytes(count)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), count, address, count, DEFAULT if count else D2D))
    return out


def plain(value, width=W, height=H):
    """A frame of one grey, in NV12."""
    frame = np.full((height * 3 // 2, width), 128, np.uint8)
    frame[:height] = value
    return frame


class Decoder:
    """A channel of vdec, and what its callback was given: the user's data, the code, the size, the first byte."""

    def __init__(self, acl, reports, entype=1, size=(W, H), room=NV12_BYTES):
        self.acl, self.media = acl, acl.media
        self.size, self.room, self.told = size, room, []
        media = acl.media
        self.channel = media.vdec_create_channel_desc()
        done(
            media.vdec_set_channel_desc_channel_id(self.channel, 3),
            media.vdec_set_channel_desc_thread_id(self.channel, reports.thread),
            media.vdec_set_channel_desc_callback(self.channel, self._callback),
            media.vdec_set_channel_desc_entype(self.channel, entype),
            media.vdec_set_channel_desc_out_pic_format(self.channel, 1),
            media.vdec_create_channel(self.channel),
        )

    def _callback(self, stream, picture, data):
        media = self.media
        if picture:
            code = media.dvpp_get_pic_desc_ret_code(picture)
            width, height = media.dvpp_get_pic_desc_width(picture), media.dvpp_get_pic_desc_height(picture)
            address = media.dvpp_get_pic_desc_data(picture)
            self.told.append((data, code, (width, height), 0 if code else download(self.acl, address, 1)[0]))
            done(media.dvpp_free(address), media.dvpp_destroy_pic_desc(picture))
        else:
            self.told.append((data, 0, None, 0))
        done(media.dvpp_free(media.dvpp_get_stream_desc_data(stream)), media.dvpp_destroy_stream_desc(stream))

    def stream(self, data, eos=0):
        stream = self.media.dvpp_create_stream_desc()
        if data:
            done(self.media.dvpp_set_stream_desc_data(stream, upload(self.acl, data)))
        done(self.media.dvpp_set_stream_desc_size(stream, len(data)), self.media.dvpp_set_stream_desc_eos(stream, eos))
        return stream

    def picture(self):
        media, picture = self.media, self.media.dvpp_create_pic_desc()
        done(
            media.dvpp_set_pic_desc_data(picture, made(media.dvpp_malloc(self.room))),
            media.dvpp_set_pic_desc_size(picture, self.room),
            media.dvpp_set_pic_desc_format(picture, 1),
            media.dvpp_set_pic_desc_width(picture, self.size[0]),
            media.dvpp_set_pic_desc_height(picture, self.size[1]),
        )
        return picture

    def send(self, data, user_data=None):
        return self.media.vdec_send_frame(self.channel, self.stream(data), self.picture(), 0, user_data)

    def skip(self, data, user_data=None):
        return self.media.vdec_send_skipped_frame(self.channel, self.stream(data), 0, user_data)

    def end(self):
        """Send the end of the stream."""
        stream = self.stream(b"", eos=1)
        ret = self.media.vdec_send_frame(self.channel, stream, 0, 0, None)
        done(self.media.dvpp_destroy_stream_desc(stream))
        return ret

    def close(self):
        done(self.media.vdec_destroy_channel(self.channel), self.media.vdec_destroy_channel_desc(self.channel))


class Encoder:
    """A channel of venc, and what its callback was given: the user's data, the code, and the bytes."""

    def __init__(self, acl, reports, entype=1, **more):
        self.acl, self.media, self.told = acl, acl.media, []
        media = acl.media
        self.channel, self.config = media.venc_create_channel_desc(), media.venc_create_frame_config()
        attributes = {"thread_id": reports.thread, "callback": self._callback, "entype": entype, "pic_format": 1,
                      "pic_width": W, "pic_height": H, "key_frame_interval": 16} | more  # fmt: skip
        for name, value in attributes.items():
            done(getattr(media, f"venc_set_channel_desc_{name}")(self.channel, value))
        self.created = media.venc_create_channel(self.channel)

    def _callback(self, picture, stream, data):
        media = self.media
        code, size = media.dvpp_get_stream_desc_ret_code(stream), media.dvpp_get_stream_desc_size(stream)
        encoded = download(self.acl, media.dvpp_get_stream_desc_data(stream), size)
        self.told.append((data, code, encoded))
        if picture:
            done(media.dvpp_free(media.dvpp_get_pic_desc_data(picture)), media.dvpp_destroy_pic_desc(picture))

    def send(self, frame, user_data=None, key=0):
        media, picture = self.media, self.media.dvpp_create_pic_desc()
        done(
            media.dvpp_set_pic_desc_data(picture, upload(self.acl, frame.tobytes())),
            media.dvpp_set_pic_desc_size(picture, frame.nbytes),
            media.venc_set_frame_config_eos(self.config, 0),
            media.venc_set_frame_config_force_i_frame(self.config, key),
        )
        return media.venc_send_frame(self.channel, picture, 0, self.config, user_data)

    def end(self):
        done(self.media.venc_set_frame_config_eos(self.config, 1))
        return self.media.venc_send_frame(self.channel, 0, 0, self.config, None)

    def close(self):
        media = self.media
        done(media.venc_destroy_channel(self.channel), media.venc_destroy_channel_desc(self.channel))
        done(media.venc_destroy_frame_config(self.config))
