"""The threads that could still act while others are blocked."""

import threading

from acl_py.waiting.frames import current_frames
from acl_py.waiting.threads import Company


def wait_until_in_join(thread):
    while True:
        frame = current_frames()[thread.ident]
        while frame is not None:
            if frame.f_code is threading.Thread.join.__code__:
                return
            frame = frame.f_back


def test_a_thread_could_act_if_it_has_begun_while_the_threads_were_looked_at(monkeypatch):
    """Its parent was on the list, and waits for a blocked thread when its turn comes to be looked at."""
    company, listed, ends = Company(), threading.Event(), threading.Event()

    def work():
        while not ends.is_set():
            pass

    blocked, child = threading.Thread(target=ends.wait), threading.Thread(target=work, name="child")

    def begin_and_join():
        listed.wait()
        child.start()
        blocked.join()

    parent = threading.Thread(target=begin_and_join)
    blocked.start()
    parent.start()
    enumerate_threads = threading.enumerate

    def list_late():
        threads = enumerate_threads()
        listed.set()
        wait_until_in_join(parent)
        return threads

    monkeypatch.setattr(threading, "enumerate", list_late)
    able = company.could_act([threading.main_thread(), blocked])
    monkeypatch.undo()
    ends.set()
    for thread in (blocked, parent, child):
        thread.join()
    assert able == ["thread 'child'"]


def test_a_thread_that_is_about_to_sleep_at_a_condition_could_act():
    """It still holds the condition's lock then, and a thread that is about to wake it may wait for that lock."""
    company, condition, gate = Company(), threading.Condition(), threading.Lock()
    condition._release_save = gate.acquire  # the wait stops here, before it lets go of the lock
    condition._acquire_restore = lambda _: None
    gate.acquire()

    def wait():
        with condition:
            condition.wait()

    def wait_until(has_let_go):
        while True:
            frame = current_frames()[thread.ident]
            if frame.f_code is threading.Condition.wait.__code__ and ("gotit" in frame.f_locals) is has_let_go:
                return

    thread = threading.Thread(target=wait, name="waiter")
    thread.start()
    wait_until(has_let_go=False)
    about_to_sleep = company.could_act([threading.main_thread()])
    gate.release()
    wait_until(has_let_go=True)
    asleep = company.could_act([threading.main_thread()])
    condition._waiters.popleft().release()
    thread.join()
    assert (about_to_sleep, asleep) == (["thread 'waiter'"], [])
