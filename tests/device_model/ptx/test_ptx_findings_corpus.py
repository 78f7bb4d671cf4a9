"""Mistakes that were put into kernels are found with their lines, and right kernels are not accused."""

import pytest
from checked import check
from corpus import RIGHT, sources, wrong

from device_model.kernel.findings import KernelError

# Both let threads end where others wait for them, and a card does not wait for threads that have ended.
NOT_FOUND = {("mask", "blocksum_int"), ("divergent barrier", "reduce_double")}


def lines_of_findings(name, kernel, type_):
    """What is said about a kernel, by rule or as the text of the error: each with the lines of the source."""
    try:
        _, findings = check("wrong.ptx", name, kernel, type_)
    except KernelError as error:
        return [(str(error), [int(str(error).rpartition(":")[2].split(")")[0])])]
    return [(each.rule.name, [place.source for place in each.places]) for each in findings]


def test_mistakes_are_found_with_their_lines():
    missed, before, count = set(), 0, 0
    for number, text, mistake, line, kernel, type_ in wrong():
        said = lines_of_findings(f"wrong{number}", kernel, type_)
        if not any(mistake.rule in what and before + line in lines for what, lines in said):
            missed.add((mistake.kind, mistake.name))
        before += len(text.splitlines())
        count += 1
    assert missed == NOT_FOUND
    assert count - len(missed) >= 57


@pytest.mark.one_in(3)
@pytest.mark.parametrize("base", [kernel.name for kernel in RIGHT])
def test_right_kernels_are_not_accused_and_give_the_same_with_checks(base):
    for name, _, kernel, type_ in sources():
        if kernel.name == base:
            plain, _ = check("right.ptx", name, kernel, type_, watched=False)
            checked, findings = check("right.ptx", name, kernel, type_)
            assert [str(each) for each in findings] == []
            for one, other in zip(plain, checked, strict=True):
                assert one is other or one == other if isinstance(one, int) else one.tobytes() == other.tobytes()


def test_there_are_a_hundred_right_kernels():
    assert len(list(sources())) >= 100
