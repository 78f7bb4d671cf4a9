"""Edits: what a program, its device or its rules would be with one change, such as pinned memory or more streams.

`parse` reads an edit as users write it, and `apply` makes it. An edit is checked against the case that it is applied
to: a name that is not in it is refused with those that are. Some edits leave out what only a run of the changed
program can tell; the notes of the case say so.

    case = apply(parse("pinned=weights"), case)
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite

from acl_py.calls.acts import Made
from acl_py.calls.steps import OPS, Name
from acl_py.explain.buckets import bucket
from acl_py.explain.cases import NOTES_OF_PINNED, Case, EditError, with_fields
from acl_py.explain.chunking import chunk
from acl_py.explain.relisting import relist
from acl_py.programs.format import Program, Step
from acl_py.trace.views.shown import shown
from device_model.errors import listed, printable
from device_model.kernel.ranges import MOST
from device_model.profile import DeviceProfile, ProfileError, load
from device_model.rules import RULES, DefaultStream
from device_model.speeds import SpeedError, faster

MOST_STREAMS = 1024  # for streams=N: more than any card runs side by side
MOST_CHUNKS = 64
_MOST_CORES = 4096
_BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Edit:
    """One change, as users write it: *name*, with *value* after an equals sign, *of* whom after a colon."""

    name: str
    of: str = ""
    value: str = ""

    def __str__(self) -> str:
        of = f":{self.of}" if self.of else ""
        return f"{self.name}{of}" + (f"={self.value}" if self.value else "")


def parse_all(text: str) -> list[Edit]:
    """Return the edits that *text* says, separated by commas: they are made one after the other.

    Raises:
        EditError: as `parse`.
    """
    return [parse(part) for part in re.split(_BEFORE_AN_EDIT, text)]


def parse(text: str) -> Edit:
    """Return the edit that *text* says.

    Raises:
        EditError: There is no such edit, or it has no value where it needs one.
    """
    left, _, value = text.strip().partition("=")
    name, _, of = left.partition(":")
    if name not in _MAKERS:
        near = get_close_matches(name, _MAKERS, 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {FORMS}"
        raise EditError(f"there is no what-if {printable(text)!r}; {meant}")
    takes_value, needs_value = name not in _WITHOUT_VALUE, name not in (*_WITHOUT_VALUE, *_VALUE_OPTIONAL)
    if bool(of) != (name in _OF_SOMEBODY) or (value and not takes_value) or (needs_value and not value):
        raise EditError(f"{printable(text)!r}: is written {_FORMS[name]}")
    if name == "device":
        _profile(Edit(name, of, value))
    return Edit(name, of, value)


def apply(edit: Edit, case: Case) -> Case:
    """Return *case* with *edit*.

    Raises:
        EditError: the value cannot be used, or names something that the case does not have.
    """
    return _MAKERS[edit.name](edit, case)


# --- the edits


def _pinned(edit: Edit, case: Case) -> Case:
    buffers = case.program.buffers
    pageable = [name for name, options in buffers.items() if options["space"] == "pageable"]
    if edit.value and edit.value not in buffers:
        raise EditError(f"{edit}: there is no buffer {printable(edit.value)!r}; pageable buffers: {_some(pageable)}")
    if edit.value and edit.value not in pageable:
        raise EditError(f"{edit}: this buffer is {buffers[edit.value]['space']} memory already")
    return pin(case, [edit.value] if edit.value else pageable)


def pin(case: Case, names: Iterable[str]) -> Case:
    """Return *case* with the buffers of these *names* in pinned memory."""
    buffers = dict(case.program.buffers)
    buffers |= {name: {**buffers[name], "space": "pinned"} for name in names}
    return case.with_program(buffers=buffers).noting(*NOTES_OF_PINNED)


def _nonblocking(edit: Edit, case: Case) -> Case:
    known = _streams(case.program)
    if edit.value and edit.value not in known:
        raise EditError(f"{edit}: there is no stream {printable(edit.value)!r}; there are {_some(known)}")
    names = {edit.value} if edit.value else set(known)
    streams = {
        name: {**options, "flags": "nonblocking"} if name in names else options
        for name, options in case.program.streams.items()
    }

    def change(step: Step) -> list[Step]:
        match step.act:
            case Made(_, Name("stream", stream)) if stream in names:
                return [with_fields(step, flags="nonblocking")]
        return [step]

    return case.with_program(streams=streams).with_steps(change)


def _per_thread(edit: Edit, case: Case) -> Case:
    rules = RULES["cuda_per_thread"]
    if case.rules.default_stream is not DefaultStream.LEGACY:
        raise EditError(f"{edit}: the rules {case.rules.name} have no legacy default stream")

    names = {("stream", "legacy"): "per_thread"}

    def change(step: Step) -> list[Step]:
        changed = {
            part: field.renamed(step.fields[part], names)
            for part, field in OPS[step.op].items()
            if any(each in names for each in field.mentions(step.fields[part]))
        }
        return [with_fields(step, **changed) if changed else step]

    return replace(case, rules=rules).with_steps(change)


def _more_streams(edit: Edit, case: Case) -> Case:
    return relist(case, _count(edit, MOST_STREAMS))


def _in_parts(edit: Edit, case: Case) -> Case:
    return chunk(case, _count(edit, MOST_CHUNKS))


def _bandwidth(edit: Edit, case: Case) -> Case:
    factor = _factor(edit)
    return replace(case, device=faster(case.device, edit.name, factor)).noting(
        f"{edit}: the part of a copy's time that grows with its size is divided by {factor:g}; its fixed part stays"
    )


def _links(edit: Edit, case: Case) -> Case:
    factor = _factor(edit)
    try:
        device = faster(case.device, edit.name, factor)
    except SpeedError as error:
        raise EditError(f"{edit}: {error}") from error
    return replace(case, device=device).noting(
        f"{edit}: only what links between cards carry is multiplied by {factor:g}, not the bus of the host, which is "
        "h2d and d2h; the limits of copies and of the channels of collectives stay"
    )


def _kernel(edit: Edit, case: Case) -> Case:
    factor = _factor(edit)
    names = {name for step in case.program.steps if step.is_kernel for name in _names(step)}
    if edit.of not in names:
        raise EditError(f"{edit}: there is no kernel {printable(edit.of)!r}; there are {_some(sorted(names))}")

    def change(step: Step) -> list[Step]:
        if not step.is_kernel or edit.of not in _names(step):
            return [step]
        return [scaled(step, factor)]

    return case.with_steps(change)


def scaled(step: Step, factor: float) -> Step:
    """Return the launch of a kernel that takes *factor* times as long."""
    times = {"us": round(step.fields["us"] * factor, 3)}
    if step.fields.get("released"):
        times["released"] = _scaled(step.fields["released"], factor)
    if step.fields.get("more"):
        times["more"] = [[round(us * factor, 3), _scaled(ends, factor)] for us, ends in step.fields["more"]]
    return with_fields(step, **times)


def _cores(edit: Edit, case: Case) -> Case:
    count = _count(edit, _MOST_CORES)
    widest = max((step.fields["cores"] for step in case.program.steps if "cores" in step.fields), default=0)
    if widest > count:
        cores = shown("AI cores", case.device.name, case.rules.name)
        raise EditError(f"{edit}: a kernel of this program takes {widest} {cores} at once")
    return case.on_device(cores={"count": count}).noting(
        f"{edit}: kernels have the same number of blocks, each as long as before; only how many run at a time changes"
    )


def _profile(edit: Edit) -> DeviceProfile:
    try:
        return load(edit.value)
    except ProfileError as error:
        raise EditError(f"{edit}: {error}") from error


def _device(edit: Edit, case: Case) -> Case:
    device = _profile(edit)
    said = {name for step in case.program.steps if step.is_kernel for name in _names(step)[:1]}
    note = f"the times of kernels are those of the run, not rescaled for {device.name}: {_some(sorted(said))}"
    return replace(case, device=device).noting(*([note] if said else []))


def _queue_depth(edit: Edit, case: Case) -> Case:
    depth = MOST if edit.value == "inf" else _count(edit, MOST)
    return case.on_device(queues={"depth": depth})


def _buckets(edit: Edit, case: Case) -> Case:
    size = re.fullmatch(rf"(\d{{1,15}}(?:\.\d{{1,9}})?)({'|'.join(_BYTES)})", edit.value, re.ASCII)
    limit = 0 if size is None else int(float(size[1]) * _BYTES[size[2]])
    if not 1 <= limit <= MOST:
        raise EditError(f"{edit}: the value must be a size, such as 25MB; units are {', '.join(_BYTES)}")
    try:
        return bucket(case, limit)
    except EditError as error:
        raise EditError(f"{edit}: {error}") from error


_MAKERS: Mapping[str, Callable[[Edit, Case], Case]] = {
    "pinned": _pinned,
    "nonblocking": _nonblocking,
    "per-thread": _per_thread,
    "streams": _more_streams,
    "chunks": _in_parts,
    "h2d": _bandwidth,
    "d2h": _bandwidth,
    "d2d": _bandwidth,
    "links": _links,
    "kernel": _kernel,
    "cores": _cores,
    "device": _device,
    "queue-depth": _queue_depth,
    "bucket": _buckets,
}
_FORMS = {
    "pinned": "pinned or pinned=BUFFER",
    "nonblocking": "nonblocking or nonblocking=STREAM",
    "per-thread": "per-thread",
    "streams": "streams=N",
    "chunks": "chunks=N",
    "h2d": "h2d=2x",
    "d2h": "d2h=2x",
    "d2d": "d2d=2x",
    "links": "links=2x",
    "kernel": "kernel:NAME=0.5x",
    "cores": "cores=N",
    "device": "device=NAME",
    "queue-depth": "queue-depth=N or queue-depth=inf",
    "bucket": "bucket=25MB",
}
_WITHOUT_VALUE, _VALUE_OPTIONAL, _OF_SOMEBODY = ("per-thread",), ("pinned", "nonblocking"), ("kernel",)
FORMS = ", ".join(_FORMS.values())
_BEFORE_AN_EDIT = rf",(?=\s*(?:{'|'.join(_FORMS)})(?:[:=,]|\s*$))"  # names of kernels may have commas


def _scaled(released: Iterable[tuple[float, int]], factor: float) -> list[list[float]]:
    return [[round(us * factor, 3), cores] for us, cores in released]


def _names(step: Step) -> list[str]:
    """Return the names under which users know a kernel: its own, and that of its step."""
    return [name for name in (step.fields.get("name"), step.id) if name is not None]


def _streams(program: Program) -> list[str]:
    made = (step.act for step in program.steps if isinstance(step.act, Made))
    return [*program.streams, *(act.thing.name for act in made if act.thing.kind == "stream")]


def _factor(edit: Edit) -> float:
    try:
        factor = float(edit.value.removesuffix("x"))
    except ValueError:
        factor = 0
    if not edit.value.endswith("x") or not isfinite(factor) or not 1e-6 <= factor <= 1e6:
        raise EditError(f"{edit}: the value must be a number from 1e-6 to 1e6 with an x, such as 2x")
    return factor


def _count(edit: Edit, most: int) -> int:
    value = edit.value
    if not value.isascii() or not value.isdecimal() or len(value) > len(str(most)) or not 1 <= int(value) <= most:
        raise EditError(f"{edit}: the value must be a whole number from 1 to {most:,}")
    return int(value)


def _some(names: Iterable[str]) -> str:
    there = dict.fromkeys(names)
    return listed(there) if there else "none"
