"""Profiles: the numbers of a card, each with its source, and the files that are refused."""

import re
from dataclasses import fields, is_dataclass
from importlib import resources
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_model import overlay
from device_model.curves import Curve
from device_model.profile import DeviceProfile, ProfileError, load, names, parse
from tests.campaigns import many

TINY = (resources.files("device_model") / "profiles" / "tiny.toml").read_text(encoding="utf-8")


def numbers(record, prefix=""):
    """The dotted names of all values."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from numbers(value, f"{prefix}{field.name}.")
        elif not isinstance(value, str | None) and field.name != "sources":
            yield prefix + field.name


# --- what is there


def test_the_shipped_profiles():
    assert {"h200", "tiny"} <= set(names())
    assert names() == sorted(names())


@pytest.mark.parametrize("name", names())
def test_every_number_of_a_shipped_profile_has_a_source(name):
    profile = load(name)
    assert profile.name == name
    assert set(profile.sources) == set(numbers(profile))
    for source in profile.sources.values():
        assert re.match(r"(measured|documented|assumed): \S", source)


def test_a_profile_is_read_once_and_cannot_be_changed():
    assert load("tiny") is load("tiny")
    assert load(load("tiny")) is load("tiny")
    with pytest.raises(AttributeError):
        load("tiny").name = "mine"
    with pytest.raises(TypeError):
        load("tiny").sources["devices"] = "measured: by me"


def test_a_file_of_ones_own_by_path(tmp_path):
    file = tmp_path / "card.toml"
    file.write_text(TINY.replace('name = "tiny"', 'name = "card"').replace("value = 700", "value = 701"))
    for path in (file, str(file)):
        profile = load(path)
        assert isinstance(profile, DeviceProfile)
        assert (profile.name, profile.host.query) == ("card", 701)
    assert load(file) == load(file) != load("tiny")


def test_what_is_not_there():
    with pytest.raises(
        ProfileError, match=r"^there is no profile 'h201'; did you mean h200\? There are .*h200.*, or give a .toml file"
    ):
        load("h201")
    with pytest.raises(ProfileError, match=r"^cannot read the profile no/such.toml: No such file or directory$"):
        load("no/such.toml")


# --- what is refused, with the name of the file and of the field

GAP = 'copy_gap = { value = 0, source = "assumed: a round number" }'
MODE = 'run_mode = { value = 1, source = "assumed: the tests run on a host" }'
COUNT = 'count = { value = 4, source = "assumed: a round number" }'
CURVE = "value = [[0, 0], [1000000, 1000000]]"
H2D = f'h2d = {{ {CURVE}, source = "assumed: a round number" }}'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "tiny"', "name = ", r"my\.toml is not TOML: Invalid value \(at line 2"),
        ('name = "tiny"', "", r"my\.toml: name is missing"),
        ('name = "tiny"', "name = 3", r"my\.toml: name must be a text of printable characters, not 3"),
        ('rules = "cuda"', 'rules = "opencl"', r"my\.toml: rules must be one of cuda, cuda_per_thread.*, not 'opencl'"),
        ('rules = "cuda"', 'rules = ""', r"my\.toml: rules must be a text of printable characters, not ''"),
        ('name = "tiny"', 'name = "tiny"\ncolour = 1', r"my\.toml: colour is unknown; a profile has name, description"),
        ("[latency]", "[latencies]", r"my\.toml: latencies is unknown; a profile has .*latency"),
        ("[latency]", "[other]\n[latency]", r"my\.toml: other is unknown"),
        (GAP, "", r"my\.toml: latency\.copy_gap is missing"),
        (GAP, GAP + '\nlag = { value = 0, source = "assumed" }', r"my\.toml: latency\.lag is unknown; latency has sub"),
        (GAP, "copy_gap = 0", r"my\.toml: latency\.copy_gap must be \{ value = ..., source = \"...\" \}, not 0"),
        (GAP, "copy_gap = { value = 0 }", r"my\.toml: latency\.copy_gap must be \{ value = ..., source"),
        (GAP, GAP.replace("}", ", unit = 1 }"), r"my\.toml: latency\.copy_gap must be \{ value = ..., source"),
        (GAP, GAP.replace("assumed", "guessed"), r"my\.toml: latency\.copy_gap\.source must begin with measured, doc"),
        (
            GAP,
            'copy_gap = { value = 0, source = "" }',
            r"my\.toml: latency\.copy_gap\.source must be a text of printable",
        ),
        (GAP, GAP.replace("0,", "-1,"), r"my\.toml: latency\.copy_gap must be a whole number, 0 to 2\*\*62, not -1"),
        (GAP, GAP.replace("0,", "1.5,"), r"my\.toml: latency\.copy_gap must be a whole number, 0 to 2\*\*62, not 1\.5"),
        (
            GAP,
            GAP.replace("0,", "true,"),
            r"my\.toml: latency\.copy_gap must be a whole number, 0 to .*, not True",
        ),
        (GAP, GAP.replace("0,", '"0",'), r"my\.toml: latency\.copy_gap must be a whole number, 0 to 2\*\*62, not '0'"),
        (MODE, "", r"my\.toml: run_mode is missing"),
        (MODE, MODE.replace("1,", "2,"), r"my\.toml: run_mode must be a whole number, 0 to 1, not 2"),
        (
            MODE,
            MODE.replace("1,", "0,"),
            r"my\.toml: profile tiny has run_mode 0, a board without a host, and 2 devices; su",
        ),
        (COUNT, COUNT.replace("4,", "0,"), r"my\.toml: cores\.count must be a whole number, 1 to 2\*\*62, not 0"),
        (H2D, H2D.replace(CURVE, "value = 5"), r"my\.toml: copies\.h2d must be a list of \[bytes, ns\] in whole"),
        (H2D, H2D.replace(CURVE, "value = [5, 6]"), r"my\.toml: copies\.h2d must be a list of \[bytes, ns\]"),
        (H2D, H2D.replace(CURVE, "value = [[0, 0, 0], [1, 1, 1]]"), r"my\.toml: copies\.h2d must be a list of"),
        (H2D, H2D.replace(CURVE, "value = [[0, 0], [1.5, 2]]"), r"my\.toml: copies\.h2d must be a list of .* whole"),
        (H2D, H2D.replace(CURVE, "value = [[0, 0]]"), r"my\.toml: copies\.h2d: a curve needs two points or more"),
        (H2D, H2D.replace(CURVE, "value = [[0, 9], [8, 8]]"), r"my\.toml: copies\.h2d: the last line of a curve goes"),
        (H2D, H2D.replace(CURVE, "value = [[1, 0], [1, 5]]"), r"my\.toml: copies\.h2d: the sizes of a curve must incr"),
        (H2D, H2D.replace(CURVE, "value = [[0, 0], [1, -5]]"), r"my\.toml: copies\.h2d: sizes and times of a curve m"),
    ],
)
def test_a_profile_that_cannot_be_used(tmp_path, monkeypatch, old, new, message):
    assert TINY.count(old) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(TINY.replace(old, new))
    with pytest.raises(ProfileError, match=f"^{message}"):
        load("my.toml")


def test_a_table_must_be_a_table():
    text = re.sub(r"\[memory\]\n.*\n.*\n.*\n", "", TINY).replace('rules = "cuda"', 'rules = "cuda"\nmemory = 5')
    with pytest.raises(ProfileError, match=r"^my\.toml: memory must be a table, not 5$"):
        parse(text, "my.toml")


@pytest.mark.parametrize(
    "name",
    [
        "devices", "cores.count", "cores.resident_kernels", "cores.flops", "cores.bytes_per_second", "queues.compute",
        "queues.copy", "queues.depth", "memory.bytes", "memory.alignment", "copies.stage_chunk", "copies.stage_buffers",
    ],
)  # fmt: skip
def test_there_must_be_one_of_it(name):
    """A device without cores or queues would divide by zero, or never start its work."""
    table, _, field = name.rpartition(".")
    start = TINY.index(f"[{table}]") if table else 0
    text = TINY[:start] + re.sub(rf"(?m)^{field} = {{ value = \d+", f"{field} = {{ value = 0", TINY[start:], count=1)
    with pytest.raises(ProfileError, match=rf"^my\.toml: {name} must be a whole number, 1 to (2\*\*62|4,096), not 0$"):
        parse(text, "my.toml")


# --- curves


def test_a_curve_is_straight_between_its_points_and_beyond_the_last():
    curve = Curve([(0, 100), (1000, 1100), (2000, 5100)])
    assert [curve[size] for size in (0, 1, 500, 1000, 1001, 1500, 2000, 3000)] == [
        100, 101, 600, 1100, 1104, 3100, 5100, 9100,
    ]  # fmt: skip


def test_a_curve_goes_on_below_its_first_point_but_never_below_zero():
    curve = Curve([(1000, 100), (2000, 300)])
    assert [curve[size] for size in (900, 500, 0)] == [80, 0, 0]


def test_times_are_whole_numbers_rounded_down():
    assert [Curve([(0, 0), (3, 1)])[size] for size in (0, 1, 2, 3, 4, 6)] == [0, 0, 0, 1, 1, 2]


points = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=2, unique_by=lambda p: p[0])


@given(points.map(sorted).filter(lambda each: each[-2][1] <= each[-1][1]), st.integers(0, 2 * 10**9))
def test_a_curve_goes_through_its_points_and_stays_between_neighbours(points, size):
    curve = Curve(points)
    assert [curve[nbytes] for nbytes, _ in points] == [time for _, time in points]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= size <= x1:
            assert min(y0, y1) <= curve[size] <= max(y0, y1)


def test_a_curve_remembers_some_sizes_and_forgets_them_when_there_are_too_many():
    curve = Curve([(0, 0), (1000, 2000)])
    for size in range(10_000):
        assert curve[size] == 2 * size
    assert len(curve) <= 4096


def test_curves_are_equal_by_their_points_whatever_they_remember():
    one, two = Curve([(0, 0), (1, 1)]), Curve([(0, 0), (1, 1)])
    assert one[5] == 5
    assert one == two
    assert not one != two  # noqa: SIM202 - a dict has an operator of its own for this
    assert one != Curve([(0, 0), (1, 2)])
    assert one != {5: 5}
    assert repr(one) == "Curve([(0, 0), (1, 1)])"


def test_ai_cores_are_described_where_core_kernels_can_run():
    assert load("tiny").aicore is None
    aicore = load("ascend910b1").aicore
    assert (aicore.cube_cores, aicore.vector_cores) == (24, 48)
    assert load("ascend910b1").sources["aicore.mhz"].startswith("documented: ")


def test_sms_are_described_where_thread_block_kernels_can_run():
    assert load("tiny").sm is None
    assert load("h200").sm.block_threads == 1024
    assert load("h200").sources["sm.dram_spread"].startswith("measured: ")
    with pytest.raises(ProfileError, match=r"tiny: sm.khz is missing"):
        parse(TINY + "\n[sm]\n", "tiny")


def test_a_description_of_ai_cores_is_whole_or_absent():
    with pytest.raises(ProfileError, match=r"tiny: aicore.mhz is missing"):
        parse(TINY + "\n[aicore]\n", "tiny")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("copy_gap = { value = 0,", f"copy_gap = {{ value = {2**62 + 1},"),
        ("copy_gap = { value = 0,", f"copy_gap = {{ value = 1{'0' * 4000},"),
    ],
)
def test_no_time_of_a_profile_is_longer_than_simulated_time(before, after):
    assert before in TINY
    with pytest.raises(
        ProfileError, match=r"^my\.toml: latency\.copy_gap must be a whole number, 0 to 2\*\*62, not a number of"
    ):
        parse(TINY.replace(before, after), "my.toml")


def test_no_point_of_a_curve_lies_beyond_simulated_time():
    text = re.sub(r"(?m)^h2d = \{ value = \[\[\d+, \d+\]", f"h2d = {{ value = [[0, {2**62 + 1}]", TINY)
    assert text != TINY
    with pytest.raises(ProfileError, match=r"copies\.h2d: sizes and times of a curve must not be more than 2\*\*62"):
        parse(text, "my.toml")


# --- files from anywhere


def refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ProfileError) as caught:
        load("my.toml")
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 1000
    return message


def with_value(name, value):
    """The tiny profile with another value for the field *name* of its last such table."""
    table, _, field = name.rpartition(".")
    start = TINY.index(f"[{table}]") if table else 0
    return TINY[:start] + re.sub(
        rf"(?m)^{field} = {{ value = \d+", f"{field} = {{ value = {value}", TINY[start:], count=1
    )


@pytest.mark.parametrize(
    ("name", "most"),
    [("devices", "4,096"), ("queues.compute", "4,096"), ("queues.copy", "4,096"), ("copies.stage_buffers", "4,096"),
     ("queues.depth", "2**62"), ("host.launch", "2**62"), ("memory.bytes", "2**62")],
)  # fmt: skip
def test_absurd_counts_are_refused_with_what_is_allowed(tmp_path, monkeypatch, name, most):
    message = refused(tmp_path, monkeypatch, with_value(name, 10**19))
    least = 0 if name == "host.launch" else 1
    assert message == f"my.toml: {name} must be a whole number, {least} to {most}, not a number of 64 bits"


def test_numbers_that_python_cannot_read_or_write_are_refused(tmp_path, monkeypatch):
    assert refused(tmp_path, monkeypatch, with_value("devices", "1" * 5000)).startswith("my.toml is not TOML: ")
    message = refused(tmp_path, monkeypatch, with_value("devices", "0x" + "f" * 50_000))
    assert message == "my.toml: devices must be a whole number, 1 to 4,096, not a number of 200000 bits"


def test_a_file_may_begin_with_the_mark_of_utf8(tmp_path):
    (tmp_path / "my.toml").write_text(TINY, encoding="utf-8-sig")
    assert load(tmp_path / "my.toml") == load("tiny")


def test_bytes_that_are_no_utf8_are_refused(tmp_path, monkeypatch):
    message = refused(tmp_path, monkeypatch, TINY.encode().replace(b"tiny", b"\xfftiny", 1))
    assert message.startswith("my.toml is not UTF-8 text: invalid start byte at byte ")


def test_nesting_of_100_000_is_refused(tmp_path, monkeypatch):
    message = refused(tmp_path, monkeypatch, "name = " + "[" * 100_000 + "]" * 100_000)
    assert message.startswith("my.toml is nested too deeply")


def test_long_values_are_cut_in_messages(tmp_path, monkeypatch):
    message = refused(tmp_path, monkeypatch, with_value("devices", "[" + "1, " * 10_000 + "1]"))
    assert message.endswith("...")


@pytest.mark.parametrize("name", ["name", "description"])
def test_control_characters_are_refused_and_never_shown(tmp_path, monkeypatch, name):
    message = refused(tmp_path, monkeypatch, re.sub(rf'(?m)^{name} = "', rf'{name} = "\\u001b[31m', TINY, count=1))
    assert f"{name} must be a text of printable characters, not '\\x1b[31m" in message
    assert "\\x1b is unknown" in refused(tmp_path, monkeypatch, '"\\u001b" = 1\n' + TINY)


def test_a_directory_is_no_profile(tmp_path):
    (tmp_path / "dir.toml").mkdir()
    with pytest.raises(ProfileError, match=r"cannot read the profile .*Is a directory"):
        load(tmp_path / "dir.toml")


@pytest.mark.parametrize("name", ["half \ud800.toml", "null \0.toml"])
def test_a_path_that_no_file_can_have_is_named(name):
    for load_ in (load, lambda path: overlay.load(path, load("tiny"))):
        with pytest.raises(ProfileError, match=r"^no file can be called "):
            load_(name)


@given(st.data())
def test_a_damaged_profile_is_read_or_refused_with_a_sentence(data):
    """Bytes of the tiny profile are cut out, put in and doubled; the only error is ProfileError."""
    read_damaged(data)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(1_500))
@given(st.data())
def test_many_damaged_profiles_are_read_or_refused_with_a_sentence(data):
    read_damaged(data)


def read_damaged(data):
    text = TINY
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 3, 40]))
        piece = data.draw(
            st.sampled_from(["", "9" * 30, "-1", "[", "{", "[[", '"', "\n", "1e400", "nan", "\x1b", "= 0"])
        )
        text = text[:at] + piece + text[at + length :]
    message = "my.toml is well"
    try:
        parse(text, "my.toml")
    except ProfileError as error:
        message = str(error)
    assert message.startswith("my.toml")
    assert message.isprintable()
