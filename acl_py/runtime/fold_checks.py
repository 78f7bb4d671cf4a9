"""The check of folds: some ranks of each class run beside the first one, and must do the same at the same times."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from acl_py.runtime.folds import own_device
from acl_py.runtime.runtime import Runtime
from device_model.completions import Completion, Nanoseconds
from device_model.events import Event
from device_model.observe import Observer
from device_model.ops import Op
from device_model.streams import Stream

Entry = tuple[str, int, Nanoseconds, Nanoseconds, object]  # what, how many bytes, from when to when, and its line


def parted_for_checks(classes: Sequence[Sequence[int]]) -> tuple[list[list[int]], dict[int, int]]:
    """Return *classes* without the ranks that are to be checked, which are classes of their own; and for each of those
    the rank that it must be like.

    They are the second and the last of each class, and the one in the middle. So ranks that send to ranks at the same
    place of another class keep their peers.
    """
    parted: list[list[int]] = []
    checks: dict[int, int] = {}
    for each in classes:
        places = sorted({1, len(each) // 2, len(each) - 1} - {0}) if len(each) > 1 else []
        chosen = [each[place] for place in places]
        parted.append([rank for rank in each if rank not in chosen])
        parted += [[rank] for rank in chosen]
        checks.update(dict.fromkeys(chosen, each[0]))
    return parted, checks


class Diary(Observer):
    """What the ranks of *checks* do, and those that they must be like: calls, and operations of their devices."""

    def __init__(self, runtime: Runtime, checks: Mapping[int, int]) -> None:
        self._runtime = runtime
        self._checks = checks
        ranks = sorted({rank for pair in checks.items() for rank in pair})
        self._calls: dict[int | None, list[Entry]] = {rank: [] for rank in ranks}
        self._ops: dict[int, list[Entry]] = {rank: [] for rank in ranks}

    def __enter__(self) -> None:
        if self._checks:
            self._runtime.hooks.add(self)

    def __exit__(self, *_: object) -> None:
        if self._checks:
            self._runtime.hooks.remove(self)

    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, _: Any) -> None:
        """Keep a call."""
        self._keep((f"{name}()", 0, enter_ns, exit_ns, site))

    def op_queued(self, op: Op) -> None:
        """Keep what was queued."""
        self._keep((f"queuing {op.work.label.name}", op.nbytes, op.queued_ns, op.queued_ns, op.site))

    def recorded(self, _: Event, __: Stream, enter_ns: Nanoseconds, site: object, ___: Completion) -> None:
        """Keep a record."""
        self._keep(("RecordEvent()", 0, enter_ns, self._runtime.host_ns, site))

    def waited(self, _: Event, __: Stream, enter_ns: Nanoseconds, site: object, ___: Completion) -> None:
        """Keep a wait of a stream."""
        self._keep(("StreamWaitEvent()", 0, enter_ns, self._runtime.host_ns, site))

    def _keep(self, entry: Entry) -> None:
        kept = self._calls.get(own_device.get())
        if kept is not None:
            kept.append(entry)

    def op_ended(self, op: Op) -> None:
        """Keep what has run."""
        kept = self._ops.get(op.stream.context.device.ordinal)
        if kept is not None:
            kept.append((op.work.label.name, op.nbytes, op.start_ns, op.end_ns, op.site))

    def compare(self) -> None:
        """Raise RuntimeError if a rank did anything else, or at another time, than the one that it must be like."""
        for rank, first in self._checks.items():
            for mine, its in ((self._calls[rank], self._calls[first]), (self._ops[rank], self._ops[first])):
                same = takewhile(lambda pair: pair[0] == pair[1], zip(mine, its, strict=False))
                place = sum(1 for _ in same)
                if place < max(len(mine), len(its)):
                    raise RuntimeError(
                        f"rank {rank} is not like rank {first}, which would stand for it: rank {rank} "
                        f"{_text(mine, place)}, and rank {first} {_text(its, place)}; tell them apart with alike="
                    )


def _text(entries: Sequence[Entry], place: int) -> str:
    if place >= len(entries):
        return "has done no more"
    what, nbytes, begin, end, site = entries[place]
    size = f" of {nbytes:,} bytes" if nbytes else ""
    return f"had {what}{size} at {site} from {begin:,} to {end:,} ns"
