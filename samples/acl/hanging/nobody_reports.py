"""Hangs: a blocking callback is queued, and the thread that subscribed for it has ended without process_report."""

import acl

ACL_CALLBACK_BLOCK = 1


def report(context):
    acl.rt.set_context(context)  # the loop with process_report is missing


acl.init()
acl.rt.set_device(0)
context, ret = acl.rt.get_context()
stream, ret = acl.rt.create_stream()
thread, ret = acl.util.start_thread(report, context)
acl.rt.subscribe_report(thread, stream)
acl.rt.launch_callback(print, "called back", ACL_CALLBACK_BLOCK, stream)
acl.rt.synchronize_stream(stream)
print("not reached")
