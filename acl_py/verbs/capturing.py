"""Records and waits in captures: they change what the next node of a stream depends on, and queue nothing."""

from acl_py.calls.acts import Recorded, Waited
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.completions import NOTHING, Completion
from device_model.events import Event
from device_model.graphs.capture import Branch
from device_model.streams import Stream


def record_in_capture(
    runtime: Runtime, name: str, branch: Branch, event: Event, site: Site, *, external: bool
) -> Completion:
    """Record *event* on the stream of *branch*, in a call of the verb *name*: for the capture, or, if it is *external*,
    at each launch.
    """
    enter = runtime.host_ns
    runtime.pay(runtime.profile.graphs.mark)
    if external:
        branch.capture.record_at_launch(branch.stream, event, site)
    else:
        branch.capture.record(branch.stream, event)
    runtime.called(name, enter, site, Recorded(event, branch.stream, int(external)))
    return NOTHING


def wait_in_capture(runtime: Runtime, name: str, stream: Stream, event: Event, site: Site, *, external: bool) -> None:
    """Let *stream* wait for *event*, where one of them belongs to a capture, in a call of the verb *name*; this may
    draw the stream in. An *external* wait is for the record that is the last one at each launch.
    """
    enter = runtime.host_ns
    runtime.pay(runtime.profile.graphs.mark)
    captured = event.captured
    if stream.branch is not None and external:
        stream.branch.capture.wait_at_launch(stream, event, site)
    elif stream.branch is not None:
        if captured is not None and captured.capture not in runtime.captures.running:
            runtime.captures.refuse_captured(runtime, event, name)
        stream.branch.capture.wait(stream, event, site, runtime.refuse)
    elif captured is not None:
        if captured.capture not in runtime.captures.running:
            runtime.captures.refuse_captured(runtime, event, name)
        runtime.captures.check_lost(runtime, captured.capture)
        captured.capture.draw_in(stream, captured.frontier, site)
    runtime.called(name, enter, site, Waited(event, stream, int(external)))
