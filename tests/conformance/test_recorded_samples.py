"""Every sample: each of its simulations, written as a program, replays to the same timeline."""

import gc
import runpy
import sys
from pathlib import Path

import pytest
from roundtrips import differences, document_of

import acl_py
from acl_py.compat.acl import uninstall
from acl_py.compat.acl.face import current
from acl_py.recorded import notes_of
from acl_py.runtime.runtime import Runtime
from acl_py.trace import Trace

ROOT = Path(acl_py.__file__).parent.parent
FOLDERS = ("", "acl", "aicore", "attention", "server")
SAMPLES = [*(path for folder in FOLDERS for path in sorted((ROOT / "samples" / folder).glob("*.py"))),
           ROOT / "samples/moe/moe.py", ROOT / "samples/moe/graph.py"]  # fmt: skip
# What a program cannot say, by sample: it notes that, and need not replay to the same timeline.
NOT_IN_PROGRAMS = {
    "13_faults": "faults were injected",
    "async_inference": "a thread of the script waited for callbacks",
}


def timelines(path, monkeypatch):
    """The timelines of all simulations of a sample, each with its profile."""
    runs = []
    close = Runtime.close

    def close_and_keep(runtime, why):
        traces = [each for each in runtime.hooks._observers if isinstance(each, Trace)]
        if traces and runtime.closed is None:
            runs.append((traces[0].timeline(), runtime.profile))
        close(runtime, why)

    with monkeypatch.context() as patched:
        patched.setattr(Runtime, "close", close_and_keep)
        patched.setattr(
            current, "are_failures_told_at_once", False
        )  # a script of acl sets it for the rest of its process
        patched.setattr(sys, "argv", [str(path)])
        patched.chdir(path.parent)
        patched.syspath_prepend(str(path.parent))
        if path.parent.name == "acl":
            patched.syspath_prepend(str(ROOT / "acl_py/compat/path"))
        try:
            left = runpy.run_path(str(path), run_name="__main__")
            left.clear()
            gc.collect()  # objects that end their models when they go
        except SystemExit as end:
            if end.code:
                raise AssertionError(f"{path} failed") from end
        finally:
            uninstall()
            for name in [name for name in sys.modules if name.split(".")[0] == "acl"]:
                del sys.modules[name]  # other tests install one of their own
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_sample_replays_to_the_same_timeline(path, monkeypatch, capsys):
    runs = timelines(path, monkeypatch)
    capsys.readouterr()
    told = [document_of(timeline)["notes"] for timeline, _ in runs]
    assert [notes_of(timeline) for timeline, _ in runs] == told  # without the program
    notes = ["".join(each) for each in told]
    missing = NOT_IN_PROGRAMS.get(path.stem)
    assert missing is None or any(missing in note for note in notes)
    for (timeline, profile), note in zip(runs, notes, strict=True):
        if missing is None or missing not in note:
            assert differences(timeline, device=profile) == []
