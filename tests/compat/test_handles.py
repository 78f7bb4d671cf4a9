"""What is said of a handle that stands for nothing, or for something else."""

from inspect import iscoroutinefunction

import pytest
from card import done, made

import acl_py
from acl_py.wording import reword


def told(acl, code):
    """What the call that gave *code* said, without the name of its code."""
    message = acl.get_recent_err_msg()
    name, colon, what = message.partition(f" ({code}): ")
    assert colon, message
    assert name.startswith("ACL_ERROR")
    return what


def test_a_stale_handle_is_named_with_what_it_was_and_where_that_ended(acl):
    event, _ = acl.rt.create_event()
    stream, _ = acl.rt.create_stream()
    assert acl.rt.destroy_event(event) == acl.rt.destroy_stream(stream) == 0
    assert acl.rt.record_event(event, 0) == 107017
    assert told(acl, 107017) == f"{event:#x} is no longer an event: it was destroyed at test_handles.py:24"
    assert acl.rt.synchronize_stream(stream) == 107017
    assert told(acl, 107017) == f"{stream:#x} is no longer a stream: it was destroyed at test_handles.py:24"
    assert acl.rt.synchronize_stream(event) == 107017
    assert told(acl, 107017) == f"{event:#x} is not a stream: it was an event, destroyed at test_handles.py:24"


def test_a_handle_of_something_else_is_named_as_that(acl):
    stream, _ = acl.rt.create_stream()
    pointer, _ = acl.rt.malloc(64, 0)
    assert acl.rt.synchronize_event(stream) == 107017
    assert told(acl, 107017) == f"{stream:#x} is a stream, not an event"
    assert acl.rt.set_context(pointer) == 107017
    assert told(acl, 107017) == f"{pointer:#x} is the address of memory, not a context"
    assert acl.rt.destroy_stream(0xBAD) == 107017
    assert told(acl, 107017) == "0xbad is not a stream, nor any other handle"
    assert acl.rt.record_event(0, stream) == 100000
    assert told(acl, 100000) == "the event is 0"


@pytest.mark.parametrize(
    ("make", "end", "word"),
    [
        (lambda acl: acl.create_data_buffer(0, 0), lambda acl: acl.destroy_data_buffer, "data buffer"),
        (lambda acl: acl.mdl.create_dataset(), lambda acl: acl.mdl.destroy_dataset, "dataset"),
        (lambda acl: acl.mdl.create_desc(), lambda acl: acl.mdl.destroy_desc, "model description"),
        (lambda acl: acl.media.dvpp_create_pic_desc(), lambda acl: acl.media.dvpp_destroy_pic_desc, "picture"),
    ],
)
def test_what_is_destroyed_twice_is_named(acl, make, end, word):
    handle, destroy = make(acl), end(acl)
    assert destroy(handle) == 0
    assert destroy(handle) == 100000
    assert told(acl, 100000) == f"{handle:#x} is no longer a {word}: it was destroyed"


def test_only_the_last_handles_are_remembered(acl):
    first = acl.create_data_buffer(0, 0)
    acl.destroy_data_buffer(first)
    for _ in range(1000):
        acl.destroy_data_buffer(acl.create_data_buffer(0, 0))
    assert acl.destroy_data_buffer(first) == 100000
    assert told(acl, 100000) == f"{first:#x} is not a data buffer, nor any other handle"


def test_messages_name_the_functions_of_the_module(acl):
    stream, _ = acl.rt.create_stream()
    assert acl.rt.launch_callback(print, None, 0, stream) == 107015
    assert told(acl, 107015).endswith("has no thread to run its callbacks; call acl.rt.subscribe_report() for it first")
    context, _ = acl.rt.create_context(0)
    assert acl.rt.synchronize_stream(stream) == 107003
    assert told(acl, 107003).endswith("acl.rt.set_context() to its context first")
    assert acl.rt.destroy_context(context) == 0


CAPTURES_AND_GRAPHS = (
    "BeginCapture", "BeginCaptureToGraph", "EndCapture", "IsCapturing", "CaptureInfo",
    "ThreadExchangeStreamCaptureMode", "GraphCreate", "GraphAddEmptyNode", "GraphAddChildGraphNode", "GraphAddIfNode",
    "GraphClone", "GraphDestroy", "GraphInstantiate", "GraphUpload", "GraphLaunch", "GraphExecUpdate",
    "GraphExecDestroy", "UpdateCaptureDependencies", "GraphAddNode", "GraphAddConditionalNode", "GraphAddDependencies",
    "GraphRemoveDependencies", "GraphDestroyNode", "GraphNodeSetWork", "GraphExecNodeSetWork", "GraphNodeSetEnabled",
    "CaptureTaskGrpBegin", "CaptureTaskGrpEnd", "CaptureTaskUpdateBegin", "CaptureTaskUpdateEnd",
)  # fmt: skip
# CANN has no Python functions for these: programs call libhccl.
COLLECTIVES = (
    "AllGather", "AllReduce", "AlltoAll", "AlltoAllV", "AlltoAllVC", "Barrier", "BatchSendRecv", "Broadcast",
    "CommAbort", "CommDestroy", "CommInitAll", "CommInitRootInfo", "CommSplit", "GetCommAsyncError", "GetRankId",
    "GetRankSize", "GetRootInfo", "GroupEnd", "GroupStart", "Recv", "Reduce", "ReduceScatter", "Scatter", "Send",
)  # fmt: skip


def test_every_verb_that_has_a_function_is_named_by_it():
    verbs = {name for name in dir(acl_py) if iscoroutinefunction(getattr(acl_py, name))}
    unnamed = {verb for verb in verbs if reword(f"{verb}()") == f"{verb}()"}
    assert unnamed == {
        "EventQuery", "EventRecord", "EventSynchronize", "FreeAsync", "FreeHostWithDevSync", "FreeWithDevSync",
        "HostThread", "HostWork", "LaunchHostFunc", "MallocAsync", "MallocManaged", "MemAdvise", "MemPrefetchAsync",
        "MemcpyBatchAsync", "MemRangeGetAttribute", "SetMemPoolThreshold", "Sleep", "StreamAttachMemAsync",
        "StreamGetPriority", *CAPTURES_AND_GRAPHS, *COLLECTIVES,
    }, "a new verb without a function of acl? Add it to this set in tests/compat/test_handles.py"  # fmt: skip
    assert reword("Cost(us=1) of <Event 1>; call SetDevice()") == "Cost(us=1) of <Event 1>; call acl.rt.set_device()"


def test_handles_of_what_a_reset_ended(acl):
    """Of the default context, and of its default stream; the next set_device makes others."""
    context, stream = made(acl.rt.get_context()), made(acl.rt.ctx_get_current_default_stream())
    done(acl.rt.reset_device(0))
    stale = acl.rt.set_context(context), acl.rt.destroy_context(context), acl.rt.synchronize_stream(stream)
    assert stale == (107017, 107017, 107017)
    assert acl.rt.synchronize_stream(0) == 107002
    done(acl.rt.set_device(0))
    assert context != made(acl.rt.get_context())
    assert stream != made(acl.rt.ctx_get_current_default_stream())
    assert acl.rt.set_context(context) == acl.rt.synchronize_stream(stream) == 107017
    done(acl.rt.synchronize_stream(0))
