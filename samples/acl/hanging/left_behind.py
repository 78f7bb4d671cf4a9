"""Hangs: the main thread has ended, and Python waits for a thread whose wait never ends."""

import threading

import acl

acl.init()
acl.rt.set_device(0)
context, ret = acl.rt.get_context()
stream, ret = acl.rt.create_stream()
notify, ret = acl.rt.create_notify()


def wait():
    acl.rt.set_context(context)
    acl.rt.wait_and_reset_notify(notify, stream, 0)
    acl.rt.synchronize_stream(stream)


threading.Thread(target=wait, name="waits").start()
print("the main thread ends")
