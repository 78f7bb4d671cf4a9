"""What a notebook shows of streams, events, buffers and graphs."""

import re

from histories import tiny

import acl_py

SIZE = 4096


def shown(thing):
    """The title and the rows of a table, or the title and the picture of a graph."""
    html = thing._repr_html_()
    title = re.search(r"<(?:fig)?caption>(.*?)</", html)[1]
    rows = dict(re.findall(r"<th>(.*?)</th><td>(.*?)</td>", html))
    return title, {name: value for name, value in rows.items() if name != "made at"}


@tiny
async def test_a_stream_is_shown_with_its_state_and_priority():
    stream, x = await acl_py.CreateStream(name="up"), await acl_py.Malloc(SIZE)
    idle = shown(stream)
    await acl_py.MemsetAsync(x, SIZE, 0, SIZE, stream=stream)
    busy = shown(stream)
    await acl_py.SynchronizeStream(stream)
    await acl_py.DestroyStream(stream)
    rows = {"device": "0", "priority": "0"}
    assert idle == ("stream &#x27;up&#x27;", {"state": "idle", **rows})
    assert busy == (idle[0], {"state": "busy", **rows})
    assert shown(stream)[1]["state"].startswith("destroyed at ")


@tiny
async def test_an_event_is_shown_with_the_stream_of_its_record():
    event, stream = await acl_py.CreateEvent(), await acl_py.CreateStream(name="<b>")
    assert shown(event) == ("Event 1", {"state": "never recorded", "timing": "yes"})
    await acl_py.RecordEvent(event, stream)
    await acl_py.SynchronizeEvent(event)
    assert shown(event)[1] == {"state": "done", "recorded in": "stream &#x27;&lt;b&gt;&#x27;", "timing": "yes"}


@tiny
async def test_a_buffer_is_shown_without_a_look_at_its_bytes():
    x, host = await acl_py.Malloc(SIZE, name="x"), await acl_py.MallocHost(64)
    part = shown(x[16:48])
    assert part[0] == "allocation &#x27;x&#x27;"
    assert part[1] == {
        "memory": "device",
        "size": "32 B (32 bytes)",
        "part": "from byte 16 of 4.0 KiB",
        "address": hex(x.address + 16),
    }
    assert shown(host)[1] == {"memory": "pinned", "size": "64 B (64 bytes)"}
    await acl_py.Free(x)
    assert shown(x)[1]["state"].startswith("freed at ")
    assert not acl_py.current_simulation().trace.timeline().exports


@tiny
async def test_a_graph_is_shown_as_it_is_drawn():
    stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
    await acl_py.BeginCapture(stream)
    await acl_py.MemsetAsync(x, SIZE, 0, SIZE, stream=stream)
    await acl_py.MemsetAsync(x, SIZE, 1, SIZE, stream=stream)
    graph = await acl_py.EndCapture(stream)
    assert shown(graph)[0].startswith("graph 1 of 2 nodes made at ")
    assert graph.draw() in graph._repr_html_()
