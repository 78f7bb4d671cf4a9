"""Chunking: copies and kernels in parts, which can overlap in several streams.

Large copies between the host and the device become copies of equal parts. Kernels that touch the same buffers become
launches of which each touches its part of them, and takes its part of the time. Whether a kernel can work on parts of
its data is not known, and the note says so. Where the host waited for one operation, it waits for all of its parts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from acl_py.calls.acts import CaptureBegan, Queued, Synchronised
from acl_py.calls.steps import Name
from acl_py.explain.cases import Case, EditError, with_fields
from acl_py.programs.format import Program, Step

SMALLEST = 256 << 10  # bytes of a part: below, the fixed cost of a copy counts more than its overlap
_ALIGNED = 256  # where parts begin


def chunk(case: Case, count: int) -> Case:
    """Return *case* with its large copies, and the kernels on the same buffers, in *count* parts.

    Raises:
        EditError: no copy is large enough.
    """
    capture = next((step for step in case.program.steps if isinstance(step.act, CaptureBegan)), None)
    if capture is not None:
        raise EditError(
            f"chunks={count}: step {capture.index} ({capture.op}): the program captures graphs, whose nodes are not "
            "divided; change the capture instead"
        )
    chosen = divided(case.program, count * SMALLEST)
    if not chosen:
        raise EditError(f"chunks={count}: no asynchronous copy has {count * SMALLEST:,} bytes or more")
    split = set(chosen.values())
    kernels = list(dict.fromkeys(_name(step) for step in case.program.steps if _is_split(step, split)))

    def part_of(step: Step, part: int) -> Step:
        if step.index in chosen:
            return _part_of_copy(step, part, count)
        return _part_of_kernel(step, split, part, count)

    runs = {
        run[0].index: run
        for run in _runs(case.program.steps, lambda step: step.index in chosen or _is_split(step, split))
    }
    in_parts = {step.index for run in runs.values() for step in run}
    ids = {step.id for run in runs.values() for step in run}

    def change(step: Step) -> list[Step]:
        if step.index in runs:
            return [part_of(each, part) for part in range(count) for each in runs[step.index]]
        match step.act:
            case Synchronised(Name("operation", of)) if (
                of in ids
            ):  # in several streams, the last part need not end last
                return [with_fields(step, of=_id(of, part)) for part in range(count)]
        return [] if step.index in in_parts else [step]

    note = f"kernels work on parts, and a part takes its part of the time: {', '.join(kernels)}"
    return case.with_steps(change).noting(*([note] if kernels else []))


def divided(program: Program, least: int) -> dict[int, str]:
    """Return the asynchronous copies of *program* between the host and the device that have *least* bytes or more: the
    device buffer of each step, by its index.
    """
    on_device = program.buffers_in("device")
    return {
        step.index: buffer
        for step in program.steps
        if step.work == "copy" and isinstance(step.act, Queued) and step.fields.get("bytes", 0) >= least
        for buffer in [_device_end(step, on_device)]
        if buffer
    }


def _runs(steps: Sequence[Step], is_split: Callable[[Step], bool]) -> Iterator[list[Step]]:
    """Yield the steps to split, those that follow one another in one task together. Each part goes through all of them
    before the next one, as a person would write a loop over the parts.
    """
    for (split, _), run in groupby(steps, lambda step: (is_split(step), step.task)):
        if split:
            yield [*run]


def _device_end(step: Step, on_device: set[str]) -> str:
    """Return the device buffer of a copy between the host and the device; "" for other copies."""
    ends = [step.fields[end] for end in ("dst", "src") if step.fields[end] in on_device]
    return ends[0] if len(ends) == 1 else ""


def _is_split(step: Step, split: set[str]) -> bool:
    return step.is_kernel and any(name in split for name, _, _ in (*step.fields["reads"], *step.fields["writes"]))


def _part_of_copy(step: Step, part: int, count: int) -> Step:
    begin, end = _part(0, step.fields["bytes"], part, count)
    fields = {
        "bytes": end - begin,
        "dst_off": step.fields["dst_off"] + begin,
        "src_off": step.fields["src_off"] + begin,
    }
    return replace(with_fields(step, **fields), id=_id(step.id, part))


def _part_of_kernel(step: Step, split: set[str], part: int, count: int) -> Step:
    def parts(extents: Sequence[tuple[str, int, int]]) -> list[list[str | int]]:
        return [
            [name, *(_part(start, stop, part, count) if name in split else (start, stop))]
            for name, start, stop in extents
        ]

    times: dict[str, object] = {"us": round(step.fields["us"] / count, 3)}
    if step.fields.get("released"):
        times["released"] = [[round(us / count, 3), cores] for us, cores in step.fields["released"]]
    reads, writes = parts(step.fields["reads"]), parts(step.fields["writes"])
    return replace(with_fields(step, reads=reads, writes=writes, **times), id=_id(step.id, part))


def _id(whole: str | None, part: int) -> str | None:
    return None if whole is None else f"{whole}, part {part + 1}"


def _part(start: int, stop: int, part: int, count: int) -> tuple[int, int]:
    """Return where a part of the bytes *start* to *stop* begins and ends."""

    def edge(number: int) -> int:
        return stop if number == count else start + (stop - start) * number // count // _ALIGNED * _ALIGNED

    return edge(part), edge(part + 1)


def _name(step: Step) -> str:
    return str(step.fields.get("name") or step.id or "a kernel without a name")
