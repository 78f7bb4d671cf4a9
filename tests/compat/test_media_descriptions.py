"""Descriptions of acl.media: made, set, read and destroyed."""

import pytest
from card import done

FIELDS = {
    "pic_desc": ("data", "size", "format", "width", "height", "width_stride", "height_stride", "ret_code"),
    "stream_desc": ("data", "size", "format", "timestamp", "ret_code", "eos"),
    "resize_config": ("interpolation",),
    "jpege_config": ("level",),
}
PAIRS = [(kind, field) for kind, fields in FIELDS.items() for field in fields]
UNKNOWN = 10000


def calls(acl, kind, field):
    return getattr(acl.media, f"dvpp_set_{kind}_{field}"), getattr(acl.media, f"dvpp_get_{kind}_{field}")


@pytest.mark.parametrize(("kind", "field"), PAIRS)
def test_what_was_set_is_read(acl, kind, field):
    handle = getattr(acl.media, f"dvpp_create_{kind}")()
    assign, read = calls(acl, kind, field)
    assert read(handle) == (UNKNOWN if (kind, field) == ("pic_desc", "format") else 0)
    done(assign(handle, 77))
    assert read(handle) == 77
    others = [calls(acl, kind, each)[1](handle) for each in FIELDS[kind] if each not in (field, "format")]
    assert 77 not in others


@pytest.mark.parametrize(("kind", "field"), PAIRS)
def test_nothing_has_no_fields(acl, kind, field):
    handle = getattr(acl.media, f"dvpp_create_{kind}")()
    done(getattr(acl.media, f"dvpp_destroy_{kind}")(handle))
    assign, read = calls(acl, kind, field)
    for stale in (0, handle, 12345):
        assert assign(stale, 1) == 100000
        assert read(stale) == (UNKNOWN if (kind, field) == ("pic_desc", "format") else 0)


@pytest.mark.parametrize("kind", [*FIELDS, "roi_config", "channel_desc", "batch_pic_desc"])
def test_to_destroy_nothing_is_no_mistake_and_to_destroy_twice_is_one(acl, kind):
    sizes = {"roi_config": (0, 1, 0, 1), "batch_pic_desc": (2,)}.get(kind, ())
    handle, destroy = getattr(acl.media, f"dvpp_create_{kind}")(*sizes), getattr(acl.media, f"dvpp_destroy_{kind}")
    assert [destroy(0), destroy(handle), destroy(handle)] == [0, 0, 100000]


def test_a_handle_is_of_its_own_kind(acl):
    assert acl.media.dvpp_set_pic_desc_width(acl.media.dvpp_create_stream_desc(), 1) == 100000


@pytest.mark.parametrize(("value", "kept"), [(2**32 + 5, 5), (-1, 2**32 - 1)])
def test_sizes_keep_their_low_32_bits(acl, value, kept):
    pic = acl.media.dvpp_create_pic_desc()
    done(acl.media.dvpp_set_pic_desc_size(pic, value))
    assert acl.media.dvpp_get_pic_desc_size(pic) == kept


def test_setters_take_ints_only(acl):
    pic = acl.media.dvpp_create_pic_desc()
    with pytest.raises(TypeError, match="dvpp_set_pic_desc_width"):
        acl.media.dvpp_set_pic_desc_width(pic, 1.5)
    with pytest.raises(TypeError, match="dvpp_get_pic_desc_width"):
        acl.media.dvpp_get_pic_desc_width(None)
    with pytest.raises(TypeError):
        acl.media.dvpp_set_pic_desc_width(pic, width=1)


def test_a_batch_owns_its_pictures(acl):
    batch = acl.media.dvpp_create_batch_pic_desc(2)
    first, second = (acl.media.dvpp_get_pic_desc(batch, index) for index in (0, 1))
    assert first
    assert second not in (0, first)
    assert acl.media.dvpp_get_pic_desc(batch, 0) == first
    assert acl.media.dvpp_get_pic_desc(batch, 2) == acl.media.dvpp_get_pic_desc(0, 0) == 0
    done(acl.media.dvpp_set_pic_desc_width(second, 5), acl.media.dvpp_destroy_batch_pic_desc(batch))
    assert acl.media.dvpp_get_pic_desc_width(second) == 0
    assert acl.media.dvpp_create_batch_pic_desc(0) == 0


def test_areas_have_16_bits(acl):
    assert acl.media.dvpp_create_roi_config(0, 2**16, 0, 1) == 0
    area = acl.media.dvpp_create_roi_config(0, 1, 0, 1)
    sides = ("left", "right", "top", "bottom")
    done(*(getattr(acl.media, f"dvpp_set_roi_config_{side}")(area, 2**16 - 1) for side in sides))
    assert [getattr(acl.media, f"dvpp_set_roi_config_{side}")(area, 2**16) for side in sides] == [100000] * 4
    assert acl.media.dvpp_set_roi_config(area, 0, 1, 0, 2**16) == 100000
    assert acl.media.dvpp_set_roi_config(0, 0, 1, 0, 1) == 100000
    done(acl.media.dvpp_set_roi_config(area, 0, 1, 0, 1))


def test_a_channel_exists_between_create_and_destroy(acl):
    media = acl.media
    channel = media.dvpp_create_channel_desc()
    assert media.dvpp_get_channel_desc_channel_id(channel) == 0
    assert media.dvpp_destroy_channel(channel) == 100000
    done(media.dvpp_set_channel_desc_mode(channel, 2), media.dvpp_create_channel(channel))
    assert media.dvpp_create_channel(channel) == 100000
    assert media.dvpp_get_channel_desc_channel_id(channel) > 0
    assert media.dvpp_destroy_channel_desc(channel) == 148051
    done(media.dvpp_destroy_channel(channel), media.dvpp_create_channel(channel))
    done(media.dvpp_destroy_channel(channel), media.dvpp_destroy_channel_desc(channel))
    assert media.dvpp_create_channel(channel) == 100000


def test_a_channel_needs_a_device(acl):
    done(acl.rt.reset_device(0))
    channel = acl.media.dvpp_create_channel_desc()
    assert acl.media.dvpp_create_channel(channel) == acl.media.dvpp_malloc(10)[1] == 107002
    done(acl.rt.set_device(0), acl.media.dvpp_create_channel(channel))


def test_channels_differ(acl):
    ids = []
    for _ in range(3):
        channel = acl.media.dvpp_create_channel_desc()
        done(acl.media.dvpp_create_channel(channel))
        ids.append(acl.media.dvpp_get_channel_desc_channel_id(channel))
    assert len(set(ids)) == 3


def test_a_channel_knows_its_matrix(acl):
    media = acl.media
    channel = media.dvpp_create_channel_desc()
    assert media.dvpp_get_channel_desc_param(channel, 0) == (4, 0, 0)
    assert media.dvpp_set_channel_desc_param(channel, 0, 3) == (channel, 0)
    assert media.dvpp_get_channel_desc_param(channel, 0) == (4, 3, 0)
    assert media.dvpp_set_channel_desc_param(channel, 0, 6) == (channel, 100000)
    assert media.dvpp_set_channel_desc_param(channel, 1, 0) == (channel, 100000)
    assert media.dvpp_get_channel_desc_param(channel, 1) == (0, 0, 100000)


def test_memory_for_images_is_device_memory(acl):
    before = acl.rt.get_mem_info(0)[0]
    address, ret = acl.media.dvpp_malloc(1000)
    assert ret == 0
    assert address % 128 == 0
    assert acl.rt.get_mem_info(0)[0] < before
    done(acl.rt.memset(address, 1000, 3, 1000), acl.media.dvpp_free(address))
    assert acl.rt.get_mem_info(0)[0] == before
    assert acl.media.dvpp_free(address) == 107000
    assert acl.media.dvpp_free(0) == 100000
    assert acl.media.dvpp_malloc(0) == (0, 100000)
    other, ret = acl.media.dvpp_malloc_with_cfg(64, 0, {})
    done(ret, acl.media.dvpp_free(other))


def test_more_memory_than_there_is_is_an_error(acl):
    assert acl.media.dvpp_malloc(1 << 40) == (0, 207001)
