"""Makes a program that fails smaller: without the lines that its failure does not need."""

from dataclasses import replace

from tests.ptx.running import difference


def kind_of(failure):
    """Return what stays the same while a program shrinks: whether values differ, or which error there is."""
    return None if failure is None else failure.partition(" ")[0]


def shrunk(program, difference=difference):
    """Return *program* with as few lines as still fail in the same way: *difference* says how."""
    kind = kind_of(difference(program))
    lines = program.text.split("\n")
    size = len(lines) // 2
    while size:
        at = len(lines)
        while at > 0:
            shorter = lines[: max(0, at - size)] + lines[at:]
            if fails(replace(program, text="\n".join(shorter)), kind, difference):
                lines = shorter
            at -= size
        size //= 2
    return replace(program, text="\n".join(lines))


def fails(program, kind, difference):
    """Whether *program* still fails so; the oracle refuses one that has no meaning."""
    try:
        return kind_of(difference(program)) == kind
    except Exception:
        return False
