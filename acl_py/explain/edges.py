"""Edges: the order that a program lacks between two of its steps, and the program that has it.

An edge from one stream to another is a record behind the first step and a wait before the second one. If the host makes
the second access, it synchronises with the stream, or with an event that is recorded there. If it made the first one,
the task that comes second waits for the other task.
"""

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from acl_py.calls.acts import SLEPT, Recorded, Synchronised, Waited
from acl_py.calls.steps import Name
from acl_py.explain.cases import Case, EditError, made_like
from acl_py.programs.format import Step


class Edge(NamedTuple):
    """The step at *behind* begins after what the step at *before* does is over.

    The stream of each is None if the host makes the access itself. A host that waits for a stream waits for all that
    the stream was given, or *by_event* for what it was given until the first step. *event* is the name of one that the
    program records there already.
    """

    before: int
    behind: int
    from_stream: str | None
    to_stream: str | None
    by_event: bool = False
    event: str = ""


def with_edges(case: Case, edges: Iterable[Edge], without: Container[int] = ()) -> Case:
    """Return *case* with *edges*, and without the steps that have the indices *without*.

    Raises:
        EditError: an edge goes back to an earlier step, or from one access of the host to another one of the same task.
    """
    steps, devices = case.program.steps, list[int]()
    events: dict[str, dict[str, Any]] = {}
    records: dict[int, Step] = {}  # behind each step
    waits: defaultdict[int, list[Step]] = defaultdict(list)  # before each step
    for edge in sorted({*edges}, key=lambda edge: edge[:2]):
        before, behind = steps[edge.before], steps[edge.behind]
        if edge.before >= edge.behind:
            raise EditError(f"step {edge.before} comes after step {edge.behind}, which should wait for it")
        name = edge.event or f"fix {edge.before}"
        if not edge.event and edge.from_stream is not None and (edge.to_stream is not None or edge.by_event):
            devices = devices or case.program.devices()
            events[name] = {"timing": False, "blocking": False, "device": devices[edge.before]}
            records[edge.before] = made_like(before, Recorded(Name("event", name), Name("stream", edge.from_stream)))
        waits[edge.behind].append(_wait(edge, name, before, behind))

    def change(step: Step) -> list[Step]:
        kept = [] if step.index in without else [step]
        return [*waits[step.index], *kept, *([records[step.index]] if step.index in records else [])]

    changed = case.with_program(events={**case.program.events, **events}).with_steps(change)
    return changed.noting("an event costs time to create, once; this is not included") if events else changed


def _wait(edge: Edge, event: str, before: Step, behind: Step) -> Step:
    """Return the step that waits before *behind*; that of another task comes after *before*."""
    if edge.from_stream is None:
        if before.task == behind.task:
            raise EditError("the host makes both accesses, one after the other")
        wait = made_like(behind, SLEPT, us=0)
    elif edge.to_stream is not None:
        wait = made_like(behind, Waited(Name("event", event), Name("stream", edge.to_stream)))
    elif edge.by_event:
        wait = made_like(behind, Synchronised(Name("event", event)))
    else:
        wait = made_like(behind, Synchronised(Name("stream", edge.from_stream)))
    return wait if before.task == behind.task else replace(wait, after=before.index)
