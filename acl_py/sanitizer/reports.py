"""Reports: findings as text, JSON, SARIF 2.1.0, and annotations of GitHub."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

from acl_py.findings import FAILURE, Access, Finding, Kind
from acl_py.sanitizer.suppressions import Suppression
from device_model.errors import listed
from device_model.frozen import Frozen

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MEANINGS = {
    Kind.RACE: "Two accesses to the same bytes, at least one of which writes, are in no order.",
    Kind.RELIES: "Two accesses are in order only because a call waits that need not wait.",
    Kind.USE_AFTER_FREE: "Memory is used that was freed.",
    Kind.DOUBLE_FREE: "Memory is freed a second time.",
    Kind.AFTER_DESTROY: "A stream, an event, a notify or a context is used that was destroyed.",
    Kind.BEFORE_ALLOCATION: "Memory is used before its asynchronous allocation has had its turn.",
    Kind.FREE_IN_USE: "Memory is freed while queued work still uses it.",
    Kind.UNINITIALISED: "Bytes are read before anything has written them.",
    Kind.LEAK: "Memory or an object is never given back.",
    Kind.PORTABILITY: "The program is right under some rules of synchronisation only.",
    Kind.WAIT: "A signal is stale or lost, or nothing ends a wait for it.",
    Kind.DEADLOCK: "A wait can never end.",
    Kind.KERNEL: "A core kernel breaks a rule of its language.",
}
_BRIEF = 10  # findings in a brief report
_PTX = re.compile(r"PTX line \d+(?: \((.+):(\d+)\))?")  # with the line of the source, if the compiler has kept it
_NO_SOURCE = (
    "a kernel has no lines of its source: compile it with @cuda.jit(lineinfo=True), ProgramOptions(lineinfo=True) "
    "or -lineinfo"
)
_SPANS = 8  # ranges of bytes in a finding


class ReportForm(Enum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class Report(Frozen):
    """What the sanitizer found in one or more runs.

    Attributes:
        findings: Those that count.
        suppressed: Those that a project accepts, each with its suppression.
        unused: The suppressions that accept none of them.
        notes: What the sanitizer did not see or took for granted.
    """

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, Suppression], ...] = ()
    unused: tuple[Suppression, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the report as lines of text, each finding with its accesses, the missing edge and the fix."""
        lines = [line for finding in self.findings for line in details(finding)]
        lines += [
            f"suppressed: {finding.id}: {suppression.reason} ({_times(finding.count)})"
            for finding, suppression in self.suppressed
        ]
        lines += [
            f"unused: the suppression of {each} in {each.where} accepts no finding: take it out" for each in self.unused
        ]
        return "\n".join([self.headline, *lines, *(f"note: {note}" for note in (*self.notes, *self._about_sources()))])

    @property
    def mistakes(self) -> list[str]:
        """The text of each finding that counts, and below it its fix: as a page shows it."""
        return [
            "\n".join((f"{each} [{each.id}]", *([f"fix: {each.fix}"] if each.fix else ()))) for each in self.findings
        ]

    def brief(self) -> str:
        """Return a line for each of the first findings, and its fix; "" if there is nothing to say."""
        lines = []
        for finding in self.findings[:_BRIEF]:
            lines.append(f"  {finding} [{finding.id}]")
            if finding.fix:
                lines.append(f"    fix: {finding.fix}")
        if len(self.findings) > _BRIEF:
            lines.append(f"  and {len(self.findings) - _BRIEF:,} more")
        if lines:
            lines.insert(0, f"{self.headline}; --sanitize shows the details, and makes the exit code 4")
            lines += [f"  note: {note}" for note in self._about_sources()]
        return "\n".join([*lines, *(note for note in self.notes if note.startswith(FAILURE))])

    def _about_sources(self) -> Iterator[str]:
        """Yield how findings get the lines of a source, if one is in a text of PTX that has none."""
        sites = (access.site for finding in self.findings for access in finding.accesses)
        if any((match := _PTX.fullmatch(site)) and match[1] is None for site in sites):
            yield _NO_SOURCE

    @property
    def headline(self) -> str:
        """How many findings there are, and of which kinds, in a line."""
        count = len(self.findings)
        accepted = f", {len(self.suppressed)} suppressed" if self.suppressed else ""
        if not count:
            return f"the sanitizer found nothing{accepted}"
        kinds = ", ".join(dict.fromkeys(finding.kind.value for finding in self.findings))
        return f"the sanitizer found {count} finding{'s' * (count > 1)} ({kinds}){accepted}"

    def json(self) -> str:
        """Return the report as a JSON object; the fields are those of Finding, Access and Span."""
        document = {
            "version": 1,
            "findings": [_plain(finding) for finding in self.findings],
            "suppressed": [{**_plain(finding), "reason": by.reason} for finding, by in self.suppressed],
            "unused": [{"id": each.id, "site": each.site, "reason": each.reason} for each in self.unused],
            "notes": list(self.notes),
        }
        return json.dumps(document, indent=2) + "\n"

    def sarif(self, version: str, folder: Path) -> str:
        """Return the report in SARIF 2.1.0, by acl_py of this *version*; paths in *folder* are relative to it."""
        kinds = list(dict.fromkeys(finding.kind for finding in self._all))
        driver = {
            "name": "acl_py",
            "version": version,
            "rules": [{"id": kind.word, "shortDescription": {"text": _MEANINGS[kind]}} for kind in kinds],
        }
        suppressions = {
            finding.key: [{"kind": "external", "justification": by.reason}] for finding, by in self.suppressed
        }
        results = [
            _result(finding, kinds, folder)
            | ({"suppressions": suppressions[finding.key]} if finding.key in suppressions else {})
            for finding in self._all
        ]
        notifications = [{"level": "note", "message": {"text": note}} for note in self.notes]
        run = {
            "tool": {"driver": driver},
            "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
            "originalUriBaseIds": {"ROOT": {"uri": f"{folder.resolve().as_uri()}/"}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }
        return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"

    @property
    def _all(self) -> list[Finding]:
        return [*self.findings, *(finding for finding, _ in self.suppressed)]

    def github(self, folder: Path) -> str:
        """Return a command for GitHub's runner for each finding: it shows a warning at the line of its last access."""
        return "".join(f"{line}\n" for finding in self.findings for line in _annotation(finding, folder))


def judge(findings: Iterable[Finding], suppressions: Sequence[Suppression], notes: Iterable[str] = ()) -> Report:
    """Return a report of *findings*, of which those that *suppressions* accept do not count."""
    kept: list[Finding] = []
    suppressed: list[tuple[Finding, Suppression]] = []
    used: set[Suppression] = set()
    for finding in findings:
        matching = [each for each in suppressions if each.matches(finding)]
        used.update(matching)
        if matching:
            suppressed.append((finding, matching[0]))
        else:
            kept.append(finding)
    unused = tuple(each for each in suppressions if each not in used)
    return Report(tuple(kept), tuple(suppressed), unused, tuple(dict.fromkeys(notes)))


def details(finding: Finding) -> Iterator[str]:
    """Yield the lines of *finding*: its sentence with its id, its accesses, bytes, the missing edge and the fix."""
    yield f"{finding} [{finding.id}]"
    for access in finding.accesses if finding.rule is None else ():  # the text of a kernel's mistake has its lines
        yield f"    {_described(access)}"
        yield from (f"        from {line}" for line in reversed(access.stack))
    if finding.spans:
        yield f"    bytes: {listed(finding.spans, _SPANS, ', and {:,} more ranges')}"
    if finding.missing and finding.rule is None:
        yield f"    missing: {finding.missing}"
    if finding.fix:
        yield f"    fix: {finding.fix}"
    if finding.tried is not None:
        yield f"    tried: {finding.tried.text}"


def _described(access: Access) -> str:
    by = f" by {access.caller}" if access.caller else ""
    stream = f" in {access.stream}" if access.stream else ""
    return f"{access.site}: {access.what}{stream}{by}{', which writes' if access.writes else ''}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "text": finding.text,
        "count": finding.count,
        "accesses": list(map(asdict, finding.accesses)),
        "spans": list(map(asdict, finding.spans)),
        "missing": finding.missing,
        "fix": finding.fix,
        "tried": None if finding.tried is None else asdict(finding.tried),
        "rule": None if finding.rule is None else finding.rule.name,
        "kernel": finding.kernel,
        "where": finding.where,
    }


# --- SARIF


def _result(finding: Finding, kinds: Sequence[Kind], folder: Path) -> dict[str, Any]:
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    places = [_location(access, folder) for access in finding.accesses]
    result: dict[str, Any] = {
        "ruleId": finding.kind.word,
        "ruleIndex": kinds.index(finding.kind),
        "level": "warning",
        "message": {"text": f"{finding.text.rstrip('.')}.{fix}"},
        "locations": places[-1:],
        "relatedLocations": places[:-1],
        "partialFingerprints": {"acl_py/v1": finding.id},
        "occurrenceCount": finding.count,
    }
    if finding.tried is not None:
        result["properties"] = {"tried": asdict(finding.tried)}
    stacks = [_stack(access, folder) for access in finding.accesses if access.stack]
    return {**result, "stacks": stacks} if stacks else result


def _location(access: Access, folder: Path) -> dict[str, Any]:
    name, line = _place(access)
    message = {"message": {"text": _described(access)}}
    if not name:
        return message
    physical: dict[str, Any] = {"artifactLocation": _artifact(access, folder)}
    if line:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical, **message}


def _stack(access: Access, folder: Path) -> dict[str, Any]:
    """Return the line of *access* and those that led there; as SARIF has it, the innermost is the first."""
    callers = [{"location": {"message": {"text": line}}} for line in reversed(access.stack)]
    return {"message": {"text": access.what}, "frames": [{"location": _location(access, folder)}, *callers]}


def _artifact(access: Access, folder: Path) -> dict[str, str]:
    path = _relative(access, folder)
    if PurePath(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    quoted = Path("/", path).as_uri().removeprefix("file:///")  # percent signs for what a URI cannot have
    return {"uri": quoted, "uriBaseId": "ROOT"}


# --- places


def _place(access: Access) -> tuple[str, int]:
    """Return the name of the file of *access*, and its line; "" and 0 for a line of PTX that has no source."""
    if match := _PTX.fullmatch(access.site):
        return match[1] or "", int(match[2] or 0)
    name, _, line = access.site.rpartition(":")
    return (name, int(line)) if line.isdigit() else (access.site, 0)


def _relative(access: Access, folder: Path) -> str:
    """Return the path of the file of *access* as seen from *folder*, with slashes; in other folders, the whole path."""
    path, root = Path(access.file or _place(access)[0]).resolve(), folder.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


# --- GitHub


def _annotation(finding: Finding, folder: Path) -> Iterator[str]:
    where = ""
    if finding.accesses and _place(finding.accesses[-1])[0]:
        last = finding.accesses[-1]
        where = f" file={_property(_relative(last, folder))},line={_place(last)[1] or 1},title={_property(finding.id)}"
    fix = f"\nfix: {finding.fix}" if finding.fix else ""
    yield f"::warning{where}::{_data(f'{finding}{fix}')}"


def _data(text: str) -> str:
    """Return *text* as the runner's commands want it: percent signs and ends of lines are escaped."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return *text* as the value of a property, in which colons and commas are escaped as well."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
