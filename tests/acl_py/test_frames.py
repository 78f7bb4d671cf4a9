"""The frames of all threads: the garbage collector does not run while the interpreter makes them."""

import gc
import linecache
import sys
import threading

from acl_py.waiting.frames import current_frames


def test_the_collector_does_not_run_while_the_interpreter_makes_frames():
    # Python 3.11 makes a frame object for each thread, and hangs if the collector runs then.
    lines = []

    def note(phase, _):
        frame = sys._getframe(1)
        lines.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())

    ends = threading.Event()
    threads = [threading.Thread(target=ends.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)  # every new object makes it run
    try:
        frames = current_frames()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)
        ends.set()
        for thread in threads:
            thread.join()
    assert {thread.ident for thread in threads} <= frames.keys()
    assert lines
    assert not any("_current_frames" in line for line in lines)


def test_a_look_leaves_the_collector_as_it_was():
    was_enabled = gc.isenabled()
    try:
        for enable, enabled in ((gc.disable, False), (gc.enable, True)):
            enable()
            assert threading.get_ident() in current_frames()
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
