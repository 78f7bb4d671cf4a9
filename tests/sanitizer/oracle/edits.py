"""Programs with one step less: an event's record or wait, or a wait of the host, taken out."""

from collections.abc import Iterator
from typing import Any

ORDERING = (
    "record", "wait", "sync_stream", "sync_event", "sync_device", "sync_op", "record_notify", "wait_notify",
)  # fmt: skip


def without_each(document: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The index of each step of *document* that orders something, and the program without that step."""
    for index, step in enumerate(document["steps"]):
        if step["op"] in ORDERING:
            yield index, without(document, index)


def without(document: dict[str, Any], index: int) -> dict[str, Any]:
    """*document* without the step at *index*. What came after that step comes after the one before it."""
    steps = []
    for place, step in enumerate(document["steps"]):
        after = step.get("after")
        if place != index:
            moved = step if after is None or after < index else step | {"after": max(0, after - 1)}
            steps.append(moved)
    return document | {"id": f"{document['id']} without {index}", "steps": steps}
