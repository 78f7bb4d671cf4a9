"""Files that are written: the old one or the whole new one, and nothing else whose name does not say what it is."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from acl_py.whole_files import UNFINISHED, write_text, writing, writing_text
from tests import forks

BROKEN_OFF = Path(__file__).with_name("broken_off.py")
FORMATS = ("chrome", "kineto", "csv", "msprof", "msprof-op", "acl", "program", "page", "json")
SCRIPT = "import acl\nacl.rt.set_device(0)\nacl.rt.malloc(4096, 0)\n"


def break_off(folder, how, *formats):
    done = forks.run(BROKEN_OFF, how, *formats, cwd=folder)
    assert done.stderr == ""
    return done.stdout


def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path):
    assert break_off(tmp_path, 4, "chrome", "acl") == "broken off 8 times\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", [*FORMATS, "notebooks"])
def test_24_kills_leave_the_old_file_or_the_new_one(tmp_path, form):
    assert break_off(tmp_path, 24, form) == "broken off 24 times\n"


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    assert break_off(tmp_path, "full", *FORMATS) == "broken off 9 times\n"


@pytest.mark.slow
def test_a_full_disk_leaves_whole_notebooks(tmp_path):
    assert break_off(tmp_path, "full", "notebooks") == "broken off 1 times\n"


def test_a_block_that_raises_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with suppress(KeyboardInterrupt), writing_text(path) as file:
        file.write("new" * 10_000)
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_keeps_its_mode_and_a_new_one_follows_the_umask(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o4751)
    before = os.umask(0o027)
    try:
        write_text(old, "text")
        write_text(new, "text")
    finally:
        os.umask(before)
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in (old, new)] == ["0o4751", "0o640"]


def test_a_link_keeps_pointing_at_the_file(tmp_path):
    (tmp_path / "folder").mkdir()
    link, far = tmp_path / "link", tmp_path / "far"
    link.symlink_to("far")
    far.symlink_to("folder/file")  # which does not exist yet
    for text in ("one", "two"):
        write_text(link, text)
        assert (tmp_path / "folder" / "file").read_text() == text
    assert (os.readlink(link), os.readlink(far)) == ("far", "folder/file")
    assert sorted(os.listdir(tmp_path)) == ["far", "folder", "link"]


def test_devices_and_pipes_are_written_as_they_are(tmp_path):
    master, terminal = os.openpty()
    write_text(os.ttyname(terminal), "text")
    assert os.read(master, 100) == b"text"
    os.close(master)
    os.close(terminal)
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_not_replaced(tmp_path):
    """A device of the test's own: a test that failed as root would replace that of the machine."""
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
    except PermissionError:
        pytest.skip("only root can make a device")
    write_text(null, "text")
    assert stat.S_ISCHR(null.stat().st_mode)


def test_an_open_file_is_written_and_not_replaced(tmp_path):
    """/dev/stdout is a link to the file that the shell has opened; replacing that would lose what follows."""
    link = tmp_path / "link"
    with (tmp_path / "output").open("wb+") as output:
        link.symlink_to(f"/dev/fd/{output.fileno()}")
        for path in (f"/dev/fd/{output.fileno()}", link):
            write_text(path, "text")
            output.seek(0, os.SEEK_END)
            output.write(b" and more")
            output.flush()
            assert (tmp_path / "output").read_text() == "text and more"
            output.truncate(0)


def test_a_name_that_leaves_no_room_for_another(tmp_path):
    path = tmp_path / ("\u00e9" * 127)
    with writing(path) as file:
        (unfinished,) = os.listdir(tmp_path)
        assert UNFINISHED in unfinished
        file.write(b"text")
    assert path.read_bytes() == b"text"


READ_ONLY = """
import os, sys
os.setuid(65534)  # root may write everywhere
from acl_py.whole_files import write_text
for path in ("closed/new", "closed/old", "protected"):
    try:
        write_text(path, "new")
    except OSError as error:
        print(error.filename, error.strerror)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_what_may_not_be_written_is_left_alone(tmp_path):
    """A file in a folder that is read-only, and a file that is."""
    tmp_path.parent.parent.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    tmp_path.chmod(0o777)
    closed, protected = tmp_path / "closed", tmp_path / "protected"
    closed.mkdir()
    for path in (closed / "old", protected):
        path.write_text("old")
        path.chmod(0o444)
    (closed / "old").chmod(0o666)
    closed.chmod(0o555)
    done = forks.run("-c", READ_ONLY, cwd=tmp_path)
    lines = [f"{path} Permission denied\n" for path in ("closed/new", "closed/old", "protected")]
    assert (done.stdout, done.stderr) == ("".join(lines), "")
    assert [(closed / "old").read_text(), protected.read_text()] == ["old", "old"]
    assert os.listdir(closed) == ["old"]


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # the limit would cut the files of Python's cache
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
sys.argv[0] = "acl-py"
from acl_py.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "options",
    [
        ["--trace", "out", "--format", "chrome"], ["--trace", "out", "--format", "kineto"],
        ["--trace", "out", "--format", "csv"], ["--trace", "out", "--format", "acl"],
        ["--trace", "out", "--format", "program"], ["--report", "out"],
        ["--sanitize", "--findings", "out"],
    ],
)  # fmt: skip
def test_a_run_whose_file_cannot_be_written_ends_with_5(tmp_path, options):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "out").write_text("old")
    done = forks.run("-c", LIMITED, "run", *options, "script.py", cwd=tmp_path)
    assert "out: cannot be written: File too large" in done.stderr
    assert done.returncode == 5
    assert (tmp_path / "out").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["out", "script.py"]


@pytest.mark.parametrize(("code", "expected"), [(7, 7), (0, 5)])
def test_a_script_that_fails_keeps_its_exit_code(tmp_path, code, expected):
    (tmp_path / "script.py").write_text(f"{SCRIPT}raise SystemExit({code})")
    done = forks.run("-m", "acl_py", "run", "--strict", "--trace", "no/such", "script.py", cwd=tmp_path)
    assert "no/such: cannot be written: No such file or directory" in done.stderr
    assert done.returncode == expected


def test_a_file_that_is_written_well_changes_no_exit_code(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = forks.run("-m", "acl_py", "run", "--trace", "/dev/stdout", "script.py", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith('{"displayTimeUnit"')
