"""What MindStudio Insight accepts: the rules of its importer, written down from its source and its manual.

Insight has no mode without a window, so no test can open a file in it. These functions raise AssertionError for a file
that its importer would refuse, or would take for something else.
"""

import json
import re
from itertools import pairwise

TIMELINE_NAMES = re.compile(r"^(trace_view|trace|msprof(_slice)?(_[0-9]{1,15}){1,4})\.json$")
PLACES = {"Python": 0, "CANN": 7, "Ascend Hardware": 13, "Overlap Analysis": 23}  # of its layers
PIPES = {"VECTOR", "SCALAR", "CUBE", "MTE1", "MTE2", "MTE3", "FIXP", "FLOWCTRL", "CACHEMISS", "USEMASK", "ALL"}


def check_timeline(path):
    """Check a timeline of the system, and return its events."""
    assert TIMELINE_NAMES.match(path.name), f"{path.name} is no name of a timeline"
    assert path.parent.name == "ASCEND_PROFILER_OUTPUT"
    assert path.parent.parent.name.endswith("_ascend_pt")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("["), "a timeline of the system is a bare list"
    assert '"profilingType"' not in text.split("[", 1)[0]
    events = json.loads(text)
    layers = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    labels = {event["pid"]: event["args"]["labels"] for event in events if event["name"] == "process_labels"}
    for pid, layer in layers.items():
        assert pid >> 5 & 31 == PLACES[layer], f"process {pid} is not in the place of {layer}"
        assert labels[pid] == ("CPU" if layer in ("Python", "CANN") else "NPU")
    for event in events:
        assert event["pid"] in layers
        if event["ph"] != "M":
            assert re.fullmatch(r"\d+\.\d{3}", event["ts"]), f"{event['ts']!r} is not text with three decimals"
        if event["ph"] == "f":
            assert event["bp"] == "e"
    starts, ends = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "sf")
    assert ends.keys() == starts.keys()
    return events


def check_cores(path):
    """Check the instructions of an operator, and return its events."""
    text = path.read_text(encoding="utf-8")
    assert re.search(r'"profilingType"\s*:\s*"op"', text.split("[", 1)[0]), "Insight takes it for a timeline"
    events = json.loads(text)["traceEvents"]
    for event in events:
        assert re.fullmatch(r"core\d+\.(vec|cube)core\d+", event["pid"])
        assert event["tid"] in PIPES
    flags = [event for event in events if event["ph"] in "BE"]
    for begin, end in list(pairwise(flags))[::2]:
        assert (begin["ph"], end["ph"]) == ("B", "E")
        assert [begin[key] for key in ("name", "pid", "tid")] == [end[key] for key in ("name", "pid", "tid")]
        assert begin["ts"] <= end["ts"]
    return events
